package delivery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// tracked is a post by ann and the items of the post's delivery.
type tracked struct {
	*world
	post  feed.Post
	began time.Time
}

func newTracked(t *testing.T) *tracked {
	t.Helper()
	w := newWorld(t)
	w.users("ann", "bob")
	return &tracked{world: w, post: w.post("ann", "x"), began: w.now().Add(time.Second)}
}

// plan puts the plan, with extra attributes. In this plan a worker has begun for the second time.
func (d *tracked) plan(state string, extra ...table.Attr) {
	d.t.Helper()
	it := schema.Plan{Post: d.post.ID, Author: "ann", Planned: 7, Started: d.began, Attempts: 2, State: state}.Item()
	it.Attrs = append(it.Attrs, extra...)
	d.put(it)
}

// chunk puts a chunk with 3 entries and one away follower. done is the second, counted from the
// beginning, at which the chunk was done, or 0 if the chunk is not done.
func (d *tracked) chunk(first, end string, done int) {
	d.t.Helper()
	c := schema.Chunk{Post: d.post.ID, First: first, End: end}
	if done > 0 {
		c.Done, c.Delivered, c.Skipped = d.after(done), 3, 1
	}
	d.put(c.Item())
}

func (d *tracked) after(seconds int) time.Time {
	return d.began.Add(time.Duration(seconds) * time.Second)
}

func (d *tracked) remove() {
	d.t.Helper()
	require.NoError(d.t, d.DeletePost(d.t.Context(), "ann", d.post.ID))
}

// running returns the progress of a delivery that a worker has begun. A negative total is not known.
func (d *tracked) running(delivered, skipped, done, total int64) delivery.Progress {
	want := delivery.Progress{
		State: delivery.Running, Planned: new(int64(7)), Delivered: &delivered, Skipped: &skipped, ChunksDone: &done,
		StartedAt: &d.began, Attempts: 2,
	}
	if total >= 0 {
		want.ChunksTotal = &total
	}
	return want
}

// ended returns want with the end state that the delivery reached at a second counted from the
// beginning, 0 for no time.
func (d *tracked) ended(want delivery.Progress, state delivery.State, second int) delivery.Progress {
	want.State = state
	if second > 0 {
		want.CompletedAt = new(d.after(second))
	}
	return want
}

// deliveries store the items of a delivery, and return the expected progress.
var deliveries = map[string]func(*tracked) delivery.Progress{
	"nothing": func(*tracked) delivery.Progress { return delivery.Progress{State: delivery.Queued} },
	"a plan": func(d *tracked) delivery.Progress {
		d.plan("")
		return d.running(1, 0, 0, -1)
	},
	"chunks without an end": func(d *tracked) delivery.Progress {
		d.plan("")
		d.chunk("", "f1", 1)
		d.chunk("f1", "f2", 2)
		return d.running(7, 2, 2, -1)
	},
	"an end, and a chunk that is not done": func(d *tracked) delivery.Progress {
		d.plan("")
		d.chunk("", "f1", 0)
		d.chunk("f1", "", 2)
		return d.running(4, 1, 1, 2)
	},
	"chunks behind a gap": func(d *tracked) delivery.Progress {
		d.plan("")
		d.chunk("", "f1", 1)
		d.chunk("f2", "", 2)
		return d.running(4, 1, 1, -1)
	},
	"all chunks": func(d *tracked) delivery.Progress {
		d.plan("")
		d.chunk("", "f1", 5)
		d.chunk("f1", "f2", 9)
		d.chunk("f2", "", 7)
		return d.ended(d.running(10, 3, 3, 3), delivery.Complete, 9)
	},
	"a summary, and the chunks after it": func(d *tracked) delivery.Progress {
		d.plan("", []table.Attr{
			{Name: schema.AttrUpto, Value: table.S("f5")}, {Name: schema.AttrSumChunks, Value: table.N(5)},
			{Name: schema.AttrSumEntries, Value: table.N(40)}, {Name: schema.AttrSumSkipped, Value: table.N(4)},
			{Name: schema.AttrSumDone, Value: table.N(d.after(9).UnixMilli())},
		}...)
		d.chunk("f5", "", 7)
		return d.ended(d.running(44, 5, 6, 6), delivery.Complete, 9)
	},
	"a plan of a pulled author": func(d *tracked) delivery.Progress {
		d.plan(schema.PlanPulled)
		return d.ended(d.running(1, 0, 0, -1), delivery.Pulled, 0)
	},
	"a tombstone": func(d *tracked) delivery.Progress {
		d.remove()
		return delivery.Progress{State: delivery.Cancelled}
	},
	"a tombstone, and a chunk that is not done": func(d *tracked) delivery.Progress {
		d.plan("")
		d.chunk("", "f1", 1)
		d.chunk("f1", "", 0)
		d.remove()
		return d.ended(d.running(4, 1, 1, 2), delivery.Cancelled, 0)
	},
	"a tombstone, and all chunks": func(d *tracked) delivery.Progress {
		d.plan("")
		d.chunk("", "", 1)
		d.remove()
		return d.ended(d.running(4, 1, 1, 1), delivery.Complete, 1)
	},
	"a tombstone of a pulled author's post": func(d *tracked) delivery.Progress {
		d.plan(schema.PlanPulled)
		d.remove()
		return d.ended(d.running(1, 0, 0, -1), delivery.Pulled, 0)
	},
	"nothing, just before a record expires": func(d *tracked) delivery.Progress {
		d.add(timelineTTL + schema.DeliveryKept - time.Millisecond)
		return delivery.Progress{State: delivery.Queued}
	},
	"nothing, when a record has expired": func(d *tracked) delivery.Progress {
		d.add(timelineTTL + schema.DeliveryKept)
		return delivery.Progress{State: delivery.Complete}
	},
	"a plan that is as old": func(d *tracked) delivery.Progress {
		d.plan("")
		d.add(timelineTTL + schema.DeliveryKept)
		return d.running(1, 0, 0, -1)
	},
}

func TestADeliveryFollowsFromWhatIsStored(t *testing.T) {
	for name, store := range deliveries {
		t.Run(name, func(t *testing.T) {
			d := newTracked(t)
			want := store(d)
			want.AcceptedAt = d.post.CreatedAt
			if want.State == delivery.Cancelled {
				want.Reason = "the post was deleted"
			}
			got, err := d.Delivery(t.Context(), "ann", d.post.ID)
			require.NoError(t, err)
			assert.Equal(t, want, got)
			got, err = d.AnyDelivery(t.Context(), d.post.ID)
			require.NoError(t, err)
			assert.Equal(t, want, got)
			_, err = d.Delivery(t.Context(), "bob", d.post.ID)
			wantKind(t, err, fault.Forbidden)
		})
	}
}

// One read of a delivery reads at most a thousand chunks behind the summary.
func TestAReadOfADeliveryIsBounded(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	d := &tracked{world: w, post: w.post("ann", "x"), began: w.now()}
	d.plan("")
	end := ""
	var chunks []table.Item
	for i := 1000; i >= 0; i-- {
		first := ""
		if i > 0 {
			first = fmt.Sprintf("f%05d", i)
		}
		chunks = append(chunks, schema.Chunk{Post: d.post.ID, First: first, End: end, Done: d.after(1), Delivered: 1}.Item())
		end = first
	}
	d.put(chunks...)
	w.store.take()
	got, err := d.AnyDelivery(t.Context(), d.post.ID)
	require.NoError(t, err)
	want := d.running(1001, 0, 1000, -1)
	want.AcceptedAt = d.post.CreatedAt
	assert.Equal(t, want, got)
	assert.Len(t, w.store.take(), 3, "the post, the plan, and one page of chunks")
}

func TestADeliveryThatCannotBeReadIsUnavailable(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	d := &tracked{world: w, post: w.post("ann", "x"), began: w.now()}
	d.plan("")
	for nth := 1; nth <= 3; nth++ {
		reads := 0
		w.store.fault = func(call) bool { reads++; return reads == nth }
		got, err := d.Delivery(t.Context(), "ann", d.post.ID)
		wantKind(t, err, fault.Unavailable)
		assert.Zero(t, got)
	}
}
