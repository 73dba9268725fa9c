package fanout_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

const aDay = 24 * time.Hour

func active(days int) func(*fanout.Config) {
	return func(c *fanout.Config) { small(c); c.ActiveDays = days }
}

// date gives a follower's edge a day.
func (w *world) date(user string, until schema.Day) {
	w.Helper()
	_, err := w.mem.Put(w.Context(), table.PutInput{Item: schema.DatedFollowerItem(author, user, w.now, until)})
	w.must(err)
}

func TestFanOutSkipsFollowersWhoAreAway(t *testing.T) {
	for _, n := range []int{3, 45} { // inline, and by chunks with a summary
		skipped := 0
		w := newWorld(t, n, active(14), func(c *fanout.Config) { c.Skipped = func(n int) { skipped += n } })
		today := schema.DayOf(w.now)
		for i := range n {
			w.date(follower(i), today-schema.Day(i%3)) // every third follower is not away
		}
		todays, yesterdays := w.post(), w.post() // yesterday's post arrives late
		yesterdays.PostID = id.Floor(w.now.Add(-aDay))
		w.enqueue(todays, yesterdays)
		w.drain(w.worker)
		for i := range n {
			want := []string{yesterdays.PostID, todays.PostID}
			w.wantHome(follower(i), want[:max(0, 2-i%3)]...)
		}
		for e, away := range map[*messages.PostCreated]int64{todays: int64(2 * n / 3), yesterdays: int64(n / 3)} {
			d := w.delivery(e.PostID)
			require.Equal(t, delivery.Complete, d.State)
			assert.Equal(t, []int64{int64(n + 1), int64(n+1) - away, away}, []int64{*d.Planned, *d.Delivered, *d.Skipped})
		}
		assert.Equal(t, n, skipped, "in the metric")

		w.worker = w.newWorker(small)
		off := w.posted()
		d := w.delivery(off)
		assert.Equal(t, []int64{int64(n + 1), 0}, []int64{*d.Delivered, *d.Skipped}, "a worker with the feature off skips nobody")
	}
}

const reader = "reader"

// domain is the feed and its homes.
type domain struct {
	*feed.Service
	*home.Homes
}

func newDomain(way access.Config) domain {
	a := access.New(way)
	s := feed.New(feed.Config{Access: a})
	return domain{s, home.New(home.Config{Access: a, Items: s, Mutes: s})}
}

// service returns another process of the product, without hooks.
func (w *world) service(days int) domain {
	return newDomain(access.Config{
		Store: table.HideExpired(w.mem, w.clock), Publisher: publisher{w}, IDs: w.ids, Now: w.clock, Lifetimes: lifetime.Fixed(timelineTTL), ActiveDays: days,
	})
}

// followed makes the reader follow authors. The reader has no presence if days is 0.
func (w *world) followed(days int, authors ...string) {
	w.Helper()
	s := w.service(days)
	for _, user := range append(authors, reader) {
		_, err := s.PutProfile(w.Context(), user, feed.ProfileInput{Name: user})
		w.must(err)
	}
	for _, user := range authors {
		w.must(s.Follow(w.Context(), reader, user))
	}
	w.drain(w.worker)
}

func (w *world) presence() *schema.Presence {
	w.Helper()
	res, err := w.mem.Get(w.Context(), table.GetInput{Key: schema.PresenceKey(reader), Consistent: true})
	w.must(err)
	if res.Item == nil {
		return nil
	}
	p, err := schema.ParsePresence(*res.Item)
	w.must(err)
	return &p
}

// days returns the days of the reader's edges to authors, -1 for an edge that is absent.
func (w *world) days(authors ...string) (days []schema.Day) {
	w.Helper()
	for _, user := range authors {
		res, err := w.mem.Get(w.Context(), table.GetInput{Key: schema.FollowerKey(user, reader), Consistent: true})
		w.must(err)
		if res.Item == nil {
			days = append(days, -1)
			continue
		}
		edge, err := schema.ParseEdge(*res.Item)
		w.must(err)
		days = append(days, edge.Until)
	}
	return days
}

func (w *world) upto() schema.Day {
	w.Helper()
	res, err := w.mem.Get(w.Context(), table.GetInput{Key: schema.CountsKey(reader), Consistent: true})
	w.must(err)
	return schema.Day(res.Item.Int(schema.AttrUptoDay))
}

func (w *world) seen() *messages.Seen { return &messages.Seen{Header: w.header(), UserID: reader} }

// authors has more users than a page.
var authors = []string{"a0", "a1", "a2", "a3", "a4", "a5"}

func all(day schema.Day) []schema.Day { return slices.Repeat([]schema.Day{day}, len(authors)) }

func TestAReaderIsEnrolledAndRefreshed(t *testing.T) {
	w := newWorld(t, 0, active(14))
	w.followed(0, authors...)
	assert.Equal(t, all(0), w.days(authors...))
	off := w.newWorker(small)
	w.must(off.HandleBackfills(t.Context(), w.seen()))
	assert.Nil(t, w.presence(), "a worker with the feature off enrols nobody")

	first := schema.DayOf(w.now) + 14
	w.must(w.worker.HandleBackfills(t.Context(), w.seen()))
	assert.Equal(t, &schema.Presence{User: reader, State: schema.PresenceHere, Until: first}, w.presence())
	assert.Equal(t, all(first), w.days(authors...))
	assert.Equal(t, first, w.upto())

	w.now = w.now.Add(8 * aDay)
	w.must(w.newWorker(active(2)).HandleBackfills(t.Context(), w.seen()))
	assert.Equal(t, first, w.presence().Until, "fewer days than the presence has")
	w.must(w.worker.HandleBackfills(t.Context(), w.seen()))
	assert.Equal(t, append(all(first+8), first+8, first+8), append(w.days(authors...), w.presence().Until, w.upto()))
	w.must(off.HandleBackfills(t.Context(), w.seen()))
	assert.Equal(t, append(all(first-14+8+90), first-14+8+90), append(w.days(authors...), w.presence().Until))
}

// A refresh that ends on the day of the presence, or later, may have raised an edge after a
// post was skipped. So the refresh does not change the presence.
func TestARefreshThatComesTooLateLeavesThePresence(t *testing.T) {
	for wait, late := range map[time.Duration]bool{9 * time.Minute: false, 10 * time.Minute: true} {
		w := newWorld(t, 0, active(2))
		w.followed(2, authors...)
		before := *w.presence()
		w.now = before.Until.Start().Add(-10 * time.Minute)
		slept := false
		w.store.around = func(op table.Op, keys []table.Key, do func() error) error {
			if op == table.OpQuery && !slept {
				slept, w.now = true, w.now.Add(wait)
			}
			return do()
		}
		w.must(w.worker.HandleBackfills(t.Context(), w.seen()))
		assert.Equal(t, late, w.presence().Until == before.Until)
		assert.Equal(t, all(before.Until+1), w.days(authors...))
		assert.Equal(t, before.Until+1, w.upto())
	}
}

// A refresh begins while the transaction of a follow is only partly visible: the counts have the follow,
// and no consistent read finds its edge. The edge has a lower day than the refresh sets (I1).
func TestARefreshRaisesTheEdgeOfAFollowThatIsBecomingVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0, active(14))
		w.followed(2, authors...)
		w.becomesVisible(table.OpQuery, schema.FollowingKey(reader, authors[3]))
		w.must(w.worker.HandleBackfills(t.Context(), w.seen()))
		assert.Equal(t, all(schema.DayOf(w.now)+14), w.days(authors...))
		assert.Equal(t, schema.DayOf(w.now)+14, w.presence().Until)
	})
}

// During a refresh or an enrolment, at each port call in turn, the reader unfollows an author and follows
// another author. No wrong edge is left, and each edge has the presence's day, or no day.
func TestFollowsWhileEdgesAreRaised(t *testing.T) {
	for _, enrolled := range []bool{false, true} {
		for _, days := range []int{0, 2, 14} { // active days of the process that follows
			at := 0
			for fired := true; fired; at++ {
				w := newWorld(t, 0, active(14))
				w.followed(map[bool]int{true: 3}[enrolled], authors...)
				w.must(func() error {
					_, err := w.service(0).PutProfile(t.Context(), "new", feed.ProfileInput{Name: "new"})
					return err
				}())
				w.now = w.now.Add(2 * aDay)
				s := w.service(days)
				change := w.atCall(at, func() {
					w.must(s.Unfollow(t.Context(), reader, "a3"))
					w.must(s.Follow(t.Context(), reader, "new"))
				})
				w.enqueue(w.seen())
				w.drain(w.worker)
				fired = change()
				w.store.around = nil
				got := w.days(append(authors, "new")...)
				if fired {
					assert.EqualValues(t, -1, got[3])
				}
				for i, day := range got {
					if day > 0 {
						assert.GreaterOrEqual(t, day, w.presence().Until, "edge %d, at call %d", i, at)
					}
				}
				require.False(t, t.Failed())
			}
			require.Greater(t, at, len(authors))
		}
	}
}

// returning sets the state of the reader's presence to returning, as a home read does.
func (w *world) returning(v int64, lo string) *messages.Returned {
	w.Helper()
	p := schema.Presence{User: reader, State: schema.PresenceReturning, Until: schema.DayOf(w.now), V: v, Lo: lo}
	_, err := w.mem.Put(w.Context(), table.PutInput{Item: p.Item()})
	w.must(err)
	return &messages.Returned{Header: w.header(), UserID: reader, V: v}
}

// stock puts n posts of an author into the table, a second apart.
func (w *world) stock(user string, n int) (ids []string) {
	w.Helper()
	for range n {
		w.now = w.now.Add(time.Second)
		ids = append(ids, w.newID())
		_, err := w.mem.Put(w.Context(), table.PutInput{Item: schema.Post{ID: ids[len(ids)-1], Author: user, Content: schema.Content{Text: "x"}, LikeShards: 1}.Item()})
		w.must(err)
	}
	return ids
}

func TestAReturnWritesTheNewestPostsThatWereMissed(t *testing.T) {
	for _, tt := range []struct{ missed, followees, entries int }{
		{0, 5, 0}, {1, 5, 1}, {49, 5, 49}, {50, 5, 50}, {120, 100, 50},
		{199, 101, 199}, {200, 101, 200}, {450, 120, 200},
	} {
		w := newWorld(t, 0, active(14))
		var followed []string
		for i := range tt.followees {
			followed = append(followed, fmt.Sprintf("a%03d", i))
		}
		w.followed(14, followed...)
		w.now = w.now.Add(aDay)
		w.stock("a001", 3) // these posts were pushed
		w.stock("stranger", 3)
		w.now = w.now.Add(aDay)
		lo := id.Floor(w.now)
		var posts []string
		for i := range tt.missed {
			posts = append(posts, w.stock(followed[i*i%len(followed)], 1)...)
		}
		w.now = w.now.Add(20 * aDay)
		e := w.returning(3, lo)
		stale := *e
		stale.V = 2
		w.must(w.worker.HandleBackfills(t.Context(), &stale))
		assert.Equal(t, schema.PresenceReturning, w.presence().State)
		w.must(w.worker.HandleBackfills(t.Context(), e))
		until := schema.DayOf(w.now) + 14
		want := &schema.Presence{User: reader, State: schema.PresenceHere, Until: until, V: 3, At: w.now}
		if gap := tt.missed >= fanout.ReturnPosts(tt.followees); gap {
			want.Lo, want.Hi = lo, posts[tt.missed-tt.entries]
		}
		assert.Equal(t, want, w.presence())
		for _, day := range append(w.days(followed...), w.upto()) {
			assert.Equal(t, until, day)
		}
		assert.Equal(t, posts[tt.missed-tt.entries:], w.entriesIn(reader), "%+v", tt)
		w.now = w.now.Add(aDay)
		w.must(w.worker.HandleBackfills(t.Context(), e))
		assert.Equal(t, want, w.presence(), "a redelivery changes nothing")
	}
}

// entriesIn returns the posts in a user's timeline, oldest first.
func (w *world) entriesIn(user string) (posts []string) {
	w.Helper()
	items, _, err := table.Collect(w.mem.Query(w.Context(), table.Query{PK: schema.TimelinePK(user), Consistent: true}), 0)
	w.must(err)
	for _, it := range items {
		e, err := schema.ParseEntry(it)
		w.must(err)
		posts = append(posts, e.Post)
	}
	return posts
}

// TestAFaultAtAnyCallOfAReturn makes each port call fail in turn while a reader returns. In the
// end the reader's home shows all posts, and the timeline has their entries.
func TestAFaultAtAnyCallOfAReturn(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			at := 0
			for fired := true; fired; at++ {
				w := newWorld(t, 0, active(2))
				w.followed(2, authors...)
				w.now = w.now.Add(5 * aDay)
				var posts []string
				for i := range 9 {
					posts = append(posts, w.stock(authors[i%len(authors)], 1)...)
				}
				fired = w.drainWithFault(at, f.done, f.dies, w.returning(1, id.Floor(w.now.Add(-aDay))))
				w.store.around = nil
				assert.Equal(t, schema.PresenceHere, w.presence().State)
				assert.Equal(t, posts, w.entriesIn(reader))
				assert.Equal(t, posts, w.shown(reader))
				until := schema.DayOf(w.now) + 2
				assert.Equal(t, append(all(until), until), append(w.days(authors...), w.presence().Until))
				require.Falsef(t, t.Failed(), "failed with the fault at call %d", at)
			}
			require.GreaterOrEqual(t, at, 2*len(authors), "calls")
		})
	}
}

// A post is stored during a return, at each port call in turn, and then fanned out. Its delivery finds a
// raised edge, or the return reads the post.
func TestAPostDuringAReturn(t *testing.T) {
	at := 0
	for fired := true; fired; at++ {
		w := newWorld(t, 0, active(2))
		w.followed(2, author, "zoe")
		w.now = w.now.Add(5 * aDay)
		e := w.post()
		other := w.newWorker(active(2))
		change := w.atCall(at, func() {
			w.must(other.HandlePosts(t.Context(), e))
		})
		w.enqueue(w.returning(1, id.Floor(w.now.Add(-aDay))))
		w.drain(w.worker)
		fired = change()
		w.store.around = nil
		w.now = w.now.Add(2 * time.Minute) // the home is now read by push
		if fired {
			require.Equal(t, []string{e.PostID}, w.shown(reader), fmt.Sprint("at call ", at))
		}
	}
	require.Greater(t, at, 6)
}

// TestAPostOnItsWayDuringAReturn reads a home after a return, while the delivery of a new post
// waits: docs/HYBRID.md, "A home read".
func TestAPostOnItsWayDuringAReturn(t *testing.T) {
	w := newWorld(t, 0, active(2))
	w.followed(2, author, "zoe")
	w.now = w.now.Add(5 * aDay)
	w.enqueue(w.returning(1, id.Floor(w.now.Add(-aDay))))
	w.drain(w.worker)
	post, err := w.service(2).CreatePost(t.Context(), author, feed.PostInput{Content: feed.Content{Text: "x"}})
	w.must(err)
	require.Equal(t, []string{post.ID}, w.shown(reader), "within a minute of the return")
	w.now = w.now.Add(time.Minute)
	require.Empty(t, w.shown(reader), "the delivery still waits")
	w.drain(w.worker)
	require.Equal(t, []string{post.ID}, w.shown(reader), "the delivery has ended")
}
