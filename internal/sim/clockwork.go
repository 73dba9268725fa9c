package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/likeagg"
	"fanfare/internal/queue"
)

// The last part of some lives runs like clockwork: there is no fault and no chance, each call is
// answered at once, and time passes only when nothing else can happen. So the oracle knows the
// duration of each work, the number of its calls, and the number of calls at once.

// probe holds the measurements of the last part of a life.
type probe struct {
	limit    int64          // the push limit of all workers
	calls    map[string]int // number of calls by class
	most     map[string]int // the highest number of calls of a class at once in one process
	again    []string       // messages that were left for later, by id
	outcomes []likeagg.Outcome
	written  int // entries in the reports of workers
	skipped  int // skipped followers in the reports of workers
	refusals []*refusal
	handed   []*queued // first receives of messages of the workers, by topic
}

// refusal makes the next n calls of a class fail. If pk is not "", only calls to partitions
// that begin with pk fail.
type refusal struct {
	class, pk string
	n         int
	err       error
}

// refuse returns the error of a call that the probe refuses, nil if the probe accepts the call.
func (p *probe) refuse(c *call, class string) error {
	for _, r := range p.refusals {
		if r.n > 0 && r.class == class && (r.pk == "" || slices.ContainsFunc(c.pks, func(pk string) bool { return strings.HasPrefix(pk, r.pk) })) {
			r.n--
			return r.err
		}
	}
	return nil
}

// measureAnew begins another measurement, in which the probe refuses some calls. It takes the lock,
// because work that ran while the driver slept has written to the probe under the lock.
func (w *World) measureAnew(refusals ...*refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := &probe{refusals: refusals, calls: map[string]int{}, most: map[string]int{}}
	if w.probe != nil {
		next.limit = w.probe.limit
	}
	w.probe = next
}

// tick is the step by which time moves while a process holds a message.
const tick = 10 * time.Millisecond

// work runs the world until it is idle, and returns the time that passed.
func (w *World) work(most time.Duration) time.Duration { return w.workUntil(most, w.idle) }

// workUntil runs the world until done returns true. If done never returns true, the work is stuck.
func (w *World) workUntil(most time.Duration, done func() bool) time.Duration {
	began := time.Now()
	for {
		w.steps++
		w.settle()
		w.collect()
		w.wake()
		w.finishStops()
		w.reboot()
		w.load.settled()
		if took := time.Since(began); took > most || w.steps > 2*mostSteps {
			w.load.fail("stuck", "the work of the calm part is not done after %s", took)
			return took
		}
		if ready := w.ready(); len(ready) > 0 {
			w.gauge(ready)
			w.letGo(ready[0])
			continue
		}
		if w.handOut() {
			continue
		}
		if done() {
			return time.Since(began)
		}
		w.tickOn()
	}
}

// tickOn makes time pass: until the next message is due, or by one tick while other work is
// running.
func (w *World) tickOn() {
	now, next := time.Now(), time.Now().Add(time.Hour)
	for _, p := range w.procs {
		for _, s := range p.subs {
			if len(s.out) > 0 || p.dead {
				next = now.Add(tick)
			}
		}
		if p.dead {
			next = now.Add(tick)
		}
	}
	if len(w.load.busy) > 0 {
		next = now.Add(tick)
	}
	for _, topic := range queue.Topics() {
		for _, m := range w.queue(topic).messages {
			if m.visible.Before(next) {
				next = m.visible
			}
		}
	}
	time.Sleep(max(time.Millisecond, next.Sub(now)))
}

// gauge counts the waiting calls, by process and class.
func (w *World) gauge(ready []*call) {
	at := map[string]int{}
	for _, c := range ready {
		name := c.proc.Name + " " + c.class
		at[name]++
		w.probe.most[c.proc.role+" "+c.class] = max(w.probe.most[c.proc.role+" "+c.class], at[name])
	}
}

// letGo lets a call take effect, unless the probe refuses the call.
func (w *World) letGo(c *call) {
	class := c.proc.role + " " + c.class
	w.probe.calls[class]++
	if err := w.probe.refuse(c, class); err != nil {
		w.answer(c, err, "refused")
		return
	}
	w.answer(c, c.effect(1), "done")
}

// handOut gives the first visible message to the first process that takes it.
func (w *World) handOut() bool {
	for _, p := range w.procs {
		if p.dead {
			continue
		}
		for _, s := range p.subs {
			if s.ended || len(s.out) >= w.shape.Held+2 {
				continue
			}
			for _, m := range w.queue(s.topic).messages {
				if !time.Now().Before(m.visible) && w.engine.out(m) && w.give(s, m, decoded(m.payload)) {
					m.visible = time.Now().Add(visibility)
					return true
				}
			}
		}
	}
	return false
}

// restart ends the life of every process and begins a new life with a right clock and the given
// settings.
func (w *World) restart(limit int64) {
	w.probe.limit = limit
	w.about("restart %d", w.steps)
	for _, p := range w.procs {
		p.skew.Store(0)
		w.end(p)
		p.bootAt = time.Now()
	}
	w.settle()
}

// expect fails an invariant unless a measured number equals the number in the docs.
func (w *World) expect(invariant, what string, got, want int) {
	if got != want {
		w.load.fail(invariant, "in the calm part %s: %d, want %d; calls %s", what, got, want, w.probe.said())
	}
}

// within fails if a work took too long, or if messages were redelivered.
func (w *World) within(what string, took, least, most time.Duration, again int) {
	if took < least || took > most {
		w.load.fail("I8", "in the calm part %s took %s, want %s to %s", what, took, least, most)
	}
	w.expect("I6", "messages that came again for "+what, len(w.probe.again), again)
}

func (p *probe) said() string {
	var all []string
	for _, class := range slices.Sorted(maps.Keys(p.calls)) {
		all = append(all, fmt.Sprintf("%s %d (%d)", class, p.calls[class], p.most[class]))
	}
	return fmt.Sprint(all)
}
