package capacity

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/internal/feed/access"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/daemon"
	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// These tests compare each unit that an estimate multiplies with the product: they
// measure it, or read it from docs/ACCESS_PATTERNS.md, which feed's tests hold. The units
// of an aggregator are compared in bench, which runs one.

// flow returns the flow of w with a name.
func flow(t *testing.T, w Way, name string) Flow {
	t.Helper()
	for _, f := range w.Flows {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no flow %q", name)
	return Flow{}
}

// one estimates the load of a single user, idle but for the settings of change.
func one(change func(*Load)) Estimate {
	l := DefaultLoad()
	l.Users, l.Followers, l.PostsPerDay, l.ReadsPerDay, l.LikesPerDay, l.LikesByUser = 1, 20, 0, 0, 0, false
	change(&l)
	return New(l, DefaultPrices())
}

const month = 30 * 24 * time.Hour

func TestTheEstimateHasTheUnitsOfTheAccessPatterns(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "ACCESS_PATTERNS.md"))
	require.NoError(t, err)
	// unit reads a column of the row whose first column is name.
	unit := func(name string, column int) float64 {
		for line := range strings.Lines(string(page)) {
			cells := strings.Split(line, "|")
			if len(cells) < 2 || regexp.MustCompile(`^[0-9]+\. `).ReplaceAllString(strings.TrimSpace(cells[1]), "") != name {
				continue
			}
			if v, err := strconv.ParseFloat(strings.TrimSpace(cells[column]), 64); err == nil {
				return v
			}
		}
		t.Fatalf("docs/ACCESS_PATTERNS.md has no %q with a number in column %d", name, column)
		return 0
	}
	const readRCU, writeRCU, writeWCU = 4, 4, 5
	post := one(func(l *Load) { l.PostsPerDay = 1 })
	home := one(func(l *Load) { l.ReadsPerDay, l.LikesByUser = 1, true })
	like := one(func(l *Load) { l.LikesPerDay, l.LikesAWindow = 1, math.MaxFloat64 })
	indexed := one(func(l *Load) { l.LikesPerDay, l.LikesAWindow, l.LikesByUser = 1, math.MaxFloat64, true })
	puts := regexp.MustCompile(`put of a like costs (\d+) WCU, and (\d+) with`).FindSubmatch(page)
	require.NotNil(t, puts, "docs/ACCESS_PATTERNS.md does not state the cost of putting a like")
	put := func(i int) float64 {
		v, err := strconv.ParseFloat(string(puts[i]), 64)
		require.NoError(t, err)
		return v
	}
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"post, writes", flow(t, post.Push, "posts").WCU, unit("post", writeWCU)},
		{"post, reads", flow(t, post.Push, "posts").RCU, unit("post", writeRCU)},
		{"home by push", flow(t, home.Push, "homes").RCU, unit("home by push", readRCU)},
		{"home by pull, of the sample's 20 followees", flow(t, home.Pull, "homes").RCU, unit("home by pull", readRCU)},
		{"like, reads of the API", flow(t, like.Push, "likes").RCU, unit("like or unlike", writeRCU)},
		{"like, writes", flow(t, like.Push, "likes").WCU, unit("like or unlike", writeWCU) + put(1)},
		{"like, writes with the index", flow(t, indexed.Push, "likes").WCU, unit("like or unlike", writeWCU) + put(2)},
	} {
		assert.Truef(t, near(tt.got, tt.want),
			"%s: the estimate has %v, docs/ACCESS_PATTERNS.md has %v", tt.what, tt.got, tt.want)
	}
}

// outbox is a publisher that keeps the messages.
type outbox struct {
	sends  int
	queued []*message.Message
}

func (o *outbox) Close() error { return nil }

func (o *outbox) Publish(_ string, msgs ...*message.Message) error {
	o.sends++
	o.queued = append(o.queued, msgs...)
	return nil
}

func TestTheEstimateHasTheUnitsOfAFanOut(t *testing.T) {
	for _, followers := range []int{0, 1, 100, 1000, 4096, 4097, 10_000, 12_000, 210_000} {
		t.Run(fmt.Sprint(followers), func(t *testing.T) { holdFanOut(t, followers) })
	}
}

func holdFanOut(t *testing.T, followers int) {
	t.Helper()
	var mu sync.Mutex
	var units table.Units
	out := &outbox{}
	store := tabletest.NewMemory()
	measured := table.Measure(store, func(_ table.Op, u table.Units, _ error) {
		mu.Lock()
		defer mu.Unlock()
		units = units.Plus(u)
	})
	ids := id.NewGenerator(time.Now)
	f := feed.New(feed.Config{Access: access.New(access.Config{Store: measured, Publisher: out, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(month), Log: zap.NewNop()})})
	worker := fanout.New(fanout.Config{
		Store: measured, Posts: f, Publisher: out, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(month), Writers: 8, PageSize: daemon.PageSize,
	})
	assert.Equalf(t, float64(recordKeptDays*24), schema.DeliveryKept.Hours(),
		"a delivery record is kept for %s, the estimate has %d days", schema.DeliveryKept, recordKeptDays)
	if daemon.PageSize != inlineFollowers || fanout.DefaultChunkSize != chunkFollowers || fanout.DefaultPlanChunks != planChunks {
		t.Errorf("pages of %d, chunks of %d, plans of %d: the estimate has %d, %d, %d",
			daemon.PageSize, fanout.DefaultChunkSize, fanout.DefaultPlanChunks, inlineFollowers, chunkFollowers, planChunks)
	}
	author, since := strings.Repeat("a", 36), time.UnixMilli(1_763_712_000_123)
	_, err := f.PutProfile(t.Context(), author, feed.ProfileInput{Name: "A"})
	require.NoError(t, err)
	for from := 0; from < followers; from += 5000 {
		var writes []table.BatchWrite
		for i := from; i < min(from+5000, followers); i++ {
			edge := schema.FollowerItem(author, fmt.Sprintf("%036d", i), since)
			writes = append(writes, table.BatchWrite{Put: &edge})
		}
		if _, err := store.BatchWrite(t.Context(), writes); err != nil {
			t.Fatal(err)
		}
	}
	take := func() table.Units {
		mu.Lock()
		defer mu.Unlock()
		got := units
		units = table.Units{}
		return got
	}
	take()
	_, err = f.CreatePost(t.Context(), author, feed.PostInput{Text: strings.Repeat("x", 280)})
	require.NoError(t, err)
	post := take()
	postRequests := out.sends + 2*len(out.queued)
	messagesTaken := 0
	for out.sends = 0; messagesTaken < len(out.queued); messagesTaken++ {
		e, err := messages.Decode(out.queued[messagesTaken].Payload)
		require.NoError(t, err)
		handle := worker.HandleChunks
		if _, first := e.(*messages.PostCreated); first {
			handle = worker.HandlePosts
		}
		require.NoError(t, handle(t.Context(), e))
	}
	fanout, requests := take(), float64(out.sends+2*(messagesTaken-1))

	e := one(func(l *Load) { l.Followers, l.PostsPerDay = float64(followers), 1 })
	posts, deliveries := flow(t, e.Push, "posts"), flow(t, e.Push, "fan-out")
	if posts.WCU != post.Write || posts.RCU != post.Read || posts.SQS != float64(postRequests) {
		t.Errorf("the estimate of a post is %+v; it cost %+v and %d requests", posts, post, postRequests)
	}
	if deliveries.WCU != fanout.Write || deliveries.RCU != fanout.Read {
		t.Errorf("the estimate has %v WCU and %v RCU; the fan-out cost %v and %v", deliveries.WCU, deliveries.RCU, fanout.Write, fanout.Read)
	}
	// The estimate may be one too high: a planner's first sends are smaller.
	if deliveries.SQS < requests || deliveries.SQS > requests+1 {
		t.Errorf("the estimate has %v queue requests, the fan-out took %v", deliveries.SQS, requests)
	}
}

func TestTheEstimateHasTheSizesOfItems(t *testing.T) {
	const post = "01J00000000000000000000000"
	a, b := strings.Repeat("a", 36), strings.Repeat("b", 36)
	at := time.UnixMilli(1_763_712_000_123)
	sizes := func(items ...table.Item) (sum float64) {
		for _, it := range items {
			sum += float64(table.Size(it)) + 100
			if table.InIndex(&it) {
				sum += float64(table.Size(it)) + 100
			}
		}
		return sum
	}
	like := schema.Like{Post: post, User: a, Liked: true, Version: post, Flush: schema.Flush{Inc: "261121abcdef", Seq: 1}}
	byline := schema.Byline{Name: strings.Repeat("n", 20), ImageURL: strings.Repeat("i", 60), V: at.UnixMilli()}
	indexed := like
	indexed.Indexed = true
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"an entry", entryBytes, sizes(table.Item{
			Key: table.Key{PK: schema.TimelinePK(b), SK: schema.EntrySK(post, a)}, Attrs: schema.EntryAttrs(at.Add(month), 0),
		})},
		{"both edges", edgeBytes, sizes(schema.FollowerItem(a, b, at), schema.FollowingItem(b, a, at, post))},
		{"a follower", followerBytes, float64(table.Size(schema.FollowerItem(a, b, at)))},
		{"a post", postBytes, sizes(schema.Post{ID: post, Author: a, Text: strings.Repeat("x", 280), Byline: byline}.Item(), schema.PostRef{ID: post, Author: a}.Item())},
		{"a like", likeBytes, sizes(like.Item())},
		{"an indexed like", indexedLikeBytes, sizes(indexed.Item())},
		{"a plan", planBytes, sizes(schema.Plan{Post: post, Author: a, Planned: 101, Started: at, Attempts: 1, TTL: at}.Item())},
		{"the chunk of an inline delivery", lastChunkBytes, sizes(schema.Chunk{Post: post, Done: at, Delivered: 101, TTL: at}.Item())},
		{"a chunk", chunkBytes, sizes(schema.Chunk{Post: post, First: a, End: b, Done: at, Delivered: 4000, TTL: at}.Item())},
	} {
		// The size of a number depends on its digits, so an item may be a few bytes off.
		assert.LessOrEqualf(t, math.Abs(tt.got-tt.want), 3.0,
			"%s: %v bytes in the estimate, %v in the table", tt.what, tt.got, tt.want)
	}
}

// about rounds to a number of significant digits.
func about(v float64, digits int) string {
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-float64(digits-1))
	return Number(math.Round(v/unit) * unit)
}

func TestTheCapacityDocumentHasTheNumbersOfTheEstimate(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "CAPACITY.md"))
	require.NoError(t, err)
	page := strings.Join(strings.Fields(string(text)), " ")
	estimate := func(users, followers float64, changes ...func(*Load)) Way {
		l := DefaultLoad()
		l.Users, l.Followers = users, followers
		for _, change := range changes {
			change(&l)
		}
		return New(l, DefaultPrices()).Push
	}
	week := func(l *Load) { l.TimelineDays = 7 }
	noIndex := func(l *Load) { l.LikesByUser = false }
	threeLikes := func(l *Load) { l.LikesAWindow = 3 }
	small, middle, large := estimate(1e4, 50), estimate(1e7, 200), estimate(1e9, 300, threeLikes)
	middleWeek, middleOff, largeWeek := estimate(1e7, 200, week), estimate(1e7, 200, noIndex), estimate(1e9, 300, threeLikes, week)
	away := func(l *Load) { l.AwayShare = 0.4 }
	pulled := func(l *Load) { l.PulledShare = 0.1 }
	row := func(name string, w Way) string {
		return fmt.Sprintf("| %s | %s million | %s million | $%s | $%s |", name, about(w.Total.WCU/1e6, 3), about(w.Total.RCU/1e6, 3),
			about(w.Bill.Total, 3), about(w.Bill.Provisioned, 3))
	}
	prices := DefaultPrices()
	part := prices.ProvisionedWCU / 3600 * 1e6 / prices.TableUse / prices.WCU
	million := func(v float64) string { return about(v/1e6, 2) }
	each := func(of func(Flow) float64, followers float64) string {
		return about(of(delivery(followers))/followers, 2)
	}
	rcu, sqs := func(f Flow) float64 { return f.RCU }, func(f Flow) float64 { return f.SQS }

	for _, want := range []string{
		fmt.Sprintf("| post | %d: four items in a transaction, and its place in the index of posts by time | %d | %d at most |", postWCU, postRCU, messageRequests),
		fmt.Sprintf("| delivery to a follower, of an author with up to %s | 1 | %s: the follower's edge, ids of 36 characters | none |",
			Number(inlineFollowers), each(rcu, inlineFollowers)),
		fmt.Sprintf("| %s with 100,000, %s with %s: the edge, again at half price for the planner, and %s for the first page | at most %s with 100,000, %s with %[3]s |",
			each(rcu, 1e5), each(rcu, inlineFollowers+1), Number(inlineFollowers+1), Number(pageRCU(inlineFollowers)), each(sqs, 1e5), each(sqs, inlineFollowers+1)),
		fmt.Sprintf("| 2; above %s followers 1, and 2 for each chunk of %s |", Number(inlineFollowers), Number(chunkFollowers)),
		fmt.Sprintf("above %s followers 4, 3 for each chunk, and 4 for each %d chunks after the first %[2]d |", Number(inlineFollowers), planChunks),
		fmt.Sprintf("| home by push, page of 20 | | %v:", homePushRCU),
		fmt.Sprintf("| home by pull | | %v and %d for each followee |", homePushRCU+mutesRCU, followeeRCU),
		fmt.Sprintf("| like | %d + %d/m, and %d for the index by user | %v + %v/m |", likeWCU, countWCU, indexWCU, likeRCU, countRCU),
		fmt.Sprintf("(%s followers in the example)", about(New(DefaultLoad(), DefaultPrices()).Crossover, 2)),
		fmt.Sprintf("above %s followers it is cut in chunks of %s", Number(inlineFollowers), Number(chunkFollowers)),

		fmt.Sprintf("%s WCU/s and %s RCU/s at the peak. On AWS $%s a month, of which $%s are three CPUs",
			Number(small.PeakWCU), Number(small.PeakRCU), Number(small.Bill.Total), Number(small.Bill.CPUs)),
		fmt.Sprintf("the %s GB that AWS bills", about(small.Total.Stored, 2)),
		fmt.Sprintf("%.0f %% of what likes take to store", 100*(1-float64(likeBytes)/indexedLikeBytes)),

		fmt.Sprintf("At the peak %s WCU/s and %s RCU/s; %v CPUs of api and one each of fanout and likeagg",
			about(middle.PeakWCU, 2), about(middle.PeakRCU, 3), middle.APIWorkers),
		fmt.Sprintf("$%s a month: writes $%s, reads $%s, %s TB $%s, queues $%s, CPUs $%s.",
			about(middle.Bill.Total, 2), about(middle.Bill.Writes, 2), about(middle.Bill.Reads, 2),
			about(middle.Total.Stored/1e3, 2), about(middle.Bill.Storage, 2), about(middle.Bill.Queues, 2), about(middle.Bill.CPUs, 2)),
		fmt.Sprintf("7 days instead of 30 save %s TB, $%s a month",
			about((middle.Total.Stored-middleWeek.Total.Stored)/1e3, 1), about(middle.Bill.Total-middleWeek.Bill.Total, 2)),
		fmt.Sprintf("`FANFARE_LIKES_BY_USER=off` costs $%s a month more", about(middleOff.Bill.Total-middle.Bill.Total, 2)),
		fmt.Sprintf("it adds %v read units to each home page", likesByKeyRCU),

		row("before: every follower is written to", middle),
		row("40 % of the users are away", estimate(1e7, 200, away)),
		row("10 % of the deliveries are pulled", estimate(1e7, 200, pulled)),
		row("both", estimate(1e7, 200, away, pulled)),
		fmt.Sprintf("Of the $%s for queues $%s are the surcharge of $%.2f for a million messages with a group id", about(middle.Bill.Queues, 2),
			about(middle.Total.Messages*daysAMonth*prices.Group/1e6, 2), prices.Group),
		fmt.Sprintf("a unit of provisioned capacity that is used by %.0f %% costs %.0f %% of one on demand, and %.0f %% with half of it reserved for a year",
			100*prices.TableUse, 100*part, 100*part*(1-prices.Reserved*prices.Discount)),
		fmt.Sprintf("$%v and $%v for a write and a read unit in an hour", prices.ProvisionedWCU, prices.ProvisionedRCU),
		fmt.Sprintf("| refresh of a reader's edges, each %d days with 14 active days | 1 for each followee, and %d |", refreshAhead, refreshWCU),
		fmt.Sprintf("| return of a reader | 1 for each followee, %d, and the entries: up to %d, and with more than %d followees up to %d |",
			returnWCU, returnFew, returnFollowees, returnMany),

		fmt.Sprintf("At the peak %s million WCU/s and %s million RCU/s; %v CPUs of api, %v of fanout, %v of likeagg.",
			million(large.PeakWCU), million(large.PeakRCU), large.APIWorkers, large.FanoutWorkers, large.LikeWorkers),
		fmt.Sprintf("$%s million a month, $%s a user: writes $%s million, reads $%s million, %s PB $%s, queues $%s, CPUs $%s.",
			million(large.Bill.Total), about(large.Bill.Total/1e9, 1), million(large.Bill.Writes), million(large.Bill.Reads),
			million(large.Total.Stored), about(large.Bill.Storage, 2), about(large.Bill.Queues, 2), about(large.Bill.CPUs, 2)),
		fmt.Sprintf("takes %s PB, $%s a month, off", million(large.Total.Stored-largeWeek.Total.Stored), about(large.Bill.Total-largeWeek.Bill.Total, 2)),
	} {
		assert.Contains(t, page, want, "docs/CAPACITY.md does not say")
	}
}
