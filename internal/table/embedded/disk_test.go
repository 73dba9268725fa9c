package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/table"
)

func numbered(pk string, n int64) table.Item {
	return table.Item{Key: table.Key{PK: pk, SK: "s"}, Attrs: []table.Attr{{Name: "n", Value: table.N(n)}}}
}

func number(t *testing.T, s *Store, pk string) int64 {
	t.Helper()
	res, err := s.Get(t.Context(), table.GetInput{Key: table.Key{PK: pk, SK: "s"}, Consistent: true})
	require.NoError(t, err)
	if res.Item == nil {
		return 0
	}
	return res.Item.Int("n")
}

func wantUnavailable(t *testing.T, err, cause error) {
	t.Helper()
	if _, ok := errors.AsType[*table.UnavailableError](err); !ok || !errors.Is(err, cause) {
		t.Fatalf("error = %v, want an UnavailableError because %v", err, cause)
	}
}

// I5: no call answers from a write that is visible but not yet on the disk.
func TestAnswersWaitForTheWritesTheySaw(t *testing.T) {
	t.Parallel()
	fs := disktest.New(vfs.NewMem())
	s := open(t, "data", Options{FS: fs, SweepEvery: -1})
	indexed := numbered("p", 1)
	indexed.Attrs = append(indexed.Attrs, table.Attr{Name: "text", Value: table.S("x")}, table.Attr{Name: table.AttrGSI1PK, Value: table.S("g")}, table.Attr{Name: table.AttrGSI1SK, Value: table.S("1")})
	fs.Gate.Lock() // from now on nothing reaches the disk
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Put(t.Context(), table.PutInput{Item: indexed}); err != nil {
			t.Error(err)
		}
	})
	_, partition := s.hash.of(indexed.Key)
	disktest.Until(t, func() bool {
		it, _, err := s.read(indexed.Key)
		return err == nil && it != nil && s.commits.pending(slotOf(partition)) != nil
	})
	for name, call := range map[string]func(context.Context) error{
		"get": func(ctx context.Context) error {
			_, err := s.Get(ctx, table.GetInput{Key: indexed.Key})
			return err
		},
		"batch get": func(ctx context.Context) error {
			_, err := s.BatchGet(ctx, table.BatchGetInput{Keys: []table.Key{{PK: "other", SK: "s"}, indexed.Key}})
			return err
		},
		"query": func(ctx context.Context) error {
			_, _, err := table.Collect(s.Query(ctx, table.Query{PK: "p"}), 0)
			return err
		},
		"index": func(ctx context.Context) error {
			_, _, err := table.Collect(s.Query(ctx, table.Query{PK: "g", Index: true}), 0)
			return err
		},
		"condition": func(ctx context.Context) error {
			_, err := s.Put(ctx, table.PutInput{Item: indexed, If: table.Absent{}})
			return err
		},
		"invalid update": func(ctx context.Context) error {
			_, err := s.Update(ctx, table.UpdateInput{Key: indexed.Key, Add: []table.Attr{{Name: "text", Value: table.N(1)}}})
			return err
		},
		"transaction": func(ctx context.Context) error {
			_, err := s.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{{Check: &table.CheckInput{Key: indexed.Key, If: table.Absent{}}}}})
			return err
		},
		"check that holds": func(ctx context.Context) error {
			_, err := s.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{{Check: &table.CheckInput{Key: indexed.Key, If: table.Exists{}}}}})
			return err
		},
	} {
		// The caller gets no answer during the whole wait.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		err := call(ctx)
		assert.ErrorIsf(t, err, context.DeadlineExceeded, "%s: error = %v before the write was durable", name, err)
		cancel()
	}
	// A read of another partition does not wait.
	assert.Zero(t, number(t, s, "elsewhere"))
	fs.Gate.Unlock()
	wg.Wait()
	assert.Equal(t, int64(1), number(t, s, "p"), "after the sync")
}

func TestAFullDiskIsWaitedOut(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		t.Run(errno.Error(), func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			fs := disktest.New(mem)
			s := open(t, "data", Options{FS: fs, SweepEvery: -1})
			put := func(pk string) error {
				_, err := s.Put(t.Context(), table.PutInput{Item: numbered(pk, 1)})
				return err
			}
			require.NoError(t, put("before"))
			fs.Fail(errno, "write", "create")
			wantUnavailable(t, put("meanwhile"), disk.ErrFull)
			wantUnavailable(t, put("later"), disk.ErrFull)
			assert.ErrorIs(t, s.Health(), disk.ErrFull)
			assert.Equal(t, int64(1), number(t, s, "before")) // reads continue

			fs.Set(nil)
			disktest.Until(t, func() bool { return s.Health() == nil })
			require.NoError(t, put("after"))
			for pk, want := range map[string]int64{"before": 1, "meanwhile": 1, "later": 0, "after": 1} {
				assert.Equal(t, want, number(t, s, pk), pk)
			}
			after := open(t, "data", Options{FS: mem.CrashClone(vfs.CrashCloneCfg{}), SweepEvery: -1})
			if before, later := number(t, after, "before"), number(t, after, "after"); before != 1 || later != 1 {
				t.Errorf("after a crash: before = %d, after = %d, want 1 and 1", before, later)
			}
		})
	}
}

// unreserved is a file system that refuses every reservation of room.
type unreserved struct {
	vfs.FS
	refused *atomic.Int64
}

func (u unreserved) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.Create(name, category)
	return unreservedFile{f, u.refused}, err
}

type unreservedFile struct {
	vfs.File
	refused *atomic.Int64
}

func (u unreservedFile) Preallocate(int64, int64) error {
	u.refused.Add(1)
	return syscall.ENOSPC
}

// Pebble reserves 36 MB for each log, even if the log stays small. If a full disk refuses this reservation,
// writes that fit must still succeed.
func TestARefusedReservationHoldsUpNoWrite(t *testing.T) {
	t.Parallel()
	fs := unreserved{vfs.Default, new(atomic.Int64)}
	s := open(t, t.TempDir(), Options{FS: fs, SweepEvery: -1})
	for _, pk := range []string{"a", "b"} { // each in a separate log
		_, err := s.Put(t.Context(), table.PutInput{Item: numbered(pk, 1)})
		require.NoError(t, err)
		require.NoError(t, s.db.Flush())
	}
	if err := s.Health(); err != nil || fs.refused.Load() == 0 {
		t.Errorf("Health: %v, with %d refusals", err, fs.refused.Load())
	}
}

// fill raises the number of a large item until the store refuses a write with the error want. It returns the
// last number that the store accepted.
func fill(t *testing.T, s *Store, want error) (written int64) {
	t.Helper()
	pad := table.Attr{Name: "pad", Value: table.S(strings.Repeat("x", 100_000))}
	for {
		it := numbered("p", written+1)
		it.Attrs = append(it.Attrs, pad)
		if _, err := s.Put(t.Context(), table.PutInput{Item: it}); err != nil {
			wantUnavailable(t, err, want)
			return written
		}
		written++
	}
}

func TestAFullDiskStopsFlushesAndLosesNothing(t *testing.T) {
	t.Parallel()
	fs := disktest.New(vfs.NewMem())
	s := open(t, "data", Options{FS: fs, SweepEvery: -1, MemoryBytes: 4 << 20})
	fs.Set(func(op, name string, _ int) error {
		if strings.HasSuffix(name, ".sst") && op == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	written := fill(t, s, disk.ErrFull)
	fs.Set(nil)
	disktest.Until(t, func() bool { return s.Health() == nil })
	got := number(t, s, "p")
	assert.GreaterOrEqualf(t, got, written, "number = %d, but %d was answered", got, written)
}

// A disk refuses new sorted files for a reason other than room. In the end Pebble makes writes wait, and
// these waits do not end with a context.
func TestADiskThatRefusesNewFilesEndsWritesAndLosesNothing(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EMFILE} {
		t.Run(errno.Error(), func(t *testing.T) {
			fs := disktest.New(vfs.NewMem())
			s := open(t, "data", Options{FS: fs, SweepEvery: -1, MemoryBytes: 4 << 20})
			fs.Set(func(_, name string, _ int) error {
				if strings.HasSuffix(name, ".sst") {
					return errno
				}
				return nil
			})
			written := fill(t, s, disk.ErrStuck)
			if err := s.Health(); !errors.Is(err, disk.ErrStuck) || !errors.Is(err, errno) {
				t.Errorf("Health: %v, want disk.ErrStuck for %v", err, errno)
			}
			if got := number(t, s, "p"); got < written { // reads continue
				t.Errorf("number = %d, but %d was answered", got, written)
			}
			fs.Set(nil)
			disktest.Until(t, func() bool { return s.Health() == nil })
			if _, err := s.Put(t.Context(), table.PutInput{Item: numbered("p", 1)}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFailedDiskEndsWritesAndLosesNothing(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"write", "sync"} {
		t.Run(op, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			fs := disktest.New(mem)
			s, err := Create("data", Options{FS: fs, SweepEvery: -1})
			require.NoError(t, err)
			_, err = s.Put(t.Context(), table.PutInput{Item: numbered("before", 1)})
			require.NoError(t, err)
			fs.Fail(syscall.EIO, op)
			_, err = s.Put(t.Context(), table.PutInput{Item: numbered("meanwhile", 1)})
			wantUnavailable(t, err, disk.ErrFailed)
			assert.Equal(t, int64(1), number(t, s, "before"))
			fs.Set(nil)
			_, err = s.Put(t.Context(), table.PutInput{Item: numbered("later", 1)})
			wantUnavailable(t, err, disk.ErrFailed)
			for range 2 {
				assert.ErrorIs(t, s.Close(), disk.ErrFailed)
			}
			after := open(t, "data", Options{FS: mem.CrashClone(vfs.CrashCloneCfg{}), SweepEvery: -1})
			assert.Equal(t, int64(1), number(t, after, "before"), "after a restart")
		})
	}
}

func TestABatchWriteReportsTheFailureOfAnyPart(t *testing.T) {
	t.Parallel()
	s := open(t, "data", Options{FS: vfs.NewMem(), SweepEvery: -1})
	write, parts := s.commits.write, 0
	s.commits.write = func(batch *pebble.Batch, o *pebble.WriteOptions) error {
		if parts++; parts == 1 {
			return syscall.EIO
		}
		return write(batch, o)
	}
	items := make([]table.Item, maxBatchItems+1)
	writes := make([]table.BatchWrite, len(items))
	for i := range items {
		items[i] = numbered(fmt.Sprint(i), 1)
		writes[i].Put = &items[i]
	}
	_, err := s.BatchWrite(t.Context(), writes)
	wantUnavailable(t, err, syscall.EIO)
	assert.Equalf(t, 2, parts, "the batch had %d parts", parts)
}

func TestOpenNamesTheDirectoryAndItsError(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"mkdir", "create", "write", "sync"} {
		for _, errno := range []syscall.Errno{syscall.EROFS, syscall.ENOSPC} {
			fs := disktest.New(vfs.NewMem())
			fs.Fail(errno, op)
			stop := make(chan struct{})
			close(stop)
			s, err := Create("some/dir", Options{FS: fs, Stop: stop})
			if err == nil {
				t.Errorf("%s fails with %v: Open succeeded", op, errno)
				err = s.Close()
			}
			if !errors.Is(err, errno) && !strings.Contains(err.Error(), errno.Error()) {
				t.Errorf("%s: error = %v, want %v", op, err, errno)
			}
			assert.ErrorContainsf(t, err, "some/dir", "%s: error %q does not name the directory", op, err)
		}
	}
}

func TestADirectoryIsOpenOnlyOnce(t *testing.T) {
	t.Parallel()
	const env = "FANFARE_TEST_EMBEDDED_DIR"
	if dir := os.Getenv(env); dir != "" { // runs in the second process
		_, err := Create(dir, Options{})
		require.ErrorIs(t, err, disk.ErrInUse)
		return
	}
	dir := t.TempDir()
	s := open(t, dir, Options{})
	_, err := Create(dir, Options{})
	assert.ErrorIs(t, err, disk.ErrInUse, "same process")
	second := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestADirectoryIsOpenOnlyOnce$")
	second.Env = append(os.Environ(), env+"="+dir)
	out, err := second.CombinedOutput()
	assert.NoErrorf(t, err, "other process:\n%s", out)
	require.NoError(t, s.Close())
	again := open(t, dir, Options{})
	require.NoError(t, again.Close())
}
