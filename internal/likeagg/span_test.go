package likeagg

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	ours "fanfare/internal/trace"
)

// inTrace returns the context of a request in the trace with number n, sampled or not.
func inTrace(n byte, sampled trace.TraceFlags) context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{n}, SpanID: trace.SpanID{n}, TraceFlags: sampled, Remote: true,
	}))
}

// likesIn returns messages of likes, each in the trace of one request.
func likesIn(requests ...context.Context) []*message.Message {
	var all []*message.Message
	for _, ctx := range requests {
		m := message.NewMessage("", nil)
		ours.Inject(ctx, m.Metadata)
		all = append(all, m)
	}
	return all
}

func recorder() (*tracetest.SpanRecorder, trace.Tracer) {
	spans := tracetest.NewSpanRecorder()
	return spans, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("")
}

// The span of a window is in the trace of its first sampled like, and links to all sampled traces, up to
// 128. A window without a sampled trace has no span.
func TestTheSpanOfAWindowLinksToTheSampledTraces(t *testing.T) {
	var many []context.Context
	for i := range maxLinks {
		many = append(many, inTrace(byte(i+1), trace.FlagsSampled))
	}
	const quiet = 255
	for name, tt := range map[string]struct {
		first, second []context.Context
		links         int
	}{
		"no trace":                {[]context.Context{context.Background()}, nil, 0},
		"not sampled":             {[]context.Context{inTrace(quiet, 0)}, nil, 0},
		"one sampled":             {[]context.Context{inTrace(1, trace.FlagsSampled)}, nil, 1},
		"one of two":              {[]context.Context{inTrace(quiet, 0), inTrace(1, trace.FlagsSampled)}, nil, 1},
		"messages of two actions": {many[:1], many[1:3], 3},
		"as many as are linked":   {many, nil, maxLinks},
		"one more than that":      {many, []context.Context{inTrace(quiet, trace.FlagsSampled)}, maxLinks},
	} {
		t.Run(name, func(t *testing.T) {
			spans, tracer := recorder()
			w := &window{cfg: &Config{Tracer: tracer}, post: "p", messages: 7, openedAt: time.Unix(7, 0), actions: []*action{
				{messages: likesIn(tt.first...)}, {messages: likesIn(tt.second...)},
			}}
			ctx := w.traced(t.Context())
			w.endSpan(Outcome{Flushed: true, Applied: 5}, nil)
			ended := spans.Ended()
			if tt.links == 0 {
				assert.Empty(t, ended)
				assert.False(t, trace.SpanContextFromContext(ctx).IsValid())
				return
			}
			require.Len(t, ended, 1)
			assert.Equal(t, ended[0].SpanContext(), trace.SpanContextFromContext(ctx))
			assert.Equal(t, trace.TraceID{1}, ended[0].SpanContext().TraceID())
			assert.Equal(t, time.Unix(7, 0), ended[0].StartTime())
			assert.Equal(t, codes.Unset, ended[0].Status().Code)
			values := map[string]any{}
			for _, a := range ended[0].Attributes() {
				values[string(a.Key)] = a.Value.AsInterface()
			}
			assert.Equal(t, map[string]any{
				"fanfare.post_id": "p", "messaging.batch.message_count": int64(7), "fanfare.flushed": true, "fanfare.likes_applied": int64(5),
			}, values)
			assert.Len(t, ended[0].Links(), tt.links)
			for i, l := range ended[0].Links() {
				assert.Equal(t, trace.TraceID{byte(i + 1)}, l.SpanContext.TraceID())
			}
		})
	}
}

func TestTheSpanOfALostWindowSaysWhy(t *testing.T) {
	spans, tracer := recorder()
	w := &window{cfg: &Config{Tracer: tracer}, actions: []*action{{messages: likesIn(inTrace(1, trace.FlagsSampled))}}}
	w.traced(t.Context())
	w.endSpan(Outcome{}, &lostError{"stopped", errors.New("why")})
	require.Len(t, spans.Ended(), 1)
	assert.Equal(t, codes.Error, spans.Ended()[0].Status().Code)
	assert.Contains(t, spans.Ended()[0].Status().Description, "why")
}

func TestWithoutATracerAWindowHasNoSpan(t *testing.T) {
	w := &window{cfg: &Config{}, actions: []*action{{messages: likesIn(inTrace(1, trace.FlagsSampled))}}}
	assert.Equal(t, t.Context(), w.traced(t.Context()))
	w.endSpan(Outcome{}, nil)
	assert.Nil(t, w.span)
}

// tracedQueue puts every message into a trace.
type tracedQueue struct{ *fakeQueue }

func (q tracedQueue) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := q.fakeQueue.Subscribe(ctx, topic)
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for m := range in {
			ours.Inject(inTrace(1, trace.FlagsSampled), m.Metadata)
			out <- m
		}
	}()
	return out, err
}

func TestEachWindowHasASpan(t *testing.T) {
	step(t, func(w *world) {
		spans, tracer := recorder()
		w.tune = func(c *Config) { c.Tracer = tracer }
		w.send("ann", true)
		w.start("", tracedQueue{w.queue}, func() uint64 { return 1 })
		w.settle()
		w.wantCount(1)
		require.Len(t, spans.Ended(), 1)
		assert.Equal(t, "count likes", spans.Ended()[0].Name())
	})
}
