package fanout_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// others receive the events of a worker.
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

// A process that dies after the effect and before its event leaves the message unacked. So
// does a queue of events that fails. The next attempt finds the work done, and sends the event.
func TestACrashBetweenEffectAndEventLosesNoEvent(t *testing.T) {
	for name, row := range map[string]struct {
		followers int
		begin     func(w *world) messages.Event
		id        func(e messages.Event) string
	}{
		"a post":   {3, func(w *world) messages.Event { return w.post() }, func(e messages.Event) string { return e.(*messages.PostCreated).PostID }},
		"chunks":   {100, func(w *world) messages.Event { return w.post() }, func(e messages.Event) string { return e.(*messages.PostCreated).PostID }},
		"a follow": {0, func(w *world) messages.Event { e := w.follow("bob", id.Min); w.take(); return e }, func(e messages.Event) string { return e.(*messages.Followed).MarkVersion }},
	} {
		t.Run(name, func(t *testing.T) {
			out := others{err: errors.New("down")}
			w := newWorld(t, row.followers, small, out.listen)
			first := row.begin(w)
			queued, failed := []messages.Event{first}, []messages.Event(nil)
			for len(queued) > 0 {
				e := queued[0]
				queued = queued[1:]
				if err := handle(t.Context(), w.worker, e); err != nil {
					require.ErrorIs(t, err, out.err)
					failed = append(failed, e)
				}
				for next := w.take(); next != nil; next = w.take() {
					queued = append(queued, next)
				}
			}
			require.Empty(t, out.sent)
			require.NotEmpty(t, failed, "the message was acked, and its event is lost")
			out.err = nil
			before := w.units.Write
			for _, e := range failed {
				w.must(handle(t.Context(), w.newWorker(small, out.listen), e))
			}
			require.NotEmpty(t, out.sent)
			for _, e := range out.sent {
				assert.Equal(t, row.id(first), e.Head().EventID)
			}
			assert.LessOrEqual(t, w.units.Write-before, 2.0, "the work was done again")
		})
	}
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
