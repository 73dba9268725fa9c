package audit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/audit"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
	"fanfare/internal/table/tabletest"
)

// holding is a table in which flushes of likes wait while held is not nil. The stamps of the likes are
// written before the wait, and the counts after the wait.
type holding struct {
	table.Store
	mu      sync.Mutex
	held    chan struct{}
	waiting int
}

func (h *holding) hold() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := make(chan struct{})
	h.held, h.waiting = held, 0
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.held = nil
		close(held)
	})
}

func (h *holding) waits() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting > 0
}

func (h *holding) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	h.mu.Lock()
	held := h.held
	flush := strings.HasSuffix(in.Key.PK, "#likecount") && len(in.Add) > 0
	if held != nil && flush {
		h.waiting++
	}
	h.mu.Unlock()
	if held != nil && flush {
		<-held
	}
	return h.Store.Update(ctx, in)
}

// copyOf copies a table by a scan, page by page, so the pages are from different moments.
func copyOf(t *testing.T, store table.Store, pause func()) *tabletest.Memory {
	t.Helper()
	to := tabletest.NewMemory()
	for in := (table.ScanInput{PageSize: 7}); ; {
		page, err := store.Scan(t.Context(), in)
		require.NoError(t, err)
		for _, it := range page.Items {
			_, err := to.Put(t.Context(), table.PutInput{Item: it})
			require.NoError(t, err)
		}
		if in.After = page.Next; in.After == (table.Key{}) {
			return to
		}
		pause()
	}
}

// repaired walks with repairs until a walk finds nothing, as fanfare verify --repair does.
func (w *world) repaired(restoredTo time.Time) (found map[audit.Kind]int) {
	w.t.Helper()
	found = map[audit.Kind]int{}
	for range 5 {
		all, sum := w.walkAfter(restoredTo, true)
		for _, f := range all {
			found[f.Kind]++
		}
		w.quiet()
		if len(all) == 0 && sum.Undecided == 0 {
			break
		}
	}
	all, _ := w.walkAfter(restoredTo, false)
	assert.Empty(w.t, all, "after the repair")
	return found
}

// likers returns the number of likes of a post with one shard.
func (w *world) likers(post string) (n int64) {
	w.t.Helper()
	items, _, err := table.Collect(w.store.Query(w.t.Context(), table.Query{PK: schema.LikesPK(post, 0, 1), Consistent: true}), 0)
	w.must(err)
	for _, it := range items {
		n += it.Int(schema.AttrState)
	}
	return n
}

func (w *world) likeCount(post string) int64 {
	w.t.Helper()
	it := w.item(schema.LikeCountKey(post))
	return schema.ParseLikeCount(it).Likes()
}

// The table is copied between the stamps of ten likes and their flush. Then the flush happens, and the
// messages are acknowledged. The system continues on the copy, and no process will count the ten likes.
func TestARestoreBetweenStampAndFlushIsRepaired(t *testing.T) {
	t.Parallel()
	for name, unlike := range map[string]bool{"likes": false, "likes that are taken back": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &holding{Store: tabletest.NewMemory()}
				w := newWorld(t, store)
				fans := []string{"ann"}
				for i := range 10 {
					fans = append(fans, fmt.Sprintf("fan%d", i))
				}
				w.people(fans...)
				post := w.post("ann")
				act, before := w.Like, int64(0)
				if unlike {
					for _, fan := range fans[1:] {
						w.must(w.Like(t.Context(), fan, post))
					}
					w.quiet()
					act, before = w.Unlike, 10
				}
				release := store.hold()
				for _, fan := range fans[1:] {
					w.must(act(t.Context(), fan, post))
				}
				w.until("the stamps", store.waits)
				restored := copyOf(t, store, func() {})
				restoredTo := w.now()
				release()
				w.quiet()
				require.Equal(t, w.likers(post), w.likeCount(post), "before the disaster")
				w.stop()

				w.run(restored)
				require.Equal(t, before, w.likeCount(post), "after the restore")
				likers := w.likers(post)
				require.NotEqual(t, before, likers)
				all, _ := w.walk(true)
				assert.Empty(t, all, "without the time of the restore it looks like work that is half done")
				all, _ = w.walkAfter(restoredTo.Add(-25*time.Hour), true)
				assert.Empty(t, all, "younger work is left to its aggregator")
				all, sum := w.walkAfter(restoredTo, false)
				require.Len(t, all, 1)
				assert.Equal(t, audit.LikeUncounted, all[0].Kind)
				assert.Equal(t, schema.LikeCountKey(post).PK, all[0].PK)
				assert.Equal(t, 1, sum.Left)
				require.Equal(t, before, w.likeCount(post), "a walk without repairs changes nothing")
				assert.Equal(t, map[audit.Kind]int{audit.LikeUncounted: 1}, w.repaired(restoredTo))
				assert.Equal(t, likers, w.likeCount(post))
				for _, fan := range fans[1:4] { // later actions are counted correctly, too
					w.must(w.Like(t.Context(), fan, post))
					w.must(w.Unlike(t.Context(), fan, post))
				}
				w.quiet()
				assert.Equal(t, w.likers(post), w.likeCount(post))
			})
		})
	}
}

// A copy may have the fence of an incarnation, but not yet the stamp of the aggregator that made the fence and
// took over the like.
func TestARestoreBetweenAFenceAndItsStampIsRepaired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		w.people("ann", "bob")
		post := w.post("ann")
		w.quiet()
		like := uncounted(w, post, "bob", time.Hour)
		w.put(like.Item())
		w.put(table.Item{Key: schema.LikeCountKey(post), Attrs: []table.Attr{attr(schema.AttrFenced(like.Flush.Inc), table.N(1))}})
		assert.Equal(t, map[audit.Kind]int{audit.LikeUncounted: 1}, w.repaired(w.now()))
		assert.Equal(t, int64(1), w.likeCount(post))
	})
}

// A copy may have the end of an incarnation, but the count from before the last flush.
func TestARestoreOfAnEndWithoutItsLastFlushIsRepaired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		w.people("ann", "bob", "carl")
		post := w.post("ann")
		w.quiet()
		first, last := uncounted(w, post, "bob", time.Hour), uncounted(w, post, "carl", time.Hour)
		last.Flush.Seq = 2
		w.put(first.Item())
		w.put(last.Item())
		w.put(schema.LikeEnd{Inc: last.Flush.Inc}.Item())
		w.put(table.Item{Key: schema.LikeCountKey(post), Attrs: []table.Attr{
			attr(schema.AttrLikes, table.N(1)), attr(schema.AttrFlushed(last.Flush.Inc), table.N(1)),
		}})
		w.must(w.Unlike(t.Context(), "carl", post)) // this unlike reads the like in the same way as the repair
		w.quiet()
		assert.Equal(t, map[audit.Kind]int{audit.LikeCount: 1}, w.repaired(w.now()))
		assert.Equal(t, int64(1), w.likeCount(post))
		w.must(w.Like(t.Context(), "carl", post))
		w.quiet()
		assert.Equal(t, int64(2), w.likeCount(post))
	})
}

// A scan copies the table in the middle of a load. Then all processes stop at the same time, the queues
// stay, and new processes run on the copy. After the repair every count equals the number of its items.
func TestARestoreInTheMiddleOfALoadEndsExact(t *testing.T) {
	t.Parallel()
	uncounted := 0
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			store := &holding{Store: tabletest.NewMemory()}
			w, posts := town(t, store)
			load, stopLoad := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			defer clients.Wait()
			defer stopLoad()
			acts := make(chan struct{}, 1<<16)
			for i := range 3 {
				clients.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					for load.Err() == nil {
						_ = w.restoreAct(load, fmt.Sprintf("fan%d", i), posts, rng) // a conflict does no harm
						acts <- struct{}{}
					}
				})
			}
			acted := func(n int) {
				for range n {
					<-acts
				}
			}
			acted(30)
			release := func() {}
			if seed%2 == 0 { // each window that begins now is unfinished in the copy
				release = store.hold()
				w.until("a stamp", store.waits)
			}
			copied := copyOf(t, store, func() { acted(1) })
			restoredTo := w.now()
			release()
			acted(20)
			w.stop() // unanswered messages stay in the queues
			stopLoad()
			clients.Wait()

			w.run(copied)
			found := w.repaired(restoredTo)
			uncounted += found[audit.LikeUncounted]
			w.wantExact()
		})
	}
	assert.Positive(t, uncounted, "the copies had open likes")
}

// restoreAct makes one random call that changes a count.
func (w *world) restoreAct(ctx context.Context, fan string, posts []string, rng *rand.Rand) error {
	post := posts[rng.IntN(len(posts))]
	switch rng.IntN(8) {
	case 0:
		return w.Follow(ctx, fan, "eve")
	case 1:
		return w.Unfollow(ctx, fan, "eve")
	case 2:
		c, err := w.CreateComment(ctx, fan, post, "yes")
		if err != nil || rng.IntN(2) == 0 {
			return err
		}
		return w.DeleteComment(ctx, fan, post, c.ID)
	case 3, 4:
		return w.Unlike(ctx, fan, post)
	default:
		return w.Like(ctx, fan, post)
	}
}

// wantExact compares each count with the number of its items, without the counting code of the product.
func (w *world) wantExact() {
	w.t.Helper()
	likers, comments, followers, following := map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}
	items := copyOf(w.t, w.store, func() {})
	page, err := items.Scan(w.t.Context(), table.ScanInput{PageSize: 100_000})
	w.must(err)
	each := func(suffix string, do func(name string, it table.Item)) {
		for _, it := range page.Items {
			if name, list, _ := strings.Cut(it.Key.PK[len("p#"):], "#"); list == suffix {
				do(name, it)
			}
		}
	}
	each("likelist", func(post string, it table.Item) { likers[post] += it.Int(schema.AttrState) })
	each("comment", func(post string, _ table.Item) { comments[post]++ })
	each("follower", func(user string, _ table.Item) { followers[user]++ })
	each("following", func(user string, _ table.Item) { following[user]++ })
	for _, it := range page.Items {
		name, list, _ := strings.Cut(it.Key.PK[len("p#"):], "#")
		switch {
		case list == "likecount":
			assert.Equal(w.t, likers[name], it.Int(schema.AttrLikes), "the likes of %s", name)
		case list == "post":
			post, _ := strings.CutPrefix(it.Key.SK, "p#")
			assert.Equal(w.t, comments[post], it.Int(schema.AttrComments), "the comments of %s", post)
		case it.Key == schema.CountsKey(name):
			assert.Equal(w.t, following[name], it.Int(schema.AttrFollowing), "the followees of %s", name)
		}
	}
	for user, n := range followers {
		var sum int64
		for _, key := range schema.FollowerCountKeys(user) {
			if i := slices.IndexFunc(page.Items, func(it table.Item) bool { return it.Key == key }); i >= 0 {
				sum += page.Items[i].Int(schema.AttrN)
			}
		}
		assert.Equal(w.t, n, sum, "the followers of %s", user)
	}
	assert.NotEmpty(w.t, likers)
	assert.NotEmpty(w.t, comments)
	assert.NotEmpty(w.t, followers)
}

// A backup of the embedded engine copies the queue before the table, and stops the queue during both copies.
// So if a window is unfinished in the copy, its messages are also in the copy, and no repair is necessary. If
// the messages are already too old, a walk finds the likes.
func TestABackupBetweenStampAndFlushNeedsNoRepair(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]time.Duration{"at once": 0, "40 days later": 40 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewMem()
				data, err := tableembedded.Create("table", tableembedded.Options{FS: fs, MemoryBytes: 8 << 20})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, data.Close()) })
				store := &holding{Store: data}
				w := &world{t: t}
				w.broker = openQueue(t, "queue", fs, w.now)
				w.run(store)
				w.people("ann", "bob", "carl")
				post := w.post("ann")
				release := store.hold()
				t.Cleanup(release)
				w.must(w.Like(t.Context(), "bob", post))
				w.must(w.Like(t.Context(), "carl", post))
				w.until("a stamp", store.waits)
				w.must(w.broker.Checkpoint(t.Context(), "queue2", func() error { return data.Checkpoint(t.Context(), "table2") }))
				release()
				w.quiet()
				w.stop()

				w.ahead.Store(int64(later))
				restored, err := tableembedded.Create("table2", tableembedded.Options{FS: fs, MemoryBytes: 8 << 20, Now: w.now})
				require.NoError(t, err)
				w.broker = openQueue(t, "queue2", fs, w.now)
				t.Cleanup(func() { require.NoError(t, restored.Close()) })
				w.run(restored)
				dead := func() int {
					letters, err := w.broker.ListDead(t.Context(), queue.TopicLikes, 10)
					w.must(err)
					return len(letters)
				}
				w.until("the end of the messages", func() bool { return dead() == 2 || w.likeCount(post) == 2 })
				w.quiet()
				if later > 0 {
					assert.Zero(t, w.likeCount(post), "the messages are dead letters")
					assert.Equal(t, map[audit.Kind]int{audit.LikeUncounted: 1}, w.repaired(time.Time{}))
				}
				assert.Equal(t, int64(2), w.likeCount(post))
				assert.Equal(t, later > 0, dead() == 2)
				assert.Empty(t, w.repaired(time.Time{}))
			})
		})
	}
}
