package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// removed removes ann, and makes her return a second later. removed returns the event of the removal.
func (w *world) removed() (event string) {
	w.t.Helper()
	w.clock.add(time.Hour)
	require.NoError(w.t, w.DeleteProfile(w.t.Context(), "ann"))
	for _, e := range w.published.take() {
		if gone, ok := e.(*messages.UserForgotten); ok {
			event = gone.EventID
		}
	}
	w.clock.add(time.Second)
	w.users("ann")
	w.clock.add(time.Second)
	return event
}

func (w *world) sweeps(event string) {
	w.t.Helper()
	for range 3 {
		w.clock.add(10 * time.Second)
		_, err := w.Forget(w.t.Context(), "ann", event, 500)
		require.NoError(w.t, err)
	}
}

// at returns an action of bob with the place of a time.
func (w *world) at(at time.Time) schema.Act {
	w.t.Helper()
	place, err := id.Named(at, "bob")
	require.NoError(w.t, err)
	return schema.Act{Version: place, Place: place, State: schema.ActHolds, User: "bob"}
}

// Ann returns, and reads a notification of her new post in the first minute of her new life. The sweeps
// of the removal leave her mark (I14).
func TestTheMarkOfANewLifeStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann", "bob")
	event := w.removed()
	p := w.post("ann", "of the new life")
	w.notify(schema.NoticeComment, p.ID, w.at(w.clock.now()))
	list := w.notices(page.Request{})
	require.Len(t, list.Items, 1)
	w.unread(1)
	w.markRead(list.ReadTo)
	w.unread(0)
	w.sweeps(event)
	assert.Len(t, w.notices(page.Request{}).Items, 1, "the notification is of the new life")
	w.unread(0)
}

// A notification about an own post is of the life of its post, whatever its places are.
func TestANotificationOfAPostIsOfThePostsLife(t *testing.T) {
	t.Parallel()
	for _, kind := range []schema.NoticeKind{schema.NoticeLike, schema.NoticeComment, schema.NoticeRepost} {
		w := newWorld(t)
		w.users("ann", "bob")
		old := w.post("ann", "of the former life")
		event := w.removed()
		mine := w.post("ann", "of the new life")
		w.notify(kind, mine.ID, w.at(w.clock.now()))               // below the life's after
		w.notify(kind, old.ID, w.at(w.clock.now().Add(time.Hour))) // above the life's after
		w.sweeps(event)
		for post, stays := range map[string]bool{mine.ID: true, old.ID: false} {
			it, err := w.store.Get(t.Context(), table.GetInput{Key: schema.NoticeKey("ann", kind, post), Consistent: true})
			require.NoError(t, err)
			assert.Equal(t, stays, it.Item != nil, "%s %s", kind, post)
		}
	}
}

// The operator switches love off. Ann loved her own post.
func TestTheNumberOfANotificationHasNoKindThatIsSwitchedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKinds)
	w.users("ann", "bob", "cat", "dan")
	p := w.post("ann", "mine")
	for user, kind := range map[string]string{"ann": "love", "bob": schema.KindLike, "cat": "love", "dan": schema.KindLike} {
		require.NoError(t, w.React(t.Context(), user, p.ID, kind))
	}
	w.deliver()
	w.clock.add(time.Minute)
	fewer := w.with(func(c *config) { c.Reactions, c.LikesByUser = []string{"wow"}, true })
	loved := fewer.acted("cat", schema.NoticeLike)
	loved.State = "love"
	liked := fewer.acted("bob", schema.NoticeLike)
	fewer.notify(schema.NoticeLike, p.ID, liked, loved)
	assert.Equal(t, []string{"like by bob of 2"}, fewer.noticed())

	fewer.notify(schema.NoticeLike, p.ID, loved)
	assert.Empty(t, fewer.noticed(), "no reader sees cat's reaction any more")
}

// A process that removes a user names the user in no notification any more, though it shares names for
// a minute.
func TestARemovedUserIsNamedInNoNotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config) { c.LikeWindow = time.Second })
	w.users("ann", "bob", "cat")
	p := w.post("ann", "mine")
	w.likes(p.ID, "bob", "cat")
	w.notify(schema.NoticeLike, p.ID, w.acted("bob", schema.NoticeLike), w.acted("cat", schema.NoticeLike))
	assert.Equal(t, []string{"like by bob,cat of 2"}, w.noticed())
	require.NoError(t, w.DeleteProfile(t.Context(), "bob"))
	assert.Equal(t, []string{"like by cat of 2"}, w.noticed())
}
