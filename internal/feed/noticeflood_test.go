package feed_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// A page after the block or mute of a user whose notifications fill it costs about as much as a page without them.
func TestABlockMakesAFloodedListCheap(t *testing.T) {
	for name, end := range map[string]func(context.Context, *world) error{
		"block": func(ctx context.Context, w *world) error { return w.Block(ctx, noticed, "flooder") },
		"mute":  func(ctx context.Context, w *world) error { return w.Mute(ctx, noticed, "flooder") },
	} {
		t.Run(name, func(t *testing.T) {
			var m meter
			w := newWorld(t, m.onto)
			w.listNotices()
			w.users("flooder")
			first := func() (units float64, items int) {
				w.clock.add(2 * time.Minute)
				before := m.sum()
				list, err := w.domain.notices.List(t.Context(), noticed, page.Request{})
				require.NoError(t, err)
				return m.sum() - before, len(list.Items)
			}
			quiet, _ := first()
			for i := range 300 {
				p := w.post("flooder", fmt.Sprint(i))
				at := id.Floor(w.clock.now())
				of := schema.Notice{User: noticed, Kind: schema.NoticeMention, Target: p.ID, Revision: 1, TTL: w.clock.now().Add(90 * 24 * time.Hour), Acts: []schema.Act{
					{Version: p.ID, Place: at, State: schema.ActHolds, User: "flooder"},
				}}
				_, err := w.store.Put(t.Context(), table.PutInput{Item: of.Item()})
				require.NoError(t, err)
			}
			require.NoError(t, end(t.Context(), w))
			units, items := first()
			t.Logf("without the flood %v units, after the %s %v units, %d items", quiet, name, units, items)
			assert.LessOrEqual(t, units, 1.5*quiet)
		})
	}
}
