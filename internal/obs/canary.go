package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Canary has the metrics of a canary.
type Canary struct {
	took   *prometheus.HistogramVec
	failed *prometheus.CounterVec
}

// CanaryPasses is the text of the log line that alarms outside of Prometheus count.
const CanaryPasses = "the canary passes"

// NewCanary registers the metrics of a canary with the given steps. All series exist from
// the beginning, so that an alert sees the first failure.
func NewCanary(reg prometheus.Registerer, steps []string) (*Canary, error) {
	c := &Canary{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fanfare_canary_seconds", Help: "Time of each step of the canary that succeeded: visible is from post to home, counted from like to count.",
			Buckets: waits(),
		}, []string{"step"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_canary_failures_total", Help: "Steps of the canary that failed, or took more than 30 s.",
		}, []string{"step"}),
	}
	for _, step := range steps {
		c.took.WithLabelValues(step)
		c.failed.WithLabelValues(step)
	}
	if err := reg.Register(c.took); err != nil {
		return nil, err
	}
	return c, reg.Register(c.failed)
}

// Passed notes a step that succeeded.
func (c *Canary) Passed(step string, took time.Duration) {
	c.took.WithLabelValues(step).Observe(took.Seconds())
}

// Failed counts a step that failed.
func (c *Canary) Failed(step string) { c.failed.WithLabelValues(step).Inc() }
