package home

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// These constants bound the reminders.
const (
	// reminderEvery is the time between the first two reminders of one mark, and reminderMost the maximum time between
	// two later reminders. Each time is twice the time before it.
	reminderEvery = time.Minute
	reminderMost  = 15 * time.Minute
	// maxReminders is the maximum number of reminders that a process sends in reminderEvery.
	maxReminders = 1024
	// maxReminded is the number of marks that a process remembers.
	maxReminded = 16 * maxReminders
)

// reminders limits how often home reads publish the event of a home mark again: once a minute for each
// mark, and less often while the event has no effect. The memory of reminders is bounded (I9).
type reminders struct {
	now  func() time.Time
	mu   sync.Mutex
	sent *simplelru.LRU[string, reminder]
	// lately has the times of the reminders of the last reminderEvery.
	lately []time.Time
}

// reminder is the last reminder of a mark, and the time until the next reminder.
type reminder struct {
	at   time.Time
	wait time.Duration
}

func newReminders(now func() time.Time) *reminders {
	sent, err := simplelru.NewLRU[string, reminder](maxReminded, nil)
	if err != nil {
		panic(err) // unreachable: the only error is for a size below 1, and maxReminded is a constant
	}
	return &reminders{now: now, sent: sent}
}

// allow reports whether a reminder for the mark of this version may be sent now. If so, allow records
// the reminder.
func (r *reminders) allow(version string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for len(r.lately) > 0 && now.Sub(r.lately[0]) >= reminderEvery {
		r.lately = r.lately[1:]
	}
	last, known := r.sent.Get(version)
	since := now.Sub(last.at) // below 0 after the clock was set back
	if known && since >= 0 && since < last.wait || len(r.lately) >= maxReminders {
		return false
	}
	r.sent.Add(version, reminder{now, min(max(reminderEvery, 2*last.wait), reminderMost)})
	r.lately = append(r.lately, now)
	return true
}

// remindFor bounds how long a home read waits for its reminders.
const remindFor = time.Second

// seenReaders limits how often a process publishes Seen for a reader. The memory of seenReaders is
// bounded (I9).
type seenReaders struct {
	now  func() time.Time
	mu   sync.Mutex
	sent *simplelru.LRU[string, time.Time]
}

func newSeenReaders(now func() time.Time) *seenReaders {
	sent, err := simplelru.NewLRU[string, time.Time](maxSeen, nil)
	if err != nil {
		panic(err) // unreachable: the only error is for a size below 1, and maxSeen is a constant
	}
	return &seenReaders{now: now, sent: sent}
}

// allow reports whether Seen may be sent now for a reader. If so, allow records the time.
func (r *seenReaders) allow(user string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if at, ok := r.sent.Get(user); ok && !at.After(now) && now.Sub(at) < seenEvery { // after now: the clock was set back
		return false
	}
	r.sent.Add(user, now)
	return true
}

// forget undoes the record of allow.
func (r *seenReaders) forget(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent.Remove(user)
}

// seenEvery is the minimum time between two events Seen of one reader in a process.
const seenEvery = time.Hour

// maxSeen is the number of readers that seenReaders remembers. If there are more readers, the process
// publishes Seen more often for some readers.
const maxSeen = 65_536
