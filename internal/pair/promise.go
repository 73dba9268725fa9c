package pair

import (
	"sync"
	"time"
)

// promise is the promise of the standby, or of the register, that the standby does not serve.
type promise struct {
	timing Timing

	mu    sync.Mutex
	gone  bool // there is no promise any more
	until time.Duration
	ended chan struct{}
	over  bool // ended is closed
	timer *time.Timer
}

// begin begins without a promise.
func (p *promise) begin(timing Timing) {
	p.timing, p.until, p.ended, p.over = timing, timing.Now(), make(chan struct{}), true
	close(p.ended)
}

// renew continues the promise for the duration lease from the moment at which the primary asked for it (P13).
func (p *promise) renew(asked, lease time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		p.until = max(p.until, asked+lease)
	}
	p.look()
}

// atMost lets the promise end at a time at the latest.
func (p *promise) atMost(end time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = min(p.until, end)
	p.look()
}

// forget ends the promise for good.
func (p *promise) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone, p.until = true, p.timing.Now()
	p.look()
}

// look compares the promise with the clock. The caller holds mu.
func (p *promise) look() {
	rest := p.until - p.timing.Now()
	switch {
	case rest > 0 && p.over:
		p.ended, p.over = make(chan struct{}), false
	case rest <= 0 && !p.over:
		close(p.ended)
		p.over = true
	}
	if rest <= 0 {
		return
	}
	if p.timer == nil {
		p.timer = time.AfterFunc(rest, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.look()
		})
	} else {
		p.timer.Reset(rest)
	}
}

// holds reports whether reads may be answered.
func (p *promise) holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.timing.Now() < p.until
}

// ends returns the channel that is closed at the end of the promise.
func (p *promise) ends() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look()
	return p.ended
}

// rest returns the rest of the promise.
func (p *promise) rest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.until-p.timing.Now())
}

// stop stops the timer.
func (p *promise) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}
