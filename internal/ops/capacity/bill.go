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

// The names of the lines. The names of the lines for tasks and for the network have additional words.
const (
	LineWrites   = "table writes"
	LineReads    = "table reads"
	LineStorage  = "storage"
	LineRecovery = "point-in-time recovery"
	LineQueues   = "queues"
	LineTasks    = "tasks"
	LineEgress   = "egress"
	LineBalancer = "balancer"
	LineNetwork  = "NAT or addresses"
	LineLogs     = "logs, insights, alarms"
)

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

// tasks returns the processes that the rows need at the peak.
func tasks(l Load, all []Row) Tasks {
	var sum Row
	for _, r := range all {
		sum = sum.plus(r)
	}
	need := func(cpu float64) float64 {
		return math.Max(leastTasks, math.Ceil(cpu*l.Peak/secondsADay/l.Utilisation))
	}
	busy := need(sum.api)
	return Tasks{
		API:    math.Max(busy, math.Ceil(l.Users*l.Streams/(streamsAProcess*streamsFull))),
		FanOut: need(sum.fanout), LikeAgg: need(sum.likeagg), busy: busy,
	}
}

// bill returns the lines of the monthly bill. The reservation is nil for a table on demand.
func bill(e *Estimate, p Prices) (lines []Line, reservation *Reservation) {
	l, d, t, n := e.Load, e.Deployment, e.Total, e.Tasks.sum()
	lines, reservation = throughput(e, p)
	recovery := 0.
	if d.Recovery {
		recovery = (t.Stored - t.Index) * p.of(priceRecovery)
	}
	idle := idleReceives * (e.Tasks.FanOut*fanoutTopics + e.Tasks.LikeAgg)
	if d.ScrapeEvery > 0 {
		idle += n * queuesAScraper * secondsADay / d.ScrapeEvery
	}
	requests := math.Max(0, (t.Requests+idle)*daysAMonth-freeRequests)
	egress := t.Egress * daysAMonth
	units := max(1, egress/hoursAMonth, l.Users*l.Streams/balancerConnections, calls(e.Rows)/secondsADay/balancerNewConnections/requestsAConnection)
	return append(
		lines,
		Line{LineStorage, math.Max(0, t.Stored-freeStorageGB) * p.of(priceStorage)},
		Line{LineRecovery, recovery},
		Line{LineQueues, (requests*p.of(priceRequest) + t.Messages*daysAMonth*p.of(priceGroup)) / million},
		Line{fmt.Sprintf("%s (%s)", LineTasks, Number(n)), n * hoursAMonth * (p.of(priceTaskCPU) + taskGB*p.of(priceTaskMemory))},
		Line{LineEgress, egressDollars(egress, p)},
		Line{LineBalancer, hoursAMonth * (p.of(priceBalancerHour) + zones*p.of(priceAddress) + units*p.of(priceBalancerUnit))},
		network(e, p),
		Line{LineLogs, n*(insightMetrics*p.of(priceMetric)+logGBADay*daysAMonth*p.of(priceLog)) + alarms*p.of(priceAlarm)},
	), reservation
}

// calls returns the number of clients' requests in a day.
func calls(all []Row) (sum float64) {
	for _, r := range all {
		if r.api > 0 {
			sum += r.Count
		}
	}
	return sum
}

// network returns the cost of the tasks' outgoing traffic. With public addresses the traffic to AWS
// costs nothing. A NAT gateway bills the traffic of the queues and, if there is no endpoint, also
// the traffic of the table.
func network(e *Estimate, p Prices) Line {
	if e.Deployment.Network == Addresses {
		return Line{LineNetwork, e.Tasks.sum() * hoursAMonth * p.of(priceAddress)}
	}
	kb := e.Total.Requests * requestKB
	if !e.Deployment.Endpoint {
		kb += e.Total.Reads*readKB + e.Total.Writes*writeKB
	}
	return Line{LineNetwork, gateways*hoursAMonth*(p.of(priceNATHour)+p.of(priceAddress)) + kb*daysAMonth*kilobyte/gigabyte*p.of(priceNATGB)}
}

// egressDollars returns the price of the gigabytes that leave AWS in a month, by tiers.
func egressDollars(gb float64, p Prices) float64 {
	return tiers(math.Max(0, gb-freeEgressGB), []tier{
		{10_240, p.of(priceEgress10)}, {40_960, p.of(priceEgress50)}, {102_400, p.of(priceEgress150)}, {math.Inf(1), p.of(priceEgressAbove)},
	})
}

// support returns the price of a Business plan for a monthly bill.
func support(dollars float64, p Prices) float64 {
	return math.Max(p.of(priceSupportLeast), tiers(dollars, []tier{
		{10_000, p.of(priceSupport10)}, {70_000, p.of(priceSupport80)}, {170_000, p.of(priceSupport250)}, {math.Inf(1), p.of(priceSupportAbove)},
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
