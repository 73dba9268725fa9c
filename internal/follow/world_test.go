package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"fanfare/internal/disk"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

var stores = []stream.Store{stream.Queue, stream.Table}

func other(store stream.Store) stream.Store { return stream.Queue + stream.Table - store }

func dirOf(store stream.Store) string { return []string{"", "queue", "table"}[store] }

// The keys that each batch of the model sets: its own number, and the number of batches of the
// other store that were answered before it.
const keyNumber, keySaw, keyFormat = "number", "saw", "format"

type entry struct {
	key, value string
	remove     bool
}

// base is a checkpoint of both stores, made while the world went on.
type base struct {
	fs       map[stream.Store]*vfs.MemFS
	from, to int // the frames from which on it is followed, and after which it is whole
}

// world is a primary with an archive, and the model of what its stores hold.
type world struct {
	*rapid.T
	clock    int64
	mem      *vfs.MemFS
	stream   *stream.Stream
	receiver *stream.Receiver
	dbs      map[stream.Store]*disk.DB
	batches  map[stream.Store][][]entry
	synced   map[stream.Store]int // the number of batches that were answered after a sync
	archive  []stream.Frame
	at       stream.Position // behind the archive
	ended    stream.Position // where the stream ended at the last stop
	bases    []base
}

func newWorld(t *rapid.T) *world {
	w := &world{
		T: t, mem: vfs.NewCrashableMem(), dbs: map[stream.Store]*disk.DB{},
		batches: map[stream.Store][][]entry{}, synced: map[stream.Store]int{},
	}
	w.start()
	return w
}

func options(fs vfs.FS) *pebble.Options {
	return &pebble.Options{
		FS: fs, MemTableSize: 64 << 10, MemTableStopWritesThreshold: 4, L0StopWritesThreshold: 1000,
		FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{},
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// start starts the primary as a process does: first the rest of the logs, then the stores.
func (w *world) start() {
	var err error
	w.stream, err = stream.Open(stream.Config{FS: w.mem, Dir: "stream", Spool: 1 << 30, Log: zap.NewNop(), Now: func() time.Time {
		w.clock++
		return time.UnixMilli(w.clock)
	}}, w.at)
	require.NoError(w, err)
	w.receiver = w.stream.Receive(w.at)
	w.clock++
	w.checkEnd()
	for _, store := range stores {
		require.NoError(w, disk.MakeDir(w.mem, dirOf(store)))
		for frame, err := range follow.Logs(w.mem, dirOf(store), store, w.stream.End().Of(store), w.clock) {
			if err != nil {
				names, _ := w.mem.List(dirOf(store))
				w.Fatalf("logs of store %d behind %v, the archive has %v, in %v: %v", store, w.stream.End(), w.at, names, err)
			}
			w.stream.Add(frame)
		}
	}
	for _, store := range stores {
		fs := disk.TappedFS{FS: w.mem, Tap: w.stream.Tap(store)}
		db, err := disk.Open(nil, dirOf(store), zap.NewNop(), options(fs), disk.Format{Key: []byte(keyFormat), Known: 1})
		require.NoError(w, err)
		w.dbs[store] = db
	}
}

// checkEnd expects that the logs end behind all that the archive has, so that a start is not taken for the
// start of an old copy, and not behind all that was written.
func (w *world) checkEnd() {
	for _, store := range stores {
		end, err := follow.End(w.mem, dirOf(store))
		require.NoError(w, err)
		require.False(w, end.Before(w.at.Of(store)), "the logs of store %d end at %v, the archive at %v", store, end, w.at)
		most := w.ended.Of(store)
		most.Offset += 18 // the rest of a block, or the mark of the end
		require.False(w, most.Before(end), "the logs of store %d end at %v, the stream ended at %v", store, end, w.ended)
	}
}

func (w *world) stop() { w.stopAfter(func() {}) }

// stopAfter stops the primary. last is called when the stores are closed.
func (w *world) stopAfter(last func()) {
	for store, db := range w.dbs { // none after a start that failed
		delete(w.dbs, store)
		require.NoError(w, db.Close(func() {}))
	}
	last()
	w.ended = w.stream.End()
	require.NoError(w, w.stream.Close())
}

// write writes a batch to a store.
func (w *world) write(store stream.Store, seed uint64, sync bool) {
	rng := rand.New(rand.NewPCG(seed, 0))
	n := len(w.batches[store]) + 1
	entries := []entry{{key: keyNumber, value: strconv.Itoa(n)}, {key: keySaw, value: strconv.Itoa(w.synced[other(store)])}}
	for range rng.IntN(20) {
		e := entry{key: fmt.Sprintf("key%03d", rng.IntN(200)), remove: rng.IntN(4) == 0}
		if !e.remove {
			size := rng.IntN(300)
			if rng.IntN(200) == 0 {
				size = 70_000 // a record over several blocks of the log, and a batch larger than the memtable
			}
			e.value = string(bytes.Repeat([]byte{byte(rng.Uint32())}, size))
		}
		entries = append(entries, e)
	}
	batch := w.dbs[store].NewBatch()
	for _, e := range entries {
		if e.remove {
			require.NoError(w, batch.Delete([]byte(e.key), nil))
		} else {
			require.NoError(w, batch.Set([]byte(e.key), []byte(e.value), nil))
		}
	}
	w.batches[store] = append(w.batches[store], entries)
	if w.stream.Memory() > 8<<20 { // nothing runs that moves frames to the spool
		require.NoError(w, w.stream.Settle())
		w.receive()
	}
	if !sync {
		require.NoError(w, batch.Commit(pebble.NoSync))
		return
	}
	require.NoError(w, batch.Commit(pebble.Sync))
	w.synced[store] = n
}

// receive moves all up to the safe point to the archive.
func (w *world) receive() {
	for safe := w.stream.Safe(); !w.at.Covers(safe); {
		frames, mark, err := w.receiver.Next(context.Background(), 100_000)
		if err != nil {
			w.Fatalf("receive: %v", err)
		}
		for _, f := range frames {
			w.archive, w.at = append(w.archive, f), w.at.After(f)
		}
		w.receiver.Done(mark)
	}
}

// checkpoint makes a base; between the copies of the two stores, write is called.
func (w *world) checkpoint(write func()) {
	w.receive()
	b := base{fs: map[stream.Store]*vfs.MemFS{}, from: len(w.archive)}
	for _, store := range stores {
		dir := fmt.Sprint("copies/", dirOf(store), len(w.bases)) // a power cut may bring a removed one back
		require.NoError(w, disk.MakeDir(w.mem, "copies"))
		require.NoError(w, w.dbs[store].Checkpoint(dir))
		b.fs[store] = vfs.NewMem()
		_, err := vfs.Clone(w.mem, b.fs[store], dir, "base")
		require.NoError(w, errors.Join(err, w.mem.RemoveAll(dir)))
		write()
	}
	require.NoError(w, w.stream.Settle())
	w.receive()
	b.to = len(w.archive)
	w.bases = append(w.bases, b)
}

// crash cuts the power and starts the primary again. The disk keeps a part of the bytes that were not
// synced.
func (w *world) crash(kept int, seed uint64) {
	after := w.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rand.New(rand.NewPCG(seed, 1))})
	w.stop()
	w.mem = after
	w.start()
	for _, store := range stores {
		got := dump(w.T, w.dbs[store].DB)
		n := w.check("after a crash", store, got)
		require.GreaterOrEqual(w, n, w.synced[store], "store %d lost answered writes", store)
		// The writes behind it never were.
		w.batches[store] = w.batches[store][:n]
	}
}

// check expects one of the states of the model, and returns its number.
func (w *world) check(what string, store stream.Store, got map[string]string) int {
	n, _ := strconv.Atoi(got[keyNumber])
	require.LessOrEqual(w, n, len(w.batches[store]), what)
	want := map[string]string{}
	for _, entries := range w.batches[store][:n] {
		for _, e := range entries {
			if e.remove {
				delete(want, e.key)
			} else {
				want[e.key] = e.value
			}
		}
	}
	require.True(w, maps.Equal(want, got), "%s: store %d differs from its state after %d batches: %s", what, store, n, difference(want, got))
	return n
}

// checkOrder expects that a store has the writes of the other one that were answered before its own.
func (w *world) checkOrder(got map[stream.Store]map[string]string) {
	for _, store := range stores {
		saw, _ := strconv.Atoi(got[store][keySaw])
		has, _ := strconv.Atoi(got[other(store)][keyNumber])
		require.LessOrEqual(w, saw, has, "store %d is ahead of the other one", store)
	}
}

func difference(want, got map[string]string) (text string) {
	for key, value := range want {
		if got[key] != value {
			text += fmt.Sprintf(" %s has %d bytes, want %d;", key, len(got[key]), len(value))
		}
	}
	for key := range got {
		if _, is := want[key]; !is {
			text += fmt.Sprintf(" %s should not be;", key)
		}
	}
	return text
}

func dump(t require.TestingT, db *pebble.DB) map[string]string {
	got := map[string]string{}
	it, err := db.NewIter(nil)
	require.NoError(t, err)
	for valid := it.First(); valid; valid = it.Next() {
		if string(it.Key()) != keyFormat {
			got[string(it.Key())] = string(it.Value())
		}
	}
	require.NoError(t, errors.Join(it.Error(), it.Close()))
	return got
}
