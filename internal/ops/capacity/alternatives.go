package capacity

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Alternative is another way to serve the load. Its cost is computed: no alternative was
// run beside Fanfare on AWS.
type Alternative struct {
	Name string `json:"name"`
	// Dollars is the cost of a month, 0 if the cost is unknown for this load.
	Dollars float64 `json:"dollars_per_month"`
	Note    string  `json:"note"`
}

// cost returns the cost of a month as a text.
func (a Alternative) cost() string {
	if a.Dollars > 0 {
		return dollars(a.Dollars)
	}
	return "?"
}

// The work of one machine with the embedded engine, in microseconds of CPU time
// (docs/PERFORMANCE.md), and the largest machine and disk.
const (
	machineDelivery, machinePost, machinePage, machineLike = 1.4, 135, 160, 100
	machineCPUs                                            = 2
	machineMost                                            = 64
	diskGB                                                 = 16_384
)

// alternatives returns other ways to serve a load. If all of them can serve the load, the cheapest is first.
func alternatives(e *Estimate, p Prices) []Alternative {
	all := []Alternative{{"one fanfare up", 0, "no one machine carries this load"}}
	if one, carried := machine(e, p); carried {
		all = []Alternative{
			{"one fanfare up", one, "everything in one process; after its loss Fanfare is down until its archive is restored, which lacks about a second"},
			{"two fanfare up", 2 * one, "a pair: the standby has each answered write, and takes over in seconds"},
		}
	}
	if e.Deployment.Billing == OnDemand {
		fanOut := fanOutRow(e.Load)
		cost := fanOut.Writes*daysAMonth/million*p.of("table_write") + fanOut.Count*e.Load.TimelineDays*entryBytes/gigabyte*p.of("storage")
		all = append(all, Alternative{"timelines in Redis beside DynamoDB", e.Dollars - 0.75*cost, "a quarter of fan-out and its storage; entries have to be rebuilt when Redis is lost"})
	}
	return append(all, Alternative{"Postgres by pull, Multi-AZ", 0, "some $250 at 100,000 users and $1,400 at a million, with 100 followers each"})
}

// machine returns the price of one machine with its disk, snapshots, address and egress.
// carried reports whether one machine can serve the load.
func machine(e *Estimate, p Prices) (dollars float64, carried bool) {
	l, stored := e.Load, e.Total.Stored
	perDay := l.Users * (l.PostsPerDay*(l.Followers*machineDelivery+machinePost) + l.ReadsPerDay*machinePage + l.LikesPerDay*machineLike)
	cpus := math.Max(machineCPUs, math.Ceil(perDay/million*l.Peak/secondsADay/l.Utilisation))
	dollars = hoursAMonth*(cpus*p.of("machine_cpu")+p.of("address_hour")) + stored*(p.of("disk_gb")+p.of("snapshot_gb")) + egressDollars(e.Total.Egress*daysAMonth, p)
	return dollars, cpus <= machineMost && stored <= diskGB
}

// verdict compares the alternatives in one sentence.
func (e *Estimate) verdict() string {
	switch users := e.Load.Users; {
	case users < 1_000_000:
		tasks := slices.IndexFunc(e.Lines, func(line Line) bool { return strings.HasPrefix(line.Name, "tasks") })
		return fmt.Sprintf("Below a million users one machine costs less: take this shape for availability. Tasks are %.0f %% of this bill.", 100*e.Lines[tasks].Dollars/e.Dollars)
	case e.Deployment.Billing == OnDemand:
		return "On demand this is the dearest of the usual ways. It buys that a machine or a zone may die without a lost answer, no operations, and no cliff."
	}
	return "This shape buys that a machine or a zone may die without a lost answer, no operations, and no cliff."
}
