package queue

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fanfare/messages"
)

// traced calls the handler in a span, which is a child of the span that published the message.
// Each receive has its own span.
func (c *Consumer) traced(ctx context.Context, msg *message.Message, event messages.Event) (err error) {
	head, receive, began := event.Head(), ReceiveOf(msg), c.Now()
	ctx, span := c.Tracer.Start(ctx, "process "+string(messages.KindOf(event)), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("messaging.destination.name", c.Topic),
		attribute.String("messaging.message.id", msg.UUID),
		attribute.String("fanfare.request_id", head.RequestID),
		attribute.Int("fanfare.receives", receive.Receives),
	))
	returned := false
	defer func() {
		if _, later := errors.AsType[*Later](err); err != nil && !later {
			span.SetStatus(codes.Error, err.Error())
		}
		if !returned {
			span.SetStatus(codes.Error, "panic")
		}
		// The handler may move the time from which the age counts.
		span.SetAttributes(attribute.Int64("fanfare.age_ms", max(0, began.Sub(receive.due)).Milliseconds()))
		span.End()
	}()
	err = c.Handle(ctx, event)
	returned = true
	return err
}
