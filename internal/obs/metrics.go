package obs

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"fanfare/internal/disk"
	"fanfare/internal/queue"
	"fanfare/internal/table"
)

// Flow is the part of the product that made a table call.
type Flow string

// The flows.
const (
	FlowAPI    Flow = "api"
	FlowFanout Flow = "fanout"
	FlowLikes  Flow = "likes"
)

// Metrics are the metrics of a process. The values of a label are few and come from the
// code. A user, a post or a request is never one.
type Metrics struct {
	posts       prometheus.Counter
	deliveries  prometheus.Counter
	likes       prometheus.Counter
	likeWrites  prometheus.Counter
	visible     prometheus.Histogram
	units       *prometheus.CounterVec
	calls       *prometheus.CounterVec
	requests    *prometheus.CounterVec
	requestTime *prometheus.HistogramVec
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		posts:      prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_posts_total", Help: "Posts accepted."}),
		deliveries: prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_deliveries_total", Help: "Timeline entries written for followers, redeliveries included."}),
		likes:      prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_likes_total", Help: "Likes and unlikes accepted."}),
		likeWrites: prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_like_flushes_total", Help: "Writes of like counts."}),
		visible: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fanfare_post_visible_seconds", Help: "Time from a post to its entry in a follower's home.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}),
		units: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_table_capacity_units_total", Help: "Capacity units consumed, by flow, kind of call, and read or write.",
		}, []string{"flow", "op", "kind"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_table_calls_total", Help: "Calls to the table, a query counted once a page.",
		}, []string{"flow", "op", "result"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_http_requests_total", Help: "Requests answered.",
		}, []string{"route", "method", "status"}),
		requestTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fanfare_http_request_seconds", Help: "Time to answer a request.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "method"}),
	}
	for _, c := range []prometheus.Collector{
		m.posts, m.deliveries, m.likes, m.likeWrites, m.visible, m.units, m.calls, m.requests, m.requestTime,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Post counts an accepted post.
func (m *Metrics) Post() { m.posts.Inc() }

// Like counts an accepted like or unlike.
func (m *Metrics) Like() { m.likes.Inc() }

// Flush counts a write of a like count.
func (m *Metrics) Flush() { m.likeWrites.Inc() }

// Delivered counts entries written for followers, and their time since the post.
func (m *Metrics) Delivered(entries int, sincePost time.Duration) {
	m.deliveries.Add(float64(entries))
	m.visible.Observe(sincePost.Seconds())
}

// Request counts an answered request. route is the pattern that the request matched.
func (m *Metrics) Request(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.requestTime.WithLabelValues(route, method).Observe(took.Seconds())
}

// Table returns an observer for table.Measure.
func (m *Metrics) Table(flow Flow) func(table.Op, table.Units, error) {
	return func(op table.Op, units table.Units, err error) {
		if units.Read > 0 {
			m.units.WithLabelValues(string(flow), string(op), "read").Add(units.Read)
		}
		if units.Write > 0 {
			m.units.WithLabelValues(string(flow), string(op), "write").Add(units.Write)
		}
		m.calls.WithLabelValues(string(flow), string(op), result(err)).Inc()
	}
}

func result(err error) string {
	_, condition := errors.AsType[*table.ConditionError](err)
	_, cancelled := errors.AsType[*table.CancelledError](err)
	switch {
	case err == nil:
		return "ok"
	case condition, cancelled:
		return "condition"
	default:
		return "error"
	}
}

// RegisterStalls adds the counts of an embedded store's write stalls to reg.
func RegisterStalls(reg prometheus.Registerer, store string, stalls func() disk.Stalls) error {
	for waitsFor, count := range map[string]func() int64{
		"flush":      func() int64 { return stalls().Flush },
		"compaction": func() int64 { return stalls().Compaction },
	} {
		if err := reg.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fanfare_write_stalls_total", Help: "Times that an embedded store held up writes to wait for a flush or a compaction.",
			ConstLabels: prometheus.Labels{"store": store, "waits_for": waitsFor},
		}, func() float64 { return float64(count()) })); err != nil {
			return err
		}
	}
	return nil
}

// depthTimeout bounds the time that a scrape waits for the queues.
const depthTimeout = 3 * time.Second

// depths reads the queues at each scrape, so its numbers are never stale. It leaves out a
// topic that does not answer.
type depths struct {
	depth func(context.Context, string) (queue.Depth, error)
	desc  *prometheus.Desc
}

// RegisterDepth adds the depth of the queues to reg.
func RegisterDepth(reg prometheus.Registerer, depth func(ctx context.Context, topic string) (queue.Depth, error)) error {
	return reg.Register(&depths{depth, prometheus.NewDesc("fanfare_queue_depth",
		"Messages of a topic: ready, delayed, in_flight, or dead letters.", []string{"topic", "state"}, nil)})
}

// Describe implements prometheus.Collector.
func (d *depths) Describe(ch chan<- *prometheus.Desc) { ch <- d.desc }

// Collect implements prometheus.Collector.
func (d *depths) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), depthTimeout)
	defer cancel()
	for _, topic := range queue.Topics() {
		depth, err := d.depth(ctx, topic)
		if err != nil {
			continue // a wrong number would be worse than none, and /readyz names the failure
		}
		for _, state := range []struct {
			name string
			n    int64
		}{{"ready", depth.Ready}, {"delayed", depth.Delayed}, {"in_flight", depth.InFlight}, {"dead", depth.Dead}} {
			ch <- prometheus.MustNewConstMetric(d.desc, prometheus.GaugeValue, float64(state.n), topic, state.name)
		}
	}
}
