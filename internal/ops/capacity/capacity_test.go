package capacity

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// small is a load whose numbers a reader can check.
func small() Load {
	l := DefaultLoad()
	l.Users, l.Followers, l.PostsPerDay, l.ReadsPerDay, l.LikesPerDay = 1000, 100, 2, 10, 5
	l.LikesAWindow, l.LikesByUser = 10, false
	return l
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func TestAnEstimateMultipliesTheMeasuredUnits(t *testing.T) {
	e := New(small(), DefaultPrices())
	flows := map[string]Flow{}
	for _, f := range e.Push.Flows {
		flows[f.Name] = f
	}
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"posts WCU", flows["posts"].WCU, 2000 * 9},
		{"fan-out WCU", flows["fan-out"].WCU, 2000*100 + 2000*2}, // entries, plan and chunk
		{"fan-out RCU", flows["fan-out"].RCU, 2000 * (2 + 3)},    // the post, the mode, 100 edges
		{"fan-out requests", flows["fan-out"].SQS, 0},
		{"homes RCU", flows["homes"].RCU, 10_000 * 42},
		{"likes WCU", flows["likes"].WCU, 5000 * 1.1},
		{"likes requests", flows["likes"].SQS, 5000 * 0.3},
		{"all WCU", e.Push.Total.WCU, 18_000 + 204_000 + 5500},
		{"pull WCU", e.Pull.Total.WCU, 18_000 + 5500},
		{"pull homes RCU", e.Pull.Flows[2].RCU, 10_000 * (43 + 100)},
		{"writes", e.Push.Bill.Writes, 227_500 * 30.4 * 0.625 / 1e6},
		{"peak", e.Push.PeakWCU, 227_500 * 3 / 86_400.0},
	} {
		assert.Truef(t, near(tt.got, tt.want), "%s = %v, want %v", tt.what, tt.got, tt.want)
	}
	b := e.Push.Bill
	assert.Truef(t, near(b.Total, b.Writes+b.Reads+b.Queues+b.Storage+b.CPUs), "the parts of %+v do not sum up", b)
}

func TestADeliveryOfManyPagesCostsAPlanAndItsChunks(t *testing.T) {
	l := small()
	l.Followers = 10_000
	e := New(l, DefaultPrices())
	// As in internal/fanout's cost test: 10,000 entries, a plan, three chunks written twice.
	if want := 2000.0 * (10_000 + 1 + 2*3); !near(e.Push.Flows[1].WCU, want) {
		t.Errorf("fan-out WCU = %v, want %v", e.Push.Flows[1].WCU, want)
	}
}

func TestCrossoverIsWhereBothCostTheSame(t *testing.T) {
	l, p := small(), DefaultPrices()
	l.PostsPerDay, l.ReadsPerDay = 1, 100
	e := New(l, p)
	require.Equal(t, "below", e.PullCheaper)
	require.Positive(t, e.Crossover)
	entry := (p.WCU+p.RCU*102/4096)/1e6 + p.Storage*226/1e9*l.TimelineDays/daysAMonth
	record := (2*p.WCU+p.RCU)/1e6 + p.Storage*396/1e9*(l.TimelineDays+31)/daysAMonth
	push := e.Crossover*entry + record
	pull := e.Crossover * 100 * p.RCU / 1e6
	assert.Truef(t, near(push, pull), "at %v followers push costs %v, pull %v", e.Crossover, push, pull)
	l.ReadsPerDay = 1
	assert.Equal(t, "always", New(l, p).PullCheaper, "with one read a post")
}

func TestLimitsAreNamed(t *testing.T) {
	l := DefaultLoad()
	l.Users, l.Followers = 1e9, 500
	text := New(l, DefaultPrices()).String()
	for _, want := range []string{"a new on-demand table", "table quota", "a month $", "push", "pull"} {
		assert.Contains(t, text, want)
	}
}

func TestImpossibleLoadsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Load){
		"no users":     func(l *Load) { l.Users = 0 },
		"negative":     func(l *Load) { l.PostsPerDay = -1 },
		"no number":    func(l *Load) { l.ReadsPerDay = math.NaN() },
		"over a whole": func(l *Load) { l.Utilisation = 1.5 },
	} {
		l := DefaultLoad()
		change(&l)
		assert.Errorf(t, l.Check(), "%s: accepted", name)
	}
	assert.NoError(t, DefaultLoad().Check())
	p := DefaultPrices()
	assert.NoError(t, p.Check())
	p.WCU = -1
	assert.Error(t, p.Check(), "a negative price: accepted")
}

func TestQuietLoadsCostAtLeastTheirProcesses(t *testing.T) {
	l := DefaultLoad()
	l.Users, l.ReadsPerDay, l.PostsPerDay, l.LikesPerDay = 1, 0, 0, 0
	e := New(l, DefaultPrices())
	if e.Push.APIWorkers != 1 || e.Push.FanoutWorkers != 1 || e.Push.LikeWorkers != 1 {
		t.Errorf("workers %+v", e.Push)
	}
	assert.Falsef(t, math.IsInf(e.PullLimit, 0), "JSON cannot carry %+v", e)
	assert.Falsef(t, math.IsNaN(e.Push.Bill.Total), "JSON cannot carry %+v", e)
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.5714: "0.571", 1.00085: "1", 12.34: "12.3", 999.4: "999", 1234: "1,234", 356641.4: "356,641", -1234567: "-1,234,567", 0.00123: "0.00123",
	} {
		assert.Equalf(t, want, Number(v), "Number(%v)", v)
	}
}
