package live_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// returning gives user a number of followees, and makes user a returning reader, whose home is read by
// pull.
func (a *api) returning(t *testing.T, user string, followees int) (names []string) {
	t.Helper()
	put := func(it table.Item) {
		_, err := a.store.Put(t.Context(), table.PutInput{Item: it})
		require.NoError(t, err)
	}
	for i := range followees {
		names = append(names, fmt.Sprintf("author%03d", i))
		put(schema.FollowingItem(user, names[i], time.Now(), ""))
	}
	put(schema.Presence{User: user, State: schema.PresenceReturning, Until: schema.DayOf(time.Now()) - 1, V: 1}.Item())
	return names
}

// A client was away for 900 posts. The client gets each of these posts and then each new post,
// whatever the duration of a table call is, with heartbeats between the posts.
func TestAReplayOnASlowTableReachesTheEnd(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 110 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second} {
		for _, followees := range []int{1, 900} {
			t.Run(fmt.Sprint(latency, followees), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := newAPI(t, tabletest.NewMemory())
					names := []string{"author"}
					if followees > 1 {
						names = a.returning(t, "ann", followees)
					} else {
						_, err := a.store.Put(t.Context(), table.PutInput{Item: schema.FollowingItem("ann", "author", time.Now(), "")})
						require.NoError(t, err)
					}
					_, last := a.client(t, "ann", "").leave()
					var want []string
					for i := range 900 {
						<-time.After(time.Millisecond)
						author := names[i%followees]
						want = append(want, a.post(t, author))
						a.deliver(t, author, want[i], "ann")
					}
					a.slow(latency)
					c := a.client(t, "ann", last)
					began := time.Now()
					c.wait(t, 900)
					took := time.Since(began)
					<-time.After(time.Minute)
					want = append(want, a.post(t, names[0]))
					a.deliver(t, names[0], want[900], "ann")
					c.wait(t, 901)
					a.slow(0)
					got, _ := c.leave()
					assert.Equal(t, want, got)
					assert.GreaterOrEqual(t, c.beats, int((took+time.Minute)/live.Heartbeat), "signs of life")
				})
			})
		}
	}
}

// A table that fails in the middle of a replay ends the stream. The client keeps the posts that the
// stream has sent.
func TestAReplayThatFailsGetsFurther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory())
		_, last := a.client(t, "ann", "").leave()
		var want, got []string
		for range 100 {
			want = append(want, a.post(t, "author"))
			a.deliver(t, "author", want[len(want)-1], "ann")
		}
		for streams := 0; len(got) < len(want); streams++ {
			require.Less(t, streams, 10)
			c := a.client(t, "ann", last)
			a.breakAfter(6)
			<-time.After(time.Second)
			posts, position := c.leave()
			require.NotEmpty(t, posts)
			require.NotEqual(t, last, position)
			got, last = append(got, posts...), position
		}
		assert.Equal(t, want, got)
	})
}

// A stream joins the other streams of its user, which still have a thousand posts to send. The new
// stream begins with the first event after its opening.
func TestANewStreamSendsNothingThatWasThereBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory())
		old := a.client(t, "ann", "")
		synctest.Wait()
		var want []string
		var entries []table.BatchWrite
		for range 1500 {
			want = append(want, a.post(t, "author"))
			entries = append(entries, table.BatchWrite{Put: &table.Item{
				Key: table.Key{PK: schema.TimelinePK("ann"), SK: schema.EntrySK(want[len(want)-1], "author")}, Attrs: schema.EntryAttrs(time.Now().Add(time.Hour), 1),
			}})
		}
		for len(entries) > 0 { // all entries at once: no look runs between the entries
			n := min(len(entries), table.MaxBatchWrite)
			_, err := a.store.BatchWrite(t.Context(), entries[:n])
			require.NoError(t, err)
			entries = entries[n:]
		}
		fresh := a.client(t, "ann", "")
		old.wait(t, 1500)
		now := a.post(t, "author")
		a.deliver(t, "author", now, "ann")
		fresh.wait(t, 1)
		old.wait(t, 1501)
		posts, _ := fresh.leave()
		assert.Equal(t, []string{now}, posts)
		posts, _ = old.leave()
		assert.Equal(t, append(want, now), posts)
	})
}

func (a *api) slow(latency time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.latency = latency
}

// breakAfter makes one read fail after n reads.
func (a *api) breakAfter(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.breaks = n + 1
}

// wait waits until the client has n posts.
func (c *client) wait(t *testing.T, n int) {
	t.Helper()
	got := func() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.posts) }
	for deadline := time.Now().Add(time.Hour); got() < n; <-time.After(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d posts of %d", got(), n)
		}
		select {
		case err := <-c.done:
			t.Fatalf("the stream ended: %v", err)
		default:
		}
	}
}

// countingHomes counts the looks at homes.
type countingHomes struct {
	live.Homes
	looks atomic.Int64
}

func (h *countingHomes) Arrivals(ctx context.Context, viewer string, seen *home.Streamed) iter.Seq2[[]feed.HomeItem, error] {
	h.looks.Add(1)
	return h.Homes.Arrivals(ctx, viewer, seen)
}

// A process may stop while a stream opens. Then the stream makes no read, because no client waits for
// the stream.
func TestAStreamOfAStoppedHubReadsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		homes := &countingHomes{}
		a := newAPI(t, tabletest.NewMemory(), func(c *live.Config) { homes.Homes, c.Homes = c.Homes, homes })
		_, last := a.client(t, "ann", "").leave()
		st, err := a.Open(t.Context(), live.Caller{User: "ann"}, last)
		require.NoError(t, err)
		defer st.Close()
		a.Close()
		require.NoError(t, st.Serve(t.Context(), func([]byte) error { return nil }))
		assert.Zero(t, homes.looks.Load())
	})
}
