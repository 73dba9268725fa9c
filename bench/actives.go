package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"fanfare/internal/feed/access"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/daemon"
	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/replay"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// activeDays is the number of active days with which T15 dates edges.
const activeDays = 7

// activity is a user's visit at some time: the user reads the home, and then posts.
type activity struct {
	user int
	at   time.Time
}

// history is a network, and the visits of its users in chronological order.
type history struct {
	graph *replay.Graph
	acts  []activity
}

// actives is benchmark T15. It runs the product's own feed and fan-out on a table in memory, at the times of an
// activity trace. The clock is a variable, so weeks pass in minutes.
func actives(ctx context.Context, e *env) ([]Result, error) {
	h, err := e.history()
	if err != nil {
		return nil, err
	}
	e.say("%d users, %d follows, %d times a home read and a post", len(h.graph.Names), len(h.graph.Edges), len(h.acts))
	l, err := e.live(ctx, h)
	if err != nil {
		return nil, err
	}
	e.say("compare the homes")
	exact, err := l.compare(ctx, h)
	if err != nil {
		return nil, err
	}
	promised := float64(l.promised)
	records := l.writes[flowDelivery] - float64(l.entries)
	units := l.writes[flowDelivery] + l.writes[flowRefresh] + l.writes[flowReturn] + l.writes[flowHome]
	r := Result{
		ID: "T15", Name: fmt.Sprintf("write units a promised delivery, %d active days", activeDays), Value: units / promised, Unit: "WCU",
		Note: fmt.Sprintf("%d users, %d follows, %d home reads and posts; %d promised deliveries, %.1f %% of them to readers without activity for %d days",
			len(h.graph.Names), len(h.graph.Edges), len(h.acts), l.promised, 100*float64(l.idle)/promised, activeDays),
	}
	r = r.below("all readers are pushed", (promised+records)/promised)
	if r.Target, r.Met = "reported", nil; !e.Quick {
		r = r.reach("≤ 0.65", r.Value <= 0.65)
	}
	results := []Result{r}
	for _, flow := range []struct {
		name  string
		units float64
	}{
		{"entries", float64(l.entries)}, {"delivery records", records}, {"refreshes", l.writes[flowRefresh]}, {"returns", l.writes[flowReturn]},
		{"home reads", l.writes[flowHome]}, {"follows, not counted", l.writes[flowFollow]}, {"the posts themselves, not counted", l.writes[flowPost]},
	} {
		results = append(results, Result{ID: "T15", Name: "of these " + flow.name, Value: flow.units / promised, Unit: "WCU"}.reported())
	}
	homes := Result{
		ID: "T15", Name: "homes that differ from the graph and the posts", Value: float64(exact.wrong), Unit: "homes",
		Note: fmt.Sprintf("%d homes with %d posts at the end, and the %d that had returned since once more", len(h.graph.Names), exact.posts, exact.returned),
	}
	return append(results, homes.reach("0", exact.wrong == 0)), nil
}

// history reads the network and the trace from files, or makes both.
func (e *env) history() (history, error) {
	if e.Graph == "" {
		return powerLaw(e.size(20_000, 3000), float64(e.size(60, 30))), nil
	}
	graph, err := replay.ReadGraph(e.Graph, true)
	if err != nil {
		return history{}, err
	}
	acts, err := readTrace(e.Trace, graph)
	return history{graph, acts}, err
}

// readTrace reads lines `user unixtime`. It leaves out users that are not in the graph.
func readTrace(file string, graph *replay.Graph) ([]activity, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	numbers := make(map[string]int, len(graph.Names))
	for i, name := range graph.Names {
		numbers[name] = i
	}
	var acts []activity
	lines := bufio.NewScanner(bytes.NewReader(text))
	for line := 1; lines.Scan(); line++ {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		var at int64
		if len(fields) == 2 {
			at, err = strconv.ParseInt(string(fields[1]), 10, 64)
		}
		if len(fields) != 2 || err != nil {
			return nil, fmt.Errorf("%s:%d: %.60q is not a user and a unix time", file, line, lines.Bytes())
		}
		if user, ok := numbers[string(fields[0])]; ok {
			acts = append(acts, activity{user, time.Unix(at, 0).UTC()})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(acts) == 0 {
		return nil, fmt.Errorf("%s: no line has a user of the graph", file)
	}
	slices.SortStableFunc(acts, func(a, b activity) int { return a.at.Compare(b.at) })
	return acts, nil
}

// powerLaw makes a network with power laws for followers, followees, the pauses between two
// activities and the time until a user leaves forever. A user with many followers is
// active more often, once an hour at most.
func powerLaw(users int, days float64) history {
	random := rand.New(rand.NewPCG(15, 0))
	pareto := func(least, exponent float64) float64 { return least * math.Pow(1-random.Float64(), -1/exponent) }
	g := &replay.Graph{}
	upTo := make([]float64, users) // the sum of the attractions of the users so far
	sum := 0.0
	for i := range users {
		g.Names = append(g.Names, fmt.Sprintf("user%05d", i))
		sum += 1 / float64(i+20)
		upTo[i] = sum
	}
	for from := range users {
		seen := map[int]bool{from: true}
		for range min(users/4, int(pareto(2, 1.6))) {
			if to := min(users-1, sort.SearchFloat64s(upTo, random.Float64()*sum)); !seen[to] {
				seen[to] = true
				g.Edges = append(g.Edges, replay.Edge{From: from, To: to})
			}
		}
	}
	begin := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	var acts []activity
	for i := range users {
		pause := max(1, 120*float64(i+20)/float64(users)*pareto(1, 1.5)) // the shortest pause in hours
		leaves := 24 * min(days, pareto(2, 0.4))
		for at := random.Float64() * 2 * pause; at < leaves; at += pareto(pause, 2) {
			acts = append(acts, activity{i, begin.Add(time.Duration(at * float64(time.Hour)))})
		}
	}
	slices.SortStableFunc(acts, func(a, b activity) int { return a.at.Compare(b.at) })
	return history{g, acts}
}

// These are the flows of T15, by which write units are counted.
const (
	flowFollow   = "follows"
	flowHome     = "home reads"
	flowPost     = "posts"
	flowDelivery = "delivery"
	flowRefresh  = "refreshes"
	flowReturn   = "returns"
)

// life plays a history on the product's parts, with a clock that is a variable.
type life struct {
	now    time.Time
	feed   *feed.Service
	homes  *home.Homes
	worker *fanout.Worker
	posts  map[int][]string // by author, oldest first
	// promised is the number of deliveries to followers. idle is the number of these deliveries whose
	// follower had no activity for a week.
	promised, idle int64
	// entries is the number of entries that deliveries wrote for followers.
	entries int64
	// writes has the write units of each flow.
	writes map[string]float64
	// returned has the users whose returns have ended.
	returned map[string]bool

	mu     sync.Mutex
	spent  float64
	events []topicEvent
}

type topicEvent struct {
	topic string
	event messages.Event
}

// Publish implements message.Publisher.
func (l *life) Publish(topic string, msgs ...*message.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, msg := range msgs {
		event, err := messages.Decode(msg.Payload)
		if err != nil {
			return err
		}
		l.events = append(l.events, topicEvent{topic, event})
	}
	return nil
}

// Close implements message.Publisher.
func (*life) Close() error { return nil }

// do runs a step, and adds the write units of the step to a flow.
func (l *life) do(flow string, step func() error) error {
	l.spent = 0
	err := step()
	l.writes[flow] += l.spent
	if err != nil {
		return fmt.Errorf("%s: %w", flow, err)
	}
	return nil
}

// work handles all events, and the events that follow from them.
func (l *life) work(ctx context.Context) error {
	for len(l.events) > 0 {
		next := l.events[0]
		l.events = l.events[1:]
		handle, flow := l.worker.HandlePosts, flowDelivery
		switch next.topic {
		case queue.TopicChunks:
			handle = l.worker.HandleChunks
		case queue.TopicBackfills:
			handle = l.worker.HandleBackfills
		}
		switch e := next.event.(type) {
		case *messages.Followed:
			flow = flowFollow
		case *messages.Seen:
			flow = flowRefresh
		case *messages.Returned:
			flow, l.returned[e.UserID] = flowReturn, true
		}
		if err := l.do(flow, func() error { return handle(ctx, next.event) }); err != nil {
			return err
		}
	}
	return nil
}

// newLife returns the product's parts on a table, with the clock at begin.
func newLife(store table.Store, begin time.Time) *life {
	l := &life{now: begin, posts: map[int][]string{}, writes: map[string]float64{}, returned: map[string]bool{}}
	clock := func() time.Time { return l.now }
	store = table.Measure(store, func(_ table.Op, u table.Units, _ error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.spent += u.Write
	})
	ids := id.NewGenerator(clock)
	way := access.New(access.Config{
		Store: store, Publisher: l, IDs: ids, Now: clock, Lifetimes: lifetime.Fixed(timelineTTL), LikeWindow: time.Second, ActiveDays: activeDays, Log: zap.NewNop(),
	})
	l.feed = feed.New(feed.Config{Access: way, LikesByUser: true})
	l.homes = home.New(home.Config{Access: way, Items: l.feed, Mutes: l.feed, HeadAge: time.Second})
	l.worker = fanout.New(fanout.Config{
		Store: store, Posts: l.feed, Publisher: l, IDs: ids, Now: clock, Lifetimes: lifetime.Fixed(timelineTTL),
		PageSize: daemon.PageSize, ActiveDays: activeDays,
		Observe: func(entries int, _ time.Duration) { l.entries += int64(entries) },
	})
	return l
}

// live plays a history. It makes the follows an hour before the first visit.
func (e *env) live(ctx context.Context, h history) (*life, error) {
	l := newLife(tabletest.NewMemory(), h.acts[0].at.Add(-time.Hour))
	followers := make([][]int, len(h.graph.Names))
	for _, name := range h.graph.Names {
		if _, err := l.feed.PutProfile(ctx, name, feed.ProfileInput{Name: name}); err != nil {
			return nil, err
		}
	}
	for _, edge := range h.graph.Edges {
		followers[edge.To] = append(followers[edge.To], edge.From)
		err := l.do(flowFollow, func() error { return l.feed.Follow(ctx, h.graph.Names[edge.From], h.graph.Names[edge.To]) })
		if err == nil {
			err = l.work(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	active := make([]time.Time, len(h.graph.Names))
	e.say("%d follows are made", len(h.graph.Edges))
	for n, act := range h.acts {
		if n%(1+len(h.acts)/10) == 0 {
			e.say("%s", act.at.Format(time.DateOnly))
		}
		l.now = act.at
		if err := l.act(ctx, h.graph.Names[act.user], act.user); err != nil {
			return nil, err
		}
		active[act.user] = act.at
		l.promised += int64(len(followers[act.user]))
		for _, reader := range followers[act.user] {
			if act.at.Sub(active[reader]) > activeDays*24*time.Hour {
				l.idle++
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// act makes a user read the home and post.
func (l *life) act(ctx context.Context, name string, user int) error {
	err := l.do(flowHome, func() error {
		_, err := l.homes.Home(ctx, name, home.Query{}, page.Request{})
		return err
	})
	if err == nil {
		err = l.work(ctx)
	}
	if err != nil {
		return err
	}
	err = l.do(flowPost, func() error {
		post, err := l.feed.CreatePost(ctx, name, feed.PostInput{Content: feed.Content{Text: "a post of " + name}})
		l.posts[user] = append(l.posts[user], post.ID)
		return err
	})
	return errors.Join(err, l.work(ctx))
}

// comparison is the result of a read of all homes.
type comparison struct{ wrong, posts, returned int }

// compare reads every home to its end and compares the home with the graph and the posts. It runs after
// the trace, and again when all returns have ended.
func (l *life) compare(ctx context.Context, h history) (c comparison, err error) {
	followees := make([][]int, len(h.graph.Names))
	for _, edge := range h.graph.Edges {
		followees[edge.From] = append(followees[edge.From], edge.To)
	}
	l.now = l.now.Add(time.Hour)
	l.returned = map[string]bool{}
	for _, again := range []bool{false, true} {
		for user, name := range h.graph.Names {
			if again && !l.returned[name] {
				continue
			}
			// An entry expires at a whole second, and a post at a millisecond.
			oldest := id.Floor(l.now.Add(-timelineTTL + time.Second))
			var want []string
			for _, author := range append([]int{user}, followees[user]...) {
				for _, post := range l.posts[author] {
					if post >= oldest {
						want = append(want, post)
					}
				}
			}
			slices.Sort(want)
			slices.Reverse(want)
			got, err := wholeHome(ctx, l.homes, name)
			if err != nil {
				return c, err
			}
			got = slices.DeleteFunc(got, func(post string) bool { return post < oldest })
			if !slices.Equal(got, want) {
				c.wrong++
			}
			if !again {
				c.posts += len(got)
			}
		}
		if err := l.work(ctx); err != nil {
			return c, err
		}
		c.returned, l.now = len(l.returned), l.now.Add(2*time.Minute)
	}
	return c, nil
}

// wholeHome returns the ids of all posts of a home.
func wholeHome(ctx context.Context, homes *home.Homes, name string) (ids []string, err error) {
	in := page.Request{Limit: page.MaxLimit}
	for {
		read, err := homes.Home(ctx, name, home.Query{}, in)
		if err != nil {
			return nil, err
		}
		for _, item := range read.Items {
			ids = append(ids, item.Post.ID)
		}
		if in.Cursor = read.NextCursor; in.Cursor == "" {
			return ids, nil
		}
	}
}
