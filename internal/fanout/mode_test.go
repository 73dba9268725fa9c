package fanout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/fanout"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

func limit(n int64) func(*fanout.Config) {
	return func(c *fanout.Config) { small(c); c.PushLimit = n }
}

// setLimit gives the worker another limit, after the time in which the mode must not change.
func (w *world) setLimit(n int64) {
	w.now = w.now.Add(2 * time.Hour)
	w.worker = w.newWorker(limit(n))
}

// mode returns the stored mode of the author.
func (w *world) mode() schema.Mode {
	w.Helper()
	res, err := w.mem.Get(w.Context(), table.GetInput{Key: schema.ModeKey(author), Consistent: true})
	w.must(err)
	if res.Item == nil {
		return schema.Mode{State: schema.ModePush}
	}
	m, err := schema.ParseMode(author, []table.Item{*res.Item})
	w.must(err)
	return m
}

// shown returns the posts of a user's home, as the user sees them, oldest first.
func (w *world) shown(user string) (posts []string) {
	w.Helper()
	reader := newDomain(access.Config{Store: table.HideExpired(w.mem, w.clock), Publisher: publisher{w}, IDs: w.ids, Now: w.clock, Lifetimes: lifetime.Fixed(timelineTTL)})
	list, err := reader.Home(w.Context(), user, home.Query{}, page.Request{Limit: 100})
	w.must(err)
	for _, it := range slices.Backward(list.Items) {
		posts = append(posts, it.Post.ID)
	}
	return posts
}

// posted handles a new post and all messages that follow from the post.
func (w *world) posted() string {
	w.Helper()
	w.now = w.now.Add(time.Minute)
	e := w.post()
	w.enqueue(e)
	w.drain(w.worker)
	return e.PostID
}

// wantShown checks the homes of n followers.
func (w *world) wantShown(n int, posts ...string) {
	w.Helper()
	for i := range n {
		assert.Equalf(w, posts, w.shown(follower(i)), "home of follower %d", i)
	}
}

func TestPostsOfALargeAuthorAreMergedInsteadOfDelivered(t *testing.T) {
	w := newWorld(t, 45, limit(20))
	first := w.posted()
	w.wantDelivered(first, 45) // the post that finds the author large is itself pushed
	assert.Equal(t, schema.ModePull, w.mode().State)
	before := w.units
	second := w.posted()
	pulled := w.units.Write - before.Write
	for i := range 45 {
		w.wantHome(follower(i), first)
	}
	w.wantShown(45, first, second)
	d := w.delivery(second)
	assert.Equal(t, delivery.Pulled, d.State)
	assert.Equal(t, []int64{1, 1}, []int64{*d.Planned, *d.Delivered}, "planned and delivered")

	alone := newWorld(t, 0)
	alone.posted()
	assert.LessOrEqual(t, pulled, alone.units.Write, "units of a pulled post, and of one without followers")
}

// A post is pushed if its id is below the first id that may be pulled, however late the post arrives. A
// redelivery follows the decision of the first attempt.
func TestTheDecisionIsMadeOnceAndByThePostsID(t *testing.T) {
	w := newWorld(t, 5, limit(3))
	late := w.post()
	first := w.posted()
	assert.Equal(t, schema.ModePull, w.mode().State)
	w.must(w.worker.HandlePosts(t.Context(), late))
	assert.NotEqual(t, delivery.Pulled, w.delivery(late.PostID).State)
	pulled := w.post()
	w.must(w.worker.HandlePosts(t.Context(), pulled))
	w.now = w.now.Add(2 * time.Hour)
	push := w.newWorker(small) // the limit is removed
	again := w.post()
	w.must(push.HandlePosts(t.Context(), again))
	w.must(push.HandlePosts(t.Context(), pulled))
	w.drain(push)
	w.must(w.worker.HandlePosts(t.Context(), again))
	w.drain(w.worker)
	assert.Equal(t, delivery.Pulled, w.delivery(pulled.PostID).State)
	assert.Equal(t, delivery.Complete, w.delivery(again.PostID).State)
	w.wantShown(5, late.PostID, first, pulled.PostID, again.PostID)
}

// An author that became small is pushed again. The marks end when the last pulled post
// has left the homes.
func TestASmallerAuthorIsPushedAgain(t *testing.T) {
	w := newWorld(t, 5, limit(4))
	posts := []string{w.posted(), w.posted()}
	for _, at := range []int64{6, 5} { // above 80 % of the limit the author stays pulled
		w.setLimit(at)
		posts = append(posts, w.posted())
		assert.Equal(t, schema.ModePull, w.mode().State)
	}
	w.setLimit(7)
	left := w.now.Add(time.Minute)
	posts = append(posts, w.posted(), w.posted())
	assert.Equal(t, schema.ModePush, w.mode().State)
	assert.Equal(t, delivery.Complete, w.delivery(posts[4]).State, "the post that finds the author small is pushed")
	w.wantShown(5, posts...)
	for i := range 5 {
		m := w.mark(follower(i))
		assert.Equal(t, schema.MarkPulled, m.Kind)
		assert.Equal(t, left.Add(timelineTTL+time.Hour), m.TTL)
	}
	w.worker = w.newWorker(limit(4)) // the author is large again
	posts = append(posts, w.posted())
	assert.Equal(t, schema.ModePush, w.mode().State, "two hours after the change before")
	w.setLimit(4)
	posts = append(posts, w.posted(), w.posted())
	assert.Equal(t, schema.ModePull, w.mode().State)
	w.wantShown(5, posts...)
	assert.Zero(t, w.mark(follower(0)).TTL)
}

// The mode changes above the limit, and below 80 % of it.
func TestTheLimitsOfAChangeOfMode(t *testing.T) {
	for _, tt := range []struct {
		followers    int
		first, limit int64
		want         schema.ModeState
	}{
		{2, 0, 1, schema.ModePull},
		{1, 0, 1, schema.ModePush},
		{4, 1, 5, schema.ModePull},
		{3, 1, 5, schema.ModePush},
		{2, 1, 1, schema.ModePull},
		{2, 1, 0, schema.ModePush},
	} {
		w := newWorld(t, tt.followers, limit(tt.first))
		w.posted()
		w.setLimit(tt.limit)
		w.posted()
		assert.Equalf(t, tt.want, w.mode().State, "%d followers, the limit %d after %d", tt.followers, tt.limit, tt.first)
	}
}

// A walk changes a mark as in docs/HYBRID.md, and each change gives the mark a new, higher
// version.
func TestTheMarksThatAWalkChanges(t *testing.T) {
	w := newWorld(t, 1, small)
	before, since, behind, at := w.newID(), w.newID(), w.newID(), w.now.Add(-time.Minute)
	old, other := id.Floor(w.now.Add(time.Minute)), id.Floor(w.now.Add(2*time.Minute)) // of a process with a fast clock
	mark := func(kind schema.MarkKind, v int64, from, pull string, ttl time.Time) *schema.Mark {
		return &schema.Mark{User: follower(0), Author: author, Kind: kind, V: v, From: from, Pull: pull, TTL: ttl, Version: old}
	}
	pulled := func(v int64, pull string) *schema.Mark { return mark(schema.MarkPulled, v, "", pull, time.Time{}) }
	expires := func(v int64, pull string) *schema.Mark {
		return mark(schema.MarkPulled, v, "", pull, at.Add(timelineTTL+time.Hour))
	}
	backfill := func() *schema.Mark { return mark(schema.MarkBackfill, 0, before, before, time.Time{}) }
	kept := mark(schema.MarkPulled, 5, before, before, time.Time{})
	ended := mark(schema.MarkBackfill, 0, before, before, at)
	ended.Until = at
	done, later, unfollowed := pulled(5, since), pulled(6, behind), mark(schema.MarkUnfollowed, 0, "", "", time.Time{})
	// A mark that the walk must not change is the same variable in each column.
	for i, tt := range []struct{ mark, switching, leaving *schema.Mark }{
		{nil, pulled(5, since), nil},
		{backfill(), kept, backfill()},
		{ended, kept, ended},
		{expires(3, before), pulled(5, before), expires(3, before)},
		{pulled(3, behind), pulled(5, since), expires(3, behind)},
		{done, done, expires(5, since)},
		{later, later, later},
		{unfollowed, unfollowed, unfollowed},
	} {
		for n := range 6 {
			state, want, meets := schema.ModeSwitching, tt.switching, n/2
			if n%2 > 0 {
				state, want = schema.ModeLeaving, tt.leaving
			}
			mode := schema.Mode{Author: author, State: state, V: 5, Since: since, At: at}
			_, err := w.mem.Put(t.Context(), table.PutInput{Item: mode.Item()})
			w.must(err)
			_, err = w.mem.Delete(t.Context(), table.DeleteInput{Key: schema.MarkKey(follower(0), author)})
			w.must(err)
			if tt.mark != nil {
				w.putMark(*tt.mark)
			}
			puts := 0
			w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
				if op == table.OpPut {
					if puts++; puts == meets && tt.mark != nil { // another worker writes the mark before this put
						newer := *tt.mark
						newer.Version = other
						w.putMark(newer)
					}
				}
				return do()
			}
			w.must(w.worker.HandleBackfills(t.Context(), &messages.MarkWalk{Header: w.header(), AuthorID: author}))
			if meets == 0 {
				assert.LessOrEqualf(t, puts, 2, "%s: writes of mark %d", state, i)
			}
			got := w.mark(follower(0))
			if got != nil {
				assert.Equalf(t, want != tt.mark, got.Version != old && got.Version != other, "%s: mark %d has the version %s", state, i, got.Version)
				assert.True(t, tt.mark == nil || got.Version >= old, "%s: the version of mark %d falls", state, i)
				got.Version = old
			}
			assert.Equalf(t, want, got, "%s: mark %d, which changes before write %d", state, i, meets)
		}
	}
}

func TestABackfillKeepsMergingAPulledAuthor(t *testing.T) {
	w := newWorld(t, 5, limit(3))
	posts := []string{w.posted(), w.posted(), w.posted()}
	w.follow("new", posts[1])
	w.drain(w.worker)
	assert.Empty(t, w.home("new"), "nothing is copied")
	m := w.mark("new")
	assert.Equal(t, schema.Mark{User: "new", Author: author, Kind: schema.MarkPulled, From: posts[1], Pull: posts[1], Version: m.Version, V: w.mode().V}, *m)
	assert.Equal(t, posts[1:], w.shown("new"))
	w.setLimit(0)
	posts = append(posts, w.posted())
	w.follow("newer", posts[1])
	w.drain(w.worker)
	assert.Equal(t, posts[1:], w.home("newer"))
	assert.Equal(t, posts[1:], w.shown("new"))
}

// The end of a backfill gives its mark no new version. A worker that read the mark before the end has to read the
// mark again. Otherwise, a backfill that read the mode before the author left pull would make a permanent mark
// (I11), and a walk would start the backfill again.
func TestAMarkThatEndedSinceTheReadIsReadAgain(t *testing.T) {
	for _, of := range []string{"backfill", "walk"} {
		w := newWorld(t, 5, limit(4))
		posts := []string{w.posted(), w.posted()}
		again := w.follow("new", id.Min)
		var walk messages.Event = &messages.MarkWalk{Header: w.header(), AuthorID: author}
		slow := map[string]messages.Event{"backfill": again, "walk": walk}[of]
		leaves := func() {
			mode := w.mode()
			mode.State, mode.V, mode.At = schema.ModeLeaving, mode.V+1, w.now
			_, err := w.mem.Put(t.Context(), table.PutInput{Item: mode.Item()})
			w.must(err)
		}
		if of == "walk" {
			leaves()
		}
		var first atomic.Bool
		other := w.newWorker(limit(4))
		w.store.around = func(op table.Op, keys []table.Key, do func() error) error {
			if op == table.OpPut && keys[0] == schema.MarkKey("new", author) && first.CompareAndSwap(false, true) {
				if of == "backfill" {
					leaves()
				}
				w.must(handle(t.Context(), other, again))
				w.must(handle(t.Context(), other, walk))
			}
			return do()
		}
		w.must(handle(t.Context(), w.worker, slow))
		require.Equal(t, schema.ModePush, w.mode().State)
		m := w.mark("new")
		assert.Equalf(t, schema.MarkBackfill, m.Kind, "after the slow %s", of)
		assert.Falsef(t, m.TTL.IsZero(), "after the slow %s the mark %+v has no end", of, m)
		w.wantHome("new", posts...)
	}
}

// TestAFaultAtAnyCallOfAChangeOfMode makes each port call fail in turn while an author becomes
// large, and then small again. If a worker crashes between the change and the walk, the next
// post repairs this.
func TestAFaultAtAnyCallOfAChangeOfMode(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			for _, leaving := range []bool{false, true} {
				at := 0
				for fired := true; fired; at++ {
					w := newWorld(t, 9, limit(3))
					var posts []string
					if leaving {
						posts = append(posts, w.posted(), w.posted())
						w.setLimit(0)
					}
					e := w.post()
					fired = w.drainWithFault(at, f.done, f.dies, e)
					w.store.around = nil
					posts = append(posts, e.PostID, w.posted(), w.posted())
					want := schema.ModePull
					if leaving {
						want = schema.ModePush
					}
					assert.Equal(t, want, w.mode().State)
					w.wantShown(9, posts...)
					require.Falsef(t, t.Failed(), "failed with the fault at call %d", at)
				}
				require.GreaterOrEqual(t, at, 20, "calls")
			}
		})
	}
}

// TestFollowsDuringAChangeOfMode unfollows and follows at each port call in turn, while an
// author becomes large, and then small again.
func TestFollowsDuringAChangeOfMode(t *testing.T) {
	for _, c := range []struct {
		name               string
		leaving, refollows bool
	}{
		{"unfollow, to pull", false, false},
		{"unfollow and follow, to pull", false, true},
		{"unfollow, to push", true, false},
		{"unfollow and follow, to push", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := 0
			for fired := true; fired; at++ {
				w := newWorld(t, 9, limit(3))
				var posts []string
				if c.leaving {
					posts = append(posts, w.posted(), w.posted())
					w.setLimit(0)
				}
				w.follow("new", id.Min)
				e := w.post()
				w.enqueue(e)
				change := w.atCall(at, func() {
					for _, user := range []string{follower(2), "new"} {
						w.unfollow(user)
						if c.refollows {
							w.follow(user, id.Min)
						}
					}
				})
				w.drain(w.worker)
				fired = change()
				w.store.around = nil
				posts = append(posts, e.PostID, w.posted(), w.posted())
				for _, user := range []string{follower(2), "new"} {
					if got := w.shown(user); fired && !c.refollows {
						assert.Emptyf(t, got, "home of %s, who unfollowed at call %d", user, at)
					} else {
						assert.Equalf(t, posts, got, "home of %s after call %d", user, at)
					}
				}
				for _, i := range []int{0, 1, 8} {
					assert.Equal(t, posts, w.shown(follower(i)))
				}
				require.Falsef(t, t.Failed(), "failed with the change at call %d", at)
			}
			require.GreaterOrEqual(t, at, 20, "calls")
		})
	}
}

// Mark walks have a bounded number of workers. A further walk waits until another walk has ended, so the
// remaining workers of the topic are free for backfills.
func TestMarkWalksTakeNoMoreWorkersThanTheirs(t *testing.T) {
	w := newWorld(t, 0, func(c *fanout.Config) { c.Walks = 2 })
	begun, release := make(chan struct{}, 2), make(chan struct{})
	w.store.around = func(op table.Op, keys []table.Key, do func() error) error {
		if op == table.OpQuery && strings.HasSuffix(keys[0].PK, "#follower") {
			begun <- struct{}{}
			<-release
		}
		return do()
	}
	walk := func(author string) error {
		_, err := w.mem.Put(t.Context(), table.PutInput{Item: schema.Mode{Author: author, State: schema.ModeSwitching, V: 1, At: w.now}.Item()})
		assert.NoError(t, err)
		return w.worker.HandleBackfills(t.Context(), &messages.MarkWalk{Header: w.header(), AuthorID: author})
	}
	var walks errgroup.Group
	for _, author := range []string{"ann", "bob"} {
		walks.Go(func() error { return walk(author) })
	}
	<-begun
	<-begun
	later, ok := errors.AsType[*queue.Later](walk("cid"))
	require.True(t, ok)
	assert.Positive(t, later.After)
	w.must(w.worker.HandleBackfills(t.Context(), w.follow("fan", "")))
	close(release)
	w.must(walks.Wait())
	w.must(walk("cid"))
}

// Two workers get the first message of one walk. The second worker waits until the first worker has paused for
// a while, and continues where the first worker ended.
func TestOfTwoWalksOneGoesOn(t *testing.T) {
	w := newWorld(t, 30, limit(3))
	w.must(w.worker.HandlePosts(t.Context(), w.post()))
	var walks []*messages.MarkWalk
	for e := w.take(); e != nil; e = w.take() {
		if walk, ok := e.(*messages.MarkWalk); ok {
			walks = append(walks, walk)
		}
	}
	require.Len(t, walks, 1)
	w.must(w.worker.HandleBackfills(t.Context(), walks[0])) // the walk reads three pages of four
	assert.Equal(t, follower(11), w.mode().Walked)
	other := *walks[0]
	other.EventID = w.newID()
	var later *queue.Later
	require.ErrorAs(t, w.worker.HandleBackfills(t.Context(), &other), &later)
	assert.Equal(t, 30*time.Second, later.After)
	w.now = w.now.Add(later.After - 1)
	require.ErrorAs(t, w.worker.HandleBackfills(t.Context(), &other), &later)
	w.now = w.now.Add(1)
	w.must(w.worker.HandleBackfills(t.Context(), &other))
	assert.Equal(t, follower(23), w.mode().Walked)
	w.drain(w.worker)
	assert.Equal(t, schema.ModePull, w.mode().State)
	for i := range 30 {
		assert.Equal(t, schema.MarkPulled, w.mark(follower(i)).Kind)
	}
}

// A worker that was suspended for more than an hour writes no mark and no entry based on its earlier reads.
func TestAWorkerThatStoodStillReadsAgain(t *testing.T) {
	for _, pull := range []bool{true, false} {
		t.Run(fmt.Sprint(pull), func(t *testing.T) {
			w := newWorld(t, 5, limit(3))
			if !pull {
				w.worker = w.newWorker(small)
				w.stored(3)
				w.follow("new", id.Min)
			}
			w.must(w.worker.HandlePosts(t.Context(), w.post()))
			w.store.around = func(op table.Op, keys []table.Key, do func() error) error {
				err := do()
				if op == table.OpQuery && (keys[0].PK == schema.FollowersPK(author) && pull || keys[0].PK == schema.PostsPK(author)) {
					w.now = w.now.Add(61 * time.Minute)
				}
				return err
			}
			for e := w.take(); e != nil; e = w.take() {
				var later *queue.Later
				if _, chunk := e.(*messages.FanoutPlan); !chunk {
					require.ErrorAs(t, handle(t.Context(), w.worker, e), &later)
				}
			}
			assert.Nil(t, w.mark(follower(0)))
			assert.Empty(t, w.home("new"))
		})
	}
}
