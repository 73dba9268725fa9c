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

// TestACallWhoseContextHasEndedTakesNoTurn holds though the lane is free: a select takes one of
// two that are ready by chance, and the simulation would not replay.
func TestACallWhoseContextHasEndedTakesNoTurn(t *testing.T) {
	turns, of := newTurns(), Lane{"ann", 1}
	ended, end := context.WithCancel(t.Context())
	end()
	for range 50 {
		_, err := turns.take(ended, of)
		require.ErrorIs(t, err, context.Canceled)
	}
	done, err := turns.take(t.Context(), of)
	require.NoError(t, err)
	done()
	assert.Empty(t, turns.lanes, "a lane exists while calls use it")
}

// underWay is a table whose transactions take a moment. It counts those at the same time.
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

// A process has eight transactions on the followers of one author under way, and one on the
// comments of a post. Those of others do not wait for them.
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
		"comments of one post": {1, func(ctx context.Context, a *Access, _ int, op table.TransactOp) error {
			return a.TransactInTurn(ctx, Lane{Author: "post"}, op)
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

// A call that gives up while it waits leaves the others their turns.
func TestACallThatWaitsInVainLeavesItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, of := newTurns(), Lane{"ann", 1}
		done, err := turns.take(t.Context(), of)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = turns.take(ctx, of)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, turns.lanes, 1)
		done()
		assert.Empty(t, turns.lanes)
	})
}
