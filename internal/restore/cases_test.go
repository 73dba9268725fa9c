package restore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/follow"
	"fanfare/internal/objects"
	"fanfare/internal/restore"
	"fanfare/internal/stream"
)

// begun returns a world with a base.
func begun(t *testing.T, store objects.Store) *world {
	t.Helper()
	w := newWorld(t, store, t.TempDir(), map[string]int{})
	t.Cleanup(func() { w.stop() })
	w.both()
	w.base(func() {})
	return w
}

// both writes to both stores.
func (w *world) both() {
	for range 3 {
		w.write(stream.Queue, uint64(w.clock.Load()), true)
		w.write(stream.Table, uint64(w.clock.Load()), true)
	}
}

// must restores a time, which the archive must have.
func (w *world) must(t *testing.T, at int64) *restored {
	t.Helper()
	r := w.restore(at)
	require.NotNil(t, r, "the archive refuses %d", at)
	return r
}

func TestNoFrameAfterTheTimeIsApplied(t *testing.T) {
	t.Parallel()
	w := begun(t, inMemory(t))
	w.both()
	at := w.clock.Load()
	w.both()
	w.settle(1 << 20) // one segment has both
	w.must(t, at)
	w.must(t, 0)
}

func TestABaseThatEndsAfterTheTimeIsNotTaken(t *testing.T) {
	t.Parallel()
	w := begun(t, inMemory(t))
	w.both()
	w.settle(1 << 20)
	at := w.clock.Load()
	w.both()
	w.base(w.both)
	w.must(t, at)
	w.must(t, w.last-1)
	w.must(t, w.last)
}

// A restore ends inside a segment of the first machine. What this machine wrote later is void.
func TestAParentIsCutWhereItsChildContinues(t *testing.T) {
	t.Parallel()
	w := begun(t, inMemory(t))
	w.both()
	at := w.clock.Load()
	w.both()
	w.settle(1 << 20)
	w.move(w.must(t, at))
	w.both()
	w.settle(1 << 20)
	w.must(t, 0)
	w.must(t, at)
	w.move(w.must(t, 0))
	w.both()
	w.settle(1 << 20)
	w.must(t, 0)
}

// The branch that a restored directory left is restored by the number of its last term.
func TestABranchIsRestoredByItsTerm(t *testing.T) {
	t.Parallel()
	w := begun(t, inMemory(t))
	w.both()
	at := w.clock.Load()
	w.both()
	w.settle(1 << 20)
	left := w.must(t, 0)
	w.move(w.must(t, at))
	w.settle(1 << 20)
	newest, err := restore.Find(t.Context(), w.archive, restore.Target{})
	require.NoError(t, err)
	assert.EqualValues(t, 2, newest.Term())
	branch, err := restore.Find(t.Context(), w.archive, restore.Target{Term: 1})
	require.NoError(t, err)
	assert.EqualValues(t, 1, branch.Term())
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, w.run(branch, dir))
	state, err := archive.LoadState(dir)
	require.NoError(t, err)
	of, err := archive.LoadState(left.dir)
	require.NoError(t, err)
	assert.Equal(t, of.Followed, state.Followed)
}

// run runs a plan.
func (w *world) run(plan restore.Plan, dir string) error {
	return restore.Run(context.Background(), w.archive, plan, dir, restore.Options{Log: zap.NewNop(), Done: func(int64) {}, Remove: func([]string) error { return nil }})
}

func TestAGapIsRefused(t *testing.T) {
	t.Parallel()
	w := begun(t, inMemory(t))
	w.both()
	w.settle(1 << 20)
	before := w.last - 1
	w.drop()
	w.must(t, before)
	refused := []int64{w.gaps[0].from, w.gaps[0].from + 1, w.last - 1}
	for _, at := range refused {
		_, err := restore.Find(t.Context(), w.archive, restore.Target{At: time.UnixMilli(at)})
		gap, ok := errors.AsType[*restore.GapError](err)
		require.Truef(t, ok, "%d: %v", at, err)
		assert.Equal(t, w.gaps[0].from, gap.From.UnixMilli())
		assert.Equal(t, w.bases[1].ends, gap.Next.UnixMilli())
		assert.ErrorContains(t, err, "or "+gap.Next.UTC().Format("2006-01-02T15:04:05.000Z")+" or later")
	}
	w.both()
	w.settle(1 << 20)
	w.must(t, 0)
}

// A base of stores that nobody writes to is made later than its last frame.
func TestTheListOfTimesBeginsWhereRestoresBegin(t *testing.T) {
	t.Parallel()
	w := begun(t, inMemory(t))
	w.begins()
	w.must(t, w.bases[0].ends)
	w.both()
	w.drop()
	w.idle()
	w.begins()
}

func TestTimesThatTheArchiveDoesNotHaveAreRefused(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	a, err := archive.New(store, time.Now)
	require.NoError(t, err)
	_, err = restore.Find(t.Context(), a, restore.Target{})
	require.ErrorContains(t, err, "no base")
	w := begun(t, store)
	_, err = restore.Find(t.Context(), w.archive, restore.Target{At: time.UnixMilli(1)})
	early, ok := errors.AsType[*restore.EarlyError](err)
	require.Truef(t, ok, "%v", err)
	assert.Equal(t, w.bases[0].ends, early.Earliest.UnixMilli())
	_, err = restore.Find(t.Context(), w.archive, restore.Target{At: time.UnixMilli(w.last + 1)})
	late, ok := errors.AsType[*restore.LateError](err)
	require.Truef(t, ok, "%v", err)
	assert.Equal(t, w.last, late.Last.UnixMilli())
	w.must(t, w.last)
}

// The archive got only a part of what a crash left in the logs: the queue, without the table on which it depends.
func TestWhatACrashLeftIsOnePiece(t *testing.T) {
	t.Parallel()
	w := begun(t, inMemory(t))
	w.settle(1 << 20)
	w.both()
	for range 2 {
		w.crash(0, 1, func() {}) // with the spool, which has the order of the frames
		for range 3 {            // all frames of one store, none of the other one
			w.segment(1)
			w.must(t, 0)
		}
	}
	w.settle(1 << 20)
	w.must(t, 0)
}

// A damaged or missing object, also in the middle of the segments, is named with its way out.
func TestADamagedArchiveNamesItsWayOut(t *testing.T) {
	t.Parallel()
	store := &altered{Store: inMemory(t)}
	w := begun(t, store)
	for range 3 {
		w.both()
		w.settle(1 << 20)
	}
	plan, err := restore.Find(t.Context(), w.archive, restore.Target{})
	require.NoError(t, err)
	var all []string
	for object, err := range store.List(t.Context(), "t/", "") {
		require.NoError(t, err)
		all = append(all, object.Name)
	}
	segment := all[len(all)-2]
	for name, alter := range map[string]func([]byte) []byte{
		"missing": nil, "damaged": func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, "cut": func(b []byte) []byte { return b[:len(b)-9] },
	} {
		store.name, store.alter = segment, alter
		_, err = restore.Find(t.Context(), w.archive, restore.Target{})
		if err == nil { // the headers are sound
			err = restore.Run(t.Context(), w.archive, plan, filepath.Join(t.TempDir(), "data"), restore.Options{Done: func(int64) {}, Log: zap.NewNop()})
		}
		require.ErrorContainsf(t, err, "fanfare archive verify", name)
	}
}

// altered is a store in which an object is damaged, longer, shorter or missing.
type altered struct {
	objects.Store
	name  string
	alter func([]byte) []byte // nil: the object is missing
}

// Get implements objects.Store.
func (s *altered) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	body, err := s.Store.Get(ctx, name)
	if err != nil || name != s.name {
		return body, err
	}
	if s.alter == nil {
		return nil, errors.Join(objects.ErrNotThere, errors.New(name), body.Close())
	}
	content, err := io.ReadAll(body)
	return io.NopCloser(bytes.NewReader(s.alter(content))), errors.Join(err, body.Close())
}

func TestADamagedOrMissingObjectIsNamed(t *testing.T) {
	t.Parallel()
	store := &altered{Store: inMemory(t)}
	w := begun(t, store)
	w.both()
	w.settle(1 << 20)
	plan, err := restore.Find(t.Context(), w.archive, restore.Target{})
	require.NoError(t, err)
	var names []string
	for _, f := range plan.Base.Files {
		if f.Bytes > 0 {
			names = append(names, archive.FileName(f.SHA256))
		}
	}
	for object, err := range store.List(t.Context(), "t/", "") {
		require.NoError(t, err)
		if strings.Contains(object.Name, "/s/") {
			names = append(names, object.Name)
		}
	}
	last := names[len(names)-1]
	for i, name := range append(names[:4:4], last) {
		for kind, alter := range map[string]func([]byte) []byte{
			"damaged": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			"shorter": func(b []byte) []byte { return b[:len(b)-1] },
			"longer":  func(b []byte) []byte { return append(b, 0) },
			"missing": nil,
		} {
			store.name, store.alter = name, alter
			data := filepath.Join(t.TempDir(), "data")
			err := w.run(plan, data)
			require.Errorf(t, err, "%s is %s", name, kind)
			if i < 4 || kind == "missing" {
				assert.ErrorContains(t, err, name)
			} else {
				assert.ErrorContains(t, err, "of the archive is damaged")
			}
			left, err := os.ReadDir(data)
			require.NoError(t, err)
			require.Lenf(t, left, 1, "%s is %s", name, kind)
			assert.Equal(t, "LOCK", left[0].Name())
		}
	}
	store.name = ""
	require.NoError(t, w.run(plan, filepath.Join(t.TempDir(), "data")))
	store.name, store.alter = archive.BaseName(plan.Base.Term, plan.Base.First), func(b []byte) []byte { return b[1:] }
	_, err = restore.Find(t.Context(), w.archive, restore.Target{})
	require.ErrorContains(t, err, store.name)
}

// A bit of a header decides where a restore ends and with which base it begins, and the frames behind it may not be read.
func TestADamagedHeaderIsNamedOrNotNeeded(t *testing.T) {
	t.Parallel()
	store := &altered{Store: inMemory(t)}
	w := begun(t, store)
	times := []int64{w.clock.Load(), 0}
	for range 2 {
		w.both()
		w.settle(1 << 20)
		times = append(times, w.clock.Load())
		w.both()
		w.base(w.both)
		w.settle(1 << 20)
		times = append(times, w.last, w.last-1)
	}
	w.drop()
	times = append(times, w.last-1, w.gaps[0].from)
	var segments []string
	for object, err := range store.List(t.Context(), "t/0000000000000001/s/", "") {
		require.NoError(t, err)
		segments = append(segments, object.Name)
	}
	const header = 140
	for _, at := range times {
		target := restore.Target{}
		if at != 0 {
			target.At = time.UnixMilli(at)
		}
		store.name = ""
		want, wantErr := restore.Find(t.Context(), w.archive, target)
		for i, name := range segments {
			for bit := range 3 * header / 8 { // three bits of the last byte of each number
				store.name, store.alter = name, func(b []byte) []byte { b[bit/3*8+7] ^= 1 << (bit % 3 * 3); return b }
				plan, err := restore.Find(t.Context(), w.archive, target)
				if err == nil && wantErr == nil && !plan.Until.Equal(want.Until) { // the restore reads what the plan read a part of
					err = w.run(plan, filepath.Join(t.TempDir(), "data"))
				}
				if fmt.Sprint(err) != fmt.Sprint(wantErr) {
					require.ErrorContainsf(t, err, fmt.Sprintf("segment %x of term 1 ", i+1), "bit %d, to %v, without damage: %v %v", bit, target.At, want.Until, wantErr)
				}
			}
		}
	}
}

// A base has the files of the stores and the secret. Any other file would make the directory look like another one.
func TestABaseWithAFileOfTheSourceIsRefused(t *testing.T) {
	t.Parallel()
	w := begun(t, inMemory(t))
	for _, name := range []string{archive.StateFile, "ROLE", "FORMAT", "LOCK", "queue/LOCK", "stream/1", "table/x/y"} {
		plan, err := restore.Find(t.Context(), w.archive, restore.Target{})
		require.NoError(t, err)
		plan.Base.Files = append(plan.Base.Files[:len(plan.Base.Files):len(plan.Base.Files)], w.file(name, []byte("of the source")))
		require.ErrorContainsf(t, w.run(plan, filepath.Join(t.TempDir(), "data")), "is no file of a base", name)
	}
}

func TestARestoredDirectoryHasANodeOfItsOwn(t *testing.T) {
	t.Parallel()
	w := begun(t, inMemory(t))
	w.both()
	w.settle(1 << 20)
	source, err := archive.LoadState(w.home)
	require.NoError(t, err)
	first, second := w.must(t, 0), w.must(t, 0)
	one, err := archive.LoadState(first.dir)
	require.NoError(t, err)
	two, err := archive.LoadState(second.dir)
	require.NoError(t, err)
	assert.NotEqual(t, source.Node, one.Node)
	assert.NotEqual(t, two.Node, one.Node)
	assert.Equal(t, source.Lineage, one.Lineage)
	assert.Zero(t, one.Took)
	assert.Empty(t, one.Asked)
	assert.Equal(t, archive.Parent{Term: 1, Position: archive.Position(w.writer.End())}, one.Followed)

	// The directory may not continue the archive until an operator decides so.
	_, err = w.archive.Take(t.Context(), one.Start(stream.Position(one.Restored), "v", 2))
	require.ErrorIs(t, err, archive.ErrTakenOver)
	no := errors.New("no")
	asked, err := restore.Take(t.Context(), w.archive, first.dir, "v", func(restore.Takeover) error { return no })
	require.ErrorIs(t, err, no)
	assert.EqualValues(t, 1, asked.Newest.Number)
	w.idle() // nobody ended the writer
	taken, err := restore.Take(t.Context(), w.archive, first.dir, "v", func(restore.Takeover) error { return nil })
	require.NoError(t, err)
	assert.Equal(t, asked.Newest, taken.Newest)
	assert.EqualValues(t, 1, taken.Follows)
	assert.EqualValues(t, 2, taken.Term)
	assert.False(t, taken.Own || taken.Copy || taken.Lacks)
	one, err = archive.LoadState(first.dir)
	require.NoError(t, err)
	term, err := w.archive.Take(t.Context(), one.Start(ends(t, first.dir), "v", 2))
	require.NoError(t, err)
	assert.EqualValues(t, 2, term.Parent.Term)
}

// A directory whose log was cut takes no archive: its place would be the end of the cut log, also when the file is back.
func TestADirectoryWithADamagedLogTakesNoArchive(t *testing.T) {
	t.Parallel()
	w := begun(t, inMemory(t))
	w.both()
	w.settle(1 << 20)
	plan, err := restore.Find(t.Context(), w.archive, restore.Target{})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, w.run(plan, dir))
	log := filepath.Join(dir, datadir.Table, fmt.Sprintf("%06d.log", ends(t, dir).Table.Log))
	require.NoError(t, os.Truncate(log, 1))
	_, err = restore.Take(t.Context(), w.archive, dir, "v", func(restore.Takeover) error {
		t.Error("the operator is asked")
		return nil
	})
	require.ErrorIs(t, err, disk.ErrDamaged)
	require.ErrorContains(t, err, log)
}

// ends returns where the logs of a directory end.
func ends(t *testing.T, dir string) (at stream.Position) {
	t.Helper()
	for _, store := range stores {
		place, err := follow.End(vfs.Default, filepath.Join(dir, dirOf(store)))
		require.NoError(t, err)
		at = at.With(store, place)
	}
	return at
}
