package datadir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fanfare/internal/datadir"
)

func open(t *testing.T, path string) *datadir.Dir {
	t.Helper()
	dir, err := datadir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() }) // some tests have closed it already
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
	path := filepath.Join(t.TempDir(), "a", "b")
	open(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made %v, %v", info, err)
	}
}

func TestSecondOwnerIsRefusedUntilTheFirstLeaves(t *testing.T) {
	path := t.TempDir()
	dir := open(t, path)
	refused(t, path, "in use")
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestUnusableDirectoryIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, file, "cannot be made")
	refused(t, filepath.Join(file, "below"), "cannot be made")
}

func TestFormatIsChecked(t *testing.T) {
	for _, tt := range []struct{ content, want string }{{"2\n", "use a newer fanfare"}, {"x", "no fanfare wrote"}, {"0", "no fanfare wrote"}} {
		path := t.TempDir()
		if err := open(t, path).Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "FORMAT"), []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, path, tt.want)
		refused(t, path, tt.want) // the lock is free again
	}
}

func TestSecretIsMadeOnceAndForTheOwnerAlone(t *testing.T) {
	path := t.TempDir()
	if _, err := datadir.ReadSecret(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("before: %v", err)
	}
	dir := open(t, path)
	first, err := dir.Secret()
	if err != nil {
		t.Fatal(err)
	}
	second, err := dir.Secret()
	if err != nil || string(second) != string(first) || len(first) < 32 {
		t.Errorf("secrets of %d and %d bytes, %v", len(first), len(second), err)
	}
	read, err := datadir.ReadSecret(path)
	if err != nil || string(read) != string(first) {
		t.Errorf("read: %v", err)
	}
	info, err := os.Stat(dir.Path("dev-secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file is %v, %v", info, err)
	}
}
