package archive_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/datadir"
	"fanfare/internal/stream"
)

// A refused directory changes neither the archive nor its own files.
func TestARefusedOldCopyEndsNobody(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	w := a.Writer(take(t, a, start("node", at(0, 0))))
	require.NoError(t, put(t, w))
	copied := start("node", at(0, 0))
	copied.Keep = func() error { t.Error("it asked"); return nil }
	_, err := a.Take(t.Context(), copied)
	require.ErrorIs(t, err, archive.ErrOldCopy)
	require.NoError(t, put(t, w), "the writer of the production continues")
}

// The writer of the production writes while the copy of its directory starts: the copy has become old before its seal.
func TestACopyThatBecomesOldDuringItsStartEndsNobody(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	w := a.Writer(take(t, a, start("node", at(0, 0))))
	require.NoError(t, put(t, w))
	racing := &before{Store: store, name: segmentName(1, 2), do: func() { require.NoError(t, put(t, w)) }}
	_, err := open(t, racing).Take(t.Context(), start("node", at(1, 1)))
	require.ErrorIs(t, err, archive.ErrOldCopy)
	require.NoError(t, put(t, w), "the writer of the production continues")
}

// A disk that is full, or a term that cannot be written, is noticed before the seal.
func TestAStartThatFailsEndsNobody(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	w := a.Writer(take(t, a, start("node", at(0, 0))))
	for _, edit := range []func(*archive.Start){
		func(s *archive.Start) { s.Keep = func() error { return errors.New("the disk is full") } },
		func(s *archive.Start) { s.DataFormat = 0 },
		func(s *archive.Start) { s.Nonce = "" },
	} {
		s := start("node", at(9, 9))
		edit(&s)
		_, err := a.Take(t.Context(), s)
		require.Error(t, err)
		require.NoError(t, put(t, w))
	}
}

// Two copies of a directory ask for the same term. The number of the term does not tell them apart, but its nonce does.
func TestTheTermOfAnotherCopyIsNoLateRequest(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	first := take(t, a, start("node", at(0, 0)))
	asked := func(s *archive.Start) archive.Start {
		s.Took, s.Asked = 1, func(nonce string) bool { return nonce == first.Nonce || nonce == s.Nonce }
		return *s
	}
	copied, original := start("node", at(3, 3)), start("node", at(3, 3))
	asked(&copied)
	racing := &before{Store: store, name: "t/0000000000000002/term.json", do: func() { take(t, a, copied) }}
	_, err := open(t, racing).Take(t.Context(), asked(&original))
	_, taken := errors.AsType[*archive.TakenError](err)
	require.Truef(t, taken, "%v", err)
	_, err = a.Take(t.Context(), original)
	require.ErrorIs(t, err, archive.ErrOldCopy)
}

// The refusal of a copy names which of the two has more, and never advises to delete writes that are nowhere else.
func TestARefusedCopyShowsWhichHasMore(t *testing.T) {
	t.Parallel()
	const (
		restores = "run fanfare restore into an empty directory"
		keep     = "this directory has writes after"
		both     = "each of the two has writes after"
		same     = "both have the same writes"
	)
	for name, c := range map[string]struct {
		logs stream.Position
		puts int // of the other copy
		want string
	}{
		"the directory": {at(5, 5), 0, keep}, "the archive": {at(1, 1), 1, restores}, "both": {at(5, 5), 1, both}, "neither": {at(1, 1), 0, same},
	} {
		t.Run(name, func(t *testing.T) {
			a := open(t, inMemory(t))
			first := take(t, a, start("node", at(0, 0)))
			require.NoError(t, put(t, a.Writer(first)))
			w := a.Writer(take(t, a, start("node", at(1, 1)))) // the other copy
			for range c.puts {
				require.NoError(t, put(t, w))
			}
			s := start("node", c.logs)
			s.Took, s.Asked = 1, func(nonce string) bool { return nonce == first.Nonce }
			_, err := a.Take(t.Context(), s)
			require.ErrorIs(t, err, archive.ErrOldCopy)
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, c.want == restores, strings.Contains(err.Error(), restores))
			require.NoError(t, put(t, w), "the other copy continues")

			// An operator continues with the directory: its term continues its own term, and has no byte of the other copy.
			s.Anyway = true
			term := take(t, a, s)
			assert.Equal(t, parent(1, at(1, 1)), term.Parent)
			assert.Equal(t, archive.Position(at(1, 1)), term.From)
		})
	}
	// The archive continues the own term, which has more.
	a := open(t, inMemory(t))
	require.NoError(t, put(t, a.Writer(take(t, a, start("node", at(0, 0))))))
	old := start("node", at(0, 0))
	_, err := a.Take(t.Context(), old)
	require.ErrorContains(t, err, restores)
	old.Logs = at(0, 5)
	_, err = a.Take(t.Context(), old)
	require.ErrorContains(t, err, both)
}

// A copy of the files is refused before it ends anybody. An older copy is refused as such, because then the archive has more.
func TestACopyOfTheFilesIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   stream.Position
		want error
		text string
	}{
		{at(1, 1), archive.ErrCopied, "both have the same writes"},
		{at(3, 3), archive.ErrCopied, "keep it"},
		{at(0, 0), archive.ErrOldCopy, "fanfare restore"},
	} {
		a := open(t, inMemory(t))
		w := a.Writer(take(t, a, start("node", at(0, 0))))
		require.NoError(t, put(t, w))
		s := start("node", c.at)
		s.Likeness = datadir.Copied
		_, err := a.Take(t.Context(), s)
		require.ErrorIs(t, err, c.want)
		require.ErrorContains(t, err, c.text)
		s.Anyway = true
		p, err := a.Preview(t.Context(), s)
		require.NoError(t, err)
		assert.True(t, p.Own)
		assert.False(t, p.Copy)
		assert.Equal(t, c.at == at(0, 0), p.Lacks)
		require.NoError(t, put(t, w), "nobody has ended the original")
	}
}

// Only the archive shows whether the original of a cloned disk lives.
func TestAClonedDiskWaitsForTheArchive(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	w := a.Writer(take(t, a, start("node", at(0, 0))))
	require.NoError(t, put(t, w))
	alike := start("node", at(9, 9))
	alike.Likeness = datadir.Alike
	_, err := a.Take(t.Context(), alike)
	unsure, ok := errors.AsType[*archive.UnsureError](err)
	require.Truef(t, ok, "%v", err)
	assert.False(t, archive.Refused(err))
	require.NoError(t, put(t, w), "an unsure directory ends nobody")
	alike.Seen = &unsure.Seen
	_, err = a.Take(t.Context(), alike)
	require.ErrorIs(t, err, archive.ErrCopied)
	require.NoError(t, put(t, w))

	// The writer awakes between the last look and the seal.
	seen := archive.Seen{Term: 1, N: 3}
	alike.Seen = &seen
	racing := &before{Store: store, name: segmentName(1, 4), do: func() { require.NoError(t, put(t, w)) }}
	_, err = open(t, racing).Take(t.Context(), alike)
	require.ErrorIs(t, err, archive.ErrCopied)
	require.NoError(t, put(t, w))

	seen.N = 5
	assert.EqualValues(t, 2, take(t, a, alike).Number, "nobody has written")
}

// A writer that has ended in order lives no more.
func TestAClonedDiskDoesNotWaitAfterASeal(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	term := take(t, a, start("node", at(0, 0)))
	require.NoError(t, put(t, a.Writer(term)))
	for range 2 { // a stop may be repeated
		n, err := a.Seal(t.Context(), term)
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
	}
	alike := start("node", at(9, 9))
	alike.Likeness = datadir.Alike
	assert.Equal(t, parent(1, at(1, 1)), take(t, a, alike).Parent)

	// The machines of a pair decide themselves who writes.
	pair := ofPair("one", 1, at(0, 0))
	a = open(t, inMemory(t))
	require.NoError(t, put(t, a.Writer(take(t, a, pair))))
	pair.Likeness, pair.At = datadir.Alike, at(5, 5)
	take(t, a, pair)
	pair.Likeness = datadir.Copied
	_, err := a.Take(t.Context(), pair)
	require.ErrorIs(t, err, archive.ErrCopied)
}

// An operator has allowed the end of one term, and not of the term that another directory took meanwhile.
func TestATakeEndsOnlyTheTermThatWasShown(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	take(t, a, start("one", at(0, 0)))
	s := start("two", at(1, 1))
	s.Anyway, s.Asked = true, never
	p, err := a.Preview(t.Context(), s)
	require.NoError(t, err)
	assert.Equal(t, "one", p.Newest.Node)
	other := start("three", at(2, 2))
	other.Anyway = true
	w := a.Writer(take(t, a, other))
	s.Over = &p.Newest.Number
	_, err = a.Take(t.Context(), s)
	require.ErrorContains(t, err, "run the command again")
	require.NoError(t, put(t, w))
}
