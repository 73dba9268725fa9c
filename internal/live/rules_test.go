package live_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed/home"
	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// posts has the posts that other processes made. The test sets these posts.
type posts struct {
	mu    sync.Mutex
	made  home.Made
	lows  []time.Time
	fails bool
}

func (p *posts) PostsMade(_ context.Context, low time.Time) (home.Made, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lows = append(p.lows, low)
	if p.fails {
		return home.Made{}, errors.New("down")
	}
	return p.made, nil
}

func (p *posts) add(author string, ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, post := range ids {
		p.made.Posts = append(p.made.Posts, schema.PostRef{ID: post, Author: author})
	}
}

func (p *posts) fail(fails bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = fails
}

func (p *posts) last() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lows[len(p.lows)-1]
}

// rules starts a process in which "ann" follows "author" and has a stream. Another process makes the
// test's writes. No look is due.
func rules(t *testing.T, change ...func(*live.Config)) (a *api, p *posts, c *client) {
	t.Helper()
	p = &posts{}
	store := tabletest.NewMemory()
	follow(t, store, "ann", "author")
	a = newAPI(t, store, append([]func(*live.Config){func(c *live.Config) {
		c.Posts, c.SlowLook, c.LikesEach = p, live.DefaultSlowLook, 1000*time.Hour
	}}, change...)...)
	a.store = store
	c = a.client(t, "ann", "")
	<-time.After(2 * time.Second)
	a.looked()
	return a, p, c
}

// lookTimes returns the times of the looks at homes, counted from a time.
func (a *api) lookTimes(since time.Time) (after []time.Duration) {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.looks {
		after = append(after, at.Sub(since))
	}
	a.looks = nil
	return after
}

// untilTick waits for the next tick of the tail, and returns the time of the tick.
func untilTick(p *posts) time.Time {
	ticks := func() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.lows) }
	for before := ticks(); ticks() == before; {
		<-time.After(time.Millisecond)
	}
	return time.Now()
}

// After a hint, a few looks follow until the post has arrived. After that, only slow looks follow.
func TestLooksAfterAHint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		delivered time.Duration // after the hint, 0 for never
		looks     []time.Duration
	}{
		{100 * time.Millisecond, []time.Duration{200 * time.Millisecond}},
		{500 * time.Millisecond, []time.Duration{200 * time.Millisecond, time.Second}},
		{3 * time.Second, []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second}},
		{0, []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second}},
	} {
		t.Run(c.delivered.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, p, cl := rules(t)
				post := a.post(t, "author")
				p.add("author", post)
				hinted := untilTick(p)
				if c.delivered > 0 {
					time.AfterFunc(c.delivered, func() { a.deliver(t, "author", post, "ann") })
				}
				<-time.After(50 * time.Second)
				var got []time.Duration
				for _, at := range a.lookTimes(hinted) {
					got = append(got, at.Round(10*time.Millisecond))
				}
				assert.Equal(t, c.looks, got)
				<-time.After(time.Minute)
				assert.Equal(t, 1, a.looked(), "slow looks")
				had, _ := cl.leave()
				assert.Len(t, had, boolean(c.delivered > 0))
			})
		})
	}
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A hint of a post that was already seen causes no look. A hint of an author whom no user of this
// process follows causes no look either.
func TestAHintOfASeenPostMakesNoLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _ := rules(t)
		post := a.post(t, "author")
		p.add("author", post)
		a.deliver(t, "author", post, "ann")
		<-time.After(2 * time.Second)
		assert.Equal(t, 1, a.looked())
		here := new(live.Wakes)
		here.Wake(a.Hub)
		index(t, here.Store(a.store), "author", post) // the post's transaction is repeated in this process
		p.add("stranger", a.post(t, "stranger"))
		<-time.After(20 * time.Second)
		assert.Zero(t, a.looked())
	})
}

// A thousand simultaneous posts that never arrive cost a home as many looks as one such post.
func TestABurstOfHintsCostsTheSameLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _ := rules(t)
		for range 1000 {
			p.add("author", a.post(t, "author"))
		}
		<-time.After(40 * time.Second)
		assert.Equal(t, 5, a.looked())
	})
}

// A failing tail makes no look earlier, and the age of its last read grows. When the tail works again,
// it reads from its last position, but a minute back at most.
func TestATailThatFailsMakesNoLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, c := rules(t)
		p.fail(true)
		<-time.After(59 * time.Second) // until the slow look
		a.looked()
		post := a.post(t, "author")
		p.add("author", post)
		began := time.Now()
		a.deliver(t, "author", post, "ann")
		<-time.After(30 * time.Second)
		assert.Zero(t, a.looked())
		a.mu.Lock()
		assert.InDelta(t, 90, a.tailAge.Seconds(), 2)
		a.mu.Unlock()
		p.fail(false)
		<-time.After(time.Second)
		assert.InDelta(t, 60, time.Since(p.last()).Seconds(), 1)
		<-time.After(time.Second)
		c.leave()
		require.Len(t, c.at, 1)
		assert.LessOrEqual(t, c.at[0].Sub(began), 33*time.Second)
		a.mu.Lock()
		defer a.mu.Unlock()
		assert.LessOrEqual(t, a.tailAge, time.Second)
	})
}

// Only slow looks and hints decide when a failing table is read again. A hint stays after failed
// looks.
func TestATableThatFailsIsNotLookedAtMoreOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, c := rules(t)
		a.failReads(true)
		post := a.post(t, "author")
		a.deliver(t, "author", post, "ann")
		p.add("author", post)
		<-time.After(3 * time.Second)
		failed := a.looked()
		assert.LessOrEqual(t, failed, 3)
		assert.Positive(t, failed)
		a.failReads(false)
		<-time.After(13 * time.Second)
		posts, _ := c.leave()
		assert.Equal(t, []string{post}, posts)
		assert.LessOrEqual(t, a.looked(), 3)
	})
}

// If the clock of the tail's process is ahead, the tail reads from the newest seen post.
func TestATailWhoseClockIsAheadReadsFromTheNewestPost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ahead = 30 * time.Second
		a, p, _ := rules(t, func(c *live.Config) { c.Now = func() time.Time { return time.Now().Add(ahead) } })
		post := a.post(t, "author")
		p.add("author", post)
		<-time.After(5 * time.Second)
		assert.LessOrEqual(t, p.last(), time.Now().Add(-3*time.Second))
	})
}

// A follow, an unfollow or a mute through this process takes effect at once on the authors whose posts
// cause a look, even while the list is read.
func TestEdgesThatThisProcessWritesCountAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _ := rules(t)
		own := new(live.Wakes)
		own.Wake(a.Hub)
		store := own.Store(a.store)
		hints := func(author string) int {
			<-time.After(20 * time.Second)
			a.looked()
			p.add(author, a.post(t, author))
			<-time.After(10 * time.Second)
			return a.looked()
		}
		assert.Equal(t, 4, hints("author"))
		assert.Zero(t, hints("ben"))
		edge := schema.FollowingItem("ann", "ben", time.Now(), "")
		put(t, store, edge)
		assert.Equal(t, 4, hints("ben"))
		_, err := store.BatchWrite(t.Context(), []table.BatchWrite{{Delete: edge.Key}})
		require.NoError(t, err)
		assert.Zero(t, hints("ben"))
		mute, _ := schema.Mute{User: "ann", Author: "author", Since: time.Now()}.Items()
		_, err = store.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{{Put: &table.PutInput{Item: mute}}}})
		require.NoError(t, err)
		assert.Zero(t, hints("author"))
		_, err = store.Delete(t.Context(), table.DeleteInput{Key: mute.Key})
		require.NoError(t, err)
		assert.Equal(t, 4, hints("author"))
	})
}

// slowList reads lists slowly.
type slowList struct{ live.Homes }

func (s slowList) Heard(ctx context.Context, viewer string, most int) ([]string, bool, error) {
	users, whole, err := s.Homes.Heard(ctx, viewer, most)
	<-time.After(10 * time.Second)
	return users, whole, err
}

func TestEdgesThatChangeWhileTheListIsReadAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _ := rules(t, func(c *live.Config) { c.Homes = slowList{c.Homes} })
		own := new(live.Wakes)
		own.Wake(a.Hub)
		store := own.Store(a.store)
		put(t, store, schema.FollowingItem("ann", "ben", time.Now(), ""))
		_, err := store.Delete(t.Context(), table.DeleteInput{Key: schema.FollowingKey("ann", "author")})
		require.NoError(t, err)
		<-time.After(30 * time.Second)
		a.looked()
		p.add("author", a.post(t, "author"))
		<-time.After(5 * time.Second)
		assert.Zero(t, a.looked())
		p.add("ben", a.post(t, "ben"))
		<-time.After(3 * time.Second)
		assert.Equal(t, 3, a.looked())
	})
}

// refusedList fails to read lists while refuses is set.
type refusedList struct {
	live.Homes
	refuses *atomic.Bool
}

func (r refusedList) Heard(ctx context.Context, viewer string, most int) ([]string, bool, error) {
	if r.refuses.Load() {
		return nil, false, errors.New("down")
	}
	return r.Homes.Heard(ctx, viewer, most)
}

// The list is read again after a failed read. A follow that ended before the second read must not
// appear to have begun during that read.
func TestAListThatIsReadAgainHasTheEdgesOfTheTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		refuses.Store(true)
		a, p, _ := rules(t, func(c *live.Config) { c.Homes = refusedList{c.Homes, &refuses} })
		own := new(live.Wakes)
		own.Wake(a.Hub)
		edge := schema.FollowingItem("ann", "ben", time.Now(), "")
		put(t, own.Store(a.store), edge)
		_, err := a.store.Delete(t.Context(), table.DeleteInput{Key: edge.Key}) // by another process
		require.NoError(t, err)
		refuses.Store(false)
		<-time.After(40 * time.Second)
		a.looked()
		p.add("ben", a.post(t, "ben"))
		<-time.After(5 * time.Second)
		assert.Zero(t, a.looked())
		p.add("author", a.post(t, "author"))
		<-time.After(3 * time.Second)
		assert.Equal(t, 3, a.looked())
	})
}

// After five consecutive posts that did not arrive, the posts of an author cause no look until a look
// shows a post of the author.
func TestAnAuthorWhosePostsDoNotComeBringsNoLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, c := rules(t)
		missed := func() int {
			a.looked()
			p.add("author", a.post(t, "author"))
			<-time.After(20 * time.Second)
			return a.looked()
		}
		for i := range 5 {
			assert.GreaterOrEqual(t, missed(), 5, "post %d", i)
		}
		assert.LessOrEqual(t, missed(), 1, "a slow look")
		late := a.post(t, "author")
		a.deliver(t, "author", late, "ann")
		<-time.After(time.Minute)
		assert.GreaterOrEqual(t, missed(), 5, "a look showed a post")
		posts, _ := c.leave()
		assert.Equal(t, []string{late}, posts)
	})
}

// If a user follows an author through another process, the author is listed with the
// first post in a look.
func TestALookListsTheAuthorsThatItShows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, c := rules(t)
		post := a.post(t, "ben")
		p.add("ben", post)
		a.deliver(t, "ben", post, "ann")
		<-time.After(time.Minute)
		a.looked()
		p.add("ben", a.post(t, "ben"))
		<-time.After(4 * time.Second)
		assert.Equal(t, 3, a.looked())
		posts, _ := c.leave()
		assert.Equal(t, []string{post}, posts)
	})
}

// While deliveries of several authors are late, no author leaves the list.
func TestNoAuthorLeavesTheListWhileDeliveriesAreBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _ := rules(t)
		others := []string{"x", "y", "z"}
		own := new(live.Wakes)
		own.Wake(a.Hub)
		for _, other := range others {
			put(t, own.Store(a.store), schema.FollowingItem("ann", other, time.Now(), ""))
		}
		for _, other := range others {
			post := a.post(t, other)
			p.add(other, post)
			time.AfterFunc(20*time.Second, func() { a.deliver(t, other, post, "ann") })
		}
		<-time.After(90 * time.Second)
		for range 6 {
			a.looked()
			p.add("author", a.post(t, "author"))
			<-time.After(20 * time.Second)
			assert.GreaterOrEqual(t, a.looked(), 5)
		}
	})
}

// A post that this process stores causes a look within milliseconds, even if the home pulls the
// author. Without other processes, the process has no tail.
func TestAPostOfThisProcessBringsALookAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := tabletest.NewMemory()
		follow(t, store, "ann", "author")
		a := newAPI(t, store, func(c *live.Config) { c.SlowLook = live.DefaultSlowLook; c.LikesEach = 1000 * time.Hour })
		a.client(t, "ann", "")
		<-time.After(2 * time.Second)
		a.looked()
		index(t, a.store, "author", a.post(t, "author"))
		<-time.After(100 * time.Millisecond)
		assert.Equal(t, 1, a.looked())
		put(t, a.store, schema.PostRef{ID: a.post(t, "author"), Author: "author", Deleted: true}.Item())
		<-time.After(100 * time.Millisecond)
		assert.Zero(t, a.looked(), "a deletion")
	})
}

// A stream that has opened causes a look soon, for the posts of a return.
func TestAnOpeningBringsALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := rules(t)
		began := time.Now()
		a.client(t, "ann", "")
		<-time.After(5 * time.Second)
		after := a.lookTimes(began)
		require.Len(t, after, 2)
		assert.Equal(t, 200*time.Millisecond, after[1])
	})
}

// Homes whose authors do not fit into memory get a look every ten seconds, and are counted.
func TestHomesThatAreNotListedAreLookedAtMoreOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _, c := rules(t, func(c *live.Config) { c.Edges = 1 })
		unlisted := func() int { a.mu.Lock(); defer a.mu.Unlock(); return a.unlisted }
		assert.Equal(t, 1, unlisted())
		<-time.After(time.Minute)
		assert.InDelta(t, 6, a.looked(), 1)
		b := a.client(t, "ben", "") // its list has only ben
		<-time.After(2 * time.Second)
		assert.Equal(t, 1, unlisted())
		c.leave()
		b.leave()
		synctest.Wait()
		assert.Zero(t, unlisted())
	})
}

// Looks, openings and the tail of a process share their units. A waiting home finally gets its look.
// An opening that would wait too long is refused, and the refusal contains the waiting time.
func TestTheUnitsOfAllStreamsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, homes = 200, 150
		store := tabletest.NewMemory()
		a, looks, ticks := newHinted(t, store, func(c *live.Config) { c.Units = rate })
		var clients []*client
		refused := 0
		var mu sync.Mutex
		var all sync.WaitGroup
		began := time.Now()
		for h := range homes {
			reader := fmt.Sprint("reader", h)
			a.profile(t, reader)
			follow(t, store, reader, "author")
			all.Go(func() {
				for {
					c, err := a.connect(t, live.Caller{User: reader}, "")
					mu.Lock()
					if err == nil {
						clients = append(clients, c)
						mu.Unlock()
						return
					}
					refused++
					mu.Unlock()
					busy := new(live.BusyError)
					if !assert.ErrorAs(t, err, &busy) || !assert.Greater(t, busy.For, 3*time.Second) {
						return
					}
					<-time.After(busy.For)
				}
			})
		}
		all.Wait()
		assert.Positive(t, refused)
		<-time.After(time.Minute)
		bound := func() {
			t.Helper()
			assert.LessOrEqual(t, looks.take()+ticks.take(), rate*(time.Since(began).Seconds()+2)+100)
		}
		bound()
		began = time.Now()
		post := a.post(t, "author")
		for h := range homes {
			a.deliver(t, "author", post, fmt.Sprint("reader", h))
		}
		index(t, store, "author", post)
		<-time.After(15 * time.Second)
		bound()
		for _, c := range clients {
			posts, _ := c.leave()
			assert.Equal(t, []string{post}, posts)
		}
	})
}

// The streams of a user end at once if this process removes the user.
func TestARemovalByThisProcessEndsStreamsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory())
		c := a.client(t, "ann", "")
		a.removeProfile(t, "ann")
		synctest.Wait()
		require.Len(t, c.done, 1)
		assert.ErrorIs(t, <-c.done, live.ErrNoProfile)
	})
}
