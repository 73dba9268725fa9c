// Package sim is the deterministic simulation. It runs the product's own feed, fanout and likeagg
// code on a simulated table and simulated queues, in virtual time, under faults that one seed
// decides. After a run the package checks the invariants I1 to I7 with an oracle of its own. Only
// tests may import the package, never the product.
//
// # How a seed decides everything
//
// testing/synctest gives virtual time but no order: goroutines that become ready at once run in any
// order. So every call of a port parks in this package. The driver is the only goroutine that draws
// random numbers. It waits until all other goroutines are blocked, sorts the parked calls by their
// content, and lets one call continue. Between two calls a process does nothing that another
// process can see.
package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// World is one run.
type World struct {
	seed    uint64
	rng     *rand.Rand // only the driver draws numbers
	pcg     *rand.PCG  // the source of rng; see about
	phase   int        // the phase of the world's life
	since   int        // steps since the phase began
	faults  Rates
	off     map[string]bool // kinds of fault that are drawn but left out
	Fired   Counters
	Met     Counters // calls by crash point
	targets []target
	trace   trace

	store   table.Store
	shadows shadows
	lates   []lateEffect
	procs   []*Proc
	// audited is the process of the audit, and audits is the configuration of the audit.
	audited *Proc
	audits  audit.Config

	// authors is the memory of all processes, nil without oneWriter.
	authors *feed.Authors

	engine *engine    // under store and queues, nil for none
	hand   sync.Mutex // operator.alone holds it while the operator writes

	queues map[string]*queueState
	load   *workload
	ttls   map[table.Key]int64 // the ttl of each item with a ttl
	set    map[string]bool     // messages whose dead letters wait for a redrive
	began  map[string]int      // step in which the handling of a message began, by the op
	tombs  map[string]int      // step in which a post was deleted
	listed map[string]listing  // posts with the times at which they entered their authors' lists
	tight  []stretch           // stretches of throttling
	modes  modes               // unfinished changes of mode
	book   likeBook
	copied *likeCopy // the copy of likes that is being made
	reach  *reach
	slowed string                    // the kind of call that is slow
	items  map[table.Key]*table.Item // items after the last write, for reach
	acting *call                     // the call whose effect happens now

	countBy   map[table.Key]string             // the process that wrote a like count last
	countAt   map[string]int                   // step in which an author's number of followers changed
	countTime map[string]time.Time             // the same as a time
	followers map[string]map[string][]follower // the spans of followers, by author and user
	madeAt    map[string]int                   // step in which a post's event became durable
	purges    map[string]string                // posts whose purge was requested, with the requesting operation
	deletions deletions
	backfills map[string]string // the requested backfills, by the id of the follow
	told      told
	past      map[string]bool // the versions of likes that are older than the run
	performed *performed
	writes    map[string]int  // number of writes, by partition, for reads
	polls     map[string]poll // user -> the last read of news
	probe     *probe          // the last part of some worlds, nil before it
	notices   noticeBook
	lives     lives      // the lives of the leaver, who leaves and returns in the storms
	kept      *kept      // nil before the storm about kept blocks
	liveStorm *liveStorm // nil outside of the storm about live homes
	moves     *moves     // nil before the storm about moves
	recorded  *histories // nil if the run asks for no histories
	traced    specTraces
	stories   *stories // nil before the storm about stories
	counting  *hours

	// decided has every TTL that was ever decided, and views has the decisions that the table has
	// had.
	decided []schema.Lifetime
	views   []schema.Lifetimes

	shape      Shape
	likesTable func(table.Store) table.Store
	aged       bool           // days have passed, so messages may be too old
	hours      bool           // clocks differ by hours
	right      bool           // each new life has notifications and a right clock
	heldBack   bool           // dead letters of likes wait for days
	leaps      int            // outages of hours
	leapAt     int            // the step of the next leap, 0 for none
	armed      map[string]int // faults that wait for their moment, and the step until which they wait
	histories  int            // ledgers that were filled
	lastNight  int            // number of remaining operations at the last night
	slept      time.Duration  // time that passed in the nights of a storm

	released map[string]int    // number of calls by name
	names    map[string]string // names of messages, by id
	aliases  aliases

	mu      sync.Mutex
	parked  []*call  // guarded by mu until the driver has seen that all other goroutines are blocked
	tickets []ticket // guarded by mu
	steps   int
}

// call is a port call that waits for the driver.
type call struct {
	proc *Proc
	// silent and wrong are the states of the process in the life that made the call.
	silent, wrong bool
	at            time.Time // the time when the call was made
	ctx           context.Context
	kind          string // port and operation: "table.put"
	class         string // kind and sort of key: the name of a crash point
	label         string // orders the calls of a process, so it differs from the labels of other calls
	about         string // the keys or ids of the call
	op            string // the operation or message that the call works for
	name          string // the full name of the call, which is the same in a run without other operations
	batch         bool
	// stack has the callers of a call and events the events that it sends, for performed.
	stack  []uintptr
	events []messages.Event
	// pks are the partitions of a table call, and ops are the operations of a transaction.
	pks []string
	ops []table.TransactOp
	in  any // the input of a write of one item, or of a batch of writes
	// sent is the first event of a publish. life is the life of the process that deletes a post.
	sent messages.Event
	life *life
	// made is the step in which the call was made. parked is the step in which a slow call began to
	// wait.
	made, parked int
	// effect makes the call take effect. part is below 1 for a batch that takes effect in part.
	effect func(part float64) error
	// spare writes the part of a batch for which there is capacity.
	spare func(short func(pk string) bool) error
	err   error
	done  chan struct{}
	// due is the step in which the caller gets the answer to a call that has taken effect, and 0
	// before the effect. answered is the answer.
	due      int
	answered error
	// whole is the step in which the last item of a transaction becomes visible, or in which rest
	// reads the end of a batch or page. It is 0 if the whole call happens at one moment.
	whole int
	rest  func() error
}

// ticket is a request that is about to draw an id.
type ticket struct {
	proc  *Proc
	of    string // the operation
	begin chan struct{}
}

type lateEffect struct {
	at     int // step
	sent   time.Time
	label  string
	ops    []table.TransactOp
	effect func(float64) error
}

func newWorld(seed uint64, shape Shape) *World {
	pcg := rand.NewPCG(seed, 0)
	w := &World{
		seed: seed, shape: shape, rng: rand.New(pcg), pcg: pcg, released: map[string]int{}, names: map[string]string{}, aliases: aliases{map[string]string{}, map[string]int{}}, Fired: Counters{}, Met: Counters{},
		store: tabletest.NewMemory(), shadows: shadows{table: lag{most: shape.Lag}, index: lag{most: shape.IndexLag}, torn: map[string]int{}}, queues: map[string]*queueState{}, ttls: map[table.Key]int64{}, off: map[string]bool{}, began: map[string]int{}, tombs: map[string]int{}, listed: map[string]listing{}, set: map[string]bool{}, modes: modes{}, book: newLikeBook(), items: map[table.Key]*table.Item{}, armed: map[string]int{},
		countBy: map[table.Key]string{}, countAt: map[string]int{}, countTime: map[string]time.Time{}, followers: map[string]map[string][]follower{}, madeAt: map[string]int{}, purges: map[string]string{}, deletions: deletions{}, backfills: map[string]string{},
		told: told{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}, past: map[string]bool{}, counting: newHours(), notices: newNotices(),
	}
	w.writes, w.polls = map[string]int{}, map[string]poll{}
	w.reach, w.slowed = newReach(&w.book), w.slow()
	w.firstTTL()
	return w
}

// settle waits until all goroutines except the driver are blocked, and sorts the parked calls.
func (w *World) settle() {
	for synctest.Wait(); w.nextTurn(); {
		synctest.Wait()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.procs {
		slices.SortStableFunc(p.subs, func(a, b *subscription) int { return strings.Compare(a.topic, b.topic) })
	}
	slices.SortStableFunc(w.parked, func(a, b *call) int {
		return cmp.Or(strings.Compare(a.proc.Name, b.proc.Name), strings.Compare(a.kind, b.kind), strings.Compare(a.label, b.label), strings.Compare(a.about, b.about))
	})
	for _, c := range w.parked {
		if c.name == "" {
			c.made, c.name = w.steps, c.proc.Name+" "+c.op+" "+c.class+" "+w.aliases.in(c.op, c.about)
			w.sides(c)
		}
	}
}

// nextTurn lets one request draw its id, and reports whether a request was waiting.
func (w *World) nextTurn() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tickets) == 0 {
		return false
	}
	slices.SortStableFunc(w.tickets, func(a, b ticket) int {
		return cmp.Or(strings.Compare(a.proc.Name, b.proc.Name), strings.Compare(a.of, b.of))
	})
	close(w.tickets[0].begin)
	w.tickets = w.tickets[1:]
	return true
}

// step does one thing: it lets one parked call continue, delivers one message, starts an operation
// through next, which returns false if there is no operation, or lets time pass.
func (w *World) step(next func() bool) {
	w.steps++
	w.since++
	// The goroutines that one of these calls wakes must be blocked again before the next decision.
	w.settle()
	w.applyLate()
	w.mature(false)
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

func nameOf(c *call) string { return c.name }

func (w *World) sleep(idle bool) {
	d := time.Duration(w.shape.Pace*(1+w.rng.IntN(30))) * time.Millisecond
	if idle {
		d = time.Duration(1+w.rng.IntN(400)) * time.Millisecond
		if w.rng.IntN(10) == 0 {
			d *= 20
		}
		if w.waits() {
			d = 10 * time.Second
		}
	}
	time.Sleep(d)
}

// waits reports whether the storm is over and each message waits for a minute or longer. Messages from a
// clock that is ahead wait for hours.
func (w *World) waits() bool {
	if w.faults != (Rates{}) || len(w.load.busy) > 0 {
		return false
	}
	left, now := 0, time.Now()
	for _, q := range w.queues {
		for _, m := range q.messages {
			if left++; m.visible.Sub(now) < time.Minute {
				return false
			}
		}
	}
	return left > 0
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

// answerEnded ends calls whose context has ended. The seed decides whether such a call still takes
// effect, and when. answerEnded answers one call after the other: calls that belong together
// compete to give their caller the first error, and the first call to return cancels the other
// calls.
func (w *World) answerEnded() {
	w.mu.Lock()
	var ended []*call
	var errs []error
	for _, c := range w.parked {
		if err := c.ctx.Err(); err != nil && !c.proc.asleep {
			ended, errs = append(ended, c), append(errs, err)
		}
	}
	w.mu.Unlock()
	for i, c := range ended {
		w.Fired[FaultTimeout]++
		w.about("ended %s", c.name)
		if w.rng.IntN(2) == 0 {
			w.later(c)
		}
		w.answer(c, errs[i], "deadline")
		w.settle()
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
		w.lates = append(w.lates, lateEffect{at, c.at, c.label, c.ops, c.effect})
	}
}

// release gives a call the fault that the seed has drawn for the call.
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
	point := c.point()
	w.Met[point]++
	if aimed, after := w.aimedAt(point); aimed {
		if after {
			w.happen(c)
			w.crash(p, "after "+point)
		} else {
			w.crash(p, "before "+point)
		}
		return
	}
	x := w.rng.Float64()
	switch fault := w.faultAt(x); fault {
	case FaultCrash:
		if x < f.Crash/2 {
			w.crash(p, "before "+point)
			return
		}
		w.happen(c) // the process never gets an answer
		w.crash(p, "after "+point)
		return
	case FaultFail:
		w.Fired[fault]++
		w.answer(c, unavailable(c.kind), "fail")
		return
	case FaultLost:
		w.Fired[fault]++
		w.happen(c)
		w.fillAfter(c)
		w.answer(c, unavailable(c.kind), "lost")
		return
	case FaultLate:
		w.Fired[fault]++
		w.later(c)
		w.fillAfter(c)
		w.answer(c, unavailable(c.kind), "late")
		return
	}
	if c.kind == "events.send" && w.strikes(FaultFail, f.Unsent) {
		w.answer(c, unavailable(c.kind), "fail")
		return
	}
	w.sides(c)
	short := w.shortOf(c)
	w.sawSides(c, short != "")
	if short != "" {
		w.Fired[short]++
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
	w.finish(c, f.Slow)
}

// finish makes a call take effect. The answer comes later if the call is slow, or if a part of its
// effect is still outstanding.
func (w *World) finish(c *call, slow float64) {
	due := 0
	if w.strikes(FaultSlow, slow) {
		due = w.steps + 1 + w.rng.IntN(60)
	}
	err := c.effect(1)
	if due = max(due, c.whole); due == 0 {
		w.answer(c, err, "done")
		return
	}
	c.due, c.answered = due, err
	w.note("effect %s before its answer: %v", c.label, err)
}

// happen makes a call take effect, whether or not its caller gets an answer.
func (w *World) happen(c *call) {
	if err := c.effect(1); err != nil {
		w.note("effect %s: %v", c.label, err)
	}
}

// answer ends a call with an answer.
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
	w.sawAnswer(c, err)
	c.err = err
	w.called(c)
	close(c.done)
}

// trace is the text of all events in order. Two runs of a seed write the same text.
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
