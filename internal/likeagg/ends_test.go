package likeagg

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// I15: the likes of a post with an end expire together with their count, and no like is counted after the end.
func TestLikesOfAPostWithAnEndExpire(t *testing.T) {
	step(t, func(w *world) {
		end := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		w.post = w.newPost(schema.PostRef{LikeShards: 1, End: end})
		w.run()
		w.send("ann", true)
		w.settle()
		w.wantCount(1)
		res, err := w.mem.Get(t.Context(), table.GetInput{Key: schema.LikeCountKey(w.post), Consistent: true})
		require.NoError(t, err)
		assert.Equal(t, end.Add(keptAfterEnd).Unix(), res.Item.Int(table.AttrTTL))
		assert.Equal(t, end.Add(keptAfterEnd), w.likes(1)[0].TTL)

		pass(time.Hour)
		w.send("bob", true)
		w.send("ann", false)
		w.settle()
		w.wantCount(1)
		w.wantDead(0, "")
		assert.Len(t, w.likes(1), 1)
	})
}
