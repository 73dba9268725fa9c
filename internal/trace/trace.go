// Package trace carries the trace of a request (W3C Trace Context) through the metadata of
// messages and into log lines. It uses only the API of OpenTelemetry: package otlp makes
// the spans and sends them.
//
// Without a trace in the context or the metadata each function returns at once and allocates
// nothing. It must never start a span, nor carry baggage: a stranger's bytes would be in
// every message, and no code reads them.
package trace

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// Names in the metadata of a message, and in the headers of a request.
const (
	metaParent = "traceparent"
	metaState  = "tracestate"
)

// maxState bounds the tracestate of a message. Browsers and services send it, and the
// messages of one post may be many.
const maxState = 512

// Inject writes the trace of ctx into the metadata of a message. It adds one entry, and a second
// entry if the caller sent a tracestate.
func Inject(ctx context.Context, metadata map[string]string) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(metadata))
	if len(metadata[metaState]) > maxState {
		delete(metadata, metaState)
	}
}

// Extract returns ctx with the trace of a message, or ctx itself if the message has none.
func Extract(ctx context.Context, metadata map[string]string) context.Context {
	if metadata[metaParent] == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(metadata))
}

// ID returns the field trace_id of a log line, or none without a trace.
func ID(ctx context.Context) zap.Field {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return zap.Skip()
	}
	return zap.String("trace_id", span.TraceID().String())
}
