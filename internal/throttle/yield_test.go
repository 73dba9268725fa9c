package throttle_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/internal/throttle"
)

// slow is a store whose writes take a set time. It keeps the sizes of batches.
type slow struct {
	table.Store
	write time.Duration
	mu    sync.Mutex
	sizes []int
}

func (s *slow) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	<-time.After(s.write)
	return s.Store.Put(ctx, in)
}

func (s *slow) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	<-time.After(s.write)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = append(s.sizes, len(writes))
	return s.Store.BatchWrite(ctx, writes)
}

func (s *slow) taken() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sizes := s.sizes
	s.sizes = nil
	return sizes
}

// entries returns n writes to one partition.
func entries(n int) []table.BatchWrite {
	writes := make([]table.BatchWrite, n)
	for i := range writes {
		writes[i].Put = &table.Item{Key: table.Key{PK: "p", SK: strconv.Itoa(i)}}
	}
	return writes
}

// While ordinary posts are delivered, chunks and backfills write small parts and rest after each
// part. A second after the last ordinary post, chunks and backfills write whole batches again.
// Posts, the API and single writes never rest, and without Rest no work rests (I8).
func TestChunksAndBackfillsYieldToOrdinaryPosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const write = 2 * time.Millisecond
		store := &slow{Store: tabletest.NewMemory(), write: write}
		shares := throttle.Shares{Yield: throttle.Yield{Rest: true}}
		took := func(shares *throttle.Shares, u throttle.Urgency, items int) time.Duration {
			began := time.Now()
			var err error
			if items == 1 {
				_, err = shares.Store(store, u).Put(t.Context(), table.PutInput{Item: *entries(1)[0].Put})
			} else {
				_, err = shares.Store(store, u).BatchWrite(t.Context(), entries(items))
			}
			require.NoError(t, err)
			return time.Since(began)
		}
		post := func() { assert.Equal(t, write, took(&shares, throttle.Posts, 7)) }
		for _, u := range []throttle.Urgency{throttle.Chunks, throttle.Backfills} {
			assert.Equal(t, write, took(&shares, u, 1000), "nothing is delivered")
			// A post that needs chunks is planned with single writes.
			assert.Equal(t, write, took(&shares, throttle.Posts, 1))
			assert.Equal(t, write, took(&shares, u, 1000))
			store.taken()
			post()
			assert.Equal(t, 4*91*write, took(&shares, u, 500), "%d", u)
			assert.Equal(t, []int{7, 128, 128, 128, 116}, store.taken())
			assert.Equal(t, write, took(&shares, u, 1), "a single write")
			assert.Equal(t, write, took(&shares, throttle.API, 1000))
			assert.Equal(t, write, took(&shares, throttle.Posts, 1000))
			var never throttle.Shares
			took(&never, throttle.Posts, 7)
			assert.Equal(t, write, took(&never, u, 1000))

			post()
			<-time.After(time.Second - write - time.Nanosecond)
			assert.Equal(t, 91*write, took(&shares, u, 2), "it ends within a second of the post")
			post()
			<-time.After(time.Second)
			assert.Equal(t, write, took(&shares, u, 1000), "a second after the last post")
		}
	})
}

// While ordinary posts are delivered, the batches in progress of one kind of large work are bounded,
// however many workers write. A second after the last ordinary post the bound ends, and it never
// holds for other work (I8).
func TestBatchesOfLargeWorkThatAreUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const write, workers = 5 * time.Millisecond, 32
		store := &slow{Store: tabletest.NewMemory(), write: write}
		shares := throttle.Shares{Yield: throttle.Yield{AtOnce: 4}}
		stores := map[throttle.Urgency]table.Store{}
		for _, u := range []throttle.Urgency{throttle.API, throttle.Posts, throttle.Chunks, throttle.Backfills} {
			stores[u] = shares.Store(store, u)
		}
		took := func(u throttle.Urgency, workers int, do func(table.Store) (table.WriteResult, error)) time.Duration {
			began := time.Now()
			var writing sync.WaitGroup
			for range workers {
				writing.Go(func() {
					_, err := do(stores[u])
					assert.NoError(t, err)
				})
			}
			writing.Wait()
			return time.Since(began)
		}
		batch := func(s table.Store) (table.WriteResult, error) { return s.BatchWrite(t.Context(), entries(7)) }
		single := func(s table.Store) (table.WriteResult, error) {
			return s.Put(t.Context(), table.PutInput{Item: *entries(1)[0].Put})
		}
		for _, u := range []throttle.Urgency{throttle.Chunks, throttle.Backfills} {
			assert.Equal(t, write, took(u, workers, batch), "nothing is delivered")
			assert.Equal(t, write, took(throttle.Posts, 1, batch))
			assert.Equal(t, workers/4*write, took(u, workers, batch), "%d", u)
			assert.Equal(t, write, took(u, workers, single), "single writes")
			assert.Equal(t, write, took(throttle.API, workers, batch))
			assert.Equal(t, write, took(throttle.Posts, workers, batch))
			store.taken()
			assert.Equal(t, 4*write, took(u, 1, func(s table.Store) (table.WriteResult, error) { return s.BatchWrite(t.Context(), entries(1000)) }))
			assert.Equal(t, []int{256, 256, 256, 232}, store.taken(), "in parts, so that others get a turn")
			<-time.After(time.Second)
			assert.Equal(t, write, took(u, workers, batch), "a second after the last post")
		}
	})
}

// A batch waits for its turn no longer than other writes do, and stops waiting once its worker stops.
func TestABatchThatWaitsTooLongForItsTurnFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shares := throttle.Shares{Yield: throttle.Yield{AtOnce: 1}}
		stuck := shares.Store(&slow{Store: tabletest.NewMemory(), write: time.Hour}, throttle.Chunks)
		_, err := shares.Store(tabletest.NewMemory(), throttle.Posts).BatchWrite(t.Context(), entries(1))
		require.NoError(t, err)
		var first sync.WaitGroup
		first.Go(func() {
			_, err := stuck.BatchWrite(t.Context(), entries(1))
			assert.NoError(t, err)
		})
		synctest.Wait()
		began := time.Now()
		_, err = stuck.BatchWrite(t.Context(), entries(1))
		_, short := errors.AsType[*throttle.ShortError](err)
		assert.True(t, short, "%v", err)
		assert.Equal(t, 2*time.Minute, time.Since(began))
		_, err = shares.Store(tabletest.NewMemory(), throttle.Posts).BatchWrite(t.Context(), entries(1))
		require.NoError(t, err)
		stopped := errors.New("stopped")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(stopped) })
		_, err = stuck.BatchWrite(ctx, entries(1))
		assert.Equal(t, stopped, err)
		first.Wait()
	})
}

// The time that a batch waits for its turn counts as time that it waits for its units: its
// worker's reads must not be older than two minutes when it is sent (I2).
func TestABatchWaitsForItsTurnAndItsUnitsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shares := throttle.Shares{Yield: throttle.Yield{AtOnce: 1}}
		posts := shares.Store(tabletest.NewMemory(), throttle.Posts)
		_, err := posts.BatchWrite(t.Context(), entries(1))
		require.NoError(t, err)
		chunks := shares.Store(&slow{Store: tabletest.NewMemory(), write: 90 * time.Second}, throttle.Chunks)
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		others.Go(func() { // this batch has the only place
			_, err := chunks.BatchWrite(t.Context(), entries(1))
			assert.NoError(t, err)
		})
		synctest.Wait()
		overload(t, &shares) // a limit exists before the flood begins
		others.Go(func() {
			for ctx.Err() == nil {
				<-time.After(time.Second)
				overload(t, &shares)
			}
		})
		for range 8 { // the load is always far above the limit
			others.Go(func() {
				for ctx.Err() == nil {
					if _, err := posts.BatchWrite(ctx, entries(25)); err != nil && ctx.Err() == nil {
						_, short := errors.AsType[*throttle.ShortError](err)
						assert.True(t, short, "%v", err) // the batch may wait until it fails
					}
				}
			})
		}
		began := time.Now()
		_, err = chunks.BatchWrite(t.Context(), entries(1))
		_, short := errors.AsType[*throttle.ShortError](err)
		assert.True(t, short, "%v", err)
		assert.InDelta(t, 120, time.Since(began).Seconds(), 2)
		stop()
		others.Wait()
	})
}

// A rest after a slow write is bounded, and the end of the caller ends the rest. The write has
// taken effect before the rest.
func TestARestIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: tabletest.NewMemory(), write: 100 * time.Millisecond}
		shares := throttle.Shares{Yield: throttle.Yield{Rest: true}}
		_, err := shares.Store(store, throttle.Posts).BatchWrite(t.Context(), entries(2))
		require.NoError(t, err)
		began := time.Now()
		chunks := shares.Store(store, throttle.Chunks)
		_, err = chunks.BatchWrite(t.Context(), entries(2))
		require.NoError(t, err)
		assert.Equal(t, 300*time.Millisecond, time.Since(began))

		ctx, stop := context.WithTimeout(t.Context(), 110*time.Millisecond)
		defer stop()
		began = time.Now()
		_, err = chunks.BatchWrite(ctx, entries(2))
		require.NoError(t, err)
		assert.Equal(t, 110*time.Millisecond, time.Since(began))
	})
}

// A batch that is written in parts fails if a key is in two parts.
func TestABatchInPartsIsValidatedAsAWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: tabletest.NewMemory()}
		shares := throttle.Shares{Yield: throttle.Yield{Rest: true}}
		_, err := shares.Store(store, throttle.Posts).BatchWrite(t.Context(), entries(2))
		require.NoError(t, err)
		store.taken()
		_, err = shares.Store(store, throttle.Chunks).BatchWrite(t.Context(), append(entries(300), entries(1)...))
		_, invalid := errors.AsType[*table.InvalidError](err)
		assert.True(t, invalid, "%v", err)
		assert.Empty(t, store.taken())
	})
}
