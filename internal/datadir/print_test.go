package datadir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/datadir"
)

func printed(t *testing.T, path string) *datadir.Print {
	t.Helper()
	p, err := datadir.PrintOf(path)
	require.NoError(t, err)
	return p
}

// A copy of the files is no move: only the copy has a lock file of a later birth.
func TestThePrintOfADirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	opened, err := datadir.Open(dir)
	require.NoError(t, err)
	first := printed(t, dir)
	require.NoError(t, opened.Close())
	if first.Born == 0 {
		t.Log("the file system of the tests keeps no births")
	}
	opened, err = datadir.Open(dir)
	require.NoError(t, err)
	require.NoError(t, opened.Close())
	moved := dir + "2"
	require.NoError(t, os.Rename(dir, moved))
	assert.Equal(t, datadir.Original, datadir.Compare(first, printed(t, moved)))
	copied := dir + "3"
	require.NoError(t, os.CopyFS(copied, os.DirFS(moved)))
	assert.Equal(t, first.Born != 0, datadir.Compare(first, printed(t, copied)) == datadir.Copied)
	assert.Nil(t, printed(t, t.TempDir()))
}

func TestOnlyABirthShowsACopy(t *testing.T) {
	t.Parallel()
	base := datadir.Print{Born: 5, Inode: 6, Device: 7, Boot: "boot"}
	for want, all := range map[datadir.Likeness][]datadir.Print{
		datadir.Original: {base},
		datadir.Alike:    {{5, 6, 7, "next"}, {5, 6, 8, "boot"}, {5, 9, 7, "boot"}, {5, 8, 9, "next"}, {5, 6, 7, ""}},
		datadir.Copied:   {{4, 6, 7, "boot"}, {0, 6, 7, "boot"}, {9, 1, 2, "next"}},
	} {
		for _, now := range all {
			assert.Equal(t, want, datadir.Compare(&base, &now), now)
		}
	}
	nameless := datadir.Print{Born: 5}
	assert.Equal(t, datadir.Alike, datadir.Compare(&nameless, &nameless), "without the name of a boot nothing shows that it is the same one")
	assert.Equal(t, datadir.Original, datadir.Compare(nil, &base))
	assert.Equal(t, datadir.Original, datadir.Compare(&base, nil))
}
