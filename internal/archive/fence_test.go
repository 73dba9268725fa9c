package archive_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// inMemory returns an empty store.
func inMemory(t *testing.T) objects.Store {
	t.Helper()
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("archive", 0o700))
	store, err := objects.OpenDirectory(mem, "archive")
	require.NoError(t, err)
	return store
}

func open(t *testing.T, store objects.Store) *archive.Archive {
	t.Helper()
	a, err := archive.New(store, time.Now)
	require.NoError(t, err)
	return a
}

func at(queue, table uint64) stream.Position {
	return stream.Position{Queue: stream.Place{Log: 1, Offset: queue}, Table: stream.Place{Log: 2, Offset: table}}
}

func parent(term uint64, position stream.Position) archive.Parent {
	return archive.Parent{Term: term, Position: archive.Position(position)}
}

// start returns the start of a directory that asked for every term of a test.
func start(node string, position stream.Position) archive.Start {
	return archive.Start{
		Lineage: "lineage", Node: node, At: position, Logs: position, Version: "v0.1.0", DataFormat: 2,
		Nonce: rand.Text(), Keep: func() error { return nil }, Asked: func(string) bool { return true },
	}
}

// never is Start.Asked of a directory that did not ask for the terms of a test.
func never(string) bool { return false }

// put writes a segment of one byte of each log.
func put(t *testing.T, w *archive.Writer) error {
	t.Helper()
	now := time.Now()
	end := w.End()
	end.Queue.Offset++
	end.Table.Offset++
	return w.Put(t.Context(), archive.Segment{Header: archive.Header{First: now, Last: now, Start: w.End(), End: end}, Frames: []byte("frames")})
}

func take(t *testing.T, a *archive.Archive, s archive.Start) archive.Term {
	t.Helper()
	term, err := a.Take(t.Context(), s)
	require.NoError(t, err)
	return term
}

func TestADirectoryTakesTermAfterTerm(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	first := take(t, a, start("node", at(10, 20)))
	assert.EqualValues(t, 1, first.Number)
	assert.Equal(t, archive.Parent{}, first.Parent)
	assert.Equal(t, archive.Position(at(10, 20)), first.From)
	w := a.Writer(first)
	for range 5 {
		require.NoError(t, put(t, w))
	}
	assert.Equal(t, at(15, 25), w.End())

	// The process died with bytes that the archive lacks. The next term begins with these bytes.
	again := start("node", at(17, 25))
	again.Took = 1
	second := take(t, a, again)
	assert.Equal(t, parent(1, at(15, 25)), second.Parent)
	assert.Equal(t, archive.Position(at(15, 25)), second.From)
	newest, err := a.Newest(t.Context())
	require.NoError(t, err)
	assert.Equal(t, second.Nonce, newest.Nonce)

	// The process died before its first segment.
	again.Took = 2
	third := take(t, a, again)
	assert.Equal(t, parent(2, at(15, 25)), third.Parent)

	seal, err := a.Segment(t.Context(), 1, 6)
	require.NoError(t, err)
	assert.True(t, seal.Seal)
	assert.Equal(t, at(15, 25), seal.End)
	_, err = a.Segment(t.Context(), 1, 7)
	require.ErrorIs(t, err, objects.ErrNotThere)
}

func TestTheOldWriterIsFenced(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	old := a.Writer(take(t, a, start("node", at(0, 0))))
	require.NoError(t, put(t, old))
	taker := start("other", at(5, 5))
	taker.Anyway, taker.Followed = true, parent(1, at(1, 1))
	term := take(t, a, taker)
	assert.Equal(t, parent(1, at(1, 1)), term.Parent)
	assert.Equal(t, archive.Position(at(5, 5)), term.From, "its logs have numbers of their own")
	for range 2 { // the fence is permanent
		fenced, ok := errors.AsType[*archive.FencedError](put(t, old))
		require.True(t, ok)
		assert.True(t, fenced.Sealed)
		assert.EqualValues(t, 1, fenced.Term)
		assert.ErrorContains(t, fenced, "another process took over")
	}
	require.NoError(t, put(t, a.Writer(term)))
}

// A directory that may not write to the archive is refused before it seals anything: the writer
// of the production continues.
func TestADirectoryThatMayNotTakeTheArchiveEndsNobody(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	lost := start("node", at(0, 0))
	lost.Took = 3
	_, err := a.Take(t.Context(), lost)
	require.ErrorIs(t, err, archive.ErrTermsLost)
	w := a.Writer(take(t, a, start("node", at(0, 0))))
	require.NoError(t, put(t, w))
	for want, edit := range map[error]func(*archive.Start){
		archive.ErrOtherLineage: func(s *archive.Start) { s.Lineage = "another" },
		archive.ErrTakenOver:    func(s *archive.Start) { s.Node = "restored" },
		archive.ErrTermsLost:    func(s *archive.Start) { s.Took = 2 },
		archive.ErrOldCopy:      func(s *archive.Start) { s.Asked = never }, // another copy asked for term 1
	} {
		s := start("node", at(9, 9))
		edit(&s)
		_, err := a.Take(t.Context(), s)
		require.ErrorIs(t, err, want)
		require.NoError(t, put(t, w))
		s.Anyway = true
		assert.EqualValues(t, 2, take(t, open(t, copied(t, a, w)), s).Number)
	}
}

// copied returns a store with a copy of an archive of one term, so that a test may take the copy.
func copied(t *testing.T, a *archive.Archive, w *archive.Writer) objects.Store {
	t.Helper()
	store := inMemory(t)
	b := open(t, store)
	other := b.Writer(take(t, b, start("node", at(0, 0))))
	for other.End() != w.End() {
		require.NoError(t, put(t, other))
	}
	newest, err := a.Newest(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, newest.Number)
	return store
}

// A directory that was restored from a snapshot has less data than the archive.
func TestAnOldCopyIsRefused(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	w := a.Writer(take(t, a, start("node", at(0, 0))))
	require.NoError(t, put(t, w))
	for _, position := range []stream.Position{at(0, 0), at(0, 7), at(7, 0), {}} { // without its stores it ends nowhere
		_, err := a.Take(t.Context(), start("node", position))
		require.ErrorIs(t, err, archive.ErrOldCopy)
	}
	s := start("node", at(0, 7))
	s.Anyway = true
	term := take(t, a, s)
	assert.Equal(t, parent(1, at(0, 1)), term.Parent, "the rest of the parent is void")
	assert.Equal(t, archive.Position(at(0, 1)), term.From, "the archive lacks the bytes of the table after this place")
}

// If the number of a new term were not on the disk, the next start would look like the start of an old copy.
func TestADirectoryKeepsTheTermThatItAsksFor(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	s := start("node", at(0, 0))
	full := errors.New("the disk is full")
	s.Keep = func() error { return full }
	_, err := a.Take(t.Context(), s)
	require.ErrorIs(t, err, full)
	newest, err := a.Newest(t.Context())
	require.NoError(t, err)
	assert.Zero(t, newest.Number)
}

// A restore to a point in time ends in an older term than the newest one: the directory continues there.
func TestARestoredDirectoryContinuesAtItsPlace(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	take(t, a, start("old", at(4, 4)))
	for range 2 {
		next := start("old", at(9, 9))
		take(t, a, next)
	}
	for followed, want := range map[archive.Parent]archive.Parent{
		parent(2, at(3, 3)):  parent(2, at(3, 3)),
		{}:                   {},
		parent(99, at(3, 3)): {}, // the archive lost that term
	} {
		taker := start("restored", at(5, 5))
		_, err := a.Take(t.Context(), taker)
		require.ErrorIs(t, err, archive.ErrTakenOver)
		taker.Anyway, taker.Followed = true, followed
		term := take(t, a, taker)
		assert.Equal(t, want, term.Parent)
		assert.Equal(t, archive.Position(at(5, 5)), term.From)
		old := start("old", at(9, 9))
		old.Anyway = true
		take(t, a, old)
	}
}

func TestTwoDirectoriesTakeOneTerm(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	take(t, a, start("old", at(0, 0)))
	first, second := start("first", at(0, 0)), start("second", at(0, 0))
	first.Anyway, second.Anyway = true, true
	// The second directory takes the term after the first directory has looked for the newest term.
	racing := &before{Store: store, name: "t/0000000000000002/term.json", do: func() { take(t, open(t, store), second) }}
	_, err := open(t, racing).Take(t.Context(), first)
	taken, ok := errors.AsType[*archive.TakenError](err)
	require.Truef(t, ok, "%v", err)
	assert.Equal(t, "second", taken.Term.Node)
	assert.ErrorContains(t, err, "must not start")
}

// A start asked for a term and died. Its request arrives while the next start of the same
// directory asks for a term: no process writes to the late term.
func TestALateRequestOfAnEarlierStart(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	take(t, open(t, store), start("node", at(0, 0)))
	racing := &before{Store: store, name: "t/0000000000000002/term.json", do: func() { take(t, open(t, store), start("node", at(3, 3))) }}
	term := take(t, open(t, racing), start("node", at(3, 3)))
	assert.EqualValues(t, 3, term.Number)
	assert.Equal(t, parent(2, at(0, 0)), term.Parent)
}

// before is a store that calls do before the first creation of a name.
type before struct {
	objects.Store
	name string
	do   func()
}

func (b *before) create(name string) {
	if do := b.do; do != nil && name == b.name {
		b.do = nil
		do()
	}
}

// The writer writes segments faster than the other process writes the seal, more than once.
func TestASealGoesBehindTheLastSegment(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	w := a.Writer(take(t, a, start("node", at(0, 0))))
	require.NoError(t, put(t, w))
	racing := &before{Store: store, name: "t/0000000000000001/s/000000000002"}
	racing.do = func() {
		require.NoError(t, put(t, w))
		require.NoError(t, put(t, w))
	}
	term := take(t, open(t, racing), start("node", at(3, 3)))
	assert.Equal(t, parent(1, at(3, 3)), term.Parent)
	_, ok := errors.AsType[*archive.FencedError](put(t, w))
	assert.True(t, ok)
}

// The last segment of a term of any length is found with few lists.
func TestTheLastSegmentIsFoundWithFewLists(t *testing.T) {
	t.Parallel()
	for _, segments := range []int{0, 1, 2, 3, 7, 8, 9, 100, 1000} {
		store := &counted{Store: inMemory(t)}
		a := open(t, store)
		w := a.Writer(take(t, a, start("node", at(0, 0))))
		for range segments {
			require.NoError(t, put(t, w))
		}
		for n := range uint64(segments / 2) { // a base has made these segments needless
			require.NoError(t, store.Delete(t.Context(), segmentName(1, n+1)))
		}
		store.lists = 0
		term := take(t, a, start("node", w.End()))
		assert.Equalf(t, archive.Position(w.End()), term.Parent.Position, "%d segments", segments)
		assert.LessOrEqual(t, store.lists, 30)
	}
}

func TestForeignObjectsAreNamed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"t/readme", "t/0000000000000001x", "t/000000000000000G/term.json"} {
		store := inMemory(t)
		require.NoError(t, store.Create(t.Context(), name, objects.Bytes([]byte("x"))))
		_, err := open(t, store).Take(t.Context(), start("node", at(0, 0)))
		require.Error(t, err)
		assert.Truef(t, strings.Contains(err.Error(), name) || errors.Is(err, objects.ErrNotThere), "%v", err)
	}
}

// A segment that does not begin at the end of the previous segment would leave a hole that no reader notices.
func TestAWriterRefusesAHole(t *testing.T) {
	t.Parallel()
	a := open(t, inMemory(t))
	w := a.Writer(take(t, a, start("node", at(0, 0))))
	require.NoError(t, put(t, w))
	hole := archive.Segment{Header: archive.Header{Start: at(4, 4), End: at(5, 5)}}
	require.ErrorContains(t, w.Put(t.Context(), hole), "not at the end")
	hole.Gap = true
	require.NoError(t, w.Put(t.Context(), hole))
	back, err := a.Segment(t.Context(), 1, 2)
	require.NoError(t, err)
	assert.True(t, back.Gap)
	assert.Equal(t, at(5, 5), w.End())
}

// The object in the writer's place was written by a newer version, or is damaged. The writer has
// lost the place in any case.
func TestAnyObjectInTheWritersPlaceIsAFence(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a := open(t, store)
	w := a.Writer(take(t, a, start("node", at(0, 0))))
	require.NoError(t, store.Create(t.Context(), segmentName(1, 1), objects.Bytes([]byte("FFSG of tomorrow"))))
	fenced, ok := errors.AsType[*archive.FencedError](put(t, w))
	require.True(t, ok)
	assert.False(t, fenced.Sealed)
	assert.ErrorContains(t, fenced, "of another writer")
}
