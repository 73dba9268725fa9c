package feed_test

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/internal/backoff"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// contended is a table whose transactions conflict as in DynamoDB: a transaction takes some time, and
// is cancelled if it has an item in common with a concurrent transaction.
type contended struct {
	table.Store
	mu   sync.Mutex
	busy map[table.Key]bool
	// sent counts the transactions by the first item of each transaction.
	sent map[table.Key]int
}

// These constants are the durations of a successful transaction and of a cancelled transaction.
const (
	transactTakes = 10 * time.Millisecond
	cancelTakes   = 5 * time.Millisecond
)

func (s *contended) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if cancelled := s.enter(in); cancelled != nil {
		return table.WriteResult{}, cmp.Or(backoff.Wait(ctx, cancelTakes), cancelled)
	}
	if err := backoff.Wait(ctx, transactTakes); err != nil {
		return table.WriteResult{}, err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, op := range in.Ops {
			delete(s.busy, op.Key())
		}
	}()
	return s.Store.Transact(ctx, in)
}

// enter marks the items of a transaction as busy, unless at least one item is already busy.
func (s *contended) enter(in table.TransactInput) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[in.Ops[0].Key()]++
	cancelled, conflict := &table.CancelledError{}, false
	for _, op := range in.Ops {
		reason := table.CancelNone
		if s.busy[op.Key()] {
			reason, conflict = table.CancelConflict, true
		}
		cancelled.Reasons = append(cancelled.Reasons, table.CancelledOp{Key: op.Key(), Reason: reason})
	}
	if conflict {
		return cancelled
	}
	for _, op := range in.Ops {
		s.busy[op.Key()] = true
	}
	return nil
}

// Within a process, the follows of one author never conflict. Follows from several processes rarely
// conflict.
func TestAThousandFollowersAtOnceAllSucceed(t *testing.T) {
	const crowd = 1000
	for _, test := range []struct {
		processes int
		// each bounds the number of transactions of one follow, and all bounds the mean number.
		each int
		all  float64
	}{{1, 1, 1}, {2, 10, 1.5}, {4, 10, 2}, {8, 10, 3}} {
		t.Run(fmt.Sprintf("%d processes", test.processes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &contended{Store: tabletest.NewMemory(), busy: map[table.Key]bool{}, sent: map[table.Key]int{}}
				processes := make([]*world, test.processes)
				for i := range processes {
					processes[i] = newWorld(t, func(c *config) { c.Store, c.Jitter = store, nil })
				}
				w, fans := processes[0], numbered(crowd, "fan")
				w.users(append(fans, "star")...)
				for _, act := range []struct {
					name  string
					do    func(*world, string) error
					count int64
				}{
					{"follow", func(w *world, fan string) error { return w.Follow(t.Context(), fan, "star") }, crowd},
					{"unfollow", func(w *world, fan string) error { return w.Unfollow(t.Context(), fan, "star") }, 0},
				} {
					clear(store.sent)
					began := time.Now()
					var all sync.WaitGroup
					for i, fan := range fans {
						all.Go(func() {
							if err := act.do(processes[i%len(processes)], fan); err != nil {
								t.Errorf("%s %s: %v", fan, act.name, err)
							}
						})
					}
					all.Wait()
					sum, most := 0, 0
					for _, n := range store.sent {
						sum, most = sum+n, max(most, n)
					}
					mean := float64(sum) / crowd
					t.Logf("%s: %.2f transactions each, %d at most, within %s", act.name, mean, most, time.Since(began))
					if most > test.each || mean > test.all {
						t.Errorf("%s: %.2f transactions each, %d at most; want %.1f, %d", act.name, mean, most, test.all, test.each)
					}
					if u, err := w.User(t.Context(), "star"); err != nil || u.Counts.Followers != act.count {
						t.Errorf("after all %ss: %+v, %v", act.name, u.Counts, err)
					}
				}
				w.checkCounts("star")
			})
		})
	}
}
