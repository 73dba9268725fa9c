package archive_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// ofPair returns the start of a machine of a pair, as the primary of a term of the pair.
func ofPair(node string, term uint64, position stream.Position) archive.Start {
	s := start(node, position)
	s.Lineage = "lineage of " + node
	s.Pair = &archive.Pair{Lineage: "pair", Term: term, Disk: "disk of " + node}
	return s
}

// A standby that becomes the primary follows the terms of the other machine without an operator. The old primary is fenced,
// and cannot take the archive back.
func TestAPromotedStandbyTakesTheArchive(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	first := ofPair("one", 1, at(10, 20))
	old := a.Writer(take(t, a, first))
	require.NoError(t, put(t, old))
	next := ofPair("two", 2, at(500, 600))
	term := take(t, a, next)
	assert.Equal(t, "lineage of one", term.Lineage, "the data are the same")
	assert.Equal(t, parent(1, at(11, 21)), term.Parent)
	assert.Zero(t, term.From, "the first segment is behind a gap")
	_, fenced := errors.AsType[*archive.FencedError](put(t, old))
	assert.True(t, fenced)

	_, err := a.Take(t.Context(), first)
	require.ErrorIs(t, err, archive.ErrReplaced)
	assert.True(t, archive.Refused(err))
	assert.False(t, archive.Ended(err))

	// A crash before the first segment keeps the gap.
	next.Lineage, next.Took = term.Lineage, term.Number
	again := take(t, a, next)
	assert.Equal(t, parent(2, stream.Position{}), again.Parent)
	assert.Zero(t, again.From)

	// The roles change back: the first machine is another directory now, because it was a standby.
	third := take(t, a, ofPair("one again", 3, at(700, 700)))
	assert.Equal(t, "lineage of one", third.Lineage)
	assert.EqualValues(t, 3, third.Parent.Term)
}

// If the archive has all that the standby had of the primary, the new term continues at that place. Bytes that only the
// archive has are void: an operator has given them up.
func TestASuccessionWithoutAGap(t *testing.T) {
	t.Parallel()
	for has, gap := range map[stream.Position]bool{at(11, 21): false, at(10, 21): false, at(12, 21): true, at(10, 22): true} {
		a := open(t, inMemory(t))
		require.NoError(t, put(t, a.Writer(take(t, a, ofPair("one", 1, at(10, 20))))))
		next := ofPair("two", 2, at(500, 600))
		next.Followed, next.Disk = parent(0, has), "disk of one"
		term := take(t, a, next)
		if gap {
			assert.Equal(t, parent(1, at(11, 21)), term.Parent)
			assert.Zero(t, term.From)
			continue
		}
		assert.Equal(t, parent(1, has), term.Parent)
		assert.Equal(t, archive.Position(at(500, 600)), term.From)
	}
	// The place is in the logs of another disk.
	a := open(t, inMemory(t))
	take(t, a, ofPair("one", 1, at(10, 20)))
	next := ofPair("two", 2, at(500, 600))
	next.Followed, next.Disk = parent(0, at(1, 1)), "disk of three"
	assert.Zero(t, take(t, a, next).From)
}

func TestOnlyAMachineOfThePairFollowsWithoutAnOperator(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	take(t, a, ofPair("one", 5, at(0, 0)))
	stranger := ofPair("two", 9, at(0, 0))
	stranger.Pair.Lineage, stranger.Lineage = "another pair", "lineage of one"
	_, err := a.Take(t.Context(), stranger)
	require.ErrorIs(t, err, archive.ErrTakenOver)
	alone := start("restored", at(0, 0))
	alone.Lineage = "lineage of one"
	_, err = a.Take(t.Context(), alone)
	require.ErrorIs(t, err, archive.ErrTakenOver)
	before := open(t, inMemory(t)) // its term names no pair
	take(t, before, start("one", at(0, 0)))
	_, err = before.Take(t.Context(), ofPair("two", 9, at(0, 0)))
	require.ErrorIs(t, err, archive.ErrOtherLineage)
}

// The promoted standby writes the frames of the other machine that the archive lacks, in the numbers of that machine's logs. Then its own
// term continues without a gap.
func TestAPromotedStandbyCompletesTheArchive(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	old := a.Writer(take(t, a, ofPair("one", 1, at(10, 20))))
	require.NoError(t, put(t, old))
	next := ofPair("two", 2, at(500, 600))
	next.Followed, next.Disk = parent(0, at(13, 23)), "disk of one"
	for want := uint64(2); want < 4; want++ { // the first process dies after a part
		part, ok, err := a.Complete(t.Context(), next)
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, want, part.Number)
		assert.Equal(t, "one", part.Node)
		assert.Equal(t, archive.Position(at(9+want, 19+want)), part.From)
		require.NoError(t, put(t, a.Writer(part)))
	}
	_, fenced := errors.AsType[*archive.FencedError](put(t, old))
	assert.True(t, fenced)
	_, ok, err := a.Complete(t.Context(), next)
	require.NoError(t, err)
	assert.False(t, ok, "the archive has everything")
	term := take(t, a, next)
	assert.Equal(t, parent(3, at(13, 23)), term.Parent)
	assert.Equal(t, archive.Position(at(500, 600)), term.From)

	for name, edit := range map[string]func(*archive.Start){
		"no standby":       func(s *archive.Start) { s.Disk = "" },
		"another disk":     func(s *archive.Start) { s.Disk = "disk of three" },
		"an earlier term":  func(s *archive.Start) { s.Pair.Term = 1; s.Disk = "disk of two" },
		"the same machine": func(*archive.Start) {},
	} {
		s := ofPair("three", 3, at(1, 1))
		s.Followed, s.Disk = parent(0, at(900, 900)), "disk of one"
		edit(&s)
		_, ok, err := a.Complete(t.Context(), s)
		require.NoError(t, err)
		assert.False(t, ok, name)
	}
	require.NoError(t, put(t, a.Writer(term)), "a machine that may not write ends nobody")
}

func TestASequelHasNoHole(t *testing.T) {
	t.Parallel()
	frame := func(kind stream.Kind, store stream.Store, log, offset uint64, size int) stream.Frame {
		return stream.Frame{Kind: kind, Store: store, Log: log, Offset: offset, Data: make([]byte, size)}
	}
	q := archive.Sequel{At: at(10, 20)}
	for i, row := range []struct {
		frame              stream.Frame
		continues, missing bool
	}{
		{frame(stream.Bytes, stream.Queue, 1, 0, 10), false, false},
		{stream.SafeAt(at(10, 20), 0), false, false},
		{frame(stream.Bytes, stream.Queue, 1, 11, 1), false, true},
		{frame(stream.Bytes, stream.Queue, 1, 5, 10), true, false},
		{frame(stream.Begins, stream.Queue, 2, 0, 0), false, true}, // the end of log 1 may be missing
		{frame(stream.Ends, stream.Queue, 1, 15, 0), true, false},
		{frame(stream.Bytes, stream.Queue, 2, 0, 1), false, true},
		{frame(stream.Begins, stream.Queue, 3, 0, 0), true, false},
		{frame(stream.Bytes, stream.Queue, 3, 0, 4), true, false},
		{frame(stream.Begins, stream.Table, 3, 0, 0), false, true},
		{frame(stream.Cut, stream.Table, 2, 20, 0), true, false},
		{frame(stream.Begins, stream.Table, 3, 0, 0), true, false},
	} {
		continues, missing := q.Take(row.frame)
		assert.Equal(t, []bool{row.continues, row.missing}, []bool{continues, missing}, i)
	}
	assert.Equal(t, stream.Position{Queue: stream.Place{Log: 3, Offset: 4}, Table: stream.Place{Log: 3}}, q.At)
}

// The state of a standby that has become the primary is valid as long as its logs have not grown.
func TestTheStateOfASuccession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := archive.NewState(dir, "lineage")
	require.NoError(t, err)
	s.Disk, s.Followed, s.Restored = "disk of one", parent(0, at(1, 1)), archive.Position(at(5, 5))
	require.NoError(t, s.Save())
	s, err = archive.LoadState(dir)
	require.NoError(t, err)
	assert.Equal(t, 2, s.Format)
	assert.Equal(t, "disk of one", s.Start(at(5, 5), "v", 2).Disk)
	assert.Empty(t, s.Start(at(6, 5), "v", 2).Disk)
	require.NoError(t, s.Take(archive.Term{Number: 7, Lineage: "other"}))
	assert.Equal(t, 1, s.Format)
	assert.Empty(t, s.Disk)
}

// A term that the other machine of the pair continues has no line of its own, unless an operator gave its rest up.
func TestTheLinesOfAPair(t *testing.T) {
	t.Parallel()
	for has, want := range map[stream.Position]int{at(11, 21): 1, at(12, 21): 1, at(10, 21): 2} {
		store := inMemory(t)
		a := open(t, store)
		one := a.Writer(take(t, a, ofPair("one", 1, at(10, 20))))
		require.NoError(t, put(t, one))
		made := archive.Base{DataFormat: 2, MadeAt: time.Now().Add(-time.Second), Lineage: "lineage", Term: 1, First: 1, From: archive.Position(at(10, 20)), To: archive.Position(at(11, 21))}
		text, err := made.Encode()
		require.NoError(t, err)
		require.NoError(t, store.Create(t.Context(), archive.BaseName(1, 1), objects.Bytes(text)))
		next := ofPair("two", 2, at(500, 600))
		next.Followed, next.Disk = parent(0, has), "disk of one"
		take(t, a, next)
		c, err := a.Catalog(t.Context())
		require.NoError(t, err)
		lines, err := a.Lines(t.Context(), c)
		require.NoError(t, err)
		assert.Lenf(t, lines, want, "the standby had the stream up to %v", has)
	}
}

// The archive shows the gap of a succession, and the place of the gap in the time.
func TestTheGapOfASuccessionIsNamed(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	require.NoError(t, put(t, a.Writer(take(t, a, ofPair("one", 1, at(10, 20))))))
	term := take(t, a, ofPair("two", 2, at(500, 600)))
	w := a.Writer(term)
	now := time.Now()
	segment := archive.Segment{Header: archive.Header{First: now, Last: now, Start: at(500, 600), End: at(500, 600), Gap: true}}
	require.NoError(t, w.Put(t.Context(), segment))
	chain, err := a.Chain(t.Context(), 0, 0)
	require.NoError(t, err)
	require.Len(t, chain, 2)
	gaps := 0
	for gap, err := range a.Gaps(t.Context(), chain) {
		require.NoError(t, err)
		assert.EqualValues(t, 2, gap.Term)
		assert.False(t, gap.From.IsZero())
		gaps++
	}
	assert.Equal(t, 1, gaps)
	found, err := a.Verify(t.Context(), func(int64, int64) {})
	require.NoError(t, err)
	require.Len(t, found.Faults, 1)
	assert.Contains(t, found.Faults[0].Fault, "no base", "and the gap is no fault")
}
