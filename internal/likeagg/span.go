package likeagg

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	ours "fanfare/internal/trace"
)

// maxLinks bounds the links of a span, as the SDK does.
const maxLinks = 128

// traced begins the span of a window. The span links to the traces of the window's likes, and
// belongs to the trace of the first sampled like, so that the span exists if a like is sampled.
// A window without a sampled like has no span.
func (w *window) traced(ctx context.Context) context.Context {
	if w.cfg.Tracer == nil {
		return ctx
	}
	var links []trace.Link
	for _, a := range w.actions {
		for _, msg := range a.messages {
			if len(links) == maxLinks {
				break
			}
			if like := trace.SpanContextFromContext(ours.Extract(context.Background(), msg.Metadata)); like.IsSampled() {
				links = append(links, trace.Link{SpanContext: like})
			}
		}
	}
	if len(links) == 0 {
		return ctx
	}
	ctx, span := w.cfg.Tracer.Start(trace.ContextWithRemoteSpanContext(ctx, links[0].SpanContext), "count likes", //nolint:spancheck // endSpan ends it
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(w.openedAt), trace.WithLinks(links...),
		trace.WithAttributes(attribute.String("fanfare.post_id", w.post), attribute.Int("messaging.batch.message_count", w.messages)))
	w.span = span
	return ctx //nolint:spancheck // endSpan ends it
}

// endSpan ends the span of a window, if it has one.
func (w *window) endSpan(out Outcome, lost *lostError) {
	if w.span == nil {
		return
	}
	w.span.SetAttributes(attribute.Bool("fanfare.flushed", out.Flushed), attribute.Int("fanfare.likes_applied", out.Applied))
	if lost != nil {
		w.span.SetStatus(codes.Error, lost.Error())
	}
	w.span.End()
}
