package embedded

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"fanfare/internal/queue"
)

// maxBatchBytes is the approximate size at which a batch is closed.
const maxBatchBytes = 4 << 20

// lazyWait is the time for which removals and receive counts wait for other changes before they
// are written and synced. A crash may undo the removals and receive counts of about this time.
const lazyWait = 20 * time.Millisecond

// A sync takes as much CPU time as many publishes. So after a sync for at least crowd callers,
// the next sync waits for gather, and more callers share it. A few callers never wait for other
// callers.
const (
	crowd  = 8
	gather = 2 * time.Millisecond
)

// change moves one message from a place to another place. Stored messages change in no other
// way: a publish moves a message from nowhere, and an ack moves a message to nowhere.
type change struct {
	// topic is nil for an event of the log.
	topic *topic
	from  place
	at    position
	to    place
	due   uint64 // for a delayed message, in Unix nanoseconds
	value record // empty if to is nowhere
	// original is the event of a publish.
	original queue.Original
	// landed is the new position, set by the writer.
	landed position
}

// request is a list of changes that are written together.
type request struct {
	changes []change
	// done receives the outcome when the changes are durable. If done is nil, no caller
	// waits, and a crash within lazyWait may undo the changes.
	done chan error
}

func (r *request) bytes() int {
	n := 0
	for i := range r.changes {
		n += len(r.changes[i].value) + 64
	}
	return n
}

// submit passes a request to the writer. Once Close has begun, submit refuses requests of
// external calls, but still accepts the last answers of subscriptions.
func (b *Broker) submit(r request, external, urgent bool) error {
	b.mu.Lock()
	if external && b.closed {
		b.mu.Unlock()
		return errClosed
	}
	b.pending = append(b.pending, r)
	urgent = urgent || len(b.pending) >= 1024
	b.mu.Unlock()
	if urgent {
		poke(b.urgent)
	} else {
		poke(b.lazy)
	}
	return nil
}

// poke wakes the receiver of c, unless a wake-up is already pending.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write is the only goroutine that writes. Publishers that wait at the same time share a batch and its sync.
func (b *Broker) write() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var late <-chan time.Time // fires when lazy changes must be on disk
	for {
		sync := false
		select {
		case <-b.urgent:
			if b.callers >= crowd {
				select {
				case <-time.After(gather):
				case <-b.stop: // the next turn of the loop returns
				}
			}
		case <-b.lazy:
			if late == nil {
				late = time.After(lazyWait)
			}
			continue
		case <-late:
			sync = true
		case work := <-b.holds:
			work()
		case <-timer.C:
		case <-b.stop:
			for b.flush(true) {
			}
			return
		}
		for b.flush(sync) {
		}
		switch {
		case !b.unsynced:
			late = nil
		case late == nil:
			late = time.After(lazyWait)
		}
		timer.Reset(b.untilDue())
	}
}

// untilDue returns the time until the next delayed message is due.
func (b *Broker) untilDue() time.Duration {
	next := uint64(never)
	for _, t := range b.allTopics() {
		next = min(next, max(t.nextDue, t.retryAt))
	}
	if next == never {
		return time.Hour
	}
	return min(max(time.Duration(int64(next)-b.now().UnixNano()), 0), time.Hour)
}

// flush writes one batch. It syncs the batch if durable is set or if a caller waits. more
// reports that further changes are ready to be written.
func (b *Broker) flush(durable bool) (more bool) {
	requests, more := b.takePending()
	var changes []*change
	callers := 0
	for i := range requests {
		if requests[i].done != nil {
			callers++
		}
		for j := range requests[i].changes {
			changes = append(changes, &requests[i].changes[j])
		}
	}
	if callers > 0 {
		durable, b.callers = true, callers
	}
	topics := b.allTopics()
	for _, t := range topics {
		due, err := b.due(t)
		if err != nil {
			b.log.Error("delayed messages cannot be read", zap.String("topic", t.name), zap.Error(err))
			t.retryAt = uint64(b.now().Add(readRetry).UnixNano())
			continue
		}
		more = more || len(due) == dueAtOnce
		for i := range due {
			changes = append(changes, &due[i])
		}
	}
	err := b.commit(topics, changes, durable)
	if err != nil {
		b.log.Error("queue cannot be written", zap.Error(err))
	}
	for _, r := range requests {
		if r.done != nil {
			r.done <- err
		}
	}
	return more && err == nil
}

func (b *Broker) takePending() (requests []request, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := 0
	for i := range b.pending {
		if size += b.pending[i].bytes(); size > maxBatchBytes {
			requests = b.pending[:i+1]
			b.pending = b.pending[i+1:]
			return requests, len(b.pending) > 0
		}
	}
	requests, b.pending = b.pending, nil
	return requests, false
}

// due returns the changes that make delayed messages ready when they are due.
func (b *Broker) due(t *topic) ([]change, error) {
	now := uint64(b.now().UnixNano())
	if max(t.nextDue, t.retryAt) > now {
		return nil, nil
	}
	var due []change
	next := uint64(never)
	err := scan(b.db, delayed, t.name, position{major: t.nextDue}, func(at position, value record) bool {
		if at.major > now || len(due) == dueAtOnce {
			next = at.major
			return false
		}
		due = append(due, change{topic: t, from: delayed, at: at, to: ready, value: value.withReceives(value.receives())})
		return true
	})
	if err != nil {
		return nil, err
	}
	t.nextDue = next
	return due, nil
}

// commit writes changes and the topics' states in one batch. Then the subscriptions can see the new messages.
func (b *Broker) commit(topics []*topic, changes []*change, durable bool) error {
	batch := b.db.NewBatch()
	defer func() {
		if err := batch.Close(); err != nil {
			b.log.Error("batch not closed", zap.Error(err))
		}
	}()
	for _, c := range changes {
		if err := b.stage(batch, c); err != nil {
			return err
		}
	}
	for _, t := range topics {
		if err := t.stageState(batch, changes); err != nil {
			return err
		}
	}
	if err := b.events.stageState(batch); err != nil {
		return err
	}
	options := pebble.NoSync
	if durable {
		options = pebble.Sync
	}
	switch {
	case !batch.Empty():
		if err := batch.Commit(options); err != nil {
			return fmt.Errorf("write to the queue: %w", err)
		}
	case durable && b.unsynced:
		if err := b.db.LogData(nil, options); err != nil {
			return fmt.Errorf("sync the queue: %w", err)
		}
	default:
		return nil
	}
	b.unsynced = !durable
	for _, t := range topics {
		if t.touched {
			t.apply(changes)
		}
	}
	b.events.apply()
	return nil
}

// stage adds one change to the batch.
func (b *Broker) stage(batch *pebble.Batch, c *change) error {
	if c.topic == nil {
		return b.events.stage(batch, c, b.now())
	}
	t := c.topic
	t.touched = true
	if c.from != nowhere {
		if err := batch.Delete(c.at.key(c.from, t.name), nil); err != nil {
			return fmt.Errorf("stage a removal: %w", err)
		}
	}
	if c.to == nowhere {
		return nil
	}
	t.number++
	c.landed.number = t.number
	switch c.to {
	case ready:
		flow := c.value.flow()
		if c.value.receives() > 0 {
			flow ^= returning
		}
		t.mu.Lock()
		current := t.state.popped.major
		t.mu.Unlock()
		c.landed.major = t.rounds.next(flow, current)
	case delayed:
		c.landed.major = c.due
		t.nextDue = min(t.nextDue, c.due)
	case dead:
		c.landed.major = uint64(b.now().UnixNano())
	case nowhere, logged:
	}
	if err := batch.Set(c.landed.key(c.to, t.name), c.value, nil); err != nil {
		return fmt.Errorf("stage a message: %w", err)
	}
	return nil
}

// stageState adds the state of t after the changes to the batch.
func (t *topic) stageState(batch *pebble.Batch, changes []*change) error {
	t.mu.Lock()
	s := t.state
	dirty := t.dirty
	t.dirty = false
	t.mu.Unlock()
	if !dirty && !t.touched {
		return nil
	}
	s.tally(t, changes)
	s.number = t.number
	if err := batch.Set(stateKey(t.name), s.encode(), nil); err != nil {
		return fmt.Errorf("stage the state of topic %s: %w", t.name, err)
	}
	return nil
}

// tally adds the changes of t to the counters.
func (s *state) tally(t *topic, changes []*change) {
	for _, c := range changes {
		if c.topic == t {
			*s.count(c.from)--
			*s.count(c.to)++
		}
	}
}

// apply updates the buffer and the counters of t after the changes were written.
func (t *topic) apply(changes []*change) {
	t.touched = false
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.number = t.number
	t.state.tally(t, changes)
	for _, c := range changes {
		if c.topic != t {
			continue
		}
		if c.from == ready {
			delete(t.out, c.at.number)
		}
		if c.to == ready {
			t.insert(entry{c.landed, c.value, c.original})
		}
	}
	t.inserted = t.number
	t.wake.Broadcast()
}
