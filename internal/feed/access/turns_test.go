package access

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/backoff"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// TestACallWhoseContextHasEndedTakesNoTurn covers a free lane too: if two cases of a select are ready,
// select chooses one at random, and the simulation could not replay.
func TestACallWhoseContextHasEndedTakesNoTurn(t *testing.T) {
	turns, of := newTurns(), Lane{"ann", 1}
	ended, end := context.WithCancel(t.Context())
	end()
	for range 50 {
		_, err := turns.take(ended, of, "bob")
		require.ErrorIs(t, err, context.Canceled)
	}
	done, err := turns.take(t.Context(), of, "bob")
	require.NoError(t, err)
	done()
	assert.Empty(t, turns.lanes, "a lane exists while calls use it")
}

// underWay is a table whose transactions take a moment. It counts the concurrent transactions.
type underWay struct {
	table.Store
	mu        sync.Mutex
	now, most int
}

func (u *underWay) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	u.count(1)
	defer u.count(-1)
	if err := backoff.Wait(ctx, 10*time.Millisecond); err != nil {
		return table.WriteResult{}, err
	}
	return u.Store.Transact(ctx, in)
}

func (u *underWay) count(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now += n
	u.most = max(u.most, u.now)
}

// A process has at most eight concurrent transactions on the followers of one author, and one on the
// comments of a post. Comments on other posts do not wait for these transactions.
func TestTransactionsOfACrowdTakeTurns(t *testing.T) {
	const crowd = 200
	for name, c := range map[string]struct {
		most int
		send func(context.Context, *Access, int, table.TransactOp) error
	}{
		"followers of one author": {followLanes, func(ctx context.Context, a *Access, i int, op table.TransactOp) error {
			return a.TransactFollow(ctx, fmt.Sprint("fan", i), "star", op)
		}},
		"followers of many authors": {crowd, func(ctx context.Context, a *Access, i int, op table.TransactOp) error {
			return a.TransactFollow(ctx, "fan", fmt.Sprint("star", i), op)
		}},
		"comments of one post": {1, func(ctx context.Context, a *Access, i int, op table.TransactOp) error {
			return a.TransactInTurn(ctx, Lane{Author: "post"}, fmt.Sprint("user", i), op)
		}},
		"comments of one user on a post": {1, func(ctx context.Context, a *Access, _ int, op table.TransactOp) error {
			return a.TransactInTurn(ctx, Lane{Author: "post"}, "ann", op)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &underWay{Store: tabletest.NewMemory()}
				s := New(Config{Store: store, Now: time.Now})
				var all sync.WaitGroup
				for i := range crowd {
					all.Go(func() {
						it := table.Item{Key: table.Key{PK: "x", SK: fmt.Sprint(i)}}
						assert.NoError(t, c.send(t.Context(), s, i, table.TransactOp{Put: &table.PutInput{Item: it}}))
					})
				}
				all.Wait()
				assert.Equal(t, c.most, store.most)
				assert.Empty(t, s.turns.lanes)
			})
		})
	}
}

// A call that ends its wait early leaves the turns of other calls unchanged.
func TestACallThatWaitsInVainLeavesItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, of := newTurns(), Lane{"ann", 1}
		done, err := turns.take(t.Context(), of, "bob")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = turns.take(ctx, of, "bob")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, turns.lanes, 1)
		done()
		assert.Empty(t, turns.lanes)
	})
}

// A user with 32 calls at once in one lane delays only calls of that user: a call of another user waits for
// the call that holds the lane, and for one earlier call of each user.
func TestACrowdOfCallsOfOneUserHoldsUpThatUserAlone(t *testing.T) {
	const turn = 10 * time.Millisecond // the duration of a transaction in underWay
	for name, send := range map[string]func(context.Context, *Access, string, table.TransactOp) error{
		"comments of one post": func(ctx context.Context, a *Access, user string, op table.TransactOp) error {
			return a.TransactInTurn(ctx, Lane{Author: "post"}, user, op)
		},
		"follows of one author": func(ctx context.Context, a *Access, user string, op table.TransactOp) error {
			return a.TransactFollow(ctx, user, "star", op)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := New(Config{Store: &underWay{Store: tabletest.NewMemory()}, Now: time.Now})
				var all sync.WaitGroup
				calls := 0
				call := func(user string, most time.Duration) {
					calls++
					it, began := table.Item{Key: table.Key{PK: "x", SK: fmt.Sprint(calls)}}, time.Now()
					all.Go(func() {
						assert.NoError(t, send(t.Context(), a, user, table.TransactOp{Put: &table.PutInput{Item: it}}))
						assert.LessOrEqual(t, time.Since(began), most, user)
					})
					synctest.Wait()
				}
				for range 32 {
					call("crowd", 32*turn+4*turn) // the calls of the other users come between the calls of crowd
				}
				<-time.After(turn / 2)
				call("cid", 2*turn)
				call("dan", 3*turn)
				call("cid", 5*turn) // behind one more call of crowd
				<-time.After(8 * turn)
				call("eve", 2*turn)
				all.Wait()
				assert.Empty(t, a.turns.lanes)
			})
		})
	}
}

// Calls of one user keep their order, users get turns in the order of their arrival, and calls whose context
// ends leave no gap.
func TestUsersHaveTurnsOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, of := newTurns(), Lane{"post", 0}
		ctx, giveUp := context.WithCancel(t.Context())
		var got []string
		var all sync.WaitGroup
		first, err := turns.take(t.Context(), of, "ann")
		require.NoError(t, err)
		for _, call := range []struct {
			user, name string
			ctx        context.Context
		}{
			{"ann", "ann 2", t.Context()}, {"ann", "ann 3", t.Context()}, {"bob", "bob 1", ctx}, {"bob", "bob 2", t.Context()},
			{"cid", "cid 1", ctx}, {"dan", "dan 1", t.Context()}, {"ann", "ann 4", ctx}, {"dan", "dan 2", t.Context()}, {"ann", "ann 5", t.Context()},
		} {
			all.Go(func() {
				done, err := turns.take(call.ctx, of, call.user)
				if err != nil {
					return
				}
				got = append(got, call.name) // one call at a time
				done()
			})
			synctest.Wait()
		}
		giveUp()
		synctest.Wait()
		first()
		all.Wait()
		assert.Equal(t, []string{"bob 2", "dan 1", "ann 2", "dan 2", "ann 3", "ann 5"}, got)
		assert.Empty(t, turns.lanes)
	})
}
