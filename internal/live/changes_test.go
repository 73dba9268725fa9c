package live_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/live"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// pause lets time pass, and waits until all goroutines are idle.
func pause(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// rare is a configuration without looks but those that a hint or a change causes.
func rare(c *live.Config) { c.SlowLook, c.LikesEach = time.Hour, time.Hour }

// serviceOf returns the service of a process that writes through store.
func serviceOf(store table.Store) (*feed.Service, *home.Homes) {
	way := access.New(access.Config{
		Store: store, Publisher: silent{}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour), Log: zap.NewNop(),
	})
	s := feed.New(feed.Config{Access: way})
	return s, home.New(home.Config{Access: way, Items: s, Mutes: s})
}

func edit(t *testing.T, s *feed.Service, author, post, text string) {
	t.Helper()
	_, err := s.EditPost(t.Context(), author, post, feed.PostEdit{Text: &text})
	require.NoError(t, err)
}

// published makes a post, and delivers the post to users.
func (a *api) published(t *testing.T, author string, users ...string) string {
	t.Helper()
	post := a.post(t, author)
	index(t, a.store, author, post)
	a.deliver(t, author, post, users...)
	return post
}

func TestADeletionReachesTheStreamsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare)
		s, _ := serviceOf(a.store)
		follow(t, a.store, "ann", "ben")
		ann, stranger := a.client(t, "ann", ""), a.client(t, "user0", "")
		pause(time.Second)
		post := a.published(t, "ben", "ann")
		old := a.post(t, "ben") // a page further down may show it
		index(t, a.store, "ben", old)
		pause(time.Second)
		require.Equal(t, []string{post}, ann.posts)
		a.used()
		require.NoError(t, s.DeletePost(t.Context(), "ben", post))
		require.NoError(t, s.DeletePost(t.Context(), "ben", old))
		synctest.Wait()
		assert.Equal(t, []string{post, old}, ann.deleted)
		units, _ := a.used()
		assert.Zero(t, units, "a deletion needs no look")
		for range 6 { // without deliveries, the author's posts give no hints any more (H8)
			post = a.post(t, "ben")
			index(t, a.store, "ben", post)
			pause(time.Minute)
		}
		require.NoError(t, s.DeletePost(t.Context(), "ben", post))
		require.Error(t, s.DeletePost(t.Context(), "ben", post))
		alive := a.published(t, "ben", "ann")
		tomb := schema.PostRef{ID: alive, Author: "ben", Deleted: true}
		_, err := a.store.Put(t.Context(), table.PutInput{Item: tomb.Item(), If: table.AttrAbsent{Name: schema.AttrAuthor}})
		require.Error(t, err)
		tomb.Unmade = true // somebody else guessed the id of a post
		put(t, a.store, tomb.Item())
		pause(time.Second)
		assert.Equal(t, post, ann.deleted[len(ann.deleted)-1])
		assert.Len(t, ann.deleted, 3)
		assert.Empty(t, stranger.deleted)
		assert.Zero(t, ann.stale.Load())
	})
}

func TestAnEditReachesOnlyHomesThatShowThePost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		raw := tabletest.NewMemory()
		a := newAPI(t, raw, rare)
		s, _ := serviceOf(a.store)
		another, _ := serviceOf(raw)
		for _, user := range []string{"ann", "user0", "user1"} {
			require.NoError(t, another.Follow(t.Context(), user, "ben"))
		}
		ann, left, leftThere := a.client(t, "ann", ""), a.client(t, "user0", ""), a.client(t, "user1", "")
		pause(time.Second)
		post := a.published(t, "ben", "ann", "user0", "user1")
		pause(time.Second)
		began := time.Now()
		edit(t, s, "ben", post, "second")
		pause(100 * time.Millisecond)
		for _, c := range []*client{ann, left, leftThere} {
			assert.Equal(t, []string{post + " second"}, c.edited, "after %s", time.Since(began))
		}
		require.NoError(t, s.Unfollow(t.Context(), "user0", "ben"))
		require.NoError(t, another.Unfollow(t.Context(), "user1", "ben")) // the author stays in the list of this process
		edit(t, s, "ben", post, "third")
		pause(2 * time.Second)
		assert.Equal(t, []string{post + " second", post + " third"}, ann.edited)
		assert.Len(t, left.edited, 1)
		assert.EqualValues(t, 1, left.stale.Load(), "other pages follow an unfollow")
		assert.Len(t, leftThere.edited, 1)
		images := []feed.Image{{URL: "https://img.example/a.png"}}
		_, err := s.EditPost(t.Context(), "ben", post, feed.PostEdit{Images: &images})
		require.NoError(t, err)
		pause(2 * time.Second)
		assert.Len(t, ann.edited, 3, "an edit that leaves the text")
		assert.Zero(t, ann.stale.Load())
	})
}

// unheard is a table whose updates happen, but have no answer.
type unheard struct{ table.Store }

func (u unheard) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	_, err := u.Store.Update(ctx, in)
	return table.WriteResult{}, errors.Join(err, errors.New("no answer"))
}

func TestAnEditWithoutAnAnswerReachesTheStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		raw := tabletest.NewMemory()
		a := newAPI(t, raw, rare)
		own := new(live.Wakes)
		own.Wake(a.Hub)
		s, _ := serviceOf(own.Store(unheard{raw}))
		follow(t, raw, "ann", "ben")
		c := a.client(t, "ann", "")
		pause(time.Second)
		post, text := a.published(t, "ben", "ann"), "y"
		pause(time.Second)
		_, err := s.EditPost(t.Context(), "ben", post, feed.PostEdit{Text: &text})
		require.Error(t, err)
		pause(time.Second)
		assert.Equal(t, []string{post + " y"}, c.edited)
	})
}

// duringEvent calls during while an event entry is put into the buffers.
type duringEvent struct {
	*api
	during func()
}

func (d *duringEvent) StreamEvents(kind string, _ int) {
	if kind == "entry" {
		d.during()
	}
}

// A user follows an author through another process. The author's first post is deleted while it is sent.
func TestADeletionDuringTheFirstEventOfAnAuthorIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, found := &duringEvent{}, make(chan struct{}, 2)
		a, _, c := rules(t, func(c *live.Config) {
			events.api, _ = c.Counters.(*api) // nil for counters of another type
			c.Counters = events
			deleted := c.Frames.Deleted
			c.Frames.Deleted = func(post string) ([]byte, error) {
				found <- struct{}{} // the home lists the author
				return deleted(post)
			}
		})
		post := a.post(t, "ben")
		events.during = func() {
			go func() {
				a.Deleted("ben", post, false)
				found <- struct{}{} // also if no home lists the author
			}()
			<-found
		}
		a.deliver(t, "ben", post, "ann")
		pause(time.Minute)
		assert.Equal(t, []string{post}, c.posts)
		assert.Equal(t, []string{post}, c.deleted)
	})
}

// A user follows an author through another process after this process has read the list of authors. A replay sends the author's
// first posts, and the other looks do not see these posts.
func TestAReplayListsTheAuthorsThatItShows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		raw := tabletest.NewMemory()
		a := newAPI(t, raw, rare)
		_, last := a.client(t, "ann", "").leave()
		st, err := a.Open(t.Context(), live.Caller{User: "ann"}, last)
		require.NoError(t, err)
		pause(time.Second)
		follow(t, raw, "ann", "ben")
		a.store = raw
		post, other := a.published(t, "ben", "ann"), a.published(t, "ben", "ann")
		c := a.serve(t, st, last)
		pause(time.Second)
		require.Equal(t, []string{post, other}, c.posts)
		a.Deleted("ben", post, false)
		a.Edited("ben", other, false)
		pause(time.Second)
		assert.Equal(t, []string{post}, c.deleted)
		assert.Equal(t, []string{other + " x"}, c.edited)
	})
}

// The page of each client is the home at the end, whatever happens between the looks: no deleted post
// stays, and each post has its last text.
func TestAPageFollowsTheHome(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { pageFollows(t, seed) })
	}
}

// readPage reads the client's page, as a client does once its stream is open, and applies the events since
// the opening.
func (c *client) readPage(t *testing.T, homes *home.Homes) {
	t.Helper()
	list, err := homes.Home(t.Context(), "ann", home.Query{}, page.Request{Limit: 100})
	require.NoError(t, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	shown := map[string]string{}
	for _, item := range list.Items {
		shown[item.Post.ID] = item.Post.Text
	}
	maps.Copy(shown, c.page)
	for _, post := range c.deleted {
		delete(shown, post)
	}
	c.page = shown
}

func pageFollows(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	a := newAPI(t, tabletest.NewMemory(), rare)
	s, homes := serviceOf(a.store)
	follow(t, a.store, "ann", "ben")
	truth := map[string]string{}
	var posts []string
	var clients []*client
	open := func(last string) {
		c, err := a.connect(t, live.Caller{User: "ann"}, last)
		if err != nil {
			return
		}
		c.readPage(t, homes)
		clients = append(clients, c)
	}
	a.mu.Lock()
	a.latency = time.Duration(rng.IntN(300)) * time.Millisecond
	a.mu.Unlock()
	for range 60 {
		if rng.IntN(4) == 0 && len(clients) > 0 {
			a.mu.Lock()
			a.breaks = rng.IntN(3)
			a.mu.Unlock()
		}
		pause(time.Duration(rng.IntN(400)) * time.Millisecond)
		switch n := rng.IntN(10); {
		case n < 3:
			post := a.published(t, "ben", "ann")
			posts, truth[post] = append(posts, post), "x"
		case n < 5 && len(posts) > 0:
			i := rng.IntN(len(posts))
			require.NoError(t, s.DeletePost(t.Context(), "ben", posts[i]))
			delete(truth, posts[i])
			posts = slices.Delete(posts, i, i+1)
		case n < 7 && len(posts) > 0:
			post := posts[rng.IntN(len(posts))]
			truth[post] = fmt.Sprint(rng.IntN(1000))
			edit(t, s, "ben", post, truth[post])
		case n < 8 && len(clients) > 0:
			i := rng.IntN(len(clients))
			last := clients[i].last
			if len(clients[i].done) == 0 {
				_, last = clients[i].leave()
			}
			clients = slices.Delete(clients, i, i+1)
			open(last)
		case len(clients) < 3:
			open("")
		}
	}
	pause(20 * time.Second)
	for _, c := range clients {
		if len(c.done) == 0 { // otherwise the client connects and reads its page again
			require.Equal(t, truth, c.page, "seed %d", seed)
		}
	}
}

// A deletion costs no units, an edit as many as a post, and ten edits in a second as many as two.
func TestWhatChangesCost(t *testing.T) {
	t.Parallel()
	const readers = 100
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare, func(c *live.Config) { c.Streams = 1000 })
		s, _ := serviceOf(a.store)
		var users []string
		for i := range readers {
			users = append(users, fmt.Sprintf("reader%d", i))
			follow(t, a.store, users[i], "ben")
		}
		a.profile(t, users...)
		var clients []*client
		for _, user := range users {
			clients = append(clients, a.client(t, user, ""))
		}
		pause(time.Minute)
		post := a.published(t, "ben", users...)
		pause(time.Minute)
		a.used()
		measure := func(of func()) float64 {
			a.used()
			of()
			pause(3 * time.Second)
			units, _ := a.used()
			return units / readers
		}
		// Looks that happen to overlap share reads, so the units differ a little.
		posted := measure(func() { a.published(t, "ben", users...) })
		once := measure(func() { edit(t, s, "ben", post, "y") })
		assert.Less(t, once, 1.25*posted)
		tenTimes := measure(func() {
			for i := range 10 {
				edit(t, s, "ben", post, fmt.Sprint(i))
				pause(100 * time.Millisecond)
			}
		})
		assert.Greater(t, tenTimes, once)
		assert.Less(t, tenTimes, 2.5*once, "two looks: the last edit is seen, too")
		var more []string
		for range 50 {
			more = append(more, a.published(t, "ben", users...))
		}
		pause(2 * time.Minute)
		assert.Zero(t, measure(func() {
			for _, p := range append(more, post) {
				require.NoError(t, s.DeletePost(t.Context(), "ben", p))
			}
		}))
		for _, c := range clients {
			require.Len(t, c.deleted, 51)
			require.Len(t, c.edited, len(clients[0].edited))
			require.Zero(t, c.stale.Load())
		}
	})
}

// Edits of more posts than may wait for a look make the clients read their pages again.
func TestTooManyEditsMakeAPageStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare)
		follow(t, a.store, "ann", "ben")
		c := a.client(t, "ann", "")
		pause(time.Second)
		for i := range 64 {
			a.Edited("ben", fmt.Sprintf("%026d", i), false)
		}
		pause(time.Millisecond)
		assert.Zero(t, c.stale.Load())
		a.Edited("ben", fmt.Sprintf("%026d", 0), false)
		pause(time.Millisecond)
		assert.Zero(t, c.stale.Load(), "the post waits already")
		for i := range 10 {
			a.Edited("ben", fmt.Sprintf("%026d", 64+i), false)
		}
		pause(time.Second)
		assert.EqualValues(t, 1, c.stale.Load(), "the other posts wait")
	})
}

// The posts of which a joining stream has to hear leave no room for the posts of which the other stream has to hear.
func TestTooManyEditsBeforeAStreamJoinsMakeAllPagesStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare)
		follow(t, a.store, "ann", "ben")
		first := a.client(t, "ann", "")
		pause(time.Second)
		_, last := a.client(t, "ann", "").leave()
		st, err := a.Open(t.Context(), live.Caller{User: "ann"}, last)
		require.NoError(t, err)
		for i := range 80 {
			a.Edited("ben", fmt.Sprintf("%026d", i), false)
			pause(time.Duration(i/40) * 100 * time.Millisecond)
		}
		pause(10 * time.Second)
		require.Zero(t, first.stale.Load())
		second := a.serve(t, st, last)
		pause(time.Second)
		assert.EqualValues(t, 1, first.stale.Load())
		assert.EqualValues(t, 1, second.stale.Load())
	})
}

// A stream that joins gets stale if the ring has forgotten changes since its opening. The other streams have got these changes.
func TestForgottenChangesBeforeAStreamJoinsMakeItsPageStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare)
		first := a.client(t, "ann", "")
		pause(time.Second)
		_, last := a.client(t, "ann", "").leave()
		st, err := a.Open(t.Context(), live.Caller{User: "ann"}, last)
		require.NoError(t, err)
		for i := range live.MostRecent + 1 {
			a.Deleted("stranger", fmt.Sprintf("%026d", i), false)
		}
		pause(time.Minute)
		second := a.serve(t, st, last)
		pause(time.Second)
		assert.EqualValues(t, 1, second.stale.Load())
		assert.Zero(t, first.stale.Load())
	})
}

// Looks at edited posts wait for the units of all looks.
func TestALookAtEditedPostsWaitsForUnits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare, func(c *live.Config) { c.Units = 1 })
		follow(t, a.store, "ann", "ben")
		c := a.client(t, "ann", "")
		pause(time.Minute)
		var posts []string
		for range 40 {
			posts = append(posts, a.published(t, "ben", "ann"))
		}
		pause(time.Minute)
		require.Len(t, c.posts, 40)
		for _, post := range posts {
			a.Edited("ben", post, false)
		}
		pause(time.Second)
		require.Len(t, c.edits(), 40)
		a.Edited("ben", posts[0], false)
		pause(3 * time.Second)
		assert.Len(t, c.edits(), 40)
		pause(20 * time.Second)
		assert.Len(t, c.edits(), 41)
	})
}

// A look at edited posts that fails is repeated, less and less often.
func TestAFailedLookAtEditedPostsIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks := &duringLook{}
		a := newAPI(t, tabletest.NewMemory(), rare, func(c *live.Config) { looks.Homes = c.Homes; c.Homes = looks })
		s, _ := serviceOf(a.store)
		follow(t, a.store, "ann", "ben")
		c := a.client(t, "ann", "")
		pause(time.Second)
		post := a.published(t, "ben", "ann")
		pause(20 * time.Second)
		a.failReads(true)
		edit(t, s, "ben", post, "y")
		pause(2 * time.Minute)
		assert.InDelta(t, 8, looks.edits.Load(), 1)
		assert.Empty(t, c.edited)
		a.failReads(false)
		pause(31 * time.Second)
		assert.Equal(t, []string{post + " y"}, c.edited)
	})
}

// lateList is a home whose list of authors takes a second.
type lateList struct{ live.Homes }

func (h lateList) Heard(ctx context.Context, viewer string, most int) ([]string, bool, error) {
	<-time.After(time.Second)
	return h.Homes.Heard(ctx, viewer, most)
}

func TestAChangeBeforeTheListIsToldAfterTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare, func(c *live.Config) { c.Homes = lateList{c.Homes} })
		s, _ := serviceOf(a.store)
		follow(t, a.store, "ann", "ben")
		post, other := a.published(t, "ben", "ann"), a.published(t, "ben", "ann")
		c := a.client(t, "ann", "")
		require.NoError(t, s.DeletePost(t.Context(), "ben", post))
		edit(t, s, "ben", other, "y")
		a.Edited("stranger", "p", true)
		pause(3 * time.Second)
		assert.Equal(t, []string{post}, c.deleted)
		assert.Equal(t, []string{other + " y"}, c.edited)
		assert.Len(t, c.changed, 1, "the list does not decide about it")
		for i := range live.MostRecent + 1 { // the list is read again after 30 minutes
			a.Deleted("stranger", fmt.Sprintf("%026d", i), false)
		}
		assert.Zero(t, c.stale.Load())
		pause(31 * time.Minute)
		assert.EqualValues(t, 1, c.stale.Load(), "the ring has forgotten some changes")
		pause(31 * time.Minute)
		assert.EqualValues(t, 1, c.stale.Load(), "the ring has all changes since the second list")
	})
}

// staleLists calls during once, after a list of authors was read and before the home has the list.
type staleLists struct {
	live.Homes
	during func()
}

func (s *staleLists) Heard(ctx context.Context, viewer string, most int) ([]string, bool, error) {
	users, whole, err := s.Homes.Heard(ctx, viewer, most)
	if during := s.during; during != nil {
		s.during = nil
		during()
	}
	return users, whole, err
}

// A follow through another process just misses a read of the list, and so does the deletion of a post.
func TestAChangeDuringAReadOfTheListIsToldAfterTheNextRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lists, post, raw := &staleLists{}, "", tabletest.NewMemory()
		a := newAPI(t, raw, rare, func(c *live.Config) { lists.Homes, c.Homes = c.Homes, lists })
		s, _ := serviceOf(a.store)
		follow(t, a.store, "ann", "author")
		lists.during = func() {
			follow(t, raw, "ann", "ben")
			pause(time.Second)
			assert.NoError(t, s.DeletePost(t.Context(), "ben", post))
			pause(time.Second)
		}
		post = a.published(t, "ben")
		c := a.client(t, "ann", "")
		pause(time.Minute)
		require.Nil(t, lists.during)
		c.mu.Lock()
		require.Empty(t, c.deleted, "the list lacks the author")
		c.mu.Unlock()
		pause(31 * time.Minute)
		assert.Equal(t, []string{post}, c.deleted)
		assert.Zero(t, c.stale.Load())
	})
}

// duringLook calls during once, in the middle of a look that has read a post.
type duringLook struct {
	live.Homes
	during atomic.Pointer[func(post string)]
	// edits is the number of looks at edited posts.
	edits atomic.Int64
}

func (d *duringLook) call(items []feed.HomeItem) {
	if len(items) == 0 {
		return
	}
	if during := d.during.Swap(nil); during != nil {
		(*during)(items[0].Post.ID)
	}
}

func (d *duringLook) Arrivals(ctx context.Context, viewer string, seen *home.Streamed) iter.Seq2[[]feed.HomeItem, error] {
	return func(yield func([]feed.HomeItem, error) bool) {
		for items, err := range d.Homes.Arrivals(ctx, viewer, seen) {
			d.call(items)
			if !yield(items, err) {
				return
			}
		}
	}
}

func (d *duringLook) Edited(ctx context.Context, viewer string, refs []access.Ref) ([]feed.HomeItem, error) {
	d.edits.Add(1)
	items, err := d.Homes.Edited(ctx, viewer, refs)
	d.call(items)
	return items, err
}

// A post that is deleted while a look shows it does not come after its deletion. If the ring has forgotten
// the deletion, the page has to be read again.
func TestNoEventOfAPostFollowsItsDeletion(t *testing.T) {
	t.Parallel()
	for _, forgets := range []bool{false, true} {
		for _, edits := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				looks := &duringLook{}
				a := newAPI(t, tabletest.NewMemory(), rare, func(c *live.Config) { looks.Homes = c.Homes; c.Homes = looks })
				s, _ := serviceOf(a.store)
				follow(t, a.store, "ann", "ben")
				c := a.client(t, "ann", "")
				pause(time.Second)
				during := func(post string) {
					require.NoError(t, s.DeletePost(t.Context(), "ben", post))
					for i := range live.MostRecent {
						if forgets {
							a.Deleted("stranger", fmt.Sprintf("%026d", i), false)
						}
					}
					<-time.After(10 * time.Millisecond) // a later look does not see that
				}
				if !edits {
					looks.during.Store(&during)
				}
				post := a.published(t, "ben", "ann")
				pause(time.Second)
				if edits {
					looks.during.Store(&during)
					edit(t, s, "ben", post, "y")
					pause(time.Second)
				}
				assert.Equal(t, []string{post}, c.deleted)
				if assert.Equal(t, forgets, c.stale.Load() > 0); !forgets {
					assert.Len(t, c.posts, boolean(edits))
					assert.Empty(t, c.edited)
				}
			})
		}
	}
}

// A look of one home sends no post while the deletion is still sent to another home.
func TestNoHomeGetsAPostBetweenTheEventsOfItsDeletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clients, told := map[string]*client{}, func(string) {}
		a := newAPI(t, tabletest.NewMemory(), rare, func(c *live.Config) {
			deleted := c.Frames.Deleted
			c.Frames.Deleted = func(post string) ([]byte, error) { told(post); return deleted(post) }
		})
		follow(t, a.store, "ann", "ben")
		follow(t, a.store, "user0", "ben")
		for _, user := range []string{"ann", "user0"} {
			clients[user] = a.client(t, user, "")
		}
		pause(time.Second)
		post, homes := a.post(t, "ben"), 0
		told = func(string) {
			pause(time.Second)
			for user, c := range clients {
				if len(c.deleted) > 0 {
					homes++
					a.deliver(t, "ben", post, user)
				}
			}
			pause(3 * time.Second)
		}
		a.Deleted("ben", post, false)
		pause(time.Minute)
		assert.Equal(t, 1, homes)
		for user, c := range clients {
			assert.Equal(t, []string{post}, c.deleted, user)
			assert.Empty(t, c.posts, user)
		}
	})
}

// A repost does not come after the deletion of its original, and a page with a quote of a deleted post is read again.
func TestNoReferenceFollowsTheDeletionOfItsPost(t *testing.T) {
	t.Parallel()
	for _, quotes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			looks := &duringLook{}
			a := newAPI(t, tabletest.NewMemory(), rare, func(c *live.Config) { looks.Homes = c.Homes; c.Homes = looks })
			s, _ := serviceOf(a.store)
			follow(t, a.store, "ann", "ben")
			follow(t, a.store, "ann", "cid")
			c := a.client(t, "ann", "")
			pause(time.Second)
			post := a.post(t, "ben")
			index(t, a.store, "ben", post)
			newer, err := a.ids.New()
			require.NoError(t, err)
			during := func(string) { require.NoError(t, s.DeletePost(t.Context(), "ben", post)) }
			looks.during.Store(&during)
			refers := schema.Post{ID: newer, Author: "cid", LikeShards: 1, Reference: schema.Reference{RepostOf: post, OfAuthor: "ben", OfShards: 1}}
			if quotes {
				refers.Text, refers.RepostOf, refers.QuoteOf = "so true", "", post
			}
			put(t, a.store, refers.Item())
			put(t, a.store, refers.Ref(time.Hour).Item())
			a.deliver(t, "cid", refers.ID, "ann")
			pause(time.Second)
			assert.Nil(t, looks.during.Load(), "the post was deleted during the look")
			assert.Equal(t, []string{post}, c.deleted)
			assert.Len(t, c.posts, boolean(quotes))
			assert.EqualValues(t, boolean(quotes), c.stale.Load())
			if quotes {
				assert.Equal(t, []int{1}, c.staleAfter, "the page is read after it has the quote")
			}
		})
	}
}

// A user mutes the author of a post that somebody else has reposted: the list of authors never had the author.
func TestAPageIsReadAgainAfterAMuteOfAStranger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare)
		s, _ := serviceOf(a.store)
		follow(t, a.store, "ann", "ben")
		c := a.client(t, "ann", "")
		pause(time.Minute)
		require.NoError(t, s.Mute(t.Context(), "ann", "user0"))
		pause(time.Second)
		assert.EqualValues(t, 1, c.stale.Load())
	})
}

// A home without a list hears of no change, so its page is read again every ten minutes.
func TestAPageWithoutAListIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _, c := rules(t, func(c *live.Config) { c.Edges = 1 })
		b := a.client(t, "ben", "") // its list has only ben
		pause(time.Hour)
		assert.EqualValues(t, 6, c.stale.Load())
		assert.Zero(t, b.stale.Load())
		own := new(live.Wakes)
		own.Wake(a.Hub)
		put(t, own.Store(a.store), schema.FollowingItem("ben", "ann", time.Now(), "")) // does not fit any more
		pause(11 * time.Minute)
		assert.EqualValues(t, 1, b.stale.Load())
		_, err := own.Store(a.store).Delete(t.Context(), table.DeleteInput{Key: schema.FollowingItem("ben", "ann", time.Now(), "").Key})
		require.NoError(t, err)
		pause(31 * time.Minute) // the list is read again, and fits
		known := b.stale.Load()
		pause(time.Hour)
		assert.Equal(t, known, b.stale.Load())
	})
}

// After a minute without the tail, changes of other processes may be lost.
func TestATailThatWasAwayMakesPagesStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p, c := rules(t)
		for _, away := range []time.Duration{57 * time.Second, 62 * time.Second} {
			p.fail(true)
			pause(away)
			p.fail(false)
			pause(2 * time.Second)
			assert.EqualValues(t, boolean(away > time.Minute), c.stale.Load(), away)
		}
	})
}

// unreadable is a frame that cannot be encoded.
func unreadable(string) ([]byte, error) { return nil, errors.New("no frame") }

func TestAChangeWithoutAFrameMakesThePageStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare, func(c *live.Config) { c.Frames.Deleted, c.Frames.Changed = unreadable, unreadable })
		c := a.client(t, "ann", "")
		pause(time.Second)
		a.Deleted("ann", "p", false)
		synctest.Wait()
		assert.EqualValues(t, 1, c.stale.Load())
		a.Edited("stranger", "q", true)
		synctest.Wait()
		assert.EqualValues(t, 2, c.stale.Load())
	})
}

// Writers, streams that open and looks meet at the same time.
func TestChangesBesideOpenings(t *testing.T) {
	t.Parallel()
	a := newAPI(t, tabletest.NewMemory())
	follow(t, a.store, "ann", "ben")
	s, _ := serviceOf(a.store)
	var posts []string
	for range 20 {
		posts = append(posts, a.published(t, "ben", "ann"))
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			c := a.client(t, "ann", "")
			for _, post := range posts[5*i : 5*i+5] {
				edit(t, s, "ben", post, "y")
				assert.NoError(t, s.DeletePost(t.Context(), "ben", post))
			}
			c.cancel()
			<-c.done
		})
	}
	all.Wait()
}

// The tail reads the changes of other processes in the log of changes. A tick reads each change three
// times, and tells the change once.
func TestChangesByOtherProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		raw := tabletest.NewMemory()
		there, homes := serviceOf(raw)
		here, alone := newAPI(t, raw, rare, func(c *live.Config) { c.Posts = homes }), newAPI(t, raw, rare)
		for _, user := range []string{"ann", "user0"} {
			follow(t, raw, user, "ben")
		}
		c, without := here.client(t, "ann", ""), alone.client(t, "user0", "")
		pause(time.Second)
		post, other := here.published(t, "ben", "ann", "user0"), here.published(t, "ben", "ann", "user0")
		pause(5 * time.Second)
		require.NoError(t, there.DeletePost(t.Context(), "ben", post))
		edit(t, there, "ben", other, "y")
		pause(2 * time.Second)
		assert.Equal(t, []string{post}, c.deleted)
		assert.Equal(t, []string{other + " y"}, c.edited)
		pause(time.Minute)
		assert.Len(t, c.deleted, 1, "once")
		assert.Len(t, c.edited, 1, "once")
		assert.Zero(t, c.stale.Load())
		assert.Empty(t, without.deleted, "a process without a tail")
	})
}

// If a tick cannot read all changes, the pages have to be read again.
func TestATailThatReadsOnlySomeChangesMakesPagesStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p, c := rules(t)
		p.mu.Lock()
		p.made.More = true
		p.mu.Unlock()
		pause(1500 * time.Millisecond)
		assert.Positive(t, c.stale.Load())
	})
}
