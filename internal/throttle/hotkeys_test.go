package throttle_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/internal/throttle"
)

// sink accepts each write at once. An update costs update units. A batch reports the keys in
// refused.
type sink struct {
	table.Store
	update  float64
	refused []string
	err     error
}

func wrote(units float64) table.WriteResult {
	return table.WriteResult{Units: table.Units{Write: units}}
}

func (s *sink) BatchWrite(_ context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	res := wrote(float64(len(writes)))
	res.Refused = s.refused
	return res, nil
}

func (s *sink) Update(context.Context, table.UpdateInput) (table.WriteResult, error) {
	res := wrote(s.update)
	res.Refused = s.refused
	return res, s.err
}

func (s *sink) Transact(_ context.Context, in table.TransactInput) (table.WriteResult, error) {
	if s.err != nil {
		return table.WriteResult{}, s.err
	}
	return wrote(2 * float64(len(in.Ops))), nil
}

// entriesOf returns n writes to one partition.
func entriesOf(pk string, n int) []table.BatchWrite {
	writes := entries(n)
	for i := range writes {
		writes[i].Put.Key.PK = pk
	}
	return writes
}

// bubble is a test with Shares in virtual time.
type bubble struct {
	*testing.T
	throttle.Shares
}

func virtually(t *testing.T, test func(p *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&bubble{T: t}) })
}

// refuse writes a batch. The table refuses a number of writes to each of the keys.
func (p *bubble) refuse(u throttle.Urgency, times int, keys ...string) {
	p.Helper()
	s := &sink{}
	for _, key := range keys {
		s.refused = append(s.refused, slices.Repeat([]string{key}, times)...)
	}
	_, err := p.Store(s, u).BatchWrite(p.Context(), entriesOf("quiet", 1))
	require.NoError(p, err)
}

// take writes a batch that the table accepts, and returns the time for which the batch waited.
func (p *bubble) take(u throttle.Urgency, writes []table.BatchWrite) time.Duration {
	p.Helper()
	began := time.Now()
	_, err := p.Store(&sink{}, u).BatchWrite(p.Context(), writes)
	require.NoError(p, err)
	return time.Since(began)
}

func numbered(n int) (keys []string) {
	for i := range n {
		keys = append(keys, strconv.Itoa(i))
	}
	return keys
}

// A key becomes hot when the table refuses 25 units of large work or 100 units of any work to the
// key within two seconds. A key with fewer refused units is not hot.
func TestAKeyIsHotAfterManyRefusals(t *testing.T) {
	t.Parallel()
	for u, units := range map[throttle.Urgency]int{
		throttle.API: 100, throttle.Posts: 100, throttle.Chunks: 25, throttle.Backfills: 25,
	} {
		virtually(t, func(p *bubble) {
			p.take(u, entriesOf("a", 10_000)) // so the table is not short of capacity
			p.refuse(u, units-1, "k")
			assert.Zero(p, p.Throttle.HotKeys(), "%d units", units-1)
			<-time.After(2 * time.Second)
			p.refuse(u, units-1, "k")
			assert.Zero(p, p.Throttle.HotKeys(), "%d units each two seconds", units-1)
			p.refuse(u, 1, "k")
			assert.Equal(p, 1, p.Throttle.HotKeys(), "%d units", units)
			assert.Zero(p, p.Throttle.Limit())
			<-time.After(time.Minute)
			assert.Zero(p, p.Throttle.HotKeys(), "a minute after the last refusal")
		})
	}
	virtually(t, func(p *bubble) {
		p.refuse(throttle.API, 24, "k")
		p.refuse(throttle.Backfills, 1, "k")
		assert.Equal(p, 1, p.Throttle.HotKeys(), "refusals of urgent work count for large work, too")
	})
}

// Only large work whose writes all go to one hot key waits for that key.
func TestOnlyLargeWorkOfAHotKeyWaits(t *testing.T) {
	t.Parallel()
	ops := func(pk string) (ops []table.TransactOp) {
		ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: table.Key{PK: "mark", SK: "m"}}})
		for i := range table.MaxTransact - 1 {
			ops = append(ops, table.TransactOp{Delete: &table.DeleteInput{Key: table.Key{PK: pk, SK: strconv.Itoa(i)}}})
		}
		return ops
	}
	for u, waits := range map[throttle.Urgency]bool{
		throttle.API: false, throttle.Posts: false, throttle.Chunks: true, throttle.Backfills: true,
	} {
		virtually(t, func(p *bubble) {
			p.refuse(throttle.Backfills, 30, "hot")
			store := p.Store(&sink{update: 20}, u)
			took := func(do func() error) bool {
				began := time.Now()
				for range 10 {
					require.NoError(p, do())
				}
				return time.Since(began) > 500*time.Millisecond
			}
			batch := func(writes []table.BatchWrite) func() error {
				return func() error { _, err := store.BatchWrite(p.Context(), writes); return err }
			}
			transact := func(pk string) func() error {
				return func() error {
					_, err := store.Transact(p.Context(), table.TransactInput{Ops: ops(pk)})
					return err
				}
			}
			assert.Equal(p, waits, took(batch(entriesOf("hot", 20))), "a batch")
			assert.False(p, took(batch(entriesOf("other", 200))), "another key")
			assert.False(p, took(batch(append(entriesOf("hot", 1), entriesOf("other", 200)...))), "a batch of two keys")
			assert.Equal(p, waits, took(transact("hot")), "a removal")
			assert.False(p, took(transact("other")), "another removal")
			assert.Equal(p, waits, took(func() error { // an update of 20 units costs 20
				_, err := store.Update(p.Context(), table.UpdateInput{Key: table.Key{PK: "hot", SK: "s"}})
				return err
			}), "updates")
			<-time.After(time.Minute)
			assert.False(p, took(batch(entriesOf("hot", 200))), "a minute after the last refusal")
			assert.Zero(p, p.Throttle.Limit())
		})
	}
}

// A condition that did not hold costs units as well.
func TestAFailedConditionTakesUnitsOfAHotKey(t *testing.T) {
	t.Parallel()
	virtually(t, func(p *bubble) {
		p.refuse(throttle.Backfills, 30, "hot")
		store := p.Store(&sink{err: &table.ConditionError{Units: table.Units{Write: 20}}}, throttle.Backfills)
		began := time.Now()
		for range 10 {
			_, err := store.Update(p.Context(), table.UpdateInput{Key: table.Key{PK: "hot", SK: "s"}})
			require.Error(p, err)
		}
		assert.Greater(p, time.Since(began), 500*time.Millisecond)
	})
}

// Chunks that write to a hot key go before backfills that write to the same key.
func TestOfLargeWorkOnAHotKeyChunksGoFirst(t *testing.T) {
	t.Parallel()
	virtually(t, func(p *bubble) {
		p.refuse(throttle.Backfills, 30, "hot")
		var order []throttle.Urgency
		var mu sync.Mutex
		var writing sync.WaitGroup
		for _, u := range []throttle.Urgency{throttle.Backfills, throttle.Chunks} {
			for range 4 {
				writing.Go(func() {
					p.take(u, entriesOf("hot", 25))
					mu.Lock()
					defer mu.Unlock()
					order = append(order, u)
				})
			}
			synctest.Wait()
		}
		writing.Wait()
		assert.True(p, slices.IsSorted(order), "%v", order)
	})
}

// The reasons of a cancelled transaction name the refused keys, and each operation counts as two
// units.
func TestRefusalsOfTransactionsCountForTheKeysOfTheirReasons(t *testing.T) {
	t.Parallel()
	virtually(t, func(p *bubble) {
		cancelled := &table.CancelledError{Reasons: make([]table.CancelledOp, 13)}
		in := table.TransactInput{Ops: make([]table.TransactOp, 13)}
		for i := range cancelled.Reasons {
			key := table.Key{PK: "hot", SK: strconv.Itoa(i)}
			cancelled.Reasons[i] = table.CancelledOp{Key: key, Reason: table.CancelThrottled}
			in.Ops[i].Delete = &table.DeleteInput{Key: key}
		}
		cancelled.Reasons[0] = table.CancelledOp{Key: table.Key{PK: "mark"}, Reason: table.CancelConflict}
		store := p.Store(&sink{err: cancelled}, throttle.Backfills)
		_, err := store.Transact(p.Context(), in)
		require.Error(p, err)
		assert.Zero(p, p.Throttle.HotKeys(), "24 units were refused")
		_, err = store.Transact(p.Context(), in)
		require.Error(p, err)
		assert.Equal(p, 1, p.Throttle.HotKeys())
	})
}

// A refused update counts its units once for each time that the update was sent.
func TestARefusedUpdateCountsItsUnits(t *testing.T) {
	t.Parallel()
	virtually(t, func(p *bubble) {
		store := p.Store(&sink{update: 20, refused: []string{"posts"}}, throttle.Backfills)
		for _, want := range []int{0, 1} {
			_, err := store.Update(p.Context(), table.UpdateInput{Key: table.Key{PK: "posts", SK: "s"}})
			require.NoError(p, err)
			assert.Equal(p, want, p.Throttle.HotKeys())
		}
	})
}

// The refusals of a hot key lower the common limit only while the table refuses other keys, too, or
// gets no work for other keys.
func TestAHotKeyLowersTheLimitOfAllOnlyWithOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others func(p *bubble)
		lower  bool
	}{
		"others are taken":    {func(p *bubble) { p.take(throttle.API, entriesOf("a", 10)) }, false},
		"others are refused":  {func(p *bubble) { p.refuse(throttle.API, 1, numbered(10)...) }, true},
		"there are no others": {func(*bubble) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(p *bubble) {
				overload(p.T, &p.Shares)
				p.refuse(throttle.Backfills, 30, "hot")
				<-time.After(5 * time.Second)
				c.others(p)
				<-time.After(time.Second)
				limit := p.Throttle.Limit()
				s := &sink{refused: []string{"hot"}}
				_, err := p.Store(s, throttle.Posts).BatchWrite(p.Context(), entriesOf("hot", 1))
				require.NoError(p, err)
				assert.Equal(p, c.lower, p.Throttle.Limit() < limit)
			})
		})
	}
	virtually(t, func(p *bubble) {
		for range 20 {
			p.refuse(throttle.Backfills, 100, "hot")
			<-time.After(100 * time.Millisecond)
		}
		assert.Zero(p, p.Throttle.Limit(), "a hot key alone makes no limit of all")
	})
}

// At most 512 refused keys are remembered. The refusals of all further keys count for the table.
func TestHotKeysAreBounded(t *testing.T) {
	t.Parallel()
	virtually(t, func(p *bubble) {
		p.refuse(throttle.Backfills, 25, numbered(2000)...)
		assert.Equal(p, 512, p.Throttle.HotKeys())
		assert.Positive(p, p.Throttle.Limit())
		<-time.After(time.Minute)
		p.refuse(throttle.Backfills, 25, "x")
		assert.Equal(p, 1, p.Throttle.HotKeys(), "there is room again")
	})
}

// Flips of one reader, removals and renames of an author fill one partition. Chunks to other
// partitions are written as fast as without this work (I8).
func TestOneHotPartitionSlowsNoOtherWork(t *testing.T) {
	t.Parallel()
	const seconds, workers = 20, 8
	hot := table.Key{PK: "hot", SK: "s"}
	removal := make([]table.TransactOp, table.MaxTransact)
	for i := range removal {
		removal[i].Delete = &table.DeleteInput{Key: table.Key{PK: hot.PK, SK: strconv.Itoa(i)}}
	}
	for name, attack := range map[string]func(context.Context, table.Store){
		"flips":    func(ctx context.Context, s table.Store) { _, _ = s.BatchWrite(ctx, entriesOf(hot.PK, 100)) },
		"removals": func(ctx context.Context, s table.Store) { _, _ = s.Transact(ctx, table.TransactInput{Ops: removal}) },
		"renames":  func(ctx context.Context, s table.Store) { _, _ = s.Update(ctx, table.UpdateInput{Key: hot}) },
	} {
		for _, demand := range []int{1000, 5000, 20_000} {
			t.Run(fmt.Sprint(name, "/", demand), func(t *testing.T) {
				virtually(t, func(p *bubble) {
					limited := tabletest.NewLimited(&sink{update: 1}, 1e6)
					limited.SetPartitionLimit(1000)
					ctx, stop := context.WithTimeout(p.Context(), seconds*time.Second)
					defer stop()
					var working sync.WaitGroup
					backfills, chunks := p.Store(limited, throttle.Backfills), p.Store(limited, throttle.Chunks)
					for range workers { // the workers always offer more than the partition takes
						working.Go(func() {
							for ctx.Err() == nil {
								attack(ctx, backfills)
								<-time.After(time.Millisecond)
							}
						})
					}
					const every = 50 * time.Millisecond
					var written atomic.Int64
					entries := make([]table.BatchWrite, demand/20)
					for i := range entries {
						entries[i].Put = &table.Item{Key: table.Key{PK: strconv.Itoa(i), SK: "p"}}
					}
					for due := time.Now(); ctx.Err() == nil; due = due.Add(every) {
						<-time.After(time.Until(due))
						for batch := range slices.Chunk(entries, 25) {
							working.Go(func() {
								if _, err := chunks.BatchWrite(ctx, batch); err == nil {
									written.Add(int64(len(batch)))
								}
							})
						}
					}
					working.Wait()
					assert.GreaterOrEqual(p, written.Load(), int64(demand*seconds*9/10), "entries of others, of %d", demand*seconds)
					assert.Positive(p, limited.Refusals(), "the partition was full")
				})
			})
		}
	}
}
