package fanout

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"fanfare/internal/schema"
)

// describe adds a delivered chunk to the span of ctx, if the span is recorded.
func describe(ctx context.Context, c schema.Chunk) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("fanfare.post_id", c.Post), attribute.String("fanfare.first", c.First), attribute.String("fanfare.end", c.End),
		attribute.Int64("fanfare.delivered", c.Delivered), attribute.Int64("fanfare.skipped", c.Skipped))
}
