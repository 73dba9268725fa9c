package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/disk"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// engine is the embedded engine of `fanfare up` under a world: its real table and its real queue,
// on a disk that fails. The world's own table and queues become the model of the engine: each call
// of a port takes effect on the engine and on the model, and the two answers must be equal. All
// processes of the world are one process: when one of them is killed, all are killed, and the
// engine opens again with the data that the disk has kept.
//
// The methods of a nil engine, and of a broken engine, do nothing.
type engine struct {
	w       *World
	outside *outside
	rng     *rand.Rand
	disk    *badDisk
	stores
	model    *tabletest.Memory
	topics   map[string]*outbox
	archived *archived // nil in most worlds
	log      *eventLog // nil in most worlds
	opened   time.Time // when the present process opened its stores

	// effect is the effect of the running call, nil if there is none. unknown is the one effect that
	// the disk may have and the model does not have. redoing means that the disk has the effect, and
	// only the model gets it now.
	effect, unknown func() error
	unknownAt       time.Time // when the call of unknown began
	redoing         bool
	lazies          []images // the writes that a power cut may undo, the oldest first
	lazyAt          time.Time

	killed     bool       // the process ends at the next turn
	keep       int        // percentage of the unsynced data that survive
	until      int        // step in which the trouble of the disk ends
	trouble    string     // the present fault of the disk: FaultFull, FaultStuck or FaultUnread, "" for none
	room       time.Time  // the time when the disk last refused an operation
	lie        *lie       // nil while syncs are true
	settled    bool       // the outcome of the write that failed in the trouble is known
	failed     bool       // a copy of the disk has failed, or never will: it costs memory until the process ends
	harm       *rand.Rand // draws the damages of files
	damages    int
	restarting bool
	broken     bool // the engine is lost, and the world continues without an engine
}

// The kinds of fault of the disk, with their names in Counters.
const (
	FaultPower = "power cut"
	FaultKill  = "process killed"
	FaultFull  = "disk full"
	FaultLie   = "sync that lied"
	// FaultStuck is an I/O error in writes of sorted files. FaultUnread is an I/O error in reads.
	// FaultFailed is an I/O error of the log or the manifest.
	FaultStuck  = "sorted file refused"
	FaultUnread = "read failed"
	FaultFailed = "disk failed"
)

// DiskFaults returns every kind of fault of a disk.
func DiskFaults() []string {
	return []string{FaultPower, FaultKill, FaultFull, FaultLie, FaultStuck, FaultUnread, FaultFailed, FaultDamaged}
}

// notOnEngine returns the kinds of fault that a world on the engine does not have: a read of one
// process is never stale, and the roles of one process have one setting and one clock.
func notOnEngine() []string { return append(append(unkindnesses(), lifeFaults()...), FaultStale) }

const (
	dataDir = "data"
	// engineMemory makes the memory of the table small, so that the table writes sorted files.
	engineMemory = 64 << 10
	// lookAgain differs from all delays of retries in the stores, because two timers of one moment
	// fire in any order.
	lookAgain = 1003*time.Millisecond + 137*time.Microsecond
	// undoneWithin is the time before a power cut in which the cut may undo acks.
	undoneWithin = 100 * time.Millisecond
)

var errNoPower = errors.New("simulated: the power is cut")

func newEngine(w *World, o Options) *engine {
	e := &engine{w: w, outside: o.outside, rng: draws(w.seed, 0, 43), harm: draws(w.seed, 0, 47), model: tabletest.NewMemory(), topics: map[string]*outbox{}}
	e.disk, e.failed = newDisk(vfs.NewCrashableMem()), e.rng.IntN(5) > 0
	e.archived = newArchived(e, o.Archived)
	e.log = newEventLog(e)
	e.open()
	return e
}

func (e *engine) off() bool { return e == nil || e.broken }

func (e *engine) fail(invariant, format string, args ...any) {
	e.w.load.fail(invariant, "embedded engine: "+format, args...)
}

// open opens both stores. A failure breaks the engine.
func (e *engine) open() {
	if err := e.archived.begin(); err != nil {
		e.broken = true
		e.fail("archive", "the archive refuses its only writer: %v", err)
		return
	}
	var err error
	e.opened = time.Now()
	tables, queues := e.archived.files(e.disk)
	e.stores, err = openStores(tables, queues, e.log.options)
	if err == nil {
		e.log.open()
		e.archived.run()
		err = e.subscribe()
	}
	if err != nil {
		e.broken = true
		e.fail("I5", "it does not open: %v", err)
	}
}

// stores are the stores of a process.
type stores struct {
	table *tableembedded.Store
	queue *queueembedded.Broker
}

// openStores opens both stores. options change the options of the queue.
func openStores(tables, queues vfs.FS, options ...func(*queueembedded.Options)) (s stores, err error) {
	s.table, err = tableembedded.Create(tableDir, tableembedded.Options{FS: tables, SweepEvery: -1, MemoryBytes: engineMemory})
	if err != nil {
		return stores{}, err
	}
	kept := func() error { return errDown } // the world has no dead letters that grow too old
	o := queueembedded.Options{FS: queues, Doubt: kept}
	for _, change := range options {
		change(&o)
	}
	if s.queue, err = queueembedded.Create(queueDir, o); err != nil {
		return stores{}, errors.Join(err, s.table.Close())
	}
	return s, nil
}

func (s stores) close() error { return errors.Join(s.queue.Close(), s.table.Close()) }

// close ends the engine in order.
func (e *engine) close() {
	if e == nil || e.table == nil {
		return
	}
	e.awaitRoom()
	if !e.restarting && e.archived.finish() {
		e.table = nil
		return
	}
	e.archived.halt()
	if err := e.stores.close(); err != nil {
		e.fail("stuck", "close: %v", err)
	}
	e.archived.closed()
	e.table = nil
}

// begin is called before the effect of a call on the table, and end after the effect.
func (e *engine) begin(effect func() error) {
	if e.off() || e.redoing {
		return
	}
	e.effect = effect
	e.strike()
}

func (e *engine) end() {
	if e.off() || e.redoing {
		return
	}
	e.effect = nil
	e.disk.cutAfter(0, 0)
}

// strike draws the trouble of the disk for a call.
func (e *engine) strike() {
	if e.trouble != "" && e.disk.isSound() {
		e.mend() // otherwise the engine would answer from writes that the model lacks
	}
	if e.w.faults == (Rates{}) || e.trouble != "" || e.lie != nil || e.killed || e.disk.cut() {
		return
	}
	switch x := e.rng.IntN(1000); {
	case x < 4: // the cut is in one of the next operations on files
		e.disk.cutAfter(1+e.rng.IntN(1+e.rng.IntN(12)), 100*e.rng.IntN(2))
	case x < 6: // the cut is when the call has its answer
		e.kill()
	case x < 8:
		e.trouble, e.until = FaultFull, e.w.steps+20+e.rng.IntN(200)
		e.disk.fill(e.rng.IntN(1 + e.rng.IntN(4000)))
	case x < 9:
		e.trouble, e.until = FaultUnread, e.w.steps+50+e.rng.IntN(1000)
		e.disk.begin(FaultUnread)
	case x < 11:
		e.trouble, e.until = FaultStuck, e.w.steps+50+e.rng.IntN(1000)
		e.disk.refuse([]string{"", "sync"}[e.rng.IntN(2)])
	case x < 12 && len(e.lazies) == 0 && e.unknown == nil:
		e.until = e.w.steps + 20 + e.rng.IntN(200)
		e.lie = newLie(e.model)
		e.disk.begin(FaultLie)
		e.w.Fired[FaultLie]++
	case x < 14 && !e.failed && len(e.lazies) == 0 && e.unknown == nil:
		e.failed = true
		e.checkFailure()
	}
}

// kill ends the process at the next turn, through a power cut or a signal.
func (e *engine) kill() {
	if e.off() || e.restarting || e.killed {
		return
	}
	e.killed, e.keep = true, 100*e.rng.IntN(2)
}

// turn is the engine's part of a step: it ends the trouble of the disk, restarts the killed
// process, and takes the messages that the queue delivers.
func (e *engine) turn() {
	if e.off() {
		return
	}
	over := e.w.faults == (Rates{}) || e.w.steps >= e.until
	if e.trouble != "" && over {
		e.mend()
	}
	if e.lie != nil && (over || e.killed || e.disk.cut()) {
		e.checkLie()
		e.killed, e.keep = true, 100 // the data in the memory of the operating system survive
	}
	if e.archived.aims() {
		e.killed, e.keep = true, 0
	}
	if e.killed || e.disk.cut() {
		e.restart()
	}
	e.take()
	e.adopt()
	e.log.turn()
}

// mend ends a trouble of the disk: afterwards the engine has to write again, and to have lost
// nothing.
func (e *engine) mend() {
	e.awaitRoom()
	e.trouble = ""
	if !e.disk.cut() {
		e.reconcile(false)
	}
}

// awaitRoom mends the disk, and waits until the engine writes again.
func (e *engine) awaitRoom() {
	if e.trouble != "" && e.disk.hasRefused() {
		e.w.Fired[e.trouble]++
	}
	e.disk.mend()
	for range 60 {
		if e.table.Health() == nil && e.queue.Health() == nil {
			break
		}
		time.Sleep(lookAgain)
	}
	if e.trouble != "" {
		e.room = time.Now()
	}
	if err := errors.Join(e.table.Health(), e.queue.Health()); err != nil { // no bubble can end such an engine
		panic(fmt.Sprintf("I5: the disk is sound again, and the engine still does not write: %v", err))
	}
	if err := errors.Join(e.table.Damage(), e.queue.Damage()); err != nil {
		e.fail("I5", "the data are sound, and the engine takes them for damaged: %v", err)
	}
}

// restart ends the process and starts the next process.
func (e *engine) restart() {
	w := e.w
	e.restarting = true
	image, how := e.disk.image, FaultPower
	if image == nil {
		image = e.disk.after(e.keep)
	} else {
		e.keep = e.disk.keep
	}
	e.archived.die()
	if e.keep == 100 {
		how = FaultKill
	}
	w.Fired[how]++
	w.note("%s, in an operation on a file: %v", how, e.disk.cut())
	for _, p := range w.procs {
		if !p.dead {
			w.crash(p, "with all")
		}
	}
	w.lates = nil
	e.close() // nobody sees the last writes of the previous life
	e.checkDamage(image)
	e.disk = newDisk(image)
	if e.trouble == FaultFull { // the start waits for room
		e.disk.fill(0)
		time.AfterFunc(time.Duration(1+e.rng.IntN(5000))*time.Millisecond, e.disk.mend)
	}
	e.killed, e.trouble, e.lie = false, "", nil
	e.forget()
	e.open()
	if !e.broken {
		e.reconcile(true)
		e.recount()
		e.archived.recover()
		e.archived.moves()
	}
	e.restarting = false
}

// recount compares the numbers of stored messages with the numbers of answered messages. After several crashes the
// queue may have made a message a dead letter at the start.
func (e *engine) recount() {
	for _, topic := range queue.Topics() {
		depth, err := e.queue.Depth(context.Background(), topic)
		q := e.w.queue(topic)
		there, buried := depth.Ready+depth.Delayed+depth.InFlight, max(0, depth.Dead-int64(len(q.dead)))
		if err != nil || there+buried < int64(len(q.messages)) {
			e.fail("I5", "%d messages of %s are there after a restart (%v), want %d", there, topic, err, len(q.messages))
		}
		if depth.Dead < int64(len(q.dead)) {
			e.fail("I6", "%d dead letters of %s are there after a restart, want %d", depth.Dead, topic, len(q.dead))
		}
	}
}

// adopt moves the messages that, for the queue, have killed the process, to the dead letters.
func (e *engine) adopt() {
	ctx := context.Background()
	for _, topic := range queue.Topics() {
		q := e.w.queue(topic)
		depth, err := e.queue.Depth(ctx, topic)
		if o := e.topics[topic]; err != nil || depth.Dead == o.dead {
			continue
		}
		letters, err := e.queue.ListDead(ctx, topic, 1<<20)
		if err != nil {
			continue // the disk is full
		}
		e.topics[topic].dead = depth.Dead
		known := map[string]int{}
		for _, d := range q.dead {
			known[identity(d.ID, d.Payload)]++
		}
		for _, d := range letters {
			who := identity(d.ID, d.Payload)
			if known[who]--; known[who] < 0 && d.Has(messages.ReasonCrashed) {
				e.w.note("dead after crashes %s", d.ID)
				e.buried(q, d)
			}
		}
	}
}

// outage checks that a call which the disk refused returns an error that its caller knows.
func (e *engine) outage(err error) {
	known := map[string][]error{FaultFull: {disk.ErrFull, disk.ErrStuck}, FaultStuck: {disk.ErrStuck}, FaultUnread: {syscall.EIO}}
	if !slices.ContainsFunc(known[e.trouble], func(want error) bool { return errors.Is(err, want) }) {
		e.fail("I5", "a call failed on a disk with the trouble %q: %v", e.trouble, err)
	}
}

func isOutage(err error) bool {
	_, table := errors.AsType[*table.UnavailableError](err)
	_, queue := errors.AsType[*queue.UnavailableError](err)
	return table || queue
}

// flags returns the flags for a run with these options, besides the flags for the seed.
func (o Options) flags() string {
	switch {
	case o.Archived:
		return " -embedded -archived"
	case o.Embedded:
		return " -embedded"
	}
	return ""
}

func noPower(kind string) error { return fmt.Errorf("%w: %w", unavailable(kind), errNoPower) }
