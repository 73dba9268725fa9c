package embedded

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/table"
)

// In this test a sync takes half a millisecond, so each writer could have a sync of its own soon.
func TestManyWritersShareSyncsAndFewWaitForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const writers, took, period = 64, 500 * time.Microsecond, 200 * time.Millisecond
		fs := disktest.New(vfs.NewMem())
		s, err := Create("table", Options{FS: fs, SweepEvery: -1})
		require.NoError(t, err)
		var syncs atomic.Int64
		fs.Set(func(op, _ string, _ int) error {
			if op == "sync" {
				syncs.Add(1)
				<-time.After(took) // virtual
			}
			return nil
		})
		put := func(writer, n int) {
			_, err := s.Put(t.Context(), table.PutInput{Item: table.Item{Key: table.Key{PK: fmt.Sprint(writer), SK: fmt.Sprint(n)}}})
			assert.NoError(t, err)
		}
		began := time.Now()
		for n := range 10 {
			put(0, n)
		}
		assert.Equal(t, 10*took, time.Since(began), "one writer")

		began = time.Now()
		syncs.Store(0)
		var writing sync.WaitGroup
		for i := range writers {
			writing.Go(func() {
				for n := 0; time.Since(began) < period; n++ {
					put(i, n)
					<-time.After(time.Duration(i%16) * 100 * time.Microsecond) // virtual
				}
			})
		}
		writing.Wait()
		assert.LessOrEqual(t, syncs.Load(), int64(time.Since(began)/(2*time.Millisecond)), "%d writers", writers)
		fs.Set(nil)
		require.NoError(t, s.Close())
	})
}
