package access

import (
	"context"
	"slices"
	"sync"

	"fanfare/internal/fault"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// followLanes is the number of concurrent transactions on one author's followers in a
// process. More would only conflict: at 10 ms each, eight concurrent transactions are 800
// a second, and the author's partition takes 500 (docs/CAPACITY.md).
const followLanes = 8

// HourLane is the number of the lane of a user's large calls (docs/decisions/0044). The lanes below
// it are for the user's followers.
const HourLane = followLanes

// turns makes the transactions on an author's followers take turns in this process, and also the transactions
// on a post's comments, so that they do not conflict with each other. The shares of the follower count are
// spread over followLanes lanes. In a lane, users have turns one after the other, and one user's calls run in
// the order of their arrival. So a user with many calls delays only that user's calls. A lane exists while
// calls use it.
type turns struct {
	mu    sync.Mutex
	lanes map[Lane]*lane
}

// Lane names a queue of transactions that would conflict, or of reads whose number at a
// time is limited.
type Lane struct {
	Author string // or a post, for its comments, or a home
	Number int
}

// lane has a call that holds it, and calls that wait.
type lane struct {
	// holder is the user of the call that holds the lane.
	holder string
	// next are further users with waiting calls, in the order of their turns. The holder joins
	// them when its call ends, so a new user does not wait for a second call of the holder.
	next []string
	// waiting are the calls that wait, by user. A call has its turn when its channel is closed.
	waiting map[string][]chan struct{}
}

func newTurns() *turns { return &turns{lanes: map[Lane]*lane{}} }

// take waits until it is the turn of user's call in a lane, or ctx ends. The caller must call done.
func (t *turns) take(ctx context.Context, of Lane, user string) (done func(), err error) {
	turn := t.join(of, user)
	select {
	case <-turn:
		if ctx.Err() == nil {
			return func() { t.pass(of) }, nil
		}
		t.pass(of) // if both channels are ready, select takes one by chance
	case <-ctx.Done():
		t.leave(of, user, turn)
	}
	return nil, context.Cause(ctx)
}

// join adds a call of user to a lane. The channel is closed when the call has its turn.
func (t *turns) join(of Lane, user string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := make(chan struct{})
	l := t.lanes[of]
	if l == nil {
		t.lanes[of] = &lane{holder: user, waiting: map[string][]chan struct{}{}}
		close(turn)
		return turn
	}
	if len(l.waiting[user]) == 0 && user != l.holder {
		l.next = append(l.next, user)
	}
	l.waiting[user] = append(l.waiting[user], turn)
	return turn
}

// pass ends the turn of the call that holds a lane, and begins the next one.
func (t *turns) pass(of Lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lanes[of]
	if len(l.waiting[l.holder]) > 0 {
		l.next = append(l.next, l.holder)
	}
	if len(l.next) == 0 {
		delete(t.lanes, of)
		return
	}
	l.holder, l.next = l.next[0], l.next[1:]
	turn := l.waiting[l.holder][0]
	l.drop(l.holder, 0)
	close(turn)
}

// leave takes a call whose context has ended out of its lane.
func (t *turns) leave(of Lane, user string, turn chan struct{}) {
	t.mu.Lock()
	l := t.lanes[of] // it exists: this call waits in it, or holds it
	at := slices.Index(l.waiting[user], turn)
	if at >= 0 {
		if l.drop(user, at); len(l.waiting[user]) == 0 {
			l.next = slices.DeleteFunc(l.next, func(other string) bool { return other == user })
		}
	}
	t.mu.Unlock()
	if at < 0 { // its turn began in between
		t.pass(of)
	}
}

// drop removes a call that waits.
func (l *lane) drop(user string, at int) {
	if l.waiting[user] = slices.Delete(l.waiting[user], at, at+1); len(l.waiting[user]) == 0 {
		delete(l.waiting, user)
	}
}

// InTurn calls do when it is the turn of user's call in a lane.
func (a *Access) InTurn(ctx context.Context, of Lane, user string, do func() error) error {
	done, err := a.turns.take(ctx, of, user)
	if err != nil {
		return fault.Wrap("table", err)
	}
	defer done()
	return do()
}

// TransactInTurn is Transact, when it is the turn of user's call in a lane.
func (a *Access) TransactInTurn(ctx context.Context, of Lane, user string, ops ...table.TransactOp) error {
	return a.InTurn(ctx, of, user, func() error { return a.Transact(ctx, ops...) })
}

// TransactFollow is Transact for the operations of a follow or an unfollow.
func (a *Access) TransactFollow(ctx context.Context, follower, author string, ops ...table.TransactOp) error {
	return a.TransactInTurn(ctx, Lane{Author: author, Number: schema.FollowerShard(follower) % followLanes}, follower, ops...)
}
