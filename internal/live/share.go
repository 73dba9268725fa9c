package live

import (
	"context"
	"sync"
	"time"

	"fanfare/internal/backoff"
	"fanfare/internal/feed/access"
)

const (
	// unitTime is the time that pays for one capacity unit of a user's share: the streams of a user use
	// 100 units a second (I11).
	unitTime = 10 * time.Millisecond
	// burst is the time by which a user may be ahead of the share: 1,000 units at once.
	burst = 1000 * unitTime
)

// shares limits the reads of each user's streams (I11). A user's share outlives the streams, so that a
// client that reconnects gets no new share. A sweep removes the shares that are full again, ten
// seconds after the last read. The number of shares is at most 64 plus twice the number that the last
// sweep left (I9).
type shares struct {
	mu sync.Mutex
	// paid has, by user, the time at which the units that the user's streams have used are paid for.
	paid map[string]time.Time
	// kept is the number of shares that the last sweep left.
	kept int
}

// owes returns the time for which user's streams have to rest before their next read.
func (s *shares) owes(user string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.paid[user]))
}

// last returns the time until which the reads of user's streams are paid for. It is zero if they were paid for long ago.
func (s *shares) last(user string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paid[user]
}

// use counts units that user's streams have used. The streams rest for at least rest.
func (s *shares) use(user string, units float64, rest time.Duration) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	paid := s.paid[user]
	if full := now.Add(-burst); paid.Before(full) {
		paid = full
	}
	paid = paid.Add(time.Duration(units * float64(unitTime)))
	if owed := now.Add(rest); rest > 0 && paid.Before(owed) {
		paid = owed
	}
	s.paid[user] = paid
	if len(s.paid) < 2*s.kept+64 {
		return
	}
	for other, paid := range s.paid {
		if !paid.After(now.Add(-burst)) {
			delete(s.paid, other)
		}
	}
	s.kept = len(s.paid)
}

// rest waits until the home's user owes no units. A caller that needs the home's turn rests before it
// takes the turn, so that it does not block the turn.
func (hm *userHome) rest(ctx context.Context) error {
	for {
		owed := hm.hub.shares.owes(hm.user)
		if owed == 0 {
			return nil
		}
		if err := backoff.Wait(ctx, owed); err != nil {
			return err
		}
	}
}

// read runs a read of the home, for st, or for all streams if st is nil. One read of a home runs at a
// time, and only while the home's user owes no units. So a user exceeds its share by burst and one
// read at most.
func (hm *userHome) read(ctx context.Context, st *Stream, units float64, read func(context.Context) error) error {
	for {
		if err := hm.rest(ctx); err != nil {
			return err
		}
		if err := enter(ctx, hm.reading); err != nil {
			return err
		}
		if hm.hub.shares.owes(hm.user) == 0 {
			break
		}
		<-hm.reading // the previous read used many units
	}
	defer func() { <-hm.reading }()
	return hm.charged(ctx, st, units, read)
}

// charged runs a read that needs some units, and charges the units that the read used. All table calls
// of streams use charged. A read of an opening already has its units, and a read that needs no units
// does not wait.
func (hm *userHome) charged(ctx context.Context, st *Stream, units float64, read func(context.Context) error) error {
	if st != nil && st.opening {
		units = 0
	}
	if units > 0 {
		if err := hm.hub.budget.wait(ctx, units); err != nil {
			return err
		}
	}
	ctx, cost := access.WithCost(ctx)
	defer func() {
		hm.hub.budget.use(cost.Units() - units)
		hm.charge(st, cost.Units())
	}()
	return hm.hub.reading(ctx, read)
}

// charge charges units to the user, and to the services whose streams used the units. The home rests
// while its user owes units. The home also rests while all its streams belong to services and at least
// one of these services owes units.
func (hm *userHome) charge(st *Stream, units float64) {
	services, own := hm.hub.services(hm)
	if st != nil {
		services = []string{st.service}
	}
	rest := hm.hub.cfg.Charge(hm.user, units)
	for _, service := range services {
		if service == "" {
			continue
		}
		if owed := hm.hub.cfg.ChargeService(service, units); !own {
			rest = max(rest, owed)
		}
	}
	hm.hub.shares.use(hm.user, units, rest)
}
