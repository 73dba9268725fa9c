package obs

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Audit has the metrics of an auditor.
type Audit struct {
	looked   prometheus.Counter
	findings *prometheus.GaugeVec
	ended    prometheus.Gauge

	mu sync.Mutex
	// former counts the findings of the previous round, and now counts the findings of the current round.
	former, now map[string]int
}

// NewAudit registers the metrics of an auditor. kinds are the kinds of its findings. All
// series exist from the beginning.
func NewAudit(reg prometheus.Registerer, kinds []string) (*Audit, error) {
	a := &Audit{
		looked: prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_audit_checked_total", Help: "Stored items that the auditor looked at."}),
		findings: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fanfare_audit_findings", Help: "Damages that the auditor found in its last round, or in this one if those are more already.",
		}, []string{"kind"}),
		ended: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fanfare_audit_round_timestamp_seconds", Help: "End of the auditor's last whole round, in seconds since 1970; 0 before the first.",
		}),
		former: map[string]int{}, now: map[string]int{},
	}
	for _, kind := range kinds {
		a.findings.WithLabelValues(kind)
	}
	for _, c := range []prometheus.Collector{a.looked, a.findings, a.ended} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Looked counts items that the auditor has checked.
func (a *Audit) Looked(items int) { a.looked.Add(float64(items)) }

// Found counts a finding.
func (a *Audit) Found(kind string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now[kind]++
	a.findings.WithLabelValues(kind).Set(float64(max(a.now[kind], a.former[kind])))
}

// Ended notes the end of a whole round.
func (a *Audit) Ended(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for kind := range a.former {
		a.findings.WithLabelValues(kind).Set(float64(a.now[kind]))
	}
	for kind, n := range a.now {
		a.findings.WithLabelValues(kind).Set(float64(n))
	}
	a.former, a.now = a.now, map[string]int{}
	a.ended.Set(float64(now.UnixMilli()) / 1000)
}
