package feed_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// longAgo is the time of the imported records.
var longAgo = time.Date(2019, 3, 4, 5, 6, 7, 8_000_000, time.UTC)

// eachCallFails makes each call to the table fail in turn, each time in a new world. The operation
// then returns Unavailable, and a repeated operation succeeds.
func eachCallFails(t *testing.T, set func(*world), do func(*world) error, check func(*world), change ...func(*config)) {
	t.Helper()
	for _, f := range []failure{lost, answerLost} {
		for nth, fired := 1, true; fired; nth++ {
			w, tp := tapped(t, change...)
			set(w)
			calls := 0
			tp.set(func(call) failure {
				if calls++; calls == nth {
					return f
				}
				return works
			})
			err := do(w)
			tp.set(nil)
			if fired = calls >= nth; fired {
				wantKind(t, err, fault.Unavailable)
				err = do(w)
			}
			require.NoErrorf(t, err, "after call %d: %s", nth, f)
			check(w)
		}
	}
}

// wantDamage checks that an error names damage of the table. No retry mends such damage.
func wantDamage(t *testing.T, err error) {
	t.Helper()
	require.ErrorAs(t, err, new(*schema.ParseError))
	assert.NotErrorAs(t, err, new(*fault.Error))
}

// onTransact calls do before the first transaction, as a concurrent call of another process.
func onTransact(t *testing.T, change ...func(*config)) (*world, *between) {
	t.Helper()
	store := &between{}
	w := newWorld(t, append(change, func(c *config) { store.Store = c.Store; c.Store = store })...)
	return w, store
}

func TestAnImportNamesTheFaultsOfItsThings(t *testing.T) {
	assert.Empty(t, feed.ProfileInput{Name: "Ann"}.Check())
	assert.Empty(t, feed.PostInput{Content: feed.Content{Text: "a"}}.Check())
	assert.Empty(t, feed.CommentInput{Text: "a"}.Check())
	for field, faults := range map[string][]fault.FieldError{
		"name": feed.ProfileInput{}.Check(), "text": feed.PostInput{}.Check(), "images[0].url": feed.PostInput{Content: feed.Content{Text: "a", Images: []feed.Image{{URL: "x"}}}}.Check(),
	} {
		require.Len(t, faults, 1, field)
		assert.Equal(t, field, faults[0].Field)
		assert.NotEmpty(t, faults[0].Detail)
	}
	require.Len(t, feed.CommentInput{}.Check(), 1)
	assert.Equal(t, "text", feed.CommentInput{}.Check()[0].Field)
}

func TestAnImportedUserWasMadeWhenItSays(t *testing.T) {
	in := feed.ProfileInput{Name: "Ann", Bio: "of long ago", ImageURL: "https://example.com/a.png"}
	want := schema.Profile{User: "ann", Name: in.Name, Bio: in.Bio, ImageURL: in.ImageURL, CreatedAt: longAgo}
	stored := func(w *world) schema.Profile {
		p, err := schema.ParseProfile(*w.item(schema.ProfileKey("ann")))
		require.NoError(t, err)
		return p
	}
	eachCallFails(t, func(*world) {},
		func(w *world) error { return w.ImportUser(t.Context(), "ann", in, longAgo) },
		func(w *world) {
			assert.Equal(t, want, stored(w))
			require.NoError(t, w.ImportUser(t.Context(), "ann", feed.ProfileInput{Name: "Other"}, w.clock.now()))
			assert.Equal(t, want, stored(w), "a user that is there stays as it is")
			assert.Empty(t, w.published.take())
		})
	w := newWorld(t)
	wantKind(t, w.ImportUser(t.Context(), "ann", feed.ProfileInput{}, longAgo), fault.Invalid)
	assert.Nil(t, w.item(schema.ProfileKey("ann")))
}

func TestAnImportedUserWhoIsMadeMeanwhileStaysAsItIs(t *testing.T) {
	w, tp := tapped(t)
	other := schema.Profile{User: "ann", Name: "Other", CreatedAt: w.clock.now()}.Item()
	tp.set(func(c call) failure {
		if c.op == table.OpTransact {
			_, err := tp.Store.Put(t.Context(), table.PutInput{Item: other})
			require.NoError(t, err)
		}
		return works
	})
	require.NoError(t, w.ImportUser(t.Context(), "ann", feed.ProfileInput{Name: "Ann"}, longAgo))
	tp.set(nil)
	assert.Equal(t, &other, w.item(other.Key))
}

// The edges have the time and the first post of the import. The follow is pending until its posts have
// been copied.
func TestAnImportedFollowIsPendingUntilItsPostsAreCopied(t *testing.T) {
	from := id.Floor(longAgo)
	eachCallFails(t, func(w *world) { w.users("ann", "bob") },
		func(w *world) error {
			pending, err := w.ImportFollow(t.Context(), feed.PastFollow{Follower: "ann", Author: "bob", From: from, Since: longAgo})
			assert.True(t, err != nil || pending)
			return err
		},
		func(w *world) {
			for _, key := range []table.Key{schema.FollowingKey("ann", "bob"), schema.FollowerKey("bob", "ann")} {
				edge, err := schema.ParseEdge(*w.item(key))
				require.NoError(t, err)
				assert.Equal(t, longAgo, edge.Since)
			}
			assert.Equal(t, from, w.item(schema.FollowingKey("ann", "bob")).Str(schema.AttrFrom))
			w.checkCounts("ann", "bob")
			assert.Empty(t, w.published.take(), "an import publishes nothing")
			w.importedAgain(from)
		})
}

// importedAgain imports bob's follow by ann again, with each possible home mark of the follow.
func (w *world) importedAgain(from string) {
	w.t.Helper()
	mark, err := schema.ParseMark(*w.item(schema.MarkKey("ann", "bob")))
	require.NoError(w.t, err)
	assert.Equal(w.t, schema.Mark{User: "ann", Author: "bob", Kind: schema.MarkBackfill, From: from, Pull: from, Version: mark.Version}, mark)
	copied, pulled := mark, mark
	copied.Until = w.clock.now().Add(time.Minute).Truncate(time.Second)
	pulled.Kind, pulled.V = schema.MarkPulled, 1
	again := func(want bool, state string) {
		w.t.Helper()
		pending, err := w.ImportFollow(w.t.Context(), feed.PastFollow{Follower: "ann", Author: "bob", From: id.Min, Since: w.clock.now()})
		require.NoError(w.t, err)
		assert.Equal(w.t, want, pending, state)
		assert.Equal(w.t, from, w.item(schema.FollowingKey("ann", "bob")).Str(schema.AttrFrom), "it stays as it is")
	}
	again(true, "nothing is copied")
	w.put(copied.Item())
	again(false, "all is copied")
	w.put(pulled.Item())
	again(false, "homes merge the author in")
	_, err = w.store.Delete(w.t.Context(), table.DeleteInput{Key: schema.MarkKey("ann", "bob")})
	require.NoError(w.t, err)
	again(false, "the mark has expired")
}

func TestRefusedImportsOfFollows(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	for _, c := range []struct {
		follower, author string
		kind             fault.Kind
	}{{"ann", "ann", fault.Invalid}, {"ann", "nobody", fault.NotFound}, {"new", "ann", fault.ProfileMissing}} {
		pending, err := w.ImportFollow(t.Context(), feed.PastFollow{Follower: c.follower, Author: c.author, From: id.Min, Since: longAgo})
		wantKind(t, err, c.kind)
		assert.False(t, pending && c.kind == fault.Invalid)
	}
	assert.Empty(t, w.partition(schema.FollowingPK("ann")))
}

// The follow is made, or ended, between the read and the transaction of an import.
func TestAnImportOfAFollowThatChangesMeanwhileLooksAgain(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world, process *domain) error{
		"follow": follows("ann", "bob"),
		"follow and unfollow": func(w *world, process *domain) error {
			require.NoError(t, process.Follow(t.Context(), "ann", "bob"))
			return process.Unfollow(t.Context(), "ann", "bob")
		},
	} {
		w, store := onTransact(t)
		w.users("ann", "bob")
		process := w.with().domain
		store.do = func() { require.NoError(t, meanwhile(w, process)) }
		pending, err := w.ImportFollow(t.Context(), feed.PastFollow{Follower: "ann", Author: "bob", From: id.Min, Since: longAgo})
		require.NoError(t, err, name)
		assert.True(t, pending, name)
		w.checkCounts("ann", "bob")
		r, err := w.Relationship(t.Context(), "ann", "ann", "bob")
		require.NoError(t, err)
		assert.True(t, r.Following, name)
	}
}

func TestImportedMutesAndBlocksHaveTheirTime(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid")
	w.follow("cid", "ann")
	for range 2 {
		require.NoError(t, w.ImportMute(t.Context(), "ann", "bob", longAgo))
		require.NoError(t, w.ImportBlock(t.Context(), "ann", "cid", longAgo))
	}
	mutes, err := w.Mutes(t.Context(), "ann", page.Request{})
	require.NoError(t, err)
	assert.Equal(t, []feed.Edge{{UserID: "bob", Since: longAgo}}, mutes.Items)
	blocks, err := w.Blocks(t.Context(), "ann", page.Request{})
	require.NoError(t, err)
	assert.Equal(t, []feed.Edge{{UserID: "cid", Since: longAgo}}, blocks.Items)
	w.checkCounts("ann", "bob", "cid")
}

func TestAnImportedPostIsStoredAsItWas(t *testing.T) {
	in := schema.Post{ID: id.Floor(longAgo), Author: "ann", Content: schema.Content{Text: "old", Images: []feed.Image{{URL: "https://example.com/a.png"}}}, EditedAt: longAgo.Add(time.Hour)}
	want := feed.Post{ID: in.ID, AuthorID: "ann", Content: feed.Content{Text: in.Text, Images: in.Images}, CreatedAt: longAgo, EditedAt: in.EditedAt}
	ref := schema.PostRef{ID: in.ID, Author: "ann", LikeShards: 2}
	eachCallFails(t,
		func(w *world) {
			w.users("ann", "bob", "cid")
			w.follow("bob", "ann")
			w.follow("cid", "ann")
			w.published.take()
		},
		func(w *world) error {
			got, err := w.ImportPost(t.Context(), in)
			if err == nil {
				assert.Equal(t, ref, got)
			}
			return err
		},
		func(w *world) {
			other := in
			other.Text = "another text"
			got, err := w.ImportPost(t.Context(), other)
			require.NoError(t, err)
			assert.Equal(t, ref, got)
			post, err := w.Post(t.Context(), access.Viewer{}, in.ID)
			require.NoError(t, err)
			assert.Equal(t, want, post, "a post that is there stays as it is")
			w.checkCounts("ann", "bob", "cid")
			assert.Empty(t, w.published.take(), "an import publishes nothing")
		}, func(c *config) { c.FollowersPerLikeShard = 2 })
}

// An entry expires in the second in which its post becomes too old for homes.
func TestAnImportedPostHasAnEntryWhileHomesShowIt(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	oldest := w.clock.now().Add(time.Second - timelineTTL)
	for age, entries := range map[time.Time]int{oldest: 1, oldest.Add(-time.Millisecond): 0} {
		made := id.Floor(age)
		_, err := w.ImportPost(t.Context(), schema.Post{ID: made, Author: "ann", Content: schema.Content{Text: fmt.Sprint(entries)}})
		require.NoError(t, err)
		items, _, err := table.Collect(w.store.Query(t.Context(), table.Query{PK: schema.TimelinePK("ann")}), 0)
		require.NoError(t, err)
		found := 0
		for _, it := range items {
			if strings.HasPrefix(it.Key.SK, schema.PostSK(made)) {
				found++
			}
		}
		assert.Equal(t, entries, found, age)
	}
}

func TestRefusedImportsOfPosts(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	try := func(in schema.Post) error {
		_, err := w.ImportPost(t.Context(), in)
		return err
	}
	own := w.post("bob", "his")
	in := schema.Post{ID: id.Floor(longAgo), Author: "ann"}
	wantKind(t, try(in), fault.Invalid)
	in.Text, in.Author = "a text", "new"
	wantKind(t, try(in), fault.ProfileMissing)
	in.Author, in.ID = "ann", own.ID
	require.EqualError(t, try(in), fmt.Sprintf("post %s of ann: the id belongs to a post of bob", own.ID))
	w.checkCounts("ann", "bob")

	require.NoError(t, w.DeletePost(t.Context(), "bob", own.ID))
	in.Author = "bob"
	ref, err := w.ImportPost(t.Context(), in)
	require.NoError(t, err)
	assert.True(t, ref.Deleted, "a deleted post stays one")
	w.checkCounts("bob")

	in.ID = id.Floor(longAgo)
	w.put(table.Item{Key: schema.PostByIDKey(in.ID)})
	wantDamage(t, try(in))
}

func TestAnImportedCommentIsStoredAsItWas(t *testing.T) {
	var p feed.Post
	made := id.Floor(longAgo)
	want := schema.Comment{ID: made, Author: "ann", Text: "a word"}
	eachCallFails(t,
		func(w *world) { w.users("ann", "bob"); p = w.post("bob", "x"); w.published.take() },
		func(w *world) error {
			return w.ImportComment(t.Context(), feed.Comment{ID: made, PostID: p.ID, AuthorID: "ann", Text: "a word"})
		},
		func(w *world) {
			require.NoError(t, w.ImportComment(t.Context(), feed.Comment{ID: made, PostID: p.ID, AuthorID: "ann", Text: "another one"}))
			want.Post = p.ID
			stored := want.Item()
			assert.Equal(t, &stored, w.item(stored.Key), "a comment that is there stays as it is")
			assert.Equal(t, int64(1), w.comments(p.ID))
			assert.Empty(t, w.published.take(), "an import publishes nothing")
		})
}

func TestImportsOfCommentsThatHaveNoPlace(t *testing.T) {
	w, store := onTransact(t)
	w.users("ann", "bob")
	kept, gone := w.post("bob", "x"), w.post("bob", "y")
	c := feed.Comment{ID: id.Floor(longAgo), PostID: kept.ID, AuthorID: "ann"}
	wantKind(t, w.ImportComment(t.Context(), c), fault.Invalid)
	c.Text, c.PostID = "a word", id.Floor(longAgo)
	wantKind(t, w.ImportComment(t.Context(), c), fault.NotFound)

	c.PostID = kept.ID // another import makes the comment between the read and the transaction
	process := w.with().domain
	store.do = func() { require.NoError(t, process.ImportComment(t.Context(), c)) }
	require.NoError(t, w.ImportComment(t.Context(), c))
	assert.Equal(t, int64(1), w.comments(kept.ID))

	c.PostID = gone.ID // between the read and the transaction, the post's author deletes the post
	store.do = func() { require.NoError(t, process.DeletePost(t.Context(), "bob", gone.ID)) }
	require.NoError(t, w.ImportComment(t.Context(), c))
	require.NoError(t, w.ImportComment(t.Context(), c))
	assert.Empty(t, w.partition(schema.CommentsPK(gone.ID)))
	w.checkCounts("bob")
}
