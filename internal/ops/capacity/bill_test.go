package capacity

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// small returns a load with numbers that a reader can check.
func small() Load {
	l := DefaultLoad()
	l.Users, l.Followers, l.PostsPerDay, l.ReadsPerDay, l.LikesPerDay = 1000, 100, 2, 10, 5
	l.FollowsPerDay, l.UnfollowsPerDay, l.CommentsPerDay, l.DeletedShare, l.KeyedShare = 0, 0, 0, 0, 0
	l.LikesAWindow, l.LikesByUser = 10, false
	return l
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

// line returns the dollars of the line of e whose name begins with name.
func line(t *testing.T, e Estimate, name string) float64 {
	t.Helper()
	for _, l := range e.Lines {
		if strings.HasPrefix(l.Name, name) {
			return l.Dollars
		}
	}
	t.Fatalf("no line %q", name)
	return 0
}

func TestAnEstimateMultipliesTheMeasuredUnits(t *testing.T) {
	t.Parallel()
	e := estimate(t, small())
	posts, fanOut, homes, likes := row(t, e, "posts"), row(t, e, "fan-out"), row(t, e, "homes"), row(t, e, "likes")
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"posts", posts.Count, 2000},
		{"posts, writes", posts.Writes, 2000 * 9},
		{"posts, stored", posts.Stored, 2000 * 365 * 1003 / 1e9},
		{"deliveries", fanOut.Count, 200_000},
		{"fan-out, writes", fanOut.Writes, 2000*100 + 2000*2}, // the entries, the plan and the chunk
		{"fan-out, reads", fanOut.Reads, 2000 * (2 + 3)},      // the post, the mode and 100 edges
		{"fan-out, requests", fanOut.Requests, 0},
		{"homes, reads", homes.Reads, 10_000 * 42},
		{"homes, bytes", homes.Egress, 10_000 * 12_000 / 1e9},
		{"likes, writes", likes.Writes, 5000 * 1.1},
		{"likes, requests", likes.Requests, 5000 * 0.3},
		{"all writes", e.Total.Writes, 18_000 + 204_000 + 5500},
		{"peak", e.PeakWrites, 227_500 * 3 / 86_400.0},
		{"table writes", line(t, e, "table writes"), 227_500 * 30.4 * 0.625 / 1e6},
		{"table reads", line(t, e, "table reads"), e.Total.Reads * 30.4 * 0.125 / 1e6},
		{"recovery", line(t, e, "point-in-time recovery"), (e.Total.Stored - e.Total.Index) * 0.2},
		{"storage, below the free 25 GB", line(t, e, "storage"), 0},
		{"tasks", line(t, e, "tasks"), 6 * 729.6 * (0.04048 + 2*0.004445)},
		{"addresses", line(t, e, "NAT or addresses"), 6 * 729.6 * 0.005},
		{"balancer", line(t, e, "balancer"), 729.6 * (0.0225 + 2*0.005 + 0.008)},
		{"egress, below the free 100 GB", line(t, e, "egress"), 0},
		// Two processes receive from 4 topics and two from one topic, every five seconds. Six processes ask 10
		// queues every 30 s.
		{"queues", line(t, e, "queues"), ((6000+1500+(2*4+2)*17_280+6*10*2880)*30.4-1e6)*0.4/1e6 + (2000+5000)*30.4*0.1/1e6},
		{"logs", line(t, e, "logs, insights, alarms"), 6*(8*0.30+0.03*30.4*0.5) + 39*0.10},
	} {
		assert.Truef(t, near(tt.got, tt.want), "%s = %v, want %v", tt.what, tt.got, tt.want)
	}
	sum := 0.
	for _, l := range e.Lines {
		sum += l.Dollars
	}
	assert.InDelta(t, sum, e.Dollars, 1e-9, "the lines do not sum up")
}

func TestLiveHomesHaveARowEach(t *testing.T) {
	t.Parallel()
	l := small()
	l.Users, l.Streams = 1e6, 0.01
	e := estimate(t, l)
	require.Equal(t, Tasks{API: 4, FanOut: 2, LikeAgg: 2, busy: 2}, e.Tasks, "10,000 live homes of 4,096 a process, 70 % full")
	for name, want := range map[string]float64{
		"streams: idle": 10_000 * 0.21 * 86_400, "streams: arrivals": 10_000 * 200 * 5, "streams: openings": 10_000 * 96 * 39,
	} {
		assert.Truef(t, near(row(t, e, name).Reads, want), "%s = %v, want %v", name, row(t, e, name).Reads, want)
	}
	l.StreamLikes = false
	assert.InDelta(t, 10_000*0.046*86_400, row(t, estimate(t, l), "streams: idle").Reads, 1)
	l.Streams = 0
	for _, r := range estimate(t, l).Rows {
		assert.NotContains(t, r.Name, "streams")
	}
}

// The table has the measurements in the design of live homes: the units of a process's tail, by
// the posts in a second.
func TestATailReadsWhatTheDesignMeasured(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ posts, want float64 }{{0, 4.5}, {116, 13.3}, {347, 33.5}, {1157, 103.5}} {
		l := DefaultLoad()
		l.Users, l.PostsPerDay = tt.posts*secondsADay, 1
		assert.InEpsilonf(t, tt.want, tailRow(l, 1).Reads/secondsADay, 0.05, "%v posts a second", tt.posts)
	}
}

func TestAGatewayBillsTheTrafficOfTheTableWithoutAnEndpoint(t *testing.T) {
	t.Parallel()
	d := DefaultDeployment()
	d.Network = NAT
	e := New(DefaultLoad(), d, listed(t))
	hours := 2 * 729.6 * (0.045 + 0.005)
	queues := e.Total.Requests * 2 * 30.4 / 1e6 * 0.045
	assert.InDelta(t, hours+queues, line(t, e, "NAT or addresses"), 1e-6)
	d.Endpoint = false
	e = New(DefaultLoad(), d, listed(t))
	assert.InDelta(t, hours+queues+(e.Total.Reads*0.6+e.Total.Writes*0.3)*30.4/1e6*0.045, line(t, e, "NAT or addresses"), 1e-6)
}

func TestTiersArePricedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	p := listed(t)
	for gb, want := range map[float64]float64{
		0: 0, 100: 0, 101: 0.09, 10_340: 921.6, 10_341: 921.685, 51_300: 921.6 + 3481.6, 153_700: 921.6 + 3481.6 + 7168, 153_701: 921.6 + 3481.6 + 7168.05,
	} {
		assert.InDeltaf(t, want, egressDollars(gb, p), 1e-6, "%v GB", gb)
	}
	for bill, want := range map[float64]float64{0: 100, 1000: 100, 1010: 101, 10_000: 1000, 80_000: 5900, 85_000: 6150, 250_000: 14_400, 260_000: 14_700} {
		assert.InDeltaf(t, want, support(bill, p), 1e-6, "a bill of $%v", bill)
	}
	d := DefaultDeployment()
	without := New(DefaultLoad(), d, p)
	d.Support = true
	with := New(DefaultLoad(), d, p)
	assert.InDelta(t, without.Dollars+support(without.Dollars, p), with.Dollars, 1e-6)
}

func TestProvisionedCapacityFollowsTheLoad(t *testing.T) {
	t.Parallel()
	p, d := listed(t), DefaultDeployment()
	d.Billing = Provisioned
	e := New(DefaultLoad(), d, p)
	hours := func(units, use float64) float64 { return units / secondsADay / use * hoursAMonth }
	assert.InDelta(t, hours(e.Total.Writes, 0.61)*0.00065, line(t, e, "table writes"), 1e-6)
	assert.InDelta(t, hours(e.Total.Reads, 0.52)*0.00013, line(t, e, "table reads"), 1e-6)

	// A reservation is paid day and night. If the load is constant, a reservation of all units saves money. A
	// reservation of more units than the busiest hour uses never saves its price.
	l := DefaultLoad()
	l.Peak = 1
	flat := New(l, d, p)
	require.NotNil(t, flat.Reservation)
	assert.InEpsilon(t, e.Total.Writes/secondsADay/0.61, flat.Reservation.WCU, 1e-6)
	d.ReservedWCU, d.ReservedRCU = flat.Reservation.WCU, flat.Reservation.RCU
	reserved := New(l, d, p)
	assert.InEpsilon(t, flat.Dollars-flat.Reservation.Saves, reserved.Dollars, 1e-9)
	assert.InEpsilon(t, line(t, flat, "table writes")*(1-0.54), line(t, reserved, "table writes"), 1e-6)
	d.ReservedWCU *= 10
	assert.Greater(t, line(t, New(l, d, p), "table writes"), line(t, flat, "table writes"), "ten times the units that are used")
}

// The simulation in the design found a reservation that saves an eighth of the table's cost,
// for a day whose peak is three times its mean.
func TestTheCheapestReservationSavesAnEighth(t *testing.T) {
	t.Parallel()
	d := DefaultDeployment()
	d.Billing, d.ReadUse = Provisioned, 0.61
	l := DefaultLoad()
	l.Users, l.Followers = 1e7, 200
	e := New(l, d, listed(t))
	table := line(t, e, "table writes") + line(t, e, "table reads")
	assert.InDelta(t, 1-22_891./26_168, e.Reservation.Saves/table, 0.01)
	day, sum := dayOf(3), 0.
	for _, units := range day {
		sum += units
	}
	assert.InDelta(t, 24, sum, 1e-6, "the hours of a day have its mean")
	assert.InDelta(t, 3, day[0], 0.1, "the busiest hour has the peak")
}

func TestQuietLoadsCostAtLeastTheirTasks(t *testing.T) {
	t.Parallel()
	l := DefaultLoad()
	l.Users, l.Followers, l.ReadsPerDay, l.PostsPerDay, l.LikesPerDay, l.FollowsPerDay = 1, 0, 0, 0, 0, 0
	e := estimate(t, l)
	assert.Equal(t, Tasks{API: 2, FanOut: 2, LikeAgg: 2, busy: 2}, e.Tasks)
	assert.False(t, math.IsNaN(e.Dollars) || math.IsInf(e.Crossover, 0), "JSON cannot carry %+v", e)
}

func TestCrossoverIsWhereBothCostTheSame(t *testing.T) {
	t.Parallel()
	l, p := small(), listed(t)
	l.PostsPerDay, l.ReadsPerDay = 1, 100
	e := New(l, DefaultDeployment(), p)
	require.Equal(t, "below", e.PullCheaper)
	entry := (0.625+0.125*102/4096)/1e6 + 0.25*226/1e9*30/30.4
	record := (2*0.625+0.125)/1e6 + 0.25*396/1e9*61/30.4
	assert.Truef(t, near(e.Crossover*entry+record, e.Crossover*100*0.125/1e6), "at %v followers both ways cost the same", e.Crossover)
	l.ReadsPerDay = 1
	assert.Equal(t, "always", New(l, DefaultDeployment(), p).PullCheaper, "with one read a post")
}

func TestADeliveryOfManyPagesCostsAPlanAndItsChunks(t *testing.T) {
	t.Parallel()
	l := small()
	l.Followers = 10_000
	// The numbers are the same as in the cost test of internal/fanout: 10,000 entries, a
	// plan, and three chunks that are written twice.
	assert.InDelta(t, 2000*(10_000+1+2*3), row(t, estimate(t, l), "fan-out").Writes, 1e-6)
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.5714: "0.571", 1.00085: "1", 12.34: "12.3", 999.4: "999", 1234: "1,234", 356641.4: "356,641", -1234567: "-1,234,567", 0.00123: "0.00123",
		1e20: "100,000,000,000,000,000,000", math.Inf(1): "?",
	} {
		assert.Equalf(t, want, Number(v), "Number(%v)", v)
	}
}
