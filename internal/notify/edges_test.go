package notify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/notify"
	"fanfare/internal/schema"
)

// Without settings, a window takes two seconds by the real clock.
func TestTheZeroValueOfASettingIsItsDefault(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.cfg = notify.Config{Store: w, Broker: w, IDs: w.ids}
		w.run(func() {
			w.like("bob", true)
			pass(1900 * time.Millisecond)
			assert.Empty(t, w.likers())
			pass(200 * time.Millisecond)
			assert.Equal(t, []string{"bob"}, w.likers())
			assert.WithinDuration(t, time.Now().Add(90*24*time.Hour), w.notice(schema.NoticeLike, w.post).TTL, 5*time.Second)
		})
	})
}

// If a user takes a like back, is muted, and likes again, the notification leaves the second like out.
func TestALikeAgainOfAMutedUserIsLeftOut(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			w.like("bob", true)
			w.settle()
			w.like("bob", false)
			w.settle()
			mute, _ := schema.Mute{User: "ann", Author: "bob", Since: time.Now()}.Items()
			w.put(mute)
			w.like("bob", true)
			w.settle()
			assert.Empty(t, w.likers())
		})
	})
}

// A notification that expires in the second of a write is replaced at once by the new notification.
func TestANoticeThatExpiresNowIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			for _, left := range []time.Duration{time.Second, 2 * time.Second} { // the window ends in two seconds
				post := w.newID()
				w.put(schema.PostRef{ID: post, Author: "ann", LikeShards: 1}.Item())
				old := schema.Notice{User: "ann", Kind: schema.NoticeLike, Target: post, Revision: 7, TTL: time.Now().Add(left)}
				w.put(old.Item())
				puts := w.puts
				w.send(counted(w.newID(), post, "bob", true))
				w.settle()
				assert.Equal(t, puts+1, w.puts, "expires in %s", left)
				assert.True(t, w.notice(schema.NoticeLike, post).Acts[0].Holds())
			}
		})
	})
}

// A notification of a late action is kept as long as any other notification.
func TestALateActionKeepsItsNoticeAsLong(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			version, err := id.Named(time.Now().Add(-30*time.Minute), "late")
			require.NoError(t, err)
			w.send(counted(version, w.post, "bob", true))
			w.settle()
			assert.WithinDuration(t, time.Now().Add(90*24*time.Hour), w.notice(schema.NoticeLike, w.post).TTL, 5*time.Second)
		})
	})
}

// A notification of an action from a clock that is ahead outlives the action's messages.
func TestAnActionFromAheadKeepsItsNoticeLonger(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			ahead := time.Now().Add(4 * time.Minute)
			version, err := id.Named(ahead, "ahead")
			require.NoError(t, err)
			w.send(counted(version, w.post, "bob", true))
			w.settle()
			assert.WithinDuration(t, ahead.Add(90*24*time.Hour), w.notice(schema.NoticeLike, w.post).TTL, 5*time.Second)
		})
	})
}
