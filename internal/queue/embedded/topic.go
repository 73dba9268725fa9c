package embedded

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Bounds of what a topic keeps in memory (I9).
const (
	// windowMessages and windowBytes bound the ready messages held in memory.
	windowMessages = 2048
	windowBytes    = 8 << 20
	// maxOut bounds the messages that were taken and whose answer is not yet on
	// disk, over all subscriptions.
	maxOut = 1 << 17
	// dueAtOnce bounds how many delayed messages become ready in one batch.
	dueAtOnce = 1024
	// never is the due time of no message.
	never = math.MaxUint64
)

// topic holds the head of a topic's queue in memory; the queue itself is on disk.
//
// Its window has all ready messages that are below bound, in order, except those
// that are out. New messages below bound are put into it by the writer, so a queue
// that is kept short is never read from disk.
type topic struct {
	name string

	mu sync.Mutex
	// wake tells subscriptions that there may be something to do.
	wake   sync.Cond
	state  state
	window []entry
	bytes  int
	// bound is the end of the window; whole says that it is the end of the queue.
	bound position
	whole bool
	// inserted is the last number that the writer put into the window, or left
	// beyond bound. A higher one on disk will come through the writer.
	inserted uint64
	// out has the numbers that were taken and whose change is not yet on disk.
	out map[uint64]struct{}
	// dirty says that popped moved since the state was written.
	dirty bool

	// The writer's own.
	rounds  rounds
	number  uint64
	nextDue uint64
	touched bool
}

// entry is a ready message.
type entry struct {
	at    position
	value record
}

func newTopic(name string, s state) *topic {
	t := &topic{
		name: name, state: s, number: s.number, inserted: s.number,
		whole: s.ready == 0, out: map[uint64]struct{}{}, nextDue: never,
	}
	t.wake.L = &t.mu
	if s.delayed > 0 {
		t.nextDue = 0
	}
	return t
}

// take removes the first message from the window, filling it from disk if it is
// empty. The caller holds mu.
func (t *topic) take(db *pebble.DB) (entry, bool, error) {
	if len(t.out) >= maxOut {
		return entry{}, false, nil
	}
	if len(t.window) == 0 && !t.whole {
		if err := t.refill(db); err != nil {
			return entry{}, false, err
		}
	}
	if len(t.window) == 0 {
		return entry{}, false, nil
	}
	e := t.window[0]
	t.window[0] = entry{}
	t.window = t.window[1:]
	t.bytes -= len(e.value)
	t.out[e.at.number] = struct{}{}
	if t.state.popped.less(e.at) {
		t.state.popped = e.at
		t.dirty = true
	}
	return e, true, nil
}

// insert puts a message that is on disk into the window if it belongs there. The
// caller holds mu.
func (t *topic) insert(e entry) {
	t.inserted = e.at.number
	if !t.whole && !e.at.less(t.bound) {
		return
	}
	i := len(t.window)
	if i > 0 && e.at.less(t.window[i-1].at) {
		i = sort.Search(i, func(i int) bool { return e.at.less(t.window[i].at) })
	}
	t.window = slices.Insert(t.window, i, e)
	t.bytes += len(e.value)
	for len(t.window) > windowMessages || t.bytes > windowBytes && len(t.window) > 1 {
		t.cut()
	}
}

// cut drops the second half of the window; it is read again from disk.
func (t *topic) cut() {
	half := len(t.window) / 2
	t.bound, t.whole = t.window[half].at, false
	for i := half; i < len(t.window); i++ {
		t.bytes -= len(t.window[i].value)
		t.window[i] = entry{}
	}
	t.window = t.window[:half]
}

// refill reads the next part of the queue into the empty window.
func (t *topic) refill(db *pebble.DB) error {
	more := false
	err := scan(db, ready, t.name, t.bound, func(at position, value record) bool {
		if len(t.window) >= windowMessages/2 || t.bytes >= windowBytes/2 {
			more = true
			return false
		}
		t.bound = at.next()
		if _, out := t.out[at.number]; !out && at.number <= t.inserted {
			t.window = append(t.window, entry{at, slices.Clone(value)})
			t.bytes += len(value)
		}
		return true
	})
	t.whole = err == nil && !more
	return err
}

// scan calls yield for the messages of a place and topic from a position on, until
// it returns false. A value is only valid during its call.
func scan(db *pebble.DB, where place, topic string, from position, yield func(position, record) bool) (err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: from.key(where, topic), UpperBound: end(where, topic)})
	if err != nil {
		return fmt.Errorf("read topic %s: %w", topic, err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("read topic %s: %w", topic, closeErr)
		}
	}()
	for valid := it.First(); valid; valid = it.Next() {
		at, ok := positionOf(it.Key())
		if !ok {
			return fmt.Errorf("read topic %s: key %x has no position", topic, it.Key())
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read topic %s: %w", topic, err)
		}
		if !yield(at, value) {
			return nil
		}
	}
	return nil
}
