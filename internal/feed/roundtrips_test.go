package feed_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// tapped is a world whose table calls go through a tap.
func tapped(t *testing.T, change ...func(*config)) (*world, *tap) {
	t.Helper()
	var tp *tap
	w := newWorld(t, append(change, func(c *config) {
		tp = &tap{Store: c.Store}
		c.Store = tp
	})...)
	return w, tp
}

// crowd makes viewer follow the authors, who post in turns until the number of posts is reached. All
// posts are delivered, and no mark is left.
func (w *world) crowd(viewer string, authors, posts int) []string {
	names := numbered(authors, "author")
	w.users(viewer)
	w.users(names...)
	for _, author := range names {
		w.follow(viewer, author)
	}
	for i := range posts {
		w.post(names[i%authors], fmt.Sprintf("post %d", i))
		w.deliver()
	}
	w.deliver()
	w.clock.add(2 * time.Minute)
	return names
}

func TestHomeTakesTwoRoundTripsAndFortyKeys(t *testing.T) {
	for name, c := range map[string]struct {
		authors, posts int
		reposts        int
		marked, view   bool
		keys           int
		trips          int
	}{
		// One more round reads the originals, their counts, and the side of a block with their author.
		"a page and more, 6 reposts of a stranger": {authors: 19, posts: 24, reposts: 6, keys: 20*2 + 6*2 + 1, trips: 3},
		"a page and more, as views":                {authors: 19, posts: 30, view: true, keys: 20*2 + 1, trips: 2},
		"less than a page":                         {authors: 5, posts: 12, keys: 12 * 2, trips: 2},
		"a page and more, one author":              {authors: 1, posts: 30, keys: 20 * 2, trips: 2},
		"a page and more, 19 authors":              {authors: 19, posts: 30, keys: 20 * 2, trips: 2},
		"a page and more, as many authors":         {authors: 30, posts: 30, keys: 20 * 2, trips: 2},
		"a page and more, with a marked author":    {authors: 19, posts: 30, marked: true, keys: 20 * 2, trips: 3},
		"nobody followed and nothing ever posted":  {authors: 1, posts: 0, keys: 0, trips: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, tp := tapped(t)
				names := w.crowd("viewer", c.authors, c.posts)
				w.users("stranger")
				for i := range c.reposts {
					w.repost(names[i], w.post("stranger", "x").ID)
					w.deliver()
				}
				if c.marked {
					require.NoError(t, w.Unfollow(t.Context(), "viewer", names[0]))
					w.follow("viewer", names[0])
				}
				tp.take()
				tp.latency = time.Second
				began := time.Now()
				l, err := w.Home(t.Context(), "viewer", home.Query{View: c.view}, page.Request{})
				require.NoError(t, err)
				if took := time.Since(began); took != time.Duration(c.trips)*time.Second {
					t.Errorf("it took %s, want %d round trips of a second", took, c.trips)
				}
				if want := min(c.posts+c.reposts, 20); len(l.Items) != want || (l.NextCursor != "") != (c.posts+c.reposts > 20) {
					t.Errorf("%d items, cursor %q", len(l.Items), l.NextCursor)
				}
				keys, queries := 0, 0
				for _, call := range tp.take() {
					switch call.op {
					case table.OpBatchGet:
						keys += call.keys
					case table.OpQuery:
						queries++
					default:
						t.Errorf("unexpected call: %s", call)
					}
				}
				assert.Equal(t, c.keys, keys)
				wantQueries := 2
				if c.marked {
					wantQueries++
				}
				if c.posts > 0 {
					wantQueries++ // the viewer's own likes
				}
				if c.view {
					wantQueries += 2 // the viewer's bookmarks and reposts
				}
				if c.reposts > 0 {
					wantQueries += 2 // the viewer's mutes, and own likes of the originals
				}
				assert.Equal(t, wantQueries, queries)
			})
		})
	}
}

func TestHomeReadsConsistentlyWhatInvariantsNeed(t *testing.T) {
	w, tp := tapped(t)
	w.crowd("viewer", 3, 5)
	tp.take()
	w.home("viewer", 20, home.Query{})
	for _, call := range tp.take() {
		_, isPost := schema.PostOfSK(call.key.SK)
		isHome := call.op == table.OpQuery && call.key.PK != schema.UserLikesPK("viewer")
		assert.Equalf(t, isHome || isPost, call.consistent, "%s", call)
	}
	authors := w.followees("puller", 1001)
	w.users(authors[0])
	p := w.post(authors[0], "x")
	tp.take()
	w.walk("puller", "", 20, nil)
	for _, call := range tp.take() {
		ofPage := call.key == schema.LikeCountKey(p.ID) || call.key.PK == schema.UserLikesPK("puller")
		assert.Equalf(t, !ofPage, call.consistent, "by pull: %s", call)
	}
}

func TestPullReadsAHundredFolloweesARound(t *testing.T) {
	for followees, trips := range map[int]int{
		99:   3, // the followees; the lists of the followees and of the viewer; the posts
		1000: 1 + 11 + 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			w, tp := tapped(t)
			names := numbered(followees, "author")
			w.users("viewer")
			var edges []table.Item
			for i, name := range names {
				edges = append(edges, schema.FollowingItem("viewer", name, w.clock.now(), id.Min))
				if i%100 < 30 && i/100%10 == 0 {
					w.users(name)
					w.post(name, name)
				}
			}
			w.put(edges...)
			tp.take()
			tp.latency = time.Second
			began := time.Now()
			l, err := w.Home(t.Context(), "viewer", home.Query{Pull: true}, page.Request{})
			require.NoError(t, err)
			if took := time.Since(began); took != time.Duration(trips)*time.Second {
				t.Errorf("%d followees: it took %s, want %d round trips of a second", followees, took, trips)
			}
			calls := len(tp.take())
			assert.LessOrEqualf(t, calls, followees+tableCalls, "%d followees: %d calls", followees, calls)
			if len(l.Items) != 20 || l.NextCursor == "" {
				t.Errorf("%d followees: %d items, cursor %q", followees, len(l.Items), l.NextCursor)
			}
		})
	}
}

// relay is a publisher that passes its events to a worker.
type relay struct{ to chan messages.Event }

func (r relay) Publish(_ string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		event, err := messages.Decode(msg.Payload)
		if err != nil {
			return err
		}
		r.to <- event
	}
	return nil
}

func (relay) Close() error { return nil }

// A new user follows ten authors, one call after another, and reads the home. The marks of the follows
// fill the home, with or without a fan-out worker.
func TestANewUserWhoFollowsTenHasAFullHomeWithinASecond(t *testing.T) {
	const (
		latency    = 20 * time.Millisecond
		followees  = 10
		followCost = 3 // edge, mark and profiles; recent posts; the transaction
		homeCost   = 3 // entries and marks; the marked authors' posts; the shown items
	)
	for name, working := range map[string]bool{"no worker runs": false, "a worker runs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := make(chan messages.Event, 1000)
				ids := id.NewGenerator(time.Now)
				w, tp := tapped(t, func(c *config) { c.Now, c.IDs, c.Publisher = time.Now, ids, relay{events} })
				authors := numbered(followees, "author")
				w.users("new")
				w.users(authors...)
				var want []string
				for i := range 5 * followees {
					text := fmt.Sprint(i)
					w.post(authors[i%followees], text)
					want = append([]string{text}, want...)
				}
				for range want {
					<-events // these events were handled long ago
				}
				var running sync.WaitGroup
				if working {
					worker := fanout.New(fanout.Config{
						Store: &tap{Store: tp.Store, latency: latency}, Posts: w.Service, Publisher: relay{events},
						IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(timelineTTL),
					})
					running.Go(func() {
						for event := range events {
							if err := worker.HandleBackfills(t.Context(), event); err != nil {
								t.Error(err)
							}
						}
					})
				}
				home := func() []string {
					t.Helper()
					l, err := w.Home(t.Context(), "new", home.Query{}, page.Request{Limit: 100})
					require.NoError(t, err)
					return texts(l.Items)
				}
				entries := func() int { return len(w.partition(schema.TimelinePK("new"))) }
				tp.latency = latency
				began := time.Now()
				for _, author := range authors {
					w.follow("new", author)
				}
				got := home()
				took := time.Since(began)
				assert.Truef(t, slices.Equal(got, want), "the home is %q, want %q", got, want)
				if took >= time.Second || took != (followees*followCost+homeCost)*latency {
					t.Errorf("it took %s: %d calls of %s one after the other", took, took/latency, latency)
				}
				tp.latency = 0
				close(events)
				running.Wait()
				wantEntries := 0
				if working {
					wantEntries = len(want)
				}
				assert.Equal(t, wantEntries, entries(), "entries in the timeline")
				got = home()
				assert.Truef(t, slices.Equal(got, want), "then the home is %q, want %q", got, want)
			})
		})
	}
}

// If a viewer has just followed many authors, the home reads 100 post lists in each round trip.
func TestHomeReadsAHundredMarkedAuthorsARound(t *testing.T) {
	for marked, trips := range map[int]int{1: 3, 100: 3, 101: 4, 250: 5} {
		synctest.Test(t, func(t *testing.T) {
			w, tp := tapped(t)
			names := numbered(marked, "author")
			w.users("viewer")
			w.users(names...)
			for i := range 90 {
				w.post(names[i%marked], fmt.Sprint(i))
			}
			for _, name := range names {
				w.follow("viewer", name)
			}
			tp.take()
			tp.latency = time.Second
			began := time.Now()
			l, err := w.Home(t.Context(), "viewer", home.Query{}, page.Request{})
			require.NoError(t, err)
			if took := time.Since(began); took != time.Duration(trips)*time.Second {
				t.Errorf("%d marked: it took %s, want %d round trips of a second", marked, took, trips)
			}
			if len(l.Items) != 20 || l.Items[0].Post.Text != "89" || l.NextCursor == "" {
				t.Errorf("%d marked: %d items, cursor %q", marked, len(l.Items), l.NextCursor)
			}
			keys, queries := 0, 0
			for _, call := range tp.take() {
				switch call.op {
				case table.OpBatchGet:
					keys += call.keys
				case table.OpQuery:
					queries++
				default:
					t.Errorf("unexpected call: %s", call)
				}
			}
			if keys > 61 || queries != 2+marked+1 {
				t.Errorf("%d marked: %d keys, %d queries", marked, keys, queries)
			}
		})
	}
}

// largest records the largest page that was read from a partition.
type largest struct {
	table.Store
	pk   string
	size int
}

func (l *largest) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		for page, err := range l.Store.Query(ctx, q) {
			if q.PK == l.pk {
				l.size = max(l.size, len(page.Items))
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

// A user who often follows and unfollows may have very many marks for months. The home keeps one page
// of marks in memory at a time, and is still correct (I2, I9).
func TestHomeOfSomebodyWithThousandsOfMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &largest{pk: schema.MarksPK("viewer")}
		w, tp := tapped(t, func(c *config) { store.Store, c.Store = c.Store, store })
		w.users("viewer")
		// The first and the last page of marks have each kind of mark.
		var want []string
		for _, author := range []string{"a-left", "a-new", "a-old", "z-left", "z-new", "z-old"} {
			w.users(author)
			switch author[2:] {
			case "new": // the mark alone shows this author's post
				w.post(author, author)
				w.published.take()
				w.follow("viewer", author)
				w.published.take()
				want = append([]string{author}, want...)
			case "old": // the entry alone shows this author's post
				w.follow("viewer", author)
				w.post(author, author)
				w.deliver()
				_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: schema.MarkKey("viewer", author)}) // an expired mark
				require.NoError(t, err)
				want = append([]string{author}, want...)
			case "left": // the author is unfollowed, so the entry must not show
				w.follow("viewer", author)
				w.post(author, author)
				w.deliver()
				require.NoError(t, w.Unfollow(t.Context(), "viewer", author))
			}
		}
		for _, author := range numbered(2500, "m") {
			version, err := id.NewGenerator(w.clock.now).New()
			require.NoError(t, err)
			w.edge(schema.Mark{
				User: "viewer", Author: author, Kind: schema.MarkUnfollowed, Version: version, TTL: w.clock.now().Add(timelineTTL),
			}.Item())
		}
		tp.latency = time.Second
		began := time.Now()
		l, err := w.Home(t.Context(), "viewer", home.Query{}, page.Request{})
		require.NoError(t, err)
		got := texts(l.Items)
		assert.Truef(t, slices.Equal(got, want), "the home is %q, want %q", got, want)
		// Each round trip takes a second: entries and marks; marks of the entries' authors; lists of the first
		// page of marks; two more pages; lists of the last page; the shown items.
		assert.Equal(t, 7*time.Second, time.Since(began))
		if store.size == 0 || store.size > 1000 {
			t.Errorf("%d marks were read at once", store.size)
		}
		tp.latency = 0
		w.homes("viewer", want...)
	})
}
