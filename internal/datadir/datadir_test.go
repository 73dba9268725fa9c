package datadir_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/datadir"
)

func open(t *testing.T, path string) *datadir.Dir {
	t.Helper()
	dir, err := datadir.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Close() }) // some tests have already closed the directory
	return dir
}

func refused(t *testing.T, path, want string) {
	t.Helper()
	dir, err := datadir.Open(path)
	if err == nil {
		t.Fatal(dir.Close(), "opened")
	}
	if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v", err)
	}
}

func TestDirectoryIsMadeWithItsParents(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	open(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made %v, %v", info, err)
	}
}

func TestSecondOwnerIsRefusedUntilTheFirstLeaves(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := open(t, path)
	refused(t, path, "in use")
	require.NoError(t, dir.Close())
	open(t, path)
}

// A program that this process starts has all open files of the process until its exec. A second descriptor of the lock's
// open file stands for such a program.
func TestTheLockEndsBesideAProgramThatStarts(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := open(t, path)
	var lock syscall.Stat_t
	require.NoError(t, syscall.Stat(filepath.Join(path, "LOCK"), &lock))
	inherited := -1
	for fd := 0; inherited < 0; fd++ {
		require.Less(t, fd, 1<<16, "no descriptor of the lock")
		var of syscall.Stat_t
		if syscall.Fstat(fd, &of) == nil && of.Dev == lock.Dev && of.Ino == lock.Ino {
			var err error
			inherited, err = syscall.Dup(fd)
			require.NoError(t, err)
		}
	}
	t.Cleanup(func() { _ = syscall.Close(inherited) }) // the test is over, and the descriptor ends with the process at the latest
	require.NoError(t, dir.Close())
	open(t, path)
}

func TestUnusableDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	refused(t, file, "cannot be made")
	refused(t, filepath.Join(file, "below"), "cannot be made")
}

func TestFormatIsChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ content, want string }{{"4\n", "use a newer fanfare"}, {"1\n", "a development version before v0.1.0 wrote: choose a new directory"}, {"x", "no fanfare wrote"}, {"0", "no fanfare wrote"}} {
		path := t.TempDir()
		require.NoError(t, open(t, path).Close())
		require.NoError(t, os.WriteFile(filepath.Join(path, "FORMAT"), []byte(tt.content), 0o600))
		refused(t, path, tt.want)
		refused(t, path, tt.want) // the lock is free again
	}
}

func TestSecretIsMadeOnceAndForTheOwnerAlone(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	_, err := datadir.ReadSecret(path)
	assert.ErrorContains(t, err, path)
	dir := open(t, path)
	first, err := dir.Secret()
	require.NoError(t, err)
	second, err := dir.Secret()
	if err != nil || string(second) != string(first) || len(first) < 32 {
		t.Errorf("secrets of %d and %d bytes, %v", len(first), len(second), err)
	}
	read, err := datadir.ReadSecret(path)
	assert.NoError(t, err)
	assert.Equal(t, string(first), string(read))
	info, err := os.Stat(dir.Path("dev-secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file is %v, %v", info, err)
	}
}
