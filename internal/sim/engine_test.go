package sim

import (
	"errors"
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
		last = 2
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
		e := newEngine(quietWorld(), nil)
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
		store, broker, err := openStores(fs)
		require.NoError(t, err)
		fs.Set(func(_, _ string, _ int) error {
			for range 1000 {
				runtime.Gosched() // meanwhile further messages are acked
			}
			return nil
		})
		for _, topic := range queue.Topics() {
			e.checkTopic(broker, topic)
		}
		require.NoError(t, errors.Join(broker.Close(), store.Close()))
	})
}
