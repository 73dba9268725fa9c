package bench

import (
	"math"
	"strings"
	"testing"
)

// small is a load whose numbers can be checked by hand.
func small() Load {
	l := DefaultLoad()
	l.Users, l.Followers, l.PostsPerDay, l.ReadsPerDay, l.LikesPerDay = 1000, 100, 2, 10, 5
	l.LikesAWindow, l.LikesByUser = 10, false
	return l
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func TestTheModelMultipliesTheMeasuredUnits(t *testing.T) {
	m := NewModel(small(), DefaultPrices())
	flows := map[string]Flow{}
	for _, f := range m.Push.Flows {
		flows[f.Name] = f
	}
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"posts WCU", flows["posts"].WCU, 2000 * 8},
		{"fan-out WCU", flows["fan-out"].WCU, 2000*100 + 2000*2}, // entries, plan and chunk
		{"fan-out RCU", flows["fan-out"].RCU, 2000 * (1 + 3)},    // the post, 100 edges
		{"fan-out requests", flows["fan-out"].SQS, 0},
		{"homes RCU", flows["homes"].RCU, 10_000 * 52},
		{"likes WCU", flows["likes"].WCU, 5000 * 1.1},
		{"likes requests", flows["likes"].SQS, 5000 * 0.3},
		{"all WCU", m.Push.Total.WCU, 16_000 + 204_000 + 5500},
		{"pull WCU", m.Pull.Total.WCU, 16_000 + 5500},
		{"pull homes RCU", m.Pull.Flows[2].RCU, 10_000 * (52 + 100)},
		{"writes", m.Push.Bill.Writes, 225_500 * 30.4 * 0.625 / 1e6},
		{"peak", m.Push.PeakWCU, 225_500 * 3 / 86_400.0},
	} {
		if !near(tt.got, tt.want) {
			t.Errorf("%s = %v, want %v", tt.what, tt.got, tt.want)
		}
	}
	b := m.Push.Bill
	if !near(b.Total, b.Writes+b.Reads+b.Queues+b.Storage+b.CPUs) {
		t.Errorf("the parts of %+v do not sum up", b)
	}
}

func TestADeliveryOfManyPagesHasALedgerOfChunks(t *testing.T) {
	l := small()
	l.Followers = 10_000
	m := NewModel(l, DefaultPrices())
	// internal/fanout's cost test: 10,000 entries, a plan, three chunks twice.
	if want := 2000.0 * (10_000 + 1 + 2*3); !near(m.Push.Flows[1].WCU, want) {
		t.Errorf("fan-out WCU = %v, want %v", m.Push.Flows[1].WCU, want)
	}
}

func TestCrossoverIsWhereBothCostTheSame(t *testing.T) {
	l, p := small(), DefaultPrices()
	l.PostsPerDay, l.ReadsPerDay = 1, 100
	m := NewModel(l, p)
	if m.PullCheaper != "below" || m.Crossover <= 0 {
		t.Fatalf("pull is cheaper %s %v", m.PullCheaper, m.Crossover)
	}
	entry := (p.WCU+p.RCU*102/4096)/1e6 + p.Storage*226/1e9*l.TimelineDays/daysAMonth
	ledger := (2*p.WCU+p.RCU)/1e6 + p.Storage*378/1e9*l.KeptDays/daysAMonth
	push := m.Crossover*entry + ledger
	pull := m.Crossover * 100 * p.RCU / 1e6
	if !near(push, pull) {
		t.Errorf("at %v followers push costs %v, pull %v", m.Crossover, push, pull)
	}
	l.ReadsPerDay = 1
	if m := NewModel(l, p); m.PullCheaper != "always" {
		t.Errorf("with one read a post, pull is cheaper %s", m.PullCheaper)
	}
}

func TestLimitsAreNamed(t *testing.T) {
	l := DefaultLoad()
	l.Users, l.Followers = 1e9, 500
	text := NewModel(l, DefaultPrices()).String()
	for _, want := range []string{"a new on-demand table", "table quota", "a month $", "push", "pull"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
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
		if l.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := DefaultLoad().Check(); err != nil {
		t.Error(err)
	}
	p := DefaultPrices()
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	p.WCU = -1
	if p.Check() == nil {
		t.Error("a negative price: accepted")
	}
}

func TestQuietLoadsCostAtLeastTheirProcesses(t *testing.T) {
	l := DefaultLoad()
	l.Users, l.ReadsPerDay, l.PostsPerDay, l.LikesPerDay = 1, 0, 0, 0
	m := NewModel(l, DefaultPrices())
	if m.Push.APIWorkers != 1 || m.Push.FanoutWorkers != 1 || m.Push.LikeWorkers != 1 {
		t.Errorf("workers %+v", m.Push)
	}
	if math.IsInf(m.PullLimit, 0) || math.IsNaN(m.Push.Bill.Total) {
		t.Errorf("JSON cannot carry %+v", m)
	}
}
