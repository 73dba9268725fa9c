package notify

import (
	"sync"
	"time"

	"fanfare/internal/schema"
)

// mostPairs bounds the memory for pairs of users (I9).
const mostPairs = 50_000

// pairs counts the notifications of mentions by one user at one recipient in the present hour. Each process counts by itself: the worker
// that writes the notification knows both users, so the bound costs no read and no write (docs/decisions/0049-notifications.md).
type pairs struct {
	mu     sync.Mutex
	most   int // 0 is no limit
	hour   int64
	counts map[[2]string]int
}

// full reports whether a recipient has as many notifications of mentions by a user as the hour allows.
func (p *pairs) full(n schema.Notice, user string, at time.Time) bool {
	if p.most == 0 || n.Kind != schema.NoticeMention {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hour == hourOf(at) && p.counts[[2]string{n.User, user}] >= p.most
}

// note counts a notification after its write, so that a repeated event counts once.
func (p *pairs) note(n schema.Notice, user string, at time.Time) {
	if p.most == 0 || n.Kind != schema.NoticeMention {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if hour := hourOf(at); p.hour != hour || len(p.counts) >= mostPairs {
		p.hour, p.counts = hour, make(map[[2]string]int)
	}
	p.counts[[2]string{n.User, user}]++
}

func hourOf(at time.Time) int64 { return at.Unix() / int64(time.Hour/time.Second) }
