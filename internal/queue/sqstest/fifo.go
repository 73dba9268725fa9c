package sqstest

import (
	"container/heap"
	"container/list"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// fifo is one queue. Its operations take constant or logarithmic time, because benchmarks put
// hundreds of thousands of messages into it.
//
// A fifo is fair as SQS's standard queues are: messages of a noisy group are received only when
// no other group has messages. A group becomes noisy when it has at least noisyMessages in
// flight, and more than a tenth of all messages in flight. It becomes quiet when none of its
// messages is ready. SQS also counts the processing time of a group's messages, and the fake
// does not. So SQS is at least as fair as the fake.
type fifo struct {
	// ready has the messages that may be received, as *stored. The messages of a noisy group
	// are in loud, or move to loud when they get to the front of ready.
	ready, loud *list.List
	// groups has the groups with messages.
	groups map[string]*group
	// hidden has the messages in flight. delayed has the messages that were sent with a delay and are not
	// ready yet. In both heaps, the first message is the next message to become ready.
	hidden, delayed byTime
	// out has the messages by the receipt of their last receive.
	out map[string]*stored
	// arrived is closed when a message may have become ready.
	arrived chan struct{}
	// last is the last number that a message or a receipt got.
	last int
	// removed counts the messages that were deleted.
	removed int
}

type stored struct {
	id, body, sum, group, receipt string
	attributes                    json.RawMessage
	receives                      int
	sent                          time.Time
	// waiting is the element in ready or loud, nil if the message is hidden or delayed.
	waiting *list.Element
	// until is the end of the visibility timeout or of the delay. at is the index of the message in its heap.
	until time.Time
	at    int
}

func newFIFO() *fifo {
	return &fifo{ready: list.New(), loud: list.New(), groups: map[string]*group{}, out: map[string]*stored{}, arrived: make(chan struct{})}
}

func (q *fifo) len() int { return q.visible() + len(q.hidden) + len(q.delayed) }

func (q *fifo) number() string {
	q.last++
	return strconv.Itoa(q.last)
}

// show makes the messages ready whose visibility timeout or delay has ended.
func (q *fifo) show(now time.Time) {
	for len(q.delayed) > 0 && !q.delayed[0].until.After(now) {
		q.makeReady(heap.Pop(&q.delayed).(*stored))
	}
	for len(q.hidden) > 0 && !q.hidden[0].until.After(now) {
		m := heap.Pop(&q.hidden).(*stored)
		q.moved(m.group, 0, -1)
		q.makeReady(m)
	}
}

// next returns the time at which the next message becomes ready, or until if that is earlier.
func (q *fifo) next(until time.Time) time.Time {
	for _, h := range []byTime{q.hidden, q.delayed} {
		if len(h) > 0 && h[0].until.Before(until) {
			until = h[0].until
		}
	}
	return until
}

// wake wakes the waiting receives.
func (q *fifo) wake() {
	close(q.arrived)
	q.arrived = make(chan struct{})
}

// receive returns messages. SQS has a quota of messages in flight: if a queue is above the
// quota, a long poll returns no messages.
func (q *fifo) receive(now time.Time, most int, visibility time.Duration) []received {
	q.show(now)
	most = min(most, maxInFlight-len(q.hidden))
	var got []received
	for len(got) < most && q.visible() > 0 {
		m := q.front()
		q.unready(m)
		delete(q.out, m.receipt)
		m.receives++
		m.receipt, m.until = q.number(), now.Add(visibility)
		q.out[m.receipt] = m
		heap.Push(&q.hidden, m)
		q.moved(m.group, 0, 1)
		r := received{MessageID: m.id, ReceiptHandle: m.receipt, Body: m.body, MD5OfBody: m.sum, MessageAttributes: m.attributes}
		r.Attributes.ApproximateReceiveCount = strconv.Itoa(m.receives)
		r.Attributes.SentTimestamp = strconv.FormatInt(m.sent.UnixMilli(), 10)
		r.Attributes.MessageGroupID = m.group
		got = append(got, r)
	}
	return got
}

// These are the limits of a message, and of a queue.
const (
	maxMessage    = 1 << 20
	maxAttributes = 10
	maxDelay      = 900 // seconds
	maxInFlight   = 120_000
)

type attribute struct {
	DataType, StringValue string
	BinaryValue           []byte
}

// check returns an error for a message that SQS refuses, and the size of any other message.
func (e *entry) check() (size int, err error) {
	var attributes map[string]attribute
	if len(e.MessageAttributes) > 0 {
		if err := json.Unmarshal(e.MessageAttributes, &attributes); err != nil {
			return 0, refused("InvalidParameterValue", "attributes: %v", err)
		}
	}
	if e.DelaySeconds < 0 || e.DelaySeconds > maxDelay {
		return 0, refused("InvalidParameterValue", "a delay of %d seconds", e.DelaySeconds)
	}
	if len(attributes) > maxAttributes {
		return 0, refused("InvalidParameterValue", "%d attributes", len(attributes))
	}
	if !isText(e.MessageBody) {
		return 0, refused("InvalidMessageContents", "a body that is empty or has other characters than XML")
	}
	size = len(e.MessageBody)
	for name, a := range attributes {
		if a.DataType != "Binary" && !isText(a.StringValue) {
			return 0, refused("InvalidParameterValue", "the attribute %q is empty or has other characters than XML", name)
		}
		size += len(name) + len(a.DataType) + len(a.StringValue) + len(a.BinaryValue)
	}
	if size > maxMessage {
		return 0, refused("InvalidParameterValue", "a message of %d bytes", size)
	}
	return size, nil
}

// isText reports whether s is not empty and has only characters of XML 1.0.
func isText(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\uFFFE' || r == '\uFFFF'
	})
}

func (q *fifo) send(e *entry) (success, error) {
	if _, err := e.check(); err != nil {
		return success{}, err
	}
	sum, now := md5.Sum([]byte(e.MessageBody)), time.Now()
	m := &stored{id: q.number(), body: e.MessageBody, sum: hex.EncodeToString(sum[:]), group: e.MessageGroupID, attributes: e.MessageAttributes, sent: now}
	if e.DelaySeconds > 0 {
		m.until = now.Add(time.Duration(e.DelaySeconds) * time.Second)
		heap.Push(&q.delayed, m)
	} else {
		q.makeReady(m)
	}
	return success{MessageID: m.id, MD5OfMessageBody: m.sum}, nil
}

func (q *fifo) remove(e *entry) (success, error) {
	m, ok := q.out[e.ReceiptHandle]
	if !ok {
		return success{}, refused("ReceiptHandleIsInvalid", "no such receipt")
	}
	delete(q.out, m.receipt)
	q.removed++
	if m.waiting != nil {
		q.unready(m)
	} else {
		heap.Remove(&q.hidden, m.at)
		q.moved(m.group, 0, -1)
	}
	return success{}, nil
}

// hide changes the visibility timeout of a message that is hidden.
func (q *fifo) hide(e *entry) (success, error) {
	m, ok := q.out[e.ReceiptHandle]
	switch {
	case !ok:
		return success{}, refused("ReceiptHandleIsInvalid", "no such receipt")
	case m.waiting != nil:
		return success{}, refused("MessageNotInflight", "it is visible")
	}
	m.until = time.Now().Add(time.Duration(e.VisibilityTimeout) * time.Second)
	heap.Fix(&q.hidden, m.at)
	return success{}, nil
}

// noisyMessages is the minimum number of messages in flight of a noisy group.
const noisyMessages = 30

// group is the state of the messages of one group.
type group struct {
	ready, inFlight int
	noisy           bool
}

// moved counts messages of a group that became ready or in flight.
func (q *fifo) moved(name string, ready, inFlight int) {
	if name == "" {
		return // each message without a group counts as a group of its own
	}
	g := q.groups[name]
	if g == nil {
		g = &group{}
		q.groups[name] = g
	}
	g.ready += ready
	g.inFlight += inFlight
	g.noisy = g.ready > 0 && (g.noisy || g.inFlight >= noisyMessages && g.inFlight*10 > len(q.hidden))
	if *g == (group{}) {
		delete(q.groups, name)
	}
}

// front returns the next message to receive.
func (q *fifo) front() *stored {
	for e := q.ready.Front(); e != nil; e = q.ready.Front() {
		m := e.Value.(*stored)
		if g := q.groups[m.group]; g == nil || !g.noisy {
			return m
		}
		q.ready.Remove(e)
		m.waiting = q.loud.PushBack(m)
	}
	return q.loud.Front().Value.(*stored)
}

// makeReady puts a message at the end of ready.
func (q *fifo) makeReady(m *stored) {
	m.waiting = q.ready.PushBack(m)
	q.moved(m.group, 1, 0)
}

// unready removes a message from the list in which it waits.
func (q *fifo) unready(m *stored) {
	q.ready.Remove(m.waiting) // no effect if the message is in the other list
	q.loud.Remove(m.waiting)
	m.waiting = nil
	q.moved(m.group, -1, 0)
}

// visible returns the number of messages that may be received.
func (q *fifo) visible() int { return q.ready.Len() + q.loud.Len() }

// byTime is a heap of messages, ordered by the time at which they become ready.
type byTime []*stored

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h byTime) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

// Push implements heap.Interface.
func (h *byTime) Push(m any) {
	m.(*stored).at = len(*h)
	*h = append(*h, m.(*stored))
}

// Pop implements heap.Interface.
func (h *byTime) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return m
}
