package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/queue"
	"fanfare/messages"
)

// queueState is one topic, with its dead letters.
type queueState struct {
	topic    string
	messages []*queued
	dead     []queue.DeadLetter
	// published is the number of messages that producers have sent to the topic.
	published int
}

type queued struct {
	id      string
	topic   string // set if the message was received in the calm part
	name    string // the name of the message's origin, which is the same in a run without other operations
	payload []byte
	meta    message.Metadata
	// original is the event itself, as the publishing life of the process made it; it is nil for a
	// redriven dead letter. The first receive in the same life delivers this value, as in a process
	// with all roles.
	original queue.Original
	by       *life
	visible  time.Time
	receives int
	order    int
	// real is the message of the embedded engine while it is out.
	real *message.Message
}

// subscription is the subscription of one process to one topic.
type subscription struct {
	p     *Proc
	topic string
	ctx   context.Context
	ch    chan *message.Message
	out   []*receipt
	ended bool
}

// receipt is one message that a process holds.
type receipt struct {
	msg     *message.Message
	queued  *queued
	receive *queue.Receive
}

// visibility is the time for which a received message is hidden from other consumers. The
// transports extend the time while a consumer handles the message, so the time ends only if the
// process is dead, or through a fault.
const visibility = 30 * time.Second

type broker struct {
	p *Proc
	l *life
}

// Broker returns the process's queues.
func (p *Proc) Broker() queue.Broker { return broker{p, p.life} }

func (w *World) queue(topic string) *queueState {
	q := w.queues[topic]
	if q == nil {
		q = &queueState{topic: topic}
		w.queues[topic] = q
	}
	return q
}

// Publish sends the messages of one call in one request. If the request fails, the queue may still have
// accepted some of the messages.
func (b broker) Publish(topic string, messages ...*message.Message) error {
	if len(messages) == 0 {
		return nil
	}
	own := make([]*queued, len(messages))
	text := make([]string, len(messages))
	for i, m := range messages {
		own[i] = &queued{
			id: m.UUID, payload: slices.Clone(m.Payload), meta: clone(m.Metadata),
			original: queue.OriginalOf(m), by: b.l,
		}
		text[i] = string(m.Payload)
	}
	c := &call{kind: "queue.publish", class: "publish " + topic, about: messages[0].UUID, label: label("publish "+topic, text), batch: len(own) > 1, sent: decoded(own[0].payload)}
	c.effect = func(part float64) error {
		q := b.p.w.queue(topic)
		n := int(part*float64(len(own)) + .999)
		land := func(i int) *queued {
			copied := *own[i]
			copied.name = brief(fmt.Sprintf("%s>%d", c.name, i))
			b.p.w.names[copied.id] = copied.name
			copied.order = q.published
			copied.visible = b.p.w.due(copied.payload)
			q.published++
			q.messages = append(q.messages, &copied)
			b.p.w.published(topic, copied.payload)
			b.p.w.checkSentInDoubt(b.p, topic, copied.payload)
			b.p.w.sawEvent(c.op, copied.payload)
			b.p.w.sawTakeBack(b.l, copied.payload)
			b.p.w.sawPurge(c.op, copied.payload)
			b.p.w.see(event{kind: eventPublish, by: b.p.Name, op: c.op, message: decoded(copied.payload)})
			return &copied
		}
		return b.p.w.engine.publish(topic, own[:n], land)
	}
	return b.p.do(messages[0].Context(), b.l, c)
}

// plansLag reports whether plans wait for a minute, and one of the workers reads much larger pages
// than the other worker, as during a change of the setting. Then one worker sends a plan for a
// post's message, and the other worker receives the redelivered message and delivers the post
// before the plan is handled.
func (w *World) plansLag() bool { return w.shape.Events && w.seed%4 < 3 && w.probe == nil }

// due returns the time from which a published message can be received, zero if the message is ready at once.
func (w *World) due(payload []byte) time.Time {
	if _, plan := decoded(payload).(*messages.FanoutPlan); plan && w.plansLag() {
		return time.Now().Add(time.Minute)
	}
	if w.lives.isBacklog(w.seed, payload) {
		return time.Now().Add(backlog)
	}
	return time.Time{}
}

func clone(m message.Metadata) message.Metadata {
	out := make(message.Metadata, len(m))
	maps.Copy(out, m)
	return out
}

func (b broker) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	b.p.w.mu.Lock()
	defer b.p.w.mu.Unlock()
	if b.l.over {
		return nil, errCrashed
	}
	s := &subscription{p: b.p, topic: topic, ctx: ctx, ch: make(chan *message.Message)}
	b.p.subs = append(b.p.subs, s)
	return s.ch, nil
}

func (s *subscription) end() {
	if !s.ended {
		s.ended = true
		close(s.ch)
	}
}

// Close implements message.Publisher and message.Subscriber.
func (b broker) Close() error { return nil }

func (b broker) DeadLetter(ctx context.Context, topic string, msg *message.Message, reason string) error {
	letter := queue.DeadLetter{
		ID: msg.UUID, Topic: topic, Payload: slices.Clone(msg.Payload), Metadata: clone(msg.Metadata),
		Reason: reason, FailedAt: time.Now(), Receives: queue.ReceiveOf(msg).Receives,
	}
	c := &call{kind: "queue.dead_letter", class: "dead_letter " + topic, about: msg.UUID, label: label("dead "+topic, string(msg.Payload)+reason)}
	c.effect = func(float64) error {
		if err := b.p.w.engine.bury(letter); err != nil {
			return err
		}
		b.p.w.checkBuriedInDoubt(b.p, letter)
		q := b.p.w.queue(topic)
		q.dead = append(q.dead, letter)
		b.p.w.awaits(letter)
		return nil
	}
	return b.p.do(ctx, b.l, c)
}

func (b broker) Depth(_ context.Context, topic string) (queue.Depth, error) {
	q := b.p.w.queue(topic)
	return queue.Depth{Ready: int64(len(q.messages)), Dead: int64(len(q.dead))}, nil
}

func (b broker) ListDead(_ context.Context, topic string, limit int) ([]queue.DeadLetter, error) {
	dead := b.p.w.queue(topic).dead
	return dead[:min(limit, len(dead))], nil
}

func (b broker) Redrive(context.Context, string, []string, func(queue.DeadLetter) error) (sent, refused int, err error) {
	return 0, 0, fmt.Errorf("the driver redrives: %w", queue.ErrClosed)
}

func (b broker) DropDead(context.Context, string, []string) (int, error) {
	return 0, fmt.Errorf("nothing drops dead letters here: %w", queue.ErrClosed)
}

// backstop is the native redrive policy of a queue: after too many receives the queue itself makes
// a message a dead letter, because the message might kill its consumers.
func (w *World) backstop(topic string, m *queued) {
	q := w.queue(topic)
	i := slices.Index(q.messages, m)
	q.messages = slices.Delete(q.messages, i, i+1)
	letter := queue.DeadLetter{ID: m.id, Topic: topic, Payload: m.payload, Metadata: m.meta, Reason: messages.ReasonReceived.Because("without an answer"), FailedAt: time.Now()}
	w.engine.setAside(m, letter)
	q.dead = append(q.dead, letter)
	w.awaits(letter)
	w.see(event{kind: eventAside, running: w.running(m)})
	w.note("backstop %s", m.id)
}

// redrive redrives the dead letters of a topic, as an operator would. A letter for which refuse returns an
// error stays.
func (w *World) redrive(topic string, refuse func(queue.DeadLetter) error) {
	q := w.queue(topic)
	var kept, sent []queue.DeadLetter
	for _, d := range q.dead {
		if err := refuse(d); err != nil {
			if _, old := errors.AsType[*messages.PermanentError](err); old && decoded(d.Payload) != nil {
				w.see(event{kind: eventTooOld})
			}
			kept = append(kept, d)
			continue
		}
		sent = append(sent, d)
		w.Fired[FaultRedrive]++
		w.see(event{kind: eventRedrive, since: d.FailedAt})
		delete(w.set, d.ID)
		q.messages = append(q.messages, &queued{id: d.ID, name: "dead " + w.names[d.ID], payload: d.Payload, meta: clone(d.Metadata), order: q.published})
		q.published++
		w.note("redrive %s %s", topic, d.ID)
	}
	w.engine.redrive(topic, sent)
	q.dead = kept
	for _, d := range kept { // if a message became two dead letters, one letter may stay
		w.awaits(d)
	}
}

// awaits keeps a dead letter for its redrive, if the backstop made the letter, or if the letter's event has
// not been sent.
func (w *World) awaits(d queue.DeadLetter) {
	if d.Has(messages.ReasonReceived) || (w.shape.Events || w.shape.Notices) && d.Has(messages.ReasonUnsent) {
		w.set[d.ID] = true
	}
}

// put sends a message without an API, as a producer of another program does.
func (w *World) put(topic, id, name string, payload []byte) {
	q := w.queue(topic)
	m := &queued{id: id, name: name, payload: payload, order: q.published}
	w.engine.put(topic, m)
	q.messages = append(q.messages, m)
	q.published++
	w.published(topic, payload)
}

// deliver gives one of the visible messages to one subscription that accepts the message.
func (w *World) deliver() bool {
	type pair struct {
		s *subscription
		m *queued
		i int
	}
	var choice []pair
	now := time.Now()
	for _, p := range w.procs {
		if p.dead || now.Before(p.paused) {
			continue
		}
		for _, s := range p.subs {
			if s.ended || len(s.out) >= w.shape.Held+2 {
				continue
			}
			first := -1
			for i, m := range w.queue(s.topic).messages {
				if now.Before(m.visible) || !w.engine.out(m) {
					continue
				}
				if first < 0 {
					first = i
				}
				choice = append(choice, pair{s, m, i - first})
			}
		}
	}
	if len(choice) == 0 {
		return false
	}
	c := choice[choose(w.rng, choice, func(of pair) string { return of.s.p.Name + " " + of.m.name })]
	if w.off[FaultReorder] {
		c = choice[slices.IndexFunc(choice, func(of pair) bool { return of.s == c.s })]
	}
	if !w.off[FaultRedrive] && w.chance(w.faults.Backstop) {
		w.backstop(c.s.topic, c.m)
		return true
	}
	w.about("deliver %s %d to %s", c.m.name, c.m.receives, c.s.p.Name)
	carried := decoded(c.m.payload)
	if !w.give(c.s, c.m, carried) {
		return false
	}
	if c.i > 0 {
		w.Fired[FaultReorder]++
	}
	duplicates := w.faults.Dup
	_, plan := carried.(*messages.FanoutPlan)
	_, post := carried.(*messages.PostCreated)
	if plan && w.plannersMeet() || post && w.plansLag() {
		duplicates *= 16
	}
	if !w.strikes(FaultDup, duplicates) {
		c.m.visible = now.Add(visibility)
	}
	return true
}

// give offers a message to a subscription, and reports whether the subscription accepts the message.
func (w *World) give(s *subscription, m *queued, carried messages.Event) bool {
	d := queue.NewReceive(m.receives + 1)
	if m.receives == 0 && m.by != nil && !m.by.over {
		d.Original = m.original
	}
	msg := message.NewMessage(m.id, slices.Clone(m.payload))
	msg.Metadata = clone(m.meta)
	op := fmt.Sprintf("%s/%d", m.name, d.Receives)
	w.began[op] = w.steps
	msg.SetContext(withOp(queue.WithReceive(s.ctx, d), op))
	select {
	case s.ch <- msg:
	default:
		return false // no process takes the message now: each process is at its bound
	}
	m.receives++
	if w.probe != nil && m.receives == 1 && s.topic != queue.TopicLikes {
		m.topic = s.topic
		w.probe.handed = append(w.probe.handed, m)
	}
	dropped := s.p.silent && s.topic == queue.TopicNotices && carried != nil
	if dropped {
		w.notices.drops(carried)
	}
	w.see(event{kind: eventDeliver, by: s.p.Name, id: m.id, message: carried, running: w.running(m), clock: s.p.Now(), dropped: dropped})
	s.out = append(s.out, &receipt{msg, m, d})
	w.note("deliver %s to %s (%d)", m.id, s.p.Name, d.Receives)
	return true
}

// collect handles the acks and nacks since the last step, extends the visibility of unanswered messages, and
// ends each subscription whose context has ended.
func (w *World) collect() {
	w.engine.turn()
	for _, p := range w.procs {
		if p.dead {
			continue
		}
		for _, s := range p.subs {
			w.collectFrom(s)
			if !s.ended && s.ctx.Err() != nil {
				for _, r := range s.out {
					r.queued.visible = time.Now()
				}
				s.out = nil
				s.end()
			}
		}
	}
}

func (w *World) collectFrom(s *subscription) {
	kept := s.out[:0]
	for _, r := range s.out {
		op := opOf(r.msg.Context())
		if w.faults.AckLost+w.faults.Expire > 0 {
			w.aboutStep(r.queued.name + " at " + s.p.Name)
		}
		select {
		case <-r.msg.Acked():
			w.see(event{kind: eventAnswer, by: s.p.Name, op: op, id: r.queued.id, done: true})
			w.handled(w.queue(s.topic), r.queued, op)
			w.answered(r.queued.payload, op)
			w.traced.likes.handled(w, w.queue(s.topic), r.queued)
			if w.strikes(FaultAckLost, w.faults.AckLost) {
				w.note("ack lost %s by %s", r.queued.id, s.p.Name)
				w.see(event{kind: eventAckLost, id: r.queued.id})
				continue
			}
			q := w.queue(s.topic)
			if i := slices.Index(q.messages, r.queued); i >= 0 {
				q.messages = slices.Delete(q.messages, i, i+1)
				w.engine.acked(s.topic, r.queued)
			}
			w.note("ack %s by %s", r.queued.id, s.p.Name)
		case <-r.msg.Nacked():
			answer := event{kind: eventAnswer, by: s.p.Name, op: op, id: r.queued.id, wrong: s.p.wrong}
			if s.topic == queue.TopicLikes && r.receive.Behind() < r.receive.Receives {
				answer.left = r.receive.Delay()
			}
			w.see(answer)
			r.queued.visible = time.Now().Add(r.receive.Delay())
			r.queued.receives -= r.receive.Receives - r.receive.Behind()
			w.engine.nacked(r)
			w.note("nack %s by %s for %s", r.queued.id, s.p.Name, r.receive.Delay())
			if w.probe != nil {
				w.probe.again = append(w.probe.again, r.queued.id)
			}
		default:
			if w.strikes(FaultExpire, w.faults.Expire) {
				r.queued.visible = time.Now()
				w.note("visibility of %s ended at %s", r.queued.id, s.p.Name)
			} else if !time.Now().Before(s.p.paused) && r.queued.visible.After(time.Now()) {
				r.queued.visible = time.Now().Add(visibility)
			}
			kept = append(kept, r)
		}
	}
	s.out = kept
}
