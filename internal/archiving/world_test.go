package archiving_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/archive"
	"fanfare/internal/archiving"
	"fanfare/internal/disk"
	"fanfare/internal/follow"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

var stores = []stream.Store{stream.Queue, stream.Table}

func dirOf(store stream.Store) string { return []string{"", "queue", "table"}[store] }

// away is a store of objects that answers nothing while it is away. A creation takes the time takes.
type away struct {
	objects.Store
	mu    sync.Mutex
	is    bool
	takes time.Duration
}

func (a *away) delay(takes time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.takes = takes
}

func (a *away) set(is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.is = is
}

func (a *away) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.is {
		return objects.ErrAway
	}
	return nil
}

// Create implements objects.Store. The calls with which a process looks for its term fail, too.
func (a *away) Create(ctx context.Context, name string, body objects.Body) error {
	if err := a.err(); err != nil {
		return err
	}
	a.mu.Lock()
	half := a.takes / 2
	a.mu.Unlock()
	pass(half)
	err := a.Store.Create(ctx, name, body)
	pass(half)
	return err
}

// world is a data directory with two stores, its archive, and the process that writes.
type world struct {
	*testing.T
	rng     *rand.Rand
	mem     *vfs.MemFS
	dir     string // of the state
	objects *away
	spool   int64
	baseLog int64
	every   time.Duration
	shared  *archiving.Shared // nil without a pair
	log     *zap.Logger
	logs    *observer.ObservedLogs

	*archiving.Archiving
	closing sync.Mutex // guards dbs against a checkpoint
	dbs     map[stream.Store]*disk.DB
	count   map[stream.Store]int
	end     context.CancelFunc
	ran     chan error

	running []func() // end what runs
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("archive", 0o700))
	store, err := objects.OpenDirectory(mem, "archive")
	require.NoError(t, err)
	core, logs := observer.New(zap.InfoLevel)
	return &world{
		T: t, rng: rand.New(rand.NewPCG(seed, 0)), mem: vfs.NewCrashableMem(), dir: t.TempDir(), objects: &away{Store: store}, spool: 1 << 30, baseLog: 1 << 30, every: time.Second,
		log: zap.New(core), logs: logs, count: map[stream.Store]int{},
	}
}

func options(fs vfs.FS) *pebble.Options {
	return &pebble.Options{FS: fs, MemTableSize: 64 << 10, MemTableStopWritesThreshold: 4, L0StopWritesThreshold: 1000, FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{}}
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// open opens the archive of a directory, but no store.
func (w *world) open(mem *vfs.MemFS, dir string) (*archiving.Archiving, error) {
	w.Helper()
	state, err := archive.LoadState(dir)
	require.NoError(w, err)
	return archiving.Open(w.Context(), archiving.Config{
		FS: mem, Stream: "stream", Queue: "queue", Table: "table", Spool: w.spool, Every: w.every, Base: "base", BaseLog: w.baseLog, Keep: 2 * time.Hour, State: state, Shared: w.shared,
		Open:    func(context.Context) (objects.Store, error) { return w.objects, w.objects.err() },
		Version: "v", DataFormat: 2, Log: w.log,
	})
}

// start starts a process.
func (w *world) start() {
	w.Helper()
	a, err := w.open(w.mem, w.dir)
	require.NoError(w, err)
	w.Archiving = a
	w.openStores(a.Tapped)
	ctx, end := context.WithCancel(context.Background())
	w.end, w.ran = end, make(chan error, 1)
	ended := make(chan struct{})
	go func() { w.ran <- a.Run(ctx, w.checkpoint); close(ended) }()
	w.running = append(w.running, func() { end(); <-ended })
}

// abandon ends all that runs in a test that has failed. Otherwise the bubble has goroutines at its end, and ends the other tests of the package.
func (w *world) abandon() {
	for _, end := range slices.Backward(w.running) {
		end()
	}
	for _, db := range w.dbs {
		if err := db.Close(func() {}); err != nil {
			w.Log("a store of the failed test:", err)
		}
	}
}

func (w *world) openStores(fs func(stream.Store) vfs.FS) {
	w.Helper()
	w.dbs = map[stream.Store]*disk.DB{}
	for _, store := range stores {
		db, err := disk.Open(nil, dirOf(store), zap.NewNop(), options(fs(store)), disk.Format{Key: []byte("format"), Known: 1})
		require.NoError(w, err)
		w.dbs[store] = db
	}
}

func (w *world) closeStores() {
	w.Helper()
	w.closing.Lock()
	defer w.closing.Unlock()
	defer func() { w.dbs = nil }()
	for _, db := range w.dbs {
		require.NoError(w, db.Close(func() {}))
	}
}

// stop stops the process in order.
func (w *world) stop() {
	w.Helper()
	w.closeStores()
	w.end()
	require.NoError(w, <-w.ran)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	require.NoError(w, errors.Join(w.Drain(ctx), w.Close()))
}

// die ends the process without a stop. Of the bytes that were not synced, the disk keeps a part; after kill -9
// all of them.
func (w *world) die(kept int) {
	w.Helper()
	after := w.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: w.rng})
	w.end()
	require.NoError(w, <-w.ran)
	w.closeStores() // the old process writes to a disk that no longer counts
	require.NoError(w, w.Close())
	w.mem = after
}

// write writes some batches to the stores.
func (w *world) write(batches int) {
	w.Helper()
	for range batches {
		store := stores[w.rng.IntN(2)]
		w.count[store]++
		batch := w.dbs[store].NewBatch()
		require.NoError(w, batch.Set([]byte("count"), fmt.Append(nil, w.count[store]), nil))
		for range w.rng.IntN(10) {
			key := fmt.Appendf(nil, "key%03d", w.rng.IntN(100))
			if w.rng.IntN(4) == 0 {
				require.NoError(w, batch.Delete(key, nil))
				continue
			}
			value := make([]byte, w.rng.IntN(300))
			if w.rng.IntN(100) == 0 {
				value = make([]byte, 70_000)
			}
			for i := range value {
				value[i] = byte(w.rng.Uint32())
			}
			require.NoError(w, batch.Set(key, value, nil))
		}
		require.NoError(w, batch.Commit(&pebble.WriteOptions{Sync: w.rng.IntN(2) == 0}))
	}
}

func dump(t require.TestingT, db *pebble.DB) map[string]string {
	got := map[string]string{}
	it, err := db.NewIter(nil)
	require.NoError(t, err)
	for valid := it.First(); valid; valid = it.Next() {
		got[string(it.Key())] = string(it.Value())
	}
	require.NoError(t, errors.Join(it.Error(), it.Close()))
	return got
}

// checkpoint copies the stores as a process does: the stores continue.
func (w *world) checkpoint(_ context.Context, dir string) error {
	w.closing.Lock()
	defer w.closing.Unlock()
	if w.dbs == nil {
		return errors.New("the stores are closed")
	}
	err := disk.MakeDir(w.mem, dir)
	for _, store := range stores {
		err = errors.Join(err, w.dbs[store].Checkpoint(w.mem.PathJoin(dir, dirOf(store))))
	}
	return err
}

// restored applies the segments of the archive to its newest base, or to empty stores if withBase is false, and
// returns the data.
func (w *world) restored(withBase bool) map[stream.Store]map[string]string {
	w.Helper()
	a, err := archive.New(w.objects.Store, time.Now)
	require.NoError(w, err)
	mem, first := vfs.NewMem(), archive.BaseID{}
	if withBase {
		first = w.fetch(a, mem)
	}
	dbs := map[stream.Store]*pebble.DB{}
	var follower *follow.Follower
	for _, store := range stores {
		opened := vfs.NewMem() // the follower reads the logs of the base, which Pebble would remove
		if withBase {
			_, err := vfs.Clone(mem, opened, dirOf(store), dirOf(store))
			require.NoError(w, err)
		}
		db, err := pebble.Open(dirOf(store), options(opened))
		require.NoError(w, err)
		dbs[store] = db
	}
	follower = follow.New(dbs[stream.Queue], dbs[stream.Table])
	if withBase {
		for _, store := range stores {
			require.NoError(w, follower.Base(store, mem, dirOf(store)))
		}
	}
	w.follow(a, first, follower)
	got := map[stream.Store]map[string]string{}
	for store, db := range dbs {
		got[store] = dump(w, db)
		require.NoError(w, db.Close())
	}
	return got
}

// fetch writes the files of the newest base to a file system.
func (w *world) fetch(a *archive.Archive, mem *vfs.MemFS) archive.BaseID {
	w.Helper()
	ids, err := a.Bases(w.Context())
	require.NoError(w, err)
	require.NotEmpty(w, ids)
	id := ids[len(ids)-1]
	b, err := a.Base(w.Context(), id)
	require.NoError(w, err)
	for _, f := range b.Files {
		content, err := objects.Read(w.Context(), w.objects.Store, archive.FileName(f.SHA256), 1<<30)
		require.NoError(w, err)
		require.NoError(w, mem.MkdirAll(mem.PathDir(f.Name), 0o700))
		file, err := mem.Create(f.Name, vfs.WriteCategoryUnspecified)
		require.NoError(w, err)
		_, err = file.Write(content)
		require.NoError(w, errors.Join(err, file.Close()))
	}
	return id
}

// follow applies the segments of the newest chain from a base on.
func (w *world) follow(a *archive.Archive, from archive.BaseID, follower *follow.Follower) {
	w.Helper()
	chain, err := a.Chain(w.Context(), 0, from.Term)
	require.NoError(w, err)
	for _, link := range chain {
		first, last, err := a.Span(w.Context(), link)
		require.NoError(w, err)
		if link.Number == from.Term {
			first = from.First
		}
		for s, err := range a.Segments(w.Context(), link.Number, first, last) {
			require.NoError(w, err)
			require.True(w, !s.Gap || link.Number == from.Term, "the archive has a gap")
			require.True(w, !link.Cut || link.Upto.Covers(s.End), "the directory's own terms continue at their ends")
			for _, f := range decode(w, s.Frames) {
				require.NoError(w, follower.Take(f))
			}
		}
	}
	require.NoError(w, follower.Finish())
}

// data returns the data of the directory.
func (w *world) data() map[stream.Store]map[string]string {
	w.Helper()
	got := map[stream.Store]map[string]string{}
	for _, store := range stores {
		mem := vfs.NewMem()
		_, err := vfs.Clone(w.mem, mem, dirOf(store), dirOf(store))
		require.NoError(w, err)
		db, err := pebble.Open(dirOf(store), options(mem))
		require.NoError(w, err)
		got[store] = dump(w, db)
		require.NoError(w, db.Close())
	}
	return got
}

// same expects that the archive has what the directory has.
func (w *world) same(withBase bool) {
	w.Helper()
	want, got := w.data(), w.restored(withBase)
	for _, store := range stores {
		require.Equal(w, want[store]["count"], got[store]["count"], "the number of batches of store %d", store)
		require.Truef(w, maps.Equal(want[store], got[store]), "store %d differs", store)
	}
}
