package follow_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// recorded returns the frames of a table that work wrote to, without a safe point. They end with the end of its only log.
func recorded(t *testing.T, work func(db *pebble.DB, mem *vfs.MemFS)) (frames []stream.Frame) {
	t.Helper()
	mem := vfs.NewMem()
	s, err := stream.Open(stream.Config{FS: mem, Dir: "stream", Spool: 1 << 30, Log: zap.NewNop(), Now: time.Now}, stream.Position{})
	require.NoError(t, err)
	r := s.Receive(stream.Position{})
	o := options(disk.TappedFS{FS: mem, Tap: s.Tap(stream.Table)})
	o.MemTableSize = 4 << 20
	db, err := disk.Open(nil, "table", zap.NewNop(), o, disk.Format{Key: []byte(keyFormat), Known: 1})
	require.NoError(t, err)
	work(db.DB, mem)
	require.NoError(t, db.Close(func() {}))
	for at := (stream.Position{}); !at.Covers(s.End()); {
		more, _, err := r.Next(t.Context(), 1<<20)
		require.NoError(t, err)
		for _, f := range more {
			at = at.After(f)
		}
		frames = append(frames, more...)
	}
	end := s.End().Table
	return append(frames, stream.Frame{Kind: stream.Ends, Store: stream.Table, Log: end.Log, Offset: end.Offset})
}

// two returns a follower of new stores, and its table.
func two(t *testing.T) (*follow.Follower, *pebble.DB) {
	t.Helper()
	mem, dbs := vfs.NewMem(), map[stream.Store]*pebble.DB{}
	for _, store := range stores {
		db, err := pebble.Open(dirOf(store), options(mem))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, db.Close()) })
		dbs[store] = db
	}
	return follow.New(dbs[stream.Queue], dbs[stream.Table]), dbs[stream.Table]
}

// takeAll takes frames and a safe point behind them, and ends the follower.
func takeAll(f *follow.Follower, frames []stream.Frame) error {
	at := stream.Position{}
	for _, frame := range frames {
		if err := f.Take(frame); err != nil {
			return err
		}
		at = at.After(frame)
	}
	return errors.Join(f.Take(stream.SafeAt(at, 0)), f.Finish())
}

func set(t *testing.T, db *pebble.DB, key string) {
	t.Helper()
	require.NoError(t, db.Set([]byte(key), []byte("value"), pebble.Sync))
}

// S6: a follower stops before a batch of which it does not know all effects, or whose effect is in no log.
func TestABatchThatTheLogDoesNotHoldIsRefused(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(db *pebble.DB, mem *vfs.MemFS) error{
		"a merge":           func(db *pebble.DB, _ *vfs.MemFS) error { return db.Merge([]byte("a"), nil, pebble.Sync) },
		"a range":           func(db *pebble.DB, _ *vfs.MemFS) error { return db.DeleteRange([]byte("a"), []byte("b"), pebble.Sync) },
		"a single deletion": func(db *pebble.DB, _ *vfs.MemFS) error { return db.SingleDelete([]byte("a"), pebble.Sync) },
		"range keys": func(db *pebble.DB, _ *vfs.MemFS) error {
			return db.RangeKeySet([]byte("a"), []byte("b"), nil, nil, pebble.Sync)
		},
		"an ingested table": func(db *pebble.DB, mem *vfs.MemFS) error {
			f, err := mem.Create("a.sst", vfs.WriteCategoryUnspecified)
			require.NoError(t, err)
			w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{TableFormat: db.FormatMajorVersion().MaxTableFormat()})
			return errors.Join(w.Set([]byte("before"), nil), w.Close(), db.Ingest(t.Context(), []string{"a.sst"}))
		},
	} {
		frames := recorded(t, func(db *pebble.DB, mem *vfs.MemFS) {
			set(t, db, "before")
			require.NoError(t, work(db, mem), name)
			set(t, db, "behind")
		})
		f, table := two(t)
		assert.ErrorIs(t, takeAll(f, frames), follow.ErrUnknownBatch, name)
		got := dump(t, table)
		assert.Contains(t, got, "before", name)
		assert.NotContains(t, got, "behind", name)
	}
}

// S3: nothing is applied behind the safe point.
func TestNothingIsAppliedBehindTheSafePoint(t *testing.T) {
	t.Parallel()
	frames := recorded(t, func(db *pebble.DB, _ *vfs.MemFS) {
		set(t, db, "a")
		set(t, db, "b")
	})
	last := len(frames) - 2 // the end of the log is a frame of its own
	for safe := range last {
		f, table := two(t)
		at := stream.Position{}
		for i, frame := range frames {
			require.NoError(t, f.Take(frame))
			if i < safe {
				at = at.After(frame)
			}
		}
		require.NoError(t, f.Take(stream.SafeAt(at, 0)))
		assert.Equal(t, at, f.Position())
		require.NoError(t, f.Finish())
		f2, want := two(t)
		require.NoError(t, takeAll(f2, frames[:safe]))
		assert.Equal(t, dump(t, want), dump(t, table), safe)
	}
}

func TestAMissingFrameIsNoticed(t *testing.T) {
	t.Parallel()
	frames := recorded(t, func(db *pebble.DB, _ *vfs.MemFS) {
		set(t, db, "a")
		set(t, db, "b")
	})
	next := stream.Frame{Kind: stream.Begins, Store: stream.Table, Log: frames[0].Log + 10}
	frames = append(frames, next, stream.Frame{Kind: stream.Bytes, Store: stream.Table, Log: next.Log, Data: []byte("x")})
	for i := range len(frames) - 1 {
		f, _ := two(t)
		assert.ErrorIs(t, takeAll(f, slices.Delete(slices.Clone(frames), i, i+1)), follow.ErrMissing, "without frame %d of %d", i, len(frames))
	}
	f, _ := two(t)
	assert.NoError(t, takeAll(f, frames))
}

// Frames that a receiver has twice change nothing.
func TestRepeatedFramesChangeNothing(t *testing.T) {
	t.Parallel()
	frames := recorded(t, func(db *pebble.DB, _ *vfs.MemFS) {
		set(t, db, "a")
		set(t, db, "b")
	})
	once, want := two(t)
	require.NoError(t, takeAll(once, frames))
	for i := range frames {
		f, table := two(t)
		require.NoError(t, takeAll(f, append(slices.Clone(frames[:i]), frames...)))
		assert.Equal(t, dump(t, want), dump(t, table))
	}
}

func TestADamagedLogIsNoticed(t *testing.T) {
	t.Parallel()
	frames := recorded(t, func(db *pebble.DB, _ *vfs.MemFS) {
		for range 50 {
			set(t, db, string(make([]byte, 1000)))
		}
	})
	for i, frame := range frames[:len(frames)/2] {
		if frame.Kind != stream.Bytes {
			continue
		}
		damaged := slices.Clone(frames)
		damaged[i].Data = slices.Clone(frame.Data)
		damaged[i].Data[len(frame.Data)/2] ^= 1
		f, _ := two(t)
		assert.ErrorIs(t, takeAll(f, damaged), follow.ErrDamaged, i)
	}
}

// After a crash the writer has less than it sent. Bytes behind the safe point are forgotten, and a writer that lacks
// what was safe is refused.
func TestACutTakesBackWhatWasNotSafe(t *testing.T) {
	t.Parallel()
	frames := recorded(t, func(db *pebble.DB, _ *vfs.MemFS) {
		set(t, db, "a")
		set(t, db, "b")
	})
	frames = frames[:len(frames)-1]
	a := slices.IndexFunc(frames, func(f stream.Frame) bool { return slices.Contains(f.Data, 'a') && f.Offset > 0 })
	cut := stream.Frame{Kind: stream.Cut, Store: stream.Table, Log: frames[a].Log, Offset: frames[a].Offset + uint64(len(frames[a].Data))}
	safe := stream.SafeAt(stream.Position{}.After(frames[a]), 0)

	f, table := two(t)
	for i, frame := range frames {
		require.NoError(t, f.Take(frame))
		if i == a {
			require.NoError(t, f.Take(safe))
		}
	}
	require.NoError(t, f.Take(cut))
	next := stream.Frame{Kind: stream.Begins, Store: stream.Table, Log: cut.Log + 1}
	require.NoError(t, f.Take(next))
	require.NoError(t, f.Take(stream.SafeAt(stream.Position{}.After(next), 0)))
	got := dump(t, table)
	assert.Contains(t, got, "a")
	assert.NotContains(t, got, "b")

	f, _ = two(t)
	cut.Offset = frames[a].Offset
	err := takeAll(f, append(slices.Clone(frames[:a+1]), cut))
	assert.NoError(t, err, "the bytes were not safe yet")
	f, _ = two(t)
	for _, frame := range append(slices.Clone(frames[:a+1]), safe, cut) {
		require.NoError(t, f.Take(frame))
	}
	assert.ErrorIs(t, f.Take(safe), follow.ErrRewound)
}

// A log that is gone cannot be handed on.
func TestLogsThatAreGoneAreMissing(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("table", 0o700))
	for _, err := range follow.Logs(mem, "table", stream.Table, stream.Place{Log: 3}, 0) {
		assert.ErrorIs(t, err, follow.ErrMissing)
	}
	for range follow.Logs(mem, "table", stream.Table, stream.Place{}, 0) {
		t.Error("a new directory has a log")
	}
	f, _ := two(t)
	assert.ErrorIs(t, f.Base(stream.Table, mem, "table"), follow.ErrMissing)
}
