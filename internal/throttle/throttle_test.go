package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/internal/throttle"
)

// offered is the load of one kind of work: rate units become due each second, and the workers of
// the kind write these units in batches.
type offered struct {
	urgency              throttle.Urgency
	rate, batch, workers int
}

// Each kind of work offers the same load all the time, while the table becomes smaller.
// The least urgent kind slows down first, the API last. When the table is large again,
// everything that was due is written.
func TestUnderThrottlingTheLeastUrgentWorkSlowsDownFirst(t *testing.T) {
	t.Parallel()
	kinds := []offered{
		{throttle.API, 25, 1, 8}, {throttle.Posts, 50, 10, 4}, {throttle.Chunks, 75, 25, 4}, {throttle.Backfills, 100, 1, 4},
	}
	synctest.Test(t, func(t *testing.T) {
		memory := tabletest.NewMemory()
		limited := tabletest.NewLimited(memory, 500)
		var shares throttle.Shares
		var due, done [4]atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var running sync.WaitGroup
		for _, kind := range kinds {
			u, store := kind.urgency, shares.Store(limited, kind.urgency)
			queued := make(chan int64, 1<<16)
			running.Go(func() {
				defer close(queued)
				for ctx.Err() == nil {
					queued <- due[u].Add(int64(kind.batch)) - int64(kind.batch)
					<-time.After(time.Second * time.Duration(kind.batch) / time.Duration(kind.rate))
				}
			})
			for range kind.workers {
				running.Go(func() {
					for first := range queued {
						writes := make([]table.BatchWrite, kind.batch)
						for i := range writes {
							writes[i].Put = &table.Item{Key: table.Key{PK: fmt.Sprint("k", u), SK: strconv.FormatInt(first+int64(i), 10)}}
						}
						for failed := true; failed; {
							var err error
							if kind.batch == 1 {
								_, err = store.Put(t.Context(), table.PutInput{Item: *writes[0].Put})
							} else {
								_, err = store.BatchWrite(t.Context(), writes)
							}
							failed = err != nil
						}
						done[u].Add(int64(kind.batch))
					}
				})
			}
		}
		for _, step := range []struct {
			limit float64
			// slow is the kind that writes a part of its due units. More urgent kinds write all their due
			// units, and less urgent kinds write almost none.
			slow throttle.Urgency
		}{{500, 4}, {200, throttle.Backfills}, {100, throttle.Chunks}, {60, throttle.Posts}} {
			limited.SetLimit(tabletest.Writes, step.limit, 0)
			<-time.After(8 * time.Second)
			const period = 12
			var before, rates [4]int64
			for i := range rates {
				before[i] = done[i].Load()
			}
			<-time.After(period * time.Second)
			for i := range rates {
				rates[i] = (done[i].Load() - before[i]) / period
			}
			t.Logf("%4.0f units/s: %v a second", step.limit, rates)
			for i, kind := range kinds {
				switch full := int64(kind.rate); {
				case kind.urgency < step.slow:
					assert.GreaterOrEqualf(t, rates[i], full*9/10, "kind %d at %v units/s", i, step.limit)
				case kind.urgency == step.slow:
					assert.Positivef(t, rates[i], "kind %d at %v units/s", i, step.limit)
					assert.Lessf(t, rates[i], full*9/10, "kind %d at %v units/s", i, step.limit)
				default:
					assert.LessOrEqualf(t, rates[i], full/10, "kind %d at %v units/s", i, step.limit)
				}
			}
		}
		stop()
		limited.SetLimit(tabletest.Writes, 1e6, 0)
		running.Wait()
		for _, kind := range kinds {
			items, _, err := table.Collect(memory.Query(t.Context(), table.Query{PK: fmt.Sprint("k", kind.urgency)}), 0)
			require.NoError(t, err)
			assert.Len(t, items, int(due[kind.urgency].Load()))
		}
		<-time.After(time.Minute)
		assert.Zero(t, shares.Throttle.Limit(), "the limit a minute after the last refusal")
	})
}

// overload makes or lowers a common limit: the table refuses 13 writes at once, four times each.
func overload(t *testing.T, shares *throttle.Shares) {
	t.Helper()
	api := shares.Store(tabletest.NewLimited(tabletest.NewMemory(), 0), throttle.API)
	var writing sync.WaitGroup
	for i := range 13 {
		writing.Go(func() {
			_, err := api.Put(t.Context(), table.PutInput{Item: table.Item{Key: table.Key{PK: strconv.Itoa(i), SK: "s"}}})
			assert.Error(t, err)
		})
	}
	writing.Wait()
}

// A write that is not sent within two minutes fails. So no write follows from much older reads, and
// no write blocks a worker for longer.
func TestAWriteThatWaitsTooLongFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var shares throttle.Shares
		overload(t, &shares)
		assert.Positive(t, shares.Throttle.Limit())
		var flood sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		store := shares.Store(tabletest.NewMemory(), throttle.Posts)
		for range 8 { // the load is always far above the limit
			flood.Go(func() {
				for ctx.Err() == nil {
					_, _ = store.Delete(ctx, table.DeleteInput{Key: table.Key{PK: "p", SK: "s"}}) // the write may fail after its wait
				}
			})
		}
		// Refusals every second keep the limit low.
		flood.Go(func() {
			for ctx.Err() == nil {
				overload(t, &shares)
				<-time.After(time.Second)
			}
		})
		<-time.After(time.Minute)
		require.Less(t, shares.Throttle.Limit(), 100.0)
		began := time.Now()
		_, err := shares.Store(tabletest.NewMemory(), throttle.Backfills).Put(t.Context(), table.PutInput{Item: *entries(1)[0].Put})
		_, short := errors.AsType[*throttle.ShortError](err)
		assert.True(t, short, "%v", err)
		assert.True(t, queue.Transient(err))
		assert.InDelta(t, 120, time.Since(began).Seconds(), 2)
		stop()
		flood.Wait()
	})
}

// The first limit begins when 50 units of any work and a tenth of all units are refused.
func TestFewRefusalsAreNoShortageOfTheTable(t *testing.T) {
	t.Parallel()
	for u := range throttle.Backfills + 1 {
		virtually(t, func(p *bubble) {
			p.refuse(u, 1, numbered(49)...)
			assert.Zero(p, p.Throttle.Limit(), "49 refused units")
			p.refuse(u, 1, "another")
			assert.InDelta(p, 1000, p.Throttle.Limit(), 1, "50 refused units")
		})
		virtually(t, func(p *bubble) {
			p.take(u, entriesOf("a", 1000))
			p.refuse(u, 1, numbered(100)...)
			assert.Zero(p, p.Throttle.Limit(), "100 of 1,101 units were refused")
			p.refuse(u, 1, numbered(20)...)
			assert.InDelta(p, 1000, p.Throttle.Limit(), 1, "120 of 1,122")
		})
		virtually(t, func(p *bubble) {
			for range 10 {
				p.refuse(u, 1, numbered(20)...)
				<-time.After(3 * time.Second)
			}
			assert.Zero(p, p.Throttle.Limit(), "20 refused units in three seconds")
		})
	}
}

// The first limit is 0.7 of the recent maximum of units written in a second.
func TestTheFirstLimitFollowsThePeakOfTheLastMinute(t *testing.T) {
	t.Parallel()
	virtually(t, func(p *bubble) {
		p.take(throttle.Chunks, entriesOf("a", 20_000))
		<-time.After(time.Second)
		p.take(throttle.Chunks, entriesOf("a", 10))
		<-time.After(time.Second)
		p.refuse(throttle.Chunks, 10, numbered(100)...)
		assert.InDelta(p, 0.7*0.96*20_000, p.Throttle.Limit(), 10)
	})
}

// After a shortage, rare refusals of a table that accepts all other writes do not keep the limit low.
func TestRareRefusalsDoNotLowerALimit(t *testing.T) {
	t.Parallel()
	virtually(t, func(p *bubble) {
		overload(p.T, &p.Shares)
		for range 10 {
			p.take(throttle.Chunks, entriesOf("a", 1000))
			p.refuse(throttle.Chunks, 1, "b")
		}
		limit := p.Throttle.Limit()
		<-time.After(20 * time.Second)
		p.take(throttle.Chunks, entriesOf("a", 1000))
		p.refuse(throttle.Chunks, 1, "b")
		assert.Greater(p, p.Throttle.Limit(), 20*limit)
	})
}

// Two processes deliver posts to 200 followers on a table whose capacity is below a batch a second.
// The limits of the processes find that capacity, and no write fails. A failed message would write
// all its entries again, and such repetitions would use up a small table.
func TestASmallTableIsUsedOnlyOnce(t *testing.T) {
	t.Parallel()
	for rate, posts := range map[float64]int{5: 5, 20: 20} {
		synctest.Test(t, func(t *testing.T) {
			memory := tabletest.NewMemory()
			limited := tabletest.NewLimited(memory, rate)
			const processes, followers = 2, 200
			var all sync.WaitGroup
			began := time.Now()
			for process := range processes {
				var shares throttle.Shares
				store := shares.Store(limited, throttle.Posts)
				for post := range posts {
					writes := make([]table.BatchWrite, followers)
					for i := range writes {
						writes[i].Put = &table.Item{Key: table.Key{PK: fmt.Sprint("u", i), SK: fmt.Sprint(process, post)}}
					}
					all.Go(func() {
						_, err := store.BatchWrite(t.Context(), writes)
						assert.NoError(t, err)
					})
				}
			}
			all.Wait()
			used, seconds := limited.Used(tabletest.Writes).Units, time.Since(began).Seconds()
			assert.InEpsilon(t, processes*posts*followers, used, 0.02, "hardly an entry is written twice")
			assert.LessOrEqual(t, seconds, 1.3*used/rate, "the table is used")
		})
	}
}

// counter is a table that only counts its writes. Each write takes 3 to 11 ms. While refuses is
// set, counter refuses all writes.
type counter struct {
	table.Store
	refuses        atomic.Bool
	writes, stored atomic.Int64
}

func (c *counter) Put(_ context.Context, in table.PutInput) (table.WriteResult, error) {
	n := c.writes.Add(1)
	<-time.After(3*time.Millisecond + time.Duration(n*7919%8_000)*time.Microsecond) // virtual time
	if c.refuses.Load() {
		return table.WriteResult{Refused: []string{in.Item.Key.PK}}, &table.UnavailableError{Op: "put", Err: errors.New("planned"), Reason: table.ShortKeyRange, Undone: true}
	}
	c.stored.Add(1)
	return table.WriteResult{Units: table.Units{Write: 1}}, nil
}

// A burst of refusals leaves a limit of thousands of units a second. Many small writes use the
// whole limit, although the oldest write goes first.
func TestManySmallWritesUseTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var counted counter
		var shares throttle.Shares
		store := shares.Store(&counted, throttle.Posts)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for i := range 1024 {
			running.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					_, _ = store.Put(ctx, table.PutInput{Item: table.Item{Key: table.Key{PK: fmt.Sprint("u", i, "-", n), SK: "x"}}}) // refusals do not matter here
				}
			})
		}
		<-time.After(1100 * time.Millisecond) // the units of a second are known
		counted.refuses.Store(true)
		<-time.After(300 * time.Millisecond)
		counted.refuses.Store(false)
		<-time.After(50 * time.Millisecond) // the last refusals are counted
		before, limit := counted.stored.Load(), 0.0
		for range 5 {
			limit += shares.Throttle.Limit() / 10
			<-time.After(100 * time.Millisecond)
		}
		used := counted.stored.Load() - before
		stop()
		running.Wait()
		assert.Greater(t, limit, 1_000.0)
		assert.GreaterOrEqual(t, float64(used), 0.8*limit)
	})
}
