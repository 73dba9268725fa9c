package bench

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"fanfare/internal/daemon"
)

// The measured units that the model multiplies, with ids of users of 36 characters.
// Tests (TestTheModelHas…) hold each: to docs/ACCESS_PATTERNS.md, to what a fan-out and
// an aggregator cost, to the sizes of items. What a machine decides (rates) is in Load,
// with its default from docs/PERFORMANCE.md.
const (
	postWCU, postRCU   = 8, 2            // the post's transaction and what the API reads first
	homePushRCU        = 52              // a page of 20
	followeeRCU        = 1               // each followee's post list, in a home by pull
	likeWCU, indexWCU  = 1, 1            // the like, and its place in the index by user
	likeRCU            = 2               // what the API reads
	countWCU, countRCU = 1, 0.5          // of a window: the count, and a look at the post
	messageRequests    = 3               // a message that is sent, received and deleted alone
	requestMessages    = 10              // what one queue request takes
	inlineFollowers    = daemon.PageSize // up to here a delivery is one chunk, without a plan
	chunkFollowers     = 4000            // of a chunk
	planChunks         = 50              // of one message to a planner
	followerBytes      = 102             // a follower's edge, as a page of them is billed
	readBytes          = 4096            // of a read unit

	// Stored, with the 100 bytes that DynamoDB adds to each item.
	entryBytes       = 226
	edgeBytes        = 435 // both edges of a follow
	likeBytes        = 232
	indexedLikeBytes = 630 // in the table and, whole, in the index by user
	postBytes        = 632 // the post, of 280 characters, and the post by id
	planBytes        = 213
	lastChunkBytes   = 165 // the one of an inline delivery
	chunkBytes       = 237

	partitionRCU, partitionWCU = 3000, 1000
	tableWCU                   = 40_000 // the quota of an account's on-demand table, until it is raised
	daysAMonth                 = 30.4
	secondsADay                = 86_400
)

// Load is what people do, and what one machine can.
type Load struct {
	Users     float64 `json:"users"`
	Followers float64 `json:"followers"`
	// These are of one user on one day.
	PostsPerDay float64 `json:"posts_per_day"`
	ReadsPerDay float64 `json:"reads_per_day"`
	LikesPerDay float64 `json:"likes_per_day"`
	// LikesAWindow is m: likes of one post in one window.
	LikesAWindow float64 `json:"likes_a_window"`
	LikesByUser  bool    `json:"likes_by_user"`
	TimelineDays float64 `json:"timeline_days"`
	KeptDays     float64 `json:"kept_days"`
	// Peak is the busiest second by the average one.
	Peak float64 `json:"peak"`
	// What one CPU-second does, and how busy a CPU may be at the peak.
	DeliveriesPerCPU float64 `json:"deliveries_per_cpu_second"`
	RequestsPerCPU   float64 `json:"requests_per_cpu_second"`
	LikesPerCPU      float64 `json:"likes_per_cpu_second"`
	Utilisation      float64 `json:"utilisation"`
}

// Prices are in dollars.
type Prices struct {
	WCU     float64 `json:"per_million_wcu"`
	RCU     float64 `json:"per_million_rcu"`
	SQS     float64 `json:"per_million_sqs_requests"`
	Storage float64 `json:"per_gb_month"`
	CPU     float64 `json:"per_cpu_hour"`
}

// DefaultLoad is a million users of a middling network.
func DefaultLoad() Load {
	return Load{
		Users: 1e6, Followers: 100, PostsPerDay: 1, ReadsPerDay: 10, LikesPerDay: 5, LikesAWindow: 1, LikesByUser: true,
		TimelineDays: 30, KeptDays: 365, Peak: 3,
		DeliveriesPerCPU: 320_000, RequestsPerCPU: 2000, LikesPerCPU: 5000, Utilisation: 0.5,
	}
}

// DefaultPrices are those of us-east-1, on demand, as of November 2026 to the best of
// our knowledge: give your own.
func DefaultPrices() Prices {
	return Prices{WCU: 0.625, RCU: 0.125, SQS: 0.40, Storage: 0.25, CPU: 0.05}
}

// Flags lets the command line set l.
func (l *Load) Flags(f *pflag.FlagSet) {
	f.Float64Var(&l.Users, "users", l.Users, "users")
	f.Float64Var(&l.Followers, "followers", l.Followers, "followers of a user, on average; as many followees")
	f.Float64Var(&l.PostsPerDay, "posts-per-day", l.PostsPerDay, "posts of a user on a day")
	f.Float64Var(&l.ReadsPerDay, "reads-per-day", l.ReadsPerDay, "home pages that a user reads on a day")
	f.Float64Var(&l.LikesPerDay, "likes-per-day", l.LikesPerDay, "likes of a user on a day")
	f.Float64Var(&l.LikesAWindow, "likes-a-window", l.LikesAWindow, "likes that one post gets in one window")
	f.BoolVar(&l.LikesByUser, "likes-by-user", l.LikesByUser, "the index of likes by user is on")
	f.Float64Var(&l.TimelineDays, "timeline-days", l.TimelineDays, "days that an entry stays in a home (FANFARE_TIMELINE_TTL)")
	f.Float64Var(&l.KeptDays, "kept-days", l.KeptDays, "days of posts and likes that are stored")
	f.Float64Var(&l.Peak, "peak", l.Peak, "the busiest second, in average ones")
	f.Float64Var(&l.DeliveriesPerCPU, "deliveries-per-cpu-second", l.DeliveriesPerCPU, "what a fan-out worker delivers with a CPU-second (T3)")
	f.Float64Var(&l.RequestsPerCPU, "requests-per-cpu-second", l.RequestsPerCPU, "HTTP requests that an API process answers with a CPU-second")
	f.Float64Var(&l.LikesPerCPU, "likes-per-cpu-second", l.LikesPerCPU, "likes that an aggregator counts with a CPU-second")
	f.Float64Var(&l.Utilisation, "utilisation", l.Utilisation, "how busy a CPU may be at the peak, 0 to 1")
}

// Flags lets the command line set p.
func (p *Prices) Flags(f *pflag.FlagSet) {
	f.Float64Var(&p.WCU, "price-wcu", p.WCU, "dollars for a million write units")
	f.Float64Var(&p.RCU, "price-rcu", p.RCU, "dollars for a million read units")
	f.Float64Var(&p.SQS, "price-sqs", p.SQS, "dollars for a million queue requests")
	f.Float64Var(&p.Storage, "price-storage", p.Storage, "dollars for a GB and month")
	f.Float64Var(&p.CPU, "price-cpu", p.CPU, "dollars for a CPU and hour, with its memory")
}

// Check refuses what cannot be.
func (l Load) Check() error {
	for _, f := range []struct {
		name  string
		value float64
		above bool // 0 is not allowed
	}{
		{"users", l.Users, true}, {"followers", l.Followers, false}, {"posts-per-day", l.PostsPerDay, false},
		{"reads-per-day", l.ReadsPerDay, false}, {"likes-per-day", l.LikesPerDay, false}, {"likes-a-window", l.LikesAWindow, true},
		{"timeline-days", l.TimelineDays, false}, {"kept-days", l.KeptDays, false}, {"peak", l.Peak, true},
		{"deliveries-per-cpu-second", l.DeliveriesPerCPU, true}, {"requests-per-cpu-second", l.RequestsPerCPU, true},
		{"likes-per-cpu-second", l.LikesPerCPU, true}, {"utilisation", l.Utilisation, true},
	} {
		if f.value < 0 || (f.above && f.value == 0) || math.IsNaN(f.value) || math.IsInf(f.value, 0) {
			return fmt.Errorf("--%s: %v is not possible", f.name, f.value)
		}
	}
	if l.Utilisation > 1 {
		return errors.New("--utilisation: at most 1")
	}
	return nil
}

// Check refuses what cannot be.
func (p Prices) Check() error {
	for _, v := range []float64{p.WCU, p.RCU, p.SQS, p.Storage, p.CPU} {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("prices: none is below 0")
		}
	}
	return nil
}

// Flow is one part of the load, as a day of all users.
type Flow struct {
	Name string  `json:"name"`
	WCU  float64 `json:"wcu_per_day"`
	RCU  float64 `json:"rcu_per_day"`
	SQS  float64 `json:"sqs_requests_per_day"`
	// CPU is in CPU-seconds.
	CPU float64 `json:"cpu_s_per_day"`
	// Stored is how many GB it keeps in the long run.
	Stored float64 `json:"stored_gb"`
}

func (f Flow) plus(g Flow) Flow {
	return Flow{f.Name, f.WCU + g.WCU, f.RCU + g.RCU, f.SQS + g.SQS, f.CPU + g.CPU, f.Stored + g.Stored}
}

func (f Flow) times(n float64) Flow {
	return Flow{f.Name, n * f.WCU, n * f.RCU, n * f.SQS, n * f.CPU, n * f.Stored}
}

// Bill is a month in dollars.
type Bill struct {
	Writes  float64 `json:"writes"`
	Reads   float64 `json:"reads"`
	Queues  float64 `json:"queues"`
	Storage float64 `json:"storage"`
	CPUs    float64 `json:"cpus"`
	Total   float64 `json:"total"`
}

// Way is a load served by push or by pull.
type Way struct {
	Flows []Flow `json:"flows"`
	Total Flow   `json:"total"`
	Bill  Bill   `json:"dollars_per_month"`
	// PeakWCU and PeakRCU are of the busiest second.
	PeakWCU float64 `json:"peak_wcu_per_s"`
	PeakRCU float64 `json:"peak_rcu_per_s"`
	// Workers are CPUs at the peak, by kind of process.
	APIWorkers    float64 `json:"api_cpus"`
	FanoutWorkers float64 `json:"fanout_cpus"`
	LikeWorkers   float64 `json:"like_cpus"`
}

// Model is what a load costs.
type Model struct {
	Load   Load   `json:"load"`
	Prices Prices `json:"prices"`
	Push   Way    `json:"push"`
	Pull   Way    `json:"pull"`
	// PullCheaper says where pulling an author costs less than pushing: "below",
	// from no followers up to Crossover, or "always".
	PullCheaper string  `json:"pull_cheaper"`
	Crossover   float64 `json:"crossover_followers"`
	// PullLimit is the number of followers at which reading one author's posts
	// meets the limit of a partition.
	PullLimit float64  `json:"pull_limit_followers"`
	Limits    []string `json:"limits"`
}

// NewModel computes. l and p have been checked.
func NewModel(l Load, p Prices) Model {
	m := Model{Load: l, Prices: p, Push: way(l, p, true), Pull: way(l, p, false)}

	// Per author and day: pushing costs the entries, and what each post costs
	// beside them; pulling costs a query of the author's posts in each read.
	const million = 1e6
	entry := (p.WCU+p.RCU*followerBytes/readBytes)/million + p.Storage*entryBytes/1e9*l.TimelineDays/daysAMonth
	push := l.PostsPerDay * entry
	fixed := l.PostsPerDay * ((2*p.WCU+p.RCU)/million + p.Storage*(planBytes+lastChunkBytes)/1e9*l.KeptDays/daysAMonth)
	pull := l.ReadsPerDay * followeeRCU * p.RCU / million
	m.PullCheaper = "always"
	if pull > push {
		m.PullCheaper, m.Crossover = "below", fixed/(pull-push)
	}
	m.PullLimit = math.Inf(1)
	if l.ReadsPerDay > 0 {
		m.PullLimit = partitionRCU * secondsADay / (l.ReadsPerDay * l.Peak)
	}
	m.PullLimit = math.Min(m.PullLimit, math.MaxInt64)
	m.Limits = limits(l, m)
	return m
}

// delivery is what the fan-out of one post costs, without CPU time: Stored is its
// ledger's.
func delivery(followers float64) Flow {
	// A look at the post, all followers; their entries, the head of the ledger and
	// the chunk.
	f := Flow{Name: "fan-out", WCU: followers + 2, RCU: 1 + pageRCU(followers), Stored: (planBytes + lastChunkBytes) / 1e9}
	if followers <= inlineFollowers {
		return f
	}
	chunks := math.Ceil(followers / chunkFollowers)
	plans := math.Ceil(chunks / planChunks)
	pages := (chunks-1)*pageRCU(chunkFollowers) + pageRCU(followers-(chunks-1)*chunkFollowers)
	f.WCU = followers + 1 + 2*chunks // a chunk is stored and marked done
	// The look at the post, the first page, which only shows that there are more, and
	// the count of followers; then planners read all at half the price and chunks read
	// all again. A plan looks at the post and at the ledger, and so does a chunk.
	f.RCU = 1 + pageRCU(inlineFollowers) + 1 + 1.5*pages + 2*plans + 2*chunks
	// Chunks are sent in tens, at first in ones, twos, fours and eights; at worst each
	// message is received and deleted alone.
	messages := plans + chunks
	f.SQS = 2*messages + math.Min(messages, plans+math.Ceil(chunks/requestMessages)+3)
	f.Stored = (planBytes + chunks*chunkBytes) / 1e9
	return f
}

// pageRCU is a page of followers, read consistently.
func pageRCU(followers float64) float64 {
	return math.Max(1, math.Ceil(followers*followerBytes/readBytes))
}

func way(l Load, p Prices, push bool) Way {
	posts, reads, likes := l.Users*l.PostsPerDay, l.Users*l.ReadsPerDay, l.Users*l.LikesPerDay
	deliveries := posts * l.Followers
	post := Flow{
		Name: "posts", WCU: posts * postWCU, RCU: posts * postRCU, SQS: posts * messageRequests,
		CPU: posts / l.RequestsPerCPU, Stored: posts * l.KeptDays * postBytes / 1e9,
	}
	home := Flow{Name: "homes", RCU: reads * homePushRCU, CPU: reads / l.RequestsPerCPU}
	fanout := Flow{Name: "fan-out"}
	if push {
		fanout = delivery(l.Followers).times(posts)
		fanout.CPU = deliveries / l.DeliveriesPerCPU
		fanout.Stored = fanout.Stored*l.KeptDays + deliveries*l.TimelineDays*entryBytes/1e9
	} else {
		home.RCU += reads * l.Followers * followeeRCU
		// A query of a post list costs about as much CPU as a tenth of a request.
		home.CPU += reads * l.Followers / (10 * l.RequestsPerCPU)
	}
	perLike, stored := likeWCU+countWCU/l.LikesAWindow, float64(likeBytes)
	if l.LikesByUser {
		perLike, stored = perLike+indexWCU, indexedLikeBytes
	}
	like := Flow{
		Name: "likes", WCU: likes * perLike, RCU: likes * (likeRCU + countRCU/l.LikesAWindow),
		SQS: likes * messageRequests / math.Min(requestMessages, math.Max(1, l.LikesAWindow)),
		CPU: likes/l.RequestsPerCPU + likes/l.LikesPerCPU, Stored: likes * l.KeptDays * stored / 1e9,
	}
	w := Way{Flows: []Flow{post, fanout, home, like}}
	w.Total = Flow{Name: "all", Stored: l.Users * l.Followers * edgeBytes / 1e9}
	for _, f := range w.Flows {
		w.Total = w.Total.plus(f)
	}
	peak := l.Peak / secondsADay
	w.PeakWCU, w.PeakRCU = w.Total.WCU*peak, w.Total.RCU*peak
	cpus := func(seconds float64) float64 { return math.Max(1, math.Ceil(seconds*peak/l.Utilisation)) }
	w.APIWorkers = cpus(post.CPU + home.CPU + likes/l.RequestsPerCPU)
	w.FanoutWorkers, w.LikeWorkers = cpus(fanout.CPU), cpus(likes/l.LikesPerCPU)
	const million = 1e6
	b := Bill{
		Writes: w.Total.WCU * daysAMonth * p.WCU / million, Reads: w.Total.RCU * daysAMonth * p.RCU / million,
		Queues: w.Total.SQS * daysAMonth * p.SQS / million, Storage: w.Total.Stored * p.Storage,
		CPUs: (w.APIWorkers + w.FanoutWorkers + w.LikeWorkers) * 24 * daysAMonth * p.CPU,
	}
	b.Total = b.Writes + b.Reads + b.Queues + b.Storage + b.CPUs
	w.Bill = b
	return w
}

// limits says which limits of AWS the load meets.
func limits(l Load, m Model) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if m.Push.PeakWCU > 4000 {
		say("a new on-demand table takes 4,000 WCU/s at first: warm it to %s before the start", number(m.Push.PeakWCU))
	}
	if m.Push.PeakWCU > tableWCU {
		say("the table quota of %s WCU/s, by default, is below the peak of %s: have it raised", number(tableWCU), number(m.Push.PeakWCU))
	}
	if m.Push.PeakRCU > tableWCU {
		say("the table quota of %s RCU/s, by default, is below the peak of %s: have it raised", number(tableWCU), number(m.Push.PeakRCU))
	}
	if perSecond := l.LikesAWindow * (1 + b2f(l.LikesByUser)); perSecond > partitionWCU {
		say("a post with %s likes a window meets the %d WCU/s of its like list's partition: like lists are sharded by the author's followers",
			number(l.LikesAWindow), partitionWCU)
	}
	if l.Followers > m.PullLimit {
		say("an author pulled by %s followers meets the %d RCU/s of a partition at %s followers", number(l.Followers), partitionRCU, number(m.PullLimit))
	}
	return out
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// String is the model for people.
func (m Model) String() string {
	var s strings.Builder
	l := m.Load
	fmt.Fprintf(&s, "%s users, %s followers each; each day %s posts, %s home reads, %s likes each; peak %s x the average\n\n",
		number(l.Users), number(l.Followers), number(l.PostsPerDay), number(l.ReadsPerDay), number(l.LikesPerDay), number(l.Peak))
	for _, w := range []struct {
		name string
		way  Way
	}{{"push", m.Push}, {"pull", m.Pull}} {
		fmt.Fprintf(&s, "%-10s %18s %18s %18s %12s\n", w.name, "WCU/day", "RCU/day", "SQS requests/day", "stored GB")
		for _, f := range append(w.way.Flows, w.way.Total) {
			fmt.Fprintf(&s, "  %-8s %18s %18s %18s %12s\n", f.Name, number(math.Round(f.WCU)), number(math.Round(f.RCU)), number(math.Round(f.SQS)), number(f.Stored))
		}
		fmt.Fprintf(&s, "  at the peak %s WCU/s, %s RCU/s; CPUs: %s api, %s fanout, %s likeagg\n",
			number(w.way.PeakWCU), number(w.way.PeakRCU), number(w.way.APIWorkers), number(w.way.FanoutWorkers), number(w.way.LikeWorkers))
		b := w.way.Bill
		fmt.Fprintf(&s, "  a month $%s: writes $%s, reads $%s, queues $%s, storage $%s, CPUs $%s\n\n",
			number(b.Total), number(b.Writes), number(b.Reads), number(b.Queues), number(b.Storage), number(b.CPUs))
	}
	if m.PullCheaper == "always" {
		fmt.Fprintf(&s, "pulling an author is cheaper at any number of followers: followers read too seldom for the posts\n")
	} else {
		fmt.Fprintf(&s, "pulling an author is cheaper below %s followers, pushing above\n", number(m.Crossover))
	}
	fmt.Fprintf(&s, "an author's post list serves %s followers by pull, then its partition is at its limit\n", number(m.PullLimit))
	for _, limit := range m.Limits {
		fmt.Fprintf(&s, "limit: %s\n", limit)
	}
	return s.String()
}
