package feed_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// settled is a process with its own setting of the TTL: an API and the product's worker, on a table
// and a queue that all processes share.
type settled struct {
	*world
	worker *fanout.Worker
	queue  *events
}

// events is the queue that several processes share.
type events struct{ waiting []messages.Event }

func (q *events) Publish(_ string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		e, err := messages.Decode(msg.Payload)
		if err != nil {
			return err
		}
		q.waiting = append(q.waiting, e)
	}
	return nil
}

func (*events) Close() error { return nil }

// started starts a process with a setting. The setting decides the TTL of homes.
func (w *world) started(q *events, ttl time.Duration, pushLimit int64, days ...int) *settled {
	w.t.Helper()
	view := lifetime.New(lifetime.Config{Store: w.store, Now: w.clock.now, TTL: ttl})
	require.NoError(w.t, view.Decide(w.t.Context()))
	active := append(days, 14)[0]
	p := w.with(func(c *config) { c.Lifetimes, c.Publisher, c.ActiveDays = view, q, active })
	return &settled{p, fanout.New(fanout.Config{
		Store: table.HideExpired(p.store, w.clock.now), Posts: p.Service, Publisher: q, IDs: id.NewGenerator(w.clock.now), Now: w.clock.now,
		Lifetimes: view, PushLimit: pushLimit, ActiveDays: active,
	}), q}
}

// work handles all events.
func (p *settled) work() {
	p.t.Helper()
	for len(p.queue.waiting) > 0 {
		e := p.queue.waiting[0]
		p.queue.waiting = p.queue.waiting[1:]
		handle := p.worker.HandleBackfills
		switch e.(type) {
		case *messages.PostCreated:
			handle = p.worker.HandlePosts
		case *messages.FanoutPlan, *messages.FanoutChunk:
			handle = p.worker.HandleChunks
		}
		err := handle(p.t.Context(), e)
		if later, ok := errors.AsType[*queue.Later](err); ok {
			p.clock.add(max(later.After, time.Second))
			p.queue.waiting = append(p.queue.waiting, e)
			continue
		}
		require.NoError(p.t, err)
	}
}

// both returns the texts of a home. The texts must be the same by push and by pull.
func (p *settled) both(viewer string) []string {
	p.t.Helper()
	var read [2][]string
	for i, pull := range []bool{false, true} {
		read[i] = texts(p.home(viewer, 3, home.Query{Pull: pull}))
	}
	require.Equal(p.t, read[1], read[0], "by push it lacks posts, or has more than by pull")
	return read[0]
}

// seen returns the texts of viewer's home, by push and by pull, after the worker has ended an absence
// of viewer.
func (p *settled) seen(viewer string) []string {
	p.t.Helper()
	p.both(viewer)
	p.work()
	p.clock.add(2 * time.Minute)
	return p.both(viewer)
}

func TestAHomeByPushIsThatByPullAfterTheTTLWasRaised(t *testing.T) {
	const day = 24 * time.Hour
	w, q := newWorld(t), &events{}
	p := w.started(q, 30*day, 0)
	p.users("ann", "bob")
	p.follow("ann", "bob")
	p.work()
	p.clock.add(2 * time.Minute)
	p.post("bob", "old")
	p.work()
	p.clock.add(20 * day)
	raised := w.started(q, 365*day, 0)
	assert.Equal(t, []string{"old"}, raised.both("ann"))
	w.clock.add(11 * day)
	assert.Empty(t, raised.both("ann"), "its entry has expired")
	raised.post("bob", "new")
	raised.work()
	w.clock.add(40 * day)
	assert.Equal(t, []string{"new"}, raised.seen("ann"))
	assert.Equal(t, []string{"new"}, p.both("ann"), "the process that started with the former setting")
}

func TestAnUnfollowedAuthorDoesNotReturnWithTheTTL(t *testing.T) {
	const day = 24 * time.Hour
	for _, known := range []time.Duration{0, 2 * day} { // the time since the TTL was lowered
		w, q := newWorld(t), &events{}
		p := w.started(q, 365*day, 0)
		p.users("ann", "bob")
		p.follow("ann", "bob")
		p.work()
		p.clock.add(2 * time.Minute)
		p.post("bob", "unfollowed")
		p.work()
		require.Equal(t, []string{"unfollowed"}, p.both("ann"))
		short := w.started(q, 30*day, 0)
		w.clock.add(known)
		require.NoError(t, short.Unfollow(t.Context(), "ann", "bob"))
		assert.Empty(t, short.both("ann"))
		w.clock.add(61 * day)
		assert.Empty(t, short.both("ann"))
		long := w.started(q, 365*day, 0)
		for range 10 {
			assert.Empty(t, long.seen("ann"), "ann does not follow bob any more")
			w.clock.add(35 * day)
		}
	}
}

// A user unfollows before a longer TTL is in force, and a running backfill still writes a later post.
// The unfollow happens soon after the decision, while its process has not read the decision yet, or an
// hour before the TTL is in force.
func TestTheMarkOfAnUnfollowOutlivesEntriesOfALongerTTL(t *testing.T) {
	const day = 24 * time.Hour
	for _, since := range []time.Duration{30 * time.Second, day - 40*time.Minute} {
		w, q := newWorld(t), &events{}
		p := w.started(q, 30*day, 0)
		p.users("ann", "bob")
		p.follow("ann", "bob")
		p.work()
		long := w.started(q, 365*day, 0)
		w.clock.add(since)
		require.NoError(t, p.Unfollow(t.Context(), "ann", "bob"))
		w.clock.add(time.Hour)
		post := long.post("bob", "in flight")
		lives, err := lifetime.New(lifetime.Config{Store: w.store, Now: w.clock.now}).Current(t.Context())
		require.NoError(t, err)
		at, err := id.Time(post.ID)
		require.NoError(t, err)
		w.put(table.Item{Key: table.Key{PK: schema.TimelinePK("ann"), SK: schema.EntrySK(post.ID, "bob")}, Attrs: schema.EntryAttrs(at.Add(lives.Written(at)), 1)})
		for range 20 {
			assert.Empty(t, long.seen("ann"))
			w.clock.add(20 * day)
		}
	}
}

func TestTheDeliveryOfAnOldPostIsCompleteWhateverTheTTL(t *testing.T) {
	const day = 24 * time.Hour
	w, q := newWorld(t), &events{}
	p := w.started(q, 30*day, 0)
	p.users("bob")
	post := p.post("bob", "old")
	p.work()
	w.clock.add(62 * day)
	raised := w.started(q, 365*day, 0)
	w.clock.add(2 * day)
	d, err := raised.Delivery(t.Context(), "bob", post.ID)
	require.NoError(t, err)
	assert.Equal(t, "complete", string(d.State), "its record has expired")
	all, err := raised.Explain(t.Context(), nil, "bob", post.ID)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, home.ReasonExpired, all[0].Reason)
	assert.WithinDuration(t, d.AcceptedAt.Add(30*day), all[0].At, time.Second)
}

func TestADeletedPostDoesNotReturnWithTheTTL(t *testing.T) {
	const day = 24 * time.Hour
	w, q := newWorld(t), &events{}
	p := w.started(q, 365*day, 0)
	p.users("ann", "bob")
	p.follow("ann", "bob")
	p.work()
	post := p.post("bob", "deleted")
	created := q.waiting[0]
	p.work()
	short := w.started(q, 30*day, 0)
	w.clock.add(2 * day)
	require.NoError(t, short.DeletePost(t.Context(), "bob", post.ID))
	short.work()
	for range 14 {
		p := w.started(q, []time.Duration{day, 365 * day}[rand.N(2)], 0)
		if w.clock.now().Sub(post.CreatedAt) < messages.MaxAge { // consumers refuse older events
			q.waiting = append(q.waiting, created)
			p.work()
		}
		assert.Empty(t, p.seen("ann"))
		w.clock.add(10 * day)
	}
}

// Processes start with rising and falling TTLs, push limits and active days. Meanwhile users post,
// follow, mute, unfollow and delete, are away and return, and authors become large. Every process
// shows the same homes.
func TestHomesAreExactWhileSettingsGoUpAndDown(t *testing.T) {
	const day = 24 * time.Hour
	seeds := uint64(30)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			w, queues := newWorld(t), []*events{{}, {}} // the queues of two prefixes
			ttls := []time.Duration{day, 7 * day, 30 * day, 100 * day}
			start := func(i int) *settled {
				return w.started(queues[i], ttls[rng.IntN(len(ttls))], rng.Int64N(3), []int{0, 2, 14}[rng.IntN(3)])
			}
			running := []*settled{start(0), start(1)}
			users := []string{"ann", "bob", "carl", "dora"}
			running[0].users(users...)
			follows, mutes := map[[2]string]bool{}, map[[2]string]bool{}
			type made struct{ author, id, text string }
			var posts []made // the living posts
			for step := range 120 {
				p := running[rng.IntN(len(running))]
				user, author := users[rng.IntN(2)], users[rng.IntN(4)]
				pair := [2]string{user, author}
				switch n := rng.IntN(10); {
				case n < 4:
					post := p.post(author, fmt.Sprint(step))
					posts = append(posts, made{author, post.ID, fmt.Sprint(step)})
				case n == 4 && len(posts) > 0:
					i := rng.IntN(len(posts))
					require.NoError(t, p.DeletePost(t.Context(), posts[i].author, posts[i].id))
					posts = slices.Delete(posts, i, i+1)
				case n == 5:
					i := rng.IntN(len(running))
					running[i] = start(i)
				case n == 6 && user != author:
					require.NoError(t, p.Unfollow(t.Context(), user, author))
					delete(follows, pair)
				case n == 7 && user != author && !mutes[pair]:
					require.NoError(t, p.Mute(t.Context(), user, author))
					mutes[pair] = true
				case n == 8 && mutes[pair]:
					require.NoError(t, p.Unmute(t.Context(), user, author))
					delete(mutes, pair)
				case user != author:
					p.follow(user, author)
					follows[pair] = true
				}
				running[0].work()
				running[1].work()
				w.clock.add(time.Duration(1 + rng.Int64N(int64([]time.Duration{time.Minute, day, 12 * day}[rng.IntN(3)]))))
				lives, err := lifetime.New(lifetime.Config{Store: w.store, Now: w.clock.now}).Current(t.Context())
				require.NoError(t, err)
				for _, p := range running {
					for _, user := range users[:2] {
						got := p.both(user)
						p.work() // returns, refreshes and removals
						var want []string
						for _, m := range slices.Backward(posts) {
							at, err := id.Time(m.id)
							require.NoError(t, err)
							shown := user == m.author || follows[[2]string{user, m.author}] && !mutes[[2]string{user, m.author}]
							if shown && w.clock.now().Before(lives.End(at)) {
								want = append(want, m.text)
							}
						}
						require.Equal(t, want, got, "step %d, home of %s, %s", step, user, lives)
					}
				}
			}
		})
	}
}
