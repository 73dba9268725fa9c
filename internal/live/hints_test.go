package live_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/notices"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// schedules is the number of random schedules that TestStreamsMissNoPost runs.
var schedules = flag.Int("schedules", 20, "run so many schedules of streams over two processes")

// meter counts read units.
type meter struct {
	mu    sync.Mutex
	units float64
}

func (m *meter) take() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.units = 0 }()
	return m.units
}

// metered returns homes and notices on a table outside of this process, as on AWS. The meter m counts
// the table's read units.
func metered(store table.Store, m *meter) (*home.Homes, *notices.Notices) {
	way := access.New(access.Config{
		Store: table.Measure(store, func(_ table.Op, u table.Units, _ error) { m.mu.Lock(); m.units += u.Read; m.mu.Unlock() }),
		IDs:   id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(30 * 24 * time.Hour), LikeWindow: time.Second,
	})
	service := feed.New(feed.Config{Access: way, LikesByUser: true})
	return home.New(home.Config{Access: way, Items: service, Mutes: service, HeadAge: time.Second}), notices.New(way, service, true, nil)
}

// hinted returns a change of a Config: the process reads the posts of other processes. The meters
// count the units of its looks and the units of its tail separately.
func hinted(looks, tail *meter, change ...func(*live.Config)) func(*live.Config, table.Store) {
	return func(c *live.Config, store table.Store) {
		var unread *notices.Notices
		c.Homes, unread = metered(store, looks)
		c.Unread = func(ctx context.Context, user string) (live.Unread, error) {
			n, mark, err := unread.UnreadAbove(ctx, user, notices.DefaultUnread)
			return live.Unread{Number: n, Mark: mark}, err
		}
		c.Posts, _ = metered(store, tail)
		c.Units = live.DefaultUnits
		c.SlowLook, c.LikesEach, c.Streams = live.DefaultSlowLook, live.DefaultLikes, 5000
		c.Jitter = rand.Float64
		for _, ch := range change {
			ch(c)
		}
	}
}

// newHinted starts a process with the Config of hinted. The writes of a test act as writes of another
// process.
func newHinted(t *testing.T, store table.Store, change ...func(*live.Config)) (a *api, looks, tail *meter) {
	t.Helper()
	looks, tail = &meter{}, &meter{}
	a = newAPI(t, store, func(c *live.Config) { hinted(looks, tail, change...)(c, store) })
	a.store = store
	return a, looks, tail
}

func put(t *testing.T, store table.Store, it table.Item) {
	t.Helper()
	_, err := store.Put(t.Context(), table.PutInput{Item: it})
	require.NoError(t, err)
}

// index puts a post into the index of posts by time.
func index(t *testing.T, store table.Store, author, post string) {
	t.Helper()
	put(t, store, schema.PostRef{ID: post, Author: author, LikeShards: 1}.Item())
}

func follow(t *testing.T, store table.Store, user, author string) {
	t.Helper()
	put(t, store, schema.FollowingItem(user, author, time.Now(), ""))
}

// longName returns a user id that is as long as the longest usual user ids.
func longName(prefix string, i int) string { return fmt.Sprintf("%s%0*d", prefix, 36-len(prefix), i) }

// idle returns three numbers of units: for an opening, for an hour of one stream, and for an hour of
// the tail. The reader has at least 200 followees and 20 liked posts.
func idle(t *testing.T, entries int, likes time.Duration, change ...func(*live.Config)) (opening, hour, tail float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := tabletest.NewMemory()
		a, looks, ticks := newHinted(t, store, append(change, func(c *live.Config) { c.LikesEach = likes })...)
		reader := longName("m", 0)
		a.profile(t, reader)
		for i := range entries {
			author := longName("a", i%20)
			post := a.post(t, author)
			index(t, store, author, post)
			a.deliver(t, author, post, reader)
			put(t, store, table.Item{Key: schema.LikeCountKey(post), Attrs: []table.Attr{{Name: schema.AttrLikes, Value: table.N(3)}}})
			<-time.After(time.Millisecond)
		}
		for i := range 200 {
			follow(t, store, reader, longName("a", i))
		}
		<-time.After(20 * time.Minute)
		c := a.client(t, reader, "")
		<-time.After(time.Second)
		synctest.Wait()
		opening = looks.take()
		ticks.take()
		<-time.After(time.Hour)
		synctest.Wait()
		hour, tail = looks.take(), ticks.take()
		c.leave()
	})
	return opening, hour, tail
}

// T19: a stream without posts costs 0.05 read units a second, and 0.25 with like counts and unread
// notifications. Unread notifications cost 0.025. A tick of the tail costs half a unit for each shard
// of the index. In the quarter of an hour about the end of a bucket, each long tick costs half a unit
// more.
func TestWhatAnIdleStreamCosts(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{20, 100} {
		opening, hour, tail := idle(t, entries, 1000*time.Hour, func(c *live.Config) { c.Unread = nil })
		t.Logf("%d entries, without like counts: opening %.1f, %.4f a second, tail %.2f a tick", entries, opening, hour/3600, tail/3600)
		assert.LessOrEqual(t, opening, 40.0)
		assert.LessOrEqual(t, hour, 0.05*3600)
		assert.InDelta(t, 4.5, tail/3600, 0.01)
		_, notified, _ := idle(t, entries, 1000*time.Hour)
		t.Logf("%d entries, with unread notifications: %.4f a second", entries, notified/3600)
		assert.InDelta(t, 0.025*3600, notified-hour, 0.05*0.025*3600)
		opening, hour, _ = idle(t, entries, live.DefaultLikes)
		t.Logf("%d entries, with like counts: opening %.1f, %.4f a second", entries, opening, hour/3600)
		assert.LessOrEqual(t, opening, 40.0)
		assert.LessOrEqual(t, hour, 0.25*3600)
	}
}

// delay draws from a lognormal distribution with a given median and 99th percentile.
func delay(rng *rand.Rand, p50, p99 time.Duration) time.Duration {
	return time.Duration(float64(p50) * math.Exp(math.Log(float64(p99)/float64(p50))/2.326*rng.NormFloat64()))
}

// T19: 99 of 100 events arrive within two seconds of their posts if the index and the deliveries have
// their usual speed. If the index and the deliveries are slow, or the index is empty, no post is
// missed.
func TestHowLongAnEventTakes(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		name        string
		index, late [2]time.Duration // the median and the 99th percentile
		p99, most   time.Duration
	}{
		{"as mostly", [2]time.Duration{30 * ms, 500 * ms}, [2]time.Duration{80 * ms, 600 * ms}, 2 * time.Second, time.Minute},
		{"slow deliveries", [2]time.Duration{30 * ms, 500 * ms}, [2]time.Duration{500 * ms, 5 * time.Second}, 12 * time.Second, time.Minute},
		{"a slow index", [2]time.Duration{500 * ms, 10 * time.Second}, [2]time.Duration{80 * ms, 600 * ms}, 15 * time.Second, time.Minute},
		{"no index", [2]time.Duration{100 * time.Hour, 200 * time.Hour}, [2]time.Duration{80 * ms, 600 * ms}, time.Minute, time.Minute + time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := tabletest.NewMemory()
				a, _, _ := newHinted(t, store)
				rng := rand.New(rand.NewPCG(1, 2))
				const homes, authors, posts = 10, 200, 200
				var clients []*client
				for h := range homes {
					reader := longName("m", h)
					a.profile(t, reader)
					for i := range authors {
						follow(t, store, reader, longName("a", i))
					}
					clients = append(clients, a.client(t, reader, ""))
					<-time.After(time.Duration(rng.IntN(3000)) * ms)
				}
				<-time.After(2 * time.Minute)
				made := map[string]time.Time{}
				for range posts {
					<-time.After(time.Duration(rng.ExpFloat64() * float64(15*time.Second)))
					author := longName("a", rng.IntN(authors))
					post := a.post(t, author)
					made[post] = time.Now()
					time.AfterFunc(delay(rng, c.index[0], c.index[1]), func() {
						put(t, store, schema.PostRef{ID: post, Author: author, LikeShards: 1}.Item())
					})
					time.AfterFunc(delay(rng, c.late[0], c.late[1]), func() {
						for h := range homes {
							a.deliver(t, author, post, longName("m", h))
						}
					})
				}
				<-time.After(10 * time.Minute)
				var all []time.Duration
				for h, cl := range clients {
					got, _ := cl.leave()
					require.Len(t, got, posts, "home %d", h)
					for i, post := range got {
						all = append(all, cl.at[i].Sub(made[post]))
					}
				}
				slices.Sort(all)
				p99 := all[len(all)*99/100]
				t.Logf("%d events: p50 %s, p99 %s, most %s", len(all), all[len(all)/2], p99, all[len(all)-1])
				assert.LessOrEqual(t, p99, c.p99)
				assert.LessOrEqual(t, all[len(all)-1], c.most)
			})
		})
	}
}

// Clients move between two processes while entries and index items arrive in any order, late or never.
// Each client gets each post once, at the latest one slow look after the post's entry.
func TestStreamsMissNoPost(t *testing.T) {
	t.Parallel()
	worst, total := time.Duration(0), 0
	for seed := range uint64(*schedules) {
		synctest.Test(t, func(t *testing.T) {
			events, latest := schedule(t, seed)
			worst, total = max(worst, latest), total+events
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d schedules, %d events, each once; the latest %s after its entry", *schedules, total, worst)
	assert.LessOrEqual(t, worst, live.DefaultSlowLook+15*time.Second)
}

// due is a write of another process that has not happened yet.
type due struct{ author, post string }

// schedule runs a schedule of 150 posts for two users. It returns the number of events, and the longest time
// from an entry to its event.
func schedule(t *testing.T, seed uint64) (events int, latest time.Duration) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	store := tabletest.NewMemory()
	first, _, _ := newHinted(t, store)
	second, _, _ := newHinted(t, store)
	apis, names := []*api{first, second}, []string{"user0", "user1"}
	var clients [2]*client
	var got [2][]string
	var at [2][]time.Time
	for i, name := range names {
		if rng.IntN(4) > 0 {
			for k := range 3 {
				follow(t, store, name, fmt.Sprint("author", k))
			}
		}
		clients[i] = apis[0].client(t, name, "")
	}
	var want []string
	entries, indexed, visible := map[int][]due{}, map[int][]due{}, map[string]time.Time{}
	for step := range 200 {
		if step < 150 {
			author := fmt.Sprint("author", rng.IntN(4))
			post := apis[rng.IntN(2)].post(t, author)
			want = append(want, post)
			when := step + rng.IntN(1+rng.IntN(30))
			entries[when] = append(entries[when], due{author, post})
			if when = step + rng.IntN(1+rng.IntN(30)); rng.IntN(5) > 0 {
				indexed[when] = append(indexed[when], due{author, post})
			}
		}
		for _, d := range indexed[step] {
			index(t, store, d.author, d.post)
		}
		for _, d := range entries[step] {
			first.deliver(t, d.author, d.post, names...)
			visible[d.post] = time.Now()
		}
		if i := rng.IntN(40); i < len(names) {
			posts, last := clients[i].leave()
			got[i], at[i] = append(got[i], posts...), append(at[i], clients[i].at...)
			<-time.After(time.Duration(rng.IntN(500)) * time.Millisecond)
			clients[i] = apis[rng.IntN(2)].client(t, names[i], last)
		}
		<-time.After(time.Duration(rng.IntN(2000)) * time.Millisecond)
	}
	<-time.After(2 * time.Minute)
	slices.Sort(want)
	for i, c := range clients {
		posts, _ := c.leave()
		got[i], at[i] = append(got[i], posts...), append(at[i], c.at...)
		for k, post := range got[i] {
			latest = max(latest, at[i][k].Sub(visible[post]))
		}
		slices.Sort(got[i])
		require.Truef(t, slices.Equal(want, got[i]), "seed %d: %s got %d posts, want %d", seed, names[i], len(got[i]), len(want))
		events += len(got[i])
	}
	return events, latest
}
