package likeagg

import (
	"context"
	"slices"
	"sync"
	"time"

	"fanfare/internal/backoff"
)

// pool runs the requests of all windows on a bounded number of workers (I9). The windows take
// turns of one request each, so that a hot post does not delay other posts. A worker that backs
// off frees its place, so a throttled partition blocks nobody. The order of the requests
// follows only from the order of the calls, so that a simulation can replay that order.
type pool struct {
	places  int
	workers sync.WaitGroup

	mu      sync.Mutex
	more    *sync.Cond
	turns   []*batch
	stopped bool
	// working is the number of taken places. waiting is the number of workers that wait
	// without a place.
	working, waiting int
	// back has the workers that have waited and need a place again.
	back []chan struct{}
}

// batch is n calls of do, which may run at the same time, and one call of then after all of them.
type batch struct {
	gate          *gate
	n, next, left int
	do            func(i int)
	then          func()
}

// gate counts the waiting workers of one window. A window with as many waiting workers as the pool has places
// gets no further turn until one of the workers is back.
type gate struct{ waiting int }

// waitersPerPlace bounds the workers that wait without a place. Any further worker keeps its
// place while it waits: with so many waiting workers, most of the table refuses requests.
const waitersPerPlace = 16

func newPool(places int) *pool {
	p := &pool{places: places}
	p.more = sync.NewCond(&p.mu)
	return p
}

// start starts the workers.
func (p *pool) start() {
	p.working = p.places
	for range p.places {
		p.workers.Go(p.work)
	}
}

// enqueue queues a batch and returns. n is at least 1. then and the gate may be nil.
func (p *pool) enqueue(g *gate, n int, do func(i int), then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns = append(p.turns, &batch{gate: g, n: n, left: n, do: do, then: then})
	if n == 1 {
		p.more.Signal()
		return
	}
	p.more.Broadcast()
}

// stop ends the workers once the queue is empty, and waits for them.
func (p *pool) stop() {
	p.mu.Lock()
	p.stopped = true
	p.more.Broadcast()
	p.mu.Unlock()
	p.workers.Wait()
}

// wait lets a worker wait for d or for the end of ctx. Another worker has its place during the wait.
func (p *pool) wait(ctx context.Context, d time.Duration, g *gate) {
	p.mu.Lock()
	if p.waiting >= waitersPerPlace*p.places {
		p.mu.Unlock()
		_ = backoff.Wait(ctx, d)
		return
	}
	p.waiting++
	g.waiting++
	p.workers.Go(p.work)
	p.mu.Unlock()
	_ = backoff.Wait(ctx, d)
	p.mu.Lock()
	p.waiting--
	g.waiting--
	if p.working < p.places { // the pool stops, and a worker has ended: its place is free
		p.working++
		p.mu.Unlock()
		return
	}
	mine := make(chan struct{})
	p.back = append(p.back, mine)
	p.more.Broadcast()
	p.mu.Unlock()
	<-mine
}

// turn returns the next batch that may have a turn, nil for none. The caller holds mu.
func (p *pool) turn() *batch {
	for i, b := range p.turns {
		if b.gate == nil || b.gate.waiting < p.places {
			p.turns = slices.Delete(p.turns, i, i+1)
			return b
		}
	}
	return nil
}

// work is one worker. It ends when the pool has stopped, or when it gives its place to a worker that has
// waited.
func (p *pool) work() {
	p.mu.Lock()
	for {
		if len(p.back) > 0 {
			close(p.back[0])
			p.back = p.back[1:]
			break
		}
		b := p.turn()
		if b == nil {
			if p.stopped && len(p.turns) == 0 {
				p.working--
				break
			}
			p.more.Wait()
			continue
		}
		i := b.next
		if b.next++; b.next < b.n {
			p.turns = append(p.turns, b)
		}
		p.mu.Unlock() // no deferred call, because do and then may panic, and run without the lock
		b.do(i)
		p.mu.Lock()
		if b.left--; b.left == 0 && b.then != nil {
			p.mu.Unlock()
			b.then()
			p.mu.Lock()
		}
	}
	p.mu.Unlock()
}
