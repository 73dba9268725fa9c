package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/archiving"
	"fanfare/internal/disk"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// archived is the archive of an engine in some worlds: the archive of `fanfare up`, with a spool on the engine's
// disk, and with a store of objects that fails. When the process dies, the archive may have to replace the disk.
// The methods of a nil archived do nothing.
type archived struct {
	e       *engine
	rng     *rand.Rand // only the driver draws numbers
	dir     string     // of the restored directories; on this machine, because a restore writes no other disk
	made    int        // the number of directories in dir
	home    string     // the directory of the archive's own state
	objects *vfs.MemFS // the disk of the objects
	far     *farStore
	spool   int64
	log     int64 // bytes of log between two bases
	journal *journal
	process *archivedProcess // nil between two processes
	loss    *loss            // nil if no restore is due
	upTo    time.Time        // the time up to which the processes that died brought everything to the archive
}

// archivedProcess is the archive of one process.
type archivedProcess struct {
	*archiving.Archiving
	dead atomic.Bool
	end  context.CancelFunc
	ran  chan error
}

const (
	tableDir, queueDir = dataDir + "/table", dataDir + "/queue"
	streamDir, baseDir = dataDir + "/stream", dataDir + "/base"
	// archiveEvery is the time between two segments. archiveKept is the age up to which a restore can return.
	archiveEvery, archiveKept = time.Second, 20 * time.Minute
	// archivedShare is the percentage of the worlds on the engine that have an archive.
	archivedShare = 20
)

// newArchived returns the archive of a world, nil for most worlds unless always is set.
func newArchived(e *engine, always bool) *archived {
	rng := draws(e.w.seed, 0, 53)
	if rng.IntN(100) >= archivedShare && !always {
		return nil
	}
	a := &archived{
		e: e, rng: rng, dir: e.outside.dir, objects: vfs.NewMem(), journal: newJournal(),
		spool: []int64{1 << 30, 1 << 30, 1 << 30, 4 << 10}[rng.IntN(4)], log: []int64{50_000, 200_000, 1 << 30}[rng.IntN(3)],
	}
	store, err := openObjects(a.objects)
	if err == nil {
		a.home, err = a.directory()
	}
	if err != nil {
		panic(err) // the disk of this machine fails
	}
	a.far = newFarStore(store, e.w.seed)
	for _, kind := range []string{FaultDays, FaultNights, FaultSleep, FaultLeap, FaultBury} { // each second writes a segment
		e.w.off[kind] = true
	}
	return a
}

// directory makes a directory.
func (a *archived) directory() (string, error) {
	a.made++
	dir := filepath.Join(a.dir, fmt.Sprint(a.made))
	return dir, disk.MakeDir(nil, dir)
}

// fail reports a violation of the archive's promises.
func (a *archived) fail(format string, args ...any) { a.e.w.load.fail("archive", format, args...) }

// saw counts an event of the archive.
func (a *archived) saw(event string) { a.e.w.Fired[ArchiveEvent+event]++ }

// ArchiveEvent is the beginning of the names of the archive's events in Counters.
const ArchiveEvent = "archive: "

// The events of an archive. A restore is of the newest state unless its name has more.
const (
	eventRestored = "restore"
	eventSteady   = "restore in steady times"
	eventTime     = "restore to a time"
	eventTerms    = "restore over terms"
	eventBranch   = "restore of a branch"
	eventWhole    = "restore after a stop in order"
	eventMoved    = "machine replaced"
	eventGap      = "restore refused for a gap"
	eventNoBase   = "restore without a base"
	eventDamaged  = "damage named"
	eventUnharmed = "restore beside damage"
)

// ArchiveEvents returns every event of an archive, and every kind of trouble of its store of objects.
func ArchiveEvents() []string {
	all := []string{objectsAway, objectsFailed, objectsLost, objectsLate, objectsTorn, objectsChanged}
	for _, event := range []string{eventRestored, eventSteady, eventTime, eventTerms, eventBranch, eventWhole, eventMoved, eventGap, eventNoBase, eventDamaged, eventUnharmed} {
		all = append(all, ArchiveEvent+event)
	}
	return all
}

// journal returns the oracle of the restores, nil if there is none.
func (e *engine) journal() *journal {
	if e.archived == nil {
		return nil
	}
	return e.archived.journal
}

// settings returns the configuration of the archive of a process on a disk.
func settings(disk vfs.FS, home string, store objects.Store) (archiving.Config, error) {
	state, err := archive.LoadState(home)
	return archiving.Config{
		FS: disk, Stream: streamDir, Queue: queueDir, Table: tableDir, Base: baseDir, Spool: 1 << 30, BaseLog: 1 << 30,
		Every: archiveEvery, Keep: archiveKept, State: state, Version: "sim", DataFormat: 2, Log: zap.NewNop(),
		Open:   func(context.Context) (objects.Store, error) { return store, nil },
		Random: func() float64 { return .5 }, // the goroutines of an archive draw in any order
	}, err
}

// begin starts the archive of the next process, before the process opens its stores.
func (a *archived) begin() error {
	if a == nil {
		return nil
	}
	p, disk := &archivedProcess{ran: make(chan error, 1)}, a.e.disk
	store := nearStore{a.far, func() bool { return !p.dead.Load() && !disk.cut() }}
	config, err := settings(disk, a.home, store)
	if err != nil {
		return err
	}
	config.Spool, config.BaseLog = a.spool, a.log
	if p.Archiving, err = archiving.Open(context.Background(), config); err != nil {
		return err
	}
	a.process = p
	return nil
}

// files returns the file systems of the table and of the queue.
func (a *archived) files(disk vfs.FS) (table, queue vfs.FS) {
	if a == nil {
		return disk, disk
	}
	return a.process.files()
}

func (p *archivedProcess) files() (table, queue vfs.FS) {
	return p.Tapped(stream.Table), p.Tapped(stream.Queue)
}

// run begins to write to the archive. The stores are open.
func (a *archived) run() {
	if a == nil {
		return
	}
	a.process.run(copier(a.e.disk, a.e.stores))
}

func (p *archivedProcess) run(copies archiving.Checkpoint) {
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	go func() { p.ran <- p.Run(ctx, copies) }() // halt waits for it
}

// halt ends the work of the archive, and returns why the archive refused the process.
func (p *archivedProcess) halt() error {
	p.end()
	return <-p.ran
}

// copier makes the copies of the stores for a base.
func copier(disks vfs.FS, s stores) archiving.Checkpoint {
	return func(ctx context.Context, dir string) error {
		if err := disk.MakeDir(disks, dir); err != nil {
			return err
		}
		return s.queue.Checkpoint(ctx, dir+"/queue", func() error { return s.table.Checkpoint(ctx, dir+"/table") })
	}
}

// die is called at the moment at which the process dies.
func (a *archived) die() {
	if a == nil || a.process == nil {
		return
	}
	a.process.dead.Store(true)
	a.loss = a.loses()
}

// halt ends the archive of a process that died. The disk is sound, so nothing waits for room.
func (a *archived) halt() {
	if a == nil || a.process == nil {
		return
	}
	if err := a.process.halt(); err != nil {
		a.fail("the archive refuses its only writer: %v", err)
	}
}

// closed is called after the stores of a process are closed. The next process may write to the archive before recover is
// called: its segments have the time of the start, also for the last frames of the process that died.
func (a *archived) closed() {
	if a == nil || a.process == nil {
		return
	}
	a.upTo = a.last()
	if err := a.process.Close(); err != nil {
		a.fail("close: %v", err)
	}
	a.process = nil
}

// stop stops the process in order: the archive gets its last writes.
func (a *archived) stop() error {
	a.far.mend(true)
	defer a.far.mend(false)
	time.Sleep(45*time.Second + 7*time.Millisecond + 93*time.Microsecond) // until the archive has its term
	if err := a.process.halt(); err != nil {
		return err
	}
	if err := a.e.stores.close(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.process.Drain(ctx); err != nil {
		return err
	}
	a.journal.settled()
	return nil
}

// finish checks the archive at the end of a world. It returns false if the world has no archive.
func (a *archived) finish() bool {
	if a == nil || a.process == nil {
		return false
	}
	if err := a.stop(); err != nil {
		a.fail("a stop in order: %v", err)
	}
	if r := a.restored(a.objects, time.Time{}, span{known: soon(), begun: soon()}); r != nil {
		a.saw(eventWhole)
		a.forget(r)
	}
	a.verify()
	a.closed()
	a.far.late.Wait()
	for kind, n := range a.far.fired {
		a.e.w.Fired[kind] += n
	}
	return true
}

// soon is a time after all events.
func soon() time.Time { return time.Now().Add(time.Hour) }

// verify checks the objects as `fanfare archive verify` does.
func (a *archived) verify() {
	found, err := a.opened(a.objects).Verify(context.Background(), func(int64, int64) {})
	if err != nil || len(found.Faults) > 0 {
		a.fail("verify finds %+v (%v)", found, err)
	}
}

// opened returns the archive on a disk of objects.
func (a *archived) opened(disk *vfs.MemFS) *archive.Archive {
	store, err := openObjects(disk)
	if err == nil {
		var opened *archive.Archive
		if opened, err = archive.New(store, time.Now); err == nil {
			return opened
		}
	}
	panic(errors.Join(errors.New("a disk in memory fails"), err)) // unreachable
}
