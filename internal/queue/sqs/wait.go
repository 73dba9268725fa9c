package sqs

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	wsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"

	"fanfare/internal/queue"
	"fanfare/messages"
)

// A message that waits by its visibility timeout is in flight, and SQS delivers no messages from a
// queue with about 120,000 messages in flight. A delayed message is not in flight. So a message that
// has to wait for longer than holdMost is replaced by a delayed copy. SQS delays a message by up to
// delayMost. So the copy carries its due time. A copy that is received before that time is replaced
// by another copy, without a call of a handler. Each replacement is a hop. docs/decisions/0041 has
// the rules.
const (
	// holdMost is the maximum wait by the visibility timeout.
	holdMost = queue.LongWait
	// delayMost is the maximum delay of SQS.
	delayMost = 15 * time.Minute
	// copyPause is the time for which a process sends no copies after a failed replacement.
	copyPause = time.Minute
	// maxAttributes is SQS's limit on the attributes of a message.
	maxAttributes = 10
)

// carried is the part of a message's past that a copy carries. The first message with an id carries nothing.
type carried struct {
	// receives counts the receives by handlers, without hops.
	receives int
	// first is the time at which the first message was sent, by the clock of SQS.
	first time.Time
	// due is the time from which the copy may be handled; zero means at once.
	due time.Time
}

func (c carried) String() string {
	return fmt.Sprintf("%d %d %d", c.receives, c.first.UnixMilli(), c.due.UnixMilli())
}

// carriedBy returns the past that m carries. If m has no valid attribute of a copy, carriedBy
// returns the zero value.
func carriedBy(m *types.Message) (c carried) {
	fields := strings.Split(aws.ToString(m.MessageAttributes[queue.MetaWait].StringValue), " ")
	var numbers [3]int64
	if len(fields) != len(numbers) {
		return c
	}
	for i, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n < 0 {
			return c
		}
		numbers[i] = n
	}
	return carried{int(numbers[0]), time.UnixMilli(numbers[1]), time.UnixMilli(numbers[2])}
}

// notDue returns how long a copy still has to wait, 0 if a handler may get the copy. If the clock
// is in doubt, the copy does not wait. A copy never waits for longer than the maximum that a
// consumer can request.
func (b *Broker) notDue(c carried) time.Duration {
	wait := c.due.Sub(b.opt.Now())
	if wait <= holdMost || wait > maxDelay || b.opt.Doubt() != nil {
		return 0
	}
	return wait
}

// copyOf returns a copy of h's message that is due after wait. fits is false if the message has
// no room for another attribute.
func (b *Broker) copyOf(h *held, receives int, wait time.Duration) (entry types.SendMessageBatchRequestEntry, size int, fits bool) {
	attributes := maps.Clone(h.message.MessageAttributes)
	if attributes == nil {
		attributes = map[string]types.MessageAttributeValue{}
	}
	set := func(name, value string) {
		attributes[name] = types.MessageAttributeValue{DataType: aws.String(wsqs.AWSStringDataType), StringValue: &value}
	}
	set(wsqs.UUIDAttribute, h.id)
	set(queue.MetaWait, carried{receives, h.past.first, b.opt.Now().Add(wait)}.String())
	entry = types.SendMessageBatchRequestEntry{
		MessageBody: h.message.Body, MessageAttributes: attributes, DelaySeconds: seconds(hop(wait)), MessageGroupId: h.group,
	}
	size = len(aws.ToString(entry.MessageBody))
	for name, a := range attributes {
		size += len(name) + len(aws.ToString(a.DataType)) + len(aws.ToString(a.StringValue)) + len(a.BinaryValue)
	}
	return entry, size, len(attributes) <= maxAttributes && size <= maxBody
}

// hop returns the delay of the next copy. All hops of a wait have the same length, so that the last
// hop is long enough to be delayed.
func hop(wait time.Duration) time.Duration {
	hops := (wait + delayMost - 1) / delayMost
	return (wait + hops - 1) / hops
}

// putOff makes h's message return after wait, with the given number of receives. Until its copy
// is sent, the message stays in out and is extended, so that no other consumer receives it.
func (s *subscription) putOff(h *held, receives int, wait time.Duration) {
	h.cancel()
	if wait > holdMost && s.sendCopy(h, receives, wait) {
		s.ack(h)
		return
	}
	s.handBack(h, wait)
}

// sendCopy reports whether SQS has a copy of h's message. If not, the message has to wait by
// its visibility timeout.
func (s *subscription) sendCopy(h *held, receives int, wait time.Duration) bool {
	entry, size, fits := s.b.copyOf(h, receives, wait)
	if !fits || !s.b.copies.allowed() {
		return false
	}
	done := make(chan error, 1)
	s.queue.send.add(func(err error) { done <- err }, func(int) int { return size }, entry)
	var err error
	select {
	case err = <-done:
	case <-s.life.Done():
		return false
	}
	if err != nil { // SQS may have the copy in spite of the error
		s.b.copies.ended(err)
		s.b.opt.Log.Warn("copy not sent, the message waits by its visibility timeout", zap.String("topic", s.topic), zap.Error(err))
	}
	return err == nil
}

// bury makes a dead letter of a message that was received too often. SQS counts the receives of
// each copy separately, so the subscription adds them.
func (s *subscription) bury(h *held, msg *message.Message) {
	reason := messages.ReasonReceived.Because("more than %d times since %s", maxReceiveCount, h.past.first.UTC().Format(time.RFC3339))
	if err := s.b.DeadLetter(msg.Context(), s.topic, msg, reason); err != nil {
		s.b.opt.Log.Error("dead letter not stored, the message is redelivered", zap.String("topic", s.topic), zap.String("message_id", msg.UUID), zap.Error(err))
		s.handBack(h, holdMost)
		return
	}
	s.b.opt.Log.Warn("dead letter", zap.String("topic", s.topic), zap.String("message_id", msg.UUID), zap.String("reason", reason))
	s.ack(h)
}

// breaker stops the copies of a process whose replacements fail: if deletes fail, each copy adds a
// message to the queue.
type breaker struct {
	mu sync.Mutex
	// failed is the time at which a delete or a copy last failed. It is zero once a delete has
	// succeeded after the pause.
	failed time.Time
	// trying means that one copy is in progress after a pause. Its outcome decides whether
	// further copies are allowed.
	trying bool
}

// allowed reports whether a copy may be sent. After a pause it allows one copy, and no further copy until the
// outcome of the first copy is known.
func (c *breaker) allowed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed.IsZero() {
		return true
	}
	if c.trying || time.Since(c.failed) < copyPause {
		return false
	}
	c.trying = true
	return true
}

// ended notes the outcome of a delete, or the failure of a copy.
func (c *breaker) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.failed, c.trying = time.Now(), false
	case !c.failed.IsZero() && time.Since(c.failed) >= copyPause:
		c.failed, c.trying = time.Time{}, false
	}
}
