package fanout_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

var (
	older   = schema.Byline{Name: "Older", ImageURL: "https://img.example/older.png", V: 1}
	present = schema.Byline{Name: "Present", V: 5}
	newer   = schema.Byline{Name: "Newer", V: 9}
)

// named stores the author's profile with a byline.
func (w *world) named(b schema.Byline) {
	w.Helper()
	_, err := w.mem.Put(w.Context(), table.PutInput{Item: schema.Profile{User: author, Name: b.Name, ImageURL: b.ImageURL, V: b.V}.Item()})
	w.must(err)
}

// signed stores a post of an age with a byline.
func (w *world) signed(age time.Duration, b schema.Byline) string {
	w.Helper()
	post := id.Floor(w.now.Add(-age))
	_, err := w.mem.Put(w.Context(), table.PutInput{Item: schema.Post{ID: post, Author: author, Content: schema.Content{Text: "x"}, LikeShards: 1, Byline: b}.Item()})
	w.must(err)
	return post
}

// byline returns the byline of a post, and reports whether the post is there.
func (w *world) byline(post string) (schema.Byline, bool) {
	w.Helper()
	res, err := w.mem.Get(w.Context(), table.GetInput{Key: schema.PostKey(author, post), Consistent: true})
	w.must(err)
	if res.Item == nil {
		return schema.Byline{}, false
	}
	p, err := schema.ParsePost(*res.Item)
	w.must(err)
	require.Equal(w, "x", p.Text)
	return p.Byline, true
}

func (w *world) changed(v int64) *messages.ProfileChanged {
	return &messages.ProfileChanged{Header: w.header(), UserID: author, V: v}
}

func TestAChangedNameReachesRecentPosts(t *testing.T) {
	for name, c := range map[string]struct {
		age        time.Duration
		kept, want schema.Byline
	}{
		"a post of now":            {time.Second, older, present},
		"the oldest that shows it": {schema.BylineShown, older, present},
		"a clock that is behind":   {schema.BylineShown + 23*time.Hour, older, present},
		"an old post":              {2*schema.BylineShown + time.Second, older, older},
		"without a byline":         {time.Second, schema.Byline{}, schema.Byline{}},
		"of a profile without one": {time.Second, schema.Byline{Name: "Older"}, present},
		"as new":                   {time.Second, present, present},
		"newer":                    {time.Second, newer, newer},
		"too long before":          {time.Second, schema.Byline{V: 1}, present},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0)
			w.named(present)
			post := w.signed(c.age, c.kept)
			require.NoError(t, w.worker.HandleBackfills(t.Context(), w.changed(present.V)))
			got, _ := w.byline(post)
			assert.Equal(t, c.want, got)
			assert.Empty(t, w.queued)
		})
	}
}

func TestATooLongNameEndsTheBylinesOfPosts(t *testing.T) {
	w := newWorld(t, 0)
	w.named(schema.Byline{Name: "Long", ImageURL: "https://img.example/" + strings.Repeat("x", 400), V: 5})
	post := w.signed(time.Second, older)
	require.NoError(t, w.worker.HandleBackfills(t.Context(), w.changed(5)))
	got, _ := w.byline(post)
	assert.Equal(t, schema.Byline{V: 5}, got)
}

// The event is sent before the change. The worker waits for the change, at most for a day.
func TestAChangeThatIsNotMadeYetIsWaitedFor(t *testing.T) {
	w := newWorld(t, 0)
	w.named(older)
	post := w.signed(0, schema.Byline{Name: "Of before", V: 0})
	e := w.changed(present.V)
	sent := w.now
	for _, passed := range []time.Duration{0, time.Hour, schema.BylineShown - time.Second, -time.Minute} {
		w.now = sent.Add(passed)
		err := w.worker.HandleBackfills(t.Context(), e)
		later, ok := errors.AsType[*queue.Later](err)
		require.True(t, ok, "%v", err)
		assert.Negative(t, later.After, "the delay grows with the receives")
	}
	w.now = sent.Add(3 * time.Hour)
	w.named(present)
	require.NoError(t, w.worker.HandleBackfills(t.Context(), e))
	got, _ := w.byline(post)
	assert.Equal(t, present, got)

	never := w.changed(newer.V)
	w.now = w.now.Add(schema.BylineShown)
	require.NoError(t, w.worker.HandleBackfills(t.Context(), never), "it was never made")
}

// Many changes of one user cost one walk. If a newer change has replaced a change, the older change, or the
// rest of its walk, costs only the read of the profile.
func TestAChangeThatWasOvertakenWalksNoPosts(t *testing.T) {
	w := newWorld(t, 0, small) // 12 posts a message
	w.named(present)
	posts := make([]string, 24)
	for i := range posts {
		posts[i] = w.signed(time.Duration(i)*time.Second, older)
	}
	require.NoError(t, w.worker.HandleBackfills(t.Context(), w.changed(present.V)))
	rest := w.take()
	require.NotNil(t, rest)
	w.named(newer)
	before := w.units
	for _, e := range []messages.Event{w.changed(present.V), rest} {
		require.NoError(t, w.worker.HandleBackfills(t.Context(), e))
	}
	assert.Equal(t, table.Units{Read: 2}, table.Units{Read: w.units.Read - before.Read, Write: w.units.Write - before.Write})
	assert.Empty(t, w.queued)
	require.NoError(t, w.worker.HandleBackfills(t.Context(), w.changed(newer.V)))
	got, _ := w.byline(posts[0])
	assert.Equal(t, newer, got)
}

func TestAChangeOfManyPostsGoesOnWithAnotherMessage(t *testing.T) {
	for name, c := range map[string]struct {
		posts  int
		rounds int // the maximum
		option func(*fanout.Config)
	}{
		"many to change": {1203, 3, func(*fanout.Config) {}},
		"many pages":     {60, 5, small}, // 12 posts a message
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0, c.option)
			w.named(present)
			posts := make([]string, c.posts)
			for i := range posts {
				posts[i] = w.signed(time.Duration(i)*time.Second, older)
			}
			w.enqueue(w.changed(present.V))
			rounds := 0
			for e := w.take(); e != nil; e = w.take() {
				require.NoError(t, w.worker.HandleBackfills(t.Context(), e))
				rounds++
			}
			assert.Equal(t, c.rounds, rounds)
			for _, post := range posts {
				got, _ := w.byline(post)
				require.Equal(t, present, got)
			}
		})
	}
}

// Between the read and the write of a change, a post is deleted, and another worker writes a newer byline.
func TestAChangeMeetsOtherWrites(t *testing.T) {
	w := newWorld(t, 0)
	w.named(present)
	deleted, raised := w.signed(time.Second, older), w.signed(2*time.Second, older)
	once := false
	w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
		if op == table.OpUpdate && !once {
			once = true
			w.deletePost(deleted)
			w.signed(2*time.Second, newer)
		}
		return do()
	}
	require.NoError(t, w.worker.HandleBackfills(t.Context(), w.changed(present.V)))
	_, there := w.byline(deleted)
	assert.False(t, there)
	got, _ := w.byline(raised)
	assert.Equal(t, newer, got)
}

func TestAForgottenUsersBylinesAreLeftAlone(t *testing.T) {
	w := newWorld(t, 0)
	post := w.signed(time.Second, older)
	require.NoError(t, w.worker.HandleBackfills(t.Context(), w.changed(present.V)))
	got, _ := w.byline(post)
	assert.Equal(t, older, got)
}

// knows is a Posts that always finds a post.
type knows struct {
	*world
	post schema.Post
}

func (k knows) EnsurePost(context.Context, *messages.PostCreated) (schema.Post, error) {
	return k.post, nil
}

// The profile changed after the API had read it, and the walk over the posts ended before the new post was
// stored.
func TestANewPostIsComparedWithTheProfile(t *testing.T) {
	for name, c := range map[string]struct {
		kept, profile, want schema.Byline
		units               float64 // in addition to the units without a profile
	}{
		"older":               {older, present, present, 1},
		"as new":              {present, present, present, 0},
		"newer":               {newer, present, newer, 0},
		"forgotten meanwhile": {older, schema.Byline{}, older, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			post := w.signed(time.Second, c.kept)
			_, err := w.mem.Put(t.Context(), table.PutInput{Item: schema.PostRef{ID: post, Author: author, LikeShards: 1}.Item()})
			require.NoError(t, err)
			if c.profile != (schema.Byline{}) {
				w.named(c.profile)
			}
			worker := w.newWorker(func(cfg *fanout.Config) {
				cfg.Posts = knows{w, schema.Post{ID: post, Author: author, LikeShards: 1, Byline: c.kept}}
			})
			before := w.units
			require.NoError(t, worker.HandlePosts(t.Context(), &messages.PostCreated{Header: w.header(), PostID: post, AuthorID: author, Content: messages.Content{Text: "x"}}))
			const plain = 5 // the plan, the chunk and three entries
			assert.Equal(t, plain+c.units, w.units.Write-before.Write)
			got, _ := w.byline(post)
			assert.Equal(t, c.want, got)
		})
	}
}

// changes stores posts. Just before a post is stored with the previous byline, the profile changes.
type changes struct{ *world }

func (c changes) EnsurePost(_ context.Context, e *messages.PostCreated) (schema.Post, error) {
	c.named(newer)
	post := schema.Post{ID: e.PostID, Author: author, Content: schema.Content{Text: e.Text}, LikeShards: 1, Byline: present}
	_, err := c.mem.Put(c.Context(), table.PutInput{Item: post.Item()})
	return post, err
}

func TestANewPostIsComparedWithAProfileReadAfterIt(t *testing.T) {
	w := newWorld(t, 3)
	w.named(present)
	e := w.post()
	e.Text = "x"
	require.NoError(t, w.newWorker(func(cfg *fanout.Config) { cfg.Posts = changes{w} }).HandlePosts(t.Context(), e))
	got, _ := w.byline(e.PostID)
	assert.Equal(t, newer, got)
}
