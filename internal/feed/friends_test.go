package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

func TestAFriendshipIsAsOldAsItsYoungerHalf(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	early, late := w.clock.now(), w.clock.now().Add(time.Hour)
	w.put(
		schema.FollowingItem("ann", "bob", early, ""), schema.FollowerItem("ann", "bob", late),
		schema.FollowingItem("ann", "cid", late, ""), schema.FollowerItem("ann", "cid", early),
	)
	l, err := w.Friends(t.Context(), "ann", page.Request{})
	require.NoError(t, err)
	assert.Equal(t, []feed.Edge{{UserID: "bob", Since: late}, {UserID: "cid", Since: late}}, l.Items)
}

// Each page of followers begins and ends with a friend, so only the read of the page takes a call: one
// request includes the reads of ten skips.
func TestALeapToTheLastEdgeThatWasReadTakesNoCall(t *testing.T) {
	const pages, size = 10, 64
	w, tp := tapped(t)
	w.users("ann")
	var edges []table.Item
	var want []string
	for i, user := range numbered(pages*size, "u") {
		edges = append(edges, schema.FollowerItem("ann", user, w.clock.now()))
		if i%size == 0 || i%size == size-1 {
			edges = append(edges, schema.FollowingItem("ann", user, w.clock.now(), ""))
			want = append(want, user)
		}
	}
	w.put(edges...)
	tp.take()
	l, err := w.Friends(t.Context(), "ann", page.Request{Limit: 100})
	require.NoError(t, err)
	assert.Equal(t, want, edgeUsers(l.Items))
	assert.Empty(t, l.NextCursor)
	assert.Len(t, tp.take(), pages+1, "and a page of followees")
}
