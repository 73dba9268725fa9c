package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/archive"
	"fanfare/internal/archiving"
	"fanfare/internal/datadir"
	"fanfare/internal/objects"
	"fanfare/internal/obs"
	"fanfare/internal/pair"
)

// The directories of the archive within the data directory: the spool, and the copy of which a base is made.
const (
	spoolDir = "stream"
	baseDir  = "base"
	// baseLog is the number of bytes of log between two bases. A restore reads them, and a base costs more than this log.
	baseLog = 8 << 30
)

// keeping is the archive of the process's data directory, and the goroutines that keep the archive up to date.
type keeping struct {
	*archiving.Archiving
	roots *roots   // nil until the stores are open
	told  bool     // watch has returned the error of the roots
	pair  *pairing // nil without a pair
}

// stopDrain is the time in which the archive gets the last writes at a stop, which needs the rest of cleanupTime to close the
// data directory.
const stopDrain = cleanupTime - 2*time.Second

// openArchive opens the archive before the stores are opened. It returns nil if there is no archive.
func (p *process) openArchive(ctx context.Context, dir *datadir.Dir) (*keeping, error) {
	if p.cfg.Archive == "" {
		return nil, nil //nolint:nilnil // without an archive there is nothing to keep, and no store has a tap
	}
	location, err := p.archiveOf(dir)
	if err != nil {
		return nil, err
	}
	state, err := archive.LoadState(dir.Path("."))
	if err != nil {
		return nil, err
	}
	metrics, err := obs.NewArchive(p.reg)
	if err != nil {
		return nil, err
	}
	a, err := archiving.Open(ctx, archiving.Config{
		Shared: p.pairing.shared(), Stream: dir.Path(spoolDir), Queue: dir.Path(datadir.Queue), Table: dir.Path(datadir.Table), Base: dir.Path(baseDir),
		Spool: int64(p.cfg.StreamSpool), Every: p.cfg.ArchiveEvery, BaseLog: baseLog, Keep: p.cfg.ArchiveKeep,
		State: state, Open: location.Open, Version: p.opt.Version, DataFormat: dir.Format(), Put: metrics.Put, Now: p.opt.Now, Log: p.log.Named("archive"),
	})
	if err != nil {
		return nil, fmt.Errorf("FANFARE_ARCHIVE %s: %w", p.cfg.Archive, err)
	}
	k := &keeping{Archiving: a, pair: p.pairing}
	p.cleanups.add("archive", k.stop) // after the stores are closed, so that the archive gets their last writes
	return k, metrics.Watch(a)
}

// archiveOf returns the place of the archive of a data directory.
func (p *process) archiveOf(dir *datadir.Dir) (objects.Location, error) {
	location, err := objects.Parse(p.cfg.Archive)
	if err != nil {
		return location, fmt.Errorf("FANFARE_ARCHIVE: %w", err)
	}
	return location, outside(location.Dir, dir.Path("."))
}

// outside returns an error if the archive would be lost together with the data directory.
func outside(store, data string) error {
	if store == "" {
		return nil
	}
	from, err := filepath.Abs(data)
	if err == nil {
		from, err = filepath.EvalSymlinks(from)
	}
	if err != nil {
		return fmt.Errorf("data directory %s: %w", data, err)
	}
	to, err := filepath.EvalSymlinks(store)
	if errors.Is(err, fs.ErrNotExist) {
		to = store // its disk may not be mounted yet
	} else if err != nil {
		return fmt.Errorf("FANFARE_ARCHIVE %s: %w", store, err)
	}
	within, err := filepath.Rel(from, to)
	if err == nil && within != ".." && !strings.HasPrefix(within, ".."+string(os.PathSeparator)) {
		return fmt.Errorf("FANFARE_ARCHIVE: %s is in the data directory, and would be lost with it: choose a directory on another disk, or s3://bucket/prefix", store)
	}
	return nil
}

// start starts to write to the archive. The stores are open.
func (k *keeping) start(ctx context.Context, log *zap.Logger, b *backups) {
	k.roots = newRoots(context.WithoutCancel(ctx), log)
	k.roots.start("writer", func(ctx context.Context) error { return k.Run(ctx, b.forArchive) })
}

// watch returns an error if this process must not write to the archive.
func (k *keeping) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-k.roots.ctx.Done():
		k.told = true
		err := k.roots.wait()
		if k.pair.mayBeReplaced(err) {
			err = fmt.Errorf("%w: %w", errOtherRole, err)
		}
		return err
	}
}

// stop writes the rest of the stream to the archive. A machine that hands over leaves the rest to the other machine, which has it.
func (k *keeping) stop(ctx context.Context) error {
	var err error
	if k.roots != nil {
		k.roots.cancel()
		err = k.roots.wait()
	}
	switch {
	case k.told:
		err = nil
	case err == nil && !k.pair.leaves():
		soon, cancel := context.WithTimeout(ctx, stopDrain)
		defer cancel()
		err = k.Drain(soon)
	}
	if k.pair != nil && archive.Ended(err) { // the next start decides about the role
		err = nil
	}
	return errors.Join(err, k.Close())
}

// succeeds returns a function that stores the place at which a standby becomes the primary, so that the archive continues there. Without an
// archive the function is nil.
func (p *process) succeeds(dir *datadir.Dir) func(pair.Succession) error {
	if p.cfg.Archive == "" {
		return nil
	}
	return func(s pair.Succession) error {
		state, err := archive.NewState(dir.Path("."), p.role.Lineage)
		if err != nil {
			return err
		}
		state.Disk, state.Followed.Position, state.Restored = s.Disk, archive.Position(s.Upto), archive.Position(s.At)
		return state.Save()
	}
}

// checks returns the warnings about the archive. An archive that is late or has a gap refuses nothing.
func (k *keeping) checks() []admin.Check {
	return []admin.Check{
		{Name: "the archive is late", Ask: func(context.Context) error { return k.Late() }, Warn: true},
		{Name: "the archive has a gap", Ask: func(context.Context) error { return k.Gap() }, Warn: true},
	}
}
