package trace_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"fanfare/internal/trace"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00-" + traceID + "-00f067aa0ba902b7-01"
)

// within returns the context of a request with the given headers.
func within(headers map[string]string) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(headers))
}

func TestAMessageCarriesTheTraceOfItsRequest(t *testing.T) {
	for name, test := range map[string]struct{ headers, want map[string]string }{
		"a trace":             {map[string]string{"traceparent": parent}, map[string]string{"group": "g", "traceparent": parent}},
		"of a vendor":         {map[string]string{"traceparent": parent, "tracestate": "a=b"}, map[string]string{"group": "g", "traceparent": parent, "tracestate": "a=b"}},
		"a long tracestate":   {map[string]string{"traceparent": parent, "tracestate": "a=" + strings.Repeat("b", 255) + ",c=" + strings.Repeat("d", 255)}, map[string]string{"group": "g", "traceparent": parent}},
		"baggage":             {map[string]string{"traceparent": parent, "baggage": "a=b"}, map[string]string{"group": "g", "traceparent": parent}},
		"no trace":            {map[string]string{}, map[string]string{"group": "g"}},
		"a wrong traceparent": {map[string]string{"traceparent": "00-x"}, map[string]string{"group": "g"}},
	} {
		metadata := map[string]string{"group": "g"}
		trace.Inject(within(test.headers), metadata)
		assert.Equal(t, test.want, metadata, name)
		got := oteltrace.SpanContextFromContext(trace.Extract(t.Context(), metadata))
		assert.Equal(t, metadata["traceparent"] != "", got.IsValid(), name)
		assert.Equal(t, metadata["tracestate"], got.TraceState().String(), name)
	}
}

func TestALogLineHasTheIDOfItsTrace(t *testing.T) {
	assert.Equal(t, zap.String("trace_id", traceID), trace.ID(within(map[string]string{"traceparent": parent})))
	assert.Equal(t, zap.Skip(), trace.ID(t.Context()))
}

// off does the work of tracing for a message and a log line without a trace.
func off(ctx context.Context, metadata map[string]string) zap.Field {
	trace.Inject(ctx, metadata)
	return trace.ID(trace.Extract(ctx, metadata))
}

func TestWithoutATraceNothingIsAllocated(t *testing.T) {
	metadata := map[string]string{"group": "g"}
	require.Zero(t, testing.AllocsPerRun(100, func() { off(t.Context(), metadata) }))
}

func BenchmarkWithoutATrace(b *testing.B) {
	metadata := map[string]string{"group": "g"}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		off(ctx, metadata)
	}
}
