package sim

import (
	"context"
	"errors"
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
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// In some worlds a last storm is about live homes (docs/decisions/0023). Each API has a hub, and some users
// have streams. The driver cuts the streams and opens them again at some API. The index of posts by time lags,
// and lacks some posts. After the storm a calm part checks the delay of each event.

const (
	// liveEvery and liveAt choose the worlds. These worlds have no other last part, except perhaps
	// the storm about kept blocks.
	liveEvery, liveAt = 4, 3
	// mostLive is the number of users with streams. A world with liveCrowd users or more
	// has no streams.
	mostLive, liveCrowd = 3, 16
	// liveOperations is the number of operations of the storm.
	liveOperations = 36
	// openAgain is the time that a client waits after a refused stream.
	openAgain = time.Second
)

// liveStorm is the storm about live homes. Its oracle checks that each event has its cause in a
// look, that each event arrives once, and that no post is missing.
type liveStorm struct {
	w       *World
	hubs    map[*Proc]*live.Hub
	clients []*liveClient
	// facts has the facts that a look which begins now must respect.
	facts atomic.Pointer[liveFacts]
	// noIndex hides all posts from the index of posts by time. noTail makes the reads of all tails fail.
	noIndex bool
	noTail  atomic.Bool
	// posted is the post of the last event.
	posted string
	// begun counts the operations of each user.
	begun map[string]int

	mu sync.Mutex
	// late has the posts with a deletion or an edit that had no quick answer.
	late map[string]bool
	// apart is set once the clocks of two processes differ too much for the log of changes.
	apart bool
	// found has the authors of the posts that looks found, by user and post. left has the authors
	// whom users have begun to unfollow or mute. broken has the violations.
	found map[pair]string
	// originals has the originals of the reposts that looks found.
	originals map[string]string
	left      map[pair]bool
	broken    []string
}

var errNoTail = errors.New("the tail is away")

// liveFacts are the answers before a look that the look must respect (I2).
type liveFacts struct {
	deleted map[string]bool
	// unfollowed has, by user, the authors whose posts the user's home must not show. begun is the
	// number of operations that each user has begun.
	unfollowed map[string][]string
	begun      map[string]int
}

// liveHomes are the homes of a process as its hub reads them. Each read has the name of its user,
// and begins in a turn of its own: reads that begin at the same time may share one read, and the
// first of these reads makes the shared read.
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

func (h liveHomes) LikeChanges(context.Context, string, *home.Streamed) ([]home.PostLikes, error) {
	return nil, nil // streams.go reads them
}

func (h liveHomes) HasProfile(ctx context.Context, user string, consistent bool) (bool, error) {
	return h.domain.HasProfile(h.as(ctx, "profile of "+user), user, consistent)
}

func (h liveHomes) Heard(ctx context.Context, user string, most int) ([]string, bool, error) {
	return h.domain.Heard(h.as(ctx, "list of "+user), user, most)
}

func (h liveHomes) PostsMade(ctx context.Context, low time.Time) (home.Made, error) {
	if h.storm.noTail.Load() {
		return home.Made{}, errNoTail
	}
	return h.domain.PostsMade(h.as(ctx, "tail"), low)
}

// Arrivals records the posts that a look finds, and checks the posts against the answers before the
// look.
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

// Edited checks the posts that a look at edited posts sends against the answers before the look.
func (h liveHomes) Edited(ctx context.Context, user string, refs []access.Ref) ([]feed.HomeItem, error) {
	facts := h.storm.facts.Load()
	items, err := h.domain.Edited(h.as(ctx, "edits of "+user), user, refs)
	h.storm.mu.Lock()
	defer h.storm.mu.Unlock()
	h.storm.respects(user, items, facts)
	return items, err
}

func (s *liveStorm) finds(user string, items []feed.HomeItem, facts *liveFacts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range items {
		s.found[pair{user, item.Post.ID}] = item.Post.AuthorID
		s.originals[item.Post.ID] = item.Post.RepostOf
	}
	s.respects(user, items, facts)
}

// respects checks the posts of a look against the answers before the look. The caller holds mu.
func (s *liveStorm) respects(user string, items []feed.HomeItem, facts *liveFacts) {
	for _, item := range items {
		post, author := item.Post.ID, item.Post.AuthorID
		if facts.deleted[post] {
			s.broken = append(s.broken, fmt.Sprintf("I2: a look at the home of %s finds %s, whose delete was answered before", user, post))
		}
		// The look may see a follow that began after the beginning of the look.
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
			Entry:     func(item feed.HomeItem) ([]byte, error) { return itemFrame("entry", item), nil },
			Edited:    func(item feed.HomeItem) ([]byte, error) { return itemFrame("edited", item), nil },
			Deleted:   func(post string) ([]byte, error) { return []byte("deleted " + post + "\n"), nil },
			Changed:   func(post string) ([]byte, error) { return []byte("changed " + post + "\n"), nil },
			Stale:     []byte("stale\n"),
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
	p.Go(func(ctx context.Context) { _ = hub.Run(ctx) }) // Run ends with ctx, without an error
}

// learn publishes the answers that later looks must respect, and reports the violations of streams.
func (s *liveStorm) learn() {
	l := s.w.load
	facts := &liveFacts{deleted: clone2(l.deleted), unfollowed: map[string][]string{}, begun: maps.Clone(s.begun)}
	for _, c := range s.clients {
		if l.busy[c.user] == nil {
			facts.unfollowed[c.user], _ = l.certain(c.user) // a home need not have all followees
		}
	}
	s.facts.Store(facts)
	s.apart = s.apart || s.clocksApart()
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
	s := &liveStorm{w: w, hubs: map[*Proc]*live.Hub{}, found: map[pair]string{}, originals: map[string]string{}, left: map[pair]bool{}, begun: map[string]int{}, late: map[string]bool{}}
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
	s.settlePages(ctx)
	s.stop()
	w.heldBack = false
	clear(w.armed)
	w.quieten(ctx)
	if len(w.load.violations) == 0 {
		s.calm(ctx)
	}
}

// start gives each API a hub, and also gives a hub to each later life of the API.
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
			api.run(hub.Close) // the looks of the hub wait for answers
		}
	}
	clear(s.hubs)
	s.w.settle()
	s.learn()
}

// plan returns the operations of the storm: their kinds, and the users who make them.
func (s *liveStorm) plan() (due []planned) {
	kinds := []string{"post", "post", "post", "post", "delete", "delete", "edit", "edit", "edit", "follow", "follow", "unfollow", "mute", "unmute", "home", "stream cut", "stream cut", "repost", "repost", "unrepost"}
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
	s.watchChange(op)
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
	if s.reads() {
		return true
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
	if kind, author, _ := strings.Cut(op.name, " "); kind == "unfollow" || kind == "mute" {
		s.mu.Lock()
		s.left[pair{op.user, author}] = true
		s.mu.Unlock()
	}
	s.run(op, api)
	return true
}

// liveNumber is larger than the number of any operation of another storm.
const liveNumber = 100_000

// hides reports whether the index of posts by time lacks an item of the table now. Some posts are
// never in the index.
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
