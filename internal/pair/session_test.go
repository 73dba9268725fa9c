package pair

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/stream"
)

// expect receives a message of each kind.
func expect(t *testing.T, from *link, want ...kind) {
	t.Helper()
	for _, k := range want {
		m, err := from.receive()
		require.NoError(t, err)
		require.Equal(t, k, m.kind)
	}
}

// The end of a log is behind the same place as the log's last bytes. An ack of these bytes does not confirm the end: without the end, the
// standby could not take the next log.
func TestAnAckOfTheBytesDoesNotConfirmTheEndOfTheirLog(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]stream.Kind{"an end": stream.Ends, "a cut": stream.Cut} {
		t.Run(name, func(t *testing.T) {
			opened, err := stream.Open(stream.Config{FS: vfs.NewMem(), Dir: "stream", Spool: 1 << 20, Log: zap.NewNop()}, stream.Position{})
			require.NoError(t, err)
			held := opened.Hold()
			opened.Add(stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: 1})
			opened.Add(stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Log: 1, Data: make([]byte, 10)})
			opened.Add(stream.Frame{Kind: ends, Store: stream.Queue, Log: 1, Offset: 10})
			at := opened.End()
			receiver, err := opened.Resume(at)
			require.NoError(t, err)
			held.Close()

			near, far := net.Pipe()
			p := &Primary{stream: opened, role: &Role{Mode: ModePaired}, tenure: &tenure{}}
			s := &session{primary: p, link: newLink(near, time.Minute), receiver: receiver, at: at, whole: true}
			ctx, stop := context.WithCancel(t.Context())
			written := make(chan error, 1)
			go func() { written <- s.write(ctx) }()
			standby := newLink(far, time.Minute)
			expect(t, standby, msgResume, msgPaired, msgFrames)
			s.acked(at, 1)
			next, err := opened.Resume(at)
			require.NoError(t, err)
			frames, _, _, err := next.Ahead(ctx, 1, stream.Position{})
			require.NoError(t, err)
			require.Len(t, frames, 1, "the frame is gone")
			next.Close()

			opened.Add(stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: 2})
			expect(t, standby, msgFrames)
			s.acked(opened.End(), 2)
			require.Zero(t, opened.Memory(), "the standby has confirmed everything")
			stop()
			require.ErrorIs(t, <-written, context.Canceled)
		})
	}
}

// A standby that opens the stores of its copy is not whole yet: if it ended now, a paired primary could not send another copy. While the
// primary is idle, the acks that are on their way cover everything.
func TestTheTwoPairWhenTheStandbyIsWhole(t *testing.T) {
	t.Parallel()
	opened, err := stream.Open(stream.Config{FS: vfs.NewMem(), Dir: "stream", Spool: 1 << 20, Log: zap.NewNop()}, stream.Position{})
	require.NoError(t, err)
	receiver := opened.Hold()
	opened.Add(stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: 1})
	end := opened.End()
	near, far := net.Pipe()
	timing := Timing{Heartbeat: time.Minute, Lease: time.Hour}.withClock()
	p := &Primary{cfg: PrimaryConfig{Timing: timing}, stream: opened, role: &Role{Mode: ModeAlone}, tenure: &tenure{}, changed: make(chan struct{})}
	p.promise.begin(timing)
	s := &session{primary: p, link: newLink(near, time.Minute), receiver: receiver, at: end, upto: end, announced: end}

	standby := newLink(far, time.Minute)
	early := s.asks()
	ended := make(chan error, 1)
	go func() { ended <- s.complete() }()
	require.False(t, s.acked(end, early), "the standby has no copy")
	late := s.asks()
	expect(t, standby, msgWhole)
	expect(t, standby, msgBeat)
	require.NoError(t, <-ended)
	require.False(t, s.acked(end, late), "the standby was asked before it had the whole copy")
	require.True(t, s.acked(end, late+1))
}

// The copies of a seed have bytes of both stores behind the safe point, and are of different moments. A standby with such copies is not whole
// before a safe point covers them.
func TestASeedIsWholeAtASafePoint(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	opened, err := stream.Open(stream.Config{FS: mem, Dir: "stream", Spool: 1 << 20, Log: zap.NewNop()}, stream.Position{})
	require.NoError(t, err)
	tap := opened.Tap(stream.Queue)
	tap.Created(1, func() (uint64, error) { return 0, nil })
	near, far := net.Pipe()
	timing := Timing{Heartbeat: time.Minute, Lease: time.Hour}.withClock()
	p := &Primary{cfg: PrimaryConfig{FS: mem, Seeds: "seeds", SeedRate: 1 << 20, Timing: timing}, stream: opened, role: &Role{Mode: ModeAlone}, tenure: &tenure{}, changed: make(chan struct{})}
	p.promise.begin(timing)
	p.checkpoint = func(_ context.Context, dir string) error {
		tap.Wrote(1, 0, make([]byte, 10))
		return errors.Join(disk.MakeDir(mem, dir), disk.MakeDir(mem, dir+"/queue"), disk.MakeDir(mem, dir+"/table"))
	}
	receiver := opened.Hold()
	s := &session{primary: p, link: newLink(near, time.Minute), receiver: receiver, at: receiver.Restart()}
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() { written <- s.write(ctx) }()
	standby := newLink(far, time.Minute)
	expect(t, standby, msgSeed, msgFrames)
	tap.Synced(1, 9)
	tap.Synced(1, 10)
	expect(t, standby, msgFrames, msgWhole, msgBeat)
	stop()
	require.ErrorIs(t, <-written, context.Canceled)
}

// A power cut must not bring back a file of the spool that the logs no longer continue.
func TestARemovedFileOfTheSpoolStaysAway(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	opened, err := stream.Open(stream.Config{FS: mem, Dir: "stream", Spool: 1 << 20, Log: zap.NewNop()}, stream.Position{})
	require.NoError(t, err)
	receiver := opened.Hold()
	for log := range uint64(2) {
		opened.Add(stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: log + 1})
		opened.Add(stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Log: log + 1, Data: make([]byte, 10)})
		opened.Add(stream.Frame{Kind: stream.Cut, Store: stream.Queue, Log: log + 1, Offset: 10})
		require.True(t, opened.Tap(stream.Queue).MayGo(log+1))
		_, mark, err := receiver.Ready(1<<20, opened.End())
		require.NoError(t, err)
		receiver.Done(mark)
	}
	require.True(t, opened.Tap(stream.Queue).MayGo(2))
	left, err := mem.CrashClone(vfs.CrashCloneCfg{}).List("stream")
	require.NoError(t, err)
	require.Empty(t, left, "a file of the spool is back")
}
