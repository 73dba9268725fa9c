package fanout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// dueOf handles an event as a consumer does, and returns the result and the moment at which the event was due.
func (w *world) dueOf(handle queue.Handler, e messages.Event) (queue.Result, time.Time) {
	w.Helper()
	msg, err := queue.Message(w.Context(), e)
	w.must(err)
	msg.SetContext(queue.WithReceive(w.Context(), queue.NewReceive(1)))
	_, err = queue.Event(msg)
	w.must(err)
	var got queue.Answered
	answerer := queue.Answerer{Log: zap.NewNop(), Observe: func(a queue.Answered) { got = a }}
	answerer.Answer(w.Context(), msg, handle(msg.Context(), e), false)
	return got.Result, got.Due
}

// A wait that an event requires does not count as age: in a system without a backlog, a message of each kind
// is done when it becomes due.
func TestAWaitByDesignIsNoAge(t *testing.T) {
	for name, c := range map[string]struct {
		event func(w *world) (messages.Event, queue.Handler)
		wait  time.Duration
	}{
		"a deletion": {func(w *world) (messages.Event, queue.Handler) {
			e := w.discussed(1, 3)
			w.deletePost(e.PostID)
			return e, w.worker.HandleBackfills
		}, messages.MaxAhead + time.Minute},
		"a forgotten user": {func(w *world) (messages.Event, queue.Handler) {
			nothing := make(removals, 2)
			worker := w.newWorker(func(c *fanout.Config) { c.Users = &nothing })
			return &messages.UserForgotten{Header: w.header(), UserID: author}, worker.HandleBackfills
		}, time.Hour},
		"a change of a profile that was never made": {func(w *world) (messages.Event, queue.Handler) {
			w.named(older)
			return w.changed(present.V), w.worker.HandleBackfills
		}, schema.BylineShown},
		"a change of a profile": {func(w *world) (messages.Event, queue.Handler) {
			w.named(present)
			return w.changed(present.V), w.worker.HandleBackfills
		}, 0},
		"a change of a profile that was overtaken": {func(w *world) (messages.Event, queue.Handler) {
			w.named(newer)
			return w.changed(present.V), w.worker.HandleBackfills
		}, 0},
		"a post": {func(w *world) (messages.Event, queue.Handler) { return w.post(), w.worker.HandlePosts }, 0},
		"a post from ahead of its event": {func(w *world) (messages.Event, queue.Handler) {
			e := w.post()
			e.PostID = id.Floor(w.now.Add(3 * time.Hour))
			return e, w.worker.HandlePosts
		}, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0)
			sent := w.now
			event, handle := c.event(w)
			if c.wait > 0 {
				result, _ := w.dueOf(handle, event)
				assert.Equal(t, queue.ResultLater, result, "it waits")
			}
			w.now = sent.Add(c.wait + time.Second)
			result, due := w.dueOf(handle, event)
			assert.Equal(t, queue.ResultDone, result)
			assert.WithinDuration(t, sent.Add(c.wait), due, 100*time.Millisecond)
		})
	}
}
