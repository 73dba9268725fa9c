package pair

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/objects"
	"fanfare/internal/stormtest"
	"fanfare/internal/stream"
)

// moment is a time in which a machine handles all messages that have arrived.
const moment = 10 * time.Millisecond

func testTiming() Timing {
	start := time.Now()
	return Timing{Heartbeat: 500 * time.Millisecond, Patience: 2 * time.Second, Lease: 3 * time.Second, Now: func() time.Duration { return time.Since(start) }}
}

// peer is the other machine of a session: it greets, sends messages, each after a moment, and ends the session.
type peer struct {
	hello    Hello
	messages []message
}

// serve has a session at a connection. It ignores what the machine under test sends.
func (p peer) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := greet(conn, p.hello); err != nil {
		return
	}
	go io.Copy(io.Discard, conn) //nolint:errcheck // ends with the connection
	for _, m := range p.messages {
		if _, err := conn.Write(appendMessage(nil, m)); err != nil {
			return
		}
		<-time.After(moment)
	}
}

// entries is a register in memory.
type entries struct {
	mu      sync.Mutex
	entry   Entry
	version int // 0 for no entry
}

// Name implements Register.
func (r *entries) Name() string { return "entries" }

func (r *entries) Read(context.Context) (Entry, objects.Version, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.version == 0 {
		return Entry{}, "", ErrNoEntry
	}
	return r.entry, objects.Version(fmt.Sprint(r.version)), nil
}

func (r *entries) Swap(_ context.Context, _ objects.Version, next Entry) (objects.Version, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entry, r.version = next, r.version+1
	return objects.Version(fmt.Sprint(r.version)), nil
}

// pairEntry returns a register with the pair of openTestStandby.
func pairEntry() *entries {
	return &entries{version: 1, entry: Entry{Lineage: "L", Term: 1, Primary: "A", Mode: ModePaired, Standby: "B"}}
}

// openTestStandby opens a standby in a mode on a disk in memory. The primary is the disk A of the lineage L in term 1.
func openTestStandby(t *testing.T, mode string, peers ...peer) (*Standby, context.Context) {
	t.Helper()
	mem := vfs.NewMem()
	role := &Role{Lineage: "L", Disk: "B", Role: RoleStandby, Mode: mode, Term: 1, Peer: "A", path: filepath.Join(t.TempDir(), RoleFile)}
	require.NoError(t, role.Save())
	require.NoError(t, disk.MakeDir(mem, "data"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	next := make(chan peer, len(peers))
	for _, p := range peers {
		next <- p
	}
	var sessions sync.WaitGroup
	t.Cleanup(func() { cancel(); sessions.Wait() })
	if mode != ModeSeeding {
		for _, name := range []string{"data/queue", "data/table"} {
			db, err := openTestStore(mem, name)
			require.NoError(t, err)
			require.NoError(t, db.Close(func() {}))
		}
	}
	s, err := OpenStandby(StandbyConfig{
		Role: role, FS: mem, Dir: "data", Stream: "data/stream", TailSize: 100, Timing: testTiming(), DataFormat: 1, Version: "v", Log: zap.NewNop(),
		Register: pairEntry(), FailoverAfter: time.Hour,
		Open: func(_ stream.Store, dir string) (*disk.DB, error) { return openTestStore(mem, dir) },
		Dial: func(context.Context) (net.Conn, error) {
			select {
			case p := <-next:
				near, far := net.Pipe()
				sessions.Go(func() { p.serve(ctx, far) })
				return near, nil
			default:
				cancel()
				return nil, errors.New("no more sessions")
			}
		},
	})
	require.NoError(t, err)
	return s, ctx
}

func openTestStore(mem vfs.FS, dir string) (*disk.DB, error) {
	options := &pebble.Options{FS: mem, FormatMajorVersion: pebble.FormatValueSeparation, Logger: silent{}}
	return disk.Open(nil, dir, zap.NewNop(), options, disk.Format{Key: []byte("format"), Known: 1})
}

type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// primaryHello is the hello of the primary of openTestStandby.
func primaryHello(mode string) Hello {
	h := (&Role{Lineage: "L", Disk: "A", Role: RolePrimary, Mode: mode, Term: 1}).hello(stream.Position{}, 1, "v")
	h.Lease, h.Register = testTiming().Lease.Milliseconds(), (&entries{}).Name()
	if mode == ModePaired {
		h.Peer = "B"
	}
	return h
}

// The rest of a seed that was cut is a tail without stores.
func TestASessionDoesNotResumeTheRestOfASeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, ctx := openTestStandby(t, ModeSeeding,
			peer{primaryHello(ModeAlone), []message{{msgSeed, nil}}},
			peer{primaryHello(ModeAlone), []message{{msgResume, nil}, {msgFrames, nil}}},
		)
		_, err := s.Run(ctx)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	})
}

// A standby that cannot store that a seed replaces its data keeps its data.
func TestAStandbyKeepsItsDataUntilItsRoleIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seeds := peer{primaryHello(ModeAlone), []message{{msgSeed, nil}}}
		s, ctx := openTestStandby(t, ModeFollowing, seeds, seeds)
		s.role.path = filepath.Join(filepath.Dir(s.role.path), "gone", RoleFile)
		_, err := s.Run(ctx)
		require.NoError(t, err)
		require.Equal(t, ModeFollowing, s.role.Mode)
		for range 2 {
			err = s.Promote(t.Context(), true)
			require.Error(t, err, "the role cannot be stored")
			require.NotErrorIs(t, err, ErrStopped, "the stores are closed too early")
		}
		require.NoError(t, s.Close())
	})
}

// A primary that left out a part of the stream would leave a tail that nobody can apply. The next session sends the part.
func TestAStreamWithAHoleEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]stream.Frame{
		"bytes":    {Kind: stream.Bytes, Store: stream.Queue, Log: 1, Offset: 20, Data: make([]byte, 10)},
		"an end":   {Kind: stream.Ends, Store: stream.Queue, Log: 1, Offset: 20},
		"one log":  {Kind: stream.Bytes, Store: stream.Queue, Log: 2, Data: make([]byte, 10)},
		"a cut":    {Kind: stream.Cut, Store: stream.Queue, Log: 1, Offset: 11},
		"the rest": {Kind: stream.Cut, Store: stream.Queue, Log: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				frames := func(frames ...stream.Frame) (data []byte) {
					for _, f := range frames {
						data = stream.Append(data, f)
					}
					return data
				}
				begin := []stream.Frame{{Kind: stream.Begins, Store: stream.Queue, Log: 1}, {Kind: stream.Bytes, Store: stream.Queue, Log: 1, Data: make([]byte, 10)}}
				s, ctx := openTestStandby(t, ModeFollowing,
					peer{primaryHello(ModeAlone), []message{{msgResume, nil}, {msgFrames, frames(begin...)}, {msgFrames, frames(after)}}},
					peer{primaryHello(ModeAlone), []message{{msgResume, nil}, {msgFrames, frames(stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Log: 1, Offset: 10, Data: make([]byte, 3)})}}},
				)
				_, err := s.Run(ctx)
				require.NoError(t, err)
				require.Equal(t, stream.Place{Log: 1, Offset: 13}, s.tail.end().Queue)
				require.NoError(t, s.Close())
			})
		})
	}
}

// An operator may promote a standby before it runs.
func TestAPromotedStandbyDoesNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, ctx := openTestStandby(t, ModeFollowing)
		begin := stream.Place{Log: 1}
		require.NoError(t, s.tail.append(stream.SafeAt(stream.Position{Queue: begin, Table: begin}, 0)))
		_, err := s.tail.sync()
		require.NoError(t, err)
		require.NoError(t, s.Promote(ctx, false))
		outcome, err := s.Run(ctx)
		require.NoError(t, err)
		require.Equal(t, Stopped, outcome)
		require.Equal(t, RolePrimary, s.Status().Role)
		require.NoError(t, s.Close())
	})
}

func (drawing) number(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// Whatever a primary sends, and whatever an operator asks for meanwhile, a standby returns errors.
func TestNoMessageBreaksAStandby(t *testing.T) {
	t.Parallel()
	for seed := range uint64(stormtest.Runs(300)) {
		synctest.Test(t, func(t *testing.T) {
			d := drawing{rand.New(rand.NewPCG(seed, 0))}
			defer func() {
				if fault := recover(); fault != nil {
					panic(fmt.Sprintf("seed %d: %v", seed, fault))
				}
			}()
			var peers []peer
			for range 1 + d.IntN(4) {
				peers = append(peers, d.peer(primaryHello(pick(d, ModeAlone, ModePaired)), pick(d,
					[]message{{msgResume, nil}, {msgPaired, nil}, {msgFrames, d.frames()}, {msgTakeOver, d.number(2)}},
					[]message{{msgSeed, nil}, {msgFile, []byte("dev-secret")}, {msgContent, d.junk()}, {msgFrames, d.frames()}, {msgListed, d.junk()}, {msgWhole, d.junk()}, {msgPaired, nil}},
				)...))
			}
			s, ctx := openTestStandby(t, pick(d, ModeSeeding, ModeFollowing, ModeFollowing, ModeFollowing), peers...)
			r := &entries{version: min(1, d.IntN(4)), entry: Entry{Lineage: "L", Term: 1, Primary: pick(d, "A", "B"), Mode: pick(d, ModeAlone, ModePaired), Standby: pick(d, "B", "C")}}
			s.cfg.Register, s.cfg.FailoverAfter = r, pick(d, time.Hour, 5*time.Second)
			operated := make(chan struct{})
			go func() {
				defer close(operated)
				for range d.IntN(6) {
					<-time.After(time.Duration(d.IntN(50)) * time.Millisecond)
					d.operate(ctx, s)
				}
			}()
			_, err := s.Run(ctx)
			<-operated
			s.Status()
			err = errors.Join(err, s.Promote(t.Context(), true), s.Promote(t.Context(), true))
			t.Log(seed, err, s.Close(), s.Close())
		})
	}
}

// openTestPrimary opens the primary of the disk A, whose stores have a log each.
func openTestPrimary(t *testing.T, mode string) *Primary {
	t.Helper()
	mem := vfs.NewMem()
	role := &Role{Lineage: "L", Disk: "A", Role: RolePrimary, Mode: mode, Term: 1, path: filepath.Join(t.TempDir(), RoleFile)}
	if mode == ModePaired {
		role.Peer = "B"
	}
	require.NoError(t, role.Save())
	p, err := OpenPrimary(PrimaryConfig{
		Role: role, FS: mem, Stream: "stream", Seeds: "seeds", Tail: "tail", Queue: "queue", Table: "table", Spool: 1 << 20, SeedRate: 1 << 20,
		Timing: testTiming(), Register: pairEntry(), DataFormat: 1, Version: "v", Log: zap.NewNop(),
	})
	require.NoError(t, err)
	for store := stream.Queue; store <= stream.Table; store++ {
		p.Tap(store).Created(2, func() (uint64, error) { return 9, nil })
		p.Tap(store).Wrote(2, 0, bytes.Repeat([]byte{1}, 9))
	}
	return p
}

// Whatever a standby sends, and whatever the process asks for meanwhile, a primary returns errors.
func TestNoMessageBreaksAPrimary(t *testing.T) {
	t.Parallel()
	for seed := range uint64(stormtest.Runs(300)) {
		synctest.Test(t, func(t *testing.T) {
			d := drawing{rand.New(rand.NewPCG(seed, 0))}
			p := openTestPrimary(t, pick(d, ModeAlone, ModePaired))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			var calls sync.WaitGroup
			calls.Go(func() { p.Run(ctx) })
			if d.IntN(2) == 0 {
				late := time.Duration(d.IntN(100)) * time.Millisecond
				calls.Go(func() {
					<-time.After(late)
					soon, done := context.WithTimeout(ctx, time.Second)
					defer done()
					_ = p.HandOver(soon) // any error will do
				})
			}
			for range 1 + d.IntN(5) {
				d.ask(ctx, p)
				at := pick(d, d.position(), stream.Position{Queue: stream.Place{Log: 2, Offset: 9}, Table: stream.Place{Log: 2}})
				hello := (&Role{Lineage: "L", Disk: pick(d, "B", "C"), Role: RoleStandby, Mode: pick(d, ModePaired, ModeFollowing), Term: 1, Peer: "A"}).hello(at, 1, "v")
				hello.Lease, hello.Register = pick[int64](d, 3000, 3000, 3000, 0), pairEntry().Name()
				near, far := net.Pipe()
				served := make(chan error, 1)
				go func() { served <- p.Serve(ctx, near) }()
				ack := message{msgAck, appendAck(nil, pick(d, p.end(), d.position()), 1)}
				d.peer(hello, ack, ack, message{msgTaken, p.end().Append(nil)}).serve(ctx, far)
				t.Log(seed, <-served)
			}
			d.ask(ctx, p)
			p.StopWaiting()
			<-time.After(2 * time.Second)
			soon, done := context.WithTimeout(ctx, time.Second)
			require.Error(t, p.HandOver(soon), "there is no session")
			done()
			cancel()
			calls.Wait()
			require.NoError(t, p.Close())
			p.Status()
		})
	}
}
