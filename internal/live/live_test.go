package live_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/internal/feed/access"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// api is a process that serves streams.
type api struct {
	*live.Hub
	store table.Store
	ids   *id.Generator

	mu      sync.Mutex
	looks   []time.Time
	units   float64
	charged float64
	// gets is the number of reads of profiles.
	gets int
	// tailAge is the age of the last read of new posts. unlisted is the number of homes without a list.
	tailAge  time.Duration
	unlisted int
	streams  int
	// ended are the reasons of the ends of streams.
	ended []string
	// services has the units that were charged to each service. owed has the time for which each service
	// owes units.
	services map[string]float64
	owed     map[string]time.Duration
	// fail makes all reads fail. breaks makes the BatchGet with that number, counted from now, fail. With
	// 0, no BatchGet fails.
	fail   bool
	breaks int
	// latency is the duration of each read.
	latency time.Duration
}

// poll is the time between two looks at a home without a hint. An operator may set such a time.
const poll = time.Second

// newAPI returns the only process that writes a table. The process looks at homes each poll.
func newAPI(t *testing.T, store table.Store, change ...func(*live.Config)) *api {
	t.Helper()
	wakes := new(live.Wakes)
	a := &api{store: wakes.Store(store), ids: id.NewGenerator(time.Now), services: map[string]float64{}, owed: map[string]time.Duration{}}
	way := access.New(access.Config{
		Store: table.Measure(&failing{a.store, a}, func(_ table.Op, u table.Units, _ error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.units += u.Read
		}), IDs: a.ids, Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour),
	})
	service := feed.New(feed.Config{Access: way})
	homes := home.New(home.Config{Access: way, Items: service, Mutes: service})
	cfg := live.Config{
		Homes: homes, SlowLook: poll, LikesEach: 2 * poll, Streams: 100, UserStreams: 10, Jitter: func() float64 { return 0 },
		Frames: live.Frames{
			Entry: func(item feed.HomeItem) ([]byte, error) {
				return fmt.Appendf(nil, "entry %s %s\n", item.Post.ID, item.Post.Text), nil
			},
			Edited: func(item feed.HomeItem) ([]byte, error) {
				return fmt.Appendf(nil, "edited %s %s\n", item.Post.ID, item.Post.Text), nil
			},
			Deleted: func(post string) ([]byte, error) { return []byte("deleted " + post + "\n"), nil },
			Changed: func(post string) ([]byte, error) { return []byte("changed " + post + "\n"), nil },
			Stale:   []byte("stale\n"),
			Likes: func(l home.PostLikes) ([]byte, error) {
				return fmt.Appendf(nil, "likes %s %d\n", l.PostID, l.Count), nil
			},
			Unread:    func(n int) ([]byte, error) { return fmt.Appendf(nil, "unread %d\n", n), nil },
			Position:  func(position string) []byte { return []byte("position " + position + "\n") },
			Heartbeat: []byte("beat\n"),
		},
		Hold: func(string, int, func()) func() { return func() {} },
		Charge: func(_ string, units float64) time.Duration {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.charged += units
			return 0
		},
		ChargeService: func(service string, units float64) time.Duration {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.services[service] += units
			return a.owed[service]
		},
		Counters: a, Now: time.Now, Log: zap.NewNop(),
	}
	for _, c := range change {
		c(&cfg)
	}
	a.Hub = live.New(cfg)
	wakes.Wake(a.Hub)
	t.Cleanup(a.Close)
	a.profile(t, "ann", "ben", "user0", "user1")
	return a
}

func (*api) StreamEvents(string, int) {}

func (a *api) Streams(change int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.streams += change
}

func (a *api) StreamTail(age time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tailAge = age
}

func (a *api) StreamsUnlisted(change int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unlisted += change
}

func (a *api) StreamEnded(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = append(a.ended, reason)
}

func (a *api) StreamPoll(error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looks = append(a.looks, time.Now())
}

// looked returns the number of looks after the last call of looked.
func (a *api) looked() int {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { a.looks = nil }()
	return len(a.looks)
}

// used returns the units that looks have used after the last call of used, and the units that were
// charged.
func (a *api) used() (units, charged float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { a.units, a.charged = 0, 0 }()
	return a.units, a.charged
}

// failing is a table whose reads are slow, or fail, if the test wants so.
type failing struct {
	table.Store
	api *api
}

func (f *failing) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		if err := f.read(ctx, table.OpQuery); err != nil {
			yield(table.Page{}, err)
			return
		}
		f.Store.Query(ctx, q)(yield)
	}
}

func (f *failing) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	f.api.mu.Lock()
	f.api.gets++
	f.api.mu.Unlock()
	if err := f.read(ctx, table.OpGet); err != nil {
		return table.GetResult{}, err
	}
	return f.Store.Get(ctx, in)
}

func (f *failing) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	if err := f.read(ctx, table.OpBatchGet); err != nil {
		return table.BatchGetResult{}, err
	}
	return f.Store.BatchGet(ctx, in)
}

func (f *failing) read(ctx context.Context, op table.Op) error {
	f.api.mu.Lock()
	latency, fails := f.api.latency, f.api.fail
	if op == table.OpBatchGet && f.api.breaks > 0 {
		f.api.breaks--
		fails = f.api.breaks == 0
	}
	f.api.mu.Unlock()
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return ctx.Err()
	}
	if fails {
		return errors.New("down")
	}
	return nil
}

func (a *api) failReads(fail bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = fail
}

// post makes a post without writing entries.
func (a *api) post(t *testing.T, author string) string {
	t.Helper()
	post, err := a.ids.New()
	require.NoError(t, err)
	p := schema.Post{ID: post, Author: author, Content: schema.Content{Text: "x"}, LikeShards: 1}
	_, err = a.store.Put(t.Context(), table.PutInput{Item: p.Item()})
	require.NoError(t, err)
	return post
}

// deliver puts a post into the homes of users.
func (a *api) deliver(t *testing.T, author, post string, users ...string) {
	t.Helper()
	var writes []table.BatchWrite
	for _, user := range users {
		writes = append(writes, table.BatchWrite{Put: &table.Item{
			Key: table.Key{PK: schema.TimelinePK(user), SK: schema.EntrySK(post, author)}, Attrs: schema.EntryAttrs(time.Now().Add(48*time.Hour), 1),
		}})
	}
	_, err := a.store.BatchWrite(t.Context(), writes)
	require.NoError(t, err)
}

// client reads a stream.
type client struct {
	cancel context.CancelFunc
	done   chan error

	mu    sync.Mutex
	posts []string
	// edited has the posts of events edited with their texts, and deleted the posts of events deleted. stale
	// is the number of events stale.
	edited, deleted []string
	// changed has the posts of events changed, each with the number of posts before it.
	changed []string
	stale   atomic.Int64 // tests read it between two pauses
	// staleAfter has the number of posts before each event stale.
	staleAfter []int
	// page has the texts of the posts that the client shows. The client reads the home when the stream opens.
	page  map[string]string
	likes []string
	// unread are the numbers of unread notifications.
	unread []string
	at     []time.Time
	beats  int
	last   string
}

func (a *api) client(t *testing.T, user, last string) *client {
	t.Helper()
	c, err := a.connect(t, live.Caller{User: user}, last)
	require.NoError(t, err)
	return c
}

// profile makes a profile for each user.
func (a *api) profile(t *testing.T, users ...string) {
	t.Helper()
	for _, user := range users {
		p := schema.Profile{User: user, Name: user, CreatedAt: time.Now()}
		_, err := a.store.Put(t.Context(), table.PutInput{Item: p.Item()})
		require.NoError(t, err)
	}
}

// connect opens a stream. The hub may refuse the stream.
func (a *api) connect(t *testing.T, who live.Caller, last string) (*client, error) {
	t.Helper()
	st, err := a.Open(t.Context(), who, last)
	if err != nil {
		return nil, err
	}
	return a.serve(t, st, last), nil
}

// serve reads a stream.
func (a *api) serve(t *testing.T, st *live.Stream, last string) *client {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &client{cancel: cancel, done: make(chan error, 1), last: last, page: map[string]string{}}
	go func() {
		defer st.Close()
		c.done <- st.Serve(ctx, c.write)
	}()
	t.Cleanup(cancel)
	return c
}

// edits returns the edited posts that a client has received. A test that reads them before the next edit comes by a timer needs
// the lock.
func (c *client) edits() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.edited)
}

func (c *client) write(frames []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for line := range strings.Lines(string(frames)) {
		switch kind, value, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
		case "entry":
			post, text, _ := strings.Cut(value, " ")
			c.posts, c.at = append(c.posts, post), append(c.at, time.Now())
			c.page[post] = text
		case "edited":
			c.edited = append(c.edited, value)
			if post, text, _ := strings.Cut(value, " "); c.page[post] != "" {
				c.page[post] = text
			}
		case "deleted":
			c.deleted = append(c.deleted, value)
			delete(c.page, value)
		case "changed":
			c.changed = append(c.changed, fmt.Sprint(value, " after ", len(c.posts)))
		case "stale":
			c.stale.Add(1)
			c.staleAfter = append(c.staleAfter, len(c.posts))
		case "likes":
			c.likes = append(c.likes, value)
		case "unread":
			c.unread = append(c.unread, value)
		case "position":
			c.last = value
		case "beat":
			c.beats++
		}
	}
	return nil
}

// leave ends the client, and returns the client's posts and position.
func (c *client) leave() (posts []string, last string) {
	synctest.Wait()
	c.cancel()
	<-c.done
	return c.posts, c.last
}

// Posts arrive in any order, clients move between two processes, and one of the processes delivers.
// Each client gets each post once.
func TestClientsMoveBetweenProcesses(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			store := tabletest.NewMemory()
			apis := []*api{newAPI(t, store), newAPI(t, store)}
			const users = 2
			var clients [users]*client
			var got [users][]string
			var names, want []string
			for i := range users {
				names = append(names, fmt.Sprint("user", i))
				clients[i] = apis[0].client(t, names[i], "")
			}
			late := map[int][]string{}
			for step := range 120 {
				if step < 100 {
					post := apis[0].post(t, "author")
					want = append(want, post)
					when := step + rng.IntN(20)
					late[when] = append(late[when], post)
				}
				for _, post := range late[step] {
					apis[rng.IntN(2)].deliver(t, "author", post, names...)
				}
				if i := rng.IntN(2 * users); i < users {
					posts, last := clients[i].leave()
					got[i] = append(got[i], posts...)
					<-time.After(time.Duration(rng.IntN(500)) * time.Millisecond)
					clients[i] = apis[rng.IntN(2)].client(t, names[i], last)
				}
				<-time.After(time.Duration(rng.IntN(300)) * time.Millisecond)
			}
			<-time.After(2 * poll)
			for i, c := range clients {
				posts, _ := c.leave()
				got[i] = append(got[i], posts...)
				slices.Sort(got[i])
				require.Truef(t, slices.Equal(want, got[i]), "seed %d: %s got %d posts, want %d", seed, names[i], len(got[i]), len(want))
			}
		})
	}
}

func TestAWriteOfTheProcessItselfWakesAHome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := tabletest.NewMemory()
		here, there := newAPI(t, store), newAPI(t, store)
		clients := []*client{here.client(t, "ann", ""), there.client(t, "ann", "")}
		<-time.After(poll/2 + 200*time.Millisecond) // the looks of the openings are done
		began := time.Now()
		here.deliver(t, "author", here.post(t, "author"), "ann", "ben")
		<-time.After(poll)
		for _, c := range clients {
			c.leave()
		}
		assert.Zero(t, clients[0].at[0].Sub(began), "where the entry was written")
		assert.Equal(t, poll/2, clients[1].at[0].Sub(began), "elsewhere")
	})
}

func TestLooksAreSharedAndPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory())
		var clients []*client
		for range 10 {
			clients = append(clients, a.client(t, "ann", ""))
		}
		_, err := a.Open(t.Context(), live.Caller{User: "ann"}, "")
		require.ErrorIs(t, err, live.ErrUserFull)
		<-time.After(poll)
		a.looked()
		<-time.After(time.Minute)
		assert.Equal(t, 60, a.looked(), "ten streams of a user")
		a.used()
		for range 1000 { // 100 posts a second
			a.deliver(t, "author", a.post(t, "author"), "ann")
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(10 * poll)
		units, charged := a.used()
		assert.LessOrEqual(t, units, 3100.0, "100 units a second, and 1,000 at once")
		assert.InDelta(t, units, charged, 0)
		for _, c := range clients {
			posts, _ := c.leave()
			assert.Len(t, posts, 1000)
			assert.True(t, slices.IsSorted(posts))
		}
		synctest.Wait()
		a.looked()
		<-time.After(time.Minute)
		assert.Zero(t, a.looked(), "nobody is there any more")
	})
}

func TestStreamsOutliveATableThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory())
		c := a.client(t, "ann", "")
		a.failReads(true)
		_, err := a.Open(t.Context(), live.Caller{User: "ben"}, "")
		require.Error(t, err)
		assert.Equal(t, 1, a.streams, "a stream that did not open is none")
		a.looked()
		<-time.After(2 * time.Minute)
		assert.InDelta(t, 8, a.looked(), 2, "looks at a table that fails")
		a.deliver(t, "author", a.post(t, "author"), "ann")
		a.failReads(false)
		<-time.After(time.Minute)
		a.failReads(true)
		a.looked()
		<-time.After(2 * time.Minute)
		assert.InDelta(t, 8, a.looked(), 2, "looks at a table that fails again")
		posts, _ := c.leave()
		assert.Len(t, posts, 1)
		assert.Equal(t, 20, c.beats)
	})
}

func TestCloseEndsStreamsAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory())
		c := a.client(t, "ann", "")
		ctx, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, a.Run(ctx))
		assert.NoError(t, <-c.done)
		assert.Equal(t, []string{"stop"}, a.ended)
		synctest.Wait()
		assert.Zero(t, a.streams)
		_, err := a.Open(t.Context(), live.Caller{User: "ann"}, "")
		assert.ErrorIs(t, err, live.ErrStopping)
	})
}
