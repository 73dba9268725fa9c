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
	if err != nil {
		t.Fatal(err)
	}
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

// I5: no call answers from a write that is visible but not on the disk yet.
func TestAnswersWaitForTheWritesTheySaw(t *testing.T) {
	fs := disktest.New(vfs.NewMem())
	s := open(t, "data", Options{FS: fs, SweepEvery: -1})
	indexed := numbered("p", 1)
	indexed.Attrs = append(indexed.Attrs, table.Attr{Name: "text", Value: table.S("x")}, table.Attr{Name: table.AttrGSI1PK, Value: table.S("g")}, table.Attr{Name: table.AttrGSI1SK, Value: table.S("1")})
	fs.Gate.Lock() // from here on nothing reaches the disk
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Put(t.Context(), table.PutInput{Item: indexed}); err != nil {
			t.Error(err)
		}
	})
	_, partition := s.hash.of(indexed.Key)
	disktest.Until(t, func() bool {
		it, _, err := s.read(new(keyBuffer), indexed.Key, nil)
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
		// The caller gets no answer, however long it waits.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error = %v before the write was durable, want context.DeadlineExceeded", name, err)
		}
		cancel()
	}
	// A read of another partition does not wait.
	if got := number(t, s, "elsewhere"); got != 0 {
		t.Errorf("number = %d, want none", got)
	}
	fs.Gate.Unlock()
	wg.Wait()
	if got := number(t, s, "p"); got != 1 {
		t.Errorf("number = %d after the sync, want 1", got)
	}
}

func TestAFullDiskIsWaitedOut(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		t.Run(errno.Error(), func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			fs := disktest.New(mem)
			s := open(t, "data", Options{FS: fs, SweepEvery: -1})
			put := func(pk string) error {
				_, err := s.Put(t.Context(), table.PutInput{Item: numbered(pk, 1)})
				return err
			}
			if err := put("before"); err != nil {
				t.Fatal(err)
			}
			fs.Fail(errno, "write", "create")
			wantUnavailable(t, put("meanwhile"), disk.ErrFull)
			wantUnavailable(t, put("later"), disk.ErrFull)
			if err := s.Health(); !errors.Is(err, disk.ErrFull) {
				t.Errorf("Health: %v, want disk.ErrFull", err)
			}
			if got := number(t, s, "before"); got != 1 { // reads go on
				t.Errorf("on the full disk: number = %d, want 1", got)
			}

			fs.Set(nil)
			disktest.Until(t, func() bool { return s.Health() == nil })
			if err := put("after"); err != nil {
				t.Fatal(err)
			}
			for pk, want := range map[string]int64{"before": 1, "meanwhile": 1, "later": 0, "after": 1} {
				if got := number(t, s, pk); got != want {
					t.Errorf("%s = %d, want %d", pk, got, want)
				}
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

// Pebble reserves 36 MB for each log, however little it writes there. A full disk that
// refuses this must not hold up writes that fit.
func TestARefusedReservationHoldsUpNoWrite(t *testing.T) {
	fs := unreserved{vfs.Default, new(atomic.Int64)}
	s := open(t, t.TempDir(), Options{FS: fs, SweepEvery: -1})
	for _, pk := range []string{"a", "b"} { // each in a log of its own
		if _, err := s.Put(t.Context(), table.PutInput{Item: numbered(pk, 1)}); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Health(); err != nil || fs.refused.Load() == 0 {
		t.Errorf("Health: %v, with %d refusals", err, fs.refused.Load())
	}
}

func TestAFullDiskStopsFlushesAndLosesNothing(t *testing.T) {
	fs := disktest.New(vfs.NewMem())
	s := open(t, "data", Options{FS: fs, SweepEvery: -1, MemoryBytes: 4 << 20})
	fs.Set(func(op, name string, _ int) error {
		if strings.HasSuffix(name, ".sst") && op == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	written := int64(0)
	pad := table.Attr{Name: "pad", Value: table.S(strings.Repeat("x", 100_000))}
	for err := error(nil); err == nil; {
		it := numbered("p", written+1)
		it.Attrs = append(it.Attrs, pad)
		if _, err = s.Put(t.Context(), table.PutInput{Item: it}); err == nil {
			written++
		} else {
			wantUnavailable(t, err, disk.ErrFull)
		}
	}
	fs.Set(nil)
	disktest.Until(t, func() bool { return s.Health() == nil })
	if got := number(t, s, "p"); got < written {
		t.Errorf("number = %d, but %d was answered", got, written)
	}
}

// Sorted files cannot be written for another reason than room. Pebble holds up writes in
// the end, where no context reaches them.
func TestADiskThatRefusesNewFilesEndsWritesAndLosesNothing(t *testing.T) {
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
			written := int64(0)
			pad := table.Attr{Name: "pad", Value: table.S(strings.Repeat("x", 100_000))}
			for err := error(nil); err == nil; {
				it := numbered("p", written+1)
				it.Attrs = append(it.Attrs, pad)
				if _, err = s.Put(t.Context(), table.PutInput{Item: it}); err == nil {
					written++
				} else {
					wantUnavailable(t, err, disk.ErrStuck)
				}
			}
			if err := s.Health(); !errors.Is(err, disk.ErrStuck) || !errors.Is(err, errno) {
				t.Errorf("Health: %v, want disk.ErrStuck for %v", err, errno)
			}
			if got := number(t, s, "p"); got < written { // reads go on
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
	for _, op := range []string{"write", "sync"} {
		t.Run(op, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			fs := disktest.New(mem)
			s, err := Open("data", Options{FS: fs, SweepEvery: -1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Put(t.Context(), table.PutInput{Item: numbered("before", 1)}); err != nil {
				t.Fatal(err)
			}
			fs.Fail(syscall.EIO, op)
			_, err = s.Put(t.Context(), table.PutInput{Item: numbered("meanwhile", 1)})
			wantUnavailable(t, err, disk.ErrFailed)
			if got := number(t, s, "before"); got != 1 {
				t.Errorf("on the failed disk: number = %d, want 1", got)
			}
			fs.Set(nil)
			_, err = s.Put(t.Context(), table.PutInput{Item: numbered("later", 1)})
			wantUnavailable(t, err, disk.ErrFailed)
			for range 2 {
				if err := s.Close(); !errors.Is(err, disk.ErrFailed) {
					t.Errorf("Close: %v, want disk.ErrFailed", err)
				}
			}
			after := open(t, "data", Options{FS: mem.CrashClone(vfs.CrashCloneCfg{}), SweepEvery: -1})
			if got := number(t, after, "before"); got != 1 {
				t.Errorf("after a restart: number = %d, want 1", got)
			}
		})
	}
}

func TestABatchWriteReportsTheFailureOfAnyPart(t *testing.T) {
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
	if parts != 2 {
		t.Errorf("the batch had %d parts, want 2", parts)
	}
}

func TestOpenNamesTheDirectoryAndItsError(t *testing.T) {
	for _, op := range []string{"mkdir", "create", "write", "sync"} {
		for _, errno := range []syscall.Errno{syscall.EROFS, syscall.ENOSPC} {
			fs := disktest.New(vfs.NewMem())
			fs.Fail(errno, op)
			stop := make(chan struct{})
			close(stop)
			s, err := Open("some/dir", Options{FS: fs, Stop: stop})
			if err == nil {
				t.Errorf("%s fails with %v: Open succeeded", op, errno)
				err = s.Close()
			}
			if !errors.Is(err, errno) && !strings.Contains(err.Error(), errno.Error()) {
				t.Errorf("%s: error = %v, want %v", op, err, errno)
			}
			if !strings.Contains(err.Error(), "some/dir") {
				t.Errorf("%s: error %q does not name the directory", op, err)
			}
		}
	}
}

func TestADirectoryIsOpenOnlyOnce(t *testing.T) {
	const env = "FANFARE_TEST_EMBEDDED_DIR"
	if dir := os.Getenv(env); dir != "" { // the second process
		if _, err := Open(dir, Options{}); !errors.Is(err, disk.ErrInUse) {
			t.Fatalf("error = %v, want disk.ErrInUse", err)
		}
		return
	}
	dir := t.TempDir()
	s := open(t, dir, Options{})
	if _, err := Open(dir, Options{}); !errors.Is(err, disk.ErrInUse) {
		t.Errorf("same process: error = %v, want disk.ErrInUse", err)
	}
	second := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestADirectoryIsOpenOnlyOnce$")
	second.Env = append(os.Environ(), env+"="+dir)
	if out, err := second.CombinedOutput(); err != nil {
		t.Errorf("other process: %v\n%s", err, out)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, Options{})
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
