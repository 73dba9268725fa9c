package backup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/datadir"
	"fanfare/internal/ops/backup"
)

func write(t *testing.T, text string, elements ...string) {
	t.Helper()
	path := filepath.Join(elements...)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// source returns a data directory with invented stores, because package backup knows no store.
func source(t *testing.T) backup.Source {
	t.Helper()
	path := t.TempDir()
	dir, err := datadir.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, dir.Close()) })
	_, err = dir.Secret()
	require.NoError(t, err)
	for _, store := range []string{"table", "queue"} {
		write(t, "log of "+store, path, store, "000002.log")
		write(t, "", path, store, "marker.format-version.000001.013")
		write(t, "", path, store, "marker.manifest.000001.MANIFEST-000001")
		write(t, "", path, store, "MANIFEST-000001")
		write(t, "", path, store, "LOCK")
	}
	require.NoError(t, dir.Made())
	return backup.Source{Dir: dir, Stores: path, MadeAt: time.Now(), Version: "v1"}
}

// made returns a new backup.
func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, backup.Prepare(dir, t.TempDir()))
	_, err := backup.Write(t.Context(), dir, source(t))
	require.NoError(t, err)
	return dir
}

// tree returns the contents of the files below a directory, by their paths.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		require.NoError(t, err)
		assert.Zero(t, info.Mode().Perm()&0o077, path)
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		text, err := os.ReadFile(path)
		files[name] = string(text)
		return err
	}))
	return files
}

func refuse([]string) error { return errors.New("no") }

func TestABackupComesBackAsItWas(t *testing.T) {
	t.Parallel()
	from := source(t)
	dir, to := filepath.Join(t.TempDir(), "a", "backup"), filepath.Join(t.TempDir(), "b", "data")
	require.NoError(t, backup.Prepare(dir, t.TempDir()))
	_, err := backup.Write(t.Context(), dir, from)
	require.NoError(t, err)
	restored, err := backup.Restore(t.Context(), dir, to, refuse)
	require.NoError(t, err)
	assert.Len(t, restored.Files, 9)
	assert.Equal(t, int64(len("log of table")+len("log of queue")+52), restored.Bytes())
	want, got := tree(t, from.Stores), tree(t, to)
	delete(want, "table/LOCK") // Pebble makes this file
	delete(want, "queue/LOCK")
	delete(got, "table/NEEDS") // a restore makes the list of the files that a store needs
	delete(got, "queue/NEEDS")
	assert.Equal(t, want, got)
	require.ErrorContains(t, backup.Prepare(dir, t.TempDir()), "is not empty")
}

// A link gives a directory a second path, which Prepare and Restore must notice.
func TestABackupAndItsDataAreApart(t *testing.T) { //nolint:paralleltest // it changes the directory of the process
	base := t.TempDir()
	data, link := filepath.Join(base, "data"), filepath.Join(base, "link")
	write(t, "x", data, "table", "x")
	require.NoError(t, os.Symlink(data, link))
	require.NoError(t, os.Symlink(filepath.Join(data, "table"), filepath.Join(base, "inner")))
	for _, dir := range []string{data, data + "/", data + "/backup", data + "/a/b/c", link, link + "/backup", link + "/./x/../backup", filepath.Join(base, "inner", "backup")} {
		for _, own := range []string{data, link} {
			require.ErrorContainsf(t, backup.Prepare(dir, own), "is in the data directory", "%s for %s", dir, own)
		}
	}
	t.Chdir(data)
	require.ErrorContains(t, backup.Prepare("backup", link), "is in the data directory")
	require.NoError(t, backup.Prepare(base+"/data-backup", data), "a name that begins alike")
	require.NoError(t, backup.Prepare(base+"/a/b", base+"/absent"), "no data yet")
	dir := made(t)
	require.NoError(t, os.Symlink(dir, filepath.Join(base, "copy")))
	for _, to := range []string{dir, dir + "/data", filepath.Join(base, "copy"), filepath.Join(base, "copy", "new", "data")} {
		_, err := backup.Restore(t.Context(), dir, to, refuse)
		require.ErrorContainsf(t, err, "is in the backup", "%s", to)
	}
}

// A restore refuses every damaged or incomplete backup, and leaves an empty data directory.
func TestADamagedOrHalfBackupIsRefused(t *testing.T) {
	t.Parallel()
	edit := func(change func(c *backup.Contents)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			c, err := backup.Read(dir)
			require.NoError(t, err)
			change(&c)
			list, err := json.Marshal(c)
			require.NoError(t, err)
			write(t, string(list), dir, "backup.json")
		}
	}
	for name, tt := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string
	}{
		"no list": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, "backup.json")))
		}, "no whole backup"},
		"half a list":                   {func(t *testing.T, dir string) { t.Helper(); write(t, `{"format":`, dir, "backup.json") }, "cannot be read"},
		"a member twice":                {func(t *testing.T, dir string) { t.Helper(); write(t, `{"format":9,"format":1}`, dir, "backup.json") }, "format: occurs more than once"},
		"a member in another case":      {func(t *testing.T, dir string) { t.Helper(); write(t, `{"FORMAT":1}`, dir, "backup.json") }, "format"},
		"a list without files":          {edit(func(c *backup.Contents) { c.Files = nil }), "no files"},
		"a newer backup":                {edit(func(c *backup.Contents) { c.Format = 2 }), "use a newer fanfare"},
		"newer data":                    {edit(func(c *backup.Contents) { c.DataFormat = 9 }), "use a newer fanfare"},
		"data of a development version": {edit(func(c *backup.Contents) { c.DataFormat = 1 }), "before v0.1.0"},
		"a newer store": {func(t *testing.T, dir string) {
			t.Helper()
			write(t, "", dir, "table", "marker.format-version.000002.999")
		}, "use a newer fanfare"},
		"a name outside":    {edit(func(c *backup.Contents) { c.Files[0].Name = "../backup.json" }), "no file of a backup"},
		"a name inside":     {edit(func(c *backup.Contents) { c.Files[0].Name = "FORMAT" }), "no file of a backup"},
		"a name that turns": {edit(func(c *backup.Contents) { c.Files[0].Name = "table/../queue/x" }), "no file of a backup"},
		"a file is gone": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, "table/000002.log")))
		}, "no such file"},
		"a bit":          {func(t *testing.T, dir string) { t.Helper(); write(t, "log of tabld", dir, "table/000002.log") }, "is damaged"},
		"a shorter file": {func(t *testing.T, dir string) { t.Helper(); write(t, "log", dir, "queue/000002.log") }, "is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, to := made(t), filepath.Join(t.TempDir(), "data")
			tt.damage(t, dir)
			_, err := backup.Restore(t.Context(), dir, to, refuse)
			require.ErrorContains(t, err, tt.want)
			entries, _ := os.ReadDir(to) // the directory may not exist
			if len(entries) > 0 {
				require.Len(t, entries, 1)
				assert.Equal(t, "LOCK", entries[0].Name())
			}
		})
	}
}

func TestARestoreWritesOverNothing(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(dir string){
		"a file": func(dir string) { write(t, "mine", dir, "notes") },
		"a data directory": func(dir string) {
			d, err := datadir.Open(dir)
			require.NoError(t, err)
			require.NoError(t, d.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			prepare(to)
			before := tree(t, to)
			_, err := backup.Restore(t.Context(), made(t), to, func([]string) error { return nil })
			require.ErrorContains(t, err, "is not empty")
			after := tree(t, to)
			delete(after, "LOCK")
			delete(before, "LOCK")
			assert.Equal(t, before, after)
		})
	}
}

// A restore that died leaves a directory that no process accepts as data. The next restore empties
// the directory if it may.
func TestAHalfRestoredDirectoryIsNoData(t *testing.T) {
	t.Parallel()
	to := t.TempDir()
	dir, _, err := datadir.OpenEmpty(to)
	require.NoError(t, err)
	write(t, "half", to, "table", "000001.log")
	require.NoError(t, dir.Close())
	for _, open := range []func() error{
		func() error { _, err := datadir.Open(to); return err },
		func() error { _, err := datadir.Look(to); return err },
	} {
		require.ErrorContains(t, open(), "half restored")
	}
	var asked []string
	_, err = backup.Restore(t.Context(), made(t), to, func(remains []string) error { asked = remains; return errors.New("no") })
	require.ErrorIs(t, err, backup.ErrRemains)
	assert.Equal(t, []string{"table"}, asked)
	assert.FileExists(t, filepath.Join(to, "table", "000001.log"))
	_, err = backup.Restore(t.Context(), made(t), to, func([]string) error { return nil })
	require.NoError(t, err)
	assert.NoFileExists(t, filepath.Join(to, "table", "000001.log"))
	dir, err = datadir.Open(to)
	require.NoError(t, err)
	require.NoError(t, dir.Close())
}

func TestABackupThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	gone := source(t)
	gone.Stores = filepath.Join(t.TempDir(), "gone")
	for _, try := range []func(dir string) error{
		func(dir string) error { _, err := backup.Write(ended, dir, source(t)); return err },
		func(dir string) error { _, err := backup.Write(t.Context(), dir, gone); return err },
	} {
		dir := t.TempDir()
		require.NoError(t, backup.Prepare(dir, t.TempDir()))
		require.Error(t, try(dir))
		assert.Empty(t, tree(t, dir))
	}
	to := t.TempDir()
	_, err := backup.Restore(ended, made(t), to, refuse)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, map[string]string{"LOCK": ""}, tree(t, to))
}

// The list has the checksum of each file, so that other programs can check a backup.
func TestTheListIsReadable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(made(t), "backup.json"))
	require.NoError(t, err)
	assert.Equal(t, 9, bytes.Count(text, []byte(`"sha256": "`)))
}
