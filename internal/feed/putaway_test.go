package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// enrolled makes ann follow a number of users. If dated is set, the edges have the presence's days.
// Otherwise neither the edges nor ann have days. enrolled returns the followees.
func (w *world) enrolled(dated bool, followees int) []string {
	w.t.Helper()
	names := numbered(followees, "author")
	w.users("ann")
	w.users(names...)
	process := w.with()
	if dated {
		process = w
	}
	for _, name := range names {
		process.follow("ann", name)
	}
	w.published.take()
	return names
}

// The presence and each edge get the day before yesterday. The other parts of the presence do not
// change.
func TestAReaderIsPutAwayWithAllItsEdges(t *testing.T) {
	lo, hi := id.Floor(longAgo), id.Floor(longAgo.Add(aDay))
	for name, c := range map[string]struct {
		// until is the number of days from today to the presence's day before the call. want is that number
		// after the call.
		presence    bool
		until, want schema.Day
	}{
		"none": {false, 0, -2}, "ahead": {true, 14, -2}, "yesterday": {true, -1, -2}, "at the day": {true, -2, -2}, "long away": {true, -9, -9},
	} {
		for _, followees := range []int{0, 1, 30} { // 30 edges are more than one transaction dates back
			w := newWorld(t, active(14))
			names := w.enrolled(c.presence, followees)
			want := schema.Presence{User: "ann", State: schema.PresenceHere, Until: w.today() + c.want}
			if c.presence {
				want.V, want.At, want.Lo, want.Hi = 3, longAgo, lo, hi
				before := want
				before.Until = w.today() + c.until
				w.put(before.Item())
			}
			upto := w.upto("ann")
			for range 2 {
				require.NoError(t, w.PutAway(t.Context(), "ann"))
				assert.Equal(t, &want, w.presence("ann"), name)
				for _, author := range names {
					assert.Equal(t, want.Until, w.dated("ann", author), name)
				}
			}
			if !c.presence {
				upto = want.Until
			}
			assert.Equal(t, upto, w.upto("ann"), name)
			assert.Empty(t, w.published.take())
		}
	}
}

func TestAReaderWhoCannotBePutAway(t *testing.T) {
	w := newWorld(t, active(1))
	wantKind(t, w.PutAway(t.Context(), "ann"), fault.ProfileMissing)
	w.enrolled(true, 1)
	wantKind(t, w.with().PutAway(t.Context(), "ann"), fault.NotFound)
	returning := schema.Presence{User: "ann", State: schema.PresenceReturning, Until: w.today() - 5, V: 1}
	w.put(returning.Item())
	dated := w.dated("ann", "author0000")
	err := w.PutAway(t.Context(), "ann")
	wantKind(t, err, fault.Unavailable)
	var refusal *fault.Error
	require.ErrorAs(t, err, &refusal)
	assert.Equal(t, time.Second, refusal.RetryAfter)
	assert.Equal(t, "the home is being rebuilt: try again", refusal.Detail)
	assert.Equal(t, &returning, w.presence("ann"))
	assert.Equal(t, dated, w.dated("ann", "author0000"), "the edges of a reader that returns")
	w.put(table.Item{Key: schema.PresenceKey("ann")})
	wantDamage(t, w.PutAway(t.Context(), "ann"))
}

func TestAFailedPutAwayMayBeRepeated(t *testing.T) {
	for _, dated := range []bool{false, true} {
		eachCallFails(t, func(w *world) { w.enrolled(dated, 30) },
			func(w *world) error { return w.PutAway(t.Context(), "ann") },
			func(w *world) {
				assert.Equal(t, w.today()-2, w.presence("ann").Until)
				for _, author := range numbered(30, "author") {
					assert.Equal(t, w.today()-2, w.dated("ann", author))
				}
			}, active(14))
	}
}

// Between the reads and a transaction, another process ends a follow, enrols the reader, or refreshes
// the reader's days. The call then reads again.
func TestAReaderIsPutAwayWhileItsFollowsChange(t *testing.T) {
	for name, c := range map[string]struct {
		dated     bool
		meanwhile func(w *world) error
		left      []string
	}{
		"an unfollow":  {true, func(w *world) error { return w.Unfollow(t.Context(), "ann", "author0000") }, []string{"author0001"}},
		"a first read": {false, func(w *world) error { return w.PutAway(t.Context(), "ann") }, []string{"author0000", "author0001"}},
		"a refresh": {true, func(w *world) error {
			w.put(schema.Presence{User: "ann", State: schema.PresenceHere, Until: w.today() + 20}.Item())
			return nil
		}, []string{"author0000", "author0001"}},
	} {
		w, store := onTransact(t, active(14))
		w.enrolled(c.dated, 2)
		store.do = func() { require.NoError(t, c.meanwhile(w), name) }
		require.NoError(t, w.PutAway(t.Context(), "ann"), name)
		assert.Equal(t, w.today()-2, w.presence("ann").Until, name)
		assert.Len(t, w.partition(schema.FollowingPK("ann")), len(c.left), name)
		for _, author := range c.left {
			assert.Equal(t, w.today()-2, w.dated("ann", author), name)
		}
	}
}
