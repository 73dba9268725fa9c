package obs

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// PairState is the state of a machine of a pair.
type PairState struct {
	Primary, Paired, Connected bool
	Term                       uint64
	// LagBytes is about the number of bytes that the standby has not confirmed, or not applied.
	LagBytes int64
	// AckSeconds is the time of the last answered heartbeat, and PromiseSeconds the rest of the standby's promise.
	AckSeconds, PromiseSeconds float64
	// AloneSeconds is the time for which this process was a primary that answered alone.
	AloneSeconds float64
	// Seeded is the copied part of a seed, 0 to 1.
	Seeded float64
}

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
func NewPair(reg prometheus.Registerer, state func() PairState) (*Pair, error) {
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
func registerPair(reg prometheus.Registerer, state func() PairState) error {
	is := func(what bool) float64 {
		if what {
			return 1
		}
		return 0
	}
	errs := []error{reg.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "fanfare_pair_alone_seconds_total", Help: "Time of a primary alone, with a register.",
	}, func() float64 { return state().AloneSeconds }))}
	for _, gauge := range []struct {
		name, help string
		value      func(PairState) float64
	}{
		{"fanfare_pair_primary", "1 on the primary of a pair, 0 on its standby.", func(s PairState) float64 { return is(s.Primary) }},
		{"fanfare_pair_paired", "1 while each answered write is on both machines, else 0.", func(s PairState) float64 { return is(s.Paired) }},
		{"fanfare_pair_connected", "1 while the two machines of a pair are connected, else 0.", func(s PairState) float64 { return is(s.Connected) }},
		{"fanfare_pair_term", "Term of the primary, which grows with each change of the primary.", func(s PairState) float64 { return float64(s.Term) }},
		{"fanfare_pair_lag_bytes", "Bytes that the standby has not confirmed (primary) or not applied (standby).", func(s PairState) float64 { return float64(s.LagBytes) }},
		{"fanfare_pair_ack_seconds", "Time of the last answered heartbeat.", func(s PairState) float64 { return s.AckSeconds }},
		{"fanfare_pair_promise_seconds", "Rest of the promise with which the primary answers reads.", func(s PairState) float64 { return s.PromiseSeconds }},
		{"fanfare_pair_seed_ratio", "Part of the data that the present seed has copied.", func(s PairState) float64 { return s.Seeded }},
	} {
		errs = append(errs, reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help}, func() float64 {
			return gauge.value(state())
		})))
	}
	return errors.Join(errs...)
}
