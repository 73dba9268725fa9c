package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// failoverTime is the time for which a client with WithFailover repeats a call whose context has no deadline.
const failoverTime = time.Minute

// WithFailover makes the client wait for the end of a failover: it repeats a call until the deadline of the call's
// context, or for a minute without a deadline, whatever WithAttempts is. others are the base URLs of the other machines
// of a pair. Behind a balancer there are no others.
func WithFailover(others ...string) Option {
	return func(c *Client) { c.failover, c.others = true, others }
}

// service has the machines of a service, of which one serves.
type service struct {
	machines []*url.URL
	// now is the index of the machine that gets the next request.
	now atomic.Uint32
}

func newService(bases []string) (*service, error) {
	s := &service{}
	for _, raw := range bases {
		base, err := url.Parse(strings.TrimRight(raw, "/"))
		if err != nil {
			return nil, fmt.Errorf("client: base URL: %w", err)
		}
		if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
			return nil, fmt.Errorf("client: base URL %q must be http://HOST or https://HOST", raw)
		}
		s.machines = append(s.machines, base)
	}
	return s, nil
}

// leave makes the next request go to the machine after at. It does nothing if another call has left at already.
func (s *service) leave(at uint32) {
	s.now.CompareAndSwap(at, (at+1)%uint32(len(s.machines)))
}

// tries are the attempts of a call.
type tries struct {
	began time.Time
	n     int
	// short is the number of attempts since the last stream that lasted. It decides the wait.
	short int
	// asked is the longest Retry-After since the last wait, because each machine may request a wait.
	asked time.Duration
}

// next decides about the next attempt after err. It returns the wait, or false if the call must not be repeated.
func (c *Client) next(ctx context.Context, t *tries, k call, err error) (time.Duration, bool) {
	t.n++
	t.short++
	if c.spent(ctx, t) {
		return 0, false
	}
	if _, unsent := errors.AsType[*unsentError](err); unsent {
		return 0, false
	}
	p, refused := errors.AsType[*Problem](err)
	if refused {
		t.asked = max(t.asked, p.RetryAfter)
	}
	if t.asked > maxRetryAfter || (!harmless(err) && (!Unanswered(err) || !k.repeatable())) {
		return 0, false
	}
	if Unanswered(err) && t.n%len(c.service.machines) != 0 {
		return 0, true // another machine may serve
	}
	ceiling := min(maxBackoff, baseBackoff<<min(t.short, 16))
	if c.failover {
		ceiling = min(ceiling, time.Second)
	}
	// The wait is at least half of the ceiling, so that the attempts outlast a restart of
	// the service.
	jittered := ceiling/2 + time.Duration(c.jitter()*float64(ceiling/2))
	wait := max(t.asked, jittered)
	t.asked = 0
	return wait, true
}

// spent reports whether a call has had its last attempt. The wait for the next attempt ends with the deadline of ctx.
func (c *Client) spent(ctx context.Context, t *tries) bool {
	if !c.failover {
		return t.n >= c.attempts
	}
	_, limited := ctx.Deadline()
	return !limited && time.Since(t.began) >= failoverTime
}
