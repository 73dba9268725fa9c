package replay

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// depths answers each scrape with the depth of the queue of posts. All other queues are empty.
type depths func() int

func (d depths) RoundTrip(*http.Request) (*http.Response, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "# TYPE %[1]s gauge\n%[1]s{topic=\"posts\",state=\"ready\"} %[2]d\n", depthMetric, d())
	for _, topic := range []string{"chunks", "likes", "backfills"} {
		fmt.Fprintf(&text, "%s{topic=%q,state=\"ready\"} 0\n", depthMetric, topic)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text.String()))}, nil
}

// Other users also use the service, so the queues are never quiet. The wait for quiet queues still ends.
func TestTheWaitForQuietQueuesEndsUnderTraffic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		o := &observer{
			Service: Service{Admin: []string{"up"}}, progress: newProgress(nil),
			metrics: &metrics{addrs: []string{"up"}, http: &http.Client{Transport: depths(func() int { reads++; return reads % 2 })}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		o.awaitQuiet(ctx)
		assert.LessOrEqual(t, time.Since(began), 2*stalled)
	})
}
