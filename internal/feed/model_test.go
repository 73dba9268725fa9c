package feed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/client"
	"fanfare/internal/fanout"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/oracle"
	"fanfare/internal/page"
	"fanfare/internal/table"
	"fanfare/internal/table/embedded"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// model compares the product with the oracle, and adds comments and the TTL of homes.
type model struct {
	*oracle.Feed
	w *world
	// stale means that eventually consistent reads may return old data.
	stale    bool
	users    []string
	made     []*feed.Post // all posts ever made, in order
	comments []*modelComment
	pending  []messages.Event
	// worker is the product's own fan-out worker.
	worker *fanout.Worker
}

type modelComment struct {
	feed.Comment
	deleted bool
}

// newModel returns a model whose users exist from the start.
func newModel(w *world, stale bool) *model {
	m := &model{
		Feed: oracle.New(), w: w, stale: stale, users: numbered(5, "user"),
		worker: fanout.New(fanout.Config{
			Store: w.store, Posts: w.Service, Publisher: w.published, IDs: id.NewGenerator(w.clock.now), Now: w.clock.now, Lifetimes: lifetime.Fixed(timelineTTL),
		}),
	}
	w.users(m.users...)
	return m
}

func (m *model) user(t *rapid.T, label string) string {
	return rapid.SampledFrom(m.users).Draw(t, label)
}

// anyPost draws a post, sometimes a deleted post. If no post exists yet, anyPost makes a post.
func (m *model) anyPost(t *rapid.T) *feed.Post {
	if len(m.made) == 0 {
		m.create(t)
	}
	return rapid.SampledFrom(m.made).Draw(t, "post")
}

func (m *model) create(t *rapid.T) {
	m.w.clock.add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond)
	author := m.user(t, "author")
	p, err := m.w.CreatePost(m.w.t.Context(), author, feed.PostInput{Content: feed.Content{Text: fmt.Sprintf("%s %d", author, len(m.made))}})
	answer(t, err, 0)
	m.made = append(m.made, &p)
	m.Posts[p.ID] = client.Post{ID: p.ID, AuthorID: author, CreatedAt: p.CreatedAt}
}

func (m *model) now() time.Time { return m.w.clock.now().UTC().Truncate(time.Millisecond) }

// answer compares an operation's error with the refusal of the model.
func answer(t *rapid.T, err error, want oracle.Refusal) {
	t.Helper()
	if want == 0 {
		require.NoError(t, err)
		return
	}
	kind := map[oracle.Refusal]fault.Kind{
		oracle.Invalid: fault.Invalid, oracle.NotFound: fault.NotFound, oracle.Forbidden: fault.Forbidden, oracle.Blocked: fault.Blocked,
	}[want]
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != kind {
		t.Fatalf("got %v, want the kind %s", err, kind)
	}
}

func (m *model) actions() map[string]func(*rapid.T) {
	w := m.w
	ctx := w.t.Context()
	user := func(t *rapid.T) string { return m.user(t, "other") }
	post := func(t *rapid.T) string { w.clock.add(time.Millisecond); return m.anyPost(t).ID }
	return map[string]func(*rapid.T){
		"post": m.create,
		"edit": func(t *rapid.T) {
			p, user, text := m.anyPost(t), m.user(t, "user"), rapid.StringN(1, 20, -1).Draw(t, "text")
			got, err := w.EditPost(ctx, user, p.ID, feed.PostEdit{Text: &text})
			answer(t, err, m.ByAuthor(user, p.ID))
			if err == nil {
				p.Text, p.EditedAt = text, m.now()
				require.Empty(t, gocmp.Diff(*p, got))
			}
		},
		"delete": func(t *rapid.T) {
			p, user := m.anyPost(t), m.user(t, "user")
			err := w.DeletePost(ctx, user, p.ID)
			answer(t, err, m.ByAuthor(user, p.ID))
			if err == nil {
				m.Drop(p.ID)
			}
		},
		"follow":          m.edge(user, w.Follow, m.Follow),
		"follow silently": m.edge(user, w.FollowSilently, m.FollowSilently),
		"unfollow":        m.edge(user, w.Unfollow, m.Follows.End),
		"mute":            m.edge(user, w.Mute, m.Mutes.Put),
		"unmute":          m.edge(user, w.Unmute, m.Mutes.End),
		"block":           m.edge(user, w.Block, m.Block),
		"unblock":         m.edge(user, w.Unblock, m.Blocks.End),
		"bookmark":        m.edge(post, w.Bookmark, m.Bookmark),
		"unbookmark":      m.edge(post, w.Unbookmark, m.Bookmarks.End),
		"comment": func(t *rapid.T) {
			p, user := m.anyPost(t), m.user(t, "user")
			w.clock.add(time.Millisecond)
			c, err := w.CreateComment(ctx, user, p.ID, "comment")
			answer(t, err, m.Open(user, p.ID))
			if err == nil {
				m.comments = append(m.comments, &modelComment{Comment: c})
			}
		},
		"delete comment": func(t *rapid.T) {
			if len(m.comments) == 0 {
				return
			}
			c, user := rapid.SampledFrom(m.comments).Draw(t, "comment"), m.user(t, "user")
			want := m.Living(c.PostID)
			switch {
			case want != 0:
			case c.deleted:
				want = oracle.NotFound
			case user != c.AuthorID && user != m.Posts[c.PostID].AuthorID:
				want = oracle.Forbidden
			}
			err := w.DeleteComment(ctx, user, c.PostID, c.ID)
			answer(t, err, want)
			c.deleted = c.deleted || err == nil
		},
		"like": func(t *rapid.T) {
			p, user := m.anyPost(t), m.user(t, "user")
			w.clock.add(time.Millisecond)
			act, kind := w.Unlike, ""
			if rapid.Bool().Draw(t, "liked") {
				act, kind = w.Like, messages.KindLike
			}
			want, err := m.React(user, p.ID, kind, m.now()), act(ctx, user, p.ID)
			if !m.stale || want != oracle.Blocked || err != nil { // a block refuses likes only after a moment
				answer(t, err, want)
			}
			// The aggregator has separate tests, so this model counts each like at once.
			for _, e := range w.published.take() {
				if like, kind, ok := messages.ActionOf(e); ok {
					w.count(*like, kind)
				} else {
					m.pending = append(m.pending, e)
				}
			}
		},
		"deliver one": func(t *rapid.T) {
			m.pending = append(m.pending, w.published.take()...)
			if len(m.pending) == 0 {
				return
			}
			i := rapid.IntRange(0, len(m.pending)-1).Draw(t, "event")
			m.deliver(t, m.pending[i])
			if !rapid.Bool().Draw(t, "again") {
				m.pending = slices.Delete(m.pending, i, i+1)
			}
		},
		"time passes": func(t *rapid.T) {
			w.clock.add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 25 * time.Hour, 8 * 24 * time.Hour}).Draw(t, "by"))
		},
		"": func(t *rapid.T) {
			m.check(t, m.user(t, "viewer"))
			if len(m.made) > 0 {
				m.checkPost(t, m.anyPost(t), 2)
			}
		},
	}
}

// edge makes or ends an edge from a user to another user or a post.
func (m *model) edge(other func(*rapid.T) string, act func(ctx context.Context, user, other string) error, rule func(user, other string, at time.Time) oracle.Refusal) func(*rapid.T) {
	return func(t *rapid.T) {
		user, to := m.user(t, "user"), other(t)
		answer(t, act(m.w.t.Context(), user, to), rule(user, to, m.now()))
	}
}

// deliver gives an event to the worker as the consumer does. deliver refuses events that are too old,
// and drops events that can never succeed.
func (m *model) deliver(t *rapid.T, e messages.Event) {
	if messages.CheckAge(e, m.w.clock.now()) != nil {
		return
	}
	err := m.worker.HandlePosts(m.w.t.Context(), e)
	if _, permanent := errors.AsType[*messages.PermanentError](err); err != nil && !permanent {
		t.Fatal(err)
	}
}

// post returns a post by its id.
func (m *model) post(id string) *feed.Post {
	return m.made[slices.IndexFunc(m.made, func(p *feed.Post) bool { return p.ID == id })]
}

// homeOf returns the home that viewer must see after all deliveries, newest first.
func (m *model) homeOf(viewer string) []string {
	return slices.DeleteFunc(m.Home(viewer), func(id string) bool {
		return m.Posts[id].CreatedAt.Add(timelineTTL).Unix() <= m.w.clock.now().Unix()
	})
}

func homeIDs(items []feed.HomeItem) []string {
	var all []string
	for _, item := range items {
		all = append(all, item.Post.ID)
	}
	return all
}

// check compares the lists that must be correct at any time.
func (m *model) check(t *rapid.T, viewer string) {
	limit := rapid.IntRange(1, 5).Draw(t, "limit")
	want := m.homeOf(viewer)
	got := homeIDs(m.w.home(viewer, limit, home.Query{Pull: true}))
	require.Truef(t, slices.Equal(got, want), "%s's home by pull: %q, want %q", viewer, got, want)
	pushed := homeIDs(m.w.home(viewer, limit, home.Query{}))
	for i, post := range pushed {
		require.Containsf(t, want, post, "%s's home by push shows %s: %q of %q", viewer, post, pushed, want)
		if i > 0 && post >= pushed[i-1] {
			t.Fatalf("%s's home by push is out of order: %q", viewer, pushed)
		}
	}
	if len(m.made) > 0 {
		p := m.anyPost(t)
		all, err := m.w.Explain(m.w.t.Context(), &graveyard{}, viewer, p.ID)
		require.NoError(t, err)
		require.Equalf(t, slices.Contains(pushed, p.ID), all[0].Reason.Shown(), "%s's home by push: %q; %s: %s", viewer, pushed, p.ID, all[0])
		require.NotEqual(t, home.ReasonMissing, all[0].Reason)
	}
	if len(want) > 0 {
		n := rapid.IntRange(0, len(want)-1).Draw(t, "newer")
		query := home.Query{Pull: true, After: want[n]}
		news, err := m.w.HomeNews(m.w.t.Context(), viewer, query, page.Request{Limit: limit})
		require.NoError(t, err)
		require.LessOrEqual(t, news.Unread, n, "an eventually consistent read may miss a post")
		got := homeIDs(m.w.home(viewer, limit, query))
		require.Truef(t, slices.Equal(got, want[:n]), "%s's news by pull: %q, want %q", viewer, got, want[:n])
	}
	m.checkLists(t, viewer, limit)
}

// quiesce delivers all events in any order, and compares the homes by push.
func (m *model) quiesce(t *rapid.T) {
	m.pending = append(m.pending, m.w.published.take()...)
	if len(m.pending) > 0 {
		for _, e := range rapid.Permutation(m.pending).Draw(t, "order") {
			m.deliver(t, e)
		}
	}
	m.pending = nil
	for _, p := range m.made {
		m.checkPost(t, p, 2)
	}
	for range 2 { // once with the marks and once without
		for _, viewer := range m.users {
			m.check(t, viewer)
			got, want := homeIDs(m.w.home(viewer, 3, home.Query{})), m.homeOf(viewer)
			require.Truef(t, slices.Equal(got, want), "%s's home by push: %q, want %q", viewer, got, want)
		}
		m.w.clock.add(2 * time.Minute)
	}
}

func (m *model) checkLists(t *rapid.T, user string, limit int) {
	w, ctx := m.w, m.w.t.Context()
	other := m.user(t, "other")
	viewer := rapid.SampledFrom([]string{user, other}).Draw(t, "viewer")
	for name, c := range map[string]struct {
		want []client.Edge
		read func(context.Context, string, page.Request) (page.List[feed.Edge], error)
	}{
		"followers": {m.Seen("").To(user), w.Followers}, "friends": {m.Friends(user), w.Friends},
		"following": {m.Seen(viewer).From(user), func(ctx context.Context, user string, in page.Request) (page.List[feed.Edge], error) {
			return w.Following(ctx, viewer, user, in)
		}},
		"mutes": {m.Mutes.From(user), w.Mutes}, "blocks": {m.Blocks.From(user), w.Blocks},
	} {
		var got []client.Edge
		for _, e := range list(w.t, limit, func(in page.Request) (page.List[feed.Edge], error) { return c.read(ctx, user, in) }) {
			got = append(got, client.Edge{UserID: e.UserID, Since: e.Since})
		}
		same(t, name, c.want, got)
	}
	var posts []feed.Post
	for _, id := range m.PostsOf(user) {
		posts = append(posts, *m.post(id))
	}
	same(t, "posts", posts, list(w.t, limit, func(in page.Request) (page.List[feed.Post], error) {
		return w.PostsByUser(ctx, access.Viewer{}, user, feed.PostRange{}, in)
	}))
	u, err := w.User(ctx, user)
	answer(t, err, 0)
	same(t, "counts", m.Counts(user), client.Counts(u.Counts))
	r, err := w.Relationship(ctx, viewer, user, other)
	answer(t, err, 0)
	same(t, "relationship", m.Relationship(viewer, user, other), client.Relationship(r))
	if m.stale {
		return
	}
	var bookmarks []client.Bookmark
	for _, b := range list(w.t, limit, func(in page.Request) (page.List[feed.Bookmarked], error) { return w.Bookmarks(ctx, user, in) }) {
		bookmarks = append(bookmarks, client.Bookmark{PostID: b.PostID, BookmarkedAt: b.BookmarkedAt})
	}
	same(t, "bookmarks", m.BookmarksOf(user), bookmarks)
	var comments []feed.Comment
	for _, c := range slices.Backward(m.comments) {
		if c.AuthorID == user && !c.deleted && m.Living(c.PostID) == 0 {
			comments = append(comments, c.Comment)
		}
	}
	same(t, "comments by user", comments, list(w.t, limit, func(in page.Request) (page.List[feed.Comment], error) {
		return w.CommentsByUser(ctx, access.Viewer{}, user, in)
	}))
	var likes []feed.LikedPost
	for _, like := range m.ReactionsBy(user) {
		likes = append(likes, feed.LikedPost{PostID: like.PostID, LikedAt: like.At, Kind: like.Kind})
	}
	same(t, "likes by user", likes, list(w.t, limit, func(in page.Request) (page.List[feed.LikedPost], error) {
		return w.LikesByUser(ctx, access.Viewer{}, user, in)
	}))
}

func (m *model) checkPost(t *rapid.T, p *feed.Post, limit int) {
	w, ctx := m.w, m.w.t.Context()
	got, err := w.Post(ctx, access.Viewer{}, p.ID)
	answer(t, err, m.Living(p.ID))
	if err != nil {
		_, err := w.Comments(ctx, access.Viewer{}, p.ID, page.Request{})
		answer(t, err, oracle.NotFound)
		_, err = w.Likers(ctx, access.Viewer{}, p.ID, page.Request{})
		answer(t, err, oracle.NotFound)
		_, err = w.LikeCount(ctx, access.Viewer{}, p.ID)
		answer(t, err, oracle.NotFound)
		return
	}
	same(t, "post", *p, got)
	var comments []feed.Comment
	for _, c := range m.comments {
		if c.PostID == p.ID && !c.deleted {
			comments = append(comments, c.Comment)
		}
	}
	same(t, "comments", comments, list(w.t, limit, func(in page.Request) (page.List[feed.Comment], error) {
		return w.Comments(ctx, access.Viewer{}, p.ID, in)
	}))
	if m.stale {
		return
	}
	var likers []feed.Liker
	for _, user := range m.users {
		like, liked := m.Reactions[p.ID][user]
		l, err := w.LikeOf(ctx, access.Viewer{}, p.ID, user)
		if !liked {
			answer(t, err, oracle.NotFound)
			continue
		}
		answer(t, err, 0)
		same(t, "like", feed.Liker{UserID: user, LikedAt: like.At, Kind: like.Kind}, l)
		likers = append(likers, l)
	}
	same(t, "likers", likers, list(w.t, limit, func(in page.Request) (page.List[feed.Liker], error) { return w.Likers(ctx, access.Viewer{}, p.ID, in) }))
	count, err := w.LikeCount(ctx, access.Viewer{}, p.ID)
	answer(t, err, 0)
	same(t, "like count", m.ReactionCounts(p.ID)[messages.KindLike], count.Count)
}

func same[T any](t *rapid.T, what string, want, got T) {
	t.Helper()
	require.Emptyf(t, gocmp.Diff(want, got, cmpopts.EquateEmpty()), "%s (-want +got)", what)
}

func TestOperationsInAnyOrderMatchTheModel(t *testing.T) {
	for name, c := range map[string]struct {
		store func(*rapid.T, *clock) (table.Store, func() error)
		stale bool
	}{
		"in memory": {store: func(*rapid.T, *clock) (table.Store, func() error) { return tabletest.NewMemory(), nil }},
		"embedded": {store: func(t *rapid.T, c *clock) (table.Store, func() error) {
			store, err := embedded.Create("data", embedded.Options{FS: vfs.NewMem(), Now: c.now, SweepEvery: -1, MemoryBytes: 4 << 20})
			require.NoError(t, err)
			return store, store.Close
		}},
		"with stale reads": {stale: true, store: func(t *rapid.T, _ *clock) (table.Store, func() error) {
			return tabletest.Stale(tabletest.NewMemory(), rapid.Uint64().Draw(t, "seed")), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				clock := newClock()
				store, end := c.store(rt, clock)
				if end != nil {
					defer func() {
						require.NoError(rt, end())
					}()
				}
				w := newWorldAt(t, clock, func(c *config) { c.FollowersPerLikeShard, c.Store = 1, store })
				m := newModel(w, c.stale)
				rt.Repeat(m.actions())
				m.quiesce(rt)
			})
		})
	}
}
