// Package embedded is the queue of a single process: a durable queue on Pebble, in a directory of its own.
//
// A Publish that returns nil has been synced to disk (I5). Publishes that wait at the same time
// share one sync. Messages are delivered at least once, round robin over their groups (I8). A
// message is removed soon after its ack, so a message that was acked just before a crash may be
// redelivered. The backlog stays on disk. The memory has a buffer of each topic's next
// messages, with the events that this process published, and the messages in flight (I9).
//
// A consumer cannot disappear without its process, so there is no visibility timeout. A message
// stays in flight until it is answered, its subscription ends or the process ends. Receive
// counts are written with the answer. The next Open adds one receive and one crash to each
// message that was in flight when the process died. So a message that kills the process is
// detected, and becomes a dead letter (suspects.go).
//
// While the disk is full, and after a disk failure, calls return an UnavailableError, and the
// process continues (package disk). The package must never end the process, and must never keep
// a backlog in memory.
//
// Dead letters are kept for 14 days (dead.go). Beside the topics, the directory has a log of events, which any number of
// readers read in one order (log.go).
//
// One goroutine writes for all topics and the log (writer.go), and one goroutine removes old dead letters and old events. A
// subscription has one goroutine, and one more for each message in flight. No goroutine holds a
// topic's mu and the broker's mu at the same time.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/queue"
)

// DefaultMaxInFlight bounds the unanswered messages of a subscription if Options.MaxInFlight
// has no number for its topic.
const DefaultMaxInFlight = 1000

// format is the format of the keys and values.
func format() disk.Format { return disk.Format{Key: []byte{formatSpace}, Known: 1, OneByte: true} }

var errClosed = fmt.Errorf("embedded queue: %w", queue.ErrClosed)

// Options are the settings of a Broker. The zero value is usable.
type Options struct {
	// FS is the file system of the directory; the operating system's file system if nil.
	FS vfs.FS
	// Now is the clock of delays; time.Now if nil.
	Now func() time.Time
	// Doubt returns an error while the clock is too uncertain to decide that a dead letter or an event is
	// old. nil means that there is never a doubt.
	Doubt func() error
	// EventsKept is the time for which the log keeps an event, 0 for MostEventsKept: a process that logs no events, such as a
	// command or a machine without the setting, removes none that another process keeps.
	EventsKept time.Duration
	// MaxInFlight bounds, by topic, the unanswered messages of each subscription.
	MaxInFlight map[string]int
	// Grace is the time for which an ending subscription waits for answers. Then it takes its
	// unanswered messages back. Consumers that stop in two phases, as queue.Consumer does, need
	// no grace.
	Grace time.Duration
	// Stop ends an Open that waits for room on a full disk. It may be nil.
	Stop <-chan struct{}
	// Log receives the errors of background work. If it is nil, nothing is logged.
	Log *zap.Logger
}

// Broker is a queue.Broker in a directory.
type Broker struct {
	db          *disk.DB
	now         func() time.Time
	doubt       func() error
	maxInFlight map[string]int
	grace       time.Duration
	eventsKept  time.Duration
	log         *zap.Logger
	events      eventLog
	// unsynced means that the writer's last batch was not synced.
	unsynced bool
	// callers is the number of callers that shared the writer's last sync.
	callers  int
	suspects suspects

	mu      sync.Mutex
	closed  bool
	topics  []*topic
	byName  map[string]*topic
	pending []request

	urgent, lazy chan struct{}
	// holds carries work. The writer runs this work and writes nothing in the meantime.
	holds chan func()
	// stopping ends the subscriptions. stop ends the writer.
	stopping, stop chan struct{}
	subscriptions  sync.WaitGroup
	writer         sync.WaitGroup
	// reads are the reads of the log in progress.
	reads sync.WaitGroup
	// stopSweep ends the sweeper.
	stopSweep context.CancelFunc
	sweeper   sync.WaitGroup
	// redriving allows one redrive, drop or sweep at a time, so that no message is moved twice.
	redriving sync.Mutex
	// moving, guarded by redriving, receives the outcome of a move whose caller returned early
	// because of a disk in trouble. The next move waits for this outcome, because otherwise it
	// would move the same messages.
	moving    <-chan error
	closeOnce sync.Once
	closeErr  error
}

var _ queue.Broker = (*Broker)(nil)

// Open opens the queue in dir, which must have each file that the queue needs: otherwise the error is a *disk.DamageError. The error
// is disk.ErrInUse if the directory is already open, and a *disk.FormatError if the directory has a newer format. On a
// full disk Open waits for room.
func Open(dir string, o Options) (*Broker, error) { return openBroker(dir, o, true) }

// Create opens the queue in dir as Open does, and creates a queue where there is none. Only a directory in which
// nothing was answered yet may get a new queue.
func Create(dir string, o Options) (*Broker, error) { return openBroker(dir, o, false) }

func openBroker(dir string, o Options, exists bool) (*Broker, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Doubt == nil {
		o.Doubt = func() error { return nil }
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	b := &Broker{
		now: o.Now, doubt: o.Doubt, maxInFlight: o.MaxInFlight, grace: o.Grace, eventsKept: cmp.Or(o.EventsKept, MostEventsKept), log: o.Log,
		byName: map[string]*topic{},
		urgent: make(chan struct{}, 1), lazy: make(chan struct{}, 1), holds: make(chan func()),
		stopping: make(chan struct{}), stop: make(chan struct{}),
	}
	options := pebbleOptions()
	options.FS, options.ErrorIfNotExists = o.FS, exists
	var err error
	if b.db, err = disk.Open(o.Stop, dir, o.Log.Named("queue"), options, format()); err != nil {
		return nil, fmt.Errorf("embedded queue: %w", err)
	}
	if err := b.db.Recover(o.Stop, b.load); err != nil {
		if damaged := b.db.Damaged(err); damaged != nil {
			err = damaged
		}
		return nil, errors.Join(fmt.Errorf("embedded queue: open %s: %w", dir, err), b.db.Close(func() {}))
	}
	b.writer.Go(b.write)
	ctx, stop := context.WithCancel(context.Background())
	b.stopSweep = stop
	b.sweeper.Go(func() { b.sweep(ctx) })
	return b, nil
}

// OpenReplica opens the queue in dir, as Open does, for a follower, which applies the log of another queue. Nothing
// else writes to it, and nothing reads it.
func OpenReplica(dir string, log *zap.Logger, writes disk.Writes) (*disk.DB, error) {
	db, err := disk.OpenReplica(dir, log.Named("queue"), writes, pebbleOptions(), format())
	if err != nil {
		return nil, fmt.Errorf("embedded queue: %w", err)
	}
	return db, nil
}

func pebbleOptions() *pebble.Options {
	return &pebble.Options{
		CacheSize: 8 << 20,
		// The format is pinned, so that an upgrade of only the library does not make the
		// directory unreadable for the previous version of Fanfare.
		FormatMajorVersion: pebble.FormatTableFormatV6,
		// Most messages are removed before their memtable is full and never
		// reach a table on disk.
		MemTableSize: 32 << 20, MemTableStopWritesThreshold: 4,
	}
}

// load reads the topics, and adds a receive to each message that was in flight when the process died.
func (b *Broker) load() error {
	it, err := b.db.NewIter(&pebble.IterOptions{LowerBound: []byte{stateSpace}, UpperBound: []byte{stateSpace + 1}})
	if err != nil {
		return err
	}
	for valid := it.First(); valid && err == nil; valid = it.Next() {
		var s state
		if s, err = decodeState(it.Value()); err == nil {
			b.add(newTopic(string(it.Key()[1:]), s))
		}
	}
	if err := errors.Join(err, it.Error(), it.Close()); err != nil {
		return err
	}
	if err := b.events.load(b.db); err != nil {
		return err
	}
	for _, t := range b.topics {
		if err := b.recover(t); err != nil {
			return err
		}
	}
	return b.begin()
}

// recover gives a new place in the queue to the messages that were in flight at a crash. The
// subscriptions' limits bound the number of these messages. recover writes them in parts.
func (b *Broker) recover(t *topic) error {
	last := t.state.popped
	for {
		var changes []*change
		err := scan(b.db, ready, t.name, position{}, func(at position, value record) bool {
			if last.less(at) || len(changes) == dueAtOnce {
				return false
			}
			if value.check() != nil { // a subscription will make this message a dead letter
				return true
			}
			changes = append(changes, &change{topic: t, from: ready, at: at, to: ready, value: value.withCrash()})
			return true
		})
		if err != nil || len(changes) == 0 {
			return err
		}
		if err := b.commit([]*topic{t}, changes, false); err != nil {
			return err
		}
	}
}

func (b *Broker) add(t *topic) {
	b.topics = append(b.topics, t)
	b.byName[t.name] = t
}

// topic returns the topic with a name, or creates the topic.
func (b *Broker) topic(name string) (*topic, error) {
	if err := queue.CheckTopic(name); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	t, ok := b.byName[name]
	if !ok {
		t = newTopic(name, state{})
		b.add(t)
	}
	return t, nil
}

func (b *Broker) allTopics() []*topic {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.topics
}

// Publish implements message.Publisher. The context of the first message bounds the wait.
func (b *Broker) Publish(name string, msgs ...*message.Message) error {
	t, err := b.topic(name)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", name, err)
	}
	if len(msgs) == 0 {
		return nil
	}
	if err := queue.Check(msgs...); err != nil {
		return fmt.Errorf("publish to %s: %w", name, err)
	}
	changes := make([]change, len(msgs))
	for i, msg := range msgs {
		changes[i] = change{topic: t, to: ready, value: newRecord(msg, 0), original: queue.OriginalOf(msg)}
	}
	if err := b.submitAndWait(msgs[0].Context(), changes); err != nil {
		return fmt.Errorf("publish to %s: %w", name, err)
	}
	return nil
}

// submitAndWait returns when the changes are durable. If ctx ends before that, the outcome is unknown.
func (b *Broker) submitAndWait(ctx context.Context, changes []change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.db.Health(); err != nil {
		return unavailable(err)
	}
	done := make(chan error, 1)
	if err := b.submit(request{changes: changes, done: done}, true, true); err != nil {
		return err
	}
	return b.await(ctx, done)
}

// await returns the outcome that done delivers. If the outcome becomes unknown before that,
// await returns the reason.
func (b *Broker) await(ctx context.Context, done <-chan error) error {
	outcome, err := disk.Await(ctx, b.db, done)
	switch {
	case err == nil:
		return outcome
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return unavailable(err)
}

func unavailable(err error) error { return &queue.UnavailableError{Op: "write", Err: err} }

// Health returns the reason why the queue cannot write, nil if the queue can write.
// disk.ErrFull, disk.ErrStuck and disk.ErrUnconfirmed may pass. disk.ErrFailed does not pass.
func (b *Broker) Health() error { return b.db.Health() }

// Damage returns disk.ErrDamaged once a read has found damaged data.
func (b *Broker) Damage() error { return b.db.Damage() }

// Stats returns the figures of the store. It must not be called after Close.
func (b *Broker) Stats() disk.Stats { return b.db.Stats() }

// Depth implements queue.Broker.
func (b *Broker) Depth(ctx context.Context, name string) (queue.Depth, error) {
	if err := ctx.Err(); err != nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", name, err)
	}
	t, err := b.topic(name)
	if err != nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := int64(len(t.out))
	return queue.Depth{
		Ready: int64(t.state.ready) - out, Delayed: int64(t.state.delayed),
		InFlight: out, Dead: int64(t.state.dead),
	}, nil
}

// Close ends the subscriptions, takes unanswered messages back, writes all pending changes and
// closes the directory. Later calls fail with queue.ErrClosed. On a disk in trouble Close gives
// up instead of waiting. In this case the process should end, and the next process finds every
// published message.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.mu.Lock()
		b.closed = true
		b.mu.Unlock()
		close(b.stopping)
		for _, t := range b.allTopics() {
			t.rouse()
		}
		b.subscriptions.Wait()
		b.reads.Wait()
		b.stopSweep()
		b.sweeper.Wait()
		b.redriving.Lock() // waits for calls that read dead letters
		defer b.redriving.Unlock()
		err := b.db.Close(func() {
			close(b.stop)
			b.writer.Wait()
			b.end()
		})
		if err != nil {
			b.closeErr = fmt.Errorf("close the queue: %w", err)
		}
	})
	return b.closeErr
}
