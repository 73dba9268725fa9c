package sim

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/queue"
)

// outbox is a topic of the engine's queue. The driver takes each message that the queue delivers,
// and delivers no message that it has not taken.
type outbox struct {
	mu    sync.Mutex
	taken []*message.Message // guarded by mu: delivered since the last turn

	// gone has, by identity, the messages that the model has removed and that the queue delivers once
	// more. The driver acks such a message.
	gone map[string][]*queued
	// perhaps has, by identity, functions for messages that may or may not arrive. If a message
	// arrives, its function returns the message in the model.
	perhaps map[string][]func() *queued
	acks    []ack // the acks of the last moments
	dead    int64 // the number of dead letters when adopt last looked
}

// identity distinguishes messages: several notices of one event have the id of the event.
func identity(id string, payload []byte) string { return id + " " + string(payload) }

func (m *queued) identity() string { return identity(m.id, m.payload) }

type ack struct {
	m  *queued
	at time.Time
}

// subscribe takes the messages of all topics.
func (e *engine) subscribe() error {
	for _, topic := range queue.Topics() {
		o := e.topics[topic]
		if o == nil {
			o = &outbox{gone: map[string][]*queued{}, perhaps: map[string][]func() *queued{}}
			e.topics[topic] = o
		}
		channel, err := e.queue.Subscribe(context.Background(), topic)
		if err != nil {
			return err
		}
		go func() { // runs until the queue is closed
			for msg := range channel {
				o.mu.Lock()
				o.taken = append(o.taken, msg)
				o.mu.Unlock()
			}
		}()
	}
	return nil
}

// take matches the messages that the queue has delivered with the messages of the model.
func (e *engine) take() {
	for _, topic := range queue.Topics() {
		o := e.topics[topic]
		o.mu.Lock()
		taken := o.taken
		o.taken = nil
		o.mu.Unlock()
		slices.SortStableFunc(taken, func(a, b *message.Message) int { return strings.Compare(a.UUID, b.UUID) })
		for _, msg := range taken {
			e.match(topic, o, msg)
		}
	}
}

func (e *engine) match(topic string, o *outbox, msg *message.Message) {
	for _, m := range e.w.queue(topic).messages {
		if m.real == nil && m.id == msg.UUID && bytes.Equal(m.payload, msg.Payload) {
			m.real = msg
			return
		}
	}
	who := identity(msg.UUID, msg.Payload)
	if gone := o.gone[who]; len(gone) > 0 {
		o.gone[who] = gone[1:]
		gone[0].real = msg
		e.acked(topic, gone[0])
		return
	}
	if more := o.perhaps[who]; len(more) > 0 {
		o.perhaps[who] = more[1:]
		e.w.note("message %s of %s, whose outcome was unknown, is there", msg.UUID, topic)
		more[0]().real = msg
		return
	}
	e.fail("I6", "message %s of %s comes though it was not published, or was acked long ago", msg.UUID, topic)
	msg.Ack()
}

// out reports whether the queue has delivered the message.
func (e *engine) out(m *queued) bool { return e.off() || m.real != nil }

// publish publishes messages. land puts the i-th message into the model.
func (e *engine) publish(topic string, own []*queued, land func(i int) *queued) error {
	if !e.off() {
		e.strike()
		err := e.send(topic, own, land)
		e.disk.cutAfter(0, 0)
		if err != nil {
			return err
		}
	}
	for i := range own {
		land(i)
	}
	return nil
}

// send publishes messages only on the disk.
func (e *engine) send(topic string, own []*queued, land func(i int) *queued) error {
	msgs := make([]*message.Message, len(own))
	for i, m := range own {
		msgs[i] = message.NewMessage(m.id, m.payload)
		msgs[i].Metadata = clone(m.meta)
	}
	if e.disk.cut() {
		return noPower("queue.publish")
	}
	err := e.queue.Publish(topic, msgs...)
	for _, m := range own {
		e.journal().message(topic, m.identity(), 1, err == nil && !e.disk.cut())
	}
	if e.disk.cut() {
		err = noPower("queue.publish")
	} else if isOutage(err) {
		e.outage(err)
	}
	if err != nil {
		for i, m := range own {
			e.topics[topic].perhaps[m.identity()] = append(e.topics[topic].perhaps[m.identity()], func() *queued { return land(i) })
		}
	}
	return err
}

// put is publish for a message that the driver publishes itself.
func (e *engine) put(topic string, m *queued) {
	if e.off() {
		return
	}
	e.calm()
	if err := e.send(topic, []*queued{m}, nil); err != nil {
		e.fail("I5", "publish: %v", err)
	}
}

// calm ends the trouble before the driver itself changes the queue: such a change must not fail.
func (e *engine) calm() {
	if e.trouble != "" {
		e.mend()
	}
	if e.disk.cut() {
		e.turn()
	}
}

// acked is called when the model removes a message.
func (e *engine) acked(topic string, m *queued) {
	if e.off() {
		return
	}
	o := e.topics[topic]
	e.journal().message(topic, m.identity(), -1, true)
	if m.real == nil {
		o.gone[m.identity()] = append(o.gone[m.identity()], m)
		return
	}
	m.real.Ack()
	m.real = nil
	o.acks = append(slices.DeleteFunc(o.acks, e.isDurable), ack{m, time.Now()})
}

// isDurable reports whether a restart cannot undo an ack any more: the queue syncs acks after a
// short time.
func (e *engine) isDurable(a ack) bool {
	return e.trouble == "" && time.Since(a.at) > undoneWithin && time.Since(e.room) > undoneWithin
}

// nacked returns a message to the queue, which delivers the message again after a delay.
func (e *engine) nacked(r *receipt) {
	if e.off() || r.queued.real == nil {
		return
	}
	queue.ReceiveOf(r.queued.real).RetryAfter(r.receive.Delay())
	r.queued.real.Nack()
	r.queued.real = nil
}

// bury stores a dead letter.
func (e *engine) bury(d queue.DeadLetter) error {
	if e.off() {
		return nil
	}
	if e.disk.cut() {
		return noPower("queue.dead_letter")
	}
	if e.log != nil {
		e.log.letters.Store(true)
	}
	msg := message.NewMessage(d.ID, d.Payload)
	msg.Metadata = clone(d.Metadata)
	err := e.queue.DeadLetter(context.Background(), d.Topic, msg, d.Reason)
	e.journal().message(d.Topic, identity(d.ID, d.Payload), 1, err == nil && !e.disk.cut())
	if isOutage(err) {
		e.outage(err)
	}
	return err
}

// setAside moves a message to the dead letters, as the backstop does.
func (e *engine) setAside(m *queued, d queue.DeadLetter) {
	if e.off() {
		return
	}
	e.calm()
	if err := e.bury(d); err != nil {
		e.fail("I5", "dead letter: %v", err)
	}
	e.acked(d.Topic, m)
}

// buried moves a message that the queue itself has made a dead letter.
func (e *engine) buried(q *queueState, d queue.DeadLetter) {
	i := slices.IndexFunc(q.messages, func(m *queued) bool { return m.real == nil && m.identity() == identity(d.ID, d.Payload) })
	if i < 0 {
		e.fail("I6", "a dead letter of %s is not of a message that was out: %s", q.topic, d.ID)
		return
	}
	q.messages = slices.Delete(q.messages, i, i+1)
	q.dead = append(q.dead, d)
	e.w.set[d.ID] = true
}

// redrive sends dead letters again.
func (e *engine) redrive(topic string, letters []queue.DeadLetter) {
	if e.off() || len(letters) == 0 {
		return
	}
	e.calm()
	left, ids := map[string]int{}, []string{}
	for _, d := range letters {
		e.journal().message(topic, identity(d.ID, d.Payload), 1, false)
		left[identity(d.ID, d.Payload)]++
		ids = append(ids, d.ID)
	}
	sent, _, err := e.queue.Redrive(context.Background(), topic, ids, func(d queue.DeadLetter) error {
		who := identity(d.ID, d.Payload)
		if left[who]--; left[who] < 0 {
			return queue.ErrNotMeant
		}
		return nil
	})
	if err != nil || sent != len(letters) {
		e.fail("I6", "%d dead letters of %s are redriven (%v), want %d", sent, topic, err, len(letters))
	}
}

// forget forgets the messages that the queue had delivered. The acks of the last moments may be
// undone.
func (e *engine) forget() {
	for _, topic := range queue.Topics() {
		q, o := e.w.queue(topic), e.topics[topic]
		for _, m := range q.messages {
			if m.real != nil {
				m.real, m.visible = nil, time.Time{}
			}
		}
		for _, a := range slices.DeleteFunc(o.acks, e.isDurable) {
			o.perhaps[a.m.identity()] = append(o.perhaps[a.m.identity()], func() *queued {
				again := *a.m
				again.order, again.visible = q.published, time.Time{}
				q.published++
				q.messages = append(q.messages, &again)
				return &again
			})
		}
		o.mu.Lock()
		o.acks, o.taken, o.dead = nil, nil, 0
		o.mu.Unlock()
	}
}
