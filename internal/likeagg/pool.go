package likeagg

import "sync"

// pool runs the requests of all windows on a bounded number of workers (I9). The
// windows take turns, one request each, so that a hot post does not hold up the
// others. The order of the requests follows from the order of the calls alone, so that
// a simulation can replay it.
type pool struct {
	mu      sync.Mutex
	more    *sync.Cond
	turns   []*batch
	stopped bool
}

// batch is n calls of do, which may run at the same time, and one call of then after
// them.
type batch struct {
	n, next, left int
	do            func(i int)
	then          func()
}

func newPool() *pool {
	p := &pool{}
	p.more = sync.NewCond(&p.mu)
	return p
}

// enqueue queues a batch and returns; n is at least 1, then may be nil.
func (p *pool) enqueue(n int, do func(i int), then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns = append(p.turns, &batch{n: n, left: n, do: do, then: then})
	if n == 1 {
		p.more.Signal()
		return
	}
	p.more.Broadcast()
}

// stop ends the workers once the queue is empty.
func (p *pool) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.more.Broadcast()
}

// work is one worker.
func (p *pool) work() {
	p.mu.Lock()
	for {
		for len(p.turns) == 0 && !p.stopped {
			p.more.Wait()
		}
		if len(p.turns) == 0 {
			p.mu.Unlock() // not deferred: do and then may panic, and run without it
			return
		}
		b := p.turns[0]
		p.turns = p.turns[1:]
		i := b.next
		if b.next++; b.next < b.n {
			p.turns = append(p.turns, b)
		}
		p.mu.Unlock()
		b.do(i)
		p.mu.Lock()
		if b.left--; b.left == 0 && b.then != nil {
			p.mu.Unlock()
			b.then()
			p.mu.Lock()
		}
	}
}
