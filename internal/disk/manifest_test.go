package disk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
)

func openExisting(fs vfs.FS, exists bool) (*disk.DB, error) {
	options := &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatValueSeparation, ErrorIfNotExists: exists}
	return disk.Open(nil, "db", zap.NewNop(), options, disk.Format{Key: []byte("format"), Known: 1})
}

const storedKeys = 4

// newest returns the path of the last file of a store whose name begins with prefix.
func newest(t *testing.T, fs vfs.FS, prefix string) (path string) {
	t.Helper()
	names, err := fs.List("db")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && "db/"+name > path {
			path = "db/" + name
		}
	}
	return path
}

// flushed returns a closed store with four keys, each flushed by itself, and the path of its manifest.
func flushed(t *testing.T) (fs *vfs.MemFS, manifest string) {
	t.Helper()
	fs = vfs.NewMem()
	db, err := openExisting(fs, false)
	require.NoError(t, err)
	for i := range storedKeys {
		require.NoError(t, db.Set(fmt.Appendf(nil, "key %d", i), []byte("answered"), pebble.Sync))
		require.NoError(t, db.Flush())
	}
	require.NoError(t, db.Close(func() {}))
	return fs, newest(t, fs, "MANIFEST-")
}

// No data depend on a store's options, so each damage of the file is harmless, or the start names the file and what to do.
func TestDamagedOptionsAreNamedOrHarmless(t *testing.T) {
	t.Parallel()
	clean, _ := flushed(t)
	options := newest(t, clean, "OPTIONS-")
	data, err := disktest.Read(clean, options)
	require.NoError(t, err)
	start := func(what string, damaged []byte) {
		fs := vfs.NewMem()
		_, err := vfs.Clone(clean, fs, "db", "db")
		require.NoError(t, err)
		disktest.Write(t, fs, options, damaged)
		db, err := openExisting(fs, true)
		if err != nil {
			require.ErrorIs(t, err, disk.ErrDamaged, what)
			require.ErrorContains(t, err, options+" has text that no fanfare wrote; no data depend on the file: move the file away", what)
			require.NoError(t, fs.Remove(options))
			db, err = openExisting(fs, true)
			require.NoError(t, err, what)
		}
		require.NoError(t, db.Close(func() {}))
	}
	for line := range strings.Lines(string(data)) {
		at := strings.Index(string(data), line)
		start("cut inside "+line, data[:at+max(1, len(line)-3)])
		flipped := []byte(string(data))
		flipped[at+len(line)-2] ^= 0x41
		start("flipped in "+line, flipped)
	}
}

// A manifest with several edits, of which each byte is flipped in turn, and which is cut at each length: the start names it. The logs that its
// edits made unnecessary are gone, so no such damage is harmless.
func TestADamagedManifestIsNamed(t *testing.T) {
	t.Parallel()
	clean, manifest := flushed(t)
	data, err := disktest.Read(clean, manifest)
	require.NoError(t, err)
	for at := range data {
		flipped := []byte(string(data))
		flipped[at] ^= 0x41
		for how, damaged := range map[string][]byte{"flipped at": flipped, "cut to": data[:at]} {
			fs := vfs.NewMem()
			_, err := vfs.Clone(clean, fs, "db", "db")
			require.NoError(t, err)
			disktest.Write(t, fs, manifest, damaged)
			before, err := fs.List("db")
			require.NoError(t, err)
			_, err = openExisting(fs, true)
			require.ErrorIs(t, err, disk.ErrDamaged, "%s %d", how, at)
			require.ErrorContains(t, err, manifest, "%s %d", how, at)
			after, err := fs.List("db")
			require.NoError(t, err)
			require.ElementsMatch(t, before, after, "%s %d: nothing is removed", how, at)
		}
	}
}

// A store that was killed after it gave up logs starts, and has each answered write, whatever byte of its manifest is cut off: or the
// start names it.
func TestAKilledStoreHasItsWritesOrNamesTheDamage(t *testing.T) {
	t.Parallel()
	live := vfs.NewMem()
	db, err := openExisting(live, false)
	require.NoError(t, err)
	for i := range storedKeys {
		require.NoError(t, db.Set(fmt.Appendf(nil, "key %d", i), []byte("answered"), pebble.Sync))
		require.NoError(t, db.Flush())
	}
	clean := vfs.NewMem()
	_, err = vfs.Clone(live, clean, "db", "db")
	require.NoError(t, err)
	require.NoError(t, db.Close(func() {}))
	data, err := disktest.Read(clean, "db/MANIFEST-000001")
	require.NoError(t, err)
	for at := range len(data) + 1 {
		fs := vfs.NewMem()
		_, err := vfs.Clone(clean, fs, "db", "db")
		require.NoError(t, err)
		disktest.Write(t, fs, "db/MANIFEST-000001", data[:at])
		db, err := openExisting(fs, true)
		if at < len(data) && err != nil {
			require.ErrorIs(t, err, disk.ErrDamaged)
			continue
		}
		require.NoError(t, err)
		for i := range storedKeys {
			_, closer, err := db.Get(fmt.Appendf(nil, "key %d", i))
			require.NoError(t, err, "cut to %d", at)
			require.NoError(t, closer.Close())
		}
		require.NoError(t, db.Close(func() {}))
	}
}

// A store whose list is gone, or which is a directory without a store, is no new one.
func TestAnAbsentStoreIsNoNewOne(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"NEEDS", "marker.manifest", "marker.format-version", "MANIFEST-", ""} {
		fs, manifest := flushed(t)
		names, err := fs.List("db")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				require.NoError(t, fs.Remove("db/"+name))
			}
		}
		_, err = openExisting(fs, true)
		require.ErrorIs(t, err, disk.ErrDamaged, prefix)
		require.ErrorContains(t, err, "is absent", manifest)
	}
	_, err := openExisting(vfs.NewMem(), true)
	require.ErrorIs(t, err, disk.ErrDamaged)
}

// A changed number in the head of a record looks like the end of a log. After kill -9 nothing shows how long the newest log
// is, but later records show that this is not its end.
func TestAFalseEndOfALogIsNamed(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	db, err := openExisting(fs, false)
	require.NoError(t, err)
	for i := range 20 {
		require.NoError(t, db.Set(fmt.Appendf(nil, "key %d", i), make([]byte, 8<<10), pebble.Sync))
	}
	killed := vfs.NewMem()
	_, err = vfs.Clone(fs, killed, "db", "db")
	require.NoError(t, err)
	require.NoError(t, db.Close(func() {}))
	data, err := disktest.Read(killed, "db/000002.log")
	require.NoError(t, err)
	const number = 7 // the place of the log's number in the head of a record
	require.Equal(t, byte(2), data[number])
	data[number]++
	disktest.Write(t, killed, "db/000002.log", data)
	_, err = openExisting(killed, true)
	require.ErrorIs(t, err, disk.ErrDamaged)
	require.ErrorContains(t, err, "000002.log has a record after its end")
}

// After a power cut a file has its previous or its new content, and no answered write of a file is lost.
func TestAWrittenFileOutlivesAPowerCut(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	require.NoError(t, fs.MkdirAll("dir", 0o700))
	root, err := fs.OpenDir("")
	require.NoError(t, err)
	require.NoError(t, root.Sync())
	for i := range 3 {
		want := fmt.Sprint("content ", i)
		require.NoError(t, disk.WriteFile(fs, "dir/file", []byte(want)))
		got, err := disktest.Read(fs.CrashClone(vfs.CrashCloneCfg{}), "dir/file")
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}
