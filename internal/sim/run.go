package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/removal"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/notices"
	"fanfare/internal/feed/view"
	"fanfare/internal/id"
	"fanfare/internal/likeagg"
	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Options are the options of a run.
type Options struct {
	// Operations is the number of calls that users make; if 0, the seed draws it.
	Operations int
	// Calm switches all faults off.
	Calm bool
	// Plain gives the worlds of all seeds the same sizes, mix and faults.
	Plain bool
	// KeepTrace returns the lines of the trace.
	KeepTrace bool
	// Watch counts the operations of the product that the storms perform.
	Watch bool
	// Keep, if not nil, has the numbers, from 1 on, of the operations that are made. All other
	// operations are left out.
	Keep []int
	// Faults, if not nil, has the kinds of fault that may happen. All other faults are drawn and left
	// out.
	Faults []string
	// LikesTable, if not nil, wraps the table of the aggregators, so that a test can break that table.
	LikesTable func(table.Store) table.Store
	// Histories records the calls of the historians during the storms, in Result.Calls.
	Histories bool
	// Traces writes traces of a post's likes and of a follow, to Result.Traces.
	Traces bool
	// Fans, if above 0, is the number of users who like one post once each. The run does nothing else.
	Fans int
	// Embedded keeps the table and the queues in the embedded engine, on a disk that fails.
	Embedded bool
	// Archived gives each world on the embedded engine an archive.
	Archived bool
	// outside runs work that a bubble does not allow.
	outside *outside
}

const (
	defaultOperations = 200
	// timelineTTL is the TTL of homes in a world whose TTL does not change, and the first TTL in any other
	// world.
	timelineTTL = 30 * 24 * time.Hour
	likeWindow  = time.Second
	// headAge is the maximum delay of a pulled post in the first page of a home, as in the product.
	headAge = time.Second
	// grace is the time for which a stopped process may work on its messages.
	grace = 5 * time.Second
	// mostSteps is the number of steps that ends a run. A world that is not quiet by then is a
	// violation.
	mostSteps = 400_000
)

// Run runs one seed in a bubble of virtual time and checks every invariant. The goroutines have the seed as a
// label, which the trace of a panic prints.
func Run(t *testing.T, seed uint64, o Options) Result {
	t.Helper()
	shape := shapeOf(seed, o)
	o.Operations = shape.Operations
	if o.Embedded {
		dir, err := os.MkdirTemp(t.TempDir(), "seed") //nolint:usetesting // t may run many seeds, and removes its own directories last
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}()
		o.outside = newOutside(dir)
		defer o.outside.close()
	}
	var res Result
	pprof.Do(t.Context(), pprof.Labels("seed", strconv.FormatUint(seed, 10)), func(context.Context) {
		synctest.Test(t, func(t *testing.T) { res = run(t, seed, shape, o) })
	})
	return res
}

func run(t *testing.T, seed uint64, shape Shape, o Options) Result {
	w, began := newWorld(seed, shape), time.Now()
	w.trace.keep, w.likesTable = o.KeepTrace, o.LikesTable
	w.performed = newPerformed(o)
	for _, kind := range Faults() {
		w.off[kind] = slices.Contains(shape.Off, kind) || o.Faults != nil && !slices.Contains(o.Faults, kind)
	}
	if o.Fans > 0 {
		w.shape.Held = o.Fans // windows close only by time
	}
	if o.Embedded {
		w.engine = newEngine(w, o)
		w.store = w.engine
		w.shape.TTLs = false // one process has all roles, so all roles have one setting
		w.firstTTL()         // the table is new

		for _, kind := range notOnEngine() {
			w.off[kind] = true
		}
	}
	w.load = newWorkload(w)
	w.lives = newLives(seed, shape, o)
	if oneWriter(seed) {
		w.authors = feed.NewAuthors()
	}
	w.slowed = w.lives.slow(w, w.slowed)
	w.recorded = newHistories(w, o)
	w.traced = specTraces{newLikeTraces(o), newHomeTraces(o)}
	w.build(w.load)
	w.live(t.Context(), o)
	w.setRight()
	w.keptStorm(t.Context(), o)
	w.liveHomesStorm(t.Context(), o)
	w.endsStorm(t.Context(), o)
	w.movesStorm(t.Context(), o)
	w.measure(t.Context(), o)
	w.refusesNobody(o)
	w.shutDown()
	w.engine.close()
	return Result{
		Seed: seed, Violations: w.load.violations, Fired: w.Fired, Met: w.Met, Operations: w.load.made,
		Shape: shape, Lived: time.Since(began), Steps: w.steps, Calls: w.recorded.all(), Traces: map[string]string{"Kinds": w.traced.likes.longest(), "Homes": w.traced.homes.longest()}, Reached: w.reach.met, Performed: w.performances(), Trace: w.trace.sum, Lines: w.trace.lines,
	}
}

// live is the life of a world: profiles, a storm, and a quiet time. In some worlds days or weeks
// follow, then another storm, and another quiet time.
func (w *World) live(ctx context.Context, o Options) {
	l := w.load
	for _, user := range l.users {
		profile := l.profile(user, user)
		profile.settle = func(err error) {
			if err != nil {
				l.fail("I5", "profile of %s: %v", user, err)
			}
		}
		l.run(profile, l.apis[0])
	}
	w.lives.populate(w)
	w.recorded.populate()
	if w.shape.Mix == crowd {
		w.quieten(ctx)
		for _, user := range l.users[1:] {
			l.run(l.followOf(user, l.users[0], true, 0), l.apis[0])
		}
	}
	w.quieten(ctx)
	if !o.Calm {
		w.faults = w.shape.rates()
		w.skew()
		w.aim()
	}
	if o.Fans > 0 {
		w.fans(ctx, o.Fans)
		return
	}
	w.begin(1)
	first := o.Operations / 2
	if w.shape.Ages {
		first = o.Operations * 3 / 4
	}
	l.due = w.besideReposts(w.besideReads(w.besideNotices(w.lives.beside(w.seed, l.plan(o, 1, first)))))
	w.untilMidnight()
	w.storm()
	w.quieten(ctx)
	w.recorded.quiet()
	if w.pass(o) && w.shape.Ages { // another storm would repair much
		w.quieten(ctx)
	}
	w.begin(5)
	l.due = w.besideReposts(w.besideReads(w.besideNotices(w.lives.beside(w.seed, l.plan(o, first+1, o.Operations)))))
	if !o.Calm {
		w.faults = w.shape.rates()
	}
	w.untilMidnight()
	w.storm()
	w.heldBack = false
	clear(w.armed)
	w.quieten(ctx)
	w.recorded.quiet()
}

// fans makes a hot post: each of n users likes the post once, by messages that other programs could
// send.
func (w *World) fans(ctx context.Context, n int) {
	l := w.load
	author := l.users[0]
	l.run(l.createPost(draws(w.seed, 0, 0), planned{user: author}), l.apis[0])
	w.quieten(ctx)
	ids := id.NewSeededGenerator(time.Now, entropy(w.rng.Uint64()))
	began := time.Now()
	for i := range n {
		version, err := ids.New()
		if err != nil {
			l.fail("oracle", "%v", err)
			return
		}
		e := &messages.Liked{Like: messages.Like{
			Header: messages.Header{EventID: version, Time: time.Now()}, PostID: l.posts[0], UserID: fmt.Sprintf("fan%d", i),
		}}
		payload, err := messages.Encode(e)
		if err != nil {
			l.fail("oracle", "%v", err)
			return
		}
		w.put(queue.TopicLikes, version, "", payload)
		w.step(func() bool { return false })
	}
	for len(w.queue(queue.TopicLikes).messages) > 0 && w.steps < mostSteps {
		w.step(func() bool { return false })
	}
	w.Met["windows"] = int(time.Since(began)/likeWindow) + 1
	w.quieten(ctx)
}

// begin starts a phase of the world's life. The draws of a phase do not depend on the length of the
// previous phase.
func (w *World) begin(phase int) {
	w.phase, w.since, w.slept = phase, 0, 0
	w.about("phase %d", phase)
}

func (w *World) storm() {
	for len(w.load.due) > 0 && w.steps < mostSteps {
		w.night()
		w.audit()
		w.step(w.recorded.beside(w.load.next))
		w.load.settled()
		if w.steps%50 == 0 {
			w.checkCounts()
			w.checkLife()
		}
	}
}

// quieten ends all faults, waits until the world is quiet, and checks the world.
func (w *World) quieten(ctx context.Context) {
	storm := w.faults
	w.faults, w.tight = Rates{}, nil
	w.begin(w.phase + 1)
	for _, topic := range queue.Topics() {
		// Dead letters of likes may wait for days: checkLikes leaves out the posts of these likes.
		w.redrive(topic, func(d queue.DeadLetter) error {
			if topic == queue.TopicLikes && (w.heldBack || w.rng.IntN(2) == 0) {
				return errDown
			}
			return redrivable(d)
		})
	}
	if !w.calm() {
		return
	}
	stormy := true
	for again := true; again; stormy = false { // a late post makes likes known
		unknown, late := w.redriveUnknown(), w.redriveLate(stormy)
		if again = unknown || late; again && !w.calm() {
			return
		}
	}
	w.askAgain()
	w.checkCalmly(ctx)
	w.faults = storm
}

// calm waits until the world is quiet, and reports whether it becomes quiet.
func (w *World) calm() bool {
	for quiet := 0; quiet < 40; {
		if w.steps++; w.steps > mostSteps {
			var left strings.Builder
			for _, topic := range queue.Topics() {
				left.WriteString(fmt.Sprintf(", %d messages of %s left", len(w.queue(topic).messages), topic))
			}
			w.load.fail("stuck", "nothing becomes quiet: %d operations busy%s", len(w.load.busy), left.String())
			return false
		}
		w.step(func() bool { return false })
		w.load.settled()
		if w.idle() {
			quiet++
			time.Sleep(time.Second)
			continue
		}
		quiet = 0
	}
	// The marks of finished backfills live for another minute.
	time.Sleep(2 * time.Minute)
	return true
}

func (w *World) idle() bool {
	w.mu.Lock()
	parked := slices.ContainsFunc(w.parked, func(c *call) bool { return !c.proc.asleep })
	w.mu.Unlock()
	if parked || len(w.lates) > 0 || w.shadows.pending() || len(w.load.busy) > 0 {
		return false
	}
	for _, p := range w.procs {
		if p.dead || p.ending {
			return false
		}
	}
	for _, topic := range queue.Topics() {
		if len(w.queue(topic).messages) > 0 {
			return false
		}
	}
	return true
}

// checkCalmly reads homes and counts through a service without faults and delays.
func (w *World) checkCalmly(ctx context.Context) {
	w.checkAudit(ctx)
	w.checkQuiet(ctx, w.direct())
}

// direct returns a domain that uses the table without the ports.
func (w *World) direct() *domain {
	return newDomain(true, access.Config{
		Store: w.store, Publisher: noPublisher{}, IDs: id.NewSeededGenerator(time.Now, entropy(w.rng.Uint64())), Now: time.Now,
		Lifetimes: w.lifetimesNow(), Reactions: kinds(), Jitter: func() float64 { return 0 }, Log: zap.NewNop(),
	}, feed.Config{LikesByUser: w.seed%2 == 0}, home.Config{})
}

// pass lets days or weeks pass in some worlds. Entries and marks expire and are deleted late,
// ledgers are pruned, processes sleep, and dead letters are redriven, sometimes too late. pass
// reports whether time passed.
func (w *World) pass(o Options) bool {
	w.about("pass")
	sleepers := slices.ContainsFunc(w.procs, func(p *Proc) bool { return p.asleep })
	if o.Calm || !sleepers && !w.heldBack && w.rng.IntN(3) > 0 || w.off[FaultDays] {
		return false
	}
	w.Fired[FaultDays]++
	w.aged = true
	most, late := 14, w.rng.IntN(2) == 0
	if w.shape.Long {
		most = 40
	}
	for i := range 1 + w.rng.IntN(4) {
		w.about("days %d", w.since)
		d := time.Duration(1+w.rng.IntN(most*24)) * time.Hour
		if i == 0 && late && w.shape.Ages {
			d += 33 * day // everything with a TTL expires
		}
		w.pause(d)
		if err := w.expire(); err != nil {
			w.load.fail("oracle", "%v", err)
		}
		if !late && w.rng.IntN(2) == 0 {
			w.redriveAll()
		}
		for range 20 {
			w.step(func() bool { return false })
		}
	}
	w.redriveAll()
	w.heldBack = false
	if w.rng.IntN(4) > 0 { // the sleepers wake up while users are active
		for _, p := range w.procs {
			if p.asleep {
				p.paused = time.Now().Add(time.Duration(w.rng.IntN(2000*w.shape.Pace)) * time.Millisecond)
			}
		}
	}
	return true
}

// redriveAll redrives the dead letters. An operator may bypass Fanfare and also redrive letters
// that are too old: the consumers have to refuse such letters.
func (w *World) redriveAll() {
	past := w.rng.IntN(2) == 0 && !w.off[FaultOld]
	for _, topic := range queue.Topics() {
		w.redrive(topic, func(d queue.DeadLetter) error {
			err := redrivable(d)
			if err == nil || !past {
				return err
			}
			if _, err := messages.Decode(d.Payload); err != nil {
				return err
			}
			w.Fired[FaultOld]++
			return nil
		})
	}
}

// redrivable returns an error for a message that can never be processed, or is too old.
func redrivable(d queue.DeadLetter) error {
	e, err := messages.Decode(d.Payload)
	if err != nil {
		return err
	}
	err = messages.CheckAge(e, time.Now())
	if _, early := errors.AsType[*messages.EarlyError](err); early {
		return nil
	}
	return err
}

// skew sets the clocks of the processes to different times, up to two seconds or some hours apart.
// In some worlds the clock of one API is so far ahead that the API's events have to wait.
func (w *World) skew() {
	if w.hours = w.shape.Hours && !w.off[FaultHours]; w.hours {
		w.Fired[FaultHours]++
	}
	for _, p := range w.procs {
		skew := w.apart(p)
		if skew == 0 || p.wrong || w.off[FaultSkew] {
			continue
		}
		p.skew.Store(int64(skew))
		w.Fired[FaultSkew]++
	}
	ahead := messages.MaxAhead + time.Duration(w.rng.IntN(600))*time.Second
	if w.rng.IntN(4) == 0 && !w.off[FaultAhead] {
		w.load.apis[0].skew.Store(int64(ahead))
		w.Fired[FaultAhead]++
	}
}

// build starts two APIs, two fan-out workers, three aggregators and an audit of the product.
func (w *World) build(l *workload) {
	for i := range 2 {
		l.apis = append(l.apis, w.start("api", i, func(p *Proc) {
			l.serve[p] = w.service(p)
			if w.liveStorm != nil {
				w.liveStorm.serve(p)
			}
		}))
	}
	for i := range 2 {
		w.start("fanout", i, w.fanout)
	}
	for i := range 3 {
		w.start("likeagg", i, w.likeagg)
	}
	w.audited = w.start("audit", 0, w.auditing)
	for i := range notifiers {
		if w.shape.Notices {
			w.start("notify", i, w.notify)
		}
	}
}

func (w *World) service(p *Proc) *domain {
	p.lifetimes = w.decides(p)
	var shared time.Duration // time for which names and counts are shared, in half of the worlds
	if w.seed%4 >= 2 {
		shared = likeWindow
	}
	var heads time.Duration
	if w.shape.Heads {
		heads = headAge
	}
	served := newDomain(!p.silent, access.Config{
		Clock: p.clock, Store: p.wakes.Store(p.Store()), Local: oneWriter(w.seed), Publisher: p.Broker(), IDs: id.NewSeededGenerator(p.Now, entropy(w.rng.Uint64())), Now: p.Now,
		Lifetimes: p.lifetimes, ActiveDays: w.activeDays(), LikeWindow: shared, Reactions: kinds(), Jitter: jitter(w.rng.Uint64()), RequestID: p.requestID, Log: zap.NewNop(),
	}, feed.Config{
		Authors: w.authors, RecentPosts: w.shape.Recent, LikesByUser: w.seed%2 == 0, FollowersPerLikeShard: int64(w.shape.PerShard), UserUnits: w.shape.Units, Notices: w.notifies(p),
	}, home.Config{StreamPart: 2, RemoveFrom: 1, HeadAge: heads})
	served.turn, served.ahead = p.turn, func() bool { return w.load.farAhead(p) }
	return served
}

// domain is the part of a process that an API calls.
type domain struct {
	*feed.Service
	*home.Homes
	*view.Views
	*delivery.Deliveries
	*removal.Removals
	notices *notices.Notices
	// turn waits until all other goroutines are blocked.
	turn func(context.Context)
	// ahead reports whether the clock of the process is in doubt. It is nil if the process does not
	// get the right time.
	ahead func() bool
}

// newDomain returns a domain. notified means that its notifications are on.
func newDomain(notified bool, way access.Config, posts feed.Config, homes home.Config) *domain {
	a := access.New(way)
	posts.Access = a
	service := feed.New(posts)
	homes.Access, homes.Items, homes.Mutes = a, service, service
	return &domain{service, home.New(homes), view.New(a, service), delivery.New(a), removal.New(a, service), notices.New(a, service, notified, nil), nil, nil}
}

// usersOf makes the Forget of package removal fit the interface of the fan-out.
type usersOf struct{ removals *removal.Removals }

func (u usersOf) Forget(ctx context.Context, user, event string, most int) (fanout.Forgotten, error) {
	done, err := u.removals.Forget(ctx, user, event, most)
	return fanout.Forgotten{Removed: done.Sum(), Unliked: done.Likes, Wait: done.Wait, Left: done.Left, Overtaken: done.Overtaken}, err
}

// pushLimit draws the push limit of a worker, because the limit may be changing in a deployment.
func (w *World) pushLimit() int64 {
	if w.probe != nil {
		return w.probe.limit
	}
	if w.shape.Limit > 0 && w.rng.IntN(4) == 0 {
		return int64(w.rng.IntN(5))
	}
	return int64(w.shape.Limit)
}

// chunkSize returns the chunk size of a worker. The size may be changing in a deployment, and then
// two planners of one post cut at different places.
func (w *World) chunkSize(p *Proc) int {
	if p.Name == "fanout-1" && w.plannersMeet() && w.probe == nil {
		return w.shape.Chunk + 1
	}
	return w.shape.Chunk
}

// pageSize returns the number of followers that a worker delivers to without chunks.
func (w *World) pageSize(p *Proc) int {
	if p.Name == "fanout-1" && w.plansLag() {
		return 16 * w.shape.Page
	}
	return w.shape.Page
}

// activeDays draws the active days of a process, because they may be changing in a deployment.
func (w *World) activeDays() int {
	if w.shape.Days > 0 && w.probe == nil && w.rng.IntN(2) == 0 {
		return []int{0, 2, 3, 14}[w.rng.IntN(4)]
	}
	return w.shape.Days
}

// returnPosts is fanout.ReturnPosts with small numbers.
func (w *World) returnPosts(followees int) int {
	if followees < 3 {
		return w.shape.Recent - 2
	}
	return w.shape.Recent
}

func (w *World) fanout(p *Proc) {
	service := w.service(p)
	ids := id.NewSeededGenerator(p.Now, entropy(w.rng.Uint64()))
	p.limit = w.pushLimit()
	worker := fanout.New(fanout.Config{
		Store: p.Store(), Posts: service, Users: usersOf{service.Removals}, Publisher: p.Broker(),
		IDs: ids, Now: p.Now, Clock: p.clock, Lifetimes: p.lifetimes, PushLimit: p.limit, Events: w.tell(p), Notices: w.notifies(p),
		Observe: func(n int, since time.Duration) { w.sawEntries(n, since) }, Skipped: func(n int) { w.sawEntries(-n, 0) },
		ActiveDays: w.activeDays(), ReturnPosts: w.returnPosts, Writers: 2, PageSize: w.pageSize(p), ChunkSize: w.chunkSize(p), PlanChunks: w.shape.Plan, Log: zap.NewNop(),
	})
	w.consume(p, queue.TopicPosts, worker.HandlePosts)
	w.consume(p, queue.TopicBackfills, worker.HandleBackfills)
	if !w.shape.Notices {
		w.empties(p, queue.TopicNotices)
	}
	w.consume(p, queue.TopicChunks, worker.HandleChunks)
}

func (w *World) consume(p *Proc, topic string, handle queue.Handler) {
	consumer := &queue.Consumer{
		Topic: topic, Broker: p.Broker(), Handle: handle, Workers: 3, Grace: grace, Now: p.Now, Clock: p.clock, Log: zap.NewNop(),
	}
	p.Go(func(ctx context.Context) { w.ended(ctx, p, topic, consumer.Run(ctx)) })
}

func (w *World) likeagg(p *Proc) {
	store := p.Store()
	if w.likesTable != nil {
		store = w.likesTable(store)
	}
	aggregator := likeagg.New(likeagg.Config{
		Store: store, Broker: p.Broker(), Now: p.Now, Clock: p.clock, Window: likeWindow, MaxMessages: w.shape.Held, PutConcurrency: 4, Grace: grace,
		IndexLikes: w.seed%2 == 0, Kinds: w.kindsAt(p), Random: random(w.rng.Uint64()), Log: zap.NewNop(),
		Events: w.applied(p), Observe: func(o likeagg.Outcome) { w.sawOutcome(p, o) },
	})
	p.Go(func(ctx context.Context) { w.ended(ctx, p, "likes", aggregator.Run(ctx)) })
}

// ended reports a violation if a consumer stopped although nothing killed its process.
func (w *World) ended(ctx context.Context, p *Proc, what string, err error) {
	if err != nil && ctx.Err() == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.load.violations = append(w.load.violations, fmt.Sprintf("stuck: %s of %s ended: %v", what, p.Name, err))
	}
}

// shutDown kills every process and waits for the goroutines of all processes.
func (w *World) shutDown() {
	w.faults, w.tight = Rates{}, nil
	for _, p := range w.procs {
		if !p.dead {
			w.crash(p, "end")
		}
	}
	for _, p := range w.procs {
		p.work.Wait()
	}
	delete(w.Fired, "crash end")
}

// noPublisher is the publisher of the checking service, which only reads. A home with an old mark
// requests the mark's backfill again, and must be right without that backfill.
type noPublisher struct{}

func (noPublisher) Publish(string, ...*message.Message) error { return nil }
func (noPublisher) Close() error                              { return nil }

func random(seed uint64) func() uint64 {
	r := rand.New(rand.NewPCG(seed, 1))
	return r.Uint64
}

func jitter(seed uint64) func() float64 {
	r := rand.New(rand.NewPCG(seed, 2))
	return r.Float64
}

type entropyReader struct{ r *rand.Rand }

func entropy(seed uint64) entropyReader { return entropyReader{rand.New(rand.NewPCG(seed, 3))} }

func (e entropyReader) Read(p []byte) (int, error) {
	var b [8]byte
	for i := range p {
		if i%8 == 0 {
			binary.LittleEndian.PutUint64(b[:], e.r.Uint64())
		}
		p[i] = b[i%8]
	}
	return len(p), nil
}
