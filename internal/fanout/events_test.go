package fanout_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// others stands for the other programs that receive the events of a worker.
type others struct {
	mu   sync.Mutex
	err  error
	sent []messages.Event
}

func (o *others) send(_ context.Context, events ...messages.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.sent = append(o.sent, events...)
	}
	return o.err
}

func (o *others) listen(c *fanout.Config) { c.Events = o.send }

func TestADeliveryThatIsCompleteIsTold(t *testing.T) {
	for name, row := range map[string]struct {
		followers int
		options   []func(*fanout.Config)
	}{
		"nobody": {0, nil}, "inline": {3, nil}, "a chain of chunks": {100, []func(*fanout.Config){small}},
	} {
		t.Run(name, func(t *testing.T) {
			var out others
			w := newWorld(t, row.followers, append(row.options, out.listen)...)
			e := w.post()
			w.enqueue(e)
			for w.deliveryState(e.PostID) != "complete" {
				require.Empty(t, out.sent, "told before the delivery is complete")
				next := w.take()
				w.must(handle(t.Context(), w.worker, next))
			}
			require.NotEmpty(t, out.sent)
			w.drain(w.worker)
			for _, e2 := range out.sent {
				assert.Equal(t, &messages.PostDelivered{
					Header: messages.Header{EventID: e.PostID, Time: w.now, RequestID: "request"},
					PostID: e.PostID, AuthorID: author, Delivered: int64(row.followers),
				}, e2)
			}
			assert.Len(t, out.sent, 1)
		})
	}
}

// deliveryState is the state of a delivery.
func (w *world) deliveryState(postID string) string {
	res, err := w.mem.Get(w.Context(), table.GetInput{Key: schema.PostByIDKey(postID), Consistent: true})
	w.must(err)
	if res.Item == nil {
		return ""
	}
	return string(w.delivery(postID).State)
}

// applied is work, with or without an event for other programs. told is the id of this event.
type applied struct {
	followers int
	options   []func(*fanout.Config)
	// begin returns the messages of the work in order. These messages cause further messages, which the test
	// handles next.
	begin func(w *world) (queued []messages.Event, told string)
}

// works has at least one row for each kind of message that a worker handles, and for each state in which a
// message finds its work done.
func works() map[string]applied {
	post := func(w *world) ([]messages.Event, string) { e := w.post(); return []messages.Event{e}, e.PostID }
	followed := func(change func(w *world)) func(w *world) ([]messages.Event, string) {
		return func(w *world) ([]messages.Event, string) {
			e := w.follow("bob", id.Min)
			w.take()
			change(w)
			return []messages.Event{e}, e.FollowID
		}
	}
	untold := func(e func(w *world) messages.Event) applied {
		return applied{begin: func(w *world) ([]messages.Event, string) { return []messages.Event{e(w)}, "" }}
	}
	return map[string]applied{
		"a post":            {followers: 3, begin: post},
		"a chain of chunks": {followers: 100, begin: post},
		"a pulled post":     {followers: 100, options: []func(*fanout.Config){limit(20)}, begin: pulledPost},
		"a post that its repetition delivers before its plan is handled": {followers: 5, begin: postWithoutItsFollowers},
		"a follow":                            {begin: followed(func(*world) {})},
		"a follow of an author who is pulled": {begin: followed(func(w *world) { w.setMode(schema.ModePull) })},
		"a follow that was taken back":        {begin: followed(func(w *world) { w.unfollow("bob") })},
		"a follow whose mark has expired": {begin: followed(func(w *world) {
			_, err := w.mem.Delete(w.Context(), table.DeleteInput{Key: schema.MarkKey("bob", author)})
			w.must(err)
		})},

		"an unfollow": untold(func(w *world) messages.Event { w.follow("bob", id.Min); w.take(); return w.unfollow("bob") }),
		"a deletion": untold(func(w *world) messages.Event {
			e := w.discussed(1, 3)
			w.deletePost(e.PostID)
			w.now = w.now.Add(time.Hour)
			return e
		}),
		"a take-down": {begin: func(w *world) ([]messages.Event, string) {
			e := w.discussed(1, 3)
			w.takeDown(e.PostID)
			w.now = w.now.Add(time.Hour)
			return []messages.Event{e}, e.PostID
		}},
		"a removal of a user": untold(func(w *world) messages.Event {
			e := &messages.UserForgotten{Header: w.header(), UserID: author}
			w.now = w.now.Add(2 * time.Hour)
			return e
		}),
		"a new name": untold(func(w *world) messages.Event {
			return &messages.ProfileChanged{Header: w.header(), UserID: author, V: 1}
		}),
		"a mark walk": untold(func(w *world) messages.Event {
			w.setMode(schema.ModeSwitching)
			return &messages.MarkWalk{Header: w.header(), AuthorID: author}
		}),
		"a reader who is seen":    untold(func(w *world) messages.Event { return &messages.Seen{Header: w.header(), UserID: author} }),
		"a reader who comes back": untold(func(w *world) messages.Event { return &messages.Returned{Header: w.header(), UserID: author, V: 1} }),
	}
}

func pulledPost(w *world) ([]messages.Event, string) {
	w.setMode(schema.ModePull)
	e := w.post()
	return []messages.Event{e}, e.PostID
}

// postWithoutItsFollowers makes the plan of a post with more followers than a page. Then most followers
// unfollow, and a redelivery of the post's message delivers the post as one chunk. The post's message was
// acked before the redelivery. So if the worker of the redelivery dies, only the plan can still send the
// event.
func postWithoutItsFollowers(w *world) ([]messages.Event, string) {
	e := w.post()
	w.must(handle(w.Context(), w.worker, e))
	plan := w.take()
	for i := range 4 {
		w.unfollow(follower(i))
	}
	return []messages.Event{e, plan}, e.PostID
}

func (w *world) setMode(state schema.ModeState) {
	w.Helper()
	_, err := w.mem.Put(w.Context(), table.PutInput{Item: schema.Mode{Author: author, State: state, V: 1, Since: id.Min, At: w.now}.Item()})
	w.must(err)
}

// everyKind returns an event of each kind that the wire format knows, from its golden files.
func everyKind(t *testing.T) map[messages.Kind]messages.Event {
	t.Helper()
	kinds := map[messages.Kind]messages.Event{}
	files, err := filepath.Glob("../../messages/testdata/*.json")
	require.NoError(t, err)
	for _, file := range files {
		payload, err := os.ReadFile(file)
		require.NoError(t, err)
		e, err := messages.Decode(payload)
		require.NoError(t, err)
		kinds[messages.KindOf(e)] = e
	}
	require.NotEmpty(t, kinds)
	return kinds
}

// If a process dies after the effect and before the event, its message is not acked. A failing queue of events
// has the same result. So each message of the work is redelivered after the work is done. The message finds
// the work done, and sends the event (I6).
func TestEveryMessageThatFindsItsWorkDoneSendsItsEvent(t *testing.T) {
	handled := map[messages.Kind]bool{}
	for name, row := range works() {
		t.Run(name, func(t *testing.T) {
			out := others{err: errors.New("down")}
			nobody := removals{{}, {}}
			options := append([]func(*fanout.Config){small, out.listen, func(c *fanout.Config) { c.Users = &nobody }}, row.options...)
			w := newWorld(t, row.followers, options...)
			queued, told := row.begin(w)
			var done []messages.Event
			for len(queued) > 0 {
				e := queued[0]
				done, queued = append(done, e), queued[1:]
				if err := handle(t.Context(), w.worker, e); err != nil {
					require.ErrorIs(t, err, out.err)
				}
				for next := w.take(); next != nil; next = w.take() {
					queued = append(queued, next)
				}
			}
			require.Empty(t, out.sent)
			out.err = nil
			for _, e := range done {
				handled[messages.KindOf(e)] = true
				before := w.units.Write
				w.must(handle(t.Context(), w.newWorker(options...), e))
				assert.LessOrEqualf(t, w.units.Write-before, 2.0, "%s did its work again", messages.KindOf(e))
				for w.take() != nil { // a redelivered post may send its plan again
				}
				if told == "" {
					assert.Emptyf(t, out.sent, "%s", messages.KindOf(e))
					continue
				}
				require.NotEmptyf(t, out.sent, "%s found its work done, and its event is lost", messages.KindOf(e))
				for _, e := range out.sent {
					assert.Equal(t, told, e.Head().EventID)
				}
				out.sent = nil
			}
		})
	}
	for kind, e := range everyKind(t) {
		if handled[kind] {
			continue
		}
		w := newWorld(t, 0)
		for _, handle := range []queue.Handler{w.worker.HandlePosts, w.worker.HandleBackfills, w.worker.HandleChunks} {
			require.ErrorContainsf(t, handle(t.Context(), e), string(messages.ReasonWrongTopic), "%s has a handler and no row", kind)
		}
	}
}

// Other programs get the event of a take-down when the comments and likes are deleted. The
// event has the first reason, and its id is always the same.
func TestATakeDownIsTold(t *testing.T) {
	var out others
	w := newWorld(t, 0, small, out.listen)
	e := w.discussed(1, 2*4*20) // more than one receive can remove
	w.takeDown(e.PostID)
	later, waits := errors.AsType[*queue.Later](handle(t.Context(), w.worker, e))
	require.True(t, waits, "the deletion may still be under way")
	require.Empty(t, out.sent)
	w.now = w.now.Add(later.After)
	for {
		items, _ := w.left(e.PostID, 1)
		err := handle(t.Context(), w.worker, e)
		if err == nil {
			break
		}
		require.ErrorAs(t, err, &later)
		require.NotZero(t, items)
		require.Empty(t, out.sent, "something is left of the post")
	}
	require.NoError(t, handle(t.Context(), w.worker, e))
	want := &messages.PostTakenDown{
		Header: messages.Header{EventID: e.PostID, Time: w.now, RequestID: "request"},
		PostID: e.PostID, AuthorID: author, Reason: "forged shoes", By: "moderation", At: takenAt,
	}
	assert.Equal(t, []messages.Event{want, want}, out.sent)
}

func TestADeletedPostIsNotTold(t *testing.T) {
	var out others
	w := newWorld(t, 3, out.listen)
	e := w.post()
	_, err := w.EnsurePost(t.Context(), e)
	w.must(err)
	w.deletePost(e.PostID)
	w.must(handle(t.Context(), w.worker, e))
	assert.Empty(t, out.sent)
}

// A walk gives the mark of a waiting backfill a new version, and a home requests the backfill
// again with that version. The follow still sends only one event. A repair or an import makes
// no new follow, so it sends no event, even if the backfill is requested again.
func TestOneFollowIsToldUnderOneID(t *testing.T) {
	var out others
	w := newWorld(t, 0, out.listen)
	s := w.service(0)
	for _, user := range []string{reader, author, "bob"} {
		_, err := s.PutProfile(t.Context(), user, feed.ProfileInput{Name: user})
		w.must(err)
	}
	asked := func() *messages.Followed { // a home finds the backfill late, and requests the backfill
		w.now = w.now.Add(11 * time.Second)
		_, err := s.Home(t.Context(), reader, home.Query{}, page.Request{})
		w.must(err)
		return w.take().(*messages.Followed)
	}
	w.setMode(schema.ModeLeaving)
	w.must(s.Follow(t.Context(), reader, author))
	first := w.take().(*messages.Followed)
	w.must(handle(t.Context(), w.worker, &messages.MarkWalk{Header: w.header(), AuthorID: author}))
	again := asked()
	require.NotEqual(t, first.MarkVersion, again.MarkVersion)
	w.must(handle(t.Context(), w.worker, again))
	w.must(handle(t.Context(), w.worker, first))
	require.Len(t, out.sent, 2)
	for _, e := range out.sent {
		*e.Head() = messages.Header{EventID: e.Head().EventID}
	}
	assert.Equal(t, out.sent[0], out.sent[1])

	out.sent = nil
	_, err := w.mem.Delete(t.Context(), table.DeleteInput{Key: schema.FollowerKey(author, reader)})
	w.must(err)
	mended, err := s.MendFollow(t.Context(), reader, author)
	w.must(err)
	require.True(t, mended)
	lost := w.take()
	for _, e := range []messages.Event{asked(), lost} {
		w.must(handle(t.Context(), w.worker, e))
	}
	assert.Empty(t, out.sent, "of a repair")

	pending, err := s.ImportFollow(t.Context(), feed.PastFollow{Follower: reader, Author: "bob", From: id.Min, Since: w.now.Add(-aDay)})
	w.must(err)
	require.True(t, pending)
	w.must(handle(t.Context(), w.worker, asked()))
	assert.Empty(t, out.sent, "of an import")
}
