package feed_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// meter adds up the units of a table's calls.
type meter struct {
	mu    sync.Mutex
	units table.Units
}

func (m *meter) onto(c *config) {
	c.Store = table.Measure(c.Store, func(_ table.Op, u table.Units, _ error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.units = m.units.Plus(u)
	})
}

// of returns the read units of the calls in do.
func (m *meter) of(do func()) float64 {
	before := m.read()
	do()
	return m.read() - before
}

func (m *meter) read() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.units.Read
}

// page reads the first page of viewer's home.
func (w *world) page(viewer string, limit int) []feed.HomeItem {
	w.t.Helper()
	l, err := w.Home(w.t.Context(), viewer, home.Query{}, page.Request{Limit: limit})
	require.NoError(w.t, err)
	return l.Items
}

// The page has 20 posts by 20 authors, and the viewer likes all these posts. Other kinds of reaction
// cost a page no further unit.
func TestAHomePageReadsOwnLikesByOneQuery(t *testing.T) {
	const (
		timeline, posts, others = 2, 20, 10 // timeline includes the marks, and others are the counts at half price
		query, byKey            = 0.5, 10
	)
	for _, c := range []struct {
		index bool
		kinds []string
		want  float64
	}{
		{index: true, want: timeline + posts + others + query},
		{index: true, kinds: []string{"love", "wow"}, want: timeline + posts + others + query},
		{index: false, want: timeline + posts + others + byKey},
	} {
		var m meter
		s := newSample(t, newClock(), m.onto, func(cfg *config) { cfg.LikesByUser, cfg.Reactions = c.index, c.kinds })
		liked := 0
		got := m.of(func() {
			for _, item := range s.page("viewer", 20) {
				if item.Liked {
					liked++
				}
			}
		})
		assert.Equal(t, c.want, got, "index %v: read units", c.index)
		assert.Equal(t, 20, liked, "index %v", c.index)
	}
}

// The viewer has liked every second post of the page, and ten posts of a stranger for each post of the
// page. The query ends after three likes for each post of the page, and the remaining likes of the
// page are read by key.
func TestOwnLikesOfAViewerWhoLikesVeryMuch(t *testing.T) {
	for _, c := range []struct {
		index bool
		limit int
		likes float64 // in read units
	}{
		{true, 20, 1.5 + 7},
		{true, 2, 0.5 + 0.5},
		{true, 1, 0.5},
		{false, 20, 10},
	} {
		t.Run(fmt.Sprintf("page of %d, index %v", c.limit, c.index), func(t *testing.T) {
			var m meter
			w := newWorld(t, m.onto, func(cfg *config) { cfg.LikesByUser = c.index })
			names := w.crowd("viewer", 21, 0)
			w.users("stranger")
			want := map[string]bool{}
			for i, name := range names {
				p := w.post(name, name)
				if want[p.ID] = i%2 == 0; want[p.ID] {
					require.NoError(t, w.Like(t.Context(), "viewer", p.ID))
				}
				for range 10 {
					require.NoError(t, w.Like(t.Context(), "viewer", w.post("stranger", "x").ID))
				}
			}
			w.deliver()
			w.clock.add(2 * time.Minute) // no mark is left
			var items []feed.HomeItem
			got := m.of(func() { items = w.page("viewer", c.limit) })
			require.Len(t, items, c.limit)
			for _, item := range items {
				assert.Equal(t, want[item.Post.ID], item.Liked, item.Post.Text)
			}
			n := float64(c.limit)
			assert.Equal(t, 2+n+n/2+c.likes, got, "read units: timeline, posts, counts, own likes")
		})
	}
}

const likeWindow = time.Second

func sharing(c *config) { c.LikeWindow = likeWindow }

// A process shares names for a minute, and counts for half of the like window. Posts of the last day
// contain the names of their authors.
func TestHomePagesCostLessInAProcessThatIsWarm(t *testing.T) {
	const (
		entries, marks, posts, ownLikes = 1, 1, 20 * 1, 0.5
		page                            = entries + marks + posts + ownLikes // 22.5
		names, counts                   = 20 * 0.5, 20 * 0.5
	)
	var m meter
	s := newSample(t, newClock(), m.onto, sharing)
	for _, step := range []struct {
		passes time.Duration
		want   float64
		state  string
	}{
		{0, page + counts, "the process knows nothing"},
		{0, page, "it knows counts"},
		{likeWindow / 2, page + counts, "it knows nothing any more"},
		{schema.BylineShown, page + names + counts, "the posts are old, and the process knows nothing"},
		{0, page, "it knows names and counts"},
		{likeWindow / 2, page + counts, "it knows names"},
		{likeWindow/2 - 1, page, "it knows names and counts"},
		{time.Minute, page + names + counts, "it knows nothing any more"},
	} {
		s.clock.add(step.passes)
		got := m.of(func() { require.Len(t, s.page("viewer", 20), 20) })
		assert.Equal(t, step.want, got, step.state)
	}
}

func TestHomeReadsAtTheSameTimeShareOneReadOfNamesAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := tapped(t, sharing)
		w.crowd("viewer", 5, 20)
		tp.take()
		tp.latency = time.Second
		read := func() int {
			var readers sync.WaitGroup
			for range 50 {
				readers.Go(func() { assert.Len(t, w.page("viewer", 20), 20) })
			}
			readers.Wait()
			reads := 0
			for _, call := range tp.take() {
				if call.op == table.OpBatchGet && !call.consistent {
					reads++
				}
			}
			return reads
		}
		assert.Equal(t, 1, read())
		assert.Equal(t, 0, read())
		tp.set(func(c call) failure {
			if c.op == table.OpBatchGet && !c.consistent {
				return lost
			}
			return works
		})
		w.clock.add(time.Minute)
		_, err := w.Home(t.Context(), "viewer", home.Query{}, page.Request{})
		assert.Error(t, err)
		tp.set(nil)
		tp.take()
		assert.Equal(t, 1, read(), "a read that failed is not kept")
	})
}

func TestSharedNamesAndCountsAreReadAnewInTime(t *testing.T) {
	w := newWorld(t, sharing)
	w.crowd("viewer", 1, 1)
	w.clock.add(schema.BylineShown + 2*time.Hour) // the post no longer shows the name
	other := newWorldAt(t, w.clock, sharing, func(c *config) { c.Store = w.store })
	shown := func(w *world) string {
		item := w.page("viewer", 20)[0]
		return fmt.Sprintf("%s %d", item.Author.Name, item.LikeCount)
	}
	post := w.page("viewer", 20)[0].Post
	assert.Equal(t, "Name of author0000 0", shown(other))
	_, err := w.PutProfile(t.Context(), post.AuthorID, feed.ProfileInput{Name: "New"})
	require.NoError(t, err)
	w.addLikes(post.ID, 3)
	assert.Equal(t, "New 0", shown(w), "the process that took the change shows it at once")
	w.clock.add(likeWindow / 2)
	assert.Equal(t, "New 3", shown(w))
	assert.Equal(t, "Name of author0000 3", shown(other))
	w.clock.add(time.Minute - likeWindow/2)
	assert.Equal(t, "New 3", shown(other))
	w.addLikes(post.ID, 1)
	w.clock.add(-time.Hour)
	assert.Equal(t, "New 4", shown(other), "a clock that was set back makes nothing live longer")
}
