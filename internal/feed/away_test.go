package feed_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed/home"

	fanclock "fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

const aDay = 24 * time.Hour

func active(days int) func(*config) { return func(c *config) { c.ActiveDays = days } }

// today returns the day of the world's clock.
func (w *world) today() schema.Day { return schema.DayOf(w.clock.now()) }

func (w *world) presence(user string) *schema.Presence {
	w.t.Helper()
	it := w.item(schema.PresenceKey(user))
	if it == nil {
		return nil
	}
	p, err := schema.ParsePresence(*it)
	require.NoError(w.t, err)
	return &p
}

// dated returns the day of the edge from follower to author, or 0 for an edge without a day.
func (w *world) dated(follower, author string) schema.Day {
	w.t.Helper()
	edge, err := schema.ParseEdge(*w.item(schema.FollowerKey(author, follower)))
	require.NoError(w.t, err)
	return edge.Until
}

func (w *world) upto(user string) schema.Day {
	w.t.Helper()
	_, counts, err := schema.ParseUser(w.partition(schema.UserPK(user)))
	require.NoError(w.t, err)
	return counts.Upto
}

// with returns another process on the same table.
func (w *world) with(change ...func(*config)) *world {
	return newWorldAt(w.t, w.clock, append(change, func(c *config) { c.Store = w.store })...)
}

// asked reads viewer's home and returns the kinds of the events that the read published.
func (w *world) asked(viewer string) []messages.Kind {
	w.t.Helper()
	w.published.take()
	w.page(viewer, 20)
	var kinds []messages.Kind
	for _, e := range w.published.take() {
		kinds = append(kinds, messages.KindOf(e))
	}
	return kinds
}

// A first follow enrols its reader, and dates its edge. A later edge has at least the day of the
// presence, whatever the process's setting is.
func TestAFollowDatesItsEdge(t *testing.T) {
	w := newWorld(t, active(14))
	w.users("ann", "bob", "cid", "dan", "eve", "off")
	w.follow("ann", "bob")
	first := w.today() + 14
	assert.Equal(t, &schema.Presence{User: "ann", State: schema.PresenceHere, Until: first}, w.presence("ann"))
	assert.Equal(t, []schema.Day{first, first}, []schema.Day{w.dated("ann", "bob"), w.upto("ann")})
	w.clock.add(aDay)
	w.with(active(2)).follow("ann", "cid")
	assert.Equal(t, first, w.dated("ann", "cid"), "no day below upto")
	w.follow("ann", "dan")
	assert.Equal(t, first+1, w.dated("ann", "dan"))
	assert.Equal(t, first, w.presence("ann").Until)
	assert.Equal(t, first, w.upto("ann"), "a later follow changes nothing for others")
	w.with().follow("ann", "eve")
	assert.Equal(t, w.today()+90, w.dated("ann", "eve"), "the feature is off there")
	w.with().follow("off", "bob")
	assert.Zero(t, w.dated("off", "bob"))
	assert.Nil(t, w.presence("off"))
	w.checkCounts("ann", "bob", "cid", "dan", "eve", "off")
}

// Between a follow's read and the follow's transaction, another process raises the reader's days, or
// enrols the reader.
func TestAFollowHeedsDaysThatAreBeingRaised(t *testing.T) {
	for _, days := range []int{0, 2} {
		for _, enrolled := range []bool{false, true} {
			var raised schema.Day
			w, tp := tapped(t, active(days))
			w.users("ann", "bob", "cid")
			if enrolled {
				w.with(active(2)).follow("ann", "cid")
			}
			tp.set(func(c call) failure {
				if c.op == table.OpTransact && raised == 0 {
					raised = w.today() + 100
					for _, it := range []table.Item{
						{Key: schema.CountsKey("ann"), Attrs: []table.Attr{{Name: schema.AttrUptoDay, Value: table.N(int64(raised))}}},
						schema.Presence{User: "ann", State: schema.PresenceHere, Until: raised}.Item(),
					} {
						_, err := tp.Store.Put(t.Context(), table.PutInput{Item: it})
						require.NoError(t, err)
					}
				}
				return works
			})
			w.follow("ann", "bob")
			assert.Equal(t, raised, w.dated("ann", "bob"))
		}
	}
}

func TestAFollowAboveTheLimitOfFollowsEnrolsNobody(t *testing.T) {
	w := newWorld(t, active(14), func(c *config) { c.MaxFollowing = 1 })
	w.users("ann", "bob", "cid")
	w.follow("ann", "bob")
	wantKind(t, w.Follow(t.Context(), "ann", "cid"), fault.Limit)
	wantKind(t, w.with(func(c *config) { c.MaxFollowing = 1 }).Follow(t.Context(), "ann", "cid"), fault.Limit)
	require.NoError(t, w.Follow(t.Context(), "ann", "bob"))
}

// A home read publishes Seen for its reader at most once an hour, and only in three cases: the reader
// has no presence, half of the days have passed, or the last week has begun.
func TestAHomeReadAsksForTheReadersDays(t *testing.T) {
	seen := []messages.Kind{"Seen"}
	w := newWorld(t)
	w.users("ann")
	assert.Empty(t, w.asked("ann"), "the feature is off")
	for _, c := range []struct {
		days, quiet int // days are the active days; no event is sent until quiet hours before the last day
	}{{2, 24}, {14, 7 * 24}, {60, 7 * 24}, {0, 7 * 24}} {
		w := newWorld(t, active(c.days))
		w.users("ann")
		if c.days > 0 {
			assert.Equal(t, seen, w.asked("ann"), "a reader without a presence")
		}
		until := w.today() + schema.DaysAhead(c.days)
		w.put(schema.Presence{User: "ann", State: schema.PresenceHere, Until: until}.Item())
		w.clock.add(until.Start().Add(-time.Duration(c.quiet) * time.Hour).Sub(w.clock.now()))
		assert.Empty(t, w.asked("ann"), "%d days", c.days)
		w.clock.add(time.Second)
		w.published.failWith(errors.New("queue down"))
		assert.Empty(t, w.asked("ann"))
		w.published.failWith(nil)
		assert.Equal(t, seen, w.asked("ann"), "%d days", c.days)
		w.clock.add(time.Hour - time.Second)
		assert.Empty(t, w.asked("ann"), "within the hour")
		w.clock.add(time.Second)
		assert.Equal(t, seen, w.asked("ann"))
		w.clock.add(-2 * time.Hour)
		w.clock.add(until.Start().Add(-time.Second).Sub(w.clock.now()))
		assert.Equal(t, seen, w.asked("ann"))
		w.clock.add(time.Second)
		assert.Equal(t, []messages.Kind{"Returned"}, w.asked("ann"))
	}
}

// The home of an away reader is read by pull until its entries exist, and for another minute.
func TestAReturningReaderSeesEverythingAtOnce(t *testing.T) {
	for _, days := range []int{14, 0} { // the setting of the process that reads
		w := newWorld(t, active(14))
		w.users("ann", "bob")
		w.follow("ann", "bob")
		w.post("bob", "pushed")
		w.deliver()
		p := *w.presence("ann")
		w.clock.add((p.Until + 1).Start().Sub(w.clock.now()))
		w.post("bob", "skipped")
		w.published.take()
		reader := w.with(active(days))
		reader.published.failWith(errors.New("queue down"))
		reader.homes("ann", "skipped", "pushed")
		reader.published.failWith(nil)
		want := schema.Presence{User: "ann", State: schema.PresenceReturning, Until: p.Until, V: 1, Lo: id.Floor((p.Until + 1).Start())}
		assert.Equal(t, &want, w.presence("ann"))
		assert.Empty(t, reader.asked("ann"), "within the minute")
		w.clock.add(time.Minute)
		assert.Equal(t, []messages.Kind{"Returned"}, reader.asked("ann"), "the first event was lost")

		ended := want
		ended.State, ended.Until, ended.At, ended.Lo = schema.PresenceHere, w.today()+14, w.clock.now().Truncate(time.Millisecond), ""
		w.put(ended.Item())
		w.clock.add(time.Minute - time.Millisecond)
		reader.homes("ann", "skipped", "pushed")
		w.clock.add(time.Millisecond)
		assert.Equal(t, []string{"pushed"}, texts(reader.page("ann", 20)), "the entry that this test did not write")
	}
}

func TestTheFirstPageAfterAnAbsenceIsComplete(t *testing.T) {
	w := newWorld(t, active(14))
	names := w.followees("viewer", 500)
	w.users(names[7], names[499])
	w.put(schema.Presence{User: "viewer", State: schema.PresenceHere, Until: w.today() + 14}.Item())
	w.clock.add(60 * aDay)
	var want []string
	for i := range 30 {
		want = append([]string{w.post([]string{names[7], names[499]}[i%2], fmt.Sprint(i)).Text}, want...)
	}
	w.published.take()
	assert.Equal(t, want[:20], texts(w.page("viewer", 20)))
}

// A second absence widens the gap, until its posts are too old for a home.
func TestASecondAbsenceWidensTheGap(t *testing.T) {
	for name, c := range map[string]struct {
		away  time.Duration
		wider bool
	}{
		"older gap": {20 * aDay, true}, "gap of expired posts": {timelineTTL + aDay, false},
		"its last post is shown": {timelineTTL - 2*time.Second, true}, "its last post expires": {timelineTTL - time.Second, false},
	} {
		w := newWorld(t, active(14))
		w.users("ann")
		lo := id.Floor(w.clock.now().Add(-aDay))
		p := schema.Presence{User: "ann", State: schema.PresenceHere, Until: w.today() + 14, V: 1, Lo: lo, Hi: id.Floor(w.clock.now())}
		w.put(p.Item())
		w.clock.add(c.away)
		assert.Equal(t, []messages.Kind{"Returned"}, w.asked("ann"))
		want := schema.Presence{User: "ann", State: schema.PresenceReturning, Until: p.Until, V: 2, Lo: id.Floor((p.Until + 1).Start())}
		if c.wider {
			want.Lo = lo
		}
		assert.Equal(t, &want, w.presence("ann"), name)
	}
}

// The entries of the gap are missing. Each page that reaches into the gap still shows the gap's posts,
// whatever the page's size, and whether the page begins above, in or below the gap.
func TestPagesInAGapAreMerged(t *testing.T) {
	const posts = 12
	for lo := range posts {
		for hi := lo; hi < posts; hi++ {
			w := newWorld(t, active(14))
			w.users("ann", "bob", "cid")
			w.follow("ann", "bob")
			w.follow("ann", "cid")
			w.deliver()
			w.clock.add(2 * time.Minute)
			var want, ids []string
			for i := range posts {
				p := w.post([]string{"bob", "cid", "ann"}[i%3], numbered(posts, "p")[i])
				want, ids = append(want, p.Text), append(ids, p.ID)
				if events := w.published.take(); i < lo || i >= hi {
					w.published.events = events
					w.deliver()
				}
			}
			slices.Reverse(want)
			p := *w.presence("ann")
			p.Lo, p.Hi, p.V = ids[lo], ids[hi], 1
			w.put(p.Item())
			for limit := 1; limit <= posts; limit += 2 {
				require.Equalf(t, want, texts(w.home("ann", limit, home.Query{})), "gap from %d to %d, pages of %d", lo, hi, limit)
			}
			news := w.news("ann", home.Query{After: ids[0]}, 3)
			require.Equal(t, posts-1, news.Unread)
		}
	}
}

// A home whose pages all reach into the gap still requests lost backfills.
func TestAPageInAGapRemindsOfBackfills(t *testing.T) {
	w := newWorld(t, active(14))
	w.users("ann", "bob")
	w.follow("ann", "bob")
	p := *w.presence("ann")
	p.Lo, p.Hi = id.Min, id.Floor(w.clock.now())
	w.put(p.Item())
	w.clock.add(time.Minute)
	assert.Equal(t, []messages.Kind{"Followed"}, w.asked("ann"))
}

// The first page after the gap, and the pages above the gap, read no followee's list.
func TestPagesOutsideAGapCostWhatTheyCostWithoutOne(t *testing.T) {
	var m meter
	s := newSample(t, newClock(), m.onto, active(14))
	p := *s.presence("viewer")
	newest := s.page("viewer", 20)
	p.Lo, p.Hi = id.Min, newest[19].Post.ID
	s.put(p.Item())
	read := func(limit int) float64 { return m.of(func() { require.Len(t, s.page("viewer", limit), limit) }) }
	assert.Less(t, read(18), 32.5)
	assert.LessOrEqual(t, read(19), 32.5, "the page ends where the gap begins")
	assert.Greater(t, read(20), 50.0)
	p.Hi = id.Floor(s.clock.now().Add(-timelineTTL))
	s.put(p.Item())
	assert.Equal(t, 32.5, read(20), "a gap of expired posts")
}

// A reader without a presence soon gets a presence, at any number of active days. The process
// publishes Seen for the reader even if its clock is set back.
func TestAReaderWithoutAPresenceIsSeen(t *testing.T) {
	seen := []messages.Kind{"Seen"}
	w := newWorld(t, active(1))
	w.users("ann")
	assert.Equal(t, seen, w.asked("ann"))
	w.clock.add(-time.Minute)
	assert.Equal(t, seen, w.asked("ann"), "the clock was set back")
	assert.Empty(t, w.asked("ann"), "within the hour")
}

// While the clock is in doubt, a home is read by pull, and no event is sent.
func TestAHomeIsReadByPullWhileTheClockIsInDoubt(t *testing.T) {
	at := newClock()
	clk := fanclock.New(at.now)
	w := newWorldAt(t, at, active(14), func(c *config) { c.Clock = clk })
	w.users("ann", "bob")
	w.follow("ann", "bob")
	w.post("bob", "not delivered")
	past := schema.Presence{User: "ann", State: schema.PresenceHere, Until: w.today() - 2}
	w.put(past.Item())
	clk.Observe(at.now().Add(-time.Hour), 0)
	assert.Empty(t, w.asked("ann"))
	assert.Equal(t, []string{"not delivered"}, texts(w.page("ann", 20)))
	assert.Equal(t, &past, w.presence("ann"))
	clk.Observe(at.now(), 0)
	assert.Equal(t, []messages.Kind{"Returned"}, w.asked("ann"))
}

// A home read requests no return if another read has begun the return, or if the table did not store
// the return. The home is complete in both cases.
func TestAReturnThatIsNotBegunIsNotAskedFor(t *testing.T) {
	for name, f := range map[string]failure{"the table fails": lost, "another read began it": works} {
		w, tp := tapped(t, active(14))
		w.users("ann", "bob")
		w.follow("ann", "bob")
		w.post("bob", "not delivered")
		p := *w.presence("ann")
		p.Until = w.today() - 2
		w.put(p.Item())
		tp.set(func(c call) failure {
			if c.op != table.OpPut {
				return works
			}
			if f == works {
				begun := p
				begun.V++
				_, err := tp.Store.Put(t.Context(), table.PutInput{Item: begun.Item()})
				require.NoError(t, err)
			}
			return f
		})
		w.published.take()
		assert.Equal(t, []string{"not delivered"}, texts(w.page("ann", 20)), name)
		assert.Empty(t, w.published.take(), name)
		tp.set(nil)
		assert.Equal(t, []messages.Kind{"Returned"}, w.asked("ann"), name)
	}
}
