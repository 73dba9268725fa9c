package archive_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/strictjson"
)

func load(t *testing.T, dir string) *archive.State {
	t.Helper()
	s, err := archive.LoadState(dir)
	require.NoError(t, err)
	return s
}

// same compares what two states have stored.
func same(t *testing.T, a, b *archive.State) {
	t.Helper()
	one, err := json.Marshal(a)
	require.NoError(t, err)
	two, err := json.Marshal(b)
	require.NoError(t, err)
	assert.JSONEq(t, string(one), string(two))
}

func TestADirectoryKeepsItsState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := load(t, dir)
	assert.NotEqual(t, s.Node, load(t, t.TempDir()).Node)
	assert.NotEqual(t, s.Lineage, s.Node)
	same(t, s, load(t, dir))

	asks := s.Start(at(1, 1), "v", 2)
	for range 2 {
		require.NoError(t, asks.Keep())
	}
	assert.Equal(t, []string{asks.Nonce}, load(t, dir).Asked)
	assert.True(t, load(t, dir).Start(at(1, 1), "v", 2).Asked(asks.Nonce), "a late request of an earlier start is its own")
	assert.False(t, asks.Asked(load(t, dir).Start(at(1, 1), "v", 2).Nonce), "each process has a nonce of its own")
	require.NoError(t, s.Begin(at(3, 3)))
	require.NoError(t, s.Take(archive.Term{Number: 7, Lineage: s.Lineage, Nonce: asks.Nonce}))
	back := load(t, dir)
	same(t, s, back)
	assert.EqualValues(t, 7, back.Took)
	assert.Nil(t, back.Ended)
}

// A copy of a directory that wrote for hours without the archive has more than the original had
// when the copy was made. Only the end at the first start shows that it is a copy.
func TestTheFirstStartAfterATermDecidesWhatIsOld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, load(t, dir).Begin(at(3, 3)))
	s := load(t, dir)
	require.NoError(t, s.Begin(at(9, 9)))
	assert.Equal(t, at(3, 3), s.Start(at(9, 9), "v", 2).At)

	a := open(t, inMemory(t))
	w := a.Writer(take(t, a, s.Start(at(2, 2), "v", 2)))
	for range 4 {
		require.NoError(t, put(t, w))
	}
	_, err := a.Take(t.Context(), s.Start(at(9, 9), "v", 2))
	require.ErrorIs(t, err, archive.ErrOldCopy)
}

// Writes between the restore and the take are in no term, so the term cannot continue an older one.
func TestARestoredDirectoryWithWritesHasNoParent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := archive.NewState(dir, "lineage")
	require.NoError(t, err)
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
	t.Parallel()
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
		`{`:            "damaged",
		`{"format":3}`: "format 3",
		`{"format":1}`: "no SHA-256",
		summed(t, map[string]any{"format": 1, "lineage": "a"}):              "lacks lineage or node",
		summed(t, map[string]any{"format": 1, "lineage": "a", "more": "b"}): "more",
	} {
		require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))
		_, err := archive.LoadState(dir)
		assert.ErrorContains(t, err, fault)
	}
}

func summed(t *testing.T, v any) string {
	t.Helper()
	text, err := strictjson.MarshalSummed(v)
	require.NoError(t, err)
	return string(text)
}

// Each damage of a directory's state is named. A lost state is another directory's, and an older one asked for an older term, so the archive
// decides: see TestADirectoryThatMayNotTakeTheArchiveEndsNobody.
func TestEachDamageOfAStateIsNamedOrHarmless(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, archive.StateFile)
	s := load(t, dir)
	older, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, s.Take(archive.Term{Number: 5, Lineage: s.Lineage, Nonce: "nonce"}))
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, c := range disktest.Changes() {
		for i, damaged := range c.Apply(whole, older) {
			require.NoError(t, os.Remove(file))
			if damaged != nil {
				require.NoError(t, os.WriteFile(file, damaged, 0o600))
			}
			after, err := archive.LoadState(dir)
			switch c.Name {
			case "absent":
				require.NoError(t, err)
				assert.NotEqual(t, s.Lineage, after.Lineage)
				assert.NotEqual(t, s.Node, after.Node)
			case "an older one":
				require.NoError(t, err)
				assert.Less(t, after.Took, s.Took)
			default:
				assert.ErrorContainsf(t, err, archive.StateFile, "%s %d", c.Name, i)
			}
		}
	}
}
