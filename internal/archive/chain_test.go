package archive_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// chain returns the links of a chain as "term", or "term<queue,table" for a cut link.
func chain(t *testing.T, a *archive.Archive, number, since uint64) (links []string) {
	t.Helper()
	c, err := a.Chain(t.Context(), number, since)
	require.NoError(t, err)
	for _, l := range c {
		text := fmt.Sprint(l.Number)
		if l.Cut {
			text += fmt.Sprintf("<%d,%d", l.Upto.Queue.Offset, l.Upto.Table.Offset)
		}
		links = append(links, text)
	}
	return links
}

// writes lets a writer write segments up to an offset of the queue's log.
func writes(t *testing.T, w *archive.Writer, upto uint64) *archive.Writer {
	t.Helper()
	for w.End().Queue.Offset < upto {
		require.NoError(t, put(t, w))
	}
	return w
}

// restored returns the start of a directory that a restore made.
func restored(node string, position stream.Position, followed archive.Parent) archive.Start {
	s := start(node, position)
	s.Anyway, s.Followed = true, followed
	return s
}

func TestAChainHasTheTermsOfItsDataOnly(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	assert.Empty(t, chain(t, a, 0, 0))
	writes(t, a.Writer(take(t, a, start("node", at(0, 0)))), 4)
	writes(t, a.Writer(take(t, a, start("node", at(6, 6)))), 8)
	assert.Equal(t, []string{"1<4,4", "2"}, chain(t, a, 0, 0))
	// A restore ends in the middle of term 1. The process of the other machine continues meanwhile.
	take(t, a, start("node", at(8, 8)))
	take(t, a, restored("copy", at(90, 90), parent(1, at(3, 2))))
	take(t, a, start("copy", at(95, 95)))
	assert.Equal(t, []string{"1<3,2", "4<90,90", "5"}, chain(t, a, 0, 0))
	assert.Equal(t, []string{"4<90,90", "5"}, chain(t, a, 0, 2))
	assert.Equal(t, []string{"1<4,4", "2<8,8", "3"}, chain(t, a, 3, 0), "a branch")
	// Other data, and data with writes that no term has, begin a chain of their own.
	take(t, a, restored("third", at(1, 1), archive.Parent{}))
	assert.Equal(t, []string{"6"}, chain(t, a, 0, 0))
	_, err := a.Chain(t.Context(), 77, 0)
	require.ErrorIs(t, err, objects.ErrNotThere)
}

func TestAChainBeginsAfterTheTermsThatRetentionRemoved(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	for range 3 {
		take(t, a, start("node", at(0, 0)))
	}
	require.NoError(t, store.Delete(t.Context(), "t/0000000000000001/term.json"))
	assert.Equal(t, []string{"2<0,0", "3"}, chain(t, a, 0, 0))
}

// An operator starts with a snapshot that is older than the newest two terms of its directory.
func TestASnapshotCutsAllLaterTermsOfItsDirectory(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	writes(t, a.Writer(take(t, a, restored("node", at(10, 10), archive.Parent{}))), 20)
	writes(t, a.Writer(take(t, a, start("node", at(20, 20)))), 30)
	snapshot := start("node", at(15, 15))
	snapshot.Anyway = true
	take(t, a, snapshot)
	assert.Equal(t, []string{"1<15,15", "2<15,15", "3"}, chain(t, a, 0, 0))
	c, err := a.Chain(t.Context(), 0, 0)
	require.NoError(t, err)
	_, last, err := a.Span(t.Context(), c[1])
	require.NoError(t, err)
	assert.Zero(t, last, "nothing of term 2 counts")
	for to, want := range map[uint64]bool{15: true, 16: false} {
		assert.Equal(t, want, c.Has(archive.Base{Term: 1, To: archive.Position(at(to, 15))}), "a base up to %d", to)
		assert.Equal(t, want, c.Has(archive.Base{Term: 1, To: archive.Position(at(15, to))}), "a base up to %d", to)
	}
	assert.False(t, c.Has(archive.Base{Term: 9}))
	assert.True(t, c.Has(archive.Base{Term: 3, To: archive.Position(at(99, 99))}))
}

func TestASpanIsFoundWithFewReads(t *testing.T) {
	t.Parallel()
	const segments = 1000
	for name, tt := range map[string]struct {
		removed     uint64
		sealed, cut bool
		upto        stream.Position
		first, last uint64
	}{
		"whole":               {last: segments, first: 1},
		"sealed":              {last: segments, first: 1, sealed: true},
		"after retention":     {removed: 400, first: 401, last: segments},
		"cut at the seal":     {sealed: true, cut: true, upto: at(segments, segments), first: 1, last: segments},
		"cut before the end":  {sealed: true, cut: true, upto: at(70, 70), first: 1, last: 70},
		"cut at two places":   {sealed: true, cut: true, upto: at(70, 65), first: 1, last: 70},
		"cut in a segment":    {cut: true, upto: stream.Position{Queue: stream.Place{Log: 1, Offset: 70}, Table: stream.Place{Log: 1, Offset: 1 << 40}}, first: 1, last: 70},
		"cut at the start":    {sealed: true, cut: true, upto: at(0, 0), first: 1, last: 0},
		"cut before retained": {removed: 400, cut: true, upto: at(70, 70), first: 401, last: 401},
	} {
		t.Run(name, func(t *testing.T) {
			store := &counted{Store: inMemory(t)}
			a := open(t, store)
			term := take(t, a, start("node", at(0, 0)))
			w := writes(t, a.Writer(term), segments)
			for n := range tt.removed {
				require.NoError(t, store.Delete(t.Context(), segmentName(1, n+1)))
			}
			if tt.sealed {
				take(t, a, start("node", w.End()))
			}
			store.lists = 0
			store.gets.Store(0)
			first, last, err := a.Span(t.Context(), archive.Link{Term: term, Cut: tt.cut, Upto: tt.upto})
			require.NoError(t, err)
			assert.Equal(t, tt.first, first)
			assert.Equal(t, tt.last, last)
			assert.LessOrEqual(t, store.lists, 30)
			assert.LessOrEqual(t, store.gets.Load(), int64(12))
		})
	}
	a := open(t, inMemory(t))
	first, last, err := a.Span(t.Context(), archive.Link{Term: take(t, a, start("node", at(0, 0)))})
	require.NoError(t, err)
	assert.Less(t, last, first, "a term without a segment")
}

// A clock goes back, and a frame is older than the segment before it. The times of the segments
// never go back, so a search by time finds the place of each time.
func TestTheTimesOfSegmentsNeverGoBack(t *testing.T) {
	t.Parallel()
	store := &counted{Store: inMemory(t)}
	a := open(t, store)
	w := a.Writer(take(t, a, start("node", at(0, 0))))
	begin := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	second := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	for i, times := range [][2]int{{1, 2}, {2, 5}, {4, 4}, {3, 6}, {6, 6}, {2, 2}, {7, 9}} {
		end := at(uint64(i+1), 0)
		require.NoError(t, w.Put(t.Context(), archive.Segment{Header: archive.Header{First: second(times[0]), Last: second(times[1]), Start: w.End(), End: end}}))
	}
	var lasts []int
	for e, err := range a.Entries(t.Context(), 1, 1, 7) {
		require.NoError(t, err)
		assert.False(t, e.First.After(e.Last))
		lasts = append(lasts, int(e.Last.Sub(begin)/time.Second))
	}
	assert.Equal(t, []int{2, 5, 5, 6, 6, 6, 9}, lasts)
	for at, want := range map[int]uint64{0: 1, 1: 1, 2: 2, 4: 2, 5: 4, 6: 7, 8: 7, 9: 8, 10: 8} {
		n, err := a.After(t.Context(), 1, 1, 7, second(at))
		require.NoError(t, err)
		assert.Equalf(t, want, n, "second %d", at)
	}
}

func TestSegmentsAreReadInOrder(t *testing.T) {
	t.Parallel()
	store := &counted{Store: inMemory(t)}
	a := open(t, store)
	writes(t, a.Writer(take(t, a, start("node", at(0, 0)))), 100)
	n := uint64(20)
	for s, err := range a.Segments(t.Context(), 1, 20, 90) {
		require.NoError(t, err)
		require.Equal(t, n, s.N)
		require.Equal(t, "frames", string(s.Frames))
		n++
	}
	assert.EqualValues(t, 91, n)
	// The caller needs no more, while other reads are under way.
	store.block = map[string]bool{segmentName(1, 3): true, segmentName(1, 9): true}
	for s, err := range a.Segments(t.Context(), 1, 1, 100) {
		require.NoError(t, err)
		if s.N == 2 {
			break
		}
	}
	require.NoError(t, store.Delete(t.Context(), segmentName(1, 2)))
	var last error
	for s, err := range a.Segments(t.Context(), 1, 1, 100) {
		if last = err; err == nil {
			assert.EqualValues(t, 1, s.N)
		}
	}
	require.ErrorIs(t, last, objects.ErrNotThere)
	assert.ErrorContains(t, last, segmentName(1, 2))
}

func TestGapsAndBasesAreListed(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	w := writes(t, a.Writer(take(t, a, start("node", at(0, 0)))), 3)
	gap := archive.Segment{Header: archive.Header{First: noon.Add(time.Hour), Last: noon.Add(2 * time.Hour), Start: at(7, 7), End: at(8, 8), Gap: true}}
	require.NoError(t, w.Put(t.Context(), gap))
	take(t, a, start("node", w.End()))
	c, err := a.Chain(t.Context(), 0, 0)
	require.NoError(t, err)
	var gaps []archive.Gap
	for g, err := range a.Gaps(t.Context(), c) {
		require.NoError(t, err)
		gaps = append(gaps, g)
	}
	require.Len(t, gaps, 1)
	assert.EqualValues(t, 4, gaps[0].N)
	assert.Equal(t, at(7, 7), gaps[0].Position)
	assert.False(t, gaps[0].To.Before(gaps[0].From))

	for _, id := range []archive.BaseID{{2, 1}, {1, 0xabc}, {1, 3}} {
		base := someBase()
		base.Term, base.First = id.Term, id.First
		text, err := base.Encode()
		require.NoError(t, err)
		require.NoError(t, store.Create(t.Context(), archive.BaseName(id.Term, id.First), objects.Bytes(text)))
		back, err := a.Base(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, base, back)
	}
	ids, err := a.Bases(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []archive.BaseID{{1, 3}, {1, 0xabc}, {2, 1}}, ids)
}
