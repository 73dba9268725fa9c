package feed_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// marker sets a marker and checks the marker's new position.
func (w *world) marker(user, name, position, want string) {
	w.t.Helper()
	m, err := w.SetMarker(w.t.Context(), user, name, position)
	require.NoError(w.t, err)
	stored, err := w.MarkerOf(w.t.Context(), user, name)
	require.NoError(w.t, err)
	assert.Equal(w.t, stored, m)
	assert.Equal(w.t, want, m.Position)
}

func TestAMarkerMovesForwardOnly(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.marker("ann", "home", "b", "b")
	moved := w.clock.now()
	w.clock.add(time.Hour + time.Microsecond) // an answer has the precision of a read: milliseconds
	for position, want := range map[string]string{"a": "b", "b": "b", "B": "b"} {
		w.marker("ann", "home", position, want)
	}
	m, err := w.MarkerOf(t.Context(), "ann", "home")
	require.NoError(t, err)
	assert.Equal(t, moved, m.UpdatedAt, "nothing moved")
	w.marker("ann", "home", "ba", "ba")
	w.marker("ann", "Home", "a", "a")
	w.marker("bob", "home", "a", "a")
	require.NoError(t, w.DeleteMarker(t.Context(), "ann", "home"))
	require.NoError(t, w.DeleteMarker(t.Context(), "ann", "home"))
	_, err = w.MarkerOf(t.Context(), "ann", "home")
	wantKind(t, err, fault.NotFound)
	w.marker("ann", "home", "a", "a")
	require.NoError(t, w.ImportMarker(t.Context(), "ann", "old", "7", longAgo))
	require.NoError(t, w.ImportMarker(t.Context(), "ann", "old", "6", longAgo.Add(time.Hour)))
	w.marker("ann", "old", "1", "7")
}

// Another device moves the marker between the read and the write of the call.
func TestAMarkerIsNotLoweredByACallThatIsOvertaken(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	w.marker("ann", "home", "1", "1")
	other := newWorldAt(t, w.clock, func(c *config) { c.Store = tp.Store })
	puts := 0
	tp.set(func(c call) failure {
		if c.op == table.OpPut {
			if puts++; puts == 1 {
				other.marker("ann", "home", "3", "3")
			}
		}
		return works
	})
	w.marker("ann", "home", "2", "3")
}

func TestDevicesThatMarkAtOnceEndAtTheHighestPosition(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	var all sync.WaitGroup
	for _, position := range []string{"3", "1", "5", "2", "4"} {
		all.Go(func() { _, _ = w.SetMarker(t.Context(), "ann", "home", position) }) // five calls may conflict too often
	}
	all.Wait()
	w.marker("ann", "home", "5", "5")
	w.marker("ann", "home", "1", "5")
}

func TestRefusedMarkers(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	set := func(user, name, position string) error {
		_, err := w.SetMarker(t.Context(), user, name, position)
		return err
	}
	wantKind(t, set("new", "home", "1"), fault.ProfileMissing)
	wantKind(t, w.DeleteMarker(t.Context(), "new", "home"), fault.ProfileMissing)
	for name, position := range map[string]string{"": "1", "a b": "1", ".": "1", strings.Repeat("n", 65): "1", "a": "", "b": "ä", "c": "\x00", "d": strings.Repeat("1", 129), "e#f": "1"} {
		wantKind(t, set("ann", name, position), fault.Invalid)
	}
	var items []table.Item
	for _, name := range numbered(feed.MaxMarkers, "n") {
		items = append(items, schema.Marker{User: "ann", Name: name, Position: "1", At: w.clock.now()}.Item())
	}
	w.put(items...)
	wantKind(t, set("ann", "home", "1"), fault.Limit)
	w.marker("ann", "n0007", "2", "2")
	require.NoError(t, w.DeleteMarker(t.Context(), "ann", "n0007"))
	w.marker("ann", "home", "1", "1")
	names := list(t, 100, func(in page.Request) (page.List[feed.Marker], error) { return w.Markers(t.Context(), "ann", in) })
	assert.Len(t, names, feed.MaxMarkers)
	first, err := w.Markers(t.Context(), "ann", page.Request{})
	require.NoError(t, err)
	_, err = w.Markers(t.Context(), "bob", page.Request{Cursor: first.NextCursor})
	wantKind(t, err, fault.Malformed)
}
