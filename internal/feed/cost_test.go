package feed_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
)

// The units of each call equal the units in docs/ACCESS_PATTERNS.md.
func TestTheCostOfARequestIsThatOfItsTableCalls(t *testing.T) {
	var m meter
	w := newWorld(t, m.onto)
	w.users("ann", "bob")
	p := w.post("ann", "x")
	w.deliver()
	calls := map[string]struct {
		do    func(context.Context) error
		units []float64 // the units after each repetition
	}{
		"a read of one and a half units": {func(ctx context.Context) error { _, err := w.LikeCount(ctx, access.Viewer{}, p.ID); return err }, []float64{1.5, 3, 4.5}},
		"reads and writes":               {func(ctx context.Context) error { return w.Mute(ctx, "bob", "ann") }, nil},
		"an edit": {func(ctx context.Context) error {
			_, err := w.EditPost(ctx, "ann", p.ID, feed.PostEdit{Text: new("y")})
			return err
		}, []float64{4, 8}},
	}
	for name, c := range calls {
		ctx, cost := access.WithCost(t.Context())
		_, other := access.WithCost(t.Context())
		assert.Zero(t, cost.Units(), name)
		before := m.sum()
		for _, want := range append(c.units, -1) {
			require.NoError(t, c.do(ctx), name)
			if want >= 0 {
				assert.Equal(t, want, cost.Units(), name)
			}
		}
		assert.Equal(t, m.sum()-before, cost.Units(), name)
		assert.Positive(t, cost.Units(), name)
		spent := cost.Units()
		require.NoError(t, c.do(t.Context()), name)
		assert.Equal(t, spent, cost.Units(), "%s, of another request", name)
		assert.Zero(t, other.Units(), name)
	}
}

// sum returns the read and write units of all calls.
func (m *meter) sum() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.units.Read + m.units.Write
}
