package table

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Urgency orders the kinds of work of a process. Under throttling those of the least
// urgency slow down first.
type Urgency int

// The kinds of work, the most urgent first.
const (
	// UrgencyAPI is for writes that a client waits for. They never wait here, so they
	// take all that the table gives, and their refusals slow down all others.
	UrgencyAPI Urgency = iota
	UrgencyPosts
	UrgencyChunks
	UrgencyBackfills
	urgencies
)

const (
	// A refusal lowers the limit to paceCut of it, or of the units that were written in a
	// second if that is less, once a paceRest. The limit grows by paceGrowth each second.
	paceCut    = 0.7
	paceRest   = time.Second
	paceGrowth = 1.2
	// leastPace is the lowest limit, a batch a second.
	leastPace = MaxBatchWrite
	// paceCalm is the time without a refusal after which there is no limit any more.
	paceCalm = time.Minute
	// paceLook is the least time for which a write waits, and mostWait the most: then it
	// fails. Work that reads, waits and then writes relies on that (I2).
	paceLook = 5 * time.Millisecond
	mostWait = 2 * time.Minute
	// The entries of an ordinary post make chunks and backfills yield for yieldFor. They write
	// yieldBatch entries at a time then. With Rest they write restBatch of them, and rest after
	// each such write for yieldRest times its duration, or for mostRest where a slow disk makes
	// that long.
	yieldFor   = time.Second
	yieldBatch = 256
	restBatch  = 128
	yieldRest  = 90
	mostRest   = 200 * time.Millisecond
)

// Pace shares a table that is short of capacity between the kinds of work of a process.
// While the table refuses no write, units have no limit. When the table does, Pace limits
// the write units a second, and finds the limit as TCP finds its own: it lowers it with
// refusals and raises it with time. Writes wait for their units, and of those that wait
// the most urgent go first. So it needs no knowledge of the table's capacity, nor of other
// processes, which share it in the same way.
//
// While ordinary posts are delivered, those that need no chunk, the batches of chunks and
// backfills yield to them (I8). A table in the process takes processors and a disk from
// everybody, so there they rest. A table behind a network takes processors for each request
// that is under way, so there is a bound for these.
type Pace struct {
	// Rest lets them rest. AtOnce is the number of batches of one Store that may be under way
	// at once, 0 for no bound. Both must not change once there is a Store.
	Rest   bool
	AtOnce int

	mu sync.Mutex
	// posted is the time of the last entries of an ordinary post.
	posted time.Time
	// limit is in units a second, 0 for none. credit is the units that may be written
	// now. It is negative after a large write.
	limit, credit float64
	// at is the time of both, refused that of the last refusal, lowered that of the last
	// lower limit.
	at, refused, lowered time.Time
	// count is the units of the second that began at second, and last those a second before.
	second      time.Time
	count, last float64
	// refusals is the number of writes that the table refused for lack of capacity.
	refusals int64
	// waiting is the number of writes that wait.
	waiting [urgencies]int
}

// Store returns s for the work of one kind.
func (p *Pace) Store(s Store, u Urgency) Store {
	return &paced{s, p, u, make(chan struct{}, p.AtOnce)}
}

// Limit returns the limit in write units a second, 0 if there is none.
func (p *Pace) Limit() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass()
	return p.limit
}

// Refusals returns the number of writes that the table refused for lack of capacity, or
// took after they were sent again.
func (p *Pace) Refusals() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusals
}

// pass brings limit and credit up to now. The caller holds mu.
func (p *Pace) pass() time.Time {
	now := time.Now()
	passed := now.Sub(p.at).Seconds()
	p.at = now
	if now.Sub(p.refused) >= paceCalm {
		p.limit, p.credit = 0, 0
	}
	if p.limit > 0 {
		p.limit *= math.Pow(paceGrowth, passed)
		p.credit = min(p.credit+p.limit*passed, max(MaxBatchWrite, p.limit/10))
	}
	return now
}

// ShortError is the failure of a write that was not sent, because the table is short of
// capacity or slow, and other work goes first.
type ShortError struct{ Op Op }

func (e *ShortError) Error() string {
	return fmt.Sprintf("table: %s: the write was not sent: the table is short of write capacity or slow, and other work goes first: raise its capacity, or wait", e.Op)
}

// Unavailable marks the error for queue.Transient.
func (*ShortError) Unavailable() {}

// take waits until units may be written. The write has been waiting since began.
func (p *Pace) take(ctx context.Context, op Op, u Urgency, units float64, began time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[u]++
	defer func() { p.waiting[u]-- }()
	for {
		now := p.pass()
		wait := p.wait(u)
		if wait == 0 {
			if p.limit > 0 && u != UrgencyAPI {
				p.credit -= units
			}
			return nil
		}
		if now.Sub(began) >= mostWait {
			return &ShortError{op}
		}
		p.mu.Unlock()
		sleep(ctx, wait)
		p.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// wait returns how long a write has to wait before it looks again.
func (p *Pace) wait(u Urgency) time.Duration {
	if p.limit == 0 || u == UrgencyAPI {
		return 0
	}
	wait := time.Duration(-p.credit / p.limit * float64(time.Second))
	for _, n := range p.waiting[:u] {
		if n > 0 { // these take what there is
			return max(wait, time.Duration(MaxBatchWrite/p.limit*float64(time.Second)), paceLook)
		}
	}
	if p.credit > 0 {
		return 0
	}
	return max(wait, paceLook)
}

// yields reports whether a kind of work has to yield to ordinary posts.
func (p *Pace) yields(u Urgency) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.yielding(u, time.Now())
}

// yielding is yields for a caller that holds mu.
func (p *Pace) yielding(u Urgency, now time.Time) bool {
	return (p.Rest || p.AtOnce > 0) && u > UrgencyPosts && now.Sub(p.posted) < yieldFor
}

// done counts a write that ended, and returns how long its caller rests. A post that needs
// chunks is planned without a batch, so it does not make its own chunks yield.
func (p *Pace) done(op Op, u Urgency, took time.Duration, res WriteResult, err error) (rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.pass()
	switch {
	case op != OpBatchWrite:
	case u == UrgencyPosts:
		p.posted = now
	case p.Rest && p.yielding(u, now):
		rest = min(yieldRest*took, mostRest)
	}
	if passed := now.Sub(p.second); passed >= time.Second {
		p.last, p.count, p.second = p.count/passed.Seconds(), 0, now
	}
	if u != UrgencyAPI {
		p.count += res.Units.Write
	}
	if !res.Throttled && !refused(err) {
		return rest
	}
	p.refused = now
	p.refusals++
	if now.Sub(p.lowered) < paceRest {
		return rest
	}
	p.lowered = now
	written := max(p.last, p.count)
	if p.limit == 0 || p.limit > written {
		p.limit = written
	}
	p.limit = max(paceCut*p.limit, leastPace)
	p.credit = min(p.credit, 0)
	return rest
}

// refused reports whether a write failed for lack of capacity.
func refused(err error) bool {
	if unavailable, ok := errors.AsType[*UnavailableError](err); ok {
		return unavailable.Throttled
	}
	if cancelled, ok := errors.AsType[*CancelledError](err); ok {
		for _, r := range cancelled.Reasons {
			if r.Reason == CancelThrottled {
				return true
			}
		}
	}
	return false
}

// paced is a Store whose writes wait for their units, and yield to posts.
type paced struct {
	Store
	pace *Pace
	u    Urgency
	// places has a value for each of the batches that AtOnce bounds.
	places chan struct{}
}

// write does a write of so many units.
func (s *paced) write(ctx context.Context, op Op, units int, do func() (WriteResult, error)) (WriteResult, error) {
	came := time.Now()
	if op == OpBatchWrite && s.pace.AtOnce > 0 && s.pace.yields(s.u) {
		waiting, cancel := context.WithDeadlineCause(ctx, came.Add(mostWait), &ShortError{op})
		defer cancel()
		select {
		case s.places <- struct{}{}:
			defer func() { <-s.places }()
		case <-waiting.Done():
			return WriteResult{}, context.Cause(waiting)
		}
	}
	if err := s.pace.take(ctx, op, s.u, float64(units), came); err != nil {
		return WriteResult{}, err
	}
	began := time.Now()
	res, err := do()
	if rest := s.pace.done(op, s.u, time.Since(began), res, err); rest > 0 {
		sleep(ctx, rest)
	}
	return res, err
}

func (s *paced) Put(ctx context.Context, in PutInput) (WriteResult, error) {
	return s.write(ctx, OpPut, 1, func() (WriteResult, error) { return s.Store.Put(ctx, in) })
}

func (s *paced) Update(ctx context.Context, in UpdateInput) (WriteResult, error) {
	return s.write(ctx, OpUpdate, 1, func() (WriteResult, error) { return s.Store.Update(ctx, in) })
}

func (s *paced) Delete(ctx context.Context, in DeleteInput) (WriteResult, error) {
	return s.write(ctx, OpDelete, 1, func() (WriteResult, error) { return s.Store.Delete(ctx, in) })
}

func (s *paced) Transact(ctx context.Context, in TransactInput) (WriteResult, error) {
	return s.write(ctx, OpTransact, 2*len(in.Ops), func() (WriteResult, error) { return s.Store.Transact(ctx, in) })
}

// BatchWrite writes all at once, or in parts so that more urgent writes come in between: in
// single requests while there is a limit, and in larger parts while it yields.
func (s *paced) BatchWrite(ctx context.Context, writes []BatchWrite) (all WriteResult, err error) {
	size := max(1, len(writes))
	switch {
	case s.pace.Limit() > 0 && s.u != UrgencyAPI:
		size = MaxBatchWrite
	case s.pace.yields(s.u):
		if size = yieldBatch; s.pace.Rest {
			size = restBatch
		}
	}
	if len(writes) > size {
		if err := ValidateBatch(writes); err != nil { // no part shows that a key is in two of them
			return all, err
		}
	}
	for part := range slices.Chunk(writes, size) {
		res, err := s.write(ctx, OpBatchWrite, len(part), func() (WriteResult, error) { return s.Store.BatchWrite(ctx, part) })
		all.Units, all.Throttled = all.Units.Plus(res.Units), all.Throttled || res.Throttled
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
