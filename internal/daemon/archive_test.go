package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/daemon"
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/objects"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/restore"
	tableembedded "fanfare/internal/table/embedded"
)

// content returns all keys and values of the stores of a directory.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for store, open := range map[string]func(vfs.FS, string, *zap.Logger) (*disk.DB, error){datadir.Table: tableembedded.OpenReplica, datadir.Queue: queueembedded.OpenReplica} {
		db, err := open(nil, filepath.Join(dir, store), zap.NewNop())
		require.NoError(t, err)
		it, err := db.NewIter(nil)
		require.NoError(t, err)
		for valid := it.First(); valid; valid = it.Next() {
			all[store+" "+string(it.Key())] = string(it.Value())
		}
		require.NoError(t, errors.Join(it.Error(), it.Close(), db.Close(func() {})))
	}
	return all
}

// rename changes a name of a user, and returns the status of the answer.
func rename(t *testing.T, addr, token, name string) (status int, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+addr+"/v1/me", strings.NewReader(fmt.Sprintf(`{"name":%q}`, name)))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}).Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// called stores a name of a user. A primary refuses a write that a busy standby confirms too late, so called repeats it.
func called(t *testing.T, addr, token, name string) {
	t.Helper()
	until(t, "an answer", func() bool {
		status, err := rename(t, addr, token, name)
		require.NoError(t, err)
		require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, status)
		return status == http.StatusOK
	})
}

// A directory that is restored from the archive of a daemon has what the daemon's directory has, after a
// restart and with the last write before the stop. The daemon answers while the archive's disk is away.
func TestTheArchiveOfADaemonHasItsWholeDirectory(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), filepath.Join(t.TempDir(), "disk")
	cfg := settings(t, dir, "FANFARE_ARCHIVE=file://"+root)
	at, stop := start(t, cfg)
	ann := tokens(t, dir)(t, "ann")
	called(t, at.HTTP, ann, "before the disk was there")
	require.Contains(t, read(t, "http://"+at.Admin+"/metrics"), "fanfare_archive_lag_seconds")
	require.NoError(t, os.Mkdir(root, 0o700))
	until(t, "a base", func() bool {
		called(t, at.HTTP, ann, time.Now().String())
		bases, err := filepath.Glob(filepath.Join(root, "b", "*.json"))
		require.NoError(t, err)
		return len(bases) > 0 && metric(t, at.Admin, `fanfare_archive_puts_total{result="stored"}`) > 0
	})
	assert.Zero(t, metric(t, at.Admin, "fanfare_archive_gaps_total"))
	require.NoError(t, stop())
	at, stop = start(t, cfg)
	called(t, at.HTTP, ann, "the last write")
	require.NoError(t, stop())

	store, err := objects.OpenDirectory(vfs.Default, root)
	require.NoError(t, err)
	a, err := archive.New(store, time.Now)
	require.NoError(t, err)
	plan, err := restore.Find(t.Context(), a, restore.Target{})
	require.NoError(t, err)
	restored := filepath.Join(t.TempDir(), "restored")
	require.NoError(t, restore.Run(t.Context(), a, plan, restored, restore.Options{
		Remove: func([]string) error { return nil }, Done: func(int64) {}, Log: zap.NewNop(),
	}))
	want, got := content(t, dir), content(t, restored)
	require.NotEmpty(t, want)
	require.True(t, maps.Equal(want, got), "the restored directory differs")
	_, err = os.Stat(filepath.Join(restored, datadir.SecretFile))
	require.NoError(t, err)

	// A rehearsal of a restore must not end the production (A4).
	err = daemon.Run(t.Context(), daemon.Options{Config: settings(t, restored, "FANFARE_ARCHIVE=file://"+root), Log: zap.NewNop()})
	require.ErrorIs(t, err, archive.ErrTakenOver)
	assert.ErrorContains(t, err, "fanfare archive take")
}

// A copy of a directory does not start with the archive of the original, which continues. Once an operator has let the copy take the archive,
// the original process stops.
func TestAProcessWhoseArchiveIsTakenStops(t *testing.T) {
	t.Parallel()
	dir, copied, root := t.TempDir(), t.TempDir(), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, ended := make(chan daemon.Addresses, 1), make(chan error, 1)
	cfg := settings(t, dir, "FANFARE_ARCHIVE=file://"+root)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{
			Config: cfg, Roles: daemon.Roles{API: true, Fanout: true, Likes: true}, Log: zap.NewNop(),
			Ready: func(at daemon.Addresses) { ready <- at },
		})
	}()
	at := <-ready
	ann := tokens(t, dir)(t, "ann")
	called(t, at.HTTP, ann, "Ann")
	until(t, "a segment", func() bool { return metric(t, at.Admin, `fanfare_archive_puts_total{result="stored"}`) > 0 })
	copyDir(t, dir, copied)
	err := daemon.Run(t.Context(), daemon.Options{Config: settings(t, copied, "FANFARE_ARCHIVE=file://"+root), Log: zap.NewNop()})
	require.ErrorIs(t, err, archive.ErrCopied)
	require.ErrorContains(t, err, "fanfare archive take")
	called(t, at.HTTP, ann, "Ann continues")
	store, err := objects.OpenDirectory(vfs.Default, root)
	require.NoError(t, err)
	a, err := archive.New(store, time.Now)
	require.NoError(t, err)
	_, err = restore.Take(t.Context(), a, copied, "v", func(restore.Takeover) error { return nil })
	require.NoError(t, err)
	start(t, settings(t, copied, "FANFARE_ARCHIVE=file://"+root))
	until(t, "the fence", func() bool {
		select {
		case err = <-ended:
			return true
		default: // only a write meets the fence soon; the process may stop at any moment
			_, _ = rename(t, at.HTTP, ann, "a write that the archive never gets") // the machine may not answer any more
			return false
		}
	})
	_, fenced := errors.AsType[*archive.FencedError](err)
	require.Truef(t, fenced, "%v", err)
	assert.True(t, archive.Refused(err))
	assert.Equal(t, 1, strings.Count(err.Error(), "another process took over"), "the reason is told once")
}

// copyDir copies a directory of a running process as a snapshot of its disk does.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a compaction removed it
		}
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, below), 0o700)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, below), text, 0o600)
	}))
}

func TestAnArchiveInTheDataDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "archive"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(dir, "archive"), link))
	for _, store := range []string{dir, filepath.Join(dir, "archive"), filepath.Join(dir, "not", "there"), link} {
		err := daemon.Run(t.Context(), daemon.Options{Config: settings(t, dir, "FANFARE_ARCHIVE=file://"+store), Log: zap.NewNop()})
		require.ErrorContainsf(t, err, "is in the data directory", "%s", store)
		require.NoFileExists(t, filepath.Join(dir, "archive.json"))
	}
}
