package embedded_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/queue"
	"fanfare/internal/queue/embedded"
)

// In this test a sync takes half a millisecond, so each publisher could have a sync of its own soon.
func TestManyPublishersShareSyncsAndFewWaitForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const publishers, took, period = 64, 500 * time.Microsecond, 200 * time.Millisecond
		fs := disktest.New(vfs.NewMem())
		b, err := embedded.Create("queue", embedded.Options{FS: fs})
		require.NoError(t, err)
		var syncs atomic.Int64
		fs.Set(func(op, _ string, _ int) error {
			if op == "sync" {
				syncs.Add(1)
				<-time.After(took) // virtual
			}
			return nil
		})
		began := time.Now()
		for range 10 {
			require.NoError(t, b.Publish(queue.TopicLikes, newMessage(0)))
		}
		assert.Equal(t, 10*took, time.Since(began), "one publisher")

		began = time.Now()
		syncs.Store(0)
		var publishing sync.WaitGroup
		for i := range publishers {
			publishing.Go(func() {
				for time.Since(began) < period {
					assert.NoError(t, b.Publish(queue.TopicLikes, newMessage(i)))
					<-time.After(time.Duration(i%16) * 100 * time.Microsecond) // virtual
				}
			})
		}
		publishing.Wait()
		assert.LessOrEqual(t, syncs.Load(), int64(time.Since(began)/(2*time.Millisecond)), "%d publishers", publishers)
		fs.Set(nil)
		require.NoError(t, b.Close())
	})
}
