package embedded

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
)

// The archive has a directory of format 1, with one message and one dead letter in a sorted
// file, and one message in the log.
func TestADirectoryOfFormat1OpensAndANewerOneIsRefused(t *testing.T) {
	t.Parallel()
	dir := disktest.Unzip(t, "testdata/format1.zip")
	var passed atomic.Int64
	made := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	b, err := Create(dir, Options{Now: func() time.Time { return made.Add(time.Duration(passed.Load())) }})
	require.NoError(t, err)
	assert.Equal(t, []string{"logged", "sorted"}, receive(t, b, 2))
	letters, err := b.ListDead(t.Context(), topicName, 10)
	if err != nil || len(letters) != 1 || letters[0].ID != "dead" || letters[0].Reason != "why" {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	passed.Store(int64(deadRetention + 1))
	if n, err := b.dropOld(t.Context(), b.byName[topicName]); n != 1 || err != nil {
		t.Errorf("dropped %d dead letters of two weeks, %v", n, err)
	}
	require.NoError(t, errors.Join(b.db.Set([]byte("f"), []byte{2}, pebble.Sync), b.Close()))
	_, err = Create(dir, Options{})
	if newer, ok := errors.AsType[*disk.FormatError](err); !ok || newer.Found != 2 || newer.Known != 1 {
		t.Errorf("error = %v, want a FormatError of 2 and 1", err)
	}
}

// An older Fanfare can open a new directory only if Fanfare's format and Pebble's format stay the same.
func TestANewDirectoryHasTheFormatsOfFormat1(t *testing.T) {
	t.Parallel()
	b := mustOpen(t, vfs.NewMem())
	value, closer, err := b.db.Get([]byte("f"))
	if err != nil || string(value) != "\x01" || b.db.FormatMajorVersion() != 21 {
		t.Fatalf("format %q, %v, of Pebble %d; want 1 and 21", value, err, b.db.FormatMajorVersion())
	}
	assert.NoError(t, closer.Close())
}
