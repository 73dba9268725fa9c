package live_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/removal"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

func (a *api) removeProfile(t *testing.T, user string) {
	t.Helper()
	_, err := a.store.Delete(t.Context(), table.DeleteInput{Key: schema.ProfileKey(user)})
	require.NoError(t, err)
}

// A user without a profile cannot open a stream. The user's open streams end within a minute, whatever
// the streams are doing, and one read serves all of them. The streams send no later event. Once the
// user has a profile again, new streams open.
func TestStreamsEndWithTheProfileOfTheirUser(t *testing.T) {
	t.Parallel()
	for _, doing := range []string{"waiting", "resting", "reading"} {
		for after := time.Duration(0); after < 30*time.Second; after += 3 * time.Second {
			t.Run(fmt.Sprint(doing, " ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := tabletest.NewMemory()
					a := newAPI(t, store)
					last := ""
					if doing != "waiting" {
						last = id.Min
						a.fill(t, "ann", 3000, false)
					}
					if doing == "reading" {
						a.slow(500 * time.Millisecond)
					}
					var clients []*client
					for range 8 {
						c, err := a.connect(t, live.Caller{User: "ann"}, last)
						if last == "" {
							require.NoError(t, err)
						}
						if err == nil {
							clients = append(clients, c)
						}
					}
					require.NotEmpty(t, clients)
					<-time.After(after)
					a.store = store // another process removes the user
					a.removeProfile(t, "ann")
					<-time.After(time.Minute)
					synctest.Wait()
					for _, c := range clients {
						require.Len(t, c.done, 1, "a stream is open")
						require.ErrorIs(t, <-c.done, live.ErrNoProfile)
					}
					got := len(clients[0].posts)
					a.deliver(t, "author", a.post(t, "author"), "ann")
					a.slow(0)
					<-time.After(time.Minute)
					assert.Len(t, clients[0].posts, got)
					_, err := a.Open(t.Context(), live.Caller{User: "ann"}, "")
					require.ErrorIs(t, err, live.ErrNoProfile)
					assert.Len(t, a.ended, len(clients))
					assert.Equal(t, "removed", a.ended[0])
					a.profile(t, "ann")
					c := a.client(t, "ann", "")
					<-time.After(time.Minute)
					assert.Empty(t, c.done)
				})
			})
		}
	}
}

// All streams of a home share one read of the profile every 50 seconds. The read costs half a unit.
func TestTheLookAtAProfileIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory())
		var clients []*client
		for range 8 {
			clients = append(clients, a.client(t, "ann", ""))
		}
		reads := func() (n int) { a.mu.Lock(); defer a.mu.Unlock(); defer func() { a.gets = 0 }(); return a.gets }
		assert.Equal(t, 8, reads(), "one for each opening")
		<-time.After(50*time.Minute + time.Second)
		assert.Equal(t, 60, reads())
		a.failReads(true)
		<-time.After(time.Minute)
		assert.Less(t, reads(), 10, "of a table that fails")
		a.failReads(false)
		<-time.After(time.Minute)
		for _, c := range clients {
			assert.Empty(t, c.done, "it outlives a table that fails")
		}
	})
}

// silent is a queue that accepts all messages and delivers none.
type silent struct{ message.Publisher }

func (silent) Publish(string, ...*message.Message) error { return nil }

// removals returns the Removals of another process.
func removals(store table.Store) *removal.Removals {
	way := access.New(access.Config{
		Store: store, Publisher: silent{}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour), Log: zap.NewNop(),
	})
	return removal.New(way, feed.New(feed.Config{Access: way}))
}

// A removal by another process ends the streams of the removed user within seconds, at any time, even
// while the streams' process has used up its units.
func TestStreamsEndSoonAfterARemovalByAnotherProcess(t *testing.T) {
	t.Parallel()
	for _, units := range []int{live.DefaultUnits, 3} {
		for after := time.Duration(0); after < 50*time.Second; after += 7 * time.Second {
			synctest.Test(t, func(t *testing.T) {
				store := tabletest.NewMemory()
				a, _, _ := newHinted(t, store, func(c *live.Config) { c.Units = units })
				ann := a.client(t, "ann", "")
				<-time.After(time.Minute + after)
				began := time.Now()
				for _, user := range []string{"ben", "ann"} {
					_, err := removals(store).AskToForget(t.Context(), user)
					require.NoError(t, err)
				}
				require.ErrorIs(t, <-ann.done, live.ErrNoProfile)
				assert.LessOrEqual(t, time.Since(began), 2*time.Second)
				assert.Equal(t, []string{"removed"}, a.ended)
			})
		}
	}
}

// A late note in the index does not end a stream of the user's next life. The note causes only one
// look at the profile.
func TestANoteOfAFormerLifeEndsNoStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := tabletest.NewMemory()
		a, looks, _ := newHinted(t, store, func(c *live.Config) { c.LikesEach = 1000 * time.Hour })
		ann := a.client(t, "ann", "")
		<-time.After(10 * time.Second)
		synctest.Wait()
		looks.take()
		put(t, store, schema.Removal{User: "ann", Event: id.Floor(time.Now()), At: time.Now()}.NewItem(id.Floor(time.Now())))
		<-time.After(30 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1.0, looks.take(), "one consistent read of the profile")
		assert.Empty(t, ann.done)
	})
}

// A table that fails during the check of a removal does not end the check.
func TestADoubtOutlivesATableThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := tabletest.NewMemory()
		here := newAPI(t, store)
		ann := here.client(t, "ann", "")
		<-time.After(time.Second)
		here.failReads(true)
		here.removeProfile(t, "ann")
		<-time.After(2 * time.Second)
		here.failReads(false)
		began := time.Now()
		require.ErrorIs(t, <-ann.done, live.ErrNoProfile)
		assert.LessOrEqual(t, time.Since(began), 15*time.Second)
	})
}
