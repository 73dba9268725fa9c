package archive_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
)

func load(t *testing.T, dir string) *archive.State {
	t.Helper()
	s, err := archive.LoadState(dir)
	require.NoError(t, err)
	return s
}

func TestADirectoryKeepsItsState(t *testing.T) {
	dir := t.TempDir()
	s := load(t, dir)
	assert.NotEqual(t, s.Node, load(t, t.TempDir()).Node)
	assert.NotEqual(t, s.Lineage, s.Node)
	assert.Equal(t, s, load(t, dir))

	require.NoError(t, s.Start(at(1, 1), "v", 2).Keep(7))
	assert.EqualValues(t, 7, load(t, dir).Asked)
	require.NoError(t, s.Begin(at(3, 3)))
	require.NoError(t, s.Take(archive.Term{Number: 7, Lineage: s.Lineage}))
	back := load(t, dir)
	assert.Equal(t, s, back)
	assert.EqualValues(t, 7, back.Took)
	assert.Nil(t, back.Ended)
}

// A copy of a directory that wrote for hours without the archive has more than the original had
// when the copy was made. Only the end at the first start shows that it is a copy.
func TestTheFirstStartAfterATermDecidesWhatIsOld(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, load(t, dir).Begin(at(3, 3)))
	s := load(t, dir)
	require.NoError(t, s.Begin(at(9, 9)))
	assert.Equal(t, at(3, 3), s.Start(at(9, 9), "v", 2).At)

	a := open(t, inMemory(t))
	w := a.Writer(take(t, a, archive.Start{Lineage: s.Lineage, Node: s.Node, At: at(2, 2), DataFormat: 2, Keep: s.Start(at(0, 0), "v", 2).Keep}))
	for range 4 {
		require.NoError(t, put(t, w))
	}
	_, err := a.Take(t.Context(), s.Start(at(9, 9), "v", 2))
	require.ErrorIs(t, err, archive.ErrOldCopy)
}

// Writes between the restore and the take are in no term, so the term cannot continue an older one.
func TestARestoredDirectoryWithWritesHasNoParent(t *testing.T) {
	dir := t.TempDir()
	s := archive.NewState(dir, "lineage")
	s.Followed, s.Restored = parent(4, at(80, 90)), archive.Position(at(1, 2))
	require.NoError(t, s.Save())
	s = load(t, dir)
	assert.Equal(t, parent(4, at(80, 90)), s.Start(at(1, 2), "v", 2).Followed)
	assert.Equal(t, archive.Parent{}, s.Start(at(1, 3), "v", 2).Followed)
	// The stream has the writes since the first start with an archive.
	require.NoError(t, s.Begin(at(1, 2)))
	assert.Equal(t, parent(4, at(80, 90)), s.Start(at(1, 3), "v", 2).Followed)
	require.NoError(t, s.Take(archive.Term{Number: 5, Lineage: "lineage"}))
	assert.Equal(t, archive.Parent{}, load(t, dir).Followed)
}

func TestTheFormatOfAState(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, archive.StateFile)
	text, err := os.ReadFile(filepath.Join("testdata", "state1.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	s := load(t, dir)
	assert.Equal(t, archive.Position(at(7, 8)), *s.Ended)
	require.NoError(t, s.Save())
	stored, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(text), string(stored))

	text, err = os.ReadFile(filepath.Join("testdata", "state2.json")) // of a standby that has become the primary
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	s = load(t, dir)
	assert.Equal(t, "D", s.Disk)
	require.NoError(t, s.Save())
	stored, err = os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(text), string(stored))

	for broken, fault := range map[string]string{
		`{`:                                     "damaged",
		`{"format":3}`:                          "format 3",
		`{"format":1,"lineage":"a"}`:            "lacks lineage or node",
		`{"format":1,"lineage":"a","more":"b"}`: "more",
	} {
		require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))
		_, err := archive.LoadState(dir)
		assert.ErrorContains(t, err, fault)
	}
}
