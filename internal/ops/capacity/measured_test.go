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

// These tests compare the units that an estimate multiplies with the product. They measure the units, or
// read the units from docs/ACCESS_PATTERNS.md, which the tests of feed check. The tests of bench compare the
// units of an aggregator, because bench runs an aggregator.

// estimate returns the estimate for a table on demand, at the prices of the binary.
func estimate(t *testing.T, l Load) Estimate {
	t.Helper()
	return New(l, DefaultDeployment(), listed(t))
}

// listed returns the prices of the binary.
func listed(t *testing.T) Prices {
	t.Helper()
	p, err := ListPrices()
	require.NoError(t, err)
	return p
}

// row returns the row of e with the given name.
func row(t *testing.T, e Estimate, name string) Row {
	t.Helper()
	for _, r := range e.Rows {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no row %q", name)
	return Row{}
}

// one returns the estimate for a single user, who only does the actions that change sets.
func one(t *testing.T, change func(*Load)) Estimate {
	t.Helper()
	l := Load{
		Users: 1, Followers: 20, LikesAWindow: 1, Peak: 1, PulledPosts: 1, ActiveDays: 14, TimelineDays: 30,
		DeliveriesPerCPU: 1, RequestsPerCPU: 1, LikesPerCPU: 1, Utilisation: 1,
	}
	change(&l)
	return estimate(t, l)
}

const month = 30 * 24 * time.Hour

func TestTheEstimateHasTheUnitsOfTheAccessPatterns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "ACCESS_PATTERNS.md"))
	require.NoError(t, err)
	// unit returns a column of the page's row whose first column is name.
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
	const rcu, wcu = 4, 5
	puts := regexp.MustCompile(`put of a like costs (\d+) WCU, and (\d+) with`).FindSubmatch(page)
	require.NotNil(t, puts, "docs/ACCESS_PATTERNS.md does not state the cost of putting a like")
	put := func(i int) float64 {
		v, err := strconv.ParseFloat(string(puts[i]), 64)
		require.NoError(t, err)
		return v
	}
	all := one(t, func(l *Load) {
		l.PostsPerDay, l.ReadsPerDay, l.LikesPerDay, l.FollowsPerDay, l.UnfollowsPerDay, l.CommentsPerDay, l.PollsPerDay = 1, 1, 1, 1, 1, 1, 1
		l.DeletedShare, l.LikesAWindow, l.LikesByUser, l.TimelineDays = 1, math.MaxFloat64, true, 0
	})
	bare := one(t, func(l *Load) { l.LikesPerDay, l.LikesAWindow = 1, math.MaxFloat64 })
	keyed := one(t, func(l *Load) { l.PostsPerDay, l.KeyedShare = 1, 1 })
	noticed := func(load func(*Load)) Row {
		return row(t, one(t, func(l *Load) {
			l.Notifications, l.NoticesAWindow, l.NewNotices = true, 1, 1
			load(l)
		}), "notifications")
	}
	aLike, anEnd := noticed(func(l *Load) { l.LikesPerDay = 1 }), noticed(func(l *Load) { l.UnfollowsPerDay = 1 })
	deletedOne, deletedFive := "home by push, a post of the page deleted", "home by push, five posts of the page deleted"
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"post, writes", row(t, all, "posts").Writes, unit("post", wcu)},
		{"post with a key, writes", row(t, keyed, "posts").Writes, unit("post with an Idempotency-Key", wcu)},
		{"post, reads", row(t, all, "posts").Reads, unit("post", rcu)},
		{"home", row(t, all, "homes").Reads, unit("home by push", rcu)},
		{"home, one deleted post", refillRCU(1), unit(deletedOne, rcu) - unit("home by push", rcu)},
		{"home, five deleted posts", refillRCU(5), unit(deletedFive, rcu) - unit("home by push", rcu)},
		{"home, the minute after a follow", followedRCU, (unit("home by push, within a minute after 20 follows", rcu) - unit("home by push", rcu)) / 20},
		{"like, reads of the API", row(t, all, "likes").Reads, unit("like or unlike", rcu)},
		{"like, writes", row(t, bare, "likes").Writes, unit("like or unlike", wcu) + put(1)},
		{"like, writes with the index", row(t, all, "likes").Writes, unit("like or unlike", wcu) + put(2)},
		{"follow, writes of the API", followWCU, unit("follow", wcu)},
		{"follow, reads of the API", followRCU, unit("follow", rcu)},
		{"unfollow, writes", row(t, all, "unfollows").Writes, unit("unfollow", wcu)},
		{"unfollow, reads", row(t, all, "unfollows").Reads, unit("unfollow", rcu)},
		{"comment, writes", row(t, all, "comments").Writes, unit("comment", wcu)},
		{"comment, reads", row(t, all, "comments").Reads, unit("comment", rcu)},
		{"poll", row(t, all, "polls").Reads, unit("news of a home, none", rcu)},
		{"a new like, its notification, writes", aLike.Writes, unit("a new like", wcu)},
		{"a new like, its notification, reads", aLike.Reads, unit("a new like", rcu)},
		{"the end of a follow, its notification, writes", anEnd.Writes, unit("the end of a follow", wcu)},
		{"the end of a follow, its notification, reads", anEnd.Reads, unit("the end of a follow", rcu)},
		{"the end of a follow, messages to the notifier", anEnd.Messages, 1},
		{"delete, writes", row(t, all, "deletes").Writes, unit("delete a post", wcu)},
		{"delete, reads", row(t, all, "deletes").Reads, unit("delete a post", rcu)},
	} {
		assert.Truef(t, near(tt.got, tt.want),
			"%s: the estimate has %v, docs/ACCESS_PATTERNS.md has %v", tt.what, tt.got, tt.want)
	}
}

// TestAHomePageWithDeletedPostsReadsFewMore of feed measures the units of a page that lacks more posts.
func TestTheEstimateHasThePriceOfEachRefill(t *testing.T) {
	t.Parallel()
	for missing, want := range map[int]float64{1: 36.5, 2: 38.5, 3: 40.5, 5: 45.5, 10: 63.5, 20: 152.5} {
		assert.InDeltaf(t, want, homeRCU+refillRCU(missing), 0, "%d posts of a page are missing", missing)
	}
	for missing := 2; missing <= pagePosts; missing++ {
		assert.GreaterOrEqual(t, refillRCU(missing), refillRCU(missing-1))
	}
	l := DefaultLoad()
	l.DeletedShare = 1
	assert.InDelta(t, l.Users*l.ReadsPerDay*120, deletedRow(l).Reads, 1, "pages of which every post is deleted")
	l.DeletedShare = 0
	assert.Zero(t, deletedRow(l).Count)
}

// meter sums the units of calls of a table.
type meter struct {
	mu    sync.Mutex
	units table.Units
}

// metered returns a table and a meter that sums the table's units.
func metered(s table.Store) (table.Store, *meter) {
	m := &meter{}
	return table.Measure(s, func(_ table.Op, u table.Units, _ error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.units = m.units.Plus(u)
	}), m
}

// take returns the units since the last call of take.
func (m *meter) take() table.Units {
	m.mu.Lock()
	defer m.mu.Unlock()
	got := m.units
	m.units = table.Units{}
	return got
}

// outbox is a publisher that keeps the messages, and counts the sends.
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
	t.Parallel()
	for _, followers := range []int{0, 1, 100, 1000, 4096, 4097, 10_000, 12_000, 210_000} {
		t.Run(fmt.Sprint(followers), func(t *testing.T) { holdFanOut(t, followers) })
	}
}

func holdFanOut(t *testing.T, followers int) {
	t.Helper()
	out := &outbox{}
	store := tabletest.NewMemory()
	measured, units := metered(store)
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
	units.take()
	_, err = f.CreatePost(t.Context(), author, feed.PostInput{Content: feed.Content{Text: strings.Repeat("x", 280)}})
	require.NoError(t, err)
	post := units.take()
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
	fanout, requests := units.take(), float64(out.sends+2*(messagesTaken-1))

	e := one(t, func(l *Load) { l.Followers, l.PostsPerDay = float64(followers), 1 })
	posts, deliveries := row(t, e, "posts"), row(t, e, "fan-out")
	if posts.Writes != post.Write || posts.Reads != post.Read || posts.Requests != float64(postRequests) {
		t.Errorf("the estimate of a post is %+v; it cost %+v and %d requests", posts, post, postRequests)
	}
	if deliveries.Writes != fanout.Write || deliveries.Reads != fanout.Read {
		t.Errorf("the estimate has %v WCU and %v RCU; the fan-out cost %v and %v", deliveries.Writes, deliveries.Reads, fanout.Write, fanout.Read)
	}
	// The estimate may be one request too high, because a planner's first sends are smaller.
	if deliveries.Requests < requests || deliveries.Requests > requests+1 {
		t.Errorf("the estimate has %v queue requests, the fan-out took %v", deliveries.Requests, requests)
	}
}

func TestTheEstimateHasTheSizesOfItems(t *testing.T) {
	t.Parallel()
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
	like := schema.Like{Post: post, User: a, Kind: schema.KindLike, Version: post, Flush: schema.Flush{Inc: "261121abcdef", Seq: 1}}
	byline := schema.Byline{Name: strings.Repeat("n", 20), ImageURL: strings.Repeat("i", 60), V: at.UnixMilli()}
	comment := schema.Comment{ID: post, Post: post, Author: b, Text: strings.Repeat("x", 280)}
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
		{"a post", postBytes, sizes(schema.Post{ID: post, Author: a, Content: schema.Content{Text: strings.Repeat("x", 280)}, Byline: byline}.Item(), schema.PostRef{ID: post, Author: a}.Item())},
		{"the part of the index", postIndexBytes, sizes(schema.PostRef{ID: post, Author: a}.Item()) / 2},
		{"a post in its author's list", listedPostBytes, float64(table.Size(schema.Post{ID: post, Author: a, Content: schema.Content{Text: strings.Repeat("x", 280)}, Byline: byline}.Item()))},
		{"a like", likeBytes, sizes(like.Item())},
		{"an indexed like", indexedLikeBytes, sizes(indexed.Item())},
		{"its part of the index", likeIndexBytes, sizes(indexed.Item()) / 2},
		{"a comment", commentBytes, sizes(comment.Item())},
		{"its part of the index", commentIndexed, sizes(comment.Item()) / 2},
		{"a plan", planBytes, sizes(schema.Plan{Post: post, Author: a, Planned: 101, Started: at, Attempts: 1, TTL: at}.Item())},
		{"the chunk of an inline delivery", lastChunkBytes, sizes(schema.Chunk{Post: post, Done: at, Delivered: 101, TTL: at}.Item())},
		{"a chunk", chunkBytes, sizes(schema.Chunk{Post: post, First: a, End: b, Done: at, Delivered: 4000, TTL: at}.Item())},
	} {
		// The size of a number depends on its digits, so the size of an item may differ by a few bytes.
		assert.LessOrEqualf(t, math.Abs(tt.got-tt.want), 3.0,
			"%s: %v bytes in the estimate, %v in the table", tt.what, tt.got, tt.want)
	}
}
