package feed_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// kept returns the byline that a post keeps.
func (w *world) kept(author, post string) schema.Byline {
	w.t.Helper()
	res, err := w.store.Get(w.t.Context(), table.GetInput{Key: schema.PostKey(author, post), Consistent: true})
	require.NoError(w.t, err)
	p, err := schema.ParsePost(*res.Item)
	require.NoError(w.t, err)
	return p.Byline
}

// profile returns the stored profile of user.
func (w *world) profile(user string) schema.Profile {
	w.t.Helper()
	res, err := w.store.Get(w.t.Context(), table.GetInput{Key: schema.ProfileKey(user), Consistent: true})
	require.NoError(w.t, err)
	p, err := schema.ParseProfile(*res.Item)
	require.NoError(w.t, err)
	return p
}

func TestAPostKeepsTheNameAndImageOfItsAuthor(t *testing.T) {
	const image = "https://img.example/ann.png"
	for name, c := range map[string]struct {
		in   feed.ProfileInput
		want schema.Byline
	}{
		"both":     {feed.ProfileInput{Name: unusual, ImageURL: image}, schema.Byline{Name: unusual, ImageURL: image}},
		"a name":   {feed.ProfileInput{Name: "Ann"}, schema.Byline{Name: "Ann"}},
		"too long": {feed.ProfileInput{Name: "Ann", ImageURL: image + strings.Repeat("x", 400)}, schema.Byline{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.PutProfile(t.Context(), "ann", c.in)
			require.NoError(t, err)
			c.want.V = w.profile("ann").V
			made := w.post("ann", "x")
			assert.Equal(t, c.want, w.kept("ann", made.ID))
			other := w.ids(1)[0]
			post, err := w.EnsurePost(t.Context(), &messages.PostCreated{
				Header: messages.Header{EventID: other, Time: w.clock.now()}, PostID: other, AuthorID: "ann", Content: messages.Content{Text: "of another producer"},
			})
			require.NoError(t, err)
			assert.Equal(t, c.want, post.Byline)
			assert.Equal(t, c.want, w.kept("ann", other))
			text := "edited"
			_, err = w.EditPost(t.Context(), "ann", made.ID, feed.PostEdit{Text: &text})
			require.NoError(t, err)
			assert.Equal(t, c.want, w.kept("ann", made.ID), "an edit leaves it")
			for _, item := range w.page("ann", 20) {
				assert.Equal(t, feed.HomeAuthor{ID: "ann", Name: c.in.Name, ImageURL: c.in.ImageURL}, item.Author)
			}
		})
	}
}

// If another write made the post, a worker does not know the byline of the post.
func TestTheBylineOfAPostThatAnotherWriteMadeIsNotKnown(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	made := w.ids(1)[0]
	e := &messages.PostCreated{Header: messages.Header{EventID: made, Time: w.clock.now()}, PostID: made, AuthorID: "ann", Content: messages.Content{Text: "x"}}
	for _, want := range []schema.Byline{w.profile("ann").Byline(), {}} {
		post, err := w.EnsurePost(t.Context(), e)
		require.NoError(t, err)
		assert.Equal(t, want, post.Byline)
	}
}

func TestAChangeOfANameOrImageIsSentBeforeItIsMade(t *testing.T) {
	w := newWorld(t)
	_, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Ann"})
	require.NoError(t, err)
	assert.Empty(t, w.published.take(), "there is no post yet")
	last := w.profile("ann").V
	for _, step := range []struct {
		in      feed.ProfileInput
		changes bool
	}{
		{feed.ProfileInput{Name: "Ann"}, false},
		{feed.ProfileInput{Name: "Ann", Bio: "Trumpets."}, false},
		{feed.ProfileInput{Name: "Anna", Bio: "Trumpets."}, true},
		{feed.ProfileInput{Name: "Anna", ImageURL: "https://img.example/ann.png"}, true},
		{feed.ProfileInput{Name: "Ann"}, true},
	} {
		if step.changes {
			w.published.failWith(errors.New("queue down"))
			_, err := w.PutProfile(t.Context(), "ann", step.in)
			wantKind(t, err, fault.Unavailable)
			assert.Equal(t, last, w.profile("ann").V, "nothing was changed")
			w.published.failWith(nil)
		}
		w.clock.add(-time.Minute) // versions grow even if the clock is set back
		_, err := w.PutProfile(t.Context(), "ann", step.in)
		require.NoError(t, err)
		events, p := w.published.take(), w.profile("ann")
		shown := feed.ProfileInput{Name: p.Name, Bio: p.Bio, ImageURL: p.ImageURL}
		assert.Equal(t, step.in, shown)
		if !step.changes {
			assert.Empty(t, events)
			assert.Equal(t, last, p.V)
			continue
		}
		require.Len(t, events, 1)
		e, ok := events[0].(*messages.ProfileChanged)
		require.True(t, ok, "%T", events[0])
		assert.Equal(t, messages.ProfileChanged{Header: e.Header, UserID: "ann", V: p.V}, *e)
		assert.Greater(t, p.V, last)
		last = p.V
	}
}

// Posts that are older than the removal may keep the previous name.
func TestAUserWhoComesBackTellsTheNewName(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	w.post("ann", "x")
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	w.published.take()
	w.clock.add(time.Minute)
	_, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Back"})
	require.NoError(t, err)
	events := w.published.take()
	require.Len(t, events, 1)
	e, ok := events[0].(*messages.ProfileChanged)
	require.True(t, ok, "%T", events[0])
	assert.Equal(t, w.profile("ann").V, e.V)
}

// Each attempt sends an event.
func TestAChangeThatIsOvertakenAgainAndAgainEnds(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	v := w.profile("ann").V
	tp.set(func(c call) failure {
		if c.op == table.OpPut && c.key == schema.ProfileKey("ann") {
			v += 1000
			_, err := tp.Store.Put(t.Context(), table.PutInput{Item: schema.Profile{User: "ann", Name: "Other", V: v}.Item()})
			require.NoError(t, err)
		}
		return works
	})
	w.published.take()
	_, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Mine"})
	wantKind(t, err, fault.Unavailable)
	assert.Len(t, w.published.take(), 3)
}

// If an API stopped before it stored a post, a worker stores the post with the byline that the API
// would have stored.
func TestAPostThatAWorkerMakesKeepsAByline(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	made := w.ids(1)[0]
	post, err := w.EnsurePost(t.Context(), &messages.PostCreated{
		Header: messages.Header{EventID: made, Time: w.clock.now()}, PostID: made, AuthorID: "ann", Content: messages.Content{Text: "x"}, LikeShards: 3,
	})
	require.NoError(t, err)
	assert.Equal(t, 3, post.LikeShards)
	assert.Equal(t, w.profile("ann").Byline(), post.Byline)
	assert.Equal(t, post.Byline, w.kept("ann", made))
}

// Two calls change one profile at the same time, and one of the calls is repeated. Each name has a
// different version.
func TestNoTwoNamesHaveOneVersion(t *testing.T) {
	for name, before := range map[string]func(*world){
		"a profile of the api":  func(w *world) { w.users("ann") },
		"a profile of a repair": func(w *world) { w.put(schema.Profile{User: "ann", Name: "Ann", CreatedAt: w.clock.now()}.Item()) },
	} {
		t.Run(name, func(t *testing.T) {
			w, tp := tapped(t)
			before(w)
			var other int64
			tp.set(func(c call) failure {
				if c.op == table.OpPut && c.key == schema.ProfileKey("ann") && other == 0 {
					other = w.clock.now().UnixMilli() + 1
					_, err := tp.Store.Put(t.Context(), table.PutInput{Item: schema.Profile{User: "ann", Name: "Other", V: other}.Item()})
					require.NoError(t, err)
				}
				return works
			})
			w.clock.add(time.Millisecond)
			_, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Mine"})
			require.NoError(t, err)
			tp.set(nil)
			p := w.profile("ann")
			assert.Equal(t, "Mine", p.Name)
			assert.Greater(t, p.V, other)
		})
	}
}

// The profile is read in a separate round trip, because only the post shows whether the post has a
// byline.
func TestAuthorsOfPostsWithoutABylineAreReadAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := tapped(t, sharing)
		w.crowd("viewer", 20, 20)
		for _, item := range w.page("viewer", 20) {
			w.put(schema.Post{ID: item.Post.ID, Author: item.Author.ID, Content: schema.Content{Text: "without a byline"}, LikeShards: 1}.Item())
		}
		tp.latency = time.Second
		for _, trips := range []time.Duration{3 * time.Second, 2 * time.Second} { // the second time, the authors are known
			began := time.Now()
			items := w.page("viewer", 20)
			assert.Equal(t, trips, time.Since(began))
			require.Len(t, items, 20)
			for _, item := range items {
				assert.Equal(t, "Name of "+item.Author.ID, item.Author.Name)
			}
		}
	})
}

func TestAHomeShowsTheNewerOfBylineAndKnownProfile(t *testing.T) {
	w := newWorld(t, sharing)
	w.users("ann")
	post := w.post("ann", "x")
	name := func() string { return w.page("ann", 20)[0].Author.Name }
	assert.Equal(t, "Name of ann", name())
	_, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Of this process"})
	require.NoError(t, err)
	assert.Equal(t, "Of this process", name(), "before a worker brought it to the post")
	newer := schema.Byline{Name: "Of another process", V: w.profile("ann").V + 1}
	w.put(schema.Post{ID: post.ID, Author: "ann", Content: schema.Content{Text: "x"}, LikeShards: 1, Byline: newer}.Item())
	assert.Equal(t, "Of another process", name(), "though this process remembers an older one")
	w.clock.add(schema.BylineShown + time.Millisecond)
	assert.Equal(t, "Of this process", name(), "the post is too old to tell")
}

// In a process that remembers authors, a new post has the present name of its author.
func TestAKnownAuthorsPostsKeepThePresentName(t *testing.T) {
	w, _, _ := knowing(t)
	w.users("ann")
	for _, name := range []string{"first", "second"} {
		_, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: name})
		require.NoError(t, err)
		for range 2 {
			assert.Equal(t, name, w.kept("ann", w.post("ann", "x").ID).Name)
		}
	}
}
