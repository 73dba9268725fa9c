package feed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/view"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

func (w *world) block(user, other string) {
	w.t.Helper()
	require.NoError(w.t, w.Block(w.t.Context(), user, other))
}

func (w *world) unblock(user, other string) {
	w.t.Helper()
	require.NoError(w.t, w.Unblock(w.t.Context(), user, other))
}

// refused checks that a block refuses all follows, comments and likes between two users, or that all
// are accepted. Each of the two users has a post.
func (w *world) refused(posts map[string]feed.Post, user, other string, want bool) {
	w.t.Helper()
	for _, pair := range [][2]string{{user, other}, {other, user}} {
		for what, do := range map[string]func() error{
			"comment": func() error {
				_, err := w.CreateComment(w.t.Context(), pair[0], posts[pair[1]].ID, "a word")
				return err
			},
			"like":   func() error { return w.Like(w.t.Context(), pair[0], posts[pair[1]].ID) },
			"follow": func() error { return w.Follow(w.t.Context(), pair[0], pair[1]) },
		} {
			err := do()
			e, ok := errors.AsType[*fault.Error](err)
			if refused := ok && e.Kind == fault.Blocked; refused != want || !refused && err != nil {
				w.t.Errorf("%s by %s to %s: %v, refused should be %v", what, pair[0], pair[1], err, want)
			}
		}
		assert.NoError(w.t, w.Unlike(w.t.Context(), pair[0], posts[pair[1]].ID))
		_, err := w.CreateComment(w.t.Context(), pair[0], posts[pair[0]].ID, "to oneself")
		assert.NoError(w.t, err)
	}
}

func TestABlockEndsFollowsAndRefusesWhatTheTwoDo(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid")
	for _, pair := range [][2]string{{"ann", "bob"}, {"bob", "ann"}, {"cid", "ann"}, {"cid", "bob"}} {
		w.follow(pair[0], pair[1])
	}
	posts := map[string]feed.Post{"ann": w.post("ann", "a"), "bob": w.post("bob", "b"), "cid": w.post("cid", "c")}
	w.deliver()
	w.refused(posts, "ann", "bob", false)
	w.block("ann", "bob")
	w.block("ann", "bob")
	w.homes("ann", "a")
	w.homes("bob", "b")
	w.homes("cid", "c", "b", "a")
	w.checkCounts("ann", "bob", "cid")
	w.refused(posts, "ann", "bob", true)
	w.refused(posts, "bob", "cid", false)
	w.clock.add(time.Second)
	w.block("bob", "ann")
	w.checkCounts("ann", "bob", "cid")
	w.unblock("ann", "bob")
	w.unblock("ann", "bob")
	w.refused(posts, "ann", "bob", true) // bob blocks ann
	w.unblock("bob", "ann")
	assert.Empty(t, w.partition(schema.BlocksPK("ann")))
	assert.Empty(t, w.partition(schema.BlocksPK("bob")))
	r, err := w.Relationship(t.Context(), "ann", "ann", "bob")
	require.NoError(t, err)
	assert.Equal(t, feed.Relationship{}, r, "follows do not come back")
	w.refused(posts, "ann", "bob", false)
	w.checkCounts("ann", "bob", "cid")
}

func TestRefusedBlocks(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	wantKind(t, w.Block(t.Context(), "ann", "ann"), fault.Invalid)
	wantKind(t, w.Unblock(t.Context(), "ann", "ann"), fault.Invalid)
	wantKind(t, w.Block(t.Context(), "ann", "nobody"), fault.NotFound)
	wantKind(t, w.Unblock(t.Context(), "ann", "nobody"), fault.NotFound)
	wantKind(t, w.Block(t.Context(), "new", "ann"), fault.ProfileMissing)
	wantKind(t, w.Unblock(t.Context(), "new", "ann"), fault.ProfileMissing)
}

// A list of blocks leaves out blocks by other users. If many users block the list's user, the pages of
// the list end within their budget (I11).
func TestBlocksAreListedByUserID(t *testing.T) {
	w, tp := tapped(t)
	names := w.crowd("ann", 7, 0)
	var want []feed.Edge
	for i, name := range names {
		w.clock.add(time.Second)
		if w.block(name, "ann"); i%2 == 0 {
			w.block("ann", name)
			want = append(want, feed.Edge{UserID: name, Since: w.clock.now()})
		}
	}
	var items []table.Item
	for _, name := range numbered(20_000, "sybil") {
		items = append(items, schema.Block{User: "ann", Other: name, By: w.clock.now()}.Item())
	}
	w.put(items...)
	for _, limit := range []int{1, 3, 100} {
		got := wholeList(t, tp, limit, tableCalls, 20_000/8000+6, func(in page.Request) (page.List[feed.Edge], error) { return w.Blocks(t.Context(), "ann", in) })
		assert.Equal(t, want, got)
	}
	views, err := viewed(t.Context(), w.EdgeViews, "ann")(w.Blocks(t.Context(), "ann", page.Request{Limit: 1}))
	require.NoError(t, err)
	assert.Equal(t, view.User{HomeAuthor: feed.HomeAuthor{ID: names[0], Name: "Name of " + names[0]}}, views.Items[0].User)
}

// between calls do before the first transaction, as a concurrent call of another process.
type between struct {
	table.Store
	do func()
}

func (s *between) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if do := s.do; do != nil {
		s.do = nil
		do()
	}
	return s.Store.Transact(ctx, in)
}

// A block and a follow read at the same time, and write in either order. No order leaves a follow and
// a block together.
func TestNoFollowOutlastsABlock(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second func(w *world, process *domain) error
	}{
		{"block, then follow", follows("ann", "bob"), blocks("bob", "ann")},
		{"block by the follower, then follow", follows("ann", "bob"), blocks("ann", "bob")},
		{"follow, then block", blocks("bob", "ann"), follows("ann", "bob")},
		{"follow, then block by the follower", blocks("ann", "bob"), follows("ann", "bob")},
		{"two blocks", blocks("ann", "bob"), blocks("bob", "ann")},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &between{}
			w := newWorld(t, func(cfg *config) { store.Store = cfg.Store; cfg.Store = store })
			w.users("ann", "bob")
			w.follow("bob", "ann")
			other := w.with().domain
			store.do = func() { assert.NoError(t, c.second(w, other)) }
			if err := c.first(w, w.domain); err != nil {
				wantKind(t, err, fault.Blocked)
			}
			w.checkCounts("ann", "bob")
			assert.NotEmpty(t, w.partition(schema.BlocksPK("ann")))
			assert.Empty(t, w.partition(schema.FollowingPK("ann")))
			assert.Empty(t, w.partition(schema.FollowingPK("bob")))
		})
	}
}

func follows(follower, author string) func(*world, *domain) error {
	return func(w *world, s *domain) error { return s.Follow(w.t.Context(), follower, author) }
}

func blocks(user, other string) func(*world, *domain) error {
	return func(w *world, s *domain) error { return s.Block(w.t.Context(), user, other) }
}

// Three processes follow, unfollow, block and unblock at the same time.
func TestFollowsAndBlocksAtOnceEndExact(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			store := &contended{Store: tabletest.NewMemory(), busy: map[table.Key]bool{}, sent: map[table.Key]int{}}
			processes := make([]*world, 3)
			for i := range processes {
				processes[i] = newWorld(t, func(c *config) { c.Store, c.Jitter = store, nil })
			}
			users := numbered(4, "user")
			processes[0].users(users...)
			var all sync.WaitGroup
			for n := range 12 {
				rng := rand.New(rand.NewPCG(seed, uint64(n)))
				all.Go(func() {
					w := processes[n%len(processes)]
					for range 10 {
						user, other := users[rng.IntN(len(users))], users[rng.IntN(len(users))]
						acts := []func(context.Context, string, string) error{w.Follow, w.Follow, w.Unfollow, w.Block, w.Unblock}
						err := acts[rng.IntN(len(acts))](t.Context(), user, other)
						if e, ok := errors.AsType[*fault.Error](err); err != nil && (!ok || user != other && e.Kind != fault.Blocked && e.Kind != fault.Unavailable) {
							t.Errorf("%s and %s: %v", user, other, err)
						}
					}
				})
			}
			all.Wait()
			processes[0].checkCounts(users...)
		})
	}
}

func TestARepairMakesNoFollowOverABlock(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.block("ann", "bob")
	w.put(schema.FollowingItem("bob", "ann", w.clock.now(), id.Min))
	mended, err := w.MendFollow(t.Context(), "bob", "ann")
	require.NoError(t, err)
	assert.True(t, mended)
	w.checkCounts("ann", "bob")
}

// Every process refuses a like by a blocked user within two seconds. For an author without blocks, a
// process makes one read in that time.
func TestALikeIsRefusedSoonAfterABlock(t *testing.T) {
	w, tp := tapped(t, sharing)
	w.users("ann", "bob", "cid")
	p := w.post("ann", "a")
	like := func(user string) (calls int, err error) {
		tp.take()
		err = w.Like(t.Context(), user, p.ID)
		return len(tp.take()), err
	}
	calls, err := like("bob")
	require.NoError(t, err)
	assert.Equal(t, 4, calls, "with the look for blocks of the author")
	for range 3 {
		calls, err = like("cid")
		require.NoError(t, err)
		assert.Equal(t, 3, calls, "which the process shares")
	}
	require.NoError(t, w.with(sharing).Block(t.Context(), "ann", "bob"))
	w.clock.add(2 * time.Second)
	_, err = like("bob")
	wantKind(t, err, fault.Blocked)
	calls, err = like("cid")
	require.NoError(t, err)
	assert.Equal(t, 4, calls, "with the look for a block between the two")
	require.NoError(t, w.with(sharing).Unblock(t.Context(), "ann", "bob"))
	_, err = like("bob")
	assert.NoError(t, err)
}

// A block that has ended refuses no like, although eventually consistent reads still return the block.
func TestALikeIsTakenAfterAnUnblock(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorldAt(t, newClock(), func(c *config) { c.Store = tabletest.Stale(tabletest.NewMemory(), seed) })
		w.users("ann", "bob")
		p := w.post("ann", "a")
		require.NoError(t, w.Block(t.Context(), "ann", "bob"))
		require.NoError(t, w.Unblock(t.Context(), "ann", "bob"))
		require.NoError(t, w.Like(t.Context(), "bob", p.ID), "seed %d", seed)
	}
}

// A removed user's own blocks end. Blocks by other users stay.
func TestNothingIsLeftOfTheBlocksByAForgottenUser(t *testing.T) {
	for _, most := range []int{1, 1000} {
		w, _, _ := full(t)
		w.users("dan", "eve")
		w.block("ann", "bob")
		w.block("dan", "ann")
		w.block("ann", "eve")
		w.block("eve", "ann")
		w.block("eve", "dan")
		w.clock.add(time.Second)
		require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
		event := w.published.take()[0].Head().EventID
		w.clock.add(time.Second)
		w.users("ann")
		w.block("cid", "ann")
		w.block("ann", "cid")
		all := w.forget("ann", event, most)
		assert.Equal(t, 2, all.Blocks)
		for user, want := range map[string]int{"ann": 3, "bob": 0, "cid": 1, "dan": 2, "eve": 2} {
			assert.Lenf(t, w.partition(schema.BlocksPK(user)), want, "%s, most %d", user, most)
		}
		w.checkHidden("ann")
		w.checkCounts("ann", "bob", "cid", "dan", "eve")
	}
}

// A repeated block ends follows, and repairs sides that differ because of damage.
func TestABlockAgainMendsItself(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.follow("bob", "ann")
	w.put(schema.Block{User: "ann", Other: "bob", Since: w.clock.now()}.Item())
	w.block("ann", "bob")
	w.checkCounts("ann", "bob")
	assert.Empty(t, w.partition(schema.FollowingPK("bob")))
	for n, damaged := range []schema.Block{{User: "bob", Other: "ann", By: w.clock.now().Add(time.Hour)}, {User: "bob", Other: "ann", Since: w.clock.now()}} {
		w.put(damaged.Item())
		w.block("ann", "bob")
		w.checkHidden("ann")
		w.checkHidden("bob")
		assert.Lenf(t, w.partition(schema.BlocksPK("bob")), 1, fmt.Sprint(n))
	}
}

// sides has the times of the blocks between ann and bob, by ann's side and by bob's side.
type sides struct{ ann, by, bob, byAnn time.Time }

func (w *world) putSides(s sides) {
	w.t.Helper()
	for _, b := range []schema.Block{{User: "ann", Other: "bob", Since: s.ann, By: s.by}, {User: "bob", Other: "ann", Since: s.bob, By: s.byAnn}} {
		if !b.Since.IsZero() || !b.By.IsZero() {
			w.put(b.Item())
		}
	}
}

func (w *world) sides() (s sides) {
	w.t.Helper()
	if it := w.item(schema.BlockKey("ann", "bob")); it != nil {
		b, err := schema.ParseBlock(*it)
		require.NoError(w.t, err)
		s.ann, s.by = b.Since, b.By
	}
	if it := w.item(schema.BlockKey("bob", "ann")); it != nil {
		b, err := schema.ParseBlock(*it)
		require.NoError(w.t, err)
		s.bob, s.byAnn = b.Since, b.By
	}
	return s
}

// Each user's partition has one side of a block. A repair restores a lost side from the remaining
// side.
func TestSidesOfBlocksAreMadeToAgree(t *testing.T) {
	first, second, wrong, none := longAgo, longAgo.Add(time.Hour), longAgo.Add(2*time.Hour), time.Time{}
	for left, want := range map[sides]sides{
		{}:                             {},
		{first, none, none, first}:     {first, none, none, first},
		{none, second, second, none}:   {none, second, second, none},
		{first, second, second, first}: {first, second, second, first},
		{ann: first}:                   {first, none, none, first},
		{by: second}:                   {none, second, second, none},
		{ann: first, by: second}:       {first, second, second, first},
		{bob: second}:                  {none, second, second, none},
		{byAnn: first}:                 {first, none, none, first},
		{bob: second, byAnn: first}:    {first, second, second, first},
		{first, none, none, wrong}:     {first, none, none, first},
		{none, wrong, second, none}:    {none, second, second, none},
		{first, second, none, first}:   {first, none, none, first},
		{first, none, second, none}:    {first, second, second, first},
		{none, second, none, first}:    {},
	} {
		for _, users := range [][2]string{{"ann", "bob"}, {"bob", "ann"}} {
			eachCallFails(t, func(w *world) { w.users("ann", "bob"); w.putSides(left) },
				func(w *world) error { _, err := w.MendBlock(t.Context(), users[0], users[1]); return err },
				func(w *world) { assert.Equalf(t, want, w.sides(), "%+v", left) })
			w := newWorld(t)
			w.users("ann", "bob")
			w.putSides(left)
			for n, changes := range []bool{left != want, false} {
				mended, err := w.MendBlock(t.Context(), users[0], users[1])
				require.NoError(t, err)
				assert.Equalf(t, changes, mended, "%+v, call %d", left, n)
			}
		}
	}
}

// Another process changes a side between the read and the transaction of a repair. Then the repair
// writes nothing.
func TestARepairOfABlockYieldsToOtherCalls(t *testing.T) {
	later := longAgo.Add(time.Hour)
	for _, meanwhile := range []sides{{ann: later}, {ann: longAgo, by: later}, {ann: longAgo, byAnn: later}, {ann: longAgo, bob: later}} {
		w, store := onTransact(t)
		w.users("ann", "bob")
		w.putSides(sides{ann: longAgo, bob: longAgo})
		store.do = func() { w.putSides(meanwhile) }
		want := meanwhile
		if want.bob.IsZero() && want.byAnn.IsZero() {
			want.bob = longAgo
		}
		mended, err := w.MendBlock(t.Context(), "ann", "bob")
		require.NoError(t, err)
		assert.False(t, mended)
		assert.Equal(t, want, w.sides())
	}
	w := newWorld(t)
	w.users("ann", "bob")
	w.put(table.Item{Key: schema.BlockKey("bob", "ann")})
	_, err := w.MendBlock(t.Context(), "ann", "bob")
	wantDamage(t, err)
	wantDamage(t, w.Block(t.Context(), "ann", "bob"))
	wantDamage(t, w.Unblock(t.Context(), "ann", "bob"))
}

// A repeated block keeps the first time, and the second call writes nothing. An unblock without a
// block writes nothing either.
func TestABlockAgainWritesNothing(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	w.follow("bob", "ann")
	made := w.clock.now()
	twice := func(do func() error, want sides) {
		t.Helper()
		require.NoError(t, do())
		w.clock.add(time.Second)
		tp.take()
		require.NoError(t, do())
		for _, c := range tp.take() {
			assert.False(t, isWrite(c), c.String())
		}
		assert.Equal(t, want, w.sides())
	}
	twice(func() error { return w.Block(t.Context(), "ann", "bob") }, sides{ann: made, byAnn: made})
	back := w.clock.now()
	twice(func() error { return w.Block(t.Context(), "bob", "ann") }, sides{ann: made, by: back, bob: back, byAnn: made})
	twice(func() error { return w.Unblock(t.Context(), "ann", "bob") }, sides{by: back, bob: back})
	twice(func() error { return w.Unblock(t.Context(), "bob", "ann") }, sides{})
}

// The next block restores a lost note of blocks, because likes read the note first.
func TestABlockAgainMakesTheNotesAgain(t *testing.T) {
	for _, user := range []string{"ann", "bob"} {
		w := newWorld(t)
		w.users("ann", "bob")
		w.block("ann", "bob")
		note := *w.item(schema.HasBlocksKey(user))
		_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: note.Key})
		require.NoError(t, err)
		w.block("ann", "bob")
		assert.Equal(t, &note, w.item(note.Key))
	}
}

// Only a part of a block is visible: a read returns the old state of the blocker's side, and the new
// state of the blocked user's side. A repeated call of the blocked user keeps the block on both sides
// (I12).
func TestABlockIsRepeatedWhileTheOthersBlockBecomesVisible(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	w.block("bob", "ann")
	key := schema.BlockKey("ann", "bob")
	former := w.item(key)
	w.block("ann", "bob")
	now := w.item(key)
	side := func(it *table.Item) {
		_, err := tp.Store.Put(t.Context(), table.PutInput{Item: *it})
		require.NoError(t, err)
	}
	read := false
	tp.set(func(c call) failure {
		switch {
		case c.op == table.OpBatchGet && !read:
			side(former)
			read = true
		case c.op == table.OpTransact:
			side(now)
		}
		return works
	})
	w.block("bob", "ann")
	tp.set(nil)
	side(now)
	for _, of := range [][2]string{{"ann", "bob"}, {"bob", "ann"}} {
		it := w.item(schema.BlockKey(of[0], of[1]))
		require.NotNil(t, it)
		b, err := schema.ParseBlock(*it)
		require.NoError(t, err)
		assert.False(t, b.Since.IsZero() || b.By.IsZero(), "the side of %s has one block: %+v", of[0], b)
	}
}
