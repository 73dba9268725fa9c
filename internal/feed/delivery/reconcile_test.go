package delivery_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/clock"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// delivered writes the record of a delivery: its chunks, from the open start on. done[i] means that
// chunk i is done.
func (w *world) delivered(post string, done ...bool) {
	w.t.Helper()
	w.put(schema.Plan{Post: post, Author: "ann", Planned: 1, Started: w.now(), Attempts: 1}.Item())
	for i, done := range done {
		c := schema.Chunk{Post: post, End: fmt.Sprintf("f%05d", i+1), Delivered: 1}
		if i > 0 {
			c.First = fmt.Sprintf("f%05d", i)
		}
		if done {
			c.Done = w.now()
		}
		w.put(c.Item())
	}
}

// complete writes the record of a complete delivery, with one chunk that covers all followers.
func (w *world) complete(post string) {
	w.t.Helper()
	w.delivered(post)
	w.put(schema.Chunk{Post: post, Done: w.now()}.Item())
}

// reconcile examines all posts, with at most limit posts in each call. It returns the sum of the
// results and the published posts.
func (w *world) reconcile(since, until time.Time, limit int) (sum delivery.Reconciled, published []string) {
	w.t.Helper()
	for first := true; first || sum.Next != ""; first = false {
		one, err := w.Reconcile(w.t.Context(), since, until, sum.Next, limit)
		require.NoError(w.t, err)
		assert.LessOrEqualf(w.t, one.Checked, limit, "a call looked at %d posts", one.Checked)
		sum = delivery.Reconciled{Checked: sum.Checked + one.Checked, Published: sum.Published + one.Published, Next: one.Next}
	}
	for _, e := range w.published.take() {
		published = append(published, e.PostID)
	}
	slices.Sort(published)
	return sum, published
}

func TestLostFanOutsAreFoundAndPublishedAgain(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.post("bob", "expired in homes")
	w.add(timelineTTL)
	early := w.now()
	var lost []string
	whole := 0
	for i := range 60 { // over several days
		author := []string{"ann", "bob"}[i%2]
		p := w.post(author, fmt.Sprint("post ", i))
		switch i % 6 {
		case 0, 1: // no worker has begun
			lost = append(lost, p.ID)
		case 2: // a message in the middle was lost
			w.delivered(p.ID, true, false, true)
			lost = append(lost, p.ID)
		case 3: // the plan for the rest was lost
			w.delivered(p.ID, true, true)
			lost = append(lost, p.ID)
		case 4:
			w.complete(p.ID)
			whole++
		case 5:
			require.NoError(t, w.DeletePost(t.Context(), author, p.ID))
		}
		w.add(2 * time.Hour)
	}
	until := w.now()
	w.post("ann", "too young")
	w.published.take()
	for _, limit := range []int{1, 7, 100} {
		sum, published := w.reconcile(time.Time{}, until, limit)
		if want := len(lost); sum.Published != want || sum.Checked != want+whole || !slices.Equal(published, lost) {
			t.Errorf("limit %d: %+v, %d published; want %d, of %d checked", limit, sum, len(published), want, want+whole)
		}
	}
	sum, _ := w.reconcile(early, early.Add(3*time.Hour), 100)
	assert.Equalf(t, 2, sum.Checked, "%+v in the first three hours, want the posts of hours 0 and 2", sum)
	w.reconcile(time.Time{}, until, 100)
	for _, post := range lost {
		w.complete(post)
	}
	if sum, published := w.reconcile(time.Time{}, until, 100); sum.Published != 0 || len(published) != 0 {
		t.Errorf("after all are complete: %+v", sum)
	}
}

func TestAPostPublishedAgainIsTheStoredOne(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	p := w.post("ann", "before")
	text := "after"
	_, err := w.EditPost(t.Context(), "ann", p.ID, feed.PostEdit{Text: &text})
	require.NoError(t, err)
	w.published.take()
	made := w.now()
	_, err = w.Reconcile(t.Context(), made, made.Add(time.Hour), "", 100)
	require.NoError(t, err)
	events := w.published.take()
	require.Len(t, events, 1)
	if e := events[0]; e.PostID != p.ID || e.Text != "after" || e.LikeShards != 1 {
		t.Errorf("%+v", e)
	}
}

func TestAPostThatIsDeletedMeanwhileIsNotPublishedAgain(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	p := w.post("ann", "x")
	w.published.take()
	key := schema.PostKey("ann", p.ID)
	w.store.fault = func(c call) bool {
		if c.key == key {
			_, err := w.store.Store.Delete(t.Context(), table.DeleteInput{Key: key})
			assert.NoError(t, err)
		}
		return false
	}
	made := w.now()
	sum, err := w.Reconcile(t.Context(), made, made.Add(time.Hour), "", 100)
	require.NoError(t, err)
	assert.Equal(t, 1, sum.Checked)
	assert.Empty(t, w.published.take())
}

func TestReconcileRefusesACursorThatIsNotItsOwn(t *testing.T) {
	w := newWorld(t)
	for _, cursor := range []string{"x", "01K9Z.1", "01K9Z.8.", "01K9Z.-1.", "01K9Z.0.x", "01K9Z.x.", "01K9Z..", "01K9Z.1..", "8ZZZZ.0.", "01K9.0.", id.Max + "Z.0."} {
		_, err := w.Reconcile(t.Context(), time.Time{}, w.now(), cursor, 1)
		wantKind(t, err, fault.Malformed)
	}
}

// With a clock that is days ahead, Reconcile would leave posts out without an error.
func TestReconcileFailsWhileTheClockIsInDoubt(t *testing.T) {
	var clk *clock.Clock
	w := newWorld(t, func(c *access.Config) {
		clk = clock.New(c.Now)
		c.Clock = clk
	})
	w.users("ann")
	w.post("ann", "lost")
	since := w.now().Add(-time.Hour)
	clk.Observe(w.now().Add(-25*24*time.Hour), 0)
	_, err := w.Reconcile(t.Context(), since, w.now().Add(time.Minute), "", 10)
	require.ErrorAs(t, err, new(*clock.DoubtError))
	clk.Observe(w.now(), 0)
	got, err := w.Reconcile(t.Context(), since, w.now().Add(time.Minute), "", 10)
	require.NoError(t, err)
	assert.Equal(t, 1, got.Checked)
}

// A deletion removes the item of a post, and the post's record may stay in the index for a moment.
func TestAPostThatIsGoneMeanwhileIsNotPublishedAgain(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	made := w.now()
	p := w.post("ann", "gone")
	next := w.post("ann", "stays")
	_, err := w.store.Store.Delete(t.Context(), table.DeleteInput{Key: schema.PostKey("ann", p.ID)})
	require.NoError(t, err)
	w.published.take()
	sum, published := w.reconcile(made, made.Add(time.Hour), 100)
	assert.Equal(t, delivery.Reconciled{Checked: 2, Published: 1}, sum)
	assert.Equal(t, []string{next.ID}, published)
}

// A call reads each partition of the index once, and 50 pages at most.
func TestReconcileReadsABoundedNumberOfPages(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	since := w.now()
	for range 40 {
		w.complete(w.post("ann", "x").ID)
		w.add(12 * time.Hour)
	}
	w.store.take()
	checked, partitions := 0, map[string]int{}
	for cursor, first := "", true; first || cursor != ""; first = false {
		one, err := w.Reconcile(t.Context(), since, w.now(), cursor, 1000)
		require.NoError(t, err)
		checked, cursor = checked+one.Checked, one.Next
		pages := 0
		for _, c := range w.store.take() {
			if c.op == table.OpQuery && c.key.PK[:4] == "made" {
				pages++
				partitions[c.key.PK]++
			}
		}
		if cursor == "" {
			assert.LessOrEqual(t, pages, 50)
		} else {
			assert.Equal(t, 50, pages)
		}
	}
	assert.Equal(t, 40, checked)
	for partition, reads := range partitions {
		assert.Equal(t, 1, reads, partition)
	}
}

// A page of the index may contain only expired items. Reconcile also finds the items behind such a
// page.
func TestReconcileReadsOnBehindExpiredItems(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	since := w.now()
	for range 30 {
		w.post("ann", "x")
		w.add(time.Millisecond)
		made, err := w.ids.New()
		require.NoError(t, err)
		ref := schema.PostRef{ID: made, Author: "ann", LikeShards: 1, TTL: since}
		w.put(ref.Item())
	}
	w.published.take()
	sum, published := w.reconcile(since, since.Add(time.Hour), 1)
	assert.Equal(t, delivery.Reconciled{Checked: 30, Published: 30}, sum)
	assert.Len(t, published, 30)
}

func TestReconcileFailsIfACallFails(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	since := w.now()
	p := w.post("ann", "x")
	w.delivered(p.ID, true, false)
	w.published.take()
	check := func() {
		t.Helper()
		got, err := w.Reconcile(t.Context(), since, since.Add(time.Hour), "", 100)
		wantKind(t, err, fault.Unavailable)
		assert.Zero(t, got)
	}
	for _, of := range []call{
		{op: table.OpQuery, key: table.Key{PK: schema.PostsMadePK(schema.BucketOf(p.ID), schema.PostShards-1)}},
		{op: table.OpGet, key: schema.DeliveryPlanKey(p.ID)},
		{op: table.OpQuery, key: table.Key{PK: schema.DeliveryPK(p.ID)}},
		{op: table.OpGet, key: schema.PostKey("ann", p.ID)},
	} {
		fired := false
		w.store.fault = func(c call) bool {
			fired = fired || c == of
			return c == of
		}
		check()
		assert.True(t, fired, "%v", of)
	}
	w.store.fault = nil
	w.published.fail = errors.New("queue down")
	check()
}
