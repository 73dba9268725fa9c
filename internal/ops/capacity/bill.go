package capacity

import (
	"fmt"
	"math"
)

// Line is a line of the monthly bill.
type Line struct {
	Name    string  `json:"name"`
	Dollars float64 `json:"dollars"`
}

// Tasks has the number of processes of each daemon. A process has one vCPU and 2 GB.
type Tasks struct {
	API     float64 `json:"api"`
	FanOut  float64 `json:"fanout"`
	LikeAgg float64 `json:"likeagg"`
	// busy is the number of api processes that the requests need, without live homes.
	busy float64
}

func (t Tasks) sum() float64 { return t.API + t.FanOut + t.LikeAgg }

const (
	leastTasks = 2 // tasks of each daemon: one of them may fail
	taskGB     = 2

	freeStorageGB = 25
	freeRequests  = 1e6 // free requests to SQS in a month
	freeEgressGB  = 100

	idleReceives   = minutesADay * 12 // receives in a day for a process and topic: one receive each five seconds
	fanoutTopics   = 4
	queuesAScraper = 10 // queues that a scrape reads: two for each topic

	balancerNewConnections = 25 // new connections a second in one capacity unit
	requestsAConnection    = 20
	balancerConnections    = 3000
	gateways               = 2
	zones                  = 2

	// The kilobytes of traffic between tasks and AWS for a unit or a request. Without an
	// endpoint this traffic passes the gateway.
	readKB, writeKB, requestKB = 0.6, 0.3, 2

	insightMetrics = 8 // metrics of each task
	logGBADay      = 0.03
	alarms         = 39 // alarms in deploy/cloudformation/alarms.yaml
)

// tasks returns the processes that a day's work needs at the peak.
func tasks(l Load, day Row) Tasks {
	need := func(cpu float64) float64 {
		return math.Max(leastTasks, math.Ceil(cpu*l.Peak/secondsADay/l.Utilisation))
	}
	busy := need(day.calls / l.RequestsPerCPU)
	return Tasks{
		API:    math.Max(busy, math.Ceil(l.Users*l.Streams/(streamsAProcess*streamsFull))),
		FanOut: need(day.deliveries/l.DeliveriesPerCPU + day.notices/l.LikesPerCPU), LikeAgg: need(day.likes / l.LikesPerCPU), busy: busy,
	}
}

// bill returns the lines of the monthly bill. The reservation is nil for a table on demand.
func bill(e *Estimate, p Prices) (lines []Line, reservation *Reservation) {
	l, d, t, n := e.Load, e.Deployment, e.Total, e.Tasks.sum()
	lines, reservation = throughput(e, p)
	recovery := 0.
	if d.Recovery {
		recovery = (t.Stored - t.Index) * p.of("recovery")
	}
	idle := idleReceives * (e.Tasks.FanOut*fanoutTopics + e.Tasks.LikeAgg)
	if d.ScrapeEvery > 0 {
		idle += n * queuesAScraper * secondsADay / d.ScrapeEvery
	}
	requests := math.Max(0, (t.Requests+idle)*daysAMonth-freeRequests)
	egress := t.Egress * daysAMonth
	units := max(1, egress/hoursAMonth, l.Users*l.Streams/balancerConnections, t.calls/secondsADay/balancerNewConnections/requestsAConnection)
	return append(
		lines,
		Line{"storage", math.Max(0, t.Stored-freeStorageGB) * p.of("storage")},
		Line{"point-in-time recovery", recovery},
		Line{"queues", (requests*p.of("queue_request") + t.Messages*daysAMonth*p.of("queue_group")) / million},
		Line{fmt.Sprintf("tasks (%s)", Number(n)), n * hoursAMonth * (p.of("task_cpu") + taskGB*p.of("task_memory"))},
		Line{"egress", egressDollars(egress, p)},
		Line{"balancer", hoursAMonth * (p.of("balancer_hour") + zones*p.of("address_hour") + units*p.of("balancer_unit"))},
		Line{"NAT or addresses", network(e, p)},
		Line{"logs, insights, alarms", n*(insightMetrics*p.of("metric")+logGBADay*daysAMonth*p.of("log_gb")) + alarms*p.of("alarm")},
	), reservation
}

// network returns the cost of the tasks' outgoing traffic. With public addresses the traffic to AWS
// costs nothing. A NAT gateway bills the traffic of the queues and, if there is no endpoint, also
// the traffic of the table.
func network(e *Estimate, p Prices) float64 {
	if e.Deployment.Network == Addresses {
		return e.Tasks.sum() * hoursAMonth * p.of("address_hour")
	}
	kb := e.Total.Requests * requestKB
	if !e.Deployment.Endpoint {
		kb += e.Total.Reads*readKB + e.Total.Writes*writeKB
	}
	return gateways*hoursAMonth*(p.of("nat_hour")+p.of("address_hour")) + kb*daysAMonth*kilobyte/gigabyte*p.of("nat_gb")
}

// egressDollars returns the price of the gigabytes that leave AWS in a month, by tiers.
func egressDollars(gb float64, p Prices) float64 {
	return tiers(math.Max(0, gb-freeEgressGB), []tier{
		{10_240, p.of("egress_to_10_tb")}, {40_960, p.of("egress_to_50_tb")}, {102_400, p.of("egress_to_150_tb")}, {math.Inf(1), p.of("egress_above")},
	})
}

// support returns the price of a Business plan for a monthly bill.
func support(dollars float64, p Prices) float64 {
	return math.Max(p.of("support_least"), tiers(dollars, []tier{
		{10_000, p.of("support_to_10k")}, {70_000, p.of("support_to_80k")}, {170_000, p.of("support_to_250k")}, {math.Inf(1), p.of("support_above")},
	}))
}

// tier is a price for a number of units that follow the units of the previous tiers.
type tier struct{ size, price float64 }

func tiers(amount float64, all []tier) (dollars float64) {
	for _, t := range all {
		n := math.Min(amount, t.size)
		dollars, amount = dollars+n*t.price, amount-n
	}
	return dollars
}
