package feed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// withLimit returns a setting: a limit of the units that a user may cause in an hour.
func withLimit(units int64) func(*config) { return func(c *config) { c.service.UserUnits = units } }

// spent returns the attributes of all hours in a user's counts.
func (w *world) spent(user string) map[string]int64 {
	w.t.Helper()
	got := map[string]int64{}
	res, err := w.store.Get(w.t.Context(), table.GetInput{Key: schema.CountsKey(user), Consistent: true})
	require.NoError(w.t, err)
	if res.Item == nil {
		return got
	}
	for _, attr := range res.Item.Attrs {
		if strings.HasPrefix(attr.Name, "h") {
			got[attr.Name] = attr.Value.Int()
		}
	}
	return got
}

// units returns the units of user's present hour.
func (w *world) units(user string) int64 {
	w.t.Helper()
	return w.spent(user)[schema.HourOf(w.clock.now()).AttrUnits()]
}

// spend adds a number of units to user's present hour.
func (w *world) spend(user string, units int64) {
	w.t.Helper()
	_, err := w.store.Update(w.t.Context(), *access.AddTo(schema.CountsKey(user), schema.HourOf(w.clock.now()).AttrUnits(), units))
	require.NoError(w.t, err)
}

// famous sets the number of user's followers.
func (w *world) famous(user string, followers int64) {
	w.t.Helper()
	_, err := w.store.Update(w.t.Context(), *access.AddTo(schema.FollowerCountKey(user, "crowd"), schema.AttrN, followers))
	require.NoError(w.t, err)
}

func TestAnHourHasWhatItsCallsCause(t *testing.T) {
	w := newWorld(t, withLimit(1_000_000))
	w.users("ann", "bob", "cid")
	w.follow("cid", "ann")
	var p feed.Post
	steps := []struct {
		name, user string
		units      int64
		do         func(context.Context) error
	}{
		{"a post to one follower", "ann", 17 + 1, func(ctx context.Context) (err error) {
			p, err = w.CreatePost(ctx, "ann", feed.PostInput{Content: feed.Content{Text: "1"}})
			return err
		}},
		{"a post to a follower, with a key", "ann", 18 + 1, func(ctx context.Context) error {
			_, err := w.CreatePost(ctx, "ann", feed.PostInput{Content: feed.Content{Text: "2"}, IdempotencyKey: "k"})
			return err
		}},
		{"the key again", "ann", 0, func(ctx context.Context) error {
			_, err := w.CreatePost(ctx, "ann", feed.PostInput{Content: feed.Content{Text: "2"}, IdempotencyKey: "k"})
			return err
		}},
		{"a post with 2 KB of data and mentions", "ann", 17 + 1 + 2 + 1, func(ctx context.Context) error {
			_, err := w.CreatePost(ctx, "ann", feed.PostInput{Content: feed.Content{Text: "3", Data: feed.Data(`{"a":"` + strings.Repeat("x", 1012) + `"}`), Mentions: []string{"bob", "nobody"}}})
			return err
		}},
		{"a follow whose backfill has three posts", "bob", 18 + 3 + 3*3 + 2*1, func(ctx context.Context) error { return w.Follow(ctx, "bob", "ann") }},
		{"a follow again", "bob", 0, func(ctx context.Context) error { return w.Follow(ctx, "bob", "ann") }},
		{"an unfollow", "bob", 15, func(ctx context.Context) error { return w.Unfollow(ctx, "bob", "ann") }},
		{"an unfollow again", "bob", 0, func(ctx context.Context) error { return w.Unfollow(ctx, "bob", "ann") }},
		{"a comment with data", "bob", 148 + 3 + 3, func(ctx context.Context) error {
			_, err := w.AddComment(ctx, "bob", p.ID, feed.CommentInput{Text: "well said", Data: `{"a":1}`})
			return err
		}},
		{"a comment", "bob", 148 + 3, func(ctx context.Context) error { _, err := w.CreateComment(ctx, "bob", p.ID, "well said"); return err }},
		{"a rename with three posts", "ann", 6 + 1 + 3 + 4 + 1, func(ctx context.Context) error { return w.rename(ctx, "ann", "Ann") }},
		{"the name again", "ann", 0, func(ctx context.Context) error { return w.rename(ctx, "ann", "Ann") }},
		{"another bio", "ann", 0, func(ctx context.Context) error {
			_, err := w.PutProfile(ctx, "ann", feed.ProfileInput{Name: "Ann", Bio: "Trumpets."})
			return err
		}},
		{"an edit", "ann", 0, func(ctx context.Context) error {
			_, err := w.EditPost(ctx, "ann", p.ID, feed.PostEdit{Text: new("3")})
			return err
		}},
		{"a like", "bob", 0, func(ctx context.Context) error { return w.Like(ctx, "bob", p.ID) }},
		{"a block, which ends no follow of this hour's limit", "cid", 0, func(ctx context.Context) error { return w.Block(ctx, "cid", "ann") }},
		{"a deletion", "ann", 0, func(ctx context.Context) error { return w.DeletePost(ctx, "ann", p.ID) }},
	}
	for _, step := range steps {
		before := w.units(step.user)
		require.NoError(t, step.do(t.Context()), step.name)
		assert.Equal(t, step.units, w.units(step.user)-before, step.name)
	}
}

func (w *world) rename(ctx context.Context, user, name string) error {
	_, err := w.PutProfile(ctx, user, feed.ProfileInput{Name: name})
	return err
}

// mostImages returns images with as many bytes as a post may have.
func mostImages() []feed.Image {
	image := feed.Image{URL: "https://" + strings.Repeat("i", (messages.MaxImageBytes-2)/messages.MaxImages-len(`{"url":"https://"},`))}
	return slices.Repeat([]feed.Image{image}, messages.MaxImages)
}

// The largest calls are the largest comment on the largest post, and the largest follow.
func TestNoCallCausesMoreThanItCounts(t *testing.T) {
	var m meter
	w := newWorld(t, withLimit(1_000_000), m.onto)
	w.users("ann", "bob")
	longest := strings.Repeat("\U0001F3BA", 5000)
	data := func(bytes int) string { return `{"a":"` + strings.Repeat("x", bytes-len(`{"a":""}`)) + `"}` }
	var mentions []string
	for i := range messages.MaxMentions {
		mentions = append(mentions, fmt.Sprintf("%02d", i)+strings.Repeat("m", 62))
	}
	p, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: longest, Images: mostImages(), Data: feed.Data(data(messages.MaxPostData)), Mentions: mentions}})
	require.NoError(t, err)
	before := m.sum()
	_, err = w.AddComment(t.Context(), "bob", p.ID, feed.CommentInput{Text: longest, Data: data(messages.MaxSmallData), Mentions: mentions})
	require.NoError(t, err)
	assert.LessOrEqual(t, m.sum()-before, float64(w.units("bob")))
	assert.Greater(t, m.sum()-before, 0.9*float64(w.units("bob")))
}

func TestAUsedUpHourRefusesUntilTheNextOne(t *testing.T) {
	w := newWorld(t, withLimit(1000))
	w.users("ann", "bob", "cid")
	w.follow("ann", "cid")
	p := w.post("bob", "x")
	w.clock.add(20 * time.Minute)
	w.spend("ann", 1000-w.units("ann"))
	w.published.take()
	before := w.everything()
	for name, do := range map[string]func(context.Context) error{
		"follow":   func(ctx context.Context) error { return w.Follow(ctx, "ann", "bob") },
		"unfollow": func(ctx context.Context) error { return w.Unfollow(ctx, "ann", "cid") },
		"comment":  func(ctx context.Context) error { _, err := w.CreateComment(ctx, "ann", p.ID, "x"); return err },
		"rename":   func(ctx context.Context) error { return w.rename(ctx, "ann", "Ann") },
	} {
		err := do(t.Context())
		e, ok := errors.AsType[*fault.Error](err)
		require.Truef(t, ok && e.Kind == fault.TooSoon, "%s: %v", name, err)
		assert.Equal(t, schema.HourOf(w.clock.now()).End().Sub(w.clock.now()), e.RetryAfter, name)
		assert.Contains(t, e.Detail, "1000 units", name)
		assert.Contains(t, e.Detail, schema.HourOf(w.clock.now()).End().Format(time.RFC3339), name)
		assert.Equal(t, before, w.everything(), "%s: a refused call wrote something", name)
		assert.Empty(t, w.published.take(), name)
	}
	// Calls without an effect do not count.
	require.NoError(t, w.Follow(t.Context(), "ann", "cid"), "a follow that is there")
	require.NoError(t, w.Block(t.Context(), "ann", "bob"))
	require.NoError(t, w.Unblock(t.Context(), "ann", "bob"))
	require.NoError(t, w.rename(t.Context(), "ann", "Name of ann"))
	w.clock.add(40 * time.Minute)
	require.NoError(t, w.Follow(t.Context(), "ann", "bob"))
}

// everything returns all items of the table, by their keys.
func (w *world) everything() map[table.Key]table.Item {
	w.t.Helper()
	items := map[table.Key]table.Item{}
	for next := (table.Key{}); ; {
		page, err := w.store.Scan(w.t.Context(), table.ScanInput{After: next})
		require.NoError(w.t, err)
		for _, it := range page.Items {
			items[it.Key] = it
		}
		if next = page.Next; next == (table.Key{}) {
			return items
		}
	}
}

func TestTheFirstFourPostsOfAnHourAlwaysPass(t *testing.T) {
	w := newWorld(t, withLimit(1000))
	w.users("ann")
	w.famous("ann", 5_000_000)
	w.spend("ann", 1000)
	for hour := range 2 {
		for range 4 {
			p := w.post("ann", "x")
			require.NoError(t, w.DeletePost(t.Context(), "ann", p.ID)) // a deletion does not lower the number of made posts
		}
		_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}})
		wantKind(t, err, fault.TooSoon)
		assert.Equal(t, int64(4*(17+5_000_000+5_000_000/32)), w.units("ann")-int64(1-hour)*1000)
		w.clock.add(time.Hour)
	}
}

func TestABoundKeyIsNeverRefusedAndARefusedCallBindsNone(t *testing.T) {
	w := newWorld(t, withLimit(1000))
	w.users("ann")
	post := func(key, text string) (feed.Post, error) {
		return w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: text}, IdempotencyKey: key})
	}
	first, err := post("bound", "x")
	require.NoError(t, err)
	for range 3 {
		w.post("ann", "y")
	}
	w.published.failWith(errDown)
	_, err = post("open", "x") // the key is bound, and the post does not exist
	wantKind(t, err, fault.Unavailable)
	w.published.failWith(nil)
	w.spend("ann", 1000)
	w.published.take()
	before := w.everything()

	again, err := post("bound", "x")
	require.NoError(t, err)
	assert.Equal(t, first.ID, again.ID)
	_, err = post("bound", "z")
	wantKind(t, err, fault.Invalid)
	_, err = post("new", "x")
	wantKind(t, err, fault.TooSoon)
	assert.Equal(t, before, w.everything(), "a refused call wrote something")
	assert.Empty(t, w.published.take())

	made, err := post("open", "x")
	require.NoError(t, err)
	assert.Len(t, w.published.take(), 1)
	assert.Equal(t, int64(18+3*17+1000+18), w.units("ann"), "the post that was lost is counted with its call")
	again, err = post("open", "x")
	require.NoError(t, err)
	assert.Equal(t, made.ID, again.ID)
	assert.Equal(t, int64(18+3*17+1000+18), w.units("ann"))

	w.clock.add(time.Hour)
	_, err = post("new", "z") // the refused body did not bind the key
	require.NoError(t, err)
}

// A worker makes the post of a call whose transaction was lost. The worker counts the post once, in
// the hour of the post's id.
func TestALostPostIsCountedByTheWorkerThatRepeatsIt(t *testing.T) {
	w := newWorld(t, withLimit(1000))
	w.users("ann")
	w.famous("ann", 7)
	p := w.post("ann", "x")
	e := w.published.take()[0].(*messages.PostCreated)
	hour := schema.HourOf(p.CreatedAt)
	require.Equal(t, map[string]int64{hour.AttrUnits(): 24, hour.AttrMade(): 1}, w.spent("ann"))

	lost := *e
	lost.PostID = p.ID[:10] + strings.Repeat("Z", 16)
	w.clock.add(time.Hour)
	for range 2 {
		_, err := w.EnsurePost(t.Context(), &lost)
		require.NoError(t, err)
	}
	assert.Equal(t, map[string]int64{hour.AttrUnits(): 48, hour.AttrMade(): 2}, w.spent("ann"))

	other := &messages.PostCreated{PostID: p.ID[:10] + strings.Repeat("0", 16), AuthorID: "ann", Content: messages.Content{Text: "of another producer"}}
	_, err := w.EnsurePost(t.Context(), other)
	require.NoError(t, err)
	_, err = w.ImportPost(t.Context(), schema.Post{ID: p.ID[:10] + strings.Repeat("1", 16), Author: "ann", Content: schema.Content{Text: "imported"}})
	require.NoError(t, err)
	_, err = w.ImportFollow(t.Context(), feed.PastFollow{Follower: "ann", Author: w.newUser("bob"), From: "", Since: time.Unix(1, 0)})
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{hour.AttrUnits(): 48, hour.AttrMade(): 2}, w.spent("ann"))
}

func (w *world) newUser(name string) string {
	w.users(name)
	return name
}

// A large post whose transaction failed is not counted until a worker makes the post. The author's
// next large post waits for that count, so each process has at most one uncounted large post.
func TestALargePostWaitsForTheFormerOne(t *testing.T) {
	w := newWorld(t, withLimit(1_000_000))
	w.users("ann")
	w.famous("ann", 40_000)
	broken := newWorldAt(t, w.clock, withLimit(1_000_000), func(c *config) {
		c.way.Store, c.way.Publisher = failing{w.store, errDown}, w.published
	})
	p := broken.post("ann", "x")
	lost := w.published.take()[0].(*messages.PostCreated)
	_, err := broken.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "y"}, IdempotencyKey: "k"})
	wantKind(t, err, fault.Unavailable)
	assert.Empty(t, w.published.take())
	_, err = w.EnsurePost(t.Context(), lost)
	require.NoError(t, err)
	require.NoError(t, w.DeletePost(t.Context(), "ann", p.ID))
	_, err = broken.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "y"}, IdempotencyKey: "k"})
	require.NoError(t, err)
	_, err = broken.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "y"}, IdempotencyKey: "k"})
	require.NoError(t, err, "a bound key is not refused")
}

// failing is a table whose transactions fail.
type failing struct {
	table.Store
	transact error
}

func (f failing) Transact(context.Context, table.TransactInput) (table.WriteResult, error) {
	return table.WriteResult{}, f.transact
}

func TestOldHoursLeaveTheCounts(t *testing.T) {
	for name, do := range map[string]func(w *world) error{
		"post": func(w *world) error {
			_, err := w.CreatePost(w.t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}})
			return err
		},
		"follow":   func(w *world) error { return w.Follow(w.t.Context(), "ann", "bob") },
		"unfollow": func(w *world) error { return w.Unfollow(w.t.Context(), "ann", "cid") },
		"comment": func(w *world) error {
			_, err := w.CreateComment(w.t.Context(), "ann", w.post("bob", "x").ID, "x")
			return err
		},
		"rename": func(w *world) error { return w.rename(w.t.Context(), "ann", "Ann") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withLimit(10_000))
			w.users("ann", "bob", "cid")
			w.follow("ann", "cid")
			w.post("ann", "x")
			w.clock.add(time.Hour)
			w.spend("ann", 5)
			w.clock.add(time.Hour)
			now := schema.HourOf(w.clock.now())
			require.NoError(t, do(w))
			got := w.spent("ann")
			assert.NotContains(t, got, (now - 2).AttrUnits())
			assert.NotContains(t, got, (now - 2).AttrMade())
			assert.Equal(t, int64(5), got[(now-1).AttrUnits()], "the clock of another process may still be in the hour before")
			assert.Positive(t, got[now.AttrUnits()])
		})
	}
}

// A user who removes itself and returns stays in the same hour.
func TestAReturnBeginsNoNewHour(t *testing.T) {
	w := newWorld(t, withLimit(1000))
	w.users("ann", "bob")
	for range 4 {
		w.post("ann", "x")
	}
	w.spend("ann", 1000)
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	_, err := w.Forget(t.Context(), "ann", w.eventOf(t), 100)
	require.NoError(t, err)
	wantKind(t, w.rename(t.Context(), "ann", "Ann"), fault.TooSoon)
	w.clock.add(time.Hour)
	require.NoError(t, w.rename(t.Context(), "ann", "Ann"))
}

// eventOf returns the id of the newest event.
func (w *world) eventOf(t *testing.T) string {
	t.Helper()
	events := w.published.take()
	require.NotEmpty(t, events)
	return events[len(events)-1].Head().EventID
}

// slowTable answers after some milliseconds.
type slowTable struct {
	table.Store
	mu  sync.Mutex
	rng *rand.Rand
}

func (s *slowTable) wait() {
	s.mu.Lock()
	d := time.Duration(1+s.rng.IntN(20)) * time.Millisecond
	s.mu.Unlock()
	<-time.After(d)
}

func (s *slowTable) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	s.wait()
	return s.Store.Get(ctx, in)
}

func (s *slowTable) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	s.wait()
	return s.Store.Put(ctx, in)
}

func (s *slowTable) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	s.wait()
	return s.Store.Transact(ctx, in)
}

// Each of twelve processes runs 32 calls of one user at the same time. The limit is exceeded by at
// most one large call for each process, and no call with a bound key is refused.
func TestAnHourUnder384CallsAtOnceOverTwelveProcesses(t *testing.T) {
	for name, c := range map[string]struct{ followers, before int64 }{
		"large posts": {40_000, 0}, "posts that are larger than the limit": {1_500_000, 0}, "small posts": {100, 980_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, c.followers, c.before) })
		})
	}
}

func storm(t *testing.T, followers, before int64) {
	t.Helper()
	const processes, calls, limit = 12, 32, 1_000_000
	clock, store := newClock(), &slowTable{Store: tabletest.NewMemory(), rng: rand.New(rand.NewPCG(1, 2))}
	var worlds []*world
	for range processes {
		w := newWorldAt(t, clock, withLimit(limit), func(c *config) { c.way.Store = store })
		worlds = append(worlds, w)
	}
	worlds[0].users("ann")
	worlds[0].famous("ann", followers)
	worlds[0].spend("ann", before)
	var mu sync.Mutex
	made, refused := map[string]string{}, 0
	post := func(w *world, key string) (feed.Post, error) {
		return w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: key}, IdempotencyKey: key})
	}
	var all sync.WaitGroup
	for i, w := range worlds {
		for n := range calls {
			all.Go(func() {
				key := fmt.Sprintf("%d-%d", i, n)
				p, err := post(w, key)
				if err == nil { // the client repeats the call at another process
					again, err := post(worlds[(i+1)%processes], key)
					assert.NoError(t, err)
					assert.Equal(t, p.ID, again.ID)
				}
				mu.Lock()
				defer mu.Unlock()
				if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.TooSoon {
					refused++
				} else if assert.NoError(t, err) {
					made[key] = p.ID
				}
			})
		}
	}
	all.Wait()
	cost := 18 + followers + followers/32
	spent := worlds[0].units("ann")
	assert.Equal(t, before+int64(len(made))*cost, spent, "what was counted is what was made")
	assert.Equal(t, processes*calls, len(made)+refused)
	most := max(limit, 4*cost) + processes*cost
	if cost <= limit/1000 { // all calls of a process run at once
		most = limit + processes*calls*cost
	}
	assert.LessOrEqual(t, spent, most)
	assert.GreaterOrEqual(t, spent, int64(limit))
	t.Logf("%d of %d posts of %d units: %d units, %.1f %% of the limit", len(made), processes*calls, cost, spent, 100*float64(spent)/float64(limit))
	for key, id := range made {
		again, err := post(worlds[len(key)%processes], key)
		require.NoError(t, err)
		assert.Equal(t, id, again.ID)
	}
	assert.Equal(t, spent, worlds[0].units("ann"))
}
