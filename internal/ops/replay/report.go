package replay

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Report is the result of a replay. The JSON form of the report must stay compatible.
type Report struct {
	Users int `json:"users"`
	Edges int `json:"edges"`
	Posts int `json:"posts"`
	Likes int `json:"likes"`
	// Reactions is the number of reactions by kind. It is nil if all reactions are of the kind like.
	Reactions map[string]int `json:"reactions,omitempty"`
	// Away is the number of away readers, and Pulled is the number of pulled posts, which homes merge in.
	Away   int `json:"away"`
	Pulled int `json:"pulled"`
	// ExpectedDeliveries is the number of posts that all homes together must show, with the
	// authors' own homes.
	ExpectedDeliveries int `json:"expected_deliveries"`
	Delivered          int `json:"delivered"`
	Missing            int `json:"missing"`
	Unexpected         int `json:"unexpected"`
	Duplicated         int `json:"duplicated"`
	WrongCounts        int `json:"wrong_counts"`
	// VisibleMS is the time from a post's answer until a follower's home shows the post.
	VisibleMS        Quantiles `json:"visible_ms"`
	DeliveriesPerSec float64   `json:"deliveries_per_s"`
	// WCU and RCU are the units of the run. They are nil if an admin address did not report
	// units, or if its process restarted and lost its counters.
	WCU *float64 `json:"wcu"`
	RCU *float64 `json:"rcu"`
	// WCUPerDelivery is the number of write units of the fan-out for each delivery to a
	// follower. The author's own entry is written with the post.
	WCUPerDelivery *float64 `json:"wcu_per_delivery"`
	WCUPerLike     *float64 `json:"wcu_per_like"`
	// WCUByFlow and RCUByFlow are the units by flow: api, fanout and likes. The read units of
	// api include the reads of watched homes.
	WCUByFlow map[string]float64 `json:"wcu_by_flow"`
	RCUByFlow map[string]float64 `json:"rcu_by_flow"`
	// Skipped is the number of deliveries that were skipped because the readers were away.
	Skipped *float64 `json:"skipped"`
	// WCUReturns is the number of write units for the homes that were rebuilt during the
	// final reads. The other fields do not include these units.
	WCUReturns *float64 `json:"wcu_returns"`
	Seconds    float64  `json:"seconds"`
}

// Quantiles has quantiles of a time, in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Exact reports whether the service showed exactly the right state.
func (r Report) Exact() bool {
	return r.Missing == 0 && r.Unexpected == 0 && r.Duplicated == 0 && r.WrongCounts == 0
}

// String formats the report for people.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "users %d, edges %d, posts %d, likes %d", r.Users, r.Edges, r.Posts, r.Likes)
	for _, kind := range slices.Sorted(maps.Keys(r.Reactions)) {
		fmt.Fprintf(&b, "; %s %d", kind, r.Reactions[kind])
	}
	b.WriteByte('\n')
	fmt.Fprintf(&b, "deliveries %d of %d: missing %d, unexpected %d, duplicated %d; wrong counts %d\n",
		r.Delivered, r.ExpectedDeliveries, r.Missing, r.Unexpected, r.Duplicated, r.WrongCounts)
	if r.Away+r.Pulled > 0 {
		fmt.Fprintf(&b, "readers that were away %d; posts that were pulled %d\n", r.Away, r.Pulled)
	}
	if r.DeliveriesPerSec > 0 { // the check of a journal measures no times
		fmt.Fprintf(&b, "visible after ms: p50 %.1f, p99 %.1f, max %.1f; deliveries/s %.0f\n",
			r.VisibleMS.P50, r.VisibleMS.P99, r.VisibleMS.Max, r.DeliveriesPerSec)
	}
	if r.WCU != nil && r.RCU != nil {
		fmt.Fprintf(&b, "WCU %.0f, RCU %.0f", *r.WCU, *r.RCU)
		if r.WCUPerDelivery != nil {
			fmt.Fprintf(&b, ", WCU per delivery %.3f", *r.WCUPerDelivery)
		}
		if r.WCUPerLike != nil {
			fmt.Fprintf(&b, ", WCU per like %.3f", *r.WCUPerLike)
		}
		for _, flow := range slices.Sorted(maps.Keys(r.WCUByFlow)) {
			fmt.Fprintf(&b, "; %s %.0f", flow, r.WCUByFlow[flow])
		}
		if r.Skipped != nil {
			fmt.Fprintf(&b, "; skipped deliveries %.0f", *r.Skipped)
		}
		if r.WCUReturns != nil {
			fmt.Fprintf(&b, "; WCU of returns %.0f", *r.WCUReturns)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "seconds %.1f\n", r.Seconds)
	return b.String()
}

func seconds(d time.Duration) float64 { return round(d.Seconds()) }

// round keeps three decimals, because further decimals would be noise in a report.
func round(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return math.Round(x*1000) / 1000
}

func per(units float64, n int) *float64 {
	if n <= 0 {
		return nil
	}
	return new(round(units / float64(n)))
}
