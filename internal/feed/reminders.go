package feed

import (
	"sync"
	"time"
)

// Bounds of reminders.
const (
	// reminderEvery is how often one mark's backfill is asked for again.
	reminderEvery = time.Minute
	// maxReminders is how many are remembered, and so the most that one process
	// sends in reminderEvery: beyond it nothing is sent, rather than too much.
	maxReminders = 1024
)

// reminders limits how often home reads publish Followed again: once a mark and
// minute. It is bounded (I9).
type reminders struct {
	now  func() time.Time
	mu   sync.Mutex
	sent map[string]struct{}
	// order holds what sent holds, oldest first.
	order []reminder
}

type reminder struct {
	version string
	at      time.Time
}

func newReminders(now func() time.Time) *reminders {
	return &reminders{now: now, sent: map[string]struct{}{}}
}

// allow tells whether the mark of this version may be reminded of now, and takes
// note of it.
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
