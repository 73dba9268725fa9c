package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/internal/clock"
	"fanfare/internal/lifetime"
	"fanfare/internal/live"
	"fanfare/internal/memory"
)

// Proc is one process. After a crash only the data in the table and the queues are left.
type Proc struct {
	Name  string
	role  string
	w     *World
	ctx   context.Context // ends with a stop, or with the life
	stop  context.CancelFunc
	life  *life
	skew  atomic.Int64 // nanoseconds
	limit int64        // the push limit of a fan-out worker
	// lifetimes is the view of the TTL of homes, for a process that shows or writes homes.
	lifetimes *lifetime.View
	// wakes is for the streams of an API.
	wakes  live.Wakes
	back   time.Time // the time at which the clock was set back
	paused time.Time // the time at which the pause ends
	asleep bool      // paused for so long that the requests of the process are void
	ending bool      // stopping, and not ended yet
	silent bool      // notifications are off in this life
	wrong  bool      // the clock is wrong in this life
	// clock watches the clock of a worker in a world of doubts, nil in any other world.
	clock  *clock.Clock
	dead   bool
	begin  func(p *Proc) // starts the goroutines of the process
	bootAt time.Time     // the time at which a dead process boots again
	boots  int
	subs   []*subscription
	work   sync.WaitGroup
}

// life is one life of a process: from a boot to a crash, or to the end of a stop. Goroutines of a
// former life no longer have an effect.
type life struct {
	ctx     context.Context
	kill    context.CancelFunc
	over    bool // guarded by World.mu, as is running, which counts the goroutines
	running int
}

// Now returns the time by the process's clock.
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

// opKey is the context key of the name of an operation or message. The name distinguishes equal
// calls of a process, and is the same in each run.
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

// requestID is access.Config.RequestID. Requests that one shared read has answered continue at the
// same time, and each request asks for its name before it draws an id. Here each request waits for
// its turn, so a seed has the same ids in each run.
func (p *Proc) requestID(ctx context.Context) string {
	p.turn(ctx)
	return opOf(ctx)
}

// turn waits until all other goroutines are blocked, and until each goroutine whose operation has a
// lower name has had its turn.
func (p *Proc) turn(ctx context.Context) {
	t := ticket{p, opOf(ctx), make(chan struct{})}
	p.w.mu.Lock()
	if p.life.over {
		p.w.mu.Unlock()
		return
	}
	p.w.tickets = append(p.w.tickets, t)
	p.w.mu.Unlock()
	<-t.begin
}

// withTurns returns a context whose requests continue one after another after a shared read.
func (p *Proc) withTurns(ctx context.Context) context.Context {
	return memory.WithTurn(ctx, p.turn)
}

// do parks a call until the driver lets the call continue. It returns the error of the effect, or
// the error of a fault.
func (p *Proc) do(ctx context.Context, l *life, c *call) error {
	c.proc, c.ctx, c.done, c.at = p, ctx, make(chan struct{}), time.Now()
	c.label = opOf(ctx) + " " + c.label
	c.op = opOf(ctx)
	c.stack = p.w.performed.stack()
	p.w.mu.Lock()
	if l.over {
		p.w.mu.Unlock()
		return errCrashed
	}
	c.silent, c.wrong = p.silent, p.wrong // of this life: the next life begins only after this one is over
	p.w.parked = append(p.w.parked, c)
	p.w.mu.Unlock()
	<-c.done
	return c.err
}

// start adds a process of a role. begin connects the product's parts to the ports of the process
// and starts their goroutines.
func (w *World) start(role string, n int, begin func(p *Proc)) *Proc {
	p := &Proc{Name: fmt.Sprintf("%s-%d", role, n), role: role, w: w, begin: begin}
	w.procs = append(w.procs, p)
	w.boot(p)
	return p
}

func (w *World) boot(p *Proc) {
	p.life = &life{}
	ctx, kill := context.WithCancelCause(context.Background())
	p.life.ctx, p.life.kill = p.withTurns(ctx), func() { kill(errCrashed) }
	p.ctx, p.stop = context.WithCancel(p.life.ctx)
	p.dead, p.ending, p.asleep, p.paused, p.subs = false, false, false, time.Time{}, nil
	p.boots++
	w.about("boot %s %d", p.Name, p.boots)
	p.silent = w.silences(p)
	w.watchClock(p)
	w.see(event{kind: eventBoot, by: p.Name})
	p.begin(p)
}

// crash kills a process: its later calls have no effect, and its messages are redelivered when their
// visibility ends.
func (w *World) crash(p *Proc, at string) {
	w.Fired[FaultCrash]++
	w.Fired["crash "+at]++
	w.note("crash %s %s", p.Name, at)
	if at != "end" { // the end of the run
		w.see(event{kind: eventCrash, by: p.Name, held: p.held()})
		w.engine.kill()
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
	w.tickets = slices.DeleteFunc(w.tickets, func(t ticket) bool {
		if t.proc == p {
			close(t.begin)
		}
		return t.proc == p
	})
	w.mu.Unlock()
	p.life.kill()
	for _, s := range p.subs {
		s.end()
	}
	p.bootAt = time.Now().Add(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
}

func (w *World) reboot() {
	for _, p := range w.procs {
		if p.dead && !time.Now().Before(p.bootAt) {
			w.note("boot %s", p.Name)
			w.boot(p)
		}
	}
}
