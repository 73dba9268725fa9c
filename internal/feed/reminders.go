package feed

import (
	"sync"
	"time"
)

// Bounds of reminders.
const (
	// reminderEvery is the least time between two reminders of one mark.
	reminderEvery = time.Minute
	// maxReminders is the number of reminders that a process remembers, and so the
	// most that it sends in reminderEvery. Above it none is sent.
	maxReminders = 1024
)

// reminders limits how often home reads publish the event of a home mark again: once a
// minute for each mark. Its memory is bounded (I9).
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

// allow reports whether a reminder may be sent now for the mark of this version. If
// so, it records the reminder.
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
