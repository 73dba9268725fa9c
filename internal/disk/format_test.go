package disk_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
)

func wantNewer(t *testing.T, err error, found, known int) {
	t.Helper()
	newer, ok := errors.AsType[*disk.FormatError](err)
	if !ok || newer.Found != found || newer.Known != known || !strings.Contains(err.Error(), "use a newer fanfare") {
		t.Errorf("error = %v, want a FormatError of %d and %d that says what to do", err, found, known)
	}
}

// After a newer program has opened the store of an older program, the older program refuses the store.
func TestAnOlderFormatIsReadAndANewerOneRefused(t *testing.T) {
	t.Parallel()
	for _, oneByte := range []bool{false, true} {
		fs := vfs.NewMem()
		format := func(known int) disk.Format {
			return disk.Format{Key: []byte("format"), Known: known, OneByte: oneByte}
		}
		for _, known := range []int{1, 1, 3} {
			db, err := openFormat(fs, format(known))
			require.NoErrorf(t, err, "format %d", known)
			require.NoError(t, db.Close(func() {}))
		}
		for range 2 { // a refused store must release its lock
			_, err := openFormat(fs, format(2))
			wantNewer(t, err, 3, 2)
		}
	}
}

func TestAFormatThatNoVersionWroteIsRefused(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{"", "0", "-1", "x", "\x01"} {
		fs := vfs.NewMem()
		db := open(t, fs)
		require.NoError(t, errors.Join(db.Set([]byte("format"), []byte(stored), pebble.Sync), db.Close(func() {})))
		_, err := openFormat(fs, disk.Format{Key: []byte("format"), Known: 1})
		assert.ErrorContainsf(t, err, "no fanfare wrote", "format %q", stored)
	}
}

// The same rule holds for Pebble's own format: the program's Pebble may be older than the files.
func TestFilesOfANewerPebbleAreRefused(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	require.NoError(t, open(t, fs).Close(func() {}))
	files, err := fs.List("data")
	require.NoError(t, err)
	i := slices.IndexFunc(files, func(name string) bool { return strings.HasPrefix(name, "marker.format-version.") })
	require.NoError(t, fs.Rename("data/"+files[i], "data/marker.format-version.000099.099"))
	_, err = openFormat(fs, disk.Format{Key: []byte("format"), Known: 1})
	wantNewer(t, err, 99, int(pebble.FormatNewest))
}
