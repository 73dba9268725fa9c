package embedded

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/table"
)

// The archive has a directory of format 1, with one item in a sorted file and one item in the
// log. Both items are in the index.
func TestADirectoryOfFormat1OpensAndANewerOneIsRefused(t *testing.T) {
	t.Parallel()
	dir := disktest.Unzip(t, "testdata/format1.zip")
	s := open(t, dir, Options{SweepEvery: -1})
	for pk, want := range map[string]int64{"sorted": 1, "logged": 2} {
		assert.Equal(t, want, number(t, s, pk), pk)
	}
	items, _, err := table.Collect(s.Query(t.Context(), table.Query{PK: "g", Index: true}), 0)
	if err != nil || len(items) != 2 || items[0].Key.PK != "logged" || items[0].Str("text") != "é" {
		t.Errorf("the index has %v, %v", items, err)
	}
	require.NoError(t, errors.Join(s.db.Set([]byte("mformat"), []byte("2"), pebble.Sync), s.Close()))
	_, err = Create(dir, Options{})
	if newer, ok := errors.AsType[*disk.FormatError](err); !ok || newer.Found != 2 || newer.Known != 1 {
		t.Errorf("error = %v, want a FormatError of 2 and 1", err)
	}
}

// An older Fanfare can open a new directory only if Fanfare's format and Pebble's format stay the same.
func TestANewDirectoryHasTheFormatsOfFormat1(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	value, closer, err := s.db.Get([]byte("mformat"))
	if err != nil || string(value) != "1" || s.db.FormatMajorVersion() != 24 {
		t.Fatalf("format %q, %v, of Pebble %d; want 1 and 24", value, err, s.db.FormatMajorVersion())
	}
	assert.NoError(t, closer.Close())
}
