// Package sim is the deterministic simulation. It runs the product's own feed, fanout
// and likeagg code on a simulated table and simulated queues, in virtual time, under
// faults that one seed decides. After a run it checks the invariants I1 to I7 against an
// oracle of its own. It must never be imported by the product, only by tests.
//
// # How a seed decides everything
//
// testing/synctest gives virtual time but no order: goroutines that become ready
// at once run in any order. So every call of a port parks here. The driver, the only
// goroutine that draws random numbers, waits until all others are blocked, sorts the
// parked calls by their content, and lets one go on. Between two calls a process does
// nothing that another one could see.
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// World is one run.
type World struct {
	seed   uint64
	rng    *rand.Rand // only the driver draws
	pcg    *rand.PCG  // the source of rng; see about
	phase  int        // of the world's life
	since  int        // steps since the phase began
	faults Rates
	off    map[string]bool // kinds of fault that are drawn and left out
	Fired  Counters
	Met    Counters // calls by crash point
	target target
	trace  trace

	store *tabletest.Memory
	stale replica
	lates []lateEffect
	procs []*Proc

	queues map[string]*queueState
	load   *workload
	ttls   map[table.Key]int64 // of the items that have one
	set    map[string]bool     // messages that the backstop set aside
	began  map[string]int      // step in which a message's handling began, by the op
	tombs  map[string]int      // step in which a post was deleted
	tight  []stretch           // stretches of throttling
	book   likeBook
	reach  *reach
	slowed string                    // the kind of call that is slow
	items  map[table.Key]*table.Item // as last written, for reach
	acting *call                     // whose effect happens now

	shape      Shape
	likesTable func(table.Store) table.Store
	aged       bool           // days have passed, so messages may be too old
	hours      bool           // clocks are apart by hours
	heldBack   bool           // dead letters of likes wait for days
	leaps      int            // outages of hours
	leapAt     int            // step of the next one, 0 for none
	armed      map[string]int // faults that wait for their moment, and until which step
	histories  int            // ledgers that were filled

	released map[string]int    // calls by name
	names    map[string]string // of messages, by id
	aliases  aliases

	mu     sync.Mutex
	parked []*call // guarded by mu until the driver has seen all others block
	steps  int
}

// Rates are the odds of each fault at each opportunity; the zero value is a calm
// world.
type Rates struct {
	Fail    float64 // a call fails and has no effect
	Lost    float64 // a call has its effect, but its answer is lost
	Late    float64 // a call times out, and has its effect later
	Partial float64 // a batch is done in part, and fails
	Stale   float64 // an eventually consistent read is stale
	Crash   float64 // a process is killed before or after the effect of a call
	Pause   float64 // a process stands still for a while (a zombie)
	Dup     float64 // a message is delivered, and stays visible
	Expire  float64 // a message's visibility ends while it is handled
	AckLost float64 // the removal of a message fails
	// Throttle begins a stretch in which the table refuses the calls of a partition,
	// or all calls.
	Throttle float64
	Conflict float64 // a transaction meets another write of one of its items
	Hold     bool    // calls of one kind are slow
	// Backstop moves a message to the dead letters though nothing is wrong with it.
	Backstop float64
	Slow     float64 // the answer of a call comes after the effects of later ones
	Stop     float64 // a process is stopped, and finishes its work
	Sleep    float64 // a process is suspended for hours or days
	Step     float64 // a process's clock is set
	Leap     float64 // nothing answers for hours
	Bury     float64 // all aggregators die, and all likes become dead letters for days
	Sweep    float64 // an expired item is deleted
	History  float64 // the ledgers get the entries of weeks
}

// Stormy returns the rates of a faulty run.
func Stormy() Rates {
	return Rates{
		Fail: .02, Lost: .015, Late: .03, Partial: .1, Stale: .4,
		Crash: .0015, Pause: .0015, Dup: .04, Expire: .002, AckLost: .03, Backstop: .004,
		Throttle: .003, Conflict: .02, Hold: true,
		Slow: .05, Stop: .001, Sleep: .0008, Step: .001, Leap: .0002, Bury: .0003, Sweep: .01, History: .0006,
	}
}

// Counters count events by name.
type Counters map[string]int

// Kinds of fault, as Counters name them.
const (
	FaultFail    = "failed call"
	FaultLost    = "lost answer"
	FaultLate    = "late effect"
	FaultPartial = "partial batch"
	FaultStale   = "stale read"
	FaultCrash   = "crash"
	FaultPause   = "zombie"
	FaultDup     = "duplicate delivery"
	FaultReorder = "reordered delivery"
	FaultExpire  = "visibility expired"
	FaultAckLost = "lost ack"
	FaultTimeout = "deadline passed"
	FaultSkew    = "clock skew"
	FaultAhead   = "clock far ahead"
	FaultDays    = "days passed"
	FaultTTL     = "expired item deleted late"
	FaultRedrive = "dead letter redriven"

	FaultThrottle = "throttled call"
	FaultConflict = "conflicting transaction"
	FaultHold     = "held call"

	FaultSlow     = "answer after later effects"
	FaultStop     = "graceful stop"
	FaultSleep    = "sleeper"
	FaultStep     = "clock step"
	FaultHours    = "clock skew of hours"
	FaultMidnight = "midnight in a storm"
	FaultLeap     = "outage of hours"
	FaultBury     = "likes buried for days"
	FaultOld      = "too old message"
	FaultSweep    = "expired item deleted beside traffic"
	FaultEarly    = "item deleted early"
	FaultHistory  = "ledger of weeks"
)

// Faults returns every kind of fault.
func Faults() []string {
	return []string{
		FaultFail, FaultLost, FaultLate, FaultPartial, FaultStale, FaultCrash, FaultPause, FaultDup, FaultReorder,
		FaultExpire, FaultAckLost, FaultTimeout, FaultSkew, FaultAhead, FaultDays, FaultTTL, FaultRedrive,
		FaultThrottle, FaultConflict, FaultHold,
		FaultSlow, FaultStop, FaultSleep, FaultStep, FaultHours, FaultMidnight, FaultLeap, FaultBury, FaultOld, FaultSweep,
		FaultEarly, FaultHistory,
	}
}

// target is the crash point that a seed aims at. So a run of many seeds kills a process
// at each of them, before and after its effect.
type target struct {
	point string
	skip  int
	after bool
}

// Proc is one process. When it crashes, only the table and the queues are left.
type Proc struct {
	Name   string
	role   string
	w      *World
	ctx    context.Context // ends with the stop, or with the life
	stop   context.CancelFunc
	life   *life
	skew   atomic.Int64 // nanoseconds
	paused time.Time    // until when
	asleep bool         // paused for so long that its requests are void
	ending bool         // stopped, and not ended yet
	dead   bool
	begin  func(p *Proc) // starts its goroutines
	bootAt time.Time     // of a dead one
	boots  int
	subs   []*subscription
	work   sync.WaitGroup
}

// life is one life of a process: from a boot to a crash, or to the end of a stop. What
// is left of a former life has no effect any more.
type life struct {
	ctx     context.Context
	kill    context.CancelFunc
	over    bool // guarded by World.mu, and so is running, the number of its goroutines
	running int
}

// Now is the process's clock.
func (p *Proc) Now() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) }

// Go runs f as a goroutine of the process. The context ends with the stop.
func (p *Proc) Go(f func(ctx context.Context)) {
	ctx := p.ctx
	p.run(func() { f(ctx) })
}

func (p *Proc) run(f func()) {
	l := p.life
	p.w.mu.Lock()
	l.running++
	p.w.mu.Unlock()
	p.work.Go(func() {
		f()
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		l.running--
	})
}

var (
	errCrashed   = errors.New("simulated: the process was killed")
	errThrottled = errors.New("simulated: throttled")
	errDown      = errors.New("simulated: no answer")
)

// call is a port call that waits for the driver.
type call struct {
	proc  *Proc
	at    time.Time // when it was made
	ctx   context.Context
	kind  string // port and operation: "table.put"
	class string // kind and sort of key: the name of a crash point
	label string // differs from those of other calls of the process, for the order
	about string // its keys or ids
	op    string // the operation or message that it works for
	name  string // all of that: the same in a run without other operations
	batch bool
	// pks are the partitions of a table call, ops the operations of a transaction.
	pks []string
	ops []table.TransactOp
	in  any // of a write of one item
	// parked is the step in which a slow call began to wait.
	parked int
	// effect does it. part is below 1 for a batch that is done in part.
	effect func(part float64) error
	// spare writes the part of a batch for which there is capacity.
	spare func(short func(pk string) bool) error
	err   error
	done  chan struct{}
	// due is the step in which the answer comes to a call that had its effect, 0 for one
	// that has not had it. answered is that answer.
	due      int
	answered error
}

// stretch is a number of steps in which the table has no capacity for one partition, or
// for all.
type stretch struct {
	pk    string // "" is all
	until int    // step
}

func (s stretch) covers(pk string) bool { return s.pk == "" || s.pk == pk }

type lateEffect struct {
	at     int // step
	sent   time.Time
	label  string
	effect func(float64) error
}

// opKey is the key of the name of an operation or message in the context of its work.
// So two equal calls of a process have different names, the same in each run.
type opKey struct{}

func withOp(ctx context.Context, op string) context.Context {
	return context.WithValue(ctx, opKey{}, op)
}

func opOf(ctx context.Context) string {
	op, ok := ctx.Value(opKey{}).(string)
	if !ok {
		return "-"
	}
	return op
}

// do parks a call until the driver lets it go on. The error is the effect's, or that of
// a fault.
func (p *Proc) do(ctx context.Context, l *life, c *call) error {
	c.proc, c.ctx, c.done, c.at = p, ctx, make(chan struct{}), time.Now()
	c.label = opOf(ctx) + " " + c.label
	c.op = opOf(ctx)
	p.w.mu.Lock()
	if l.over {
		p.w.mu.Unlock()
		return errCrashed
	}
	p.w.parked = append(p.w.parked, c)
	p.w.mu.Unlock()
	<-c.done
	return c.err
}

func newWorld(seed uint64, shape Shape) *World {
	pcg := rand.NewPCG(seed, 0)
	w := &World{
		seed: seed, shape: shape, rng: rand.New(pcg), pcg: pcg, released: map[string]int{}, names: map[string]string{}, aliases: aliases{map[string]string{}, map[string]int{}}, Fired: Counters{}, Met: Counters{},
		store: tabletest.NewMemory(), stale: replica{store: tabletest.NewMemory()}, queues: map[string]*queueState{}, ttls: map[table.Key]int64{}, off: map[string]bool{}, began: map[string]int{}, tombs: map[string]int{}, set: map[string]bool{}, book: newLikeBook(), items: map[table.Key]*table.Item{}, armed: map[string]int{},
	}
	w.reach, w.slowed = newReach(&w.book), w.slow()
	return w
}

// start adds a process of a role; begin wires the product's parts to its ports and
// starts their goroutines.
func (w *World) start(role string, n int, begin func(p *Proc)) *Proc {
	p := &Proc{Name: fmt.Sprintf("%s-%d", role, n), role: role, w: w, begin: begin}
	w.procs = append(w.procs, p)
	w.boot(p)
	return p
}

func (w *World) boot(p *Proc) {
	p.life = &life{}
	ctx, kill := context.WithCancelCause(context.Background())
	p.life.ctx, p.life.kill = ctx, func() { kill(errCrashed) }
	p.ctx, p.stop = context.WithCancel(p.life.ctx)
	p.dead, p.ending, p.asleep, p.paused, p.subs = false, false, false, time.Time{}, nil
	p.boots++
	w.about("boot %s %d", p.Name, p.boots)
	w.see(event{kind: eventBoot, by: p.Name})
	p.begin(p)
}

// crash kills a process: its calls have no effect any more, and its messages come back
// when their visibility ends.
func (w *World) crash(p *Proc, at string) {
	w.Fired[FaultCrash]++
	w.Fired["crash "+at]++
	w.note("crash %s %s", p.Name, at)
	if at != "end" { // of the run
		w.see(event{kind: eventCrash, by: p.Name, held: p.held()})
	}
	w.end(p)
}

// end ends the life of a process.
func (w *World) end(p *Proc) {
	w.mu.Lock()
	p.dead, p.ending, p.asleep, p.life.over = true, false, false, true
	kept := w.parked[:0]
	for _, c := range w.parked {
		if c.proc == p {
			c.err = errCrashed
			close(c.done)
			continue
		}
		kept = append(kept, c)
	}
	w.parked = kept
	w.mu.Unlock()
	p.life.kill()
	for _, s := range p.subs {
		s.end()
	}
	p.bootAt = time.Now().Add(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
}

func (w *World) chance(rate float64) bool { return rate > 0 && w.rng.Float64() < rate }

// strikes draws whether a fault happens. A fault that is switched off is drawn all the
// same, so that the draws after it stay the same.
func (w *World) strikes(kind string, rate float64) bool {
	if !w.chance(rate) || w.off[kind] {
		return false
	}
	w.Fired[kind]++
	return true
}

// settle waits until every goroutine but the driver is blocked, and sorts the parked
// calls.
func (w *World) settle() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.procs {
		slices.SortStableFunc(p.subs, func(a, b *subscription) int { return strings.Compare(a.topic, b.topic) })
	}
	slices.SortStableFunc(w.parked, func(a, b *call) int {
		return cmp.Or(strings.Compare(a.proc.Name, b.proc.Name), strings.Compare(a.kind, b.kind), strings.Compare(a.label, b.label))
	})
	for _, c := range w.parked {
		if c.name == "" {
			c.name = c.proc.Name + " " + c.op + " " + c.class + " " + w.aliases.in(c.op, c.about)
		}
	}
}

// step does one thing: it lets one parked call go on, delivers one message, starts
// an operation of the workload (next, which returns false if there is none), or
// lets time pass.
func (w *World) step(next func() bool) {
	w.steps++
	w.since++
	// The goroutines that one of these wakes must be blocked again before the next decision.
	w.settle()
	w.applyLate()
	w.answerEnded()
	w.settle()
	w.collect()
	w.edges()
	w.reboot()
	w.settle()
	w.aboutStep("step")
	if w.strikes(FaultPause, w.faults.Pause) {
		p, lasts := w.procs[w.rng.IntN(len(w.procs))], time.Duration(w.rng.IntN(120_000))*time.Millisecond
		if !p.asleep {
			p.paused = time.Now().Add(lasts)
			w.note("pause %s", p.Name)
			w.see(event{kind: eventPause, by: p.Name})
		}
	}
	ready := w.ready()
	w.tighten(ready)
	switch x := w.rng.Float64(); {
	case len(ready) > 0 && x < .75:
		w.release(ready[choose(w.rng, ready, nameOf)])
	case x < .93 && w.deliver():
	case x < .97 && next():
	case len(ready) > 0 && x < .99:
		w.release(ready[choose(w.rng, ready, nameOf)])
	default:
		w.sleep(len(ready) == 0)
	}
}

// tighten begins and ends stretches of throttling. Most hit a partition that is in use.
func (w *World) tighten(ready []*call) {
	w.tight = slices.DeleteFunc(w.tight, func(s stretch) bool { return s.until < w.steps })
	if !w.chance(w.faults.Throttle) || len(ready) == 0 || w.off[FaultThrottle] {
		return
	}
	s := stretch{until: w.steps + 5 + w.rng.IntN(40)}
	if c := ready[choose(w.rng, ready, nameOf)]; len(c.pks) > 0 && w.rng.IntN(4) > 0 {
		s.pk = c.pks[0]
	}
	w.tight = append(w.tight, s)
	w.note("throttle %q until step %d", s.pk, s.until)
}

// short reports whether the table has no capacity for a partition now.
func (w *World) short(pk string) bool {
	return slices.ContainsFunc(w.tight, func(s stretch) bool { return s.covers(pk) })
}

func nameOf(c *call) string { return c.name }

func (w *World) sleep(idle bool) {
	d := time.Duration(w.shape.Pace*(1+w.rng.IntN(30))) * time.Millisecond
	if idle {
		d = time.Duration(1+w.rng.IntN(400)) * time.Millisecond
		if w.rng.IntN(10) == 0 {
			d *= 20
		}
	}
	time.Sleep(d)
}

func (w *World) ready() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	ready := make([]*call, 0, len(w.parked))
	for _, c := range w.parked {
		if !now.Before(c.proc.paused) && c.due <= w.steps && !w.holds(c) {
			ready = append(ready, c)
		}
	}
	return ready
}

// answerEnded ends calls whose context has ended. The seed decides whether such a call
// still has its effect, and when.
func (w *World) answerEnded() {
	w.mu.Lock()
	parked := slices.Clone(w.parked)
	w.mu.Unlock()
	for _, c := range parked {
		if err := c.ctx.Err(); err != nil && !c.proc.asleep {
			w.Fired[FaultTimeout]++
			w.about("ended %s", c.name)
			if w.rng.IntN(2) == 0 {
				w.later(c)
			}
			w.answer(c, err, "deadline")
		}
	}
}

func (w *World) applyLate() {
	kept := w.lates[:0]
	for _, l := range w.lates {
		if l.at > w.steps {
			kept = append(kept, l)
			continue
		}
		if time.Since(l.sent) > mostTransit {
			continue
		}
		err := l.effect(1)
		w.note("late %s: %v", l.label, err)
	}
	w.lates = kept
}

func (w *World) later(c *call) {
	if at := w.steps + 1 + w.rng.IntN(300); c.due == 0 {
		w.lates = append(w.lates, lateEffect{at, c.at, c.label, c.effect})
	}
}

func (w *World) reboot() {
	for _, p := range w.procs {
		if p.dead && !time.Now().Before(p.bootAt) {
			w.note("boot %s", p.Name)
			w.boot(p)
		}
	}
}

// release lets a call meet the fault that the seed has for it.
func (w *World) release(c *call) {
	p := c.proc
	f := w.faults
	if c.due > 0 {
		w.answer(c, c.answered, "late answer")
		return
	}
	if time.Since(c.at) > mostTransit {
		w.answer(c, unavailable(c.kind), "void")
		return
	}
	w.released[c.name]++
	w.about("%s %d", c.name, w.released[c.name])
	point := p.role + " " + c.class
	w.Met[point]++
	// The target is hit in quiet times too: some calls are rare before.
	if w.target.point == point {
		if w.target.skip--; w.target.skip < 0 {
			w.target.point = ""
			if w.target.after {
				if err := c.effect(1); err != nil {
					w.note("effect %s: %v", c.label, err)
				}
				w.crash(p, "after "+point)
			} else {
				w.crash(p, "before "+point)
			}
			return
		}
	}
	x := w.rng.Float64()
	switch fault := w.faultAt(x); fault {
	case FaultCrash:
		if x < f.Crash/2 {
			w.crash(p, "before "+point)
			return
		}
		// The effect happens, the process never hears of it.
		if err := c.effect(1); err != nil {
			w.note("effect %s: %v", c.label, err)
		}
		w.crash(p, "after "+point)
		return
	case FaultFail:
		w.Fired[fault]++
		w.answer(c, unavailable(c.kind), "fail")
		return
	case FaultLost:
		w.Fired[fault]++
		if err := c.effect(1); err != nil {
			w.note("effect %s: %v", c.label, err)
		}
		w.answer(c, unavailable(c.kind), "lost")
		return
	case FaultLate:
		w.Fired[fault]++
		w.later(c)
		w.answer(c, unavailable(c.kind), "late")
		return
	}
	if slices.ContainsFunc(c.pks, w.short) {
		w.Fired[FaultThrottle]++
		w.answer(c, w.throttled(c), "throttled")
		return
	}
	if len(c.ops) > 0 && w.strikes(FaultConflict, f.Conflict) {
		at := w.rng.IntN(len(c.ops))
		w.answer(c, cancelled(c.ops, table.CancelConflict, func(i int) bool { return i == at }), "conflict")
		return
	}
	if c.batch && w.strikes(FaultPartial, f.Partial) {
		if err := c.effect(w.rng.Float64()); err != nil {
			w.note("effect %s: %v", c.label, err)
		}
		w.answer(c, unavailable(c.kind), "partial")
		return
	}
	if w.strikes(FaultSlow, f.Slow) {
		c.due, c.answered = w.steps+1+w.rng.IntN(60), c.effect(1)
		w.note("effect %s before its answer: %v", c.label, c.answered)
		return
	}
	w.answer(c, c.effect(1), "done")
}

// faultAt returns the fault of a call by its draw, "" for none.
func (w *World) faultAt(x float64) string {
	f := w.faults
	for _, of := range []struct {
		kind string
		rate float64
	}{{FaultCrash, f.Crash}, {FaultFail, f.Fail}, {FaultLost, f.Lost}, {FaultLate, f.Late}} {
		if x -= of.rate; x < 0 {
			if w.off[of.kind] {
				return ""
			}
			return of.kind
		}
	}
	return ""
}

// answer ends a call.
func (w *World) answer(c *call, err error, how string) {
	w.note("%s %s %s %s: %v", c.proc.Name, c.kind, c.label, how, err)
	if how == "partial" {
		w.see(event{kind: eventPart, by: c.proc.Name, class: c.class})
	}
	w.mu.Lock()
	if i := slices.Index(w.parked, c); i >= 0 {
		w.parked = slices.Delete(w.parked, i, i+1)
	}
	w.mu.Unlock()
	c.err = err
	close(c.done)
}

func unavailable(kind string) error {
	if strings.HasPrefix(kind, "table.") {
		return &table.UnavailableError{Op: kind, Err: errDown}
	}
	return fmt.Errorf("%s: %w", kind, errDown)
}

// throttled returns the answer to a call for which there is no capacity. Only a batch
// has an effect then: it writes the part for which there is capacity.
func (w *World) throttled(c *call) error {
	if len(c.ops) > 0 {
		return cancelled(c.ops, table.CancelThrottled, func(i int) bool { return w.short(c.ops[i].Key().PK) })
	}
	if c.spare != nil {
		if err := c.spare(w.short); err != nil {
			w.note("effect %s: %v", c.label, err)
		}
	}
	return &table.UnavailableError{Op: c.kind, Err: errThrottled}
}

// cancelled returns the answer to a transaction that some of its operations prevented,
// for the reason why.
func cancelled(ops []table.TransactOp, why table.CancelReason, is func(i int) bool) error {
	e := &table.CancelledError{Reasons: make([]table.CancelledOp, len(ops))}
	for i, op := range ops {
		e.Reasons[i].Key = op.Key()
		if is(i) {
			e.Reasons[i].Reason = why
		}
	}
	return e
}

func isUnavailable(err error) bool {
	_, ok := errors.AsType[*table.UnavailableError](err)
	return ok || errors.Is(err, errDown)
}

// trace is the text of all events in order: two runs of a seed write the same.
type trace struct {
	keep  bool
	lines []string
	sum   uint64
}

func (w *World) note(format string, args ...any) {
	line := fmt.Sprintf("%6d %s ", w.steps, time.Now().Format("02T15:04:05.000")) + fmt.Sprintf(format, args...)
	for i := range len(line) { // FNV-1a over all lines
		w.trace.sum = (w.trace.sum ^ uint64(line[i])) * 1099511628211
	}
	if w.trace.keep {
		w.trace.lines = append(w.trace.lines, line)
	}
}
