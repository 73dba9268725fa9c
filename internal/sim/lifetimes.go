package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// In some worlds each process starts with a drawn TTL of homes, and decides the TTL for all processes
// (docs/decisions/0042). The oracle keeps every TTL that was ever in force.

const (
	// ttlAhead is the least time, by the clock of the world, from a decision to its effect. ttlFixed
	// is the last part of that time, in which no process may change the decision.
	ttlAhead = day - clocksMost
	ttlFixed = 14*time.Hour - clocksApart - 30*time.Minute
)

// decides returns the view of the TTL of homes of a process that starts.
func (w *World) decides(p *Proc) *lifetime.View {
	if !w.shape.TTLs {
		return lifetime.Fixed(timelineTTL)
	}
	ttl := []time.Duration{10 * day, timelineTTL, 60 * day}[w.rng.IntN(3)]
	view := lifetime.New(lifetime.Config{Store: p.Store(), Now: p.Now, Clock: p.clock, TTL: ttl})
	start := fmt.Sprintf("start %s %d", p.Name, p.boots)
	p.Go(func(ctx context.Context) {
		ctx = withOp(ctx, start)
		for view.Decide(ctx) != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return view
}

// lifetimesNow returns a view of the TTL of homes for a reader without faults and with a right
// clock.
func (w *World) lifetimesNow() *lifetime.View {
	return lifetime.New(lifetime.Config{Store: w.store, Now: time.Now, TTL: timelineTTL})
}

// firstTTL stores the first TTL of the world.
func (w *World) firstTTL() {
	w.decided = []schema.Lifetime{{From: time.UnixMilli(0).UTC(), TTL: timelineTTL}}
	w.views = []schema.Lifetimes{schema.Lifetimes{}.Decided(timelineTTL, time.Now())}
	w.write(w.views[0].Item())
}

// checkLifetimes checks a decision about the TTL of homes: each process has read the decision
// before the decision is in force, and nobody changes the decision while a process may use it.
func (w *World) checkLifetimes(now table.Item) {
	next, err := schema.ParseLifetimes(now)
	if err != nil {
		w.load.fail("I1", "%v", err)
		return
	}
	w.views = append(w.views, next)
	w.decided = slices.DeleteFunc(w.decided, func(step schema.Lifetime) bool {
		if ahead := time.Until(step.From); ahead <= 0 || slices.Contains(next, step) {
			return false
		} else if ahead < ttlFixed {
			w.load.fail("I1", "the TTL %s is taken back %s before it is in force", step.TTL, ahead)
		}
		return true
	})
	for _, step := range next {
		ahead := time.Until(step.From)
		if slices.Contains(w.decided, step) || ahead <= 0 && !step.From.After(w.decided[len(w.decided)-1].From) {
			continue // the second decision replaces several older decisions
		}
		if ahead < ttlAhead {
			w.load.fail("I1", "the TTL %s is in force %s after its decision", step.TTL, ahead)
		}
		w.decided = append(w.decided, step)
	}
}

// byAView reports whether a condition is true for a view that a process may have.
func (w *World) byAView(holds func(schema.Lifetimes) bool) bool {
	return slices.ContainsFunc(w.views, holds)
}

// leaves returns the time at which a post leaves homes. From then on the post is older than some
// TTL that was in force after its creation.
func (w *World) leaves(post string) time.Time {
	made, err := id.Time(post)
	if err != nil {
		return time.Time{}
	}
	var end time.Time
	for _, step := range w.decided {
		at := made.Add(step.TTL)
		if step.From.After(at) {
			at = step.From
		}
		if !step.From.After(made) || at.Before(end) {
			end = at
		}
	}
	return end
}

// hasLeft reports whether no home may show a post any more.
func (w *World) hasLeft(post string) bool { return time.Now().After(w.leaves(post)) }

// mayHaveExpired reports whether a home may lack a post because of the post's age.
func (w *World) mayHaveExpired(post string) bool {
	early := time.Hour
	if w.hours && w.shape.TTLs {
		early += 2 * clocksApart
	}
	return time.Now().After(w.leaves(post).Add(-early))
}
