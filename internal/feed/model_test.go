package feed_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/fanout"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/table"
	"fanfare/internal/table/embedded"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// model is the reference model of the feed. It keeps its state in the simplest way.
type model struct {
	w *world
	// stale means that eventually consistent reads may return old data.
	stale    bool
	users    []string
	posts    []*modelPost
	follows  map[[2]string]time.Time
	mutes    map[[2]string]time.Time
	blocks   map[[2]string]time.Time
	likes    map[[2]string]time.Time
	comments []*modelComment
	pending  []messages.Event
	// worker is the product's own fan-out worker.
	worker *fanout.Worker
}

type modelPost struct {
	feed.Post
	deleted bool
}

type modelComment struct {
	feed.Comment
	deleted bool
}

// newModel returns a model whose users exist from the start.
func newModel(w *world, stale bool) *model {
	m := &model{
		w: w, stale: stale, users: numbered(5, "user"), follows: map[[2]string]time.Time{}, mutes: map[[2]string]time.Time{}, blocks: map[[2]string]time.Time{}, likes: map[[2]string]time.Time{},
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
func (m *model) anyPost(t *rapid.T) *modelPost {
	if len(m.posts) == 0 {
		m.create(t)
	}
	return rapid.SampledFrom(m.posts).Draw(t, "post")
}

func (m *model) create(t *rapid.T) {
	m.w.clock.add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond)
	author := m.user(t, "author")
	p, err := m.w.CreatePost(m.w.t.Context(), author, feed.PostInput{Content: feed.Content{Text: fmt.Sprintf("%s %d", author, len(m.posts))}})
	answer(t, err, 0)
	m.posts = append(m.posts, &modelPost{Post: p})
}

// answer compares an operation's error with the kind that the model expects.
func answer(t *rapid.T, err error, want fault.Kind) {
	t.Helper()
	if want == 0 {
		require.NoError(t, err)
		return
	}
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != want {
		t.Fatalf("got %v, want the kind %s", err, want)
	}
}

func (m *model) living(p *modelPost, owner string) fault.Kind {
	switch {
	case p.deleted:
		return fault.NotFound
	case owner != "" && owner != p.AuthorID:
		return fault.Forbidden
	}
	return 0
}

func (m *model) actions() map[string]func(*rapid.T) {
	w := m.w
	ctx := w.t.Context()
	return map[string]func(*rapid.T){
		"post": m.create,
		"edit": func(t *rapid.T) {
			p, user, text := m.anyPost(t), m.user(t, "user"), rapid.StringN(1, 20, -1).Draw(t, "text")
			got, err := w.EditPost(ctx, user, p.ID, feed.PostEdit{Text: &text})
			answer(t, err, m.living(p, user))
			if err == nil {
				p.Text, p.EditedAt = text, w.clock.now().UTC().Truncate(time.Millisecond)
				require.Empty(t, gocmp.Diff(p.Post, got))
			}
		},
		"delete": func(t *rapid.T) {
			p, user := m.anyPost(t), m.user(t, "user")
			err := w.DeletePost(ctx, user, p.ID)
			answer(t, err, m.living(p, user))
			p.deleted = p.deleted || err == nil
		},
		"follow": func(t *rapid.T) {
			pair := [2]string{m.user(t, "follower"), m.user(t, "author")}
			if pair[0] == pair[1] {
				answer(t, w.Follow(ctx, pair[0], pair[1]), fault.Invalid)
				return
			}
			err := w.Follow(ctx, pair[0], pair[1])
			answer(t, err, m.between(pair[0], pair[1]))
			if _, followed := m.follows[pair]; err == nil && !followed {
				m.follows[pair] = w.clock.now().UTC().Truncate(time.Millisecond)
			}
		},
		"unfollow": func(t *rapid.T) {
			pair := [2]string{m.user(t, "follower"), m.user(t, "author")}
			if pair[0] == pair[1] {
				answer(t, w.Unfollow(ctx, pair[0], pair[1]), fault.Invalid)
				return
			}
			answer(t, w.Unfollow(ctx, pair[0], pair[1]), 0)
			delete(m.follows, pair)
		},
		"mute": func(t *rapid.T) { m.hide(t, "muted", m.mutes, w.Mute, true) },
		"block": func(t *rapid.T) {
			if pair := m.hide(t, "blocked", m.blocks, w.Block, true); pair[0] != pair[1] {
				delete(m.follows, pair)
				delete(m.follows, [2]string{pair[1], pair[0]})
			}
		},
		"unblock": func(t *rapid.T) { m.hide(t, "unblocked", m.blocks, w.Unblock, false) },
		"unmute":  func(t *rapid.T) { m.hide(t, "unmuted", m.mutes, w.Unmute, false) },
		"comment": func(t *rapid.T) {
			p, user := m.anyPost(t), m.user(t, "user")
			w.clock.add(time.Millisecond)
			c, err := w.CreateComment(ctx, user, p.ID, "comment")
			answer(t, err, cmp.Or(m.living(p, ""), m.between(user, p.AuthorID)))
			if err == nil {
				m.comments = append(m.comments, &modelComment{Comment: c})
			}
		},
		"delete comment": func(t *rapid.T) {
			if len(m.comments) == 0 {
				return
			}
			c, user := rapid.SampledFrom(m.comments).Draw(t, "comment"), m.user(t, "user")
			p := m.post(c.PostID)
			want := m.living(p, "")
			switch {
			case want != 0:
			case c.deleted:
				want = fault.NotFound
			case user != c.AuthorID && user != p.AuthorID:
				want = fault.Forbidden
			}
			err := w.DeleteComment(ctx, user, p.ID, c.ID)
			answer(t, err, want)
			c.deleted = c.deleted || err == nil
		},
		"like": func(t *rapid.T) {
			p, user := m.anyPost(t), m.user(t, "user")
			w.clock.add(time.Millisecond)
			liked := rapid.Bool().Draw(t, "liked")
			act := w.Unlike
			if liked {
				act = w.Like
			}
			want := m.living(p, "")
			if liked {
				want = cmp.Or(want, m.between(user, p.AuthorID))
			}
			err := act(ctx, user, p.ID)
			if !m.stale || want != fault.Blocked || err != nil { // a block refuses likes only after a moment
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
			if err == nil {
				delete(m.likes, [2]string{user, p.ID})
				if liked {
					m.likes[[2]string{user, p.ID}] = w.clock.now().UTC().Truncate(time.Millisecond)
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
			if len(m.posts) > 0 {
				m.checkPost(t, m.anyPost(t), 2)
			}
		},
	}
}

// between returns the kind of error with which a block between two users refuses an action.
func (m *model) between(user, other string) fault.Kind {
	_, blocks := m.blocks[[2]string{user, other}]
	_, blocked := m.blocks[[2]string{other, user}]
	if blocks || blocked {
		return fault.Blocked
	}
	return 0
}

// hide makes or ends a mute or a block, and reports its two users.
func (m *model) hide(t *rapid.T, label string, all map[[2]string]time.Time, act func(ctx context.Context, user, other string) error, makes bool) [2]string {
	pair := [2]string{m.user(t, "user"), m.user(t, label)}
	err := act(m.w.t.Context(), pair[0], pair[1])
	if pair[0] == pair[1] {
		answer(t, err, fault.Invalid)
		return pair
	}
	answer(t, err, 0)
	if _, there := all[pair]; makes && !there {
		all[pair] = m.w.clock.now().UTC().Truncate(time.Millisecond)
	} else if !makes {
		delete(all, pair)
	}
	return pair
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

func (m *model) post(post string) *modelPost {
	i := slices.IndexFunc(m.posts, func(p *modelPost) bool { return p.ID == post })
	return m.posts[i]
}

// homeOf returns the home that viewer must see after all deliveries, newest first.
func (m *model) homeOf(viewer string) []string {
	var want []string
	for _, p := range slices.Backward(m.posts) {
		_, follows := m.follows[[2]string{viewer, p.AuthorID}]
		expired := p.CreatedAt.Add(timelineTTL).Unix() <= m.w.clock.now().Unix()
		_, muted := m.mutes[[2]string{viewer, p.AuthorID}]
		if (follows && !muted || viewer == p.AuthorID) && !p.deleted && !expired {
			want = append(want, p.ID)
		}
	}
	return want
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
	if len(m.posts) > 0 {
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
	for _, p := range m.posts {
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

func (m *model) edges(of func(pair [2]string) (string, bool)) []feed.Edge {
	return edgesOf(m.follows, of)
}

func edgesOf(all map[[2]string]time.Time, of func(pair [2]string) (string, bool)) []feed.Edge {
	edges := []feed.Edge{}
	for pair, since := range all {
		if other, ok := of(pair); ok {
			edges = append(edges, feed.Edge{UserID: other, Since: since})
		}
	}
	sort.Slice(edges, func(i, j int) bool { return edges[i].UserID < edges[j].UserID })
	return edges
}

func (m *model) checkLists(t *rapid.T, user string, limit int) {
	w, ctx := m.w, m.w.t.Context()
	followers := m.edges(func(pair [2]string) (string, bool) { return pair[0], pair[1] == user })
	following := m.edges(func(pair [2]string) (string, bool) { return pair[1], pair[0] == user })
	friends := m.edges(func(pair [2]string) (string, bool) {
		_, back := m.follows[[2]string{pair[1], pair[0]}]
		return pair[1], pair[0] == user && back
	})
	for i, f := range friends {
		if back := m.follows[[2]string{f.UserID, user}]; back.After(f.Since) {
			friends[i].Since = back
		}
	}
	var posts []feed.Post
	for _, p := range slices.Backward(m.posts) {
		if p.AuthorID == user && !p.deleted {
			posts = append(posts, p.Post)
		}
	}
	same(t, "followers", followers, list(w.t, limit, func(in page.Request) (page.List[feed.Edge], error) { return w.Followers(ctx, user, in) }))
	same(t, "following", following, list(w.t, limit, func(in page.Request) (page.List[feed.Edge], error) { return w.Following(ctx, user, in) }))
	same(t, "friends", friends, list(w.t, limit, func(in page.Request) (page.List[feed.Edge], error) { return w.Friends(ctx, user, in) }))
	mutes := edgesOf(m.mutes, func(pair [2]string) (string, bool) { return pair[1], pair[0] == user })
	same(t, "mutes", mutes, list(w.t, limit, func(in page.Request) (page.List[feed.Edge], error) { return w.Mutes(ctx, user, in) }))
	blocks := edgesOf(m.blocks, func(pair [2]string) (string, bool) { return pair[1], pair[0] == user })
	same(t, "blocks", blocks, list(w.t, limit, func(in page.Request) (page.List[feed.Edge], error) { return w.Blocks(ctx, user, in) }))
	same(t, "posts", posts, list(w.t, limit, func(in page.Request) (page.List[feed.Post], error) {
		return w.PostsByUser(ctx, user, feed.PostRange{}, in)
	}))
	u, err := w.User(ctx, user)
	answer(t, err, 0)
	same(t, "counts", feed.Counts{Followers: int64(len(followers)), Following: int64(len(following)), Posts: int64(len(posts))}, u.Counts)
	other := m.user(t, "other")
	r, err := w.Relationship(ctx, user, other)
	answer(t, err, 0)
	_, there := m.follows[[2]string{user, other}]
	_, back := m.follows[[2]string{other, user}]
	same(t, "relationship", feed.Relationship{Following: there, FollowedBy: back, Friends: there && back}, r)
	if m.stale {
		return
	}
	var comments []feed.Comment
	for _, c := range slices.Backward(m.comments) {
		if c.AuthorID == user && !c.deleted && !m.post(c.PostID).deleted {
			comments = append(comments, c.Comment)
		}
	}
	same(t, "comments by user", comments, list(w.t, limit, func(in page.Request) (page.List[feed.Comment], error) { return w.CommentsByUser(ctx, user, in) }))
	var likes []feed.LikedPost
	for _, p := range slices.Backward(m.posts) {
		if at, liked := m.likes[[2]string{user, p.ID}]; liked && !p.deleted {
			likes = append(likes, feed.LikedPost{PostID: p.ID, LikedAt: at, Kind: messages.KindLike})
		}
	}
	same(t, "likes by user", likes, list(w.t, limit, func(in page.Request) (page.List[feed.LikedPost], error) { return w.LikesByUser(ctx, user, in) }))
}

func (m *model) checkPost(t *rapid.T, p *modelPost, limit int) {
	w, ctx := m.w, m.w.t.Context()
	got, err := w.Post(ctx, p.ID)
	answer(t, err, m.living(p, ""))
	if p.deleted {
		_, err := w.Comments(ctx, p.ID, page.Request{})
		answer(t, err, fault.NotFound)
		_, err = w.Likers(ctx, p.ID, page.Request{})
		answer(t, err, fault.NotFound)
		_, err = w.LikeCount(ctx, p.ID)
		answer(t, err, fault.NotFound)
		return
	}
	same(t, "post", p.Post, got)
	var comments []feed.Comment
	for _, c := range m.comments {
		if c.PostID == p.ID && !c.deleted {
			comments = append(comments, c.Comment)
		}
	}
	same(t, "comments", comments, list(w.t, limit, func(in page.Request) (page.List[feed.Comment], error) { return w.Comments(ctx, p.ID, in) }))
	if m.stale {
		return
	}
	var likers []feed.Liker
	for _, user := range m.users {
		at, liked := m.likes[[2]string{user, p.ID}]
		l, err := w.LikeOf(ctx, p.ID, user)
		if !liked {
			answer(t, err, fault.NotFound)
			continue
		}
		answer(t, err, 0)
		same(t, "like", feed.Liker{UserID: user, LikedAt: at, Kind: messages.KindLike}, l)
		likers = append(likers, l)
	}
	same(t, "likers", likers, list(w.t, limit, func(in page.Request) (page.List[feed.Liker], error) { return w.Likers(ctx, p.ID, in) }))
	count, err := w.LikeCount(ctx, p.ID)
	answer(t, err, 0)
	same(t, "like count", int64(len(likers)), count.Count)
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
