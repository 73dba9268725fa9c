package access

import (
	"context"
	"slices"
	"sync"

	"fanfare/internal/fault"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// followLanes is the number of concurrent transactions on one author's followers in a process. More
// concurrent transactions would only conflict: at 10 ms each, eight concurrent transactions are 800 a
// second, but the author's partition takes 500 (docs/CAPACITY.md).
const followLanes = 8

// HourLane is the number of the lane of a user's large calls (docs/decisions/0044). The lanes with
// lower numbers are for the user's followers.
const HourLane = followLanes

// turns makes the transactions on an author's followers take turns in this process, and also the
// transactions on a post's comments, so that these transactions do not conflict with each other. The
// shares of the follower count are spread over followLanes lanes. In a lane, users have turns one
// after another, and one user's calls run in the order of their arrival. So a user with many calls
// delays only that user's calls. A lane exists while calls use it.
type turns struct {
	mu    sync.Mutex
	lanes map[Lane]*lane
}

// Lane names a queue of transactions that would conflict, or of reads whose concurrency is limited.
type Lane struct {
	Author string // an author, a post (for the comments on the post), or a home
	Number int
}

// lane has one call that holds the lane, and further calls that wait.
type lane struct {
	// holder is the user of the call that holds the lane.
	holder string
	// next are further users with waiting calls, in the order of their turns. When the holder's call ends,
	// the holder joins the end of next, so a new user does not wait for a second call of the holder.
	next []string
	// waiting are the waiting calls, by user. A call's turn begins when the call's channel is closed.
	waiting map[string][]chan struct{}
}

func newTurns() *turns { return &turns{lanes: map[Lane]*lane{}} }

// take waits for the turn of user's call in a lane, or for the end of ctx. The caller must call done.
func (t *turns) take(ctx context.Context, of Lane, user string) (done func(), err error) {
	turn := t.join(of, user)
	select {
	case <-turn:
		if ctx.Err() == nil {
			return func() { t.pass(of) }, nil
		}
		t.pass(of) // if both channels are ready, select chooses one at random
	case <-ctx.Done():
		t.leave(of, user, turn)
	}
	return nil, context.Cause(ctx)
}

// join adds a call of user to a lane. The returned channel is closed when the call's turn begins.
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

// pass ends the turn of the call that holds a lane, and begins the next turn.
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

// leave removes a call whose context has ended from the call's lane.
func (t *turns) leave(of Lane, user string, turn chan struct{}) {
	t.mu.Lock()
	l := t.lanes[of] // the lane exists, because this call waits in the lane or holds the lane
	at := slices.Index(l.waiting[user], turn)
	if at >= 0 {
		if l.drop(user, at); len(l.waiting[user]) == 0 {
			l.next = slices.DeleteFunc(l.next, func(other string) bool { return other == user })
		}
	}
	t.mu.Unlock()
	if at < 0 { // the call's turn began before leave had the lock
		t.pass(of)
	}
}

// drop removes a waiting call.
func (l *lane) drop(user string, at int) {
	if l.waiting[user] = slices.Delete(l.waiting[user], at, at+1); len(l.waiting[user]) == 0 {
		delete(l.waiting, user)
	}
}

// InTurn waits for the turn of user's call in a lane, and then calls do.
func (a *Access) InTurn(ctx context.Context, of Lane, user string, do func() error) error {
	done, err := a.turns.take(ctx, of, user)
	if err != nil {
		return fault.Wrap("table", err)
	}
	defer done()
	return do()
}

// TransactInTurn waits for the turn of user's call in a lane, and then calls Transact.
func (a *Access) TransactInTurn(ctx context.Context, of Lane, user string, ops ...table.TransactOp) error {
	return a.InTurn(ctx, of, user, func() error { return a.Transact(ctx, ops...) })
}

// TransactFollow calls Transact in turn with the operations of a follow or an unfollow.
func (a *Access) TransactFollow(ctx context.Context, follower, author string, ops ...table.TransactOp) error {
	return a.TransactInTurn(ctx, Lane{Author: author, Number: schema.FollowerShard(follower) % followLanes}, follower, ops...)
}
