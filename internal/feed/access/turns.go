package access

import (
	"context"
	"sync"

	"fanfare/internal/fault"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// followLanes is the number of transactions on one author's followers that a process has
// under way at once. More would only conflict: at 10 ms each, eight transactions at once
// are 800 a second, and the author's partition takes 500 (docs/CAPACITY.md).
const followLanes = 8

// turns makes the transactions on an author's followers, and those on a post's comments, take
// turns in this process, in the order in which they came, so that they do not conflict with
// each other. The shares of the follower count are spread over followLanes lanes. A lane
// exists while calls use it.
type turns struct {
	mu    sync.Mutex
	lanes map[Lane]*turn
}

// Lane is a queue of transactions that would conflict, or of reads that are too many at once.
type Lane struct {
	Author string // or a post, for its comments, or a home
	Number int
}

// turn is held by the call that can send into held. calls counts it and those that wait.
type turn struct {
	held  chan struct{}
	calls int
}

func newTurns() *turns { return &turns{lanes: map[Lane]*turn{}} }

// take waits until no earlier call holds the lane, or ctx ends. The caller must call done.
func (t *turns) take(ctx context.Context, l Lane) (done func(), err error) {
	t.mu.Lock()
	own := t.lanes[l]
	if own == nil {
		own = &turn{held: make(chan struct{}, 1)}
		t.lanes[l] = own
	}
	own.calls++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.calls--; own.calls == 0 {
			delete(t.lanes, l)
		}
	}
	pass := func() { <-own.held; leave() }
	select {
	case own.held <- struct{}{}:
		if ctx.Err() == nil {
			return pass, nil
		}
		pass() // the select takes one of two that are ready, by chance
	case <-ctx.Done():
		leave()
	}
	return nil, context.Cause(ctx)
}

// InTurn calls do after all earlier calls for the same lane.
func (a *Access) InTurn(ctx context.Context, l Lane, do func() error) error {
	done, err := a.turns.take(ctx, l)
	if err != nil {
		return fault.Wrap("table", err)
	}
	defer done()
	return do()
}

// TransactInTurn is Transact in turn.
func (a *Access) TransactInTurn(ctx context.Context, l Lane, ops ...table.TransactOp) error {
	return a.InTurn(ctx, l, func() error { return a.Transact(ctx, ops...) })
}

// TransactFollow is Transact for the operations of a follow or an unfollow.
func (a *Access) TransactFollow(ctx context.Context, follower, author string, ops ...table.TransactOp) error {
	return a.TransactInTurn(ctx, Lane{Author: author, Number: schema.FollowerShard(follower) % followLanes}, ops...)
}
