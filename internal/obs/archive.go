package obs

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Archive has the metrics of the archive.
type Archive struct {
	reg  prometheus.Registerer
	took prometheus.Histogram
	puts *prometheus.CounterVec
}

// NewArchive adds the metrics of writes to the archive to reg.
func NewArchive(reg prometheus.Registerer) (*Archive, error) {
	a := &Archive{
		reg: reg,
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fanfare_archive_put_seconds", Help: "Time of a write of a segment.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
		puts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_archive_puts_total", Help: "Writes of segments: stored, away, refused or fenced.",
		}, []string{"result"}),
	}
	for _, result := range []string{"stored", "away", "refused", "fenced"} {
		a.puts.WithLabelValues(result)
	}
	return a, errors.Join(reg.Register(a.took), reg.Register(a.puts))
}

// Put records a write of a segment.
func (a *Archive) Put(result string, took time.Duration) {
	a.took.Observe(took.Seconds())
	a.puts.WithLabelValues(result).Inc()
}

// ArchiveState is the state of the archive of a process.
type ArchiveState interface {
	// Lag is the age of the oldest write that the archive lacks. Behind is the number of bytes that it lacks.
	Lag() time.Duration
	Behind() int64
	// Spooled is the number of bytes in the spool.
	Spooled() int64
	// BaseAge is the age of the newest base. Gaps is the number of gaps.
	BaseAge() time.Duration
	Gaps() int64
	// Fenced reports whether another process writes to the archive.
	Fenced() bool
}

// Watch adds the metrics of the archive's state.
func (a *Archive) Watch(state ArchiveState) error {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		gauge("fanfare_archive_lag_seconds", "Age of the oldest write that the archive lacks.", func() float64 { return state.Lag().Seconds() }),
		gauge("fanfare_archive_lag_bytes", "Bytes that the archive lacks.", func() float64 { return float64(state.Behind()) }),
		gauge("fanfare_archive_base_age_seconds", "Age of the newest base; without one, the time since the start.", func() float64 { return state.BaseAge().Seconds() }),
		gauge("fanfare_archive_fenced", "1 if another process took the archive, else 0.", func() float64 {
			if state.Fenced() {
				return 1
			}
			return 0
		}),
		gauge("fanfare_stream_spool_bytes", "Size of the spool on the disk.", func() float64 { return float64(state.Spooled()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fanfare_archive_gaps_total", Help: "Gaps in the archive, because the spool was full.",
		}, func() float64 { return float64(state.Gaps()) }),
	} {
		errs = append(errs, a.reg.Register(c))
	}
	return errors.Join(errs...)
}
