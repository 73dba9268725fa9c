package obs

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/internal/queue"
)

// depthTimeout is the maximum time that a scrape waits for the queues.
const depthTimeout = 3 * time.Second

// depths reads the queues at each scrape, so the numbers are never stale. If the queue of a topic does
// not answer, the topic is not up and has no depth, because a wrong number would be worse than no number.
type depths struct {
	depth    func(context.Context, string) (queue.Depth, error)
	desc, up *prometheus.Desc
}

// RegisterDepth adds the metric of the queues' depth to reg.
func RegisterDepth(reg prometheus.Registerer, depth func(ctx context.Context, topic string) (queue.Depth, error)) error {
	return reg.Register(&depths{depth,
		prometheus.NewDesc("fanfare_queue_depth", "Messages of a topic: ready, delayed, in_flight, or dead letters. Each process shows the same queue: take the max, not the sum.", []string{"topic", "state"}, nil),
		prometheus.NewDesc("fanfare_queue_up", "1 if the queue of a topic and its dead-letter queue answered this scrape, else 0.", []string{"topic"}, nil)})
}

// Describe implements prometheus.Collector.
func (d *depths) Describe(ch chan<- *prometheus.Desc) { ch <- d.desc; ch <- d.up }

// Collect implements prometheus.Collector. It reads all topics at the same time, so that a queue without an
// answer does not delay the other queues.
func (d *depths) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), depthTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for _, topic := range queue.Topics() {
		asked.Go(func() { d.collect(ctx, topic, ch) })
	}
	asked.Wait()
}

func (d *depths) collect(ctx context.Context, topic string, ch chan<- prometheus.Metric) {
	depth, err := d.depth(ctx, topic)
	up := 1.0
	if err != nil { // /readyz reports the failure
		up = 0
	}
	ch <- prometheus.MustNewConstMetric(d.up, prometheus.GaugeValue, up, topic)
	if err != nil {
		return
	}
	for _, state := range []struct {
		name string
		n    int64
	}{{"ready", depth.Ready}, {"delayed", depth.Delayed}, {"in_flight", depth.InFlight}, {"dead", depth.Dead}} {
		ch <- prometheus.MustNewConstMetric(d.desc, prometheus.GaugeValue, float64(state.n), topic, state.name)
	}
}
