package likeagg

import (
	"slices"
	"sync"
	"time"

	"fanfare/internal/queue"
)

const (
	// leaveAfter is the number of tries without an effect after which a like is left for later. One
	// user can use up the capacity of a partition for hours, for example in the index of the user's
	// likes. A window that waited for this user would count no like of any user.
	leaveAfter = 5
	// leaveFor is the time for which the messages of a like that was left wait. It is above queue.LongWait,
	// so these receives do not count. Once the table has capacity again, the like has all its
	// attempts left, and no fence happens because of the wait.
	leaveFor = queue.LongWait + time.Second
	// mostLeft bounds the messages of a process that are left for later at the same time (I9).
	// Further likes wait in their windows.
	mostLeft = 2000
)

// leaves counts the messages that are left for later because no request for them had an
// effect.
type leaves struct {
	mu sync.Mutex
	// open is the number of left messages whose window has not ended. back has the times when
	// the other left messages are redelivered, the soonest first.
	open int
	back []time.Time
}

// take reports whether n more messages may be left, and counts them.
func (l *leaves) take(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for len(l.back) > 0 && !l.back[0].After(now) {
		l.back = l.back[1:]
	}
	if l.open+len(l.back)+n > mostLeft {
		return false
	}
	l.open += n
	return true
}

// ended moves n messages from open to back. take counted these messages.
func (l *leaves) ended(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open -= n
	l.back = append(l.back, slices.Repeat([]time.Time{time.Now().Add(leaveFor)}, n)...)
}
