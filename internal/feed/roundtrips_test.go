package feed_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/table"
)

// tapped is a world whose table is behind a tap.
func tapped(t *testing.T, change ...func(*feed.Config)) (*world, *tap) {
	t.Helper()
	var tp *tap
	w := newWorld(t, append(change, func(c *feed.Config) {
		tp = &tap{Store: c.Store}
		c.Store = tp
	})...)
	return w, tp
}

// crowd lets viewer follow authors who then post in turns until there are posts
// posts, all delivered and no mark left.
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

func TestHomeTakesTwoRoundTripsAndEightyKeys(t *testing.T) {
	for name, c := range map[string]struct {
		authors, posts int
		marked         bool
		keys           int
		trips          int
	}{
		"less than a page":                        {authors: 5, posts: 12, keys: 12*3 + 5, trips: 2},
		"a page and more, one author":             {authors: 1, posts: 30, keys: 20*3 + 1 + 1, trips: 2},
		"a page and more, 19 authors":             {authors: 19, posts: 30, keys: 80, trips: 2},
		"a page and more, as many authors":        {authors: 30, posts: 30, keys: 80, trips: 2},
		"a page and more, with a marked author":   {authors: 19, posts: 30, marked: true, keys: 80, trips: 3},
		"nobody followed and nothing ever posted": {authors: 1, posts: 0, keys: 0, trips: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, tp := tapped(t)
				names := w.crowd("viewer", c.authors, c.posts)
				if c.marked {
					if err := w.Unfollow(t.Context(), "viewer", names[0]); err != nil {
						t.Fatal(err)
					}
					w.follow("viewer", names[0])
				}
				tp.take()
				tp.latency = time.Second
				began := time.Now()
				l, err := w.Home(t.Context(), "viewer", feed.HomeQuery{}, feed.PageRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != time.Duration(c.trips)*time.Second {
					t.Errorf("it took %s, want %d round trips of a second", took, c.trips)
				}
				if want := min(c.posts, 20); len(l.Items) != want || (l.NextCursor != "") != (c.posts > 20) {
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
				if keys != c.keys {
					t.Errorf("%d keys, want %d", keys, c.keys)
				}
				wantQueries := 2
				if c.marked {
					wantQueries = 3
				}
				if queries != wantQueries {
					t.Errorf("%d queries, want %d", queries, wantQueries)
				}
			})
		})
	}
}

func TestHomeReadsConsistentlyWhatInvariantsNeed(t *testing.T) {
	w, tp := tapped(t)
	w.crowd("viewer", 3, 5)
	tp.take()
	w.home("viewer", 20, feed.HomeQuery{})
	for _, call := range tp.take() {
		_, isPost := table.PostOfSK(call.key.SK)
		if want := call.op == table.OpQuery || isPost; call.consistent != want {
			t.Errorf("%s: consistent %v", call, call.consistent)
		}
	}
}

func TestPullReadsTwentyFolloweesARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := tapped(t)
		w.crowd("viewer", 59, 70) // and one's own list: 60 in three rounds
		tp.latency = time.Second
		began := time.Now()
		l, err := w.Home(t.Context(), "viewer", feed.HomeQuery{Pull: true}, feed.PageRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(began), 5*time.Second; took != want { // followees, three rounds, posts
			t.Errorf("it took %s, want %s", took, want)
		}
		if len(l.Items) != 20 || l.NextCursor == "" {
			t.Errorf("%d items, cursor %q", len(l.Items), l.NextCursor)
		}
	})
}
