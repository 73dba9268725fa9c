package access

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/fault"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// Message fills the header of an event and encodes the event. The event's id is above floor.
func (a *Access) Message(ctx context.Context, e messages.Event, floor string) (*message.Message, error) {
	e.Head().RequestID = a.RequestID(ctx)
	eventID, err := a.IDs.After(floor)
	if err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	return a.messageAs(ctx, e, eventID)
}

// messageAs encodes an event with the id eventID. The event's header already has the request's id.
func (a *Access) messageAs(ctx context.Context, e messages.Event, eventID string) (*message.Message, error) {
	head := e.Head()
	head.EventID, head.Time = eventID, a.Now().UTC()
	msg, err := queue.Message(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	return msg, nil
}

// Publish puts an event on a topic. When Publish returns nil, the event is durable (I5).
func (a *Access) Publish(ctx context.Context, topic string, e messages.Event) error {
	return a.PublishAbove(ctx, topic, e, "")
}

// PublishAbove publishes an event whose id must be above floor.
func (a *Access) PublishAbove(ctx context.Context, topic string, e messages.Event, floor string) error {
	msg, err := a.Message(ctx, e, floor)
	if err != nil {
		return err
	}
	return fault.Wrap("queue", a.Publisher.Publish(topic, msg))
}

// PublishAs publishes an event with the given id.
func (a *Access) PublishAs(ctx context.Context, topic string, e messages.Event, eventID string) error {
	e.Head().RequestID = a.RequestID(ctx)
	msg, err := a.messageAs(ctx, e, eventID)
	if err != nil {
		return err
	}
	return fault.Wrap("queue", a.Publisher.Publish(topic, msg))
}

// PublishPost publishes PostCreated for a post, so that workers deliver the post.
func (a *Access) PublishPost(ctx context.Context, p schema.Post) error {
	return a.Publish(ctx, queue.TopicPosts, &messages.PostCreated{PostID: p.ID, AuthorID: p.Author, Content: p.Content, Reference: p.Reference, LikeShards: p.LikeShards})
}
