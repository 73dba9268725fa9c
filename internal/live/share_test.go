package live_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

const (
	// share is the number of units a second that a user's streams may read, and ahead is the number of
	// units that the streams may read at once.
	share = 100
	ahead = 1000
)

// fill puts n posts into the home of a user. If hidden is set, every post is deleted.
func (a *api) fill(t *testing.T, user string, n int, hidden bool) (posts []string) {
	t.Helper()
	for range n {
		post := a.post(t, "author")
		posts = append(posts, post)
		if hidden {
			_, err := a.store.Put(t.Context(), table.PutInput{Item: schema.PostRef{ID: post, Author: "author", Deleted: true}.Item()})
			require.NoError(t, err)
			_, err = a.store.Delete(t.Context(), table.DeleteInput{Key: schema.PostKey("author", post)})
			require.NoError(t, err)
		}
	}
	for some := range slices.Chunk(posts, table.MaxBatchWrite) {
		for _, post := range some {
			a.deliver(t, "author", post, user)
		}
	}
	return posts
}

// usedBy returns the units that were charged to services after the last call of usedBy.
func (a *api) usedBy() map[string]float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { a.services = map[string]float64{} }()
	return a.services
}

// owe makes a service owe units for the time owed after each charge.
func (a *api) owe(service string, owed time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owed[service] = owed
}

// flap opens eight streams of a user repeatedly at each of some processes, for a time. Each client
// leaves after it has received all posts, or after patience.
func flap(t *testing.T, apis []*api, last string, patience, lasts time.Duration) (refused int) {
	t.Helper()
	var mu sync.Mutex
	var clients sync.WaitGroup
	end := time.Now().Add(lasts)
	for i := range 8 * len(apis) {
		clients.Go(func() {
			for time.Now().Before(end) {
				c, err := apis[i%len(apis)].connect(t, live.Caller{User: "ann"}, last)
				var owes *live.OwesError
				if errors.As(err, &owes) {
					assert.Positive(t, owes.For)
					mu.Lock()
					refused++
					mu.Unlock()
					<-time.After(10 * time.Millisecond) // the client ignores Retry-After
					continue
				}
				if !assert.NoError(t, err) {
					return
				}
				<-time.After(patience)
				c.cancel()
				<-c.done
			}
		})
	}
	clients.Wait()
	return refused
}

// A user opens eight streams, and leaves and returns as soon as the streams have read, with any
// position. The user reads 100 units a second, and at once 1,000 units plus one read. With several
// processes, the user may read as much at each process. All reads are charged.
func TestAUserThatReconnectsReadsNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"all posts", "nothing", "hidden posts", "its position"} {
		for _, processes := range []int{1, 3} {
			t.Run(fmt.Sprint(name, " ", processes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := tabletest.NewMemory()
					var apis []*api
					for range processes {
						apis = append(apis, newAPI(t, store))
					}
					last := id.Min
					apis[0].fill(t, "ann", 600, name == "hidden posts")
					switch name {
					case "nothing":
						last = ""
					case "its position":
						_, last = apis[0].client(t, "ann", "").leave()
						apis[0].fill(t, "ann", 600, false)
						<-time.After(2 * ahead * 10 * time.Millisecond)
					}
					for _, a := range apis {
						a.used()
						a.slow(5 * time.Millisecond)
					}
					const oneRead = 1300 // one read of 600 posts
					began := time.Now()
					refused := flap(t, apis, last, 100*time.Millisecond, 30*time.Second)
					lasts := time.Since(began)
					<-time.After(time.Second) // the reads in progress have ended
					for i, a := range apis {
						units, charged := a.used()
						t.Logf("process %d of %d, %s: %.0f units in %s, %.0f a second; %d openings refused at all processes", i, processes, name, units, lasts, units/lasts.Seconds(), refused)
						assert.LessOrEqual(t, units, share*lasts.Seconds()+ahead+oneRead)
						assert.Greater(t, units, share*lasts.Seconds()/2, "the load is none")
						assert.InDelta(t, units, charged, 0)
					}
				})
			})
		}
	}
}

// A replay rests when its user has used up the share, and still reaches the end.
func TestAReplayRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory())
		posts := a.fill(t, "ann", 3000, false)
		a.used()
		began := time.Now()
		c := a.client(t, "ann", posts[0])
		c.wait(t, len(posts)-1)
		units, _ := a.used()
		const oneRead = 2200 // one read of 1,000 posts
		assert.LessOrEqual(t, units, share*time.Since(began).Seconds()+ahead+oneRead)
		assert.Greater(t, units, 1.5*(ahead+oneRead), "the load is none")
		got, _ := c.leave()
		assert.Equal(t, posts[1:], got)
		synctest.Wait()
		_, err := a.connect(t, live.Caller{User: "ann"}, "")
		require.ErrorAs(t, err, new(*live.OwesError), "the share outlives the streams")
	})
}

// A look is charged to each service that has a stream of the home, and a replay is charged to the
// service of its stream. Streams of a service rest while the service owes units. Streams of the user
// itself do not rest.
func TestStreamsOfServicesAreChargedToThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory())
		posts := a.fill(t, "ann", 100, false)
		connect := func(service, last string) *client {
			c, err := a.connect(t, live.Caller{User: "ann", Service: service}, last)
			require.NoError(t, err)
			synctest.Wait()
			return c
		}
		one := connect("one", posts[0])
		units, charged := a.used()
		assert.Equal(t, map[string]float64{"one": units}, a.usedBy())
		assert.Equal(t, units, charged)
		two := connect("two", "")
		<-time.After(10*poll + poll/2)
		used := a.usedBy()
		assert.Greater(t, used["two"], 40.0, "ten looks")
		assert.Greater(t, used["two"], used["one"], "it has opened its stream, too")
		a.looked()
		a.owe("two", time.Minute)
		<-time.After(time.Minute)
		assert.LessOrEqual(t, a.looked(), 3, "a service owes")
		_, err := a.connect(t, live.Caller{User: "ann"}, "")
		require.ErrorAs(t, err, new(*live.OwesError))
		a.owe("two", 0)
		<-time.After(time.Minute)
		own := connect("", "")
		a.owe("two", time.Minute)
		a.looked()
		<-time.After(time.Minute)
		assert.Greater(t, a.looked(), 50, "the user has a stream of its own")
		for _, c := range []*client{one, two, own} {
			c.leave()
		}
	})
}
