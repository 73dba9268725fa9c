package queue

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// maxReason bounds the reason of a dead letter, in bytes.
const maxReason = 1000

// NewDeadLetter is for backends: it returns what DeadLetter has to store of msg.
// The reason is cut to 1,000 bytes of text that SQS accepts.
func NewDeadLetter(topic string, msg *message.Message, reason string, now time.Time) DeadLetter {
	return DeadLetter{
		ID:       msg.UUID,
		Topic:    topic,
		Payload:  msg.Payload,
		Metadata: maps.Clone(msg.Metadata),
		Reason:   cleanReason(reason),
		FailedAt: now.UTC().Truncate(time.Millisecond),
		Receives: ReceiveOf(msg).Receives,
	}
}

// Message is for backends: it returns d as the message that a dead-letter queue
// carries, its own fields among the metadata.
func (d *DeadLetter) Message() *message.Message {
	msg := message.NewMessage(d.ID, d.Payload)
	maps.Copy(msg.Metadata, d.Metadata)
	msg.Metadata[MetaReason] = d.Reason
	msg.Metadata[MetaSource] = d.Topic
	msg.Metadata[MetaFailedAt] = d.FailedAt.Format(time.RFC3339Nano)
	msg.Metadata[MetaReceives] = strconv.Itoa(d.Receives)
	return msg
}

// Original is for backends: it returns the message that Redrive publishes again.
func (d *DeadLetter) Original() *message.Message {
	msg := message.NewMessage(d.ID, d.Payload)
	maps.Copy(msg.Metadata, d.Metadata)
	return msg
}

// ParseDeadLetter is for backends: the reverse of DeadLetter.Message. What came into
// the dead-letter queue by another way has the reason that the transport gave up.
func ParseDeadLetter(topic string, msg *message.Message) DeadLetter {
	d := DeadLetter{ID: msg.UUID, Topic: topic, Payload: msg.Payload, Metadata: maps.Clone(msg.Metadata)}
	if d.Metadata == nil {
		d.Metadata = message.Metadata{}
	}
	take := func(key string) string {
		value := d.Metadata[key]
		delete(d.Metadata, key)
		return value
	}
	d.Reason = take(MetaReason)
	if d.Reason == "" {
		d.Reason = "received too often without an answer"
	}
	take(MetaSource) // the dead-letter queue says it
	// A time or number that another tool wrote in another form stays zero: it is
	// shown to people and decides nothing.
	if at, err := time.Parse(time.RFC3339Nano, take(MetaFailedAt)); err == nil {
		d.FailedAt = at
	}
	if n, err := strconv.Atoi(take(MetaReceives)); err == nil {
		d.Receives = n
	}
	return d
}

// Selected is for backends: it tells whether ids names d; no ids name all.
func (d *DeadLetter) Selected(ids []string) bool {
	return len(ids) == 0 || slices.Contains(ids, d.ID)
}

func cleanReason(reason string) string {
	clean := strings.Map(func(r rune) rune {
		if !allowed(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(reason, "\uFFFD"))
	if len(clean) > maxReason {
		clean = strings.ToValidUTF8(clean[:maxReason], "")
	}
	if clean == "" {
		return "no reason given"
	}
	return clean
}
