package fanout_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// becomesVisible hides an item from one kind of read, for half of the time that a transaction may take
// to become visible. So the item seems to be the last item of its transaction.
func (w *world) becomesVisible(of table.Op, key table.Key) {
	until := time.Now().Add(table.VisibleWithin / 2)
	w.store.around = func(op table.Op, keys []table.Key, do func() error) error {
		if op != of || keys[0].PK != key.PK || !time.Now().Before(until) {
			return do()
		}
		res, err := w.mem.Get(w.Context(), table.GetInput{Key: key, Consistent: true})
		w.must(err)
		_, err = w.mem.Delete(w.Context(), table.DeleteInput{Key: key})
		w.must(err)
		defer func() {
			_, err := w.mem.Put(w.Context(), table.PutInput{Item: *res.Item})
			w.must(err)
		}()
		return do()
	}
}

// The worker that sent the plan of a post found the post in the list of its author, but no read finds the post
// by its id yet. The plan or chunk must not become a dead letter because of that: nobody would deliver the
// post (I1).
func TestAPostThatIsBecomingVisibleIsDelivered(t *testing.T) {
	for name, chunks := range map[string]bool{"plan": false, "chunk": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 40, small)
				e := w.post()
				w.must(w.worker.HandlePosts(t.Context(), e))
				sent := w.take()
				if chunks {
					w.must(w.worker.HandleChunks(t.Context(), sent))
					sent = w.take()
				}
				w.becomesVisible(table.OpGet, schema.PostByIDKey(e.PostID))
				w.must(w.worker.HandleChunks(t.Context(), sent))
				w.drain(w.worker)
				require.Equal(t, "complete", w.deliveryState(e.PostID))
			})
		})
	}
}
