package home

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// These constants bound the reminders.
const (
	// reminderEvery is the minimum time between two reminders of one mark.
	reminderEvery = time.Minute
	// maxReminders is the number of reminders that a process remembers, and so the maximum number that the
	// process sends in reminderEvery. The process sends no reminder above maxReminders.
	maxReminders = 1024
)

// reminders limits how often home reads publish the event of a home mark again: once a minute for each
// mark. The memory of reminders is bounded (I9).
type reminders struct {
	now  func() time.Time
	mu   sync.Mutex
	sent map[string]struct{}
	// order lists the members of sent, oldest first.
	order []reminder
}

type reminder struct {
	version string
	at      time.Time
}

func newReminders(now func() time.Time) *reminders {
	return &reminders{now: now, sent: map[string]struct{}{}}
}

// allow reports whether a reminder for the mark of this version may be sent now. If so, allow records
// the reminder.
func (r *reminders) allow(version string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for len(r.order) > 0 && now.Sub(r.order[0].at) >= reminderEvery {
		delete(r.sent, r.order[0].version)
		r.order = r.order[1:]
	}
	if _, recently := r.sent[version]; recently || len(r.order) >= maxReminders {
		return false
	}
	r.sent[version] = struct{}{}
	r.order = append(r.order, reminder{version, now})
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
