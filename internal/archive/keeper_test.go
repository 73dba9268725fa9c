package archive_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/archive"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// machine is a data directory on a disk in memory. Its state is a text, and its stream is the text
// that was added. At the position begin of the stream, the state was the text before.
type machine struct {
	tape
	fs     vfs.FS
	before string
	begin  int

	every  time.Duration // the interval of segments, a minute if 0
	during func()        // runs between the checkpoints of the queue and the table
	fail   error
	copies int
}

// set changes fields of a machine whose keeper may run.
func (m *machine) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// made returns the number of checkpoints.
func (m *machine) made() (n int) {
	m.set(func() { n = m.copies })
	return n
}

func newMachine() *machine { return &machine{fs: vfs.NewMem()} }

// state returns the state at an offset of the stream.
func (m *machine) state(upto int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.before + string(m.bytes[m.begin:upto])
}

func (m *machine) end() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.bytes)
}

// Settled implements archive.Source.
func (m *machine) Settled() (stream.Position, error) { return tapeAt(m.end()), nil }

// Checkpoint implements archive.Source. The queue has the state of the beginning, and the table
// has the state of the end. Sorted files have blocks of the state, so later bases share them.
func (m *machine) Checkpoint(_ context.Context, dir string) error {
	var during func()
	var fail error
	m.set(func() { m.copies++; during, fail = m.during, m.fail })
	m.put(dir, "queue/000001.log", fmt.Sprintf("%d %s", m.end(), m.state(m.end())))
	if during != nil {
		during()
	}
	if fail != nil {
		return fail
	}
	state := m.state(m.end())
	for n := 0; n+block <= len(state); n += block {
		m.put(dir, fmt.Sprintf("table/%06d.sst", n/block), state[n:n+block])
	}
	m.put(dir, "table/MANIFEST-000001", fmt.Sprint(m.end()))
	m.put(dir, "dev-secret", "secret")
	return nil
}

const block = 64

func (m *machine) put(dir, name, content string) {
	must(m.fs.MkdirAll(m.fs.PathJoin(dir, path.Dir(name)), 0o700))
	f, err := m.fs.Create(m.fs.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
	must(err)
	_, err = f.Write([]byte(content))
	must(errors.Join(err, f.Close()))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// office is a running archiver and keeper of a machine.
type office struct {
	*machine
	*archive.Keeper
	archive  *archive.Archive
	archiver *archive.Archiver
	term     archive.Term
	logs     *observer.ObservedLogs
	fenced   atomic.Bool
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

const (
	baseLog = 1000
	kept    = 6 * time.Hour
)

// openOffice takes a term for a machine. It starts nothing.
func openOffice(t *testing.T, store objects.Store, m *machine, s archive.Start) *office {
	t.Helper()
	return officeOf(t, open(t, store), m, take(t, open(t, store), s))
}

// officeOf returns the office of a term that a machine took.
func officeOf(t *testing.T, a *archive.Archive, m *machine, term archive.Term) *office {
	t.Helper()
	o := &office{machine: m, archive: a, term: term}
	core, logs := observer.New(zap.DebugLevel)
	o.logs = logs
	o.archiver = archive.NewArchiver(m, o.archive.Writer(o.term), cmp.Or(m.every, time.Minute), zap.New(core))
	o.Keeper = archive.NewKeeper(o.archiver, m, archive.KeeperConfig{FS: m.fs, Dir: "data/base", BaseLog: baseLog, Keep: kept, Log: zap.New(core)})
	return o
}

// run starts the archiver and the keeper. If the archiver is fenced, both stop.
func (o *office) run(ctx context.Context) {
	ctx, o.cancel = context.WithCancel(ctx)
	o.running.Go(func() {
		o.fenced.Store(o.archiver.Run(ctx) != nil)
		o.cancel()
	})
	o.running.Go(func() { o.Run(ctx) })
}

func (o *office) stop() {
	o.cancel()
	o.running.Wait()
}

// names returns the names of the objects with a prefix.
func names(t *testing.T, store objects.Store, prefix string) (all []string) {
	t.Helper()
	for object, err := range store.List(t.Context(), prefix, "") {
		require.NoError(t, err)
		all = append(all, object.Name)
	}
	return all
}

// bases returns the bases in a store.
func bases(t *testing.T, a *archive.Archive) []archive.Base {
	t.Helper()
	c, err := a.Catalog(t.Context())
	require.NoError(t, err)
	return c.Bases
}

// sound checks that an archive has no fault.
func sound(t *testing.T, a *archive.Archive) {
	t.Helper()
	found, err := a.Verify(t.Context(), func(int64, int64) {})
	require.NoError(t, err)
	require.Empty(t, found.Faults)
}

// inOffice runs a test with a machine and its office in a bubble.
func inOffice(t *testing.T, test func(t *testing.T, store objects.Store, o *office)) {
	t.Helper()
	inOfficeOf(t, newMachine(), test)
}

// inOfficeOf runs a test with the office of a machine in a bubble. The first base may be made before the test begins.
func inOfficeOf(t *testing.T, m *machine, test func(t *testing.T, store objects.Store, o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := inMemory(t)
		m.write(500) // data from before the archive
		o := openOffice(t, store, m, start("node", tapeAt(500)))
		o.run(t.Context())
		test(t, store, o)
		o.stop()
	})
}

// A directory that gets an archive makes a base at once. The archive lists the base once it has the stream up to
// the base's end.
func TestTheFirstStartMakesABase(t *testing.T) {
	t.Parallel()
	m := newMachine()
	m.during = func() { m.write(100) }
	inOfficeOf(t, m, func(t *testing.T, store objects.Store, o *office) {
		synctest.Wait()
		require.Empty(t, names(t, store, "b/"))
		for range 4 {
			o.write(5)
			sleep(time.Minute)
			for _, b := range bases(t, o.archive) {
				reached, _ := o.archiver.Reached()
				require.True(t, reached.End.Covers(stream.Position(b.To)), "the list is there before the stream")
			}
		}
		all := bases(t, o.archive)
		require.Len(t, all, 1)
		b := all[0]
		assert.EqualValues(t, 1, b.First)
		assert.Equal(t, archive.Position(tapeAt(500)), b.From)
		assert.Equal(t, archive.Position(tapeAt(600)), b.To)
		var files []string
		for _, f := range b.Files {
			files = append(files, f.Name)
		}
		assert.Equal(t, []string{
			"dev-secret", "queue/000001.log", "table/000000.sst", "table/000001.sst", "table/000002.sst", "table/000003.sst",
			"table/000004.sst", "table/000005.sst", "table/000006.sst", "table/000007.sst", "table/000008.sst", "table/MANIFEST-000001",
		}, files)
		left, err := o.fs.List("data")
		require.NoError(t, err)
		assert.Empty(t, left, "the checkpoint is still there")
		assert.Equal(t, b.First, o.Latest().First)
		sound(t, o.archive)
	})
}

// A base is due after BaseLog bytes of log, and after a day. It sends new files only.
func TestABaseAfterEnoughLogAndAfterADay(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		sleep(5 * time.Minute)
		before := names(t, store, "f/")
		o.write(baseLog - 1)
		sleep(5 * time.Minute)
		require.Len(t, bases(t, o.archive), 1)
		o.write(2)
		sleep(5 * time.Minute)
		require.Len(t, bases(t, o.archive), 2)
		// The new blocks of the sorted files have contents that the archive has already.
		assert.Len(t, names(t, store, "f/"), len(before)+2)
		sleep(23 * time.Hour)
		require.Equal(t, 2, o.made())
		sleep(2 * time.Hour)
		require.Equal(t, 3, o.made())
		sound(t, o.archive)
	})
}

// lastOf returns the earliest time to which a restore can begin with a base.
func lastOf(t *testing.T, a *archive.Archive, b archive.Base) time.Time {
	t.Helper()
	e, err := a.Ends(t.Context(), b)
	require.NoError(t, err)
	require.False(t, e.Last.After(b.MadeAt))
	return e.Last
}

// After a gap the earlier base does not lead to the present, so a new base is made. The base begins
// behind the gap.
func TestABaseAfterAGap(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		sleep(5 * time.Minute)
		o.write(10)
		o.drop(506)
		sleep(5 * time.Minute)
		all := bases(t, o.archive)
		require.Len(t, all, 2)
		marks := names(t, store, "g/")
		require.Len(t, marks, 1)
		n, err := strconv.ParseUint(marks[0][len("g/0000000000000001-"):], 16, 64)
		require.NoError(t, err)
		assert.Greater(t, all[1].First, n)
		c, err := o.archive.Catalog(t.Context())
		require.NoError(t, err)
		lines, err := o.archive.Lines(t.Context(), c)
		require.NoError(t, err)
		require.Len(t, lines, 1)
		require.Len(t, lines[0].Ranges, 2)
		require.Len(t, lines[0].Gaps, 1)
		assert.Equal(t, lastOf(t, o.archive, all[0]), lines[0].Ranges[0].From)
		assert.Equal(t, lastOf(t, o.archive, all[1]), lines[0].Gaps[0].To)
		assert.True(t, lines[0].Ranges[0].To.Before(lines[0].Gaps[0].From))
		sound(t, o.archive)
	})
}

// Frames that are dropped during a base make that base useless.
func TestAGapDuringABase(t *testing.T) {
	t.Parallel()
	m := newMachine()
	m.during = sync.OnceFunc(func() {
		m.write(20)
		m.drop(510)
	})
	inOfficeOf(t, m, func(t *testing.T, _ objects.Store, o *office) {
		sleep(10 * time.Minute)
		all := bases(t, o.archive)
		require.Len(t, all, 1)
		assert.Equal(t, 2, o.made())
		assert.Equal(t, archive.Position(tapeAt(520)), all[0].From)
	})
}

// A base fails, is tried again, and makes no write wait. A warning names the reason and the remedy.
func TestABaseThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		sleep(5 * time.Minute)
		o.set(func() { o.fail = fmt.Errorf("link: %w", syscall.ENOSPC) })
		o.write(baseLog)
		sleep(24 * time.Hour)
		assert.Less(t, o.made(), 60)
		require.Len(t, bases(t, o.archive), 1)
		assert.NotEmpty(t, o.logs.FilterMessageSnippet("cannot be kept").All())
		o.set(func() { o.fail = nil })
		sleep(time.Hour)
		require.Len(t, bases(t, o.archive), 2)
		assert.Equal(t, tapeAt(500+baseLog), o.have())
		left, err := o.fs.List("data")
		require.NoError(t, err)
		assert.Empty(t, left)
		sound(t, o.archive)
	})
}

// Another directory takes the archive in the middle of a base. The archive may have had the stream
// up to the end of the base before that.
func TestAFenceDuringABaseLeavesNoList(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 100} {
		inOffice(t, func(t *testing.T, store objects.Store, o *office) {
			sleep(5 * time.Minute)
			o.set(func() {
				o.during = func() {
					o.write(more)
					taker := start("other", at(0, 0))
					taker.Anyway = true
					take(t, open(t, store), taker)
				}
			})
			o.write(baseLog)
			sleep(time.Hour)
			assert.True(t, o.fenced.Load())
			require.Len(t, bases(t, o.archive), 1)
			sound(t, o.archive)
		})
	}
}

// A file that is gone when the archive has the stream is sent again, before a list names it.
func TestAFileThatIsGoneIsSentAgain(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		synctest.Wait()
		sent := names(t, store, "f/")
		require.NotEmpty(t, sent)
		require.NoError(t, store.Delete(t.Context(), sent[0]))
		sleep(3 * time.Minute)
		require.Empty(t, bases(t, o.archive))
		sleep(10 * time.Minute)
		require.Len(t, bases(t, o.archive), 1)
		sound(t, o.archive)
	})
}

// A process that starts continues with the last base, and removes the checkpoint of a process that
// died.
func TestAStartContinuesWithTheLastBase(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		sleep(5 * time.Minute)
		o.stop()
		o.put("data/base", "queue/000001.log", "half a checkpoint")
		again := openOffice(t, store, o.machine, start("node", tapeAt(500)))
		again.run(t.Context())
		sleep(5 * time.Minute)
		left, err := o.fs.List("data")
		require.NoError(t, err)
		assert.Empty(t, left)
		require.Len(t, bases(t, o.archive), 1)
		again.write(baseLog)
		sleep(5 * time.Minute)
		require.Len(t, bases(t, o.archive), 2)
		again.stop()
		copied := start("copy", tapeAt(500+baseLog))
		copied.Anyway, copied.Followed = true, parent(2, tapeAt(500+baseLog))
		third := openOffice(t, store, o.machine, copied)
		third.run(t.Context())
		sleep(5 * time.Minute)
		assert.Len(t, bases(t, o.archive), 3, "another directory begins with a base of its own")
		third.stop()
		sound(t, o.archive)
	})
}

// A large file is sent at a limited rate.
func TestABaseIsSentSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, m := inMemory(t), newMachine()
		m.during = func() { m.put("data/base", "table/999999.sst", string(bytes.Repeat([]byte("x"), 40<<20))) }
		o := openOffice(t, store, m, start("node", tapeAt(0)))
		began := time.Now()
		o.run(t.Context())
		for len(names(t, store, "f/")) < 4 {
			sleep(100 * time.Millisecond)
		}
		assert.InDelta(t, 2.4, time.Since(began).Seconds(), 0.3)
		o.stop()
	})
}
