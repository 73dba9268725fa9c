package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"

	"fanfare/internal/queue"
	"fanfare/messages"
)

// The age of a message counts from the time of its event, or from the due time that its handler
// sets. Waits after a failure and waits for other work are part of the age.
func TestTheAgeOfAMessageCountsFromWhenItWasDue(t *testing.T) {
	t.Parallel()
	const wait = 6 * time.Minute
	due := func(ctx context.Context, e messages.Event, after time.Duration) error {
		at := e.Head().Time.Add(after)
		queue.Due(ctx, at)
		if left := time.Until(at); left > 0 {
			return &queue.Later{After: left, Reason: "it is not due yet"}
		}
		return nil
	}
	tries := 0
	for name, c := range map[string]struct {
		handle queue.Handler
		age    time.Duration
	}{
		"done at once":               {func(context.Context, messages.Event) error { return nil }, 0},
		"a wait by design":           {func(ctx context.Context, e messages.Event) error { return due(ctx, e, wait) }, 0},
		"an earlier time is no wait": {func(ctx context.Context, e messages.Event) error { return due(ctx, e, -time.Hour) }, 0},
		"left for other work": {func(context.Context, messages.Event) error {
			if tries++; tries <= 2 {
				return &queue.Later{After: 30 * time.Second, Reason: "other walks are under way"}
			}
			return nil
		}, time.Minute},
		"a failure in a wait by design": {func(ctx context.Context, e messages.Event) error {
			if err := due(ctx, e, wait); err != nil {
				return err
			}
			if tries++; tries == 1 {
				return errors.New("the table is away")
			}
			return nil
		}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			tries = 0
			synctest.Test(t, func(t *testing.T) {
				b, spans := newBroker(), tracetest.NewInMemoryExporter()
				var done []queue.Answered
				consumer := &queue.Consumer{
					Topic: queue.TopicBackfills, Broker: b, Handle: c.handle, Now: time.Now, Log: zap.NewNop(),
					Observe: func(a queue.Answered) {
						if a.Result == queue.ResultDone {
							a.Took = time.Since(a.Due)
							done = append(done, a)
						}
					},
					Tracer: trace.NewTracerProvider(trace.WithSyncer(spans)).Tracer("test"),
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- consumer.Run(ctx) }()
				b.deliver(event(t), 1)
				pass(time.Hour)
				stop()
				require.NoError(t, <-ended)
				b.ending.Wait()
				require.Len(t, done, 1)
				assert.Equal(t, c.age, done[0].Took.Truncate(time.Millisecond))
				span := spans.GetSpans()[len(spans.GetSpans())-1]
				assert.Contains(t, span.Attributes, attribute.Int64("fanfare.age_ms", c.age.Milliseconds()), "of the last receive")
				for _, span := range spans.GetSpans() {
					for _, a := range span.Attributes {
						assert.Falsef(t, a.Key == "fanfare.age_ms" && a.Value.AsInt64() < 0, "%v", a)
					}
				}
			})
		})
	}
}
