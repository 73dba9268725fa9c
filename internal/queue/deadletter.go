package queue

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/rfc3339"
	"fanfare/messages"
)

// MaxReason bounds the reason of a dead letter, in bytes.
const MaxReason = 1000

// maxNote bounds the part of a reason that Note adds, in bytes.
const maxNote = 400

// NewDeadLetter is for backends. It returns the letter that DeadLetter stores for msg. The
// reason is cut to 1,000 bytes, and has only text that SQS accepts.
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

// Message is for backends. It returns d as a message for a dead-letter queue: the fields of the
// letter are metadata entries of the message.
func (d *DeadLetter) Message() *message.Message {
	msg := message.NewMessage(d.ID, d.Payload)
	maps.Copy(msg.Metadata, d.Metadata)
	msg.Metadata[MetaReason] = d.Reason
	msg.Metadata[MetaSource] = d.Topic
	msg.Metadata[MetaFailedAt] = d.FailedAt.Format(time.RFC3339Nano)
	msg.Metadata[MetaReceives] = strconv.Itoa(d.Receives)
	return msg
}

// Original is for backends. It returns the message that Redrive publishes again.
func (d *DeadLetter) Original() *message.Message {
	msg := message.NewMessage(d.ID, d.Payload)
	maps.Copy(msg.Metadata, d.Metadata)
	return msg
}

// ParseDeadLetter is for backends. It is the reverse of DeadLetter.Message. If a message has no
// reason, the transport itself put the message into the dead-letter queue, after too many
// receives.
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
		d.Reason = messages.ReasonReceived.Because("without an answer")
	}
	take(MetaSource) // the caller knows the topic
	// If another tool wrote the time or the number in another form, the field stays zero: the
	// field is only for people, and no code uses the field.
	if at, err := rfc3339.Parse(take(MetaFailedAt)); err == nil {
		d.FailedAt = at
	}
	if n, err := strconv.Atoi(take(MetaReceives)); err == nil {
		d.Receives = n
	}
	return d
}

// Selected is for backends. It reports whether ids contains the ID of d, or is empty.
func (d *DeadLetter) Selected(ids []string) bool {
	return len(ids) == 0 || slices.Contains(ids, d.ID)
}

// Note is for backends. It adds a note to the reason of d. To make room, it cuts the former reason.
func (d *DeadLetter) Note(note string) {
	note = cut("; "+note, maxNote)
	d.Reason = cut(d.Reason, MaxReason-len(note)) + note
}

// Refusal is for backends. It returns the reason why Redrive leaves d in the dead-letter queue,
// nil for none: no backend accepts such a message, or the caller refuses the letter. refuse may
// be nil.
func (d *DeadLetter) Refusal(refuse func(DeadLetter) error) error {
	if err := Check(d.Original()); err != nil {
		return err
	}
	if refuse == nil {
		return nil
	}
	return refuse(*d)
}

// Has reports whether d became a dead letter for a reason.
func (d *DeadLetter) Has(r messages.Reason) bool { return strings.Contains(d.Reason, string(r)) }

// cut returns the longest prefix of s that fits in n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

func cleanReason(reason string) string {
	clean := strings.Map(func(r rune) rune {
		if !allowed(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(reason, "\uFFFD"))
	clean = cut(clean, MaxReason)
	if clean == "" {
		return "no reason given"
	}
	return clean
}
