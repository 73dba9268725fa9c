package sim

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/queue"
	"fanfare/internal/stormtest"
	"fanfare/internal/table"
)

// checkDiskFaults fails a run of seeds on the embedded engine if a kind of fault of the disk never
// occurred.
func checkDiskFaults(t *testing.T, fired Counters) {
	t.Helper()
	for _, kind := range DiskFaults() {
		assert.Positivef(t, fired[kind], "the fault %q never fired in %d seeds", kind, *seeds)
	}
}

// TestSeedsOnTheEmbeddedEngine runs the seeds on the real stores: no answered write is lost,
// whatever the disk does.
func TestSeedsOnTheEmbeddedEngine(t *testing.T) {
	last := uint64(30)
	if testing.Short() {
		last = uint64(stormtest.Runs(2))
	}
	for seed := uint64(1); seed <= last; seed++ {
		res := Run(t, seed, Options{Embedded: true})
		for _, v := range res.Violations {
			t.Errorf("%s: %s; replay with -embedded", res, v)
		}
	}
}

// quietEngine runs f with the engine of a world without processes and faults.
func quietEngine(t *testing.T, f func(t *testing.T, e *engine)) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(quietWorld(), Options{})
		f(t, e)
		assert.Empty(t, e.w.load.violations)
		e.close()
	})
}

// TestAWriteWithAnUnknownOutcomeIsAfterLazyWrites has two writes with an unknown outcome that are on
// the disk. The first write changes the item of a lazy write.
func TestAWriteWithAnUnknownOutcomeIsAfterLazyWrites(t *testing.T) {
	quietEngine(t, func(t *testing.T, e *engine) {
		put := func(pk, value string) table.PutInput {
			return table.PutInput{Item: table.Item{Key: table.Key{PK: pk, SK: "x"}, Attrs: []table.Attr{{Name: "a", Value: table.S(value)}}}}
		}
		lazy := put("u#a", "lazy")
		_, err := e.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{{Put: &lazy}}, Lazy: true})
		require.NoError(t, err)
		for _, in := range []table.PutInput{put("u#a", "first"), put("u#b", "second")} {
			_, err := e.table.Put(t.Context(), in)
			require.NoError(t, err)
			e.unknown = func() error {
				_, err := e.Put(t.Context(), in)
				return err
			}
			e.reconcile(false)
		}
	})
}

// TestATopicIsCheckedAfterManySuspects has a process that died while it worked on messages of two
// topics. After a slow sync the queue writes many acks of the first topic together, and its next sync waits
// for more callers.
func TestATopicIsCheckedAfterManySuspects(t *testing.T) {
	quietEngine(t, func(t *testing.T, e *engine) {
		for topic, n := range map[string]int{queue.TopicPosts: 40, queue.TopicNotices: 2} {
			for i := range n {
				require.NoError(t, e.queue.Publish(topic, message.NewMessage(fmt.Sprint(i), []byte("x"))))
			}
		}
		time.Sleep(lookAgain) // the queue notes the receives
		fs := disktest.New(e.disk.after(100))
		stores, err := openStores(fs, fs)
		require.NoError(t, err)
		fs.Set(func(_, _ string, _ int) error {
			for range 1000 {
				runtime.Gosched() // meanwhile further messages are acked
			}
			return nil
		})
		for _, topic := range queue.Topics() {
			e.checkTopic(stores.queue, topic)
		}
		require.NoError(t, stores.close())
	})
}

// checkArchives fails a run of seeds on the embedded engine if an event of the archives never occurred.
func checkArchives(t *testing.T, fired Counters) {
	t.Helper()
	for _, kind := range ArchiveEvents() {
		assert.Positivef(t, fired[kind], "%q never happened in %d seeds", kind, *seeds)
	}
}

// TestSeedsWithAnArchive runs seeds on the real stores with an archive: what an archive promises is in each
// restore, whatever the disk and the store of objects do. As on the embedded engine without an archive, two runs of a
// seed may differ, because Pebble has goroutines of its own.
func TestSeedsWithAnArchive(t *testing.T) {
	last := uint64(20)
	if testing.Short() {
		last = uint64(stormtest.Runs(2))
	}
	for seed := uint64(1); seed <= last; seed++ {
		o := Options{Embedded: true, Archived: true}
		res := Run(t, seed, o)
		for _, v := range res.Violations {
			t.Errorf("%s: %s; replay with %s", res, v, o.flags())
		}
	}
}
