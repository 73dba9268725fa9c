package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
	"fanfare/internal/pair"
)

// run runs a History for a time, and returns its values.
func run(t *testing.T, h *admin.History, d time.Duration) admin.Hour {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	require.NoError(t, h.Run(ctx))
	return h.Hour()
}

func TestAHistoryKeepsTheMetricsOfTheCharts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		posts := prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_posts_total", Help: "A metric of the test."})
		requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fanfare_http_requests_total", Help: "A metric of the test."}, []string{"route"})
		age := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "fanfare_message_age_seconds", Help: "A metric of the test.", Buckets: []float64{.5}}, []string{"topic"})
		depth := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "fanfare_queue_depth", Help: "A metric of the test."}, []string{"topic", "state"})
		other := prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_notices_total", Help: "A metric of the test."})
		reg.MustRegister(posts, requests, age, depth, other)
		posts.Add(2)
		requests.WithLabelValues("/v1/home").Add(3)
		requests.WithLabelValues("/v1/posts").Add(4)
		h := admin.NewHistory(reg, []string{"fanfare_posts_total", "fanfare_http_requests_total", "fanfare_message_age_seconds", "fanfare_queue_depth"})
		go func() {
			<-time.After(15 * time.Second) // virtual time
			age.WithLabelValues("posts").Observe(1)
			depth.WithLabelValues("posts", "ready").Set(7)
			<-time.After(10 * time.Second)
			depth.Reset() // the queue does not answer
		}()
		hour := run(t, h, 31*time.Second)
		assert.Equal(t, []string{
			"fanfare_http_requests_total", "fanfare_posts_total", `fanfare_message_age_seconds_bucket{topic="posts",le="0.5"}`,
			`fanfare_message_age_seconds_bucket{topic="posts",le="+Inf"}`, `fanfare_queue_depth{state="ready",topic="posts"}`,
		}, hour.Series)
		var looks []string
		for i, look := range hour.Looks {
			assert.Equal(t, hour.Looks[0].At+int64(i)*10_000, look.At)
			text, err := json.Marshal(look.Values)
			require.NoError(t, err)
			looks = append(looks, string(text))
		}
		assert.Equal(t, []string{"[7,2]", "[7,2]", "[7,2,0,1,7]", "[7,2,0,1,null]"}, looks)
	})
}

// The memory of a History is bounded in looks and in series.
func TestAHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		depth := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "fanfare_queue_depth", Help: "A metric of the test."}, []string{"topic"})
		reg.MustRegister(depth)
		for i := range 1000 {
			depth.WithLabelValues(fmt.Sprint("topic-", i)).Set(1)
		}
		began := time.Now()
		hour := run(t, admin.NewHistory(reg, []string{"fanfare_queue_depth"}), 2*time.Hour+time.Second)
		assert.Len(t, hour.Series, 256)
		require.Len(t, hour.Looks, 360)
		for _, look := range hour.Looks {
			assert.Len(t, look.Values, 256)
		}
		assert.Equal(t, began.Add(2*time.Hour).UnixMilli(), hour.Looks[359].At)
		assert.Equal(t, began.Add(time.Hour+10*time.Second).UnixMilli(), hour.Looks[0].At)
	})
}

// machine is a machine of a pair.
type machine struct{}

func (machine) PairStatus() pair.Status { return pair.Status{Role: pair.RoleStandby} }

func (machine) Move(context.Context, admin.Move) error { return nil }

func (machine) Promote(context.Context, admin.Promotion) error { return nil }

// A browser gets the page of a standby. Programs and probes get JSON.
func TestAStandbyAnswersABrowserWithAPage(t *testing.T) {
	t.Parallel()
	site := pages{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("page")) // the body is in memory, and the test compares it
	})}
	c := admin.Config{Metrics: prometheus.NewRegistry(), Domain: admin.Domain{Pair: machine{}}, Console: site}
	for name, row := range map[string]struct {
		method, path, accept string
		page                 bool
	}{
		"a browser":               {"GET", "/", "text/html,application/xhtml+xml,*/*;q=0.8", true},
		"a browser, another path": {"GET", "/users/ann", "text/html", true},
		"a file of the page":      {"GET", "/console/base.css", "text/css,*/*;q=0.1", true},
		"a program":               {"GET", "/", "*/*", false},
		"a program without it":    {"GET", "/", "", false},
		"a write by a browser":    {"POST", "/", "text/html", false},
		"a probe":                 {"GET", "/readyz", "text/html", false},
		"a balancer":              {"GET", "/servez", "text/html", false},
		"the pair, in a browser":  {"GET", "/admin/pair", "text/html", false},
		"metrics, in a browser":   {"GET", "/metrics", "text/html", false},
	} {
		for _, console := range []admin.Pages{site, nil} {
			c.Console = console
			r := httptest.NewRequestWithContext(t.Context(), row.method, "http://127.0.0.1"+row.path, http.NoBody)
			r.Header.Set("Accept", row.accept)
			w := httptest.NewRecorder()
			admin.NewStandbyHandler(c, "peer:1").ServeHTTP(w, r)
			assert.Equal(t, row.page && console != nil, w.Body.String() == "page", name)
		}
	}
}
