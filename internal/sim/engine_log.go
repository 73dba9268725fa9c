package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/events"
	"fanfare/internal/fault"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/messages"
)

// eventLog is the log of events of the engine in some worlds, with a program that reads it, and the oracle of the log: the program
// gets each answered event, in one order, unless it is told that old events were removed. The methods of a nil
// eventLog do nothing.
type eventLog struct {
	e      *engine
	rng    *rand.Rand // only the driver draws numbers
	reader *events.Reader
	kept   time.Duration
	// idle is 1, or the number of turns of which the program skips all but one: such a program comes late.
	idle int
	// letters means that there are dead letters, which a world keeps for ever.
	letters atomic.Bool

	// answered has the payloads of the answered events, with the time of the last answer. unread has the answered events that the
	// program lacks. sent has each payload whose write began.
	answered, unread map[string]time.Time
	sent             map[string]bool
	// next is the position of the program, and saved is the position at which the program continues after a restart.
	next, saved string
	// read has the payload at each position that the program has read, and most is the highest position of them.
	read map[string]string
	most string
}

const (
	// logShare is the percentage of the worlds with events on the engine that have a log.
	logShare = 50
	// mostLogSkew is the longest time by which the clock of a process with a log is wrong.
	mostLogSkew = 3 * time.Second
)

// The events of a log, with their names in Counters.
const (
	LogRead    = "log: events read"
	LogGone    = "log: late reader told"
	LogRestart = "log: reader restarted"
)

func newEventLog(e *engine) *eventLog {
	rng := draws(e.w.seed, 0, 59)
	if rng.IntN(100) >= logShare || !e.w.shape.Events || e.archived != nil { // a restore may lack the last events
		return nil
	}
	return &eventLog{
		e: e, rng: rng, kept: []time.Duration{time.Hour, 5 * time.Hour, 30 * day}[rng.IntN(3)], idle: []int{1, 1, 60}[rng.IntN(3)],
		answered: map[string]time.Time{}, unread: map[string]time.Time{}, sent: map[string]bool{}, read: map[string]string{},
	}
}

// options changes the options of the queue of the next process, whose clock may be behind the clock of the process before.
func (l *eventLog) options(o *queueembedded.Options) {
	if l == nil {
		return
	}
	skew := time.Duration(l.rng.Int64N(int64(2*mostLogSkew))) - mostLogSkew
	o.EventsKept, o.Now = l.kept, func() time.Time { return time.Now().Add(skew) }
	o.Doubt = func() error {
		if l.letters.Load() {
			return errDown
		}
		return nil
	}
}

// open reads the log of the queue of a new process.
func (l *eventLog) open() {
	if l != nil {
		l.reader = events.NewReader(l.e.queue, "")
	}
}

// logEvents writes events to the log.
func (e *engine) logEvents(all []messages.Event) error {
	if e.off() || e.log == nil {
		return nil
	}
	e.strike()
	err := e.log.write(all)
	e.disk.cutAfter(0, 0)
	return err
}

func (l *eventLog) write(all []messages.Event) error {
	if l.e.disk.cut() {
		return noPower("events.log")
	}
	msgs := make([]*message.Message, len(all))
	for i, e := range all {
		msg, err := queue.Message(context.Background(), e)
		if err != nil {
			return err
		}
		msgs[i] = msg
		l.sent[string(msg.Payload)] = true
	}
	err := l.e.queue.Log("the log", msgs...)
	switch {
	case l.e.disk.cut():
		return noPower("events.log")
	case err != nil:
		if isOutage(err) {
			l.e.outage(err)
		}
		return err
	}
	for _, msg := range msgs {
		l.answered[string(msg.Payload)], l.unread[string(msg.Payload)] = time.Now(), time.Now()
	}
	return nil
}

// turn is the part of the log in a step: the program reads a page, keeps its position, or restarts.
func (l *eventLog) turn() {
	if l == nil {
		return
	}
	l.letters.Store(l.hasLetters())
	switch x := l.rng.IntN(200); {
	case x < 10 && l.rng.IntN(l.idle) == 0:
		l.advance()
	case x < 10:
	case x < 12:
		l.saved = l.next
	case x < 13:
		l.next = l.saved
		l.e.w.Fired[LogRestart]++
	case x < 14:
		l.compare()
	}
}

func (l *eventLog) hasLetters() bool {
	for _, topic := range queue.Topics() {
		if len(l.e.w.queue(topic).dead) > 0 {
			return true
		}
	}
	return false
}

// page reads a page of a random limit behind a position. It returns false if the disk does not answer.
func (l *eventLog) page(after string) (got events.Page, answered bool, err error) {
	limit := 1 + l.rng.IntN(5)
	got, err = l.reader.Page(context.Background(), after, limit, 0)
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.Unavailable && (l.e.trouble != "" || l.e.disk.cut()) {
		return got, false, nil
	}
	if len(got.Events) > limit {
		l.fail("a page of %d events has %d", limit, len(got.Events))
	}
	last := after
	for _, e := range got.Events {
		if e.Position <= last {
			l.fail("position %s comes behind %s", e.Position, last)
		}
		if last = e.Position; !l.sent[string(e.Payload)] {
			l.fail("nobody has sent the event at %s: %s", e.Position, e.Payload)
		}
	}
	if err == nil && got.Next != last && after != "" {
		l.fail("a page whose last event is at %s continues behind %s", last, got.Next)
	}
	return got, true, err
}

func (l *eventLog) fail(format string, args ...any) {
	l.e.w.load.fail("I6", "log of events: "+format, args...)
}

// advance lets the program read a page, and reports whether there may be more.
func (l *eventLog) advance() (more bool) {
	got, answered, err := l.page(l.next)
	if !answered {
		return false
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.EventsGone {
		l.e.w.Fired[LogGone]++
		for payload, at := range l.unread {
			if l.old(at) {
				delete(l.unread, payload)
			}
		}
		l.next, l.saved = "", ""
		return true
	}
	if err != nil {
		l.fail("a read behind %q: %v", l.next, err)
		return false
	}
	for _, e := range got.Events {
		payload := string(e.Payload)
		before, again := l.read[e.Position]
		switch {
		case again && before != payload:
			l.fail("position %s had the event %s, and has %s", e.Position, before, payload)
		case !again && e.Position < l.most:
			l.fail("the event at %s appeared behind a reader that was at %s", e.Position, l.most)
		}
		l.read[e.Position], l.most = payload, max(l.most, e.Position)
		delete(l.unread, payload)
		l.e.w.Fired[LogRead]++
	}
	l.next = got.Next
	return len(got.Events) > 0
}

// old reports whether an event of a time may be removed.
func (l *eventLog) old(at time.Time) bool { return time.Since(at) > l.kept-3*mostLogSkew }

// compare reads all kept events, as another program: it gets the same events at the same positions, and each answered event that is
// not old.
func (l *eventLog) compare() {
	there, first := map[string]bool{}, ""
	for next := ""; ; {
		got, answered, err := l.page(next)
		if !answered {
			return
		}
		if err != nil {
			l.fail("another reader behind %q: %v", next, err)
			return
		}
		for _, e := range got.Events {
			before, again := l.read[e.Position]
			switch {
			case again && before != string(e.Payload):
				l.fail("two readers have different events at %s", e.Position)
			case !again && e.Position < l.most:
				l.fail("the event at %s appeared behind a reader that was at %s", e.Position, l.most)
			}
			there[string(e.Payload)], there[e.Position] = true, true
			if first == "" {
				first = e.Position
			}
		}
		if next = got.Next; len(got.Events) == 0 {
			break
		}
	}
	for payload, at := range l.answered {
		if !there[payload] && !l.old(at) {
			l.fail("an event of %s is gone, events are kept for %s: %s", at, l.kept, payload)
		}
	}
	for position := range l.read {
		if first != "" && position > first && !there[position] {
			l.fail("the event at %s was read, and is gone between the kept ones", position)
		}
	}
}

// checkLog checks in a quiet world that the program has read each event, or was told that it came too late.
func (e *engine) checkLog() {
	if e.off() || e.log == nil {
		return
	}
	for e.log.advance() {
	}
	for _, payload := range sorted(e.log.unread) {
		e.log.fail("the program is at %s, and never got %s", e.log.next, payload)
	}
	clear(e.log.unread)
	e.log.compare()
}
