package queue

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/id"
	"fanfare/internal/invariants"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// Message returns an encoded event for Publish, with the event's group key and the trace of
// ctx. ctx bounds the publish. The event must not change afterwards, because a consumer in the
// same process may get the event itself.
func Message(ctx context.Context, e messages.Event) (*message.Message, error) {
	payload, err := messages.Encode(e)
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, encodedKey{}, encoded{Original{e}, payload})
	msg := message.NewMessageWithContext(ctx, e.Head().EventID, payload)
	msg.Metadata.Set(MetaGroup, messages.GroupOf(e))
	trace.Inject(ctx, msg.Metadata)
	return msg, nil
}

type encodedKey struct{}

// encoded is an event with its payload.
type encoded struct {
	original Original
	payload  []byte
}

// Original is an event as it was published. Backends keep the event beside its message, and
// cannot read the event. The zero value has no event.
type Original struct{ event messages.Event }

// Known reports whether o has an event.
func (o Original) Known() bool { return o.event != nil }

// OriginalOf is for backends in the process of the publisher. It returns the event that Message
// encoded into msg. If the payload was replaced, the result has no event.
func OriginalOf(msg *message.Message) Original {
	e, ok := msg.Context().Value(encodedKey{}).(encoded)
	if !ok || len(msg.Payload) != len(e.payload) || &msg.Payload[0] != &e.payload[0] {
		return Original{}
	}
	return e.original
}

// Event returns the event of a received message: the original if the backend kept it, and otherwise
// the decoded payload. It sets the group of the receive to the event's group. It sets the due time
// to the time of the event's id. It returns the errors of messages.Decode.
func Event(msg *message.Message) (messages.Event, error) {
	receive := ReceiveOf(msg)
	e := receive.Original.event
	if e == nil {
		decoded, err := messages.Decode(msg.Payload)
		if err != nil {
			return nil, err
		}
		e = decoded
	}
	checkOriginal(msg)
	receive.group = messages.GroupOf(e)
	if at, err := id.Time(e.Head().EventID); err == nil {
		receive.Due(at)
	}
	return e, nil
}

// checkOriginal asserts that nobody changed the original of a received message.
func checkOriginal(msg *message.Message) {
	e := ReceiveOf(msg).Original.event
	if !invariants.Enabled || e == nil {
		return
	}
	again, err := messages.Encode(e)
	invariants.Check(err == nil && string(again) == string(msg.Payload), "I5: the event %s changed after it was published", e.Head().EventID)
}
