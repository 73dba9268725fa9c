package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

func lines(items []feed.HomeItem) []string {
	var all []string
	for _, it := range items {
		line := it.Post.Text
		if it.Of != nil && it.Post.RepostOf != "" {
			line = it.Post.AuthorID + ">" + it.Of.Post.Text
		}
		all = append(all, line)
	}
	return all
}

func (w *world) lines(viewer string, want ...string) {
	w.t.Helper()
	for _, pull := range []bool{false, true} {
		for _, limit := range []int{1, 2, 3, 100} {
			if got := lines(w.home(viewer, limit, home.Query{Pull: pull})); !slices.Equal(got, want) {
				w.t.Errorf("home of %s (pull %v, limit %d): %q, want %q", viewer, pull, limit, got, want)
			}
		}
	}
}

func (w *world) repost(user, post string) feed.Post {
	w.t.Helper()
	w.clock.add(time.Millisecond)
	p, err := w.Repost(w.t.Context(), user, post)
	require.NoError(w.t, err)
	return p
}

func (w *world) endRepost(user, post string) {
	w.t.Helper()
	require.NoError(w.t, w.EndRepost(w.t.Context(), user, post))
}

func TestAPostShowsOnce(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid", "dan", "eve", "fay")
	for _, f := range [][2]string{{"ann", "dan"}, {"ann", "bob"}, {"ann", "cid"}, {"fay", "bob"}} {
		w.follow(f[0], f[1])
	}
	w.deliver()
	w.clock.add(2 * time.Minute) // the marks have ended
	p := w.post("dan", "p")
	w.post("dan", "q")
	first := w.repost("bob", p.ID)
	require.Equal(t, first.ID, w.repost("bob", p.ID).ID, "a second click makes no second repost")
	w.deliver()
	w.lines("ann", "bob>p", "q")  // both the author and the reposter are followed
	w.lines("fay", "bob>p")       // only the reposter
	w.lines("eve", []string{}...) // neither
	w.lines("bob", "bob>p")
	w.follow("eve", "bob") // the mark merges the repost in, and the backfill copies it
	w.lines("eve", "bob>p")
	w.deliver()
	w.clock.add(2 * time.Minute)
	w.lines("eve", "bob>p")
	w.post("cid", "c")
	r2 := w.repost("cid", first.ID) // a repost of a repost is one of the original
	require.Equal(t, p.ID, r2.RepostOf)
	w.deliver()
	w.lines("ann", "cid>p", "c", "q")
	w.endRepost("cid", p.ID)
	w.lines("ann", "c", "bob>p", "q")
	require.NoError(t, w.Mute(t.Context(), "ann", "bob"))
	w.lines("ann", "c", "q", "p")
	require.NoError(t, w.Unmute(t.Context(), "ann", "bob"))
	require.NoError(t, w.Unfollow(t.Context(), "ann", "bob"))
	w.lines("ann", "c", "q", "p")
	w.follow("ann", "bob")
	w.lines("ann", "c", "bob>p", "q")
	require.NoError(t, w.Mute(t.Context(), "ann", "dan")) // a mute hides the author's posts whoever reposts them
	w.lines("ann", "c")
	require.NoError(t, w.Unmute(t.Context(), "ann", "dan"))
	require.NoError(t, w.DeletePost(t.Context(), "dan", p.ID))
	w.lines("ann", "c", "q")
	w.lines("fay", []string{}...)
}

// A repost that is published and not written yet ends: no worker writes it later.
// The count has the reposts that live, and each user sees the own repost.
func TestLivingRepostsAreCounted(t *testing.T) {
	e := newWhole(t)
	e.users("ann", "bob", "cid")
	p := e.world.post("ann", "p")
	other := e.world.post("ann", "q")
	shows := func(viewer string, count int64, reposted bool) {
		t.Helper()
		e.rest()
		e.clock.add(2 * time.Minute)
		items, err := e.Hydrate(t.Context(), &page.Budget{}, feed.Viewer{By: access.As(viewer), Kept: true}, []access.Ref{{Post: p.ID, Author: "ann", LikeShards: 1}, {Post: other.ID, Author: "ann", LikeShards: 1}}, nil)
		require.NoError(t, err)
		require.Len(t, items, 2)
		require.Equal(t, count, items[0].RepostCount)
		require.Equal(t, reposted, items[0].Reposted, viewer)
		require.Zero(t, items[1].RepostCount)
		require.False(t, items[1].Reposted)
	}
	shows("bob", 0, false)
	bobs := e.world.repost("bob", p.ID)
	e.world.repost("bob", p.ID)
	shows("bob", 1, true)
	shows("cid", 1, false)
	cids := e.world.repost("cid", p.ID)
	require.NoError(t, e.Like(t.Context(), "bob", p.ID))
	shows("cid", 2, true)
	list, err := e.Reactions(t.Context(), access.Viewer{}, p.ID, "", page.Request{})
	require.NoError(t, err)
	require.Equal(t, []string{"bob"}, []string{list.Items[0].UserID}, "no list of users has reposts")
	require.Len(t, list.Items, 1)
	e.endRepost("bob", p.ID)
	shows("bob", 1, false)
	require.NoError(t, e.DeletePost(t.Context(), "cid", cids.ID))
	shows("cid", 0, false)
	require.NotEqual(t, bobs.ID, e.world.repost("bob", p.ID).ID)
	shows("bob", 1, true)
	items := e.home("bob", 10, home.Query{View: true})
	require.True(t, items[0].Reposted, "a repost has the state of its original")
	require.NoError(t, e.DeleteProfile(t.Context(), "bob"))
	e.forget("bob", e.published.take()[0].Head().EventID, 100)
	shows("cid", 0, false)
}

// halfSeen hides an item: its transaction is not wholly visible yet.
type halfSeen struct {
	table.Store
	hidden table.Key
}

func (s *halfSeen) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if in.Key == s.hidden {
		return table.GetResult{}, nil
	}
	return s.Store.Get(ctx, in)
}

// A deletion that does not see the post, or its mentions, would take neither notifications nor the count back.
func TestADeletionWaitsUntilThePostIsVisible(t *testing.T) {
	store := &halfSeen{Store: tabletest.NewMemory()}
	w := newWorld(t, func(c *config) { c.Store = store })
	w.users("ann", "bob")
	p := w.post("ann", "p")
	r := w.repost("bob", p.ID)
	w.deliver()
	store.hidden = schema.PostKey("bob", r.ID)
	wantKind(t, w.EndRepost(t.Context(), "bob", p.ID), fault.Unavailable)
	wantKind(t, w.DeletePost(t.Context(), "bob", r.ID), fault.Unavailable)
	store.hidden = table.Key{}
	require.NoError(t, w.EndRepost(t.Context(), "bob", p.ID))
}

func TestARepostThatEndsBeforeItIsWrittenStaysAway(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "dan")
	w.follow("ann", "bob")
	w.deliver()
	p := w.post("dan", "p")
	w.deliver()
	r := w.repost("bob", p.ID)
	for _, key := range []table.Key{schema.PostKey("bob", r.ID), schema.PostByIDKey(r.ID)} { // as if the table had failed
		_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: key})
		require.NoError(t, err)
	}
	w.endRepost("bob", p.ID)
	w.deliver()
	w.lines("ann", []string{}...)
	again := w.repost("bob", p.ID)
	require.NotEqual(t, r.ID, again.ID)
	w.deliver()
	w.lines("ann", "bob>p")
}

// A call that died after the binding is finished by the next call, with the same repost.
func TestARepostWhoseCallDiedIsPublishedAgain(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "dan")
	w.follow("ann", "bob")
	p := w.post("dan", "p")
	w.deliver()
	bound, err := id.Named(w.clock.now(), "bound")
	require.NoError(t, err)
	_, err = w.store.Put(t.Context(), table.PutInput{Item: schema.Repost{User: "bob", Of: p.ID, R: bound}.Item()})
	require.NoError(t, err)
	require.Equal(t, bound, w.repost("bob", p.ID).ID)
	w.deliver()
	w.lines("ann", "bob>p")
	require.Equal(t, bound, w.repost("bob", p.ID).ID)
	require.Empty(t, w.published.take(), "a living repost is not published again")
	// A bound repost that is too old for its message is replaced, and gets a tombstone first.
	q := w.post("dan", "q")
	old, err := id.Named(w.clock.now().Add(-40*24*time.Hour), "old")
	require.NoError(t, err)
	_, err = w.store.Put(t.Context(), table.PutInput{Item: schema.Repost{User: "bob", Of: q.ID, R: old}.Item()})
	require.NoError(t, err)
	require.NotEqual(t, old, w.repost("bob", q.ID).ID)
	ref, err := schema.ParsePostRef(*w.get(t, schema.PostByIDKey(old)))
	require.NoError(t, err)
	require.True(t, ref.Deleted)
}

// The clock of the process of the original, and so the ids that it makes, may be ahead: a repost is newer than its original all the same, because a
// home shows the newest reference.
func TestARepostIsNewerThanItsOriginal(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "dan")
	w.follow("ann", "bob")
	w.follow("ann", "dan")
	w.deliver()
	ahead := newDomain(config{way: way{
		Store: w.store, Publisher: w.published, Now: w.clock.now, Lifetimes: lifetime.Fixed(timelineTTL), IDs: id.NewGenerator(func() time.Time { return w.clock.now().Add(time.Minute) }),
	}})
	p, err := ahead.CreatePost(t.Context(), "dan", feed.PostInput{Content: feed.Content{Text: "p"}})
	require.NoError(t, err)
	require.Greater(t, w.repost("bob", p.ID).ID, p.ID)
	w.deliver()
	w.clock.add(3 * time.Minute)
	w.lines("ann", "bob>p")
}

// A repost is refused by name, and so is each act that belongs to the original.
func TestRepostsAreRefusedByName(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "dan")
	refused := func(err error, kind fault.Kind, words string) {
		t.Helper()
		wantKind(t, err, kind)
		require.ErrorContains(t, err, words)
	}
	repost := func(user, post string) error { _, err := w.Repost(t.Context(), user, post); return err }
	quote := func(user, post string) error {
		_, err := w.CreatePost(t.Context(), user, feed.PostInput{Content: feed.Content{Text: "x"}, QuoteOf: post})
		return err
	}
	p, gone, taken := w.post("dan", "p"), w.post("dan", "gone"), w.post("dan", "taken")
	ending, err := w.CreatePost(t.Context(), "dan", feed.PostInput{Content: feed.Content{Text: "short", ExpiresAt: w.clock.now().Add(2 * time.Minute)}})
	require.NoError(t, err)
	r := w.repost("bob", p.ID)
	of := w.repost("bob", ending.ID)
	require.Equal(t, ending.ExpiresAt, of.ExpiresAt, "a repost ends with its original")
	require.NoError(t, w.DeletePost(t.Context(), "dan", gone.ID))
	_, err = w.TakeDown(t.Context(), "moderators", taken.ID, "spam")
	require.NoError(t, err)
	w.clock.add(3 * time.Minute)
	for _, by := range []func(user, post string) error{repost, quote} {
		refused(by("bob", gone.ID), fault.NotFound, "was deleted")
		refused(by("bob", taken.ID), fault.NotFound, "was taken down")
		refused(by("bob", ending.ID), fault.NotFound, "ended at")
		refused(by("bob", id.Min), fault.NotFound, "there is no post")
		refused(by("nobody", p.ID), fault.ProfileMissing, "")
		refused(by("nobody", gone.ID), fault.ProfileMissing, "")
	}
	require.NoError(t, w.Block(t.Context(), "dan", "ann"))
	refused(repost("ann", p.ID), fault.Blocked, "dan")
	refused(repost("ann", r.ID), fault.Blocked, "dan")
	refused(quote("ann", p.ID), fault.Blocked, "dan")
	refused(w.Like(t.Context(), "ann", r.ID), fault.IsRepost, p.ID)
	refused(w.Unlike(t.Context(), "ann", r.ID), fault.IsRepost, p.ID)
	refused(w.Bookmark(t.Context(), "ann", r.ID), fault.IsRepost, p.ID)
	_, err = w.CreateComment(t.Context(), "ann", r.ID, "x")
	refused(err, fault.IsRepost, p.ID)
	_, err = w.EditPost(t.Context(), "bob", r.ID, feed.PostEdit{Text: new("x")})
	refused(err, fault.IsRepost, p.ID)
}

// Blocks, quotes and counts; and a repost that its author deletes as a post.
func TestAHomeHidesWhatItsReaderDoesNotSee(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "dan")
	w.follow("ann", "bob")
	w.deliver()
	w.clock.add(2 * time.Minute)
	p := w.post("dan", "p")
	quote, err := w.CreatePost(t.Context(), "bob", feed.PostInput{Content: feed.Content{Text: "so true"}, QuoteOf: p.ID})
	require.NoError(t, err)
	chain, err := w.CreatePost(t.Context(), "bob", feed.PostInput{Content: feed.Content{Text: "quite"}, QuoteOf: quote.ID})
	require.NoError(t, err)
	r := w.repost("bob", p.ID)
	w.deliver()
	quotes := func(text, of string) {
		t.Helper()
		for _, it := range w.home("ann", 2, home.Query{}) {
			if it.Post.Text == text {
				require.Equal(t, of != "", it.Of != nil)
				require.True(t, it.Of == nil || it.Of.Post.Text == of && it.Of.Of == nil, "a chain of quotes shows one quoted post")
			}
		}
	}
	w.lines("ann", "bob>p", "quite", "so true")
	quotes("so true", "p")
	quotes("quite", "so true")
	require.NoError(t, w.Block(t.Context(), "dan", "ann"))
	w.lines("ann", "quite", "so true")
	quotes("so true", "")
	require.NoError(t, w.Unblock(t.Context(), "dan", "ann"))
	w.lines("ann", "bob>p", "quite", "so true")
	user, err := w.User(t.Context(), "bob")
	require.NoError(t, err)
	require.EqualValues(t, 3, user.Counts.Posts, "a repost counts as a post")
	require.NoError(t, w.DeletePost(t.Context(), "bob", r.ID))
	w.lines("ann", "quite", "so true")
	w.repost("bob", p.ID)
	w.deliver()
	w.lines("ann", "bob>p", "quite", "so true")
	require.NoError(t, w.DeletePost(t.Context(), "bob", quote.ID))
	quotes("quite", "")
	require.NotEmpty(t, chain.QuoteOf)
}

// TestHomesWithRepostsAreExact compares homes by push and by pull with the rule: the newest visible reference of
// each post, whatever happens in whatever order.
func TestHomesWithRepostsAreExact(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t)
			users := []string{"ann", "bob", "cid", "dan"}
			w.users(users...)
			type ref struct {
				id, author, text, of string
			}
			var refs []ref // ascending by id
			authorOf := map[string]string{}
			follows, mutes := map[string]bool{}, map[string]bool{}
			someone := func() string { return users[rnd.IntN(len(users))] }
			check := func(v string) {
				var want []string
				seen := map[string]bool{}
				for _, r := range slices.Backward(refs) {
					if r.author != v && !follows[v+r.author] || mutes[v+r.author] {
						continue
					}
					o := r.id
					if r.of != "" {
						if o = r.of; mutes[v+authorOf[o]] || !slices.ContainsFunc(refs, func(p ref) bool { return p.id == o }) {
							continue
						}
					}
					if seen[o] {
						continue
					}
					seen[o] = true
					if r.of != "" {
						i := slices.IndexFunc(refs, func(p ref) bool { return p.id == o })
						want = append(want, r.author+">"+refs[i].text)
					} else {
						want = append(want, r.text)
					}
				}
				w.lines(v, want...)
			}
			for n := range 60 {
				w.clock.add(time.Second)
				u, v := someone(), someone()
				var plain []ref
				for _, r := range refs {
					if r.of == "" {
						plain = append(plain, r)
					}
				}
				switch k := rnd.IntN(12); {
				case k < 3:
					p := w.post(u, fmt.Sprint("t", n))
					authorOf[p.ID] = u
					refs = append(refs, ref{p.ID, u, p.Text, ""})
				case k < 7 && len(plain) > 0:
					p := plain[rnd.IntN(len(plain))]
					r := w.repost(u, p.id)
					if !slices.ContainsFunc(refs, func(x ref) bool { return x.id == r.ID }) {
						refs = append(refs, ref{r.ID, u, "", p.id})
					}
				case k == 7 && len(plain) > 0:
					p := plain[rnd.IntN(len(plain))]
					w.endRepost(u, p.id)
					refs = slices.DeleteFunc(refs, func(r ref) bool { return r.author == u && r.of == p.id })
				case k == 8 && len(plain) > 0 && rnd.IntN(3) == 0:
					p := plain[rnd.IntN(len(plain))]
					require.NoError(t, w.DeletePost(t.Context(), p.author, p.id))
					refs = slices.DeleteFunc(refs, func(r ref) bool { return r.id == p.id })
				case k == 9 && u != v:
					if follows[u+v] {
						require.NoError(t, w.Unfollow(t.Context(), u, v))
					} else {
						w.follow(u, v)
					}
					follows[u+v] = !follows[u+v]
				case k == 10 && u != v:
					if mutes[u+v] {
						require.NoError(t, w.Unmute(t.Context(), u, v))
					} else {
						require.NoError(t, w.Mute(t.Context(), u, v))
					}
					mutes[u+v] = !mutes[u+v]
				case k == 11:
					w.clock.add(2 * time.Minute)
				}
				w.deliver()
				check(someone())
			}
			for _, u := range users {
				check(u)
			}
		})
	}
}

// A repost that is too old for its event does not become a dead letter at each walk of an auditor.
func TestAnOldRepostIsNotAskedToCount(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.post("ann", "p")
	r := schema.Post{ID: w.repost("bob", p.ID).ID, Author: "bob", Reference: schema.Reference{RepostOf: p.ID, OfAuthor: "ann", OfShards: 1}}
	w.published.take()
	w.AskToCount(t.Context(), r)
	require.Len(t, w.published.take(), 1)
	w.clock.add(messages.MaxAge + time.Hour)
	w.AskToCount(t.Context(), r)
	require.Empty(t, w.published.take())
}
