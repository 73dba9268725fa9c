//go:build e2e && slow

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/ops/capacity"
)

// tolerance is the share by which measured units may differ from the calculator's units
// (T23).
const tolerance = 0.05

// readWrite holds numbers of read units and write units.
type readWrite struct{ read, write float64 }

// meter has the sums over all processes of a cluster: the units of each flow, the flushes of like counts,
// and the messages that wait or are in progress.
type meter struct {
	flows map[string]readWrite
	// gets is the number of read units of single items in the fan-out.
	gets    float64
	flushes float64
	waiting int
	known   bool
}

// read reads the metrics of all processes. The processes count the units that the table returns in its
// answers.
func (c *cluster) read(t *testing.T) meter {
	t.Helper()
	m := meter{flows: map[string]readWrite{}, known: true}
	units := regexp.MustCompile(`^fanfare_table_capacity_units_total\{flow="(\w+)",kind="(\w+)",op="(\w+)"\} (\S+)$`)
	depth := regexp.MustCompile(`^fanfare_queue_depth\{state="(?:ready|delayed|in_flight)",topic="\w+"\} (\d+)$`)
	flushes := regexp.MustCompile(`^fanfare_like_flushes_total (\S+)$`)
	for _, one := range c.members {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+one.admin+"/metrics", http.NoBody)
		require.NoError(t, err)
		resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
		if err != nil {
			m.known = false
			continue
		}
		topics := 0
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if match := units.FindStringSubmatch(s.Text()); match != nil {
				n, err := strconv.ParseFloat(match[4], 64)
				require.NoError(t, err)
				flow := m.flows[match[1]]
				if match[2] == "read" {
					flow.read += n
					if match[1] == "fanout" && match[3] == "get" {
						m.gets += n
					}
				} else {
					flow.write += n
				}
				m.flows[match[1]] = flow
			}
			if match := depth.FindStringSubmatch(s.Text()); match != nil {
				n, err := strconv.Atoi(match[1])
				require.NoError(t, err)
				topics++
				m.waiting += n
			}
			if match := flushes.FindStringSubmatch(s.Text()); match != nil {
				n, err := strconv.ParseFloat(match[1], 64)
				require.NoError(t, err)
				m.flushes += n
			}
		}
		require.NoError(t, resp.Body.Close())
		m.known = m.known && topics == 5*3
	}
	return m
}

// quiet returns the meter of the cluster after three consecutive reads without a message.
func (c *cluster) quiet(t *testing.T) (m meter) {
	t.Helper()
	empty := 0
	await(t, "no message waits", func() bool {
		if m = c.read(t); m.known && m.waiting == 0 {
			empty++
		} else {
			empty = 0
		}
		return empty == 3
	})
	return m
}

// cost returns the units of each flow that act causes, and the units of the single items that the fan-out
// reads.
func (c *cluster) cost(t *testing.T, act func()) (flows map[string]readWrite, gets float64) {
	t.Helper()
	before := c.quiet(t)
	act()
	after := c.quiet(t)
	for flow, was := range before.flows {
		after.flows[flow] = readWrite{after.flows[flow].read - was.read, after.flows[flow].write - was.write}
	}
	return after.flows, after.gets - before.gets
}

// predicted returns a row of the calculator for a load whose authors have a number of followers. change
// sets the operations of the load.
func predicted(t *testing.T, name string, followers int, change func(*capacity.Load)) capacity.Row {
	t.Helper()
	l := capacity.DefaultLoad()
	l.Users, l.Followers, l.TimelineDays = 1, float64(followers), 30
	change(&l)
	prices, err := capacity.ListPrices()
	require.NoError(t, err)
	for _, r := range capacity.New(l, capacity.DefaultDeployment(), prices).Rows {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("the calculator has no row %q", name)
	return capacity.Row{}
}

// holds fails the test unless the units match the sum of the rows within tolerance.
func holds(t *testing.T, what string, got readWrite, rows ...capacity.Row) {
	t.Helper()
	var want readWrite
	for _, r := range rows {
		want.read, want.write = want.read+r.Reads, want.write+r.Writes
	}
	t.Logf("%-10s WCU %5.0f, predicted %5.0f; RCU %6.1f, predicted %6.1f", what, got.write, want.write, got.read, want.read)
	assert.InDeltaf(t, want.write, got.write, tolerance*want.write, "%s: WCU", what)
	assert.InDeltaf(t, want.read, got.read, tolerance*want.read, "%s: RCU", what)
}

// both returns the sum of the units of two flows.
func both(flows map[string]readWrite, a, b string) readWrite {
	return readWrite{flows[a].read + flows[b].read, flows[a].write + flows[b].write}
}

// TestARunCostsWhatTheCalculatorPredicts plays each row of the calculator alone, on LocalStack's queues
// and on a table whose engine bills as DynamoDB does. LocalStack's own table bills no unit for a read
// that finds no item, and two units for any transaction (docs/ACCESS_PATTERNS.md). So
// TestAReplayCostsWhatTheCalculatorPredicts uses LocalStack's table only for work without such reads and
// transactions.
func TestARunCostsWhatTheCalculatorPredicts(t *testing.T) {
	t.Parallel()
	if os.Getenv("E2E_DYNOXIDE_URL") == "" {
		t.Fatal("E2E_DYNOXIDE_URL is not set: run this with scripts/with-emulators.sh")
	}
	const users, followees, homes = 26, 22, 8
	c := emptyCluster(t)
	// A process keeps a count for half a window. With this short window each page reads the counts again,
	// as in an idle process.
	c.add(t, []string{"FANFARE_LIKE_WINDOW=10ms", "FANFARE_RATE_LIMIT=0"}, "api", "fanout", "likeagg")
	anyone := connect(t, c.http)
	name := func(i int) string { return fmt.Sprintf("%036d", i%users) }
	var as []*client.Client
	for i := range users {
		as = append(as, signUp(t, anyone, name(i)))
	}
	each := func(do func(i int) error) func() {
		return func() {
			for i := range users {
				require.NoError(t, do(i))
			}
		}
	}
	each(func(i int) error { return as[i].Follow(t.Context(), name(i+1)) })() // a first follow costs two more units

	got, _ := c.cost(t, each(func(i int) error {
		for k := 2; k <= followees; k++ {
			if err := as[i].Follow(t.Context(), name(i+k)); err != nil {
				return err
			}
		}
		return nil
	}))
	const follows = users * (followees - 1)
	holds(t, "follows", both(got, "api", "fanout"), predicted(t, "follows", followees, func(l *capacity.Load) { l.FollowsPerDay, l.PostsPerDay = follows, 0 }))

	posts := make([]string, users)
	got, gets := c.cost(t, each(func(i int) error {
		post, err := as[i].CreatePost(t.Context(), client.PostInput{Text: "a post"})
		posts[i] = post.ID
		return err
	}))
	perDay := func(l *capacity.Load) { l.PostsPerDay = users }
	holds(t, "posts", got["api"], predicted(t, "posts", followees, perDay))
	// A message may arrive before its post, and the worker then reads again. The number of these reads
	// depends on the duration of a transaction, so the calculator leaves them out.
	delivered, early := got["fanout"], gets-users
	t.Logf("%.0f RCU of looks before the post was stored", early)
	delivered.read -= early
	holds(t, "fan-out", delivered, predicted(t, "fan-out", followees, perDay))

	got, _ = c.cost(t, each(func(i int) error { return as[i].Like(t.Context(), posts[(i+1)%users]) }))
	holds(t, "likes", both(got, "api", "likes"), predicted(t, "likes", followees, func(l *capacity.Load) { l.LikesPerDay = users }))

	got, _ = c.cost(t, each(func(i int) error {
		_, err := as[i].CreateComment(t.Context(), posts[(i+2)%users], "a comment")
		return err
	}))
	holds(t, "comments", got["api"], predicted(t, "comments", followees, func(l *capacity.Load) { l.CommentsPerDay = users }))

	home := func(i int) error { _, err := as[i].Home(client.Push).Page(t.Context(), "", 0); return err }
	// For a minute after a follow, a home also merges the lists of the new followees.
	await(t, "homes are past the minute after a follow", func() bool {
		one, _ := c.cost(t, func() { require.NoError(t, home(users-1)) })
		return one["api"].read < 1.5*predicted(t, "homes", followees, func(l *capacity.Load) { l.ReadsPerDay = 1 }).Reads
	})
	// The test reads the meter between two pages. This takes longer than a process keeps a count.
	var pages readWrite
	for i := range homes {
		got, _ = c.cost(t, func() { require.NoError(t, home(i)) })
		pages.read, pages.write = pages.read+got["api"].read, pages.write+got["api"].write
	}
	holds(t, "homes", pages, predicted(t, "homes", followees, func(l *capacity.Load) { l.ReadsPerDay = homes }))

	got, _ = c.cost(t, each(func(i int) error { _, err := as[i].News(t.Context(), posts[users-1], client.News{}); return err }))
	holds(t, "polls", got["api"], predicted(t, "polls", followees, func(l *capacity.Load) { l.PollsPerDay = users }))

	got, _ = c.cost(t, each(func(i int) error { return as[i].Unfollow(t.Context(), name(i+2)) }))
	holds(t, "unfollows", got["api"], predicted(t, "unfollows", followees, func(l *capacity.Load) { l.UnfollowsPerDay = users }))

	before := c.quiet(t).flows["api"] // the messages of deletions wait for six minutes
	each(func(i int) error { return as[i].DeletePost(t.Context(), posts[i]) })()
	after := c.read(t).flows["api"]
	holds(t, "deletes", readWrite{after.read - before.read, after.write - before.write}, predicted(t, "deletes", followees, func(l *capacity.Load) {
		l.PostsPerDay, l.DeletedShare = users, 1
	}))
	c.stop(t)
}

// TestAReplayCostsWhatTheCalculatorPredicts plays a small graph and compares the units in the replay's
// report. On LocalStack's own table it compares the units of fan-out and likes. On the other engine it
// compares the units of all writes.
func TestAReplayCostsWhatTheCalculatorPredicts(t *testing.T) {
	t.Parallel()
	const users, posts, likes = 30, 60, 300
	for name, engine := range map[string]string{"LocalStack": besideTheQueues, "the engine that bills as DynamoDB": "AWS_ENDPOINT_URL_DYNAMODB=" + tableURL()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := emptyCluster(t, engine)
			c.add(t, nil, "api", "fanout", "likeagg")
			began := c.read(t).flushes
			stdout, stderr, err := fanfare(t, c.env, c.replay("--graph", graph, "--max-users", fmt.Sprint(users), "--posts", fmt.Sprint(posts), "--likes", fmt.Sprint(likes))...)
			r := verdict(t, stdout, stderr, err)
			var trace struct {
				Edges  int
				WCU    *float64           `json:"wcu"`
				RCU    *float64           `json:"rcu"`
				Writes map[string]float64 `json:"wcu_by_flow"`
				Reads  map[string]float64 `json:"rcu_by_flow"`
			}
			require.NoError(t, json.Unmarshal([]byte(stdout), &trace))
			require.NotNil(t, trace.WCU)
			require.NotNil(t, trace.RCU)
			flushes := c.read(t).flushes - began

			// The follows precede the posts, so their backfills copy nothing.
			followers := float64(r.Expected-posts) / posts
			fanOut := predicted(t, "fan-out", 0, func(l *capacity.Load) { l.PostsPerDay, l.Followers = posts, followers })
			follow := predicted(t, "follows", 0, func(l *capacity.Load) { l.FollowsPerDay, l.PostsPerDay = float64(trace.Edges), 0 })
			like := predicted(t, "likes", 0, func(l *capacity.Load) { l.LikesPerDay, l.LikesAWindow = likes, likes/flushes })
			post := predicted(t, "posts", 0, func(l *capacity.Load) { l.PostsPerDay = posts })
			backfills := float64(trace.Edges)
			assert.InEpsilon(t, fanOut.Writes+backfills, trace.Writes["fanout"], tolerance, "WCU of fan-out and backfills")
			assert.InEpsilon(t, like.Writes, trace.Writes["likes"], tolerance, "WCU of likes")
			if engine == besideTheQueues {
				return
			}
			// A message that arrives before its post costs up to two more reads.
			reads := fanOut.Reads + 3*backfills
			assert.InDelta(t, reads+posts, trace.Reads["fanout"], tolerance*reads+posts, "RCU of fan-out and backfills")
			assert.InEpsilon(t, fanOut.Writes+follow.Writes+like.Writes+post.Writes+users, *trace.WCU, tolerance, "WCU of all: each profile is one more")
		})
	}
}
