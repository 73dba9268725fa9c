package queue

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/trace"
	"fanfare/messages"
)

// Message returns an encoded event for Publish, with its group key and the trace of ctx. ctx
// bounds the publish.
func Message(ctx context.Context, e messages.Event) (*message.Message, error) {
	payload, err := messages.Encode(e)
	if err != nil {
		return nil, err
	}
	msg := message.NewMessageWithContext(ctx, e.Head().EventID, payload)
	msg.Metadata.Set(MetaGroup, e.Group())
	trace.Inject(ctx, msg.Metadata)
	return msg, nil
}
