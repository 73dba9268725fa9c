package pair

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/stream"
)

// stopping is a primary whose standby stops in order: a sync of the standby's disk takes until all messages are sent.
type stopping struct {
	*testing.T
	first, rest []message
	mode        string
	files       *disktest.FS
	stop        func()
	acked       stream.Position // the newest position that the standby has confirmed
	done        chan struct{}
}

// stopDuring lets a standby have a session with a primary that sends the messages first. While the standby brings
// the next message to its disk, it stops in order, and the messages after that one arrive while the standby sends its last message.
func stopDuring(t *testing.T, mode string, first, rest []message) (*Standby, stream.Position) {
	t.Helper()
	s, all := openTestStandby(t, mode)
	p := &stopping{T: t, first: first, rest: rest, mode: mode, files: disktest.New(s.cfg.FS), done: make(chan struct{})}
	if s.cfg.FS, s.cfg.Register = p.files, (&entries{}); s.tail != nil {
		s.tail.disk.FS = p.files
	}
	ctx, stop := context.WithCancel(all)
	defer stop()
	p.stop = stop
	near, far := net.Pipe()
	sessions := make(chan net.Conn, 1)
	sessions <- near
	s.cfg.Dial = func(context.Context) (net.Conn, error) {
		select {
		case conn := <-sessions:
			return conn, nil
		default:
			stop()
			return nil, errors.New("no more sessions")
		}
	}
	go p.serve(far)
	_, err := s.Run(ctx)
	require.NoError(t, err)
	<-p.done
	return s, p.acked
}

func (p *stopping) serve(far net.Conn) {
	defer close(p.done)
	hello := primaryHello(ModeAlone)
	hello.Register = (&entries{}).Name()
	if _, err := greet(far, hello); !assert.NoError(p, err) {
		return
	}
	acks := make(chan struct{})
	go func() {
		defer close(acks)
		p.learn(far)
	}()
	for _, m := range p.first {
		p.send(far, m)
		<-time.After(moment)
	}
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p.files.Set(func(op, name string, _ int) error {
		if op == "sync" && (p.mode == ModeSeeding || strings.HasSuffix(name, tailExtension)) {
			once.Do(func() { close(held) })
			<-release
		}
		return nil
	})
	p.send(far, message{msgBeat, make([]byte, 8)})
	p.send(far, p.rest[0])
	<-held
	p.stop()
	for _, m := range p.rest[1:] {
		<-time.After(time.Millisecond)
		p.send(far, m)
	}
	<-time.After(time.Millisecond)
	close(release)
	<-time.After(time.Minute)
	_ = far.Close() // the standby has closed it
	<-acks
}

func (p *stopping) send(far net.Conn, m message) { _, _ = far.Write(appendMessage(nil, m)) } // the standby may have closed it

// learn reads the messages of the standby.
func (p *stopping) learn(far net.Conn) {
	for from := bufio.NewReader(far); ; {
		m, err := readMessage(from)
		if err != nil {
			return
		}
		if at, _, err := parseAck(m.data); m.kind == msgAck && err == nil {
			p.acked = most(p.acked, at)
		}
	}
}

func framesOf(frames ...stream.Frame) message {
	var data []byte
	for _, f := range frames {
		data = stream.Append(data, f)
	}
	return message{msgFrames, data}
}

// wholeLog returns the frames of a log of the queue.
func wholeLog(n uint64) []stream.Frame {
	f := stream.Frame{Store: stream.Queue, Log: n}
	begins, bytes, more, ends := f, f, f, f
	begins.Kind, bytes.Kind, more.Kind, ends.Kind = stream.Begins, stream.Bytes, stream.Bytes, stream.Ends
	bytes.Data, more.Data, more.Offset, ends.Offset = make([]byte, 10), make([]byte, 10), 10, 20
	return []stream.Frame{begins, bytes, more, ends}
}

// A standby that stops in order keeps a prefix of the stream of its primary, and confirms no other place, although messages arrive while
// the standby sends its last message.
func TestAStandbyThatStopsKeepsAPrefixOfTheStream(t *testing.T) {
	t.Parallel()
	for name, cuts := range map[string][]int{
		"a message has a log":              {}, // nothing else shows that a whole log is missing
		"a message has one frame":          {1, 2, 3},
		"a message begins with a log":      {2},
		"a message has the end of a log":   {3},
		"a message has the bytes of a log": {1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 40 {
				synctest.Test(t, func(t *testing.T) {
					first, sent := []message{{msgResume, nil}, framesOf(wholeLog(1)[:2]...)}, wholeLog(1)
					rest := []message{framesOf(wholeLog(1)[2:]...)}
					for n := uint64(2); n < 9; n++ {
						log, at := wholeLog(n), 0
						for _, cut := range append(cuts, 4) {
							rest = append(rest, framesOf(log[at:cut]...))
							at = cut
						}
						sent = append(sent, log...)
					}
					s, acked := stopDuring(t, ModeFollowing, first, rest)
					kept := framesIn(t, s.tail)
					require.Equal(t, sent[:len(kept)], kept, "the tail has a hole; %v was confirmed", acked)
					require.True(t, s.tail.end().Covers(acked), "%v was confirmed", acked)
					require.NoError(t, s.Close())
				})
			}
		})
	}
}

// framesIn returns the frames of a tail without its safe points.
func framesIn(t *testing.T, tail *tail) (frames []stream.Frame) {
	t.Helper()
	for r := tail.reader(); ; {
		f, ok, _, err := r.next()
		require.NoError(t, err)
		if !ok {
			require.NoError(t, r.close())
			return frames
		}
		if f.Kind != stream.Safe {
			frames = append(frames, f)
		}
	}
}

// A tail confirms no place behind a hole, whatever it is given: the place is computed from its frames.
func TestATailHasNoHole(t *testing.T) {
	t.Parallel()
	log, next := wholeLog(1), wholeLog(2)
	cut := stream.Frame{Kind: stream.Cut, Store: stream.Queue, Log: 1, Offset: 5}
	for name, c := range map[string]struct {
		have   []stream.Frame
		behind stream.Frame // behind the hole
	}{
		"a log has not ended":        {log[:3], next[0]},
		"a log has not begun":        {log, next[1]},
		"bytes are missing":          {log[:2], log[3]},
		"a cut is behind the bytes":  {log[:2], stream.Frame{Kind: stream.Cut, Store: stream.Queue, Log: 1, Offset: 11}},
		"repeated bytes end nothing": {append(log[:3:3], log[1]), next[0]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem()
			tail, err := openTail(mem, "tail", 1)
			require.NoError(t, err)
			require.NoError(t, tail.append(c.have...))
			require.ErrorIs(t, tail.append(c.behind), ErrDamaged)
			at, err := tail.sync()
			require.NoError(t, err)
			require.Equal(t, tail.end(), at)
			require.True(t, at.Queue.Before(c.behind.End()), "%v is confirmed", at)

			tail.pending, tail.buf = append(tail.pending, c.behind), nil // a version without this check has written it
			_, err = tail.sync()
			require.NoError(t, errors.Join(err, tail.disk.Close()))
			require.Equal(t, at, tail.end(), "the place behind a hole")
			_, err = openTail(mem, "tail", 1)
			require.ErrorIs(t, err, ErrDamagedCopy, "a start finds the hole")
		})
	}
	for name, frames := range map[string][]stream.Frame{
		"a log ends":             append(log, next...),
		"a log is cut":           append(append(log[:2:2], cut), next...),
		"an end comes twice":     append(append(log, log[3]), next...),
		"an old log comes again": append(append(log, next[:2]...), append(log, next...)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem()
			tail, err := openTail(mem, "tail", 1)
			require.NoError(t, err)
			for _, f := range frames {
				require.NoError(t, tail.append(f))
				_, err := tail.sync()
				require.NoError(t, err)
			}
			for len(tail.files) > 1 { // each trimmed tail opens, too
				require.NoError(t, tail.trim(tail.files[1].number))
				_, err := openTail(mem, "tail", 1)
				require.NoError(t, err)
			}
		})
	}
}
