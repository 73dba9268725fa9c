package objects_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/objects"
	"fanfare/internal/objects/objectstest"
)

func openDirectory(t *testing.T, fs vfs.FS) *objects.Directory {
	t.Helper()
	d, err := objects.OpenDirectory(fs, "archive")
	require.NoError(t, err)
	return d
}

// crashable returns a file system in memory that can lose its unsynced data, with the directory of a store.
func crashable(t *testing.T) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	require.NoError(t, mem.MkdirAll("archive", 0o700))
	root, err := mem.OpenDir("")
	require.NoError(t, err)
	require.NoError(t, errors.Join(root.Sync(), root.Close()))
	return mem
}

func TestADirectoryKeepsTheContract(t *testing.T) {
	t.Run("on disk", func(t *testing.T) {
		objectstest.Run(t, func(t *testing.T) objects.Store {
			t.Helper()
			at, err := objects.Parse("file://" + t.TempDir())
			require.NoError(t, err)
			store, err := at.Open(t.Context())
			require.NoError(t, err)
			return store
		})
	})
	t.Run("in memory", func(t *testing.T) {
		objectstest.Run(t, func(t *testing.T) objects.Store {
			t.Helper()
			return openDirectory(t, crashable(t))
		})
	})
}

// A power cut at any call of the file system leaves an object whole or absent. An object whose
// creation succeeded is whole. In both cases a second try of the creation succeeds.
func TestAPowerCutLeavesObjectsWholeOrAbsent(t *testing.T) {
	content := bytes.Repeat([]byte("content"), 1000)
	cuts, absent := 0, 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		mem := crashable(t)
		faulty := disktest.New(mem)
		store := openDirectory(t, faulty)
		dies := random.IntN(8)
		faulty.Set(func(string, string, int) error {
			if dies--; dies < 0 {
				return syscall.EIO
			}
			return nil
		})
		created := store.Create(t.Context(), "t/1/s/1", objects.Bytes(content)) == nil
		if !created && random.IntN(2) == 0 { // another process tries before the power cut
			created = openDirectory(t, mem).Create(t.Context(), "t/1/s/1", objects.Bytes(content)) == nil
		}
		after := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
		store = openDirectory(t, after)
		got, err := objects.Read(t.Context(), store, "t/1/s/1", 1<<20)
		switch {
		case errors.Is(err, objects.ErrNotThere) && !created:
			absent++
		default:
			require.NoErrorf(t, err, "seed %d, created: %t", seed, created)
			require.Truef(t, bytes.Equal(content, got), "seed %d: %d bytes", seed, len(got))
			cuts++
		}
		require.NoErrorf(t, store.Create(t.Context(), "t/1/s/1", objects.Bytes(content)), "seed %d", seed)
	}
	assert.Greater(t, cuts, 20)
	assert.Greater(t, absent, 20)
}

// A process made the name and died before its sync. Another process finds the object and relies
// on it, so the other process syncs the directories.
func TestAnObjectThatIsFoundIsOnTheDisk(t *testing.T) {
	mem := crashable(t)
	faulty := disktest.New(mem)
	first := openDirectory(t, faulty)
	syncs := 0
	faulty.Set(func(op, _ string, _ int) error {
		if op == "sync" {
			if syncs++; syncs > 1 { // only the content is synced, its directories are not
				return disktest.ErrLie
			}
		}
		return nil
	})
	require.NoError(t, first.Create(t.Context(), "t/1/s/1", objects.Bytes([]byte("x"))))
	require.NoError(t, openDirectory(t, mem).Create(t.Context(), "t/1/s/1", objects.Bytes([]byte("x"))))
	after := openDirectory(t, mem.CrashClone(vfs.CrashCloneCfg{}))
	content, err := objects.Read(t.Context(), after, "t/1/s/1", 10)
	require.NoError(t, err)
	assert.Equal(t, "x", string(content))
}

// The mount point of an unmounted disk looks like an empty directory. The store must not look
// like an empty store.
func TestADiskThatIsNotMountedIsAway(t *testing.T) {
	root := t.TempDir()
	_, err := objects.OpenDirectory(vfs.Default, filepath.Join(root, "absent"))
	require.ErrorIs(t, err, objects.ErrRefused)
	store, err := objects.OpenDirectory(vfs.Default, root)
	require.NoError(t, err)
	require.NoError(t, store.Create(t.Context(), "t/1", objects.Bytes([]byte("x"))))
	for _, part := range []string{".drafts", "t"} {
		require.NoError(t, os.RemoveAll(filepath.Join(root, part)))
	}
	assert.ErrorIs(t, store.Create(t.Context(), "t/2", objects.Bytes([]byte("x"))), objects.ErrAway)
	assert.ErrorIs(t, store.Delete(t.Context(), "t/1"), objects.ErrAway)
	_, err = store.Get(t.Context(), "t/1")
	assert.ErrorIs(t, err, objects.ErrAway)
	for _, err := range store.List(t.Context(), "", "") {
		assert.ErrorIs(t, err, objects.ErrAway)
	}
}

func TestTheKindsOfAFailedDisk(t *testing.T) {
	for err, kind := range map[error]error{
		syscall.EIO: objects.ErrAway, syscall.ENOSPC: objects.ErrAway, syscall.EDQUOT: objects.ErrAway, syscall.ESTALE: objects.ErrAway,
		syscall.EACCES: objects.ErrRefused, syscall.EPERM: objects.ErrRefused, syscall.EROFS: objects.ErrRefused,
	} {
		for _, op := range []string{"create", "write", "sync"} {
			faulty := disktest.New(crashable(t))
			store := openDirectory(t, faulty)
			faulty.Fail(&fs.PathError{Op: op, Path: "x", Err: err}, op)
			got := store.Create(t.Context(), "a", objects.Bytes([]byte("x")))
			require.ErrorIsf(t, got, kind, "%s: %v", op, err)
			require.ErrorIs(t, got, err)
			faulty.Set(nil)
			require.NoError(t, store.Create(t.Context(), "a", objects.Bytes([]byte("x"))))
		}
	}
}

func TestDraftsOfProcessesThatDiedAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := crashable(t)
		openDirectory(t, mem)
		for i, age := range []time.Duration{0, 23 * time.Hour, 2 * time.Hour} {
			time.Sleep(age) //nolint:forbidigo // virtual time
			f, err := mem.Create(mem.PathJoin("archive", ".drafts", fmt.Sprint(i)), vfs.WriteCategoryUnspecified)
			require.NoError(t, err)
			_, err = f.Write([]byte("x"))
			require.NoError(t, errors.Join(err, f.Close()))
		}
		openDirectory(t, mem)
		left, err := mem.List("archive/.drafts")
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{"1", "2"}, left)
	})
}

func TestAddressesOfStores(t *testing.T) {
	for text, want := range map[string]objects.Location{
		"s3://bucket":                    {Bucket: "bucket"},
		"s3://bucket/":                   {Bucket: "bucket"},
		"s3://my.bucket-1/fanfare/Prod/": {Bucket: "my.bucket-1", Prefix: "fanfare/Prod"},
		"file:///mnt/archive/":           {Dir: "/mnt/archive"},
		"file:///mnt/a%20b/../c":         {Dir: "/mnt/c"},
	} {
		got, err := objects.Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{
		"", "bucket", "/mnt/archive", "s3:/bucket", "s3:bucket", "s3://", "s3:///prefix", "s3://Bucket", "s3://b", "s3://bucket:80/x", "s3://key:secret@bucket",
		"s3://bucket/a//b", "s3://bucket/../b", "s3://bucket/.x", "s3://bucket/x?region=eu", "s3://bucket/x?", "s3://bucket/#x", "S3//bucket", "gs://bucket",
		"file://archive", "file://host/mnt", "file:///", "file:archive", "file:///..", "https://bucket.s3.amazonaws.com",
		"s3://bucket/" + strings.Repeat("a", 201),
	} {
		got, err := objects.Parse(text)
		assert.ErrorContainsf(t, err, "s3://bucket/prefix or file:///directory", "%q is %+v", text, got)
	}
}

// Somebody else may write to the disk of a store. The open of a FIFO would wait for ever.
func TestWhatIsNoRegularFileIsRefused(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(string) error{
		"a FIFO":             func(file string) error { return syscall.Mkfifo(file, 0o600) },
		"a link to a device": func(file string) error { return os.Symlink("/dev/zero", file) },
		"a directory":        func(file string) error { return os.Mkdir(file, 0o700) },
		"a link to a FIFO": func(file string) error {
			return errors.Join(syscall.Mkfifo(file+".fifo", 0o600), os.Symlink(file+".fifo", file))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			store, err := objects.OpenDirectory(vfs.Default, root)
			require.NoError(t, err)
			require.NoError(t, os.Mkdir(filepath.Join(root, "t"), 0o700))
			require.NoError(t, place(filepath.Join(root, "t", "x")))
			_, err = store.Get(t.Context(), "t/x")
			require.ErrorIs(t, err, objects.ErrRefused)
			require.ErrorContains(t, err, "it is no regular file")
			if name == "a directory" {
				return
			}
			for _, err = range store.List(t.Context(), "t/", "") {
				break
			}
			require.ErrorIs(t, err, objects.ErrRefused)
			require.ErrorIs(t, store.Create(t.Context(), "t/x", objects.Bytes([]byte("y"))), objects.ErrRefused, "Create compares with what has the name")
		})
	}
}

// A disk that goes between the content of an object and its name is away, too: the store does not make its root again, which would be an empty
// store.
func TestARootThatGoesIsNotMadeAgain(t *testing.T) {
	mem := crashable(t)
	faulty := disktest.New(mem)
	store := openDirectory(t, faulty)
	root, err := mem.List("")
	require.NoError(t, err)
	faulty.Set(func(op, _ string, _ int) error {
		if op == "sync" {
			for _, name := range root {
				assert.NoError(t, mem.RemoveAll(name))
			}
		}
		return nil
	})
	require.ErrorIs(t, store.Create(t.Context(), "t/1/s/1", objects.Bytes([]byte("x"))), objects.ErrAway)
	left, err := mem.List("")
	require.NoError(t, err)
	require.Empty(t, left)
}
