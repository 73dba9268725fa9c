package pair

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/stream"
)

// confirmed appends the frames behind the end of a tail, and expects that they are on the disk.
func confirmed(t *testing.T, tail *tail, frames []stream.Frame) {
	t.Helper()
	for _, f := range frames {
		if end := tail.end().Queue; end.Before(f.End()) || end == (stream.Place{}) {
			require.NoError(t, tail.append(f))
		}
	}
	at, err := tail.sync()
	require.NoError(t, err)
	require.Equal(t, frames[len(frames)-1].End(), at.Queue)
	require.Equal(t, at, tail.end())
}

// has expects that a tail has the bytes of frames, in order. Some may be there twice.
func has(t *testing.T, tail *tail, frames []stream.Frame) {
	t.Helper()
	want := frames[len(frames)-1].End()
	require.Equal(t, want, tail.end().Queue)
	at := stream.Place{}
	for r := tail.reader(); ; {
		f, ok, _, err := r.next()
		require.NoError(t, err)
		if !ok {
			require.NoError(t, r.close())
			break
		}
		if f.Kind == stream.Bytes {
			require.False(t, at.Before(stream.Place{Log: f.Log, Offset: f.Offset}), "bytes are missing before %d", f.Offset)
		}
		if f.Kind != stream.Safe && at.Before(f.End()) {
			at = f.End()
		}
	}
	require.Equal(t, want, at)
}

// What a tail confirms after a failed write or sync survives a power cut. After a failed sync, the system shows the bytes, but has dropped
// them, and the next sync of the file does nothing (P2).
func TestATailIsNotContinuedAfterAnError(t *testing.T) {
	t.Parallel()
	var frames []stream.Frame
	frames = append(frames, stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: 1})
	for i := range uint64(5) {
		frames = append(frames, stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Log: 1, Offset: 10_000 * i, Data: make([]byte, 10_000)})
	}
	for _, c := range []struct {
		name     string
		op       string
		before   int // the frames that are on the disk before the errors
		failures int
		restart  bool
	}{
		{"a write", "write", 3, 1, false},
		{"a write, and a start", "write", 3, 1, true},
		{"writes", "write", 3, 3, false},
		{"a sync", "sync", 3, 1, false},
		{"a sync, and a start", "sync", 3, 1, true},
		{"syncs", "sync", 3, 3, false},
		{"a create", "create", 3, 2, false},
		{"the first write", "write", 0, 2, false},
		{"the first sync", "sync", 0, 2, false},
		{"the first sync, and a start", "sync", 0, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			require.NoError(t, disk.MakeDir(mem, "data"))
			files, fails, lost := disktest.New(mem), false, map[string]bool{}
			files.Set(func(op, name string, _ int) error {
				switch {
				case op == "create":
					delete(lost, name)
				case op == "sync" && lost[name]:
					return disktest.ErrLie
				}
				if !fails || op != c.op {
					return nil
				}
				lost[name] = op == "sync" && name != "data/tail"
				return syscall.EIO
			})
			tail, err := openTail(files, "data/tail", 1<<20)
			require.NoError(t, err)
			if c.before > 0 {
				confirmed(t, tail, frames[:c.before])
				if c.op == "create" {
					require.NoError(t, tail.disk.Close())
				}
			}
			fails = true
			for range c.failures {
				require.NoError(t, tail.append(frames[c.before:5]...))
				_, err := tail.sync()
				require.ErrorIs(t, err, syscall.EIO)
				tail.drop()
				require.Equal(t, frames[:max(c.before, 1)][max(c.before, 1)-1].End().Offset, tail.end().Queue.Offset)
			}
			fails = false
			start := func() {
				require.NoError(t, tail.disk.Close())
				tail, err = openTail(files, "data/tail", 1<<20)
				require.NoError(t, err)
			}
			if c.restart {
				start()
			} else {
				confirmed(t, tail, frames[:4])
				start()
			}
			confirmed(t, tail, frames)
			has(t, tail, frames)
			require.NoError(t, tail.disk.Close())
			after, err := openTail(mem.CrashClone(vfs.CrashCloneCfg{}), "data/tail", 1<<20)
			require.NoError(t, err)
			has(t, after, frames)
		})
	}
}

// A safe point that the primary has announced stays, even if its frame never reaches the disk (P9).
func TestAnAnnouncementIsNotForgotten(t *testing.T) {
	t.Parallel()
	at := func(offset uint64) stream.Position {
		return stream.Position{Queue: stream.Place{Log: 1, Offset: offset}}
	}
	tail, err := openTail(vfs.NewMem(), "tail", 1<<20)
	require.NoError(t, err)
	require.NoError(t, tail.append(stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: 1}, stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Log: 1, Data: make([]byte, 10)}))
	_, err = tail.sync()
	require.NoError(t, err)
	require.NoError(t, tail.append(stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Log: 1, Offset: 10, Data: make([]byte, 10)}, stream.SafeAt(at(20), 0)))
	tail.drop()
	require.Equal(t, at(10), tail.announced)
	require.Equal(t, at(10), tail.have.at)
}

// The bytes behind a cut are lost at the primary, so the safe points of its next log do not announce them.
func TestBytesBehindACutAreNotAnnounced(t *testing.T) {
	t.Parallel()
	at := func(log, offset uint64) stream.Position {
		return stream.Position{Queue: stream.Place{Log: log, Offset: offset}}
	}
	tail, err := openTail(vfs.NewMem(), "tail", 1<<20)
	require.NoError(t, err)
	require.NoError(t, tail.append(stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: 1}, stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Log: 1, Data: make([]byte, 20)}))
	_, err = tail.sync()
	require.NoError(t, err)
	require.NoError(t, tail.append(stream.Frame{Kind: stream.Cut, Store: stream.Queue, Log: 1, Offset: 10}, stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: 2}, stream.SafeAt(at(2, 0), 0)))
	tail.drop()
	require.Equal(t, at(1, 10), tail.announced)
	require.Equal(t, at(1, 20), tail.have.at)
}

// A file before the newest one has no part of a frame, so its damage is no end of the tail.
func TestADamagedFileOfTheTailIsRefused(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	tail, err := openTail(mem, "tail", 1)
	require.NoError(t, err)
	for i := range uint64(2) {
		log := stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: i + 1}
		ends := log
		ends.Kind = stream.Ends
		require.NoError(t, tail.append(log, ends))
		_, err = tail.sync()
		require.NoError(t, err)
	}
	data := read(t, mem, tail.disk.Path(0))
	f, err := mem.Create(tail.disk.Path(0), vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(data[:len(data)-1])
	require.NoError(t, errors.Join(err, f.Close()))
	_, err = openTail(mem, "tail", 1)
	require.ErrorIs(t, err, ErrDamagedCopy)
}
