package sim

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// In some worlds a last storm is about live homes (docs/decisions/0023). Each API has a hub, and some
// users have streams, which are cut and opened again at some API. The index of posts by time lags,
// and lacks some posts. After the storm a calm part checks how long an event takes.

const (
	// liveEvery and liveAt choose the worlds: worlds without another last part, and some with the
	// storm about kept blocks.
	liveEvery, liveAt = 4, 3
	// mostLive is the number of users with streams. A world with liveCrowd users or more
	// has no streams.
	mostLive, liveCrowd = 3, 16
	// liveOperations is the number of operations of the storm.
	liveOperations = 30
	// openAgain is the wait of a client whose stream was refused.
	openAgain = time.Second
)

// liveStorm is that part of a world. Its oracle knows that only a look makes an event, and makes it
// once, and which posts have to come.
type liveStorm struct {
	w       *World
	hubs    map[*Proc]*live.Hub
	clients []*liveClient
	// facts are the facts for looks that begin now.
	facts atomic.Pointer[liveFacts]
	// noIndex hides all posts from the index of posts by time.
	noIndex bool
	// posted is the post of the last event.
	posted string
	// begun counts the operations of each user.
	begun map[string]int

	mu sync.Mutex
	// found are the posts that looks found, by user, and broken the violations.
	found  map[pair]bool
	broken []string
}

// liveFacts are answers that a look must respect if it begins after them (I2).
type liveFacts struct {
	deleted map[string]bool
	// unfollowed are the authors of whom a home shows nothing, by the home's user. begun is the
	// number of operations that each user has begun.
	unfollowed map[string][]string
	begun      map[string]int
}

// liveClient is the client of one user's streams.
type liveClient struct {
	storm *liveStorm
	user  string

	mu sync.Mutex
	// stream is the stream that the client reads, and cut ends that stream. Both are nil without a
	// stream.
	stream *live.Stream
	cut    context.CancelFunc
	watch
	// ended is set once stream has ended.
	ended bool
	// again is when the client opens a stream after a refused one.
	again time.Time
}

// write takes the frames of the client's stream. The client reads no stream that it has cut.
func (c *liveClient) write(st *live.Stream, frames []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != st {
		return nil
	}
	for line := range strings.Lines(string(frames)) {
		switch kind, value, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
		case "entry":
			c.storm.came(c, value)
		case "position":
			c.last = value
			clear(c.since)
		}
	}
	return nil
}

// came checks an event. A client drops posts after its last position that it has had
// already.
func (s *liveStorm) came(c *liveClient, post string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.found[pair{c.user, post}] {
		s.broken = append(s.broken, fmt.Sprintf("I2: the stream of %s has %s, which no look found", c.user, post))
	}
	if c.had[post] && !c.since[post] {
		s.broken = append(s.broken, fmt.Sprintf("I7: the stream of %s has %s twice", c.user, post))
	}
	c.had[post], c.since[post] = true, true
}

// liveHomes are the homes of a process as its hub reads them. Each read has the name of its user, and
// begins in a turn of its own: reads that begin at once may share a read, and the first makes it.
type liveHomes struct {
	*domain
	p     *Proc
	storm *liveStorm
}

func (h liveHomes) as(ctx context.Context, name string) context.Context {
	ctx = h.p.withTurns(withOp(ctx, name))
	h.p.requestID(ctx)
	return ctx
}

func (h liveHomes) HomeStreamed(ctx context.Context, user, last string) (*home.Streamed, error) {
	return h.domain.HomeStreamed(h.as(ctx, "stream of "+user), user, last)
}

func (h liveHomes) LikeChanges(context.Context, *home.Streamed) ([]home.PostLikes, error) {
	return nil, nil // streams.go reads them
}

func (h liveHomes) HasProfile(ctx context.Context, user string, consistent bool) (bool, error) {
	return h.domain.HasProfile(h.as(ctx, "profile of "+user), user, consistent)
}

func (h liveHomes) Heard(ctx context.Context, user string, most int) ([]string, bool, error) {
	return h.domain.Heard(h.as(ctx, "list of "+user), user, most)
}

func (h liveHomes) PostsMade(ctx context.Context, low time.Time) (home.Made, error) {
	return h.domain.PostsMade(h.as(ctx, "tail"), low)
}

// Arrivals notes what a look finds, and checks it by the answers before the look.
func (h liveHomes) Arrivals(ctx context.Context, user string, seen *home.Streamed) iter.Seq2[[]feed.HomeItem, error] {
	facts := h.storm.facts.Load()
	return func(yield func([]feed.HomeItem, error) bool) {
		for items, err := range h.domain.Arrivals(h.as(ctx, "stream of "+user), user, seen) {
			h.storm.finds(user, items, facts)
			if !yield(items, err) {
				return
			}
		}
	}
}

func (s *liveStorm) finds(user string, items []feed.HomeItem, facts *liveFacts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range items {
		post, author := item.Post.ID, item.Post.AuthorID
		s.found[pair{user, post}] = true
		if facts.deleted[post] {
			s.broken = append(s.broken, fmt.Sprintf("I2: a look at the home of %s finds %s, whose delete was answered before", user, post))
		}
		// A follow that begins beside the look may be seen.
		if now := s.facts.Load(); slices.Contains(facts.unfollowed[user], author) && now.begun[user] == facts.begun[user] {
			s.broken = append(s.broken, fmt.Sprintf("I2: a look at the home of %s finds %s of %s, an unfollowed author", user, post, author))
		}
	}
}

// uncounted counts no events of streams.
type uncounted struct{}

func (uncounted) Streams(int)              {}
func (uncounted) StreamEvents(string, int) {}
func (uncounted) StreamPoll(error)         {}
func (uncounted) StreamTail(time.Duration) {}
func (uncounted) StreamsUnlisted(int)      {}
func (uncounted) StreamEnded(string)       {}

// serve gives a process a hub for its life.
func (s *liveStorm) serve(p *Proc) {
	homes := liveHomes{s.w.load.serve[p], p, s}
	hub := live.New(live.Config{
		Homes: homes, Posts: homes, Units: live.DefaultUnits, LikesEach: 1000 * time.Hour, Streams: 100, UserStreams: 8,
		Jitter: func() float64 { return 0 },
		Frames: live.Frames{
			Entry:     func(item feed.HomeItem) ([]byte, error) { return []byte("entry " + item.Post.ID + "\n"), nil },
			Position:  func(position string) []byte { return []byte("position " + position + "\n") },
			Heartbeat: []byte("beat\n"),
		},
		Hold:          func(string, int, func()) func() { return func() {} },
		Charge:        func(string, float64) time.Duration { return 0 },
		ChargeService: func(string, float64) time.Duration { return 0 },
		Counters:      uncounted{}, Now: p.Now, Log: zap.NewNop(),
	})
	p.wakes.Wake(hub)
	s.hubs[p] = hub
	p.Go(func(ctx context.Context) { _ = hub.Run(ctx) }) // it ends with ctx, without an error
}

// open opens a stream where the previous stream ended.
func (s *liveStorm) open(c *liveClient, api *Proc) *operation {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	stays := func() { // a stream without a position begins with all that is there when it opens
		if last == "" {
			maps.Copy(c.old, setOf(s.w.listed))
		}
	}
	stays()
	op := &operation{name: "open a stream", user: c.user, settle: func(err error) {
		if err != nil {
			c.again = time.Now().Add(openAgain)
			return
		}
		stays()
	}}
	hub, life := s.hubs[api], api.life.ctx
	op.do = func(ctx context.Context, _ *domain) error {
		st, err := hub.Open(ctx, live.Caller{User: c.user}, last)
		if err != nil {
			return err
		}
		serving, cut := context.WithCancel(life)
		c.mu.Lock()
		c.stream, c.cut, c.ended = st, cut, false
		c.mu.Unlock()
		api.run(func() {
			defer st.Close()
			_ = st.Serve(serving, func(frames []byte) error { return c.write(st, frames) }) // a stream may fail: the client opens the next one
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ended = c.ended || c.stream == st // the client may read the next stream by now
		})
		return nil
	}
	return op
}

// setOf returns the keys of a map as a set.
func setOf[V any](m map[string]V) map[string]bool {
	out := make(map[string]bool, len(m))
	for key := range m {
		out[key] = true
	}
	return out
}

// close cuts the stream of a client, if it has one, and reports that.
func (c *liveClient) close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut == nil {
		return false
	}
	c.cut()
	c.stream, c.cut = nil, nil
	return true
}

func (c *liveClient) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut != nil && !c.ended
}

// learn takes the answers for the looks that begin from now on, and the violations of streams.
func (s *liveStorm) learn() {
	l := s.w.load
	facts := &liveFacts{deleted: clone2(l.deleted), unfollowed: map[string][]string{}, begun: maps.Clone(s.begun)}
	for _, c := range s.clients {
		if l.busy[c.user] == nil {
			facts.unfollowed[c.user], _ = l.certain(c.user) // a home need not have all followees
		}
	}
	s.facts.Store(facts)
	s.mu.Lock()
	broken := s.broken
	s.broken = nil
	s.mu.Unlock()
	for _, v := range broken {
		invariant, what, _ := strings.Cut(v, ": ")
		l.fail(invariant, "%s", what)
	}
}

// liveHomesStorm runs the storm and its calm part.
func (w *World) liveHomesStorm(ctx context.Context, o Options) {
	if o.Calm || o.Plain || o.Fans > 0 || w.seed%liveEvery != liveAt || len(w.load.users) > liveCrowd || len(w.load.violations) > 0 {
		return
	}
	s := &liveStorm{w: w, hubs: map[*Proc]*live.Hub{}, found: map[pair]bool{}, begun: map[string]int{}}
	for _, user := range w.load.users[:min(mostLive, len(w.load.users))] {
		s.clients = append(s.clients, &liveClient{storm: s, user: user, ended: true, watch: watch{had: map[string]bool{}, since: map[string]bool{}, old: map[string]bool{}}})
	}
	s.learn()
	w.begin(20)
	w.faults = w.shape.rates()
	for _, rate := range []*float64{&w.faults.Sleep, &w.faults.Step, &w.faults.Leap, &w.faults.Bury, &w.faults.History} {
		*rate = 0 // streams do not outlive hours
	}
	s.start()
	for due := s.plan(); len(due) > 0 && w.steps < mostSteps; {
		w.step(func() bool { return s.next(&due) })
		w.load.settled()
		s.learn()
	}
	s.stop()
	w.heldBack = false
	clear(w.armed)
	w.quieten(ctx)
	if len(w.load.violations) == 0 {
		s.calm(ctx)
	}
}

// start gives each API a hub, also in its next lives.
func (s *liveStorm) start() {
	s.w.liveStorm = s
	for _, api := range s.w.load.apis {
		if !api.dead && !api.ending {
			s.serve(api)
		}
	}
	s.w.settle() // a hub reads its clock before the world changes it
}

// stop ends all streams and hubs.
func (s *liveStorm) stop() {
	s.w.settle() // a tick that is due now begins before the stop
	s.w.liveStorm = nil
	for _, c := range s.clients {
		c.close()
	}
	s.w.settle()
	for _, api := range s.w.load.apis {
		if hub := s.hubs[api]; hub != nil {
			api.run(hub.Close) // its looks wait for answers
		}
	}
	clear(s.hubs)
	s.w.settle()
	s.learn()
}

// plan returns the operations of the storm: their kinds, and the users who make them.
func (s *liveStorm) plan() (due []planned) {
	kinds := []string{"post", "post", "post", "post", "delete", "follow", "follow", "unfollow", "mute", "unmute", "home", "stream cut", "stream cut"}
	for i := range liveOperations {
		r := draws(s.w.seed, i, 7)
		users := s.w.load.users
		due = append(due, planned{number: 0, user: users[r.IntN(len(users))], kind: kinds[r.IntN(len(kinds))]})
	}
	return due
}

// run starts an operation.
func (s *liveStorm) run(op *operation, api *Proc) {
	s.begun[op.user]++
	s.w.load.run(op, api)
	s.learn()
}

// next opens a stream, or starts the next operation.
func (s *liveStorm) next(due *[]planned) bool {
	l := s.w.load
	r := draws(s.w.seed, s.w.since, 8)
	api := l.apis[r.IntN(len(l.apis))]
	if !api.up() || s.hubs[api] == nil {
		return false
	}
	for _, c := range s.clients {
		if !c.open() && l.busy[c.user] == nil && !time.Now().Before(c.again) {
			s.run(s.open(c, api), api)
			return true
		}
	}
	p := (*due)[0]
	if l.busy[p.user] != nil {
		return false
	}
	*due = (*due)[1:]
	if p.kind == "stream cut" {
		return s.clients[r.IntN(len(s.clients))].close()
	}
	p.number = liveNumber + len(*due)
	op := l.pick(r, p)
	op.number = 0
	s.run(op, api)
	return true
}

// liveNumber is above the numbers of all other storms' operations.
const liveNumber = 100_000

// calm opens all streams at one API and makes another one accept posts. There is no fault. Then each
// stream has all posts of its home, and gets each later post in time.
func (s *liveStorm) calm(ctx context.Context) {
	w, l := s.w, s.w.load
	w.faults, w.tight = Rates{}, nil
	here, there := l.apis[0], l.apis[1]
	if slices.ContainsFunc(w.procs, func(p *Proc) bool { return !p.up() }) {
		return // it sleeps for hours
	}
	s.start()
	apart := l.farAhead(here) || l.farAhead(there)
	for _, p := range w.procs { // a post of a slow clock may wait for the next long tick
		p.skew.Store(0)
		p.back = time.Now()
	}
	for _, c := range s.clients {
		s.run(s.open(c, here), here)
	}
	s.pass(5*time.Second, "")
	for _, c := range s.clients {
		s.missed(ctx, c)
	}
	reader, author := l.users[0], l.users[1]
	follow := l.followOf(reader, author, true, 0)
	s.run(follow, here) // its list is that of the streams
	s.pass(10*time.Second, "")
	if follow.err == nil && !apart && !l.unsure(pair{reader, author}) && l.mutes[pair{reader, author}] == nil {
		// No hint comes, so the slow look has to find the post.
		s.noIndex = true
		s.event(there, author, "", live.DefaultSlowLook+2*time.Second)
		s.noIndex = false
		// The hint comes long before the entry.
		s.event(there, author, "timeline", 8*time.Second)
	}
	if !apart {
		s.removal(here, there)
	}
	s.stop()
	w.quieten(ctx)
}

// event makes author post at an API, while the writes of one kind wait for three seconds. The first
// client has to get the post within a time.
func (s *liveStorm) event(api *Proc, author, held string, within time.Duration) {
	l := s.w.load
	before := len(l.posts)
	s.run(&operation{
		name: "post for streams", user: author,
		do: func(ctx context.Context, d *domain) error {
			post, err := d.CreatePost(ctx, author, feed.PostInput{Text: "for streams"})
			if err == nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.posted = post.ID
			}
			return err
		},
		settle: func(err error) {
			if refusedByHour(err) && s.w.shape.Units > 0 {
				return
			}
			if err != nil {
				l.fail("I7", "a post without a fault: %v", err)
				return
			}
			l.posts, l.number[s.posted] = append(l.posts, s.posted), liveNumber
			l.texts[s.posted], l.owner[s.posted], l.accepted[s.posted] = &text{is: "for streams"}, author, true
		},
	}, api)
	s.pass(3*time.Second, held)
	s.pass(within-3*time.Second, "")
	if len(l.posts) == before {
		return
	}
	c := s.clients[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.had[s.posted] {
		l.fail("I7", "the stream of %s has not got %s of %s within %s", c.user, s.posted, author, within)
	}
}

// missed reports the posts of a client's home that its stream has never got.
func (s *liveStorm) missed(ctx context.Context, c *liveClient) {
	l := s.w.load
	service := s.w.direct()
	items, _, err := wholeHome(ctx, service, c.user, 10, false)
	if err != nil {
		l.fail("I7", "home of %s: %v", c.user, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	posts := make([]string, len(items))
	for i, item := range items {
		posts[i] = item.Post.ID
	}
	l.missed(c.user, &c.watch, posts)
}

// pass runs the world without faults for a time. Writes whose class contains held wait.
func (s *liveStorm) pass(lasts time.Duration, held string) {
	w := s.w
	for end := time.Now().Add(lasts); time.Now().Before(end) && w.steps < mostSteps; {
		w.steps++
		w.since++
		w.settle()
		w.collect()
		w.wake()
		w.finishStops()
		w.reboot()
		w.load.settled()
		s.learn()
		ready := slices.DeleteFunc(w.ready(), func(c *call) bool {
			return held != "" && strings.HasSuffix(c.class, held) && !strings.HasPrefix(c.class, "query")
		})
		switch {
		case len(ready) > 0:
			w.answer(ready[0], ready[0].effect(1), "done")
		case w.handOut():
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// hides reports whether the index of posts by time lacks an item of the table now. Some posts are never
// there.
func (s *liveStorm) hides(it table.Item) bool {
	if s == nil {
		return false
	}
	post, _ := schema.PostOfSK(it.Str(table.AttrGSI1SK))
	lot := mix(s.w.seed, "index "+post)
	lag := []time.Duration{0, 0, time.Second, 3 * time.Second, 20 * time.Second, time.Hour}[lot%6]
	if s.w.faults == (Rates{}) {
		lag = 0
	}
	return s.noIndex || time.Since(s.w.listed[post].at) < lag
}
