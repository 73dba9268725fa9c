package feed_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/table"
)

// meter adds up the units of a table's calls.
type meter struct {
	mu    sync.Mutex
	units table.Units
}

func (m *meter) onto(c *feed.Config) {
	c.Store = table.Measure(c.Store, func(_ table.Op, u table.Units, _ error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.units = m.units.Plus(u)
	})
}

// of returns the read units of do.
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
	l, err := w.Home(w.t.Context(), viewer, feed.HomeQuery{}, feed.PageRequest{Limit: limit})
	require.NoError(w.t, err)
	return l.Items
}

// The page has 20 posts of 20 authors, and the viewer likes them all.
func TestAHomePageReadsOwnLikesByOneQuery(t *testing.T) {
	const (
		timeline, posts, others = 2, 21, 20 // one post more than the page has; names and counts at half price
		query, byKey            = 0.5, 10
	)
	for _, c := range []struct {
		index bool
		want  float64
	}{
		{index: true, want: timeline + posts + others + query},
		{index: false, want: timeline + posts + others + byKey},
	} {
		var m meter
		s := newSample(t, newClock(), m.onto, func(cfg *feed.Config) { cfg.LikesByUser = c.index })
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

// The viewer has liked every second post of the page, and for each of its posts ten posts
// of a stranger. The query ends after three likes for each post of the page, and the rest
// of the page is read by key.
func TestOwnLikesOfAViewerWhoLikesVeryMuch(t *testing.T) {
	for _, c := range []struct {
		index bool
		limit int
		likes float64 // read units
	}{
		{true, 20, 1.5 + 7},
		{true, 2, 0.5 + 0.5},
		{true, 1, 0.5},
		{false, 20, 10},
	} {
		t.Run(fmt.Sprintf("page of %d, index %v", c.limit, c.index), func(t *testing.T) {
			var m meter
			w := newWorld(t, m.onto, func(cfg *feed.Config) { cfg.LikesByUser = c.index })
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
			assert.Equal(t, 2+n+1+n+c.likes, got, "read units: timeline, posts, names and counts, own likes")
		})
	}
}
