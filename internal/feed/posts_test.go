package feed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

func TestPostsComeBackAsTheyWereSent(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	made, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: hostile, Images: []feed.Image{{URL: "https://example.com/a.png"}}}})
	require.NoError(t, err)
	want := feed.Post{ID: made.ID, AuthorID: "ann", Content: feed.Content{Text: hostile, Images: []feed.Image{{URL: "https://example.com/a.png"}}}, CreatedAt: w.clock.now()}
	got, err := w.Post(t.Context(), access.Viewer{}, made.ID)
	if err != nil || !cmp.Equal(made, want) || !cmp.Equal(got, want) {
		t.Errorf("made %+v, got %+v, want %+v: %v", made, got, want, err)
	}
	e := w.published.take()[0].(*messages.PostCreated)
	if e.Text != hostile || e.PostID != made.ID || e.AuthorID != "ann" || e.LikeShards != 1 {
		t.Errorf("published %+v", e)
	}
	w.clock.add(time.Hour)
	text := "edited"
	want.EditedAt = w.clock.now()
	want.Text = text
	if got, err := w.EditPost(t.Context(), "ann", made.ID, feed.PostEdit{Text: &text}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("edited %+v, want %+v: %v", got, want, err)
	}
	want.Images = nil
	if got, err := w.EditPost(t.Context(), "ann", made.ID, feed.PostEdit{Images: &[]feed.Image{}}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("edited %+v, want %+v: %v", got, want, err)
	}
}

func TestIDsOfAnAuthorGrowThoughClocksDiffer(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	ahead := newDomain(config{way: way{
		Store: w.store, Publisher: w.published, Now: w.clock.now, Lifetimes: lifetime.Fixed(timelineTTL), IDs: id.NewGenerator(func() time.Time { return w.clock.now().Add(time.Minute) }),
	}})
	last := ""
	for i := range 10 {
		s := w.domain
		if i%2 == 0 {
			s = ahead
		}
		p, err := s.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}})
		require.NoError(t, err)
		assert.Greaterf(t, p.ID, last, "post %d has the id %s, after %s", i, p.ID, last)
		last = p.ID
		if i%3 == 0 { // a tombstone is a lower bound for ids, too
			require.NoError(t, s.DeletePost(t.Context(), "ann", p.ID))
		}
	}
}

func TestTheIDFloorIsTheNewestDeletedPost(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	behind := newDomain(config{way: way{
		Store: tp.Store, Publisher: w.published, Now: w.clock.now, Lifetimes: lifetime.Fixed(timelineTTL), IDs: id.NewGenerator(func() time.Time { return w.clock.now().Add(-time.Minute) }),
	}})
	posts := []feed.Post{w.post("ann", "1"), w.post("ann", "2"), w.post("ann", "3"), w.post("ann", "4")}
	remove := func(s interface {
		DeletePost(ctx context.Context, user, post string) error
	}, n int) {
		t.Helper()
		require.NoError(t, s.DeletePost(t.Context(), "ann", posts[n].ID))
	}
	meanwhile := true
	tp.set(func(c call) failure {
		if c.op == table.OpTransact && meanwhile { // between the read and the transaction of the deletion of the older post
			meanwhile = false
			remove(behind, 3)
		}
		return works
	})
	remove(w, 2)
	remove(w, 0)
	remove(w, 1)
	w.checkCounts("ann")
	if p, err := behind.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}}); err != nil || p.ID <= posts[3].ID {
		t.Errorf("post %s follows the deleted post %s: %v", p.ID, posts[3].ID, err)
	}
}

// The read finds the newest deleted post, so the deletion sends no useless transaction.
func TestADeletionIsOneTransaction(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	posts := []feed.Post{w.post("ann", "1"), w.post("ann", "2"), w.post("ann", "3")}
	for _, n := range []int{1, 0, 2} {
		tp.take()
		require.NoError(t, w.DeletePost(t.Context(), "ann", posts[n].ID))
		var writes []table.Op
		for _, c := range tp.take() {
			if isWrite(c) {
				writes = append(writes, c.op)
			}
		}
		assert.Equal(t, []table.Op{table.OpTransact}, writes, "post %d", n)
	}
}

func TestDeletedPostsLeaveTheListAndNeverComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := tapped(t)
		w.users("ann")
		living := w.post("ann", "living")
		for range 30 {
			require.NoError(t, w.DeletePost(t.Context(), "ann", w.post("ann", "deleted").ID))
		}
		check := func() {
			t.Helper()
			w.checkCounts("ann")
			items := w.partition(schema.PostsPK("ann"))
			assert.Lenf(t, items, 1, "the list has %d items", len(items))
			got := wholeList(t, tp, 1, 1, 1, func(in page.Request) (page.List[feed.Post], error) {
				return w.PostsByUser(t.Context(), access.Viewer{}, "ann", feed.PostRange{}, in)
			})
			wantSame(t, 1, postTexts(got), []string{living.Text})
		}
		check()
		var events []*messages.PostCreated
		for _, e := range w.published.take() {
			if e, ok := e.(*messages.PostCreated); ok && e.PostID != living.ID {
				events = append(events, e)
			}
		}
		again := func(want bool) {
			t.Helper()
			began := time.Now()
			for i, e := range events {
				e.LikeShards = i % 2 // with 0, the event is like an event of another producer
				ref, err := w.EnsurePost(t.Context(), e)
				if _, refused := errors.AsType[*messages.PermanentError](err); refused == want || want && (err != nil || !ref.Deleted) {
					t.Fatal(ref, err)
				}
			}
			assert.LessOrEqual(t, time.Since(began), time.Duration(0), "the messages of deleted posts held up a worker for")
			check()
		}
		again(true)
		w.clock.add(messages.MaxAge - time.Second) // the last moment at which a message is applied
		again(true)
		w.clock.add(timelineTTL + 30*24*time.Hour) // now the tombstones have expired
		_, err := w.Delivery(t.Context(), "ann", events[0].PostID)
		wantKind(t, err, fault.NotFound)
		again(false)
	})
}

// TestADeletionAsksForThePurgeOnce makes the queue fail, and then the table. The queue does not delay
// a deletion. The event is sent if the deletion happened or may have happened, even if its caller has
// left. If another call deleted the post, this call sends no event.
func TestADeletionAsksForThePurgeOnce(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	first, second, third := w.post("ann", "1"), w.post("ann", "2"), w.post("ann", "3")
	w.published.take()
	w.published.failWith(errors.New("queue down"))
	require.NoError(t, w.DeletePost(t.Context(), "ann", first.ID))
	w.published.failWith(nil)
	leaving, leave := context.WithCancel(t.Context())
	tp.set(func(c call) failure {
		if c.op == table.OpTransact {
			assert.Empty(t, w.published.take(), "before the transaction")
			leave()
		}
		return works
	})
	wantKind(t, w.DeletePost(leaving, "ann", third.ID), fault.Unavailable)
	if events := w.published.take(); assert.Len(t, events, 1) {
		assert.Equal(t, third.ID, events[0].(*messages.PostDeleted).PostID)
	}
	tp.set(func(c call) failure {
		if c.op == table.OpTransact {
			return answerLost
		}
		return works
	})
	wantKind(t, w.DeletePost(t.Context(), "ann", second.ID), fault.Unavailable)
	if events := w.published.take(); len(events) != 1 || events[0].(*messages.PostDeleted).PostID != second.ID {
		t.Errorf("published %+v", events)
	}
	tp.set(nil)
	wantKind(t, w.DeletePost(t.Context(), "ann", second.ID), fault.NotFound)
	assert.Empty(t, w.published.take(), "a post that is gone")
}

// Workers that remove one user at the same time request each purge once.
func TestWorkersThatDeleteTheSamePostsAskForEachPurgeOnce(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	const posts, workers = 12, 8
	for i := range posts {
		w.post("ann", strconv.Itoa(i))
	}
	event, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	w.published.take()
	var forgetting sync.WaitGroup
	for range workers {
		forgetting.Go(func() {
			_, err := w.Forget(t.Context(), "ann", event, 1000)
			assert.NoError(t, err)
		})
	}
	forgetting.Wait()
	asked := map[string]int{}
	for _, e := range w.published.take() {
		if deleted, ok := e.(*messages.PostDeleted); ok {
			asked[deleted.PostID]++
		}
	}
	assert.Len(t, asked, posts)
	for post, n := range asked {
		assert.Equal(t, 1, n, post)
	}
}

// TestAFastProcessPoisonsNoAuthor posts through a process whose clock is ten minutes ahead. Processes
// with right clocks refuse the author's next posts until that post is due, because the ids of the next
// posts would be ahead, too.
func TestAFastProcessPoisonsNoAuthor(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	fastNow := func() time.Time { return w.clock.now().Add(10 * time.Minute) }
	fast := newDomain(config{way: way{Store: w.store, Publisher: w.published, Now: fastNow, Lifetimes: lifetime.Fixed(timelineTTL), IDs: id.NewGenerator(fastNow)}})
	first, err := fast.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "fast"}})
	require.NoError(t, err)
	event, isPost := w.published.take()[0].(*messages.PostCreated)
	require.True(t, isPost, "no PostCreated was published")
	if _, err := w.EnsurePost(t.Context(), event); err != nil {
		if early, ok := errors.AsType[*messages.EarlyError](err); !ok || early.Wait > 5*time.Minute {
			t.Errorf("a healthy worker answers %v, want that it waits for 5 minutes at most", err)
		}
	}
	for w.clock.now().Add(messages.MaxAhead).Before(first.CreatedAt) {
		_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "refused"}, IdempotencyKey: "key"})
		if refused, ok := errors.AsType[*fault.Error](err); !ok || refused.Kind != fault.Unavailable || refused.RetryAfter <= 0 || refused.RetryAfter > time.Minute {
			t.Fatalf("a healthy process answers %v, want unavailable for a minute at most", err)
		}
		require.Empty(t, w.published.take(), "a refused post was published")
		w.post("bob", "another author")
		w.published.take()
		w.clock.add(time.Minute)
	}
	second, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "healthy"}, IdempotencyKey: "key"})
	if err != nil || second.ID <= first.ID {
		t.Errorf("the post %s follows %s, %v", second.ID, first.ID, err)
	}
	for _, e := range append(w.published.take(), event) {
		assert.NoError(t, messages.CheckAge(e, w.clock.now()))
	}
}

func TestPostsByUserInARangeOfTime(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	midnight := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	var ids []string
	for _, at := range []time.Time{midnight.Add(-time.Millisecond), midnight, midnight.Add(12 * time.Hour), midnight.Add(24*time.Hour - time.Millisecond), midnight.Add(24 * time.Hour)} {
		w.clock.add(at.Sub(w.clock.now()))
		p, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}})
		require.NoError(t, err)
		ids = append(ids, p.ID)
	}
	require.NoError(t, w.DeletePost(t.Context(), "ann", ids[2]))
	for name, c := range map[string]struct {
		in   feed.PostRange
		want []string
	}{
		"all":               {feed.PostRange{}, []string{ids[4], ids[3], ids[1], ids[0]}},
		"a day":             {feed.PostRange{Since: midnight, Until: midnight.AddDate(0, 0, 1)}, []string{ids[3], ids[1]}},
		"since":             {feed.PostRange{Since: midnight}, []string{ids[4], ids[3], ids[1]}},
		"since a bit later": {feed.PostRange{Since: midnight.Add(time.Microsecond)}, []string{ids[4], ids[3]}},
		"until":             {feed.PostRange{Until: midnight}, []string{ids[0]}},
		"until a bit later": {feed.PostRange{Until: midnight.Add(time.Microsecond)}, []string{ids[1], ids[0]}},
		"nothing":           {feed.PostRange{Since: midnight.AddDate(1, 0, 0)}, nil},
		"before ids":        {feed.PostRange{Until: time.UnixMilli(-5)}, nil},
		"after ids":         {feed.PostRange{Since: time.UnixMilli(1 << 60)}, nil},
	} {
		for _, limit := range []int{1, 2, 100} {
			var got []string
			for _, p := range list(t, limit, func(in page.Request) (page.List[feed.Post], error) {
				return w.PostsByUser(t.Context(), access.Viewer{}, "ann", c.in, in)
			}) {
				got = append(got, p.ID)
			}
			assert.Truef(t, slices.Equal(got, c.want), "%s, limit %d: %q, want %q", name, limit, got, c.want)
		}
	}
}

func TestOneKeyIsOnePost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := tapped(t)
		w.users("ann", "bob")
		in := feed.PostInput{Content: feed.Content{Text: "x"}, IdempotencyKey: "key"}
		var mu sync.Mutex
		ids := map[string]bool{}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				p, err := w.CreatePost(t.Context(), "ann", in)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				ids[p.ID] = true
			})
		}
		wg.Wait()
		assert.Len(t, ids, 1)
		w.checkCounts("ann")
		other, err := w.CreatePost(t.Context(), "bob", in)
		assert.NoErrorf(t, err, "another user's key: %+v", other)
		assert.Falsef(t, ids[other.ID], "another user's key: %+v, %v", other, err)
		w.published.take()
		first, err := w.CreatePost(t.Context(), "ann", in)
		if err != nil || !ids[first.ID] || len(w.published.take()) > 0 {
			t.Errorf("again: %+v, %v", first, err)
		}
		for _, body := range []feed.PostInput{{Content: feed.Content{Text: "y"}}, {Content: feed.Content{Text: "x", Images: []feed.Image{{URL: "http://e.com"}}}}} {
			body.IdempotencyKey = "key"
			_, err := w.CreatePost(t.Context(), "ann", body)
			wantKind(t, err, fault.Invalid)
		}
		require.NoError(t, w.DeletePost(t.Context(), "ann", first.ID))
		w.published.take()
		deleted, err := w.CreatePost(t.Context(), "ann", in)
		if err != nil || !cmp.Equal(deleted, first) || len(w.published.take()) > 0 {
			t.Errorf("after the deletion: %+v, %v, want %+v", deleted, err, first)
		}
		w.clock.add(24 * time.Hour)
		next, err := w.CreatePost(t.Context(), "ann", in)
		assert.NoError(t, err)
		assert.NotEqual(t, first.ID, next.ID, "after a day")
		w.checkCounts("ann", "bob")
	})
}

func TestARefusedBodyDoesNotBindItsKey(t *testing.T) {
	w := newWorld(t)
	_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}, IdempotencyKey: "key"})
	wantKind(t, err, fault.ProfileMissing)
	w.users("ann")
	_, err = w.CreatePost(t.Context(), "ann", feed.PostInput{IdempotencyKey: "key"})
	wantKind(t, err, fault.Invalid)
	_, err = w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "y"}, IdempotencyKey: "key"})
	assert.NoError(t, err)
}

func TestARepeatKeepsTheLikeShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *config) { c.FollowersPerLikeShard = 1 })
		w.users("ann", "bob")
		w.published.failWith(errors.New("queue down"))
		in := feed.PostInput{Content: feed.Content{Text: "x"}, IdempotencyKey: "key"}
		_, err := w.CreatePost(t.Context(), "ann", in)
		wantKind(t, err, fault.Unavailable)
		w.published.failWith(nil)
		w.follow("bob", "ann")
		w.published.take()
		_, err = w.CreatePost(t.Context(), "ann", in)
		require.NoError(t, err)
		e := w.published.take()[0].(*messages.PostCreated)
		assert.Equalf(t, 1, e.LikeShards, "published %+v, want one shard as the first time", e)
	})
}

func TestEnsurePostHealsAndKeepsTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := tapped(t)
		w.users("ann", "bob")
		tp.set(func(c call) failure {
			if c.op == table.OpTransact {
				return lost
			}
			return works
		})
		p := w.post("ann", "x")
		tp.set(nil)
		wantKind(t, func() error { _, err := w.Post(t.Context(), access.Viewer{}, p.ID); return err }(), fault.NotFound)
		e := w.published.take()[0].(*messages.PostCreated)
		for range 2 {
			if ref, err := w.EnsurePost(t.Context(), e); ref.Deleted || err != nil {
				t.Fatal(ref, err)
			}
			if got, err := w.Post(t.Context(), access.Viewer{}, p.ID); err != nil || !cmp.Equal(got, p) {
				t.Fatalf("%+v, want %+v: %v", got, p, err)
			}
			w.homes("ann", "x")
			w.checkCounts("ann")
		}
		require.NoError(t, w.DeletePost(t.Context(), "ann", p.ID))
		if ref, err := w.EnsurePost(t.Context(), e); !ref.Deleted || err != nil {
			t.Fatal(ref, err)
		}
		w.checkCounts("ann")
	})
}

func TestEnsurePostLooksBeforeItWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := tapped(t)
		w.users("ann")
		tp.set(func(c call) failure {
			if c.op == table.OpTransact {
				return lost
			}
			return works
		})
		w.post("ann", "x")
		e := w.published.take()[0].(*messages.PostCreated)
		tp.take()
		began := time.Now()
		var wrote time.Duration
		tp.set(func(c call) failure {
			if c.op == table.OpTransact {
				wrote = time.Since(began)
			}
			return works
		})
		_, err := w.EnsurePost(t.Context(), e)
		require.NoError(t, err)
		assert.Equal(t, 200*time.Millisecond, wrote, "it wrote after")
	})
}

func TestAWorkerWaitsForThePostAboutAsLongAsItsTransactionTakes(t *testing.T) {
	for _, tt := range []struct {
		local        bool
		takes, waits time.Duration
	}{
		{true, 500 * time.Microsecond, time.Millisecond},
		{true, 2 * time.Millisecond, 3 * time.Millisecond},
		{false, 10 * time.Millisecond, 12500 * time.Microsecond},
		{false, 20 * time.Millisecond, 37500 * time.Microsecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(c *config) { c.Local = tt.local })
			w.users("ann")
			post, err := id.NewGenerator(w.clock.now).New()
			require.NoError(t, err)
			e := &messages.PostCreated{PostID: post, AuthorID: "ann", Content: messages.Content{Text: "x"}, LikeShards: 1}
			var api sync.WaitGroup
			defer api.Wait()
			began := time.Now()
			api.Go(func() {
				<-time.After(tt.takes) // in virtual time
				_, err := w.store.Put(t.Context(), table.PutInput{
					Item: schema.Post{ID: e.PostID, Author: e.AuthorID, Content: schema.Content{Text: e.Text}, LikeShards: 1}.Item(),
				})
				assert.NoError(t, err)
			})
			_, err = w.EnsurePost(t.Context(), e)
			require.NoError(t, err)
			assert.Equalf(t, tt.waits, time.Since(began), "%+v", tt)
		})
	}
}

func TestPostsOfOtherProducersWaitForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const posts = 64
		w, tp := tapped(t)
		tp.latency = 5 * time.Millisecond
		ids := id.NewGenerator(w.clock.now)
		began := time.Now()
		for i := range posts {
			post, err := ids.New()
			require.NoError(t, err)
			e := &messages.PostCreated{PostID: post, AuthorID: fmt.Sprintf("author%d", i), Content: messages.Content{Text: "from elsewhere"}}
			for range 2 { // the message of the post may be redelivered
				tp.take()
				if ref, err := w.EnsurePost(t.Context(), e); err != nil || ref.Deleted {
					t.Fatal(ref, err)
				}
				calls := tp.take()
				assert.LessOrEqualf(t, len(calls), 2, "post %d took %d calls: %v", i, len(calls), calls)
			}
		}
		// Workers run one after another, so only the table's answers take time.
		assert.LessOrEqualf(t, time.Since(began), posts*2*2*tp.latency, "%d posts, each sent twice", posts)
		tp.latency = 0
		w.homes("author63", "from elsewhere")
	})
}

// TestAPostWithoutLikeShardsMeetsTheAPIsOwnWrite sends the event of a post while the API is writing
// the post. The event has the form of another producer's events.
func TestAPostWithoutLikeShardsMeetsTheAPIsOwnWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *config) { c.FollowersPerLikeShard = 1 })
		w.users("ann", "bob", "cid")
		w.follow("bob", "ann")
		w.published.take()
		p := w.post("ann", "x")
		e := w.published.take()[0].(*messages.PostCreated)
		w.follow("cid", "ann")
		e.LikeShards = 0
		ref, err := w.EnsurePost(t.Context(), e)
		if err != nil || ref.Deleted || ref.LikeShards != 2 {
			t.Errorf("%+v, %v: want the stored post with its 2 shards", ref, err)
		}
		w.checkCounts("ann")
		require.NoError(t, w.DeletePost(t.Context(), "ann", p.ID))
		if ref, err := w.EnsurePost(t.Context(), e); err != nil || !ref.Deleted {
			t.Errorf("%+v, %v: want the tombstone", ref, err)
		}
		w.checkCounts("ann")
	})
}

func TestPostsOfOtherProducersGetTheirAuthorsLikeShards(t *testing.T) {
	w := newWorld(t, func(c *config) { c.FollowersPerLikeShard = 2 })
	w.users("ann", "u1", "u2", "u3", "u4")
	for i := range 4 {
		w.follow(fmt.Sprintf("u%d", i+1), "ann")
	}
	w.published.take()
	post, err := id.NewGenerator(w.clock.now).New()
	require.NoError(t, err)
	e := &messages.PostCreated{PostID: post, AuthorID: "ann", Content: messages.Content{Text: "x"}}
	ref, err := w.EnsurePost(t.Context(), e)
	assert.NoError(t, err)
	assert.Equal(t, 3, ref.LikeShards, "want 3 shards")
	w.follow("ann", "u1")
	if again, err := w.EnsurePost(t.Context(), e); err != nil || again.LikeShards != 3 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

func TestEnsurePostRefusesEventsThatNoRetryMends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.users("ann", "bob")
		p := w.post("ann", "x")
		next := func(at time.Time) string {
			made, err := id.NewGenerator(func() time.Time { return at }).New()
			require.NoError(t, err)
			return made
		}
		now := w.clock.now()
		for name, e := range map[string]*messages.PostCreated{
			"another author's id": {PostID: p.ID, AuthorID: "bob", Content: messages.Content{Text: "x"}},
			"no text":             {PostID: next(now), AuthorID: "bob"},
			"a bad image":         {PostID: next(now), AuthorID: "bob", Content: messages.Content{Text: "x", Images: []feed.Image{{URL: "x"}}}},
			"an id of the future": {PostID: next(now.Add(25 * time.Hour)), AuthorID: "bob", Content: messages.Content{Text: "x"}},
			"an id of the past":   {PostID: next(now.Add(-31 * 24 * time.Hour)), AuthorID: "bob", Content: messages.Content{Text: "x"}},
		} {
			_, err := w.EnsurePost(t.Context(), e)
			assert.ErrorAs(t, err, new(*messages.PermanentError), name)
		}
		w.checkCounts("ann", "bob")
		foreign := &messages.PostCreated{PostID: next(now), AuthorID: "newcomer", Content: messages.Content{Text: "from elsewhere"}}
		_, err := w.EnsurePost(t.Context(), foreign)
		require.NoError(t, err)
		w.homes("newcomer", "from elsewhere")
	})
}

func TestLikeShardsGrowWithTheFollowers(t *testing.T) {
	w := newWorld(t, func(c *config) { c.FollowersPerLikeShard = 2 })
	w.users("ann", "u1", "u2", "u3", "u4")
	for i, want := range []int{1, 1, 2, 2, 3} {
		if i > 0 {
			w.follow(fmt.Sprintf("u%d", i), "ann")
		}
		w.published.take()
		w.post("ann", "x")
		e := w.published.take()[0].(*messages.PostCreated)
		assert.Equalf(t, want, e.LikeShards, "%d followers: %d shards", i, e.LikeShards)
	}
}

func TestAPostIsCountedOnceHoweverOftenItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		posted := 0
		w := newWorld(t, func(c *config) { c.Posted = func() { posted++ } })
		w.users("ann")
		send := func(key string, fails bool, want int) {
			t.Helper()
			_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}, IdempotencyKey: key})
			if (err != nil) != fails || posted != want {
				t.Errorf("key %q: %v, %d posts are counted, want %d", key, err, posted, want)
			}
		}
		for range 3 {
			send("key", false, 1)
		}
		send("", false, 2)
		send("", false, 3)
		w.published.failWith(errors.New("queue down"))
		send("other", true, 3)
		w.published.failWith(nil)
		send("other", false, 4)
		send("other", false, 4)
	})
}
