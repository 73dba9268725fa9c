package embedded

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"fanfare/internal/disk"
	"fanfare/internal/queue"
)

// These limits bound a topic's memory (I9).
const (
	// bufferMessages and bufferBytes bound the ready messages in memory.
	bufferMessages = 2048
	bufferBytes    = 8 << 20
	// maxOut bounds the messages in flight over all subscriptions, including the messages whose
	// answer is not yet on disk.
	maxOut = 1 << 17
	// dueAtOnce bounds the number of delayed messages that become ready in one batch.
	dueAtOnce = 1024
	// never is a due time that no message has.
	never = math.MaxUint64
)

// topic is the part of a topic's queue in memory. The whole queue is on disk.
//
// The buffer of a topic has all ready messages below bound, in order, except the messages in
// flight. The writer adds new messages below bound to the buffer, so a short queue is never
// read from disk.
type topic struct {
	name string

	mu sync.Mutex
	// wake wakes the subscriptions when they may have something to do.
	wake   sync.Cond
	state  state
	buffer []entry
	bytes  int
	// bound is the end of the buffer. whole means that the queue ends there, too.
	bound position
	whole bool
	// inserted is the number of the last message that the writer has put into the buffer or
	// left above bound. A message on disk with a higher number will also come from the writer.
	inserted uint64
	// out has the numbers of messages in flight, until their change is on disk.
	out map[uint64]struct{}
	// dirty means that popped has changed since the state was written.
	dirty bool

	// Only the writer uses the fields below.
	rounds  rounds
	number  uint64
	nextDue uint64
	// retryAt is the time at which due messages are read again after a failed read, 0 for none. A failed read
	// must not move nextDue, because a scan begins at nextDue: it would miss messages that were due before.
	retryAt uint64
	touched bool
}

// entry is a ready message.
type entry struct {
	at    position
	value record
	// original is the published event. It is empty if the message was read from disk, or is redelivered.
	original queue.Original
}

// bytes returns the memory of an entry. An event takes about as much memory as its payload.
func (e *entry) bytes() int {
	if e.original.Known() {
		return 2 * len(e.value)
	}
	return len(e.value)
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

// take removes the first message from the buffer, if admit allows the message. If the buffer is
// empty, take fills it from disk first. The caller holds mu.
func (t *topic) take(db *disk.DB, admit func(record) bool) (entry, bool, error) {
	if len(t.out) >= maxOut {
		return entry{}, false, nil
	}
	if len(t.buffer) == 0 && !t.whole {
		if err := t.refill(db); err != nil {
			return entry{}, false, err
		}
	}
	if len(t.buffer) == 0 || !admit(t.buffer[0].value) {
		return entry{}, false, nil
	}
	e := t.buffer[0]
	t.buffer[0] = entry{}
	t.buffer = t.buffer[1:]
	t.bytes -= e.bytes()
	t.out[e.at.number] = struct{}{}
	if t.state.popped.less(e.at) {
		t.state.popped = e.at
		t.dirty = true
	}
	return e, true, nil
}

// insert puts a message that is on disk into the buffer, if its position is below bound. The caller holds mu.
func (t *topic) insert(e entry) {
	t.inserted = e.at.number
	if !t.whole && !e.at.less(t.bound) {
		return
	}
	i := len(t.buffer)
	if i > 0 && e.at.less(t.buffer[i-1].at) {
		i = sort.Search(i, func(i int) bool { return e.at.less(t.buffer[i].at) })
	}
	t.buffer = slices.Insert(t.buffer, i, e)
	t.bytes += e.bytes()
	for len(t.buffer) > bufferMessages || t.bytes > bufferBytes && len(t.buffer) > 1 {
		t.cut()
	}
}

// cut removes the second half of the buffer. A later refill reads these messages from disk.
func (t *topic) cut() {
	half := len(t.buffer) / 2
	t.bound, t.whole = t.buffer[half].at, false
	for i := half; i < len(t.buffer); i++ {
		t.bytes -= t.buffer[i].bytes()
		t.buffer[i] = entry{}
	}
	t.buffer = t.buffer[:half]
}

// refill reads the next part of the queue into the empty buffer.
func (t *topic) refill(db *disk.DB) error {
	more := false
	err := scan(db, ready, t.name, t.bound, func(at position, value record) bool {
		if len(t.buffer) >= bufferMessages/2 || t.bytes >= bufferBytes/2 {
			more = true
			return false
		}
		t.bound = at.next()
		if _, out := t.out[at.number]; !out && at.number <= t.inserted {
			t.buffer = append(t.buffer, entry{at: at, value: slices.Clone(value)})
			t.bytes += len(value)
		}
		return true
	})
	t.whole = err == nil && !more
	return err
}

// scan calls yield for the messages of a place and topic, beginning at a position, until yield
// returns false. A value is valid only during its call of yield. scan skips messages in damaged
// data, which stay on disk.
func scan(db *disk.DB, where place, topic string, from position, yield func(position, record) bool) error {
	upper := end(where, topic)
	for lower := from.key(where, topic); lower != nil; {
		last, err := scanPart(db, lower, upper, yield)
		if db.Damaged(err) == nil {
			if err != nil {
				return fmt.Errorf("read topic %s: %w", topic, err)
			}
			return nil
		}
		lower = db.Past(last, upper)
	}
	return nil
}

// scanPart scans up to damaged data, and returns the last key that it could read.
func scanPart(db *disk.DB, lower, upper []byte, yield func(position, record) bool) (last []byte, err error) {
	last = slices.Clone(lower)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return last, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for valid := it.First(); valid; valid = it.Next() {
		last = append(last[:0], it.Key()...)
		at, ok := positionOf(last)
		if !ok {
			return last, fmt.Errorf("key %x has no position", last)
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return last, err
		}
		if !yield(at, value) {
			return last, nil
		}
	}
	return last, it.Error()
}
