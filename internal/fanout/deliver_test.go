package fanout_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/internal/feed/access"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

func TestEveryFollowerGetsThePostOnce(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 5, 6, 7, 8, 13, 14, 15, 20, 21, 22, 27, 28, 29, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t, n, small)
			e := w.post()
			w.enqueue(e)
			w.drain(w.worker)
			w.wantDelivered(e.PostID, n)
			assert.Equalf(t, n, w.observed, "observed %d entries", w.observed)
			if n < 4 && w.sent != 0 {
				t.Errorf("sent %d messages for one page of followers", w.sent)
			}
		})
	}
}

// A page may hold one follower, a chunk one page and a plan one chunk. A page may also be empty although more
// followers exist.
func TestTheSmallestSizesAndEmptyPagesDeliverToAll(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 5, 8} {
		for _, empty := range []bool{false, true} {
			w := newWorld(t, n, func(c *fanout.Config) { c.PageSize, c.ChunkSize, c.PlanChunks = 1, 1, 1 })
			w.store.empty = empty
			e := w.post()
			w.enqueue(e)
			w.drain(w.worker)
			w.wantDelivered(e.PostID, n)
			assert.Equal(t, n, w.observed)
			w.follow("new", id.Min)
			w.drain(w.worker)
			w.wantHome("new", e.PostID)
		}
	}
}

func TestEntriesExpireByThePostsTimeAndCarryItsLikeShards(t *testing.T) {
	for _, n := range []int{2, 20} {
		w := newWorld(t, n, small)
		e := w.post()
		e.LikeShards = 4
		w.now = w.now.Add(time.Hour) // the delivery is late
		w.enqueue(e)
		w.drain(w.worker)
		res, err := w.mem.Get(t.Context(), table.GetInput{Key: table.Key{
			PK: schema.TimelinePK(follower(n - 1)), SK: schema.EntrySK(e.PostID, author),
		}})
		require.NoError(t, err)
		require.NotNil(t, res.Item, "read the entry")
		at, err := id.Time(e.PostID)
		require.NoError(t, err)
		assert.Equal(t, at.Add(timelineTTL).Unix(), res.Item.Int(table.AttrTTL))
		if got, err := schema.ParseEntry(*res.Item); err != nil || got.LikeShards != 4 {
			t.Errorf("entry = %+v, %v", got, err)
		}
	}
}

func TestEntriesThatWouldBeExpiredAreNotWritten(t *testing.T) {
	for _, n := range []int{2, 20} {
		w := newWorld(t, n, small, func(c *fanout.Config) { c.Lifetimes = lifetime.Fixed(time.Hour) })
		e := w.post()
		w.now = w.now.Add(2 * time.Hour)
		w.enqueue(e)
		w.drain(w.worker)
		w.wantHome(follower(0))
		if d := w.delivery(e.PostID); d.State != delivery.Complete || *d.Delivered != 1 {
			t.Errorf("delivery = %s, %d", d.State, *d.Delivered)
		}
	}
}

func TestRedeliveryOfEverythingChangesNothing(t *testing.T) {
	for _, n := range []int{3, 30} {
		w := newWorld(t, n, small)
		e := w.post()
		var handled []messages.Event
		w.enqueue(e)
		for {
			e := w.take()
			if e == nil {
				break
			}
			w.must(handle(t.Context(), w.worker, e))
			handled = append(handled, e)
		}
		w.wantDelivered(e.PostID, n)
		for _, e := range slices.Backward(handled) { // each message is handled twice more
			w.must(handle(t.Context(), w.worker, e))
			w.must(handle(t.Context(), w.worker, e))
			w.drain(w.worker)
		}
		w.wantDelivered(e.PostID, n)
		assert.Equal(t, n, w.observed, "entries were written")
		assert.Equal(t, int64(3), w.delivery(e.PostID).Attempts)
	}
}

// TestAPlanThatExpiresWhileAWorkerSleepsStaysGone removes the plan between the worker's put,
// which fails because the plan is stored, and the update that follows. The update must not
// leave an item without a ttl.
func TestAPlanThatExpiresWhileAWorkerSleepsStaysGone(t *testing.T) {
	w := newWorld(t, 3, small)
	e := w.post()
	w.must(handle(t.Context(), w.worker, e))
	plan := schema.DeliveryPlanKey(e.PostID)
	w.store.around = func(op table.Op, keys []table.Key, do func() error) error {
		if op == table.OpUpdate && keys[0] == plan {
			w.store.around = nil
			_, err := w.mem.Delete(t.Context(), table.DeleteInput{Key: plan})
			w.must(err)
		}
		return do()
	}
	require.Error(t, handle(t.Context(), w.worker, e), "the message has to fail")
	require.Nil(t, w.store.around, "the plan was not updated")
	res, err := w.mem.Get(t.Context(), table.GetInput{Key: plan, Consistent: true})
	w.must(err)
	require.Nil(t, res.Item)
	w.must(handle(t.Context(), w.worker, e))
	w.wantDelivered(e.PostID, 3)
}

func TestADoneChunkCostsTwoReadsAndNoWrite(t *testing.T) {
	w := newWorld(t, 20, small)
	w.enqueue(w.post())
	var chunk *messages.FanoutChunk
	for e := w.take(); e != nil; e = w.take() {
		if c, ok := e.(*messages.FanoutChunk); ok {
			chunk = c
		}
		w.must(handle(t.Context(), w.worker, e))
	}
	var calls []table.Op
	w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
		calls = append(calls, op)
		return do()
	}
	w.must(w.worker.HandleChunks(t.Context(), chunk))
	assert.Equal(t, []table.Op{table.OpGet, table.OpGet}, calls)
}

func TestPostIsInTheTableBeforeFollowersAreRead(t *testing.T) {
	w := newWorld(t, 3, small)
	e := w.post()
	w.store.around = func(op table.Op, keys []table.Key, do func() error) error {
		if op == table.OpQuery && keys[0].PK == schema.FollowersPK(author) {
			res, err := w.mem.Get(t.Context(), table.GetInput{Key: schema.PostByIDKey(e.PostID), Consistent: true})
			if err != nil || res.Item == nil {
				t.Errorf("followers are read before the post is stored: %v", err)
			}
		}
		return do()
	}
	w.enqueue(e)
	w.drain(w.worker)
}

// TestFollowersComeAndGoAtAnyCall lets users follow and unfollow at each port call of a
// delivery in turn. Each user who follows at the end has the post, from the delivery or from
// the backfill (I1).
func TestFollowersComeAndGoAtAnyCall(t *testing.T) {
	const n = 24
	at := 0
	for fired := true; fired; at++ {
		w := newWorld(t, n, small)
		e := w.post()
		newcomers := []string{"a", follower(3) + "x", follower(6) + "x", follower(7) + "-", follower(13) + "x", "zz"}
		leaver := follower(at % n)
		change := w.atCall(at, func() {
			for _, user := range newcomers {
				w.follow(user, id.Min)
			}
			w.unfollow(leaver)
		})
		w.enqueue(e)
		w.drain(w.worker)
		if fired = change(); !fired {
			break
		}
		for _, user := range newcomers {
			w.wantHome(user, e.PostID)
		}
		for i := range n {
			if follower(i) != leaver {
				w.wantHome(follower(i), e.PostID)
			}
		}
		assert.Equal(t, delivery.Complete, w.delivery(e.PostID).State)
		require.Falsef(t, t.Failed(), "failed with changes at call %d", at)
	}
	require.GreaterOrEqualf(t, at, 30, "only %d calls", at)
}

func TestADeletedPostIsNotDeliveredAnyFurther(t *testing.T) {
	goneWhileDelivered(t, (*world).deletePost)
}

func TestAnEndedPostIsNotDeliveredAnyFurther(t *testing.T) { goneWhileDelivered(t, (*world).endPost) }

// goneWhileDelivered removes the post at each port call in turn. After that, only pages that were
// already read may be written.
func goneWhileDelivered(t *testing.T, goes func(w *world, post string)) {
	t.Helper()
	const n = 24
	at := 0
	for fired := true; fired; at++ {
		w := newWorld(t, n, small)
		e := w.post()
		_, err := w.EnsurePost(t.Context(), e)
		w.must(err)
		before := 0
		change := w.atCall(at, func() {
			goes(w, e.PostID)
			w.mu.Lock()
			defer w.mu.Unlock()
			before = w.observed
		})
		w.enqueue(e)
		w.drain(w.worker)
		if fired = change(); !fired {
			break
		}
		// The worker was writing one page, and had already read the next page.
		assert.LessOrEqualf(t, w.observed, before+2*4,
			"gone at call %d: %d entries were written after it", at, w.observed-before)
		d := w.delivery(e.PostID)
		if d.State != delivery.Cancelled && (d.State != delivery.Complete || *d.Delivered != n+1) {
			t.Errorf("gone at call %d: delivery is %s with %d", at, d.State, *d.Delivered)
		}
	}
	require.GreaterOrEqualf(t, at, 30, "only %d calls", at)
}

// TestEntriesHaveTheLikeShardsOfTheStoredPost delivers a post whose event names no like shards.
func TestEntriesHaveTheLikeShardsOfTheStoredPost(t *testing.T) {
	for _, n := range []int{2, 9} { // inline, and in chunks
		w := newWorld(t, n, small)
		w.likeShards = 7
		e := w.post()
		w.enqueue(e)
		w.drain(w.worker)
		w.wantDelivered(e.PostID, n)
		for _, user := range []string{author, follower(0), follower(n - 1)} {
			items, _, err := table.Collect(w.mem.Query(t.Context(), table.Query{PK: schema.TimelinePK(user), Consistent: true}), 0)
			w.must(err)
			if entry, err := schema.ParseEntry(items[0]); err != nil || entry.LikeShards != 7 {
				t.Errorf("%d followers: the entry of %s is %+v, %v", n, user, entry, err)
			}
		}
	}
}

func TestMessagesThatCanNeverSucceedArePermanent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a missing post is looked for twice
		w := newWorld(t, 2, small)
		stored := w.post()
		_, err := w.EnsurePost(t.Context(), stored)
		w.must(err)
		ahead := w.post()
		ahead.PostID = id.Floor(w.now.Add(messages.MaxAhead + messages.MaxWait + time.Second))
		like := &messages.Liked{Like: messages.Like{Header: w.header(), PostID: stored.PostID, UserID: "u"}}
		tests := map[string]error{
			"post id far ahead of the clock": w.worker.HandlePosts(t.Context(), ahead),
			"wrong topic for posts":          w.worker.HandlePosts(t.Context(), like),
			"wrong topic for a follow":       w.worker.HandlePosts(t.Context(), w.follow("u", id.Min)),
			"wrong topic for backfills":      w.worker.HandleBackfills(t.Context(), stored),
			"wrong topic for chunks":         w.worker.HandleChunks(t.Context(), stored),
			"plan of an unknown post": w.worker.HandleChunks(t.Context(),
				&messages.FanoutPlan{Header: w.header(), PostID: w.newID(), AuthorID: author}),
			"plan by another author": w.worker.HandleChunks(t.Context(),
				&messages.FanoutPlan{Header: w.header(), PostID: stored.PostID, AuthorID: "mallory"}),
			"chunk that is not stored": w.worker.HandleChunks(t.Context(),
				&messages.FanoutChunk{Header: w.header(), PostID: stored.PostID, AuthorID: author, First: "x"}),
		}
		for name, err := range tests {
			assert.ErrorAsf(t, err, new(*messages.PermanentError), "%s: %v is not permanent", name, err)
		}
	})
}

func TestAPostFromAheadWaitsUntilItIsDue(t *testing.T) {
	w := newWorld(t, 2, small)
	e := w.post()
	e.PostID = id.Floor(w.now.Add(time.Hour))
	err := w.worker.HandlePosts(t.Context(), e)
	early, ok := errors.AsType[*messages.EarlyError](err)
	require.Truef(t, ok, "a post an hour ahead: %v", err)
	require.Equalf(t, time.Hour-messages.MaxAhead, early.Wait, "a post an hour ahead: %v", err)
	w.now = w.now.Add(early.Wait)
	w.must(w.worker.HandlePosts(t.Context(), e))
	w.wantDelivered(e.PostID, 2)
}

// TestAPlanGoesOnWhereAStoredChunkEnds sends plans that begin at each follower. A plan may add
// to the delivery record only if the plan begins at the end of a stored chunk.
func TestAPlanGoesOnWhereAStoredChunkEnds(t *testing.T) {
	const n = 24
	w := newWorld(t, n, small)
	e := w.post()
	plan := func(first string) error {
		return w.worker.HandleChunks(t.Context(), &messages.FanoutPlan{Header: w.header(), PostID: e.PostID, AuthorID: author, First: first})
	}
	refused := func(first string) bool {
		t.Helper()
		before := len(w.record(e.PostID))
		err := plan(first)
		_, permanent := errors.AsType[*messages.PermanentError](err)
		if err != nil && !permanent {
			t.Errorf("a plan that begins at %q: %v", first, err)
		}
		if permanent && len(w.record(e.PostID)) != before {
			t.Errorf("a plan that begins at %q was refused and has stored something", first)
		}
		return permanent
	}
	stored := w.post()
	stored.PostID = e.PostID
	_, err := w.EnsurePost(t.Context(), stored)
	w.must(err)
	for i := range n {
		if !refused(follower(i)) {
			t.Fatalf("a plan that begins at %q was taken before anything was planned", follower(i))
		}
	}
	w.enqueue(e)
	w.drain(w.worker)
	ends := map[string]bool{}
	for _, it := range w.record(e.PostID) {
		if it.Key.SK == schema.SortPlan {
			continue
		}
		c, err := schema.ParseChunk(it)
		w.must(err)
		ends[c.End] = true
	}
	require.GreaterOrEqualf(t, len(ends), 4, "the chunks end at %v", ends)
	for i := range n {
		for _, first := range []string{follower(i), follower(i) + "x"} {
			assert.NotEqualf(t, ends[first], refused(first),
				"a plan that begins at %q was refused: %v, a stored chunk ends there", first, !ends[first])
		}
	}
	if len(w.record(e.PostID)) != len(ends)+1 {
		t.Errorf("the delivery record has grown to %d items", len(w.record(e.PostID)))
	}
	w.drain(w.worker)
	w.wantDelivered(e.PostID, n)
}

// Another worker found more followers than a page holds, stored a chunk, and died.
func TestAPageOfFollowersGoesOnWithAChainThatIsThereByThen(t *testing.T) {
	w := newWorld(t, 3, small)
	e := w.post()
	key := schema.DeliveryChunkKey(e.PostID, "")
	w.store.around = func(op table.Op, keys []table.Key, do func() error) error {
		if op == table.OpPut && keys[0] == key {
			_, err := w.mem.Put(t.Context(), table.PutInput{Item: schema.Chunk{Post: e.PostID, End: follower(1)}.Item(), If: table.Absent{}})
			assert.True(t, err == nil || errors.As(err, new(*table.ConditionError)), err)
		}
		return do()
	}
	w.enqueue(e)
	w.drain(w.worker)
	w.wantDelivered(e.PostID, 3)
}

// TestAPlanIsFoundBehindChunksOutOfTheChain sends a plan that begins where a stored chunk ends.
// Between that chunk and its end are many chunks out of the chain: another planner had stored
// them before the chunk replaced them in the chain.
func TestAPlanIsFoundBehindChunksOutOfTheChain(t *testing.T) {
	const n = 60
	w := newWorld(t, n, small)
	e := w.post()
	_, err := w.EnsurePost(t.Context(), e)
	w.must(err)
	chunks := []schema.Chunk{{Post: e.PostID, End: follower(40)}}
	for i := 1; i < 39; i++ {
		chunks = append(chunks, schema.Chunk{Post: e.PostID, First: follower(i), End: follower(i + 1)})
	}
	for _, c := range chunks {
		_, err := w.mem.Put(t.Context(), table.PutInput{Item: c.Item()})
		w.must(err)
	}
	w.must(w.worker.HandleChunks(t.Context(), &messages.FanoutPlan{Header: w.header(), PostID: e.PostID, AuthorID: author, First: follower(40)}))
	w.enqueue(e)
	w.drain(w.worker)
	w.wantDelivered(e.PostID, n)
}

// TestDeliveryRecordsExpireAfterTheEntries checks that each item of a record outlives the entries, and
// every message about the delivery. It also checks that a late plan adds no item.
func TestDeliveryRecordsExpireAfterTheEntries(t *testing.T) {
	assert.Greaterf(t, schema.DeliveryKept, messages.MaxAge+messages.MaxAhead,
		"a record is kept for %s, and a message is applied for %s", schema.DeliveryKept, messages.MaxAge)
	for _, n := range []int{2, 24} { // inline, and in chunks
		w := newWorld(t, n, small)
		e := w.post()
		at, err := id.Time(e.PostID)
		w.must(err)
		w.now = w.now.Add(time.Hour) // the expiry depends on the time of the post, not on the worker's time
		w.enqueue(e)
		w.drain(w.worker)
		expiry := at.Add(timelineTTL + schema.DeliveryKept)
		record := w.record(e.PostID)
		for _, it := range record {
			assert.Equalf(t, expiry.Unix(), it.Int(table.AttrTTL), "%d followers: %s expires at", n, it.Key.SK)
		}
		for _, it := range record { // the table removes expired items
			_, err := w.mem.Delete(t.Context(), table.DeleteInput{Key: it.Key})
			w.must(err)
		}
		w.now = expiry
		w.must(w.worker.HandleChunks(t.Context(), &messages.FanoutPlan{Header: w.header(), PostID: e.PostID, AuthorID: author}))
		left := len(w.record(e.PostID))
		assert.Zerof(t, left, "%d followers: a late plan has stored %d items", n, left)
		if d := w.delivery(e.PostID); d.State != delivery.Complete || d.Planned != nil || d.Delivered != nil {
			t.Errorf("%d followers: after its record expired the delivery is %+v", n, d)
		}
	}
}

func TestDeliveryTellsHowFarItIs(t *testing.T) {
	w := newWorld(t, 30, small)
	e := w.post()
	_, err := w.EnsurePost(t.Context(), e)
	w.must(err)
	if d := w.delivery(e.PostID); d.State != delivery.Queued || d.Planned != nil || d.Delivered != nil ||
		d.ChunksDone != nil || d.ChunksTotal != nil || d.StartedAt != nil || !d.AcceptedAt.Equal(w.now) {
		t.Errorf("before it began: %+v", d)
	}
	w.must(w.worker.HandlePosts(t.Context(), e))
	d := w.delivery(e.PostID)
	if d.State != delivery.Running || *d.Planned != 31 || *d.Delivered != 1 || *d.ChunksDone != 0 || d.ChunksTotal != nil ||
		d.Attempts != 1 || !d.StartedAt.Equal(w.now) || d.CompletedAt != nil {
		t.Errorf("when it began: %+v", d)
	}
	w.must(handle(t.Context(), w.worker, w.take())) // the message plans three chunks of five
	if d := w.delivery(e.PostID); d.State != delivery.Running || d.ChunksTotal != nil {
		t.Errorf("while it is planned: %+v", d)
	}
	w.must(handle(t.Context(), w.worker, w.take()))
	if d := w.delivery(e.PostID); *d.ChunksDone != 1 || *d.Delivered != 7 {
		t.Errorf("after one chunk: %d done, %d delivered", *d.ChunksDone, *d.Delivered)
	}
	w.now = w.now.Add(time.Minute)
	w.drain(w.worker)
	d = w.delivery(e.PostID)
	if d.State != delivery.Complete || *d.ChunksDone != 5 || *d.ChunksTotal != 5 || *d.Delivered != 31 || !d.CompletedAt.Equal(w.now) {
		t.Errorf("at the end: %+v", d)
	}
	w.deletePost(e.PostID)
	assert.Equal(t, delivery.Complete, w.delivery(e.PostID).State, "deleted afterwards")
	unborn := w.post()
	w.deletePost(unborn.PostID)
	w.must(w.worker.HandlePosts(t.Context(), unborn))
	if d := w.delivery(unborn.PostID); d.State != delivery.Cancelled || d.Planned != nil {
		t.Errorf("deleted before it began: %+v", d)
	}
}

// If an outage is longer than the queue keeps messages, messages are lost. One more publish of
// the post repairs the delivery, whichever message was lost.
func TestAPostPublishedAgainCompletesADeliveryThatLostAMessage(t *testing.T) {
	const followers = 40
	for lost := 0; ; lost++ {
		w := newWorld(t, followers, small)
		e := w.post()
		w.enqueue(e)
		handled := 0
		for m := w.take(); m != nil; m = w.take() {
			if handled++; handled-1 != lost {
				w.must(handle(t.Context(), w.worker, m))
			}
		}
		if handled <= lost {
			break // no message was lost
		}
		_, err := w.EnsurePost(t.Context(), e) // the API stores the post
		require.NoError(t, err)
		assert.NotEqualf(t, delivery.Complete, w.delivery(e.PostID).State,
			"without its message %d the delivery is complete", lost)
		w.enqueue(e)
		w.drain(w.worker)
		w.wantDelivered(e.PostID, followers)
	}
}

// The author of a post may ask for the state of its delivery any number of times. For a post
// with very many chunks, an answer reads one page of chunks at most, and the last answer is
// exact.
func TestTheDeliveryOfAPostWithManyChunksCostsABoundedNumberOfUnits(t *testing.T) {
	const chunks, most = 2500, 25 // RCU: 1,000 chunks of 75 bytes, the plan and the post
	for name, take := range map[string]func(w *world) messages.Event{
		"in order": (*world).take,
		"the first chunk last": func(w *world) messages.Event {
			if e := w.take(); len(w.queued) == 0 {
				return e
			} else if c, ok := e.(*messages.FanoutChunk); !ok || c.First != "" {
				return e
			} else {
				w.enqueue(c)
				return w.take()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, chunks, func(c *fanout.Config) { c.PageSize, c.ChunkSize = 2, 1 })
			e := w.post()
			w.enqueue(e)
			var units table.Units
			store := table.Measure(w.mem, func(_ table.Op, u table.Units, _ error) { units = units.Plus(u) })
			reader := delivery.New(access.New(access.Config{Store: store, Now: w.clock, Lifetimes: lifetime.Fixed(timelineTTL)}))
			ask := func() delivery.Progress {
				t.Helper()
				units = table.Units{}
				d, err := reader.Delivery(t.Context(), author, e.PostID)
				w.must(err)
				require.LessOrEqual(t, units.Read, float64(most))
				require.LessOrEqual(t, units.Write, 0.0)
				return d
			}
			handled := 0
			for m := take(w); m != nil; m = take(w) {
				if w.must(handle(t.Context(), w.worker, m)); handled%250 == 1 {
					if d := ask(); d.State != delivery.Running && len(w.queued) > 0 || *d.Delivered > chunks+1 {
						t.Fatalf("after %d messages: %s, %d delivered", handled, d.State, *d.Delivered)
					}
				}
				handled++
			}
			if d := ask(); d.State != delivery.Complete || *d.Delivered != chunks+1 || *d.ChunksDone != *d.ChunksTotal || *d.ChunksTotal < chunks || d.CompletedAt == nil {
				t.Errorf("at the end: %+v", d)
			}
		})
	}
}
