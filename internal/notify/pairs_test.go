package notify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/schema"
	"fanfare/messages"
)

// One user notifies another user of a bounded number of mentions in an hour, whatever the posts. Other users' mentions arrive.
func TestMentionsByOneUserAreBounded(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.cfg.Mentions = 3
		var posts []string
		for range 8 {
			posts = append(posts, w.newID())
			w.put(schema.PostRef{ID: posts[len(posts)-1], Author: "bob", LikeShards: 1}.Item())
		}
		mention := func(actor, post string) {
			w.send(&messages.Mentioned{UserID: "ann", ActorID: actor, PostID: post})
			pass(5 * time.Second)
		}
		listed := func() (n int) {
			for _, post := range posts {
				n += len(w.notice(schema.NoticeMention, post).Acts)
			}
			return n
		}
		w.run(func() {
			<-time.After(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
			for range 2 { // a repeated event counts once
				for _, post := range posts[:5] {
					mention("bob", post)
				}
			}
			assert.Equal(t, 3, listed())
			mention("dora", posts[5])
			assert.Equal(t, 4, listed(), "another user's mention")
			<-time.After(time.Hour)
			mention("bob", posts[6])
			assert.Equal(t, 5, listed(), "in the next hour")
		})
	})
}
