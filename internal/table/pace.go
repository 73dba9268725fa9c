package table

import (
	"context"
	"errors"
	"fmt"
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

// large reports whether the work is of chunks or backfills, which nobody waits for.
func (u Urgency) large() bool { return u > UrgencyPosts }

const (
	// The table is short of capacity for all once leastRefused units were refused, and refusedShare
	// of all units: on demand a refusal is mostly one partition or one internal failure. The first
	// limit of all is leastFirst or more, which every partition of a table on demand takes. A limit
	// is lowered while stillRefused of all units are refused, so rare refusals do not keep it low.
	leastRefused = 2 * MaxBatchWrite
	refusedShare = 0.1
	stillRefused = 0.01
	leastFirst   = 1000
	// mostWait is the most time for which a write waits: then it fails. Work that reads, waits and
	// then writes relies on that (I2).
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
// While the table refuses few writes, units have no limit. When it refuses many, Pace limits
// the write units a second. Writes wait for their units, and of those that wait the most urgent
// go first. So it needs no knowledge of the table's capacity, nor of other processes, which
// share it in the same way.
//
// A partition takes fewer units than its table. So a partition key with many refusals is hot: it
// has a limit of its own, for which only chunks and backfills wait that write nothing but this key.
// Its refusals do not slow down the work on other keys (I8).
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
	// all limits all work but the API's, and keys limit large work on hot keys.
	all  valve
	keys hotKeys
	// taken is the units that the table took of keys that are not hot, the API's included. refused
	// is the units that it refused and that count for the table. takenAt and shortAt are the times
	// of the last of these.
	taken, refused   tally
	takenAt, shortAt time.Time
	// refusals is the number of writes that the table refused for lack of capacity.
	refusals int64
}

// Store returns s for the work of one kind.
func (p *Pace) Store(s Store, u Urgency) Store {
	return &paced{s, p, u, make(chan struct{}, p.AtOnce)}
}

// Limit returns the limit of all work in write units a second, 0 if there is none.
func (p *Pace) Limit() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all.pass(time.Now())
	return p.all.limit
}

// HotKeys returns the number of partition keys that have a limit of their own.
func (p *Pace) HotKeys() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys.hot(time.Now())
}

// Refusals returns the number of writes that the table refused for lack of capacity, or
// took after they were sent again.
func (p *Pace) Refusals() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusals
}

// ShortError is the failure of a write that was not sent, because the table is short of
// capacity or slow, and other work goes first.
type ShortError struct{ Op Op }

func (e *ShortError) Error() string {
	return fmt.Sprintf("table: %s: the write was not sent: the table or the partition of its key is short of write capacity or slow, and other work goes first: see \"Table throttles\" in docs/OPERATIONS.md", e.Op)
}

// Unavailable marks the error for queue.Transient.
func (*ShortError) Unavailable() {}

// request is a write that waits for its units.
type request struct {
	op Op
	u  Urgency
	// key is the partition key if all its writes have the same, else "". writes is their number,
	// and units the least that they cost.
	key           string
	writes, units int
	// came is when it began to wait.
	came time.Time
}

// take waits until the units of r may be written: by the limit of its key, if that is hot and the
// work is large, and then by the limit of all.
func (p *Pace) take(ctx context.Context, r request) error {
	if r.u == UrgencyAPI {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if key := p.keys.of(time.Now(), r.key); key != nil && r.u.large() {
		if err := p.waitFor(ctx, &key.valve, r); err != nil {
			return err
		}
	}
	return p.waitFor(ctx, &p.all, r)
}

// waitFor waits until v has credit, and takes the units of r from it. The caller holds mu.
func (p *Pace) waitFor(ctx context.Context, v *valve, r request) error {
	v.waiting[r.u]++
	defer func() { v.waiting[r.u]-- }()
	for {
		now := time.Now()
		v.pass(now)
		wait := v.wait(r.u)
		if wait == 0 {
			v.spend(float64(r.units))
			return nil
		}
		if now.Sub(r.came) >= mostWait {
			return &ShortError{r.op}
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
func (p *Pace) done(r request, took time.Duration, res WriteResult, err error) (rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case r.op != OpBatchWrite:
	case r.u == UrgencyPosts:
		p.posted = now
	case p.Rest && p.yielding(r.u, now):
		rest = min(yieldRest*took, mostRest)
	}
	refused, written := refusedKeys(res, err), billed(res, err).Write
	if len(refused) > len(res.Refused) { // a transaction that was cancelled for lack of capacity
		written = 0
	}
	p.count(now, r, written)
	p.learn(now, r, refused, max(res.Units.Write, float64(r.units))/float64(r.writes))
	return rest
}

// count counts units that were written. A large item costs more than take asked for.
func (p *Pace) count(now time.Time, r request, written float64) {
	p.all.pass(now)
	p.taken.pass(now)
	p.refused.pass(now)
	if p.keys.of(now, r.key) == nil && written > 0 {
		p.taken.now += written
		p.takenAt = now
	}
	if r.u == UrgencyAPI {
		return
	}
	more := max(0, written-float64(r.units))
	p.all.written.now += written
	p.all.spend(more)
	if key := p.keys.keys[r.key]; key != nil && r.u.large() {
		key.written.now += written
		key.spend(more)
	}
}

// learn lowers limits for refused writes to keys, of so many units each. While the table takes all
// other writes, the refusals of hot keys do not lower the limit of all.
func (p *Pace) learn(now time.Time, r request, keys []string, each float64) {
	if len(keys) == 0 {
		return
	}
	p.refusals++
	for _, pk := range keys {
		if p.keys.refuse(now, r.u, pk, each) {
			p.refused.now += each
			p.shortAt = now
		}
	}
	if p.short(now) {
		p.all.lower(now, leastFirst)
	}
}

// short reports whether the table is short for all, by a refusal that came now. A first limit needs
// the refusal of a key that is not hot. A later one needs such refusals lately, or that the table
// took no write of such keys.
func (p *Pace) short(now time.Time) bool {
	refused, taken := p.refused.recent(), p.taken.recent()
	if p.all.limit > 0 {
		return now.Sub(p.takenAt) >= hotWithin || now.Sub(p.shortAt) < hotWithin && refused >= stillRefused*(refused+taken)
	}
	return p.shortAt.Equal(now) && refused >= leastRefused && refused >= refusedShare*(refused+taken)
}

// refusedKeys returns the partition key of each write that was refused for lack of capacity, once
// for each time.
func refusedKeys(res WriteResult, err error) []string {
	keys := slices.Clip(res.Refused)
	if cancelled, ok := errors.AsType[*CancelledError](err); ok {
		for _, r := range cancelled.Reasons {
			if r.Reason == CancelThrottled {
				keys = append(keys, r.Key.PK)
			}
		}
	}
	return keys
}

// paced is a Store whose writes wait for their units, and yield to posts.
type paced struct {
	Store
	pace *Pace
	u    Urgency
	// places has a value for each of the batches that AtOnce bounds.
	places chan struct{}
}

// write does a write of r's kind.
func (s *paced) write(ctx context.Context, r request, do func() (WriteResult, error)) (WriteResult, error) {
	r.u, r.came = s.u, time.Now()
	if r.op == OpBatchWrite && s.pace.AtOnce > 0 && s.pace.yields(s.u) {
		waiting, cancel := context.WithDeadlineCause(ctx, r.came.Add(mostWait), &ShortError{r.op})
		defer cancel()
		select {
		case s.places <- struct{}{}:
			defer func() { <-s.places }()
		case <-waiting.Done():
			return WriteResult{}, context.Cause(waiting)
		}
	}
	if err := s.pace.take(ctx, r); err != nil {
		return WriteResult{}, err
	}
	began := time.Now()
	res, err := do()
	if rest := s.pace.done(r, time.Since(began), res, err); rest > 0 {
		sleep(ctx, rest)
	}
	return res, err
}

// single is the request of a write of one item.
func single(op Op, key Key) request { return request{op: op, key: key.PK, writes: 1, units: 1} }

func (s *paced) Put(ctx context.Context, in PutInput) (WriteResult, error) {
	return s.write(ctx, single(OpPut, in.Item.Key), func() (WriteResult, error) { return s.Store.Put(ctx, in) })
}

func (s *paced) Update(ctx context.Context, in UpdateInput) (WriteResult, error) {
	return s.write(ctx, single(OpUpdate, in.Key), func() (WriteResult, error) { return s.Store.Update(ctx, in) })
}

func (s *paced) Delete(ctx context.Context, in DeleteInput) (WriteResult, error) {
	return s.write(ctx, single(OpDelete, in.Key), func() (WriteResult, error) { return s.Store.Delete(ctx, in) })
}

// Transact takes the key of its last operation for its own: the first ones of large work check
// conditions elsewhere, and the operations after these have one key.
func (s *paced) Transact(ctx context.Context, in TransactInput) (WriteResult, error) {
	r := request{op: OpTransact, writes: max(1, len(in.Ops)), units: 2 * len(in.Ops)}
	if n := len(in.Ops); n > 0 {
		r.key = in.Ops[n-1].Key().PK
	}
	return s.write(ctx, r, func() (WriteResult, error) { return s.Store.Transact(ctx, in) })
}

// BatchWrite writes all at once, or in parts so that more urgent writes come in between: in
// single requests while there is a limit, and in larger parts while it yields.
func (s *paced) BatchWrite(ctx context.Context, writes []BatchWrite) (all WriteResult, err error) {
	size, key := max(1, len(writes)), oneKey(writes)
	switch {
	case s.pace.limits(s.u, key):
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
		r := request{op: OpBatchWrite, key: key, writes: len(part), units: len(part)}
		res, err := s.write(ctx, r, func() (WriteResult, error) { return s.Store.BatchWrite(ctx, part) })
		all = all.Plus(res)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// limits reports whether the writes of a kind of work to a key may have to wait for their units.
func (p *Pace) limits(u Urgency, key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.all.pass(now)
	return u != UrgencyAPI && p.all.limit > 0 || u.large() && p.keys.of(now, key) != nil
}

// oneKey returns the partition key of writes that all have the same, else "".
func oneKey(writes []BatchWrite) string {
	if len(writes) == 0 {
		return ""
	}
	pk := writes[0].Key().PK
	for _, w := range writes[1:] {
		if w.Key().PK != pk {
			return ""
		}
	}
	return pk
}
