package httpapi

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"

	"fanfare/internal/obs"
)

// traced begins the span of a request, in the trace of the caller's traceparent. It returns a nil span if
// traces are off, and for probes, because probes are frequent and their spans are useless.
func (a *API) traced(ctx context.Context, r *http.Request) (context.Context, oteltrace.Span) {
	if a.tracer == nil {
		return ctx, nil
	}
	switch r.URL.Path {
	case "/healthz", "/servez", "/readyz":
		return ctx, nil
	}
	joinLines(r.Header, "Tracestate")
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	return a.tracer.Start(ctx, knownMethod(r.Method), oteltrace.WithSpanKind(oteltrace.SpanKindServer), //nolint:spancheck // endSpan ends it
		oteltrace.WithAttributes(attribute.String("fanfare.request_id", obs.RequestID(ctx))))
}

// endSpan ends the span of a request. The span's name is the route, so that strangers cannot create new
// names.
func endSpan(span oteltrace.Span, method, route string, status int) {
	if span == nil {
		return
	}
	span.SetName(method + " " + route)
	span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route),
		attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
	span.End()
}
