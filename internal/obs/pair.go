package obs

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/internal/pair"
)

// The reasons for which a primary refuses requests and sessions.
const (
	// RefusedUnpromised is a request that a primary must not answer at the moment.
	RefusedUnpromised = "unpromised"
	// RefusedSession is a connection at the address for the standby that is not from the standby, or has ended early.
	RefusedSession = "session"
)

// Pair has the metrics of a pair that count events.
type Pair struct{ refused *prometheus.CounterVec }

// NewPair adds the metrics of a pair to reg.
func NewPair(reg prometheus.Registerer, state func() pair.Status) (*Pair, error) {
	p := &Pair{refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_pair_refused_total", Help: "Refused: unpromised (requests without a promise), session (connections of a standby).",
	}, []string{"reason"})}
	for _, reason := range []string{RefusedUnpromised, RefusedSession} {
		p.refused.WithLabelValues(reason)
	}
	return p, errors.Join(reg.Register(p.refused), registerPair(reg, state))
}

// Refused counts a refusal.
func (p *Pair) Refused(reason string) { p.refused.WithLabelValues(reason).Inc() }

// registerPair adds the metrics of the state of a pair to reg.
func registerPair(reg prometheus.Registerer, state func() pair.Status) error {
	is := func(what bool) float64 {
		if what {
			return 1
		}
		return 0
	}
	errs := []error{reg.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "fanfare_pair_alone_seconds_total", Help: "Time of a primary alone.",
	}, func() float64 { return state().AloneTotal.Seconds() }))}
	for _, gauge := range []struct {
		name, help string
		value      func(pair.Status) float64
	}{
		{"fanfare_pair_primary", "1 on the primary of a pair, 0 on its standby.", func(s pair.Status) float64 { return is(s.Role == pair.RolePrimary) }},
		{"fanfare_pair_paired", "1 while each answered write is on both machines, else 0.", func(s pair.Status) float64 { return is(s.Mode == pair.ModePaired) }},
		{"fanfare_pair_connected", "1 while the two machines of a pair are connected, else 0.", func(s pair.Status) float64 { return is(s.Connected) }},
		{"fanfare_pair_term", "Term of the primary, which grows with each change of the primary.", func(s pair.Status) float64 { return float64(s.Term) }},
		{"fanfare_pair_lag_bytes", "Bytes that the standby has not confirmed (primary) or not applied (standby).", func(s pair.Status) float64 { return float64(s.Lag) }},
		{"fanfare_pair_ack_seconds", "Time of the last answered heartbeat.", func(s pair.Status) float64 { return s.Ack.Seconds() }},
		{"fanfare_pair_promise_seconds", "Rest of the promise with which the primary answers reads.", func(s pair.Status) float64 { return s.Promise.Seconds() }},
		{"fanfare_pair_seed_ratio", "Part of the data that the present seed has copied.", seeded},
	} {
		errs = append(errs, reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help}, func() float64 {
			return gauge.value(state())
		})))
	}
	return errors.Join(errs...)
}

// seeded returns the copied part of a seed, 0 to 1.
func seeded(s pair.Status) float64 {
	if s.SeedSize == 0 {
		return 0
	}
	return float64(s.Seeded) / float64(s.SeedSize)
}
