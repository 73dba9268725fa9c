package feed_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/backoff"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// lateTable reads at once but answers after latency, so an answer may be out of date. lateTable counts
// the reads of each item and of each partition.
type lateTable struct {
	table.Store
	latency time.Duration

	mu sync.Mutex
	// items counts consistent reads by key. queries counts the queries of a partition, or of a part of a
	// partition.
	items, queries map[string]int
}

func (l *lateTable) count(in *map[string]int, names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *in == nil {
		*in = map[string]int{}
	}
	for _, name := range names {
		(*in)[name]++
	}
}

func (l *lateTable) answer(ctx context.Context) error {
	select {
	case <-time.After(l.latency):
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (l *lateTable) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if in.Consistent {
		l.count(&l.items, in.Key.PK+" / "+in.Key.SK)
	}
	res, err := l.Store.Get(ctx, in)
	if late := l.answer(ctx); late != nil {
		return table.GetResult{}, late
	}
	return res, err
}

func (l *lateTable) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	for _, key := range in.Keys {
		if in.Consistent {
			l.count(&l.items, key.PK+" / "+key.SK)
		}
	}
	res, err := l.Store.BatchGet(ctx, in)
	if late := l.answer(ctx); late != nil {
		return table.BatchGetResult{}, late
	}
	return res, err
}

func (l *lateTable) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		for page, err := range l.Store.Query(ctx, q) {
			l.count(&l.queries, q.PK)
			if late := l.answer(ctx); late != nil {
				yield(table.Page{}, late)
				return
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

// take returns the item and the partition with the most reads, and resets all counts.
func (l *lateTable) take() (item, partition string, items, queries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, n := range l.items {
		if n > items {
			item, items = name, n
		}
	}
	for name, n := range l.queries {
		if n > queries {
			partition, queries = name, n
		}
	}
	l.items, l.queries = nil, nil
	return item, partition, items, queries
}

// A crowd is 300 equal calls of 300 users at once in one process.
const crowd = 300

// hotReads is a call that each user of a crowd makes. items is the maximum number of reads of one
// item, and queries is the maximum number of queries of one partition.
type hotReads struct {
	name           string
	do             func(w *world, user string, p feed.Post) error
	items, queries int
}

// crowdReads are in the order in which they become hot: each call needs the effects of the previous
// calls.
func crowdReads() []hotReads {
	ctx := context.Background()
	var first page.Request
	const star = "star"
	return []hotReads{
		{"likes", func(w *world, u string, p feed.Post) error { return w.Like(ctx, u, p.ID) }, 10, 0},
		{"asks for its like", func(w *world, u string, p feed.Post) error {
			_, err := w.LikeOf(ctx, access.Viewer{}, p.ID, u)
			return err
		}, 10, 0},
		{"asks for the like count", func(w *world, _ string, p feed.Post) error {
			_, err := w.LikeCount(ctx, access.Viewer{}, p.ID)
			return err
		}, 10, 0},
		{"reads the likers", func(w *world, _ string, p feed.Post) error {
			return pageOf(w.Likers(ctx, access.Viewer{}, p.ID, first))
		}, 10, crowd},
		{"reads its likes", func(w *world, u string, _ feed.Post) error { return pageOf(w.LikesByUser(ctx, access.As(u), u, first)) }, 10, 1},
		{"reads its likes as posts", func(w *world, u string, _ feed.Post) error {
			return pageOf(w.LikedPostViews(ctx, access.As(u), u, first))
		}, 10, 1},
		{"comments", func(w *world, u string, p feed.Post) error { _, err := w.CreateComment(ctx, u, p.ID, "x"); return err }, 10, 0},
		{"reads the comments", func(w *world, _ string, p feed.Post) error {
			return pageOf(w.Comments(ctx, access.Viewer{}, p.ID, first))
		}, 10, crowd},
		{"reads its comments", func(w *world, u string, _ feed.Post) error {
			return pageOf(w.CommentsByUser(ctx, access.Viewer{}, u, first))
		}, 10, 1},
		{"reads the post", func(w *world, _ string, p feed.Post) error { _, err := w.Post(ctx, access.Viewer{}, p.ID); return err }, 10, 0},
		{"views the post", func(w *world, u string, p feed.Post) error { _, err := w.PostView(ctx, access.As(u), p.ID); return err }, 10, 0},
		{"views posts by id", func(w *world, u string, p feed.Post) error {
			_, err := w.PostViews(ctx, access.As(u), []string{p.ID})
			return err
		}, 10, 0},
		{"reads a home", func(w *world, u string, _ feed.Post) error { return pageOf(w.Home(ctx, u, home.Query{}, first)) }, 10, 1},
		{"reads a home of old posts", func(w *world, u string, _ feed.Post) error {
			w.clock.add(schema.BylineShown / crowd)
			return pageOf(w.Home(ctx, u, home.Query{}, first))
		}, 10, 1},
		{"looks at the likes of a live home", func(w *world, u string, _ feed.Post) error {
			seen, err := w.HomeStreamed(ctx, u, "")
			if err == nil {
				_, err = w.LikeChanges(ctx, u, seen)
			}
			return err
		}, 10, 1},
		{"reads the profile", func(w *world, _ string, _ feed.Post) error { _, err := w.User(ctx, star); return err }, 0, 10},
		{"views users by id", func(w *world, u string, _ feed.Post) error { _, err := w.UserViews(ctx, u, []string{star}); return err }, 1, 0},
		{"asks for the relationship", func(w *world, u string, _ feed.Post) error { _, err := w.Relationship(ctx, u, u, star); return err }, 1, 0},
		// Each reader's page of a list of one author or post is a separate query.
		{"reads the posts", func(w *world, _ string, _ feed.Post) error {
			return pageOf(w.PostsByUser(ctx, access.Viewer{}, star, feed.PostRange{}, first))
		}, 0, crowd},
		{"reads the followers", func(w *world, _ string, _ feed.Post) error { return pageOf(w.Followers(ctx, star, first)) }, 0, crowd},
		// Each call reads the plan, but only the author may make such a call.
		{"asks for the delivery", func(w *world, _ string, p feed.Post) error { _, err := w.Delivery(ctx, star, p.ID); return err }, crowd, 0},
		{"unlikes", func(w *world, u string, p feed.Post) error { return w.Unlike(ctx, u, p.ID) }, 10, 0},
		// Writes into the author's partition limit these calls before reads do.
		{"unfollows", func(w *world, u string, _ feed.Post) error { return w.Unfollow(ctx, u, star) }, crowd, 0},
		{"follows", func(w *world, u string, _ feed.Post) error { return w.Follow(ctx, u, star) }, crowd, crowd},
		{"mutes", func(w *world, u string, _ feed.Post) error { return w.Mute(ctx, u, star) }, crowd, 1},
		{"blocks", func(w *world, u string, _ feed.Post) error { return w.Block(ctx, u, star) }, crowd, 0},
	}
}

// One item serves 3,000 read units a second and cannot be split. So a crowd shares its reads of a post
// and of a profile (T21).
func TestACrowdSharesItsReadsOfAnItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := &lateTable{}
		w := newWorld(t, sharing, func(c *config) { late.Store, c.Store = c.Store, late })
		users := numbered(crowd, "user")
		w.users("star")
		w.users(users...)
		for _, user := range users {
			w.follow(user, "star")
		}
		p := w.post("star", "viral")
		w.deliver()
		w.clock.add(2 * time.Minute)
		for _, c := range crowdReads() {
			late.take()
			late.latency = 5 * time.Millisecond
			var all sync.WaitGroup
			for _, user := range users {
				all.Go(func() { assert.NoError(t, c.do(w, user, p), c.name) })
			}
			all.Wait()
			late.latency = 0
			item, partition, items, queries := late.take()
			w.deliver()
			assert.LessOrEqual(t, items, c.items, "%s: reads of %s", c.name, item)
			assert.LessOrEqual(t, queries, c.queries, "%s: queries of %s", c.name, partition)
			t.Logf("each of %d %s: %d reads of one item, %d queries of one partition", crowd, c.name, items, queries)
		}
	})
}

// showsPost contains calls that show a post or change a record about the post. Each call reports
// whether the post exists.
func showsPost() map[string]func(w *world, p feed.Post) (bool, error) {
	ctx := context.Background()
	var first page.Request
	return map[string]func(w *world, p feed.Post) (bool, error){
		"like":   func(w *world, p feed.Post) (bool, error) { return true, w.Like(ctx, "ann", p.ID) },
		"unlike": func(w *world, p feed.Post) (bool, error) { return true, w.Unlike(ctx, "ann", p.ID) },
		"own like": func(w *world, p feed.Post) (bool, error) {
			_, err := w.LikeOf(ctx, access.Viewer{}, p.ID, "ann")
			return true, err
		},
		"like count": func(w *world, p feed.Post) (bool, error) {
			_, err := w.LikeCount(ctx, access.Viewer{}, p.ID)
			return true, err
		},
		"likers": func(w *world, p feed.Post) (bool, error) {
			return true, pageOf(w.Likers(ctx, access.Viewer{}, p.ID, first))
		},
		"comments": func(w *world, p feed.Post) (bool, error) {
			return true, pageOf(w.Comments(ctx, access.Viewer{}, p.ID, first))
		},
		"post": func(w *world, p feed.Post) (bool, error) {
			_, err := w.Post(ctx, access.Viewer{}, p.ID)
			return true, err
		},
		"view": func(w *world, p feed.Post) (bool, error) {
			_, err := w.PostView(ctx, access.As("ann"), p.ID)
			return true, err
		},
		"views by id": func(w *world, p feed.Post) (bool, error) {
			found, err := w.PostViews(ctx, access.As("ann"), []string{p.ID})
			return len(found.Items) > 0, err
		},
		"home": func(w *world, _ feed.Post) (bool, error) {
			l, err := w.Home(ctx, "ann", home.Query{}, first)
			return len(l.Items) > 0, err
		},
		"likes by user": func(w *world, _ feed.Post) (bool, error) {
			l, err := w.LikesByUser(ctx, access.Viewer{}, "ann", first)
			return len(l.Items) > 0, err
		},
		"comments by user": func(w *world, _ feed.Post) (bool, error) {
			l, err := w.CommentsByUser(ctx, access.Viewer{}, "ann", first)
			return len(l.Items) > 0, err
		},
	}
}

// A deletion is answered while running shared reads of the post still return the post. A later call
// must not get the answer of these reads (I2).
func TestACallAfterADeletionSharesNoReadFromBefore(t *testing.T) {
	const between = 100 * time.Millisecond
	for name, call := range showsPost() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				late := &lateTable{}
				w := newWorld(t, func(c *config) { late.Store, c.Store = c.Store, late })
				elsewhere := newWorldAt(t, w.clock, func(c *config) { c.Store = late.Store })
				w.users("ann", "bob")
				w.follow("ann", "bob")
				p := w.post("bob", "x")
				require.NoError(t, w.Like(t.Context(), "ann", p.ID))
				_, err := w.CreateComment(t.Context(), "ann", p.ID, "x")
				require.NoError(t, err)
				w.deliver()
				w.clock.add(2 * time.Minute)
				late.latency = time.Second
				var all sync.WaitGroup
				for range 20 { // one request reads alone, one makes a batch, and the other requests wait for the next batch
					all.Go(func() {
						_, err := call(w, p)
						if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.NotFound { // a late read may see the deletion
							assert.NoError(t, err)
						}
					})
					require.NoError(t, backoff.Wait(t.Context(), between))
				}
				require.NoError(t, elsewhere.DeletePost(t.Context(), "bob", p.ID))
				for range 20 {
					all.Go(func() {
						shown, err := call(w, p)
						if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.NotFound {
							return
						}
						assert.NoError(t, err)
						assert.False(t, shown, "the post is there after its deletion was answered")
					})
					require.NoError(t, backoff.Wait(t.Context(), between))
				}
				all.Wait()
			})
		})
	}
}

// All readers of a profile see a change at once.
func TestACallAfterAChangeOfAProfileSharesNoReadFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := &lateTable{}
		w := newWorld(t, func(c *config) { late.Store, c.Store = c.Store, late })
		elsewhere := newWorldAt(t, w.clock, func(c *config) { c.Store = late.Store })
		w.users("ann")
		late.latency = time.Second
		var all sync.WaitGroup
		for i := range 30 {
			name := fmt.Sprint(i)
			_, err := elsewhere.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: name})
			require.NoError(t, err)
			all.Go(func() {
				user, err := w.User(t.Context(), "ann")
				assert.NoError(t, err)
				shown, err := strconv.Atoi(user.Name)
				assert.NoError(t, err)
				assert.GreaterOrEqual(t, shown, i)
			})
			require.NoError(t, backoff.Wait(t.Context(), 100*time.Millisecond))
		}
		all.Wait()
	})
}
