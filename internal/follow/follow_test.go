package follow_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// A follower has at each restore point what Pebble's own replay of the bytes has, and both have a state of
// the model: from a base that was made under way, over restarts of the primary with and without power.
func TestAFollowerIsThePrimaryAtEachRestorePoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		defer w.stop()
		seed := rapid.Uint64()
		write := func(t *rapid.T) {
			store := rapid.SampledFrom(stores).Draw(t, "store")
			for range rapid.IntRange(1, 8).Draw(t, "batches") {
				w.write(store, seed.Draw(t, "seed"), rapid.Bool().Draw(t, "sync"))
			}
		}
		live := newLive(t)
		defer live.stop()
		w.checkpoint(func() {})
		t.Repeat(map[string]func(*rapid.T){
			"write":      write,
			"write more": write,
			"receive":    func(*rapid.T) { w.receive() },
			"settle":     func(t *rapid.T) { require.NoError(t, w.stream.Settle()) },
			"base":       func(t *rapid.T) { w.checkpoint(func() { write(t) }) },
			"power cut": func(t *rapid.T) {
				w.crash(rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "kept"), seed.Draw(t, "seed"))
			},
			"restart": func(*rapid.T) {
				w.stop()
				w.start()
			},
			"restart in order": func(*rapid.T) { // the archive has the marks of the logs' ends, too
				w.stopAfter(w.receive)
				w.start()
			},
			"restart the follower": func(*rapid.T) { live.restart() },
			"follow":               func(t *rapid.T) { live.follow(w, rapid.IntRange(1, 200).Draw(t, "frames")) },
			"restore": func(t *rapid.T) {
				w.restore(t, rapid.SampledFrom(w.bases).Draw(t, "base"), rapid.Uint64().Draw(t, "at"))
			},
		})
		for _, store := range stores { // Pebble keeps the last block of a log in memory until a sync
			w.write(store, 0, true)
		}
		require.NoError(t, w.stream.Settle())
		w.receive()
		live.follow(w, len(w.archive))
		for store, got := range live.finish() {
			require.Equal(t, len(w.batches[store]), w.check("the follower at the end", store, got))
		}
		w.restore(t, w.bases[len(w.bases)-1], 0)
	})
}

// restore compares a follower of a base with Pebble's replay at a restore point.
func (w *world) restore(t *rapid.T, b base, draw uint64) {
	points := []int{len(w.archive)}
	for n := b.to; n < len(w.archive); n++ {
		if n > 0 && w.archive[n-1].Time != w.archive[n].Time {
			points = append(points, n)
		}
	}
	cut := points[draw%uint64(len(points))]
	dbs, replayed := map[stream.Store]*pebble.DB{}, map[stream.Store]map[string]string{}
	for _, store := range stores {
		replayed[store] = w.replay(b, store, cut)
		dbs[store] = openBase(t, b, store)
	}
	follower := follow.New(dbs[stream.Queue], dbs[stream.Table])
	for _, store := range stores {
		require.NoError(t, follower.Base(store, b.fs[store], "base"))
	}
	at := stream.Position{}
	for _, f := range w.archive[b.from:cut] {
		at = at.After(f)
		require.NoError(t, follower.Take(f))
	}
	require.NoError(t, follower.Take(stream.SafeAt(at, 0)))
	require.NoError(t, follower.Finish())
	followed := map[stream.Store]map[string]string{}
	for _, store := range stores {
		followed[store] = dump(t, dbs[store])
		require.NoError(t, dbs[store].Close())
		require.True(t, maps.Equal(replayed[store], followed[store]), "Pebble's replay and the follower differ: %s", difference(replayed[store], followed[store]))
		w.check("the follower", store, followed[store])
	}
	w.checkOrder(followed)
}

// openBase opens a copy of the base of a store.
func openBase(t *rapid.T, b base, store stream.Store) *pebble.DB {
	mem := vfs.NewMem()
	_, err := vfs.Clone(b.fs[store], mem, "base", "base")
	require.NoError(t, err)
	db, err := pebble.Open("base", options(mem))
	require.NoError(t, err)
	return db
}

// replay lets Pebble open a base with the log files that the frames make.
func (w *world) replay(b base, store stream.Store, cut int) map[string]string {
	files := map[uint64][]byte{}
	put := func(f stream.Frame) {
		if have := files[f.Log]; f.Kind == stream.Cut && f.Offset < uint64(len(have)) {
			files[f.Log] = have[:f.Offset]
		} else if end := f.Offset + uint64(len(f.Data)); f.Kind == stream.Bytes && end > uint64(len(have)) {
			files[f.Log] = append(have[:f.Offset:f.Offset], f.Data...)
		}
	}
	for f, err := range follow.Logs(b.fs[store], "base", store, stream.Place{}, 0) {
		require.NoError(w, err)
		put(f)
	}
	for _, f := range w.archive[b.from:cut] {
		if f.Store == store && (files[f.Log] != nil || f.Kind == stream.Bytes && f.Offset == 0) {
			put(f)
		}
	}
	mem := vfs.NewMem()
	_, err := vfs.Clone(b.fs[store], mem, "base", "base")
	require.NoError(w, err)
	for log, data := range files {
		f, err := mem.Create(fmt.Sprintf("base/%06d.log", log), vfs.WriteCategoryUnspecified)
		require.NoError(w, err)
		_, err = f.Write(data)
		require.NoError(w, err)
		require.NoError(w, f.Close())
	}
	db, err := pebble.Open("base", options(mem))
	require.NoError(w, err)
	got := dump(w.T, db)
	require.NoError(w, db.Close())
	return got
}

// live is a follower that begins with empty stores. Its stores do not sync; after a restart it takes all
// frames again.
type live struct {
	t        *rapid.T
	mem      *vfs.MemFS
	dbs      map[stream.Store]*pebble.DB
	follower *follow.Follower
	taken    int
	at       stream.Position
}

func newLive(t *rapid.T) *live {
	l := &live{t: t, mem: vfs.NewCrashableMem()}
	l.open()
	return l
}

func (l *live) open() {
	l.dbs, l.taken, l.at = map[stream.Store]*pebble.DB{}, 0, stream.Position{}
	for _, store := range stores {
		db, err := pebble.Open(dirOf(store), options(l.mem))
		require.NoError(l.t, err)
		l.dbs[store] = db
	}
	l.follower = follow.New(l.dbs[stream.Queue], l.dbs[stream.Table])
}

func (l *live) stop() {
	for _, db := range l.dbs {
		require.NoError(l.t, db.Close())
	}
}

func (l *live) restart() {
	after := l.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 2))})
	require.NoError(l.t, l.follower.Finish())
	l.stop()
	l.mem = after
	l.open()
}

func (l *live) follow(w *world, n int) {
	for ; n > 0 && l.taken < len(w.archive); n-- {
		f := w.archive[l.taken]
		require.NoError(l.t, l.follower.Take(f))
		l.taken, l.at = l.taken+1, l.at.After(f)
		if n%7 == 1 {
			require.NoError(l.t, l.follower.Take(stream.SafeAt(l.at, 0)))
		}
	}
	require.NoError(l.t, l.follower.Take(stream.SafeAt(l.at, 0)))
}

func (l *live) finish() map[stream.Store]map[string]string {
	require.NoError(l.t, l.follower.Finish())
	got := map[stream.Store]map[string]string{}
	for _, store := range stores {
		got[store] = dump(l.t, l.dbs[store])
	}
	return got
}
