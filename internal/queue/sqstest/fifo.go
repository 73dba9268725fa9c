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

// fifo is one queue. Its operations take constant or logarithmic time, since benchmarks
// put hundreds of thousands of messages into it.
type fifo struct {
	// ready has the messages that may be received, as *stored.
	ready *list.List
	// hidden has the others. The next one to become ready comes first.
	hidden byTime
	// out has the messages by the receipt of their last receive.
	out map[string]*stored
	// arrived is closed when a message may have become ready.
	arrived chan struct{}
	// last numbers messages and receipts.
	last int
}

type stored struct {
	id, body, sum, group, receipt string
	attributes                    json.RawMessage
	receives                      int
	// waiting is the place in ready, nil if the message is hidden.
	waiting *list.Element
	// until is the end of the visibility timeout, at the place in hidden.
	until time.Time
	at    int
}

func newFIFO() *fifo {
	return &fifo{ready: list.New(), out: map[string]*stored{}, arrived: make(chan struct{})}
}

func (q *fifo) len() int { return q.ready.Len() + len(q.hidden) }

func (q *fifo) number() string {
	q.last++
	return strconv.Itoa(q.last)
}

// show makes the messages ready whose visibility timeout has ended.
func (q *fifo) show(now time.Time) {
	for len(q.hidden) > 0 && !q.hidden[0].until.After(now) {
		m := heap.Pop(&q.hidden).(*stored)
		m.waiting = q.ready.PushBack(m)
	}
}

// next returns the time at which the next hidden message becomes ready, until at most.
func (q *fifo) next(until time.Time) time.Time {
	if len(q.hidden) > 0 && q.hidden[0].until.Before(until) {
		return q.hidden[0].until
	}
	return until
}

// wake wakes the receives that wait.
func (q *fifo) wake() {
	close(q.arrived)
	q.arrived = make(chan struct{})
}

func (q *fifo) receive(now time.Time, most int, visibility time.Duration) []received {
	q.show(now)
	var got []received
	for len(got) < most && q.ready.Len() > 0 {
		m := q.ready.Remove(q.ready.Front()).(*stored)
		delete(q.out, m.receipt)
		m.receives++
		m.waiting, m.receipt, m.until = nil, q.number(), now.Add(visibility)
		q.out[m.receipt] = m
		heap.Push(&q.hidden, m)
		r := received{MessageID: m.id, ReceiptHandle: m.receipt, Body: m.body, MD5OfBody: m.sum, MessageAttributes: m.attributes}
		r.Attributes.ApproximateReceiveCount = strconv.Itoa(m.receives)
		got = append(got, r)
	}
	return got
}

// Limits of a message.
const (
	maxMessage    = 1 << 20
	maxAttributes = 10
)

type attribute struct {
	DataType, StringValue string
	BinaryValue           []byte
}

// check refuses a message that SQS refuses, and returns the size of the others.
func (e *entry) check() (size int, err error) {
	var attributes map[string]attribute
	if len(e.MessageAttributes) > 0 {
		if err := json.Unmarshal(e.MessageAttributes, &attributes); err != nil {
			return 0, refused("InvalidParameterValue", "attributes: %v", err)
		}
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

// isText reports whether s has characters, and only those of XML 1.0.
func isText(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\uFFFE' || r == '\uFFFF'
	})
}

func (q *fifo) send(e *entry) (success, error) {
	if _, err := e.check(); err != nil {
		return success{}, err
	}
	sum := md5.Sum([]byte(e.MessageBody))
	m := &stored{id: q.number(), body: e.MessageBody, sum: hex.EncodeToString(sum[:]), group: e.MessageGroupID, attributes: e.MessageAttributes}
	m.waiting = q.ready.PushBack(m)
	return success{MessageID: m.id, MD5OfMessageBody: m.sum}, nil
}

func (q *fifo) remove(e *entry) (success, error) {
	m, ok := q.out[e.ReceiptHandle]
	if !ok {
		return success{}, refused("ReceiptHandleIsInvalid", "no such receipt")
	}
	delete(q.out, m.receipt)
	if m.waiting != nil {
		q.ready.Remove(m.waiting)
	} else {
		heap.Remove(&q.hidden, m.at)
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

// byTime is a heap by the end of the visibility timeout.
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
