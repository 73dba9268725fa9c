// Package capacity estimates the cost of a load on AWS: capacity units, queue requests,
// storage, CPUs and dollars, served by push or by pull. It multiplies units that tests
// measure on the product's own code by a load that the caller gives; `fanfare capacity`
// prints the result.
//
// It must never measure, nor call anybody: the same load and prices give the same
// estimate on every machine. No invariant depends on it.
package capacity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// The units of the product, with user ids of 36 characters. Tests (TestTheEstimateHas…)
// compare each with docs/ACCESS_PATTERNS.md, with a fan-out and an aggregator that run,
// or with the size of an item. Rates depend on the machine: they are in Load, with
// defaults from docs/PERFORMANCE.md.
const (
	postWCU, postRCU   = 9, 2   // the post's transaction and its place in the index, and the reads of the API before it
	homePushRCU        = 32.5   // a page of 20
	likesByKeyRCU      = 9.5    // more for it without the index of likes by user
	followeeRCU        = 1      // each followee's post list, in a home by pull
	mutesRCU           = 1      // the reader's mutes, in a home by pull
	likeWCU, indexWCU  = 1, 1   // the like, and its place in the index by user
	likeRCU            = 3.5    // the reads of the API
	countWCU, countRCU = 1, 0.5 // of a window: the count, and a look at the post
	messageRequests    = 3      // to send, receive and delete one message alone
	requestMessages    = 10     // the most messages of one queue request
	inlineFollowers    = 4096   // up to here a delivery is one chunk, without a plan
	chunkFollowers     = 4000   // of a chunk
	planChunks         = 50     // of one message to a planner
	followerBytes      = 102    // a follower's edge, as DynamoDB bills a page of them
	followeeBytes      = 133    // the edge on the reader's side
	returnFew          = 50     // the most entries that a return writes, for a reader of up to
	returnFollowees    = 100    // so many followees,
	returnMany         = 200    // and for one of more
	refreshWCU         = 2      // the day in the counts and the presence, beside an edge each
	returnWCU          = 3      // and the presence before it
	refreshAhead       = 7      // the most days before the last one that a refresh comes
	readBytes          = 4096   // of a read unit

	// Stored, with the 100 bytes that DynamoDB adds to each item.
	entryBytes       = 226
	edgeBytes        = 435 // both edges of a follow
	likeBytes        = 232
	indexedLikeBytes = 630  // in the table and, whole, in the index by user
	postBytes        = 1003 // the post, of 280 characters and a byline of 80, and the post by id, which is in the index
	recordKeptDays   = 31   // how long a delivery record outlives the entries
	planBytes        = 222
	lastChunkBytes   = 174 // the only chunk of an inline delivery
	chunkBytes       = 245

	partitionRCU, partitionWCU = 3000, 1000
	tableWCU                   = 40_000 // the default quota of an on-demand table
	daysAMonth                 = 30.4
	secondsADay                = 86_400
)

// Load is a network of users, and the speed of one CPU.
type Load struct {
	Users     float64 `json:"users"`
	Followers float64 `json:"followers"`
	// The next three count one user's actions in one day.
	PostsPerDay float64 `json:"posts_per_day"`
	ReadsPerDay float64 `json:"reads_per_day"`
	LikesPerDay float64 `json:"likes_per_day"`
	// LikesAWindow is m: the likes of one post that one window collects.
	LikesAWindow float64 `json:"likes_a_window"`
	LikesByUser  bool    `json:"likes_by_user"`
	// AwayShare is the share of away users, and of deliveries that fan-out skips.
	// PulledShare is the share of deliveries whose authors are pulled. Both are from 0 to 1.
	AwayShare   float64 `json:"away_share"`
	PulledShare float64 `json:"pulled_share"`
	// PulledPosts is how many posts a pulled author makes in a day: the more, the fewer of
	// them a home has to read.
	PulledPosts float64 `json:"pulled_posts_per_day"`
	// ActiveDays is FANFARE_ACTIVE_DAYS. ReturnsPerDay are those of an away user.
	ActiveDays    float64 `json:"active_days"`
	ReturnsPerDay float64 `json:"returns_per_day"`
	TimelineDays  float64 `json:"timeline_days"`
	KeptDays      float64 `json:"kept_days"`
	// Peak is the busiest second divided by the average one.
	Peak float64 `json:"peak"`
	// The next three are the work of one CPU-second. Utilisation is how busy a CPU
	// may be at the peak.
	DeliveriesPerCPU float64 `json:"deliveries_per_cpu_second"`
	RequestsPerCPU   float64 `json:"requests_per_cpu_second"`
	LikesPerCPU      float64 `json:"likes_per_cpu_second"`
	Utilisation      float64 `json:"utilisation"`
}

// Prices are in dollars.
type Prices struct {
	WCU float64 `json:"per_million_wcu"`
	RCU float64 `json:"per_million_rcu"`
	SQS float64 `json:"per_million_sqs_requests"`
	// Group is the surcharge for messages with a group id, as all of Fanfare's are.
	Group   float64 `json:"per_million_group_messages"`
	Storage float64 `json:"per_gb_month"`
	CPU     float64 `json:"per_cpu_hour"`
	// ProvisionedWCU and ProvisionedRCU are for a provisioned unit in an hour. TableUse is the
	// share of provisioned units that is used, Reserved the share that is reserved, and Discount
	// the part of the price that a reserved unit saves. These three are from 0 to 1.
	ProvisionedWCU float64 `json:"per_provisioned_wcu_hour"`
	ProvisionedRCU float64 `json:"per_provisioned_rcu_hour"`
	TableUse       float64 `json:"table_use"`
	Reserved       float64 `json:"reserved_share"`
	Discount       float64 `json:"reserved_discount"`
}

// DefaultLoad returns a network of a million users.
func DefaultLoad() Load {
	return Load{
		Users: 1e6, Followers: 100, PostsPerDay: 1, ReadsPerDay: 10, LikesPerDay: 5, LikesAWindow: 1, LikesByUser: true,
		PulledPosts: 10, ActiveDays: 14, ReturnsPerDay: 0.02, TimelineDays: 30, KeptDays: 365, Peak: 3,
		DeliveriesPerCPU: 200_000, RequestsPerCPU: 2000, LikesPerCPU: 5000, Utilisation: 0.5,
	}
}

// DefaultPrices returns the prices of us-east-1 in November 2026, to the best of our
// knowledge; docs/CAPACITY.md has the sources. Users give their own.
func DefaultPrices() Prices {
	return Prices{
		WCU: 0.625, RCU: 0.125, SQS: 0.40, Group: 0.10, Storage: 0.25, CPU: 0.05,
		ProvisionedWCU: 0.00065, ProvisionedRCU: 0.00013, TableUse: 0.7, Reserved: 0.5, Discount: 0.54,
	}
}

// Flags adds flags that set l.
func (l *Load) Flags(f *pflag.FlagSet) {
	f.Float64Var(&l.Users, "users", l.Users, "users")
	f.Float64Var(&l.Followers, "followers", l.Followers, "average followers of a user, and as many followees")
	f.Float64Var(&l.PostsPerDay, "posts-per-day", l.PostsPerDay, "posts of a user in a day")
	f.Float64Var(&l.ReadsPerDay, "reads-per-day", l.ReadsPerDay, "home pages that a user reads in a day")
	f.Float64Var(&l.LikesPerDay, "likes-per-day", l.LikesPerDay, "likes of a user in a day")
	f.Float64Var(&l.LikesAWindow, "likes-a-window", l.LikesAWindow, "likes of one post that one window collects")
	f.BoolVar(&l.LikesByUser, "likes-by-user", l.LikesByUser, "keep the index of likes by user")
	f.Float64Var(&l.AwayShare, "away-share", l.AwayShare, "away users, and deliveries that are skipped, from 0 to 1")
	f.Float64Var(&l.PulledShare, "pulled-share", l.PulledShare, "deliveries whose authors are pulled, from 0 to 1 (FANFARE_PUSH_LIMIT)")
	f.Float64Var(&l.PulledPosts, "pulled-posts-per-day", l.PulledPosts, "posts of a pulled author in a day")
	f.Float64Var(&l.ActiveDays, "active-days", l.ActiveDays, "days that an edge is dated ahead, if users are away (FANFARE_ACTIVE_DAYS)")
	f.Float64Var(&l.ReturnsPerDay, "returns-per-day", l.ReturnsPerDay, "returns of an away user in a day")
	f.Float64Var(&l.TimelineDays, "timeline-days", l.TimelineDays, "days that an entry stays in a timeline (FANFARE_TIMELINE_TTL)")
	f.Float64Var(&l.KeptDays, "kept-days", l.KeptDays, "days that posts and likes are kept")
	f.Float64Var(&l.Peak, "peak", l.Peak, "the busiest second divided by the average one")
	f.Float64Var(&l.DeliveriesPerCPU, "deliveries-per-cpu-second", l.DeliveriesPerCPU, "deliveries of a fan-out worker per CPU-second (T3)")
	f.Float64Var(&l.RequestsPerCPU, "requests-per-cpu-second", l.RequestsPerCPU, "HTTP requests that an API process answers per CPU-second")
	f.Float64Var(&l.LikesPerCPU, "likes-per-cpu-second", l.LikesPerCPU, "likes that an aggregator counts per CPU-second")
	f.Float64Var(&l.Utilisation, "utilisation", l.Utilisation, "how busy a CPU may be at the peak, from 0 to 1")
}

// Flags adds flags that set p.
func (p *Prices) Flags(f *pflag.FlagSet) {
	f.Float64Var(&p.WCU, "price-wcu", p.WCU, "dollars for a million write units")
	f.Float64Var(&p.RCU, "price-rcu", p.RCU, "dollars for a million read units")
	f.Float64Var(&p.SQS, "price-sqs", p.SQS, "dollars for a million queue requests")
	f.Float64Var(&p.Group, "price-sqs-group", p.Group, "dollars more for a million messages with a group id")
	f.Float64Var(&p.Storage, "price-storage", p.Storage, "dollars for a GB in a month")
	f.Float64Var(&p.CPU, "price-cpu", p.CPU, "dollars for a CPU with its memory in an hour")
	f.Float64Var(&p.ProvisionedWCU, "price-provisioned-wcu", p.ProvisionedWCU, "dollars for a provisioned write unit in an hour")
	f.Float64Var(&p.ProvisionedRCU, "price-provisioned-rcu", p.ProvisionedRCU, "dollars for a provisioned read unit in an hour")
	f.Float64Var(&p.TableUse, "table-use", p.TableUse, "share of provisioned units that is used, above 0 to 1")
	f.Float64Var(&p.Reserved, "reserved-share", p.Reserved, "share of provisioned units that is reserved, from 0 to 1")
	f.Float64Var(&p.Discount, "reserved-discount", p.Discount, "part of the price that a reserved unit saves, from 0 to 1")
}

// Check returns an error if a value of l is impossible.
func (l Load) Check() error {
	for _, f := range []struct {
		name     string
		value    float64
		positive bool // 0 is refused too
	}{
		{"users", l.Users, true}, {"followers", l.Followers, false}, {"posts-per-day", l.PostsPerDay, false},
		{"reads-per-day", l.ReadsPerDay, false}, {"likes-per-day", l.LikesPerDay, false}, {"likes-a-window", l.LikesAWindow, true},
		{"away-share", l.AwayShare, false}, {"pulled-share", l.PulledShare, false}, {"pulled-posts-per-day", l.PulledPosts, true}, {"active-days", l.ActiveDays, true}, {"returns-per-day", l.ReturnsPerDay, false},
		{"timeline-days", l.TimelineDays, false}, {"kept-days", l.KeptDays, false}, {"peak", l.Peak, true},
		{"deliveries-per-cpu-second", l.DeliveriesPerCPU, true}, {"requests-per-cpu-second", l.RequestsPerCPU, true},
		{"likes-per-cpu-second", l.LikesPerCPU, true}, {"utilisation", l.Utilisation, true},
	} {
		if f.value < 0 || (f.positive && f.value == 0) || math.IsNaN(f.value) || math.IsInf(f.value, 0) {
			return fmt.Errorf("--%s: %v is not a possible value", f.name, f.value)
		}
	}
	if l.Utilisation > 1 {
		return errors.New("--utilisation: a CPU cannot be busier than 1")
	}
	if l.AwayShare > 1 || l.PulledShare > 1 {
		return errors.New("--away-share and --pulled-share: no share is above 1")
	}
	if l.ActiveDays < 2 {
		return errors.New("--active-days: at least 2, as FANFARE_ACTIVE_DAYS")
	}
	return nil
}

// Check returns an error if a price is impossible.
func (p Prices) Check() error {
	for _, v := range []float64{p.WCU, p.RCU, p.SQS, p.Group, p.Storage, p.CPU, p.ProvisionedWCU, p.ProvisionedRCU, p.TableUse, p.Reserved, p.Discount} {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("a price cannot be negative")
		}
	}
	if p.TableUse == 0 || p.TableUse > 1 || p.Reserved > 1 || p.Discount > 1 {
		return errors.New("--table-use must be above 0, and no share is above 1")
	}
	return nil
}

// Flow is one part of the load: one day of all users.
type Flow struct {
	Name string  `json:"name"`
	WCU  float64 `json:"wcu_per_day"`
	RCU  float64 `json:"rcu_per_day"`
	SQS  float64 `json:"sqs_requests_per_day"`
	// Messages are sent with a group id.
	Messages float64 `json:"messages_per_day"`
	// CPU is in CPU-seconds.
	CPU float64 `json:"cpu_s_per_day"`
	// Stored is how many GB stay in the table in the long run.
	Stored float64 `json:"stored_gb"`
}

func (f Flow) plus(g Flow) Flow {
	return Flow{f.Name, f.WCU + g.WCU, f.RCU + g.RCU, f.SQS + g.SQS, f.Messages + g.Messages, f.CPU + g.CPU, f.Stored + g.Stored}
}

func (f Flow) times(n float64) Flow {
	return Flow{f.Name, n * f.WCU, n * f.RCU, n * f.SQS, n * f.Messages, n * f.CPU, n * f.Stored}
}

// Bill is the cost of a month in dollars.
type Bill struct {
	Writes  float64 `json:"writes"`
	Reads   float64 `json:"reads"`
	Queues  float64 `json:"queues"`
	Storage float64 `json:"storage"`
	CPUs    float64 `json:"cpus"`
	Total   float64 `json:"total"`
	// Provisioned is the total with provisioned capacity, a part of it reserved, in place of
	// capacity on demand.
	Provisioned float64 `json:"total_provisioned"`
}

// Way is the load served in one of two ways: by push or by pull.
type Way struct {
	Flows []Flow `json:"flows"`
	Total Flow   `json:"total"`
	Bill  Bill   `json:"dollars_per_month"`
	// PeakWCU and PeakRCU are the units of the busiest second.
	PeakWCU float64 `json:"peak_wcu_per_s"`
	PeakRCU float64 `json:"peak_rcu_per_s"`
	// The next three are the CPUs that each kind of process needs at the peak.
	APIWorkers    float64 `json:"api_cpus"`
	FanoutWorkers float64 `json:"fanout_cpus"`
	LikeWorkers   float64 `json:"like_cpus"`
}

// Estimate is the cost of a load.
type Estimate struct {
	Load   Load   `json:"load"`
	Prices Prices `json:"prices"`
	Push   Way    `json:"push"`
	Pull   Way    `json:"pull"`
	// PullCheaper says for which authors pulling costs less than pushing: "below"
	// means those with fewer followers than Crossover, "always" means all.
	PullCheaper string  `json:"pull_cheaper"`
	Crossover   float64 `json:"crossover_followers"`
	// PullLimit is the number of followers whose reads of one author's posts reach
	// the limit of a partition.
	PullLimit float64  `json:"pull_limit_followers"`
	Limits    []string `json:"limits"`
}

// New estimates the cost of l at p, which the caller has checked.
func New(l Load, p Prices) Estimate {
	e := Estimate{Load: l, Prices: p, Push: way(l, p, true), Pull: way(l, p, false)}

	// Costs of one author in one day. Pushing costs the entries and, once for each
	// post, the delivery record. Pulling costs a query of the author's posts in each
	// read.
	const million = 1e6
	entry := (p.WCU+p.RCU*followerBytes/readBytes)/million + p.Storage*entryBytes/1e9*l.TimelineDays/daysAMonth
	push := l.PostsPerDay * entry
	fixed := l.PostsPerDay * ((2*p.WCU+p.RCU)/million + p.Storage*(planBytes+lastChunkBytes)/1e9*l.recordDays()/daysAMonth)
	pull := l.ReadsPerDay * followeeRCU * p.RCU / million
	e.PullCheaper = "always"
	if pull > push {
		e.PullCheaper, e.Crossover = "below", fixed/(pull-push)
	}
	e.PullLimit = math.Inf(1)
	if l.ReadsPerDay > 0 {
		e.PullLimit = partitionRCU * secondsADay / (l.ReadsPerDay * l.Peak)
	}
	e.PullLimit = math.Min(e.PullLimit, math.MaxInt64)
	e.Limits = limits(l, e)
	return e
}

// recordDays is how many days a delivery record stays.
func (l Load) recordDays() float64 { return l.TimelineDays + recordKeptDays }

// delivery is the cost of one post's fan-out, without CPU time. Stored counts the
// delivery record only.
func delivery(followers float64) Flow {
	// It reads the post, the author's mode and all followers, and writes their entries, the plan and
	// the chunk.
	f := Flow{Name: "fan-out", WCU: followers + 2, RCU: 2 + pageRCU(followers), Stored: (planBytes + lastChunkBytes) / 1e9}
	if followers <= inlineFollowers {
		return f
	}
	chunks := math.Ceil(followers / chunkFollowers)
	plans := math.Ceil(chunks / planChunks)
	pages := (chunks-1)*pageRCU(chunkFollowers) + pageRCU(followers-(chunks-1)*chunkFollowers)
	f.WCU = followers + 1 + 2*chunks // a chunk is written twice: stored, then marked done
	// The first message reads the post, a page that only shows that there are more
	// followers, and the count of followers. Planners then read all followers at half
	// price, and chunks read them again. Each plan and each chunk also reads the post
	// and the delivery record, each chunk the plan, and each plan but the first a page of
	// the chunks before it, for two units.
	f.RCU = 1 + pageRCU(inlineFollowers) + 1 + 1.5*pages + 2*plans + 2*(plans-1) + 3*chunks
	// Chunks are sent in tens, the first ones in ones, twos, fours and eights. At worst
	// each message is received and deleted alone.
	messages := plans + chunks
	f.Messages = messages
	f.SQS = 2*messages + math.Min(messages, plans+math.Ceil(chunks/requestMessages)+3)
	f.Stored = (planBytes + chunks*chunkBytes) / 1e9
	return f
}

// away is the cost of a day of the readers who come and go: edges are dated for a time, and
// raised before it ends, and a return raises them, reads the followees' posts and writes the
// newest ones as entries.
func (l Load) away() Flow {
	f := Flow{Name: "away"}
	if l.AwayShare == 0 {
		return f
	}
	followees := math.Max(1, math.Ceil(l.Followers*followeeBytes/readBytes))
	refreshes := l.Users * (1 - l.AwayShare) / (l.ActiveDays - math.Min(refreshAhead, l.ActiveDays/2))
	returns := l.Users * l.AwayShare * l.ReturnsPerDay
	entries := math.Min(returnEntries(l.Followers), l.Followers*l.PostsPerDay*l.TimelineDays)
	f.WCU = refreshes*(l.Followers+refreshWCU) + returns*(l.Followers+returnWCU+entries)
	f.RCU = refreshes*(1+followees) + returns*(1+2*followees+l.Followers)
	f.Messages = refreshes + returns
	f.SQS = f.Messages * messageRequests
	f.CPU = (f.WCU + f.RCU) / l.DeliveriesPerCPU
	f.Stored = returns * entries * l.TimelineDays * entryBytes / 1e9
	return f
}

// returnEntries is the most entries that a return writes.
func returnEntries(followees float64) float64 {
	if followees > returnFollowees {
		return returnMany
	}
	return returnFew
}

// pageRCU is the price of a page of followers, read consistently.
func pageRCU(followers float64) float64 {
	return math.Max(1, math.Ceil(followers*followerBytes/readBytes))
}

func way(l Load, p Prices, push bool) Way {
	posts, reads, likes := l.Users*l.PostsPerDay, l.Users*l.ReadsPerDay, l.Users*l.LikesPerDay
	post := Flow{
		Name: "posts", WCU: posts * postWCU, RCU: posts * postRCU, SQS: posts * messageRequests, Messages: posts,
		CPU: posts / l.RequestsPerCPU, Stored: posts * l.KeptDays * postBytes / 1e9,
	}
	home := Flow{Name: "homes", RCU: reads * homePushRCU, CPU: reads / l.RequestsPerCPU}
	if !l.LikesByUser {
		home.RCU += reads * likesByKeyRCU
	}
	fanout, away := Flow{Name: "fan-out"}, Flow{Name: "away"}
	if push {
		// A pulled author's followers are not read. Those of others are, and the away ones skipped.
		fanout = delivery(l.Followers).times(posts * (1 - l.PulledShare))
		read := posts * (1 - l.PulledShare) * l.Followers
		fanout.WCU -= read * l.AwayShare
		fanout.CPU = read / l.DeliveriesPerCPU
		fanout.Stored = fanout.Stored*l.recordDays() + read*(1-l.AwayShare)*l.TimelineDays*entryBytes/1e9
		// A home reads the list of each pulled followee.
		home.RCU += reads * math.Min(l.Followers, l.PulledShare*l.Followers*l.PostsPerDay/l.PulledPosts) * followeeRCU
		away = l.away()
	} else {
		home.RCU += reads * (l.Followers*followeeRCU + mutesRCU)
		// A query of a post list takes about a tenth of a request's CPU time.
		home.CPU += reads * l.Followers / (10 * l.RequestsPerCPU)
	}
	perLike, stored := likeUnits(l)+countWCU/l.LikesAWindow, float64(likeBytes)
	if l.LikesByUser {
		stored = indexedLikeBytes
	}
	like := Flow{
		Name: "likes", WCU: likes * perLike, RCU: likes * (likeRCU + countRCU/l.LikesAWindow),
		Messages: likes, SQS: likes * messageRequests / math.Min(requestMessages, math.Max(1, l.LikesAWindow)),
		CPU: likes/l.RequestsPerCPU + likes/l.LikesPerCPU, Stored: likes * l.KeptDays * stored / 1e9,
	}
	w := Way{Flows: []Flow{post, fanout, home, like}}
	if away.WCU > 0 {
		w.Flows = append(w.Flows, away)
	}
	w.Total = Flow{Name: "all", Stored: l.Users * l.Followers * edgeBytes / 1e9}
	for _, f := range w.Flows {
		w.Total = w.Total.plus(f)
	}
	peak := l.Peak / secondsADay
	w.PeakWCU, w.PeakRCU = w.Total.WCU*peak, w.Total.RCU*peak
	cpus := func(seconds float64) float64 { return math.Max(1, math.Ceil(seconds*peak/l.Utilisation)) }
	w.APIWorkers = cpus(post.CPU + home.CPU + likes/l.RequestsPerCPU)
	w.FanoutWorkers, w.LikeWorkers = cpus(fanout.CPU+away.CPU), cpus(likes/l.LikesPerCPU)
	const million = 1e6
	b := Bill{
		Writes: w.Total.WCU * daysAMonth * p.WCU / million, Reads: w.Total.RCU * daysAMonth * p.RCU / million,
		Queues: (w.Total.SQS*p.SQS + w.Total.Messages*p.Group) * daysAMonth / million, Storage: w.Total.Stored * p.Storage,
		CPUs: (w.APIWorkers + w.FanoutWorkers + w.LikeWorkers) * 24 * daysAMonth * p.CPU,
	}
	b.Total = b.Writes + b.Reads + b.Queues + b.Storage + b.CPUs
	// A provisioned unit serves one unit in each second.
	hours := (w.Total.WCU*p.ProvisionedWCU + w.Total.RCU*p.ProvisionedRCU) * daysAMonth / 3600 / p.TableUse
	b.Provisioned = b.Total - b.Writes - b.Reads + hours*(1-p.Reserved*p.Discount)
	w.Bill = b
	return w
}

// limits names the limits of AWS that the load reaches.
func limits(l Load, e Estimate) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if e.Push.PeakWCU > 4000 {
		say("a new on-demand table takes 4,000 WCU/s at first: warm it to %s before the start", Number(e.Push.PeakWCU))
	}
	if e.Push.PeakWCU > tableWCU {
		say("the table quota of %s WCU/s, by default, is below the peak of %s: have it raised", Number(tableWCU), Number(e.Push.PeakWCU))
	}
	if e.Push.PeakRCU > tableWCU {
		say("the table quota of %s RCU/s, by default, is below the peak of %s: have it raised", Number(tableWCU), Number(e.Push.PeakRCU))
	}
	if perSecond := l.LikesAWindow * likeUnits(l); perSecond > partitionWCU {
		say("a post with %s likes a window meets the %d WCU/s of its like list's partition: like lists are sharded by the author's followers",
			Number(l.LikesAWindow), partitionWCU)
	}
	if l.Followers > e.PullLimit {
		say("an author pulled by %s followers meets the %d RCU/s of a partition at %s followers", Number(l.Followers), partitionRCU, Number(e.PullLimit))
	}
	return out
}

// likeUnits is the write units of one like without its part of the count.
func likeUnits(l Load) float64 {
	if l.LikesByUser {
		return likeWCU + indexWCU
	}
	return likeWCU
}

// String is the estimate as `fanfare capacity` prints it.
func (e Estimate) String() string {
	var s strings.Builder
	l := e.Load
	fmt.Fprintf(&s, "%s users, %s followers each; each day %s posts, %s home reads, %s likes each; peak %s x the average\n\n",
		Number(l.Users), Number(l.Followers), Number(l.PostsPerDay), Number(l.ReadsPerDay), Number(l.LikesPerDay), Number(l.Peak))
	for _, w := range []struct {
		name string
		way  Way
	}{{"push", e.Push}, {"pull", e.Pull}} {
		fmt.Fprintf(&s, "%-10s %18s %18s %18s %12s\n", w.name, "WCU/day", "RCU/day", "SQS requests/day", "stored GB")
		for _, f := range append(w.way.Flows, w.way.Total) {
			fmt.Fprintf(&s, "  %-8s %18s %18s %18s %12s\n", f.Name, Number(math.Round(f.WCU)), Number(math.Round(f.RCU)), Number(math.Round(f.SQS)), Number(f.Stored))
		}
		fmt.Fprintf(&s, "  at the peak %s WCU/s, %s RCU/s; CPUs: %s api, %s fanout, %s likeagg\n",
			Number(w.way.PeakWCU), Number(w.way.PeakRCU), Number(w.way.APIWorkers), Number(w.way.FanoutWorkers), Number(w.way.LikeWorkers))
		b := w.way.Bill
		fmt.Fprintf(&s, "  a month $%s: writes $%s, reads $%s, queues $%s, storage $%s, CPUs $%s; with provisioned capacity $%s\n\n",
			Number(b.Total), Number(b.Writes), Number(b.Reads), Number(b.Queues), Number(b.Storage), Number(b.CPUs), Number(b.Provisioned))
	}
	if e.PullCheaper == "always" {
		fmt.Fprintf(&s, "pulling an author is cheaper at any number of followers: followers read too seldom for the posts\n")
	} else {
		fmt.Fprintf(&s, "pulling an author is cheaper below %s followers, pushing above\n", Number(e.Crossover))
	}
	fmt.Fprintf(&s, "an author's post list serves %s followers by pull, then its partition is at its limit\n", Number(e.PullLimit))
	for _, limit := range e.Limits {
		fmt.Fprintf(&s, "limit: %s\n", limit)
	}
	return s.String()
}

// Number prints three significant digits, and groups the digits of large numbers by three.
func Number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "?"
	case v == 0:
		return "0"
	case math.Abs(v) < 1000:
		digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
		text := strconv.FormatFloat(v, 'f', max(0, digits), 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	text := strconv.FormatInt(int64(math.Round(v)), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
