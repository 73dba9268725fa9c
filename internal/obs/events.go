package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterEvents adds the metric of the log of events to reg. oldest returns the time of the oldest kept event, the zero time if
// there is none.
func RegisterEvents(reg prometheus.Registerer, oldest func() (time.Time, error)) error {
	return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanfare_events_oldest_timestamp_seconds", Help: "Time of the oldest event that GET /v1/events has, in seconds since 1970; 0 for none.",
	}, func() float64 {
		at, err := oldest()
		if err != nil || at.IsZero() { // /readyz reports a damaged or failed disk
			return 0
		}
		return float64(at.Unix())
	}))
}
