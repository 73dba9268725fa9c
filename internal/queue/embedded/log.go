package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/queue"
)

// logTopic is the name of the log of events in keys.
const logTopic = "events"

// eventLog is the part of the log of events in memory. The events are on disk, in the order of their positions.
//
// The writer chooses the position of an event when it commits the event: the time of the writer's clock, but no earlier time than
// the last event has, and the next number. So positions have the order of the commits, and a reader who has read up to a
// position has every event below this position. Neither a clock that steps back nor a restart lowers a position. A log
// that was restored from an older copy continues with later positions than its readers have seen, because its
// positions have a later time.
type eventLog struct {
	// staged is the newest position that the writer chose. touched means that the next batch has events. Only the
	// writer uses both fields.
	staged  position
	touched bool

	mu sync.Mutex
	// last is the position of the newest durable event. Readers get no later event, because a crash may undo such an event.
	last position
	// removed is the position of the newest event that was removed, or is being removed.
	removed position
	// grew is closed when last changes.
	grew chan struct{}
}

// logKey is the key of the log's state: staged and removed.
func logKey() []byte { return []byte{formatSpace, 'e'} }

// time returns the time of an event's position.
func (p position) time() time.Time { return time.Unix(0, int64(p.major)) }

// load reads the state of the log. It is called once, before the writer starts.
func (l *eventLog) load(db *disk.DB) error {
	l.grew = make(chan struct{})
	raw, closer, err := db.Get(logKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(raw) == 2*positionBytes {
		l.staged, _ = positionOf(raw[:positionBytes])
		l.removed, _ = positionOf(raw)
		l.last = l.staged
	} else {
		err = fmt.Errorf("state of the log of events has %d bytes, want %d", len(raw), 2*positionBytes)
	}
	return errors.Join(err, closer.Close())
}

// stage adds a new event, or the removal of an event, to the batch.
func (l *eventLog) stage(batch *pebble.Batch, c *change, now time.Time) error {
	l.touched = true
	if c.to == nowhere {
		l.remove(c.at)
		if err := batch.Delete(c.at.key(logged, logTopic), nil); err != nil {
			return fmt.Errorf("stage the removal of an event: %w", err)
		}
		return nil
	}
	l.staged = position{max(l.staged.major, uint64(now.UnixNano())), l.staged.number + 1}
	if err := batch.Set(l.staged.key(logged, logTopic), c.value, nil); err != nil {
		return fmt.Errorf("stage an event: %w", err)
	}
	return nil
}

// remove makes at the newest removed position. It is called before the removal, so that a reader who finds no event any more also
// finds that the event was removed.
func (l *eventLog) remove(at position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed.less(at) {
		l.removed = at
	}
}

// stageState adds the state of the log to the batch.
func (l *eventLog) stageState(batch *pebble.Batch) error {
	if !l.touched {
		return nil
	}
	_, removed := l.ends()
	if err := batch.Set(logKey(), removed.append(l.staged.append(nil)), nil); err != nil {
		return fmt.Errorf("stage the state of the log of events: %w", err)
	}
	return nil
}

// apply shows the committed events to readers.
func (l *eventLog) apply() {
	l.touched = false
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.less(l.staged) {
		l.last = l.staged
		close(l.grew)
		l.grew = make(chan struct{})
	}
}

// ends returns the positions of the newest durable event and of the newest removed event.
func (l *eventLog) ends() (last, removed position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.removed
}

// Log adds messages to the log of events. It returns nil only when all messages are durable. The context of the first message
// bounds the wait. The name is only for errors.
func (b *Broker) Log(name string, msgs ...*message.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	if err := queue.Check(msgs...); err != nil {
		return fmt.Errorf("write to %s: %w", name, err)
	}
	changes := make([]change, len(msgs))
	for i, msg := range msgs {
		changes[i] = change{to: logged, value: newRecord(msg, 0)}
	}
	if err := b.submitAndWait(msgs[0].Context(), changes); err != nil {
		return fmt.Errorf("write to %s: %w", name, err)
	}
	return nil
}

// LogGrew returns a channel that is closed when the log gets further events.
func (b *Broker) LogGrew() <-chan struct{} {
	b.events.mu.Lock()
	defer b.events.mu.Unlock()
	return b.events.grew
}

// ReadLog calls yield for the payloads of the events behind the position after, the oldest event first. "" is the position before
// the oldest kept event. If yield returns false, yield has not taken the event, and ReadLog ends. next is the position up to
// which yield has taken the events; a reader continues behind next. The error is a *queue.GoneError if events behind after were
// removed, and a *queue.PositionError if after is no position that the reader can have.
func (b *Broker) ReadLog(after string, yield func(position string, payload []byte) bool) (next string, err error) {
	if err := b.beginRead(); err != nil {
		return "", err
	}
	defer b.reads.Done()
	last, at := b.events.ends()
	if after != "" {
		given, ok := parsePosition(after)
		switch {
		case !ok:
			return "", &queue.PositionError{Detail: "is not a position of an event"}
		case last.less(given) && given.major > uint64(b.now().UnixNano()):
			return "", &queue.PositionError{Detail: "is later than the clock of this server, so events could be missed: set the clock, or read from the oldest kept event, without a position"}
		}
		at = given
	}
	from := at
	err = scan(b.db, logged, logTopic, from.next(), func(found position, value record) bool {
		if last.less(found) {
			return false
		}
		msg, err := value.decode()
		if err != nil {
			b.log.Error("an event cannot be read and is left out", zap.Stringer("position", found), zap.Error(err))
		} else if !yield(found.String(), msg.Payload) {
			return false
		}
		at = found
		return true
	})
	if err != nil {
		return "", err
	}
	// The scan comes first: an event whose removal begins later was found.
	if _, removed := b.events.ends(); after != "" && from.less(removed) {
		return "", &queue.GoneError{Resume: removed.String(), Before: removed.time()}
	}
	return at.String(), nil
}

// beginRead keeps the store open until the caller calls Done of reads.
func (b *Broker) beginRead() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	b.reads.Add(1)
	return nil
}

// OldestEvent returns the time of the oldest kept event, the zero time if there is none.
func (b *Broker) OldestEvent() (at time.Time, err error) {
	if err := b.beginRead(); err != nil {
		return at, err
	}
	defer b.reads.Done()
	_, removed := b.events.ends()
	err = scan(b.db, logged, logTopic, removed.next(), func(oldest position, _ record) bool {
		at = oldest.time()
		return false
	})
	return at, err
}

// removeOldEvents removes the events that are older than eventsKept, the oldest first.
func (b *Broker) removeOldEvents(ctx context.Context) (removed int, err error) {
	from := position{} // an earlier removal may have failed
	for more := true; more && err == nil && ctx.Err() == nil; {
		var n int
		n, more, err = b.removeSomeEvents(ctx, &from)
		removed += n
	}
	return removed, err
}

// MostEventsKept is the longest time for which the log keeps an event: the bound of FANFARE_EVENTS_KEPT, as a test of package daemon holds.
const MostEventsKept = 30 * 24 * time.Hour

// removedAtOnce bounds the number of events that are removed in one batch, so that no publish waits long.
const removedAtOnce = 1024

// removeSomeEvents removes one batch of old events, and sets from to the start of the next batch.
func (b *Broker) removeSomeEvents(ctx context.Context, from *position) (removed int, more bool, err error) {
	if sure := b.doubt() == nil; !sure {
		return 0, false, nil // a later sweep removes the old events
	}
	before := b.now().Add(-b.eventsKept)
	var changes []change
	err = scan(b.db, logged, logTopic, *from, func(at position, _ record) bool {
		if !at.time().Before(before) {
			return false
		}
		if more = len(changes) == removedAtOnce; more {
			return false
		}
		changes = append(changes, change{from: logged, at: at})
		*from = at.next()
		return true
	})
	if err != nil || len(changes) == 0 {
		return 0, false, err
	}
	if err := b.submitAndWait(ctx, changes); err != nil {
		return 0, false, err
	}
	return len(changes), more, nil
}
