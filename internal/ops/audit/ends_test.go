package audit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// I15: a post with an end is no damage before its end, at its end, and while the table deletes its items one by one.
func TestAPostWithAnEndIsNoFinding(t *testing.T) {
	t.Parallel()
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, open(t))
				w.people("ann", "bob", "eve")
				w.must(w.Follow(t.Context(), "bob", "ann"))
				w.post("ann")
				p, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "story", ExpiresAt: w.now().Add(20 * time.Hour)}})
				w.must(err)
				made, err := w.CreateComment(t.Context(), "bob", p.ID, "yes")
				w.must(err)
				_, err = w.CreateComment(t.Context(), "eve", p.ID, "no")
				w.must(err)
				w.must(w.Like(t.Context(), "bob", p.ID))
				w.until("a count and a delivery", func() bool {
					n, err := w.LikeCount(t.Context(), access.Viewer{}, p.ID)
					d, _ := w.AnyDelivery(t.Context(), p.ID)
					return err == nil && n.Count == 1 && d.State == delivery.Complete
				})
				w.tidy("before the end")
				w.ahead.Store(int64(20*time.Hour - 5*time.Minute))
				w.drop(schema.CommentKey(p.ID, made.ID)) // a clock that is ahead has expired the comment
				w.tidy("near the end")
				w.ahead.Store(int64(20 * time.Hour))
				w.tidy("at the end")
				for _, key := range []table.Key{schema.PostKey("ann", p.ID), entryKey("bob", p.ID, "ann"), schema.LikeCountKey(p.ID)} {
					w.drop(key)
					w.tidy("after the end")
				}
			})
		})
	}
}

// I15: a count that a repair has made again expires with the other items of its post. This matters because
// no deletion removes the count, and perhaps no later like follows.
func TestACountThatIsMadeAgainExpiresWithItsPost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, backends["memory"](t))
		w.people("ann", "bob")
		p, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "story", ExpiresAt: w.now().Add(20 * time.Hour)}})
		w.must(err)
		w.must(w.Like(t.Context(), "bob", p.ID))
		key := schema.LikeCountKey(p.ID)
		w.until("a count", func() bool { return w.item(key) != nil })
		w.quiet()
		like, err := schema.ParseLike(*w.item(schema.LikeKey(p.ID, "bob", 1)))
		w.must(err)
		w.put(schema.LikeEnd{Inc: like.Flush.Inc}.Item()) // the incarnation flushed all its stamps
		w.drop(key)
		found := w.repaired(time.Time{})
		assert.Equal(t, 1, found[audit.LikeCount], found)
		assert.Equal(t, p.ExpiresAt.Add(24*time.Hour).Unix(), w.item(key).Int(table.AttrTTL))
	})
}
