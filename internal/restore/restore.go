// Package restore makes a data directory from an archive, with the state of any time that the
// archive has (docs/decisions/0054-archive.md). Find chooses a base and the segments after it, and
// Run fills an empty directory: the files of the base, the logs of the base from their beginnings,
// and then the frames of the segments, each parent cut where the next term continues.
//
// A restore is complete or does not exist: until its end, no version opens the directory. Each
// file and each segment is compared with its hash. Package restore must never apply a frame after
// the wanted time, and never give a directory the node of another one.
package restore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/follow"
	"fanfare/internal/ops/backup"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/stream"
	tableembedded "fanfare/internal/table/embedded"
)

// Options are the parts of a restore that its caller decides.
type Options struct {
	// Remove decides whether the remains of an unfinished restore are deleted: an error keeps them.
	Remove func(remains []string) error
	// Done is called with the number of bytes that are done, up to Plan.Size. Calls of Done do not
	// run at the same time.
	Done func(bytes int64)
	// Log receives the trouble of the disk.
	Log *zap.Logger
	// FS is the way to the files of the stores; the operating system's file system if nil.
	FS vfs.FS
}

// Run makes the data directory data, which must be new or empty. If Run fails, the directory is
// empty, or stays half restored and cannot be opened.
func Run(ctx context.Context, a *archive.Archive, p Plan, data string, o Options) error {
	return backup.Fill(data, o.Remove, func(dir *datadir.Dir) error {
		if err := room(dir, p.Size()); err != nil {
			return err
		}
		o.Done = summed(o.Done)
		if err := copyFiles(ctx, a, p.Base, dir, o.Done); err != nil {
			return err
		}
		followed, err := apply(ctx, a, p, dir, o)
		if err != nil {
			return err
		}
		return settle(dir, p.parts[0].link.Lineage, followed)
	})
}

// summed returns a function that gets the number of bytes of each step, and calls done with their sum.
func summed(done func(int64)) func(int64) {
	var mu sync.Mutex
	var sum int64
	return func(bytes int64) {
		mu.Lock()
		defer mu.Unlock()
		sum += bytes
		done(sum)
	}
}

// room returns an error if the disk has less room than a restore needs.
func room(dir *datadir.Dir, need int64) error {
	usage, err := vfs.Default.GetDiskUsage(dir.Path("."))
	if err == nil && usage.AvailBytes < uint64(need) {
		err = fmt.Errorf("the restore needs %.1f GB, and the disk of %s has %.1f GB: make room, or choose another disk", float64(need)/1e9, dir.Path("."), float64(usage.AvailBytes)/1e9)
	}
	return err
}

// settle stores the directory's place in the archive. It gets a node of its own, so it never looks like the
// directory that wrote the archive.
func settle(dir *datadir.Dir, lineage string, followed archive.Parent) error {
	if err := os.RemoveAll(dir.Path(logsDir)); err != nil {
		return err
	}
	state, err := archive.NewState(dir.Path("."), lineage)
	if err != nil {
		return err
	}
	state.Followed = followed
	for store, at := range map[string]*stream.Place{datadir.Queue: &state.Restored.Queue, datadir.Table: &state.Restored.Table} {
		var err error
		if *at, err = follow.End(vfs.Default, dir.Path(store)); err != nil {
			return err
		}
	}
	return state.Save() // it also syncs the directory
}

// apply applies the logs of the base and the segments, and returns the place at which the data are.
func apply(ctx context.Context, a *archive.Archive, p Plan, dir *datadir.Dir, o Options) (followed archive.Parent, err error) {
	for _, store := range []string{datadir.Queue, datadir.Table} {
		if err := disk.Adopt(vfs.Default, dir.Path(store)); err != nil {
			return followed, fmt.Errorf("the base of the archive: %w", err)
		}
	}
	queue, err := queueembedded.OpenReplica(o.FS, dir.Path(datadir.Queue), o.Log)
	if err != nil {
		return followed, err
	}
	defer func() { err = errors.Join(err, queue.Close(func() {})) }()
	table, err := tableembedded.OpenReplica(o.FS, dir.Path(datadir.Table), o.Log)
	if err != nil {
		return followed, err
	}
	defer func() { err = errors.Join(err, table.Close(func() {})) }()

	r := &run{archive: a, plan: p, follower: follow.New(queue.DB, table.DB), done: o.Done}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { // awaitEnd waits for this goroutine, or a disk in trouble holds it until the process ends
		ended <- r.all(ctx, dir, queue, table)
	}()
	if err := awaitEnd(ended, queue, table); err != nil {
		return followed, err
	}
	return r.followed, nil
}

// awaitEnd waits for the end of the work on both stores, or for trouble of the disk.
func awaitEnd(ended <-chan error, queue, table *disk.DB) error {
	for {
		queueTrouble, err := queue.State()
		if err != nil {
			return err
		}
		tableTrouble, err := table.State()
		if err != nil {
			return err
		}
		select {
		case err := <-ended:
			return err
		case <-queueTrouble: // it may have passed already
		case <-tableTrouble:
		}
	}
}

// run applies a plan to a follower.
type run struct {
	archive  *archive.Archive
	plan     Plan
	follower *follow.Follower
	done     func(int64)
	followed archive.Parent
}

// all applies the base's logs and the segments, and writes everything to the disk.
func (r *run) all(ctx context.Context, dir *datadir.Dir, stores ...*disk.DB) error {
	defer r.follower.Close()
	if err := r.base(dir); err != nil {
		return err
	}
	if err := r.segments(ctx); err != nil {
		return err
	}
	// The follower writes without syncs.
	for _, db := range stores {
		if err := db.LogData(nil, pebble.Sync); err != nil {
			return err
		}
	}
	return nil
}

// base applies the logs of the base.
func (r *run) base(dir *datadir.Dir) error {
	for store, name := range map[stream.Store]string{stream.Queue: datadir.Queue, stream.Table: datadir.Table} {
		if err := r.follower.Base(store, vfs.Default, vfs.Default.PathJoin(dir.Path(logsDir), name)); err != nil {
			return fmt.Errorf("the %s of base %s: %w", name, archive.BaseName(r.plan.Base.Term, r.plan.Base.First), err)
		}
	}
	return nil
}

// segments applies the segments of all parts.
func (r *run) segments(ctx context.Context) error {
	for i, part := range r.plan.parts {
		at := stream.Position(r.plan.Base.From)
		if i > 0 {
			at = stream.Position(part.link.From)
			// The directory of another node has log numbers of its own. It began as a restore of the
			// place at which its parent is cut.
			if part.link.Node != r.plan.parts[i-1].link.Node {
				if err := errors.Join(r.safe(), r.follower.Switch(at)); err != nil {
					return err
				}
			}
		}
		limit := r.plan.limit
		if i < len(r.plan.parts)-1 {
			limit = math.MaxInt64
		}
		r.followed = archive.Parent{Term: part.link.Number, Position: archive.Position(at)}
		if err := r.part(ctx, part, limit); err != nil {
			return err
		}
	}
	return errors.Join(r.safe(), r.follower.Finish())
}

// safe makes the follower apply all frames. Find chose a place at which a restore may end.
func (r *run) safe() error {
	return r.follower.Take(stream.SafeAt(stream.Position(r.followed.Position), 0))
}

// part applies the segments of a part.
func (r *run) part(ctx context.Context, part part, limit int64) error {
	for s, err := range r.archive.Segments(ctx, part.link.Number, part.first, part.last) {
		if err != nil {
			return wayOut(err)
		}
		for frame, err := range frames(s, limit) {
			if err != nil {
				return err
			}
			if frame = cut(part.link, frame); frame.Kind == 0 {
				continue
			}
			if err := r.follower.Take(frame); err != nil {
				return fmt.Errorf("segment %x of term %x: %w", s.N, s.Term, err)
			}
			r.followed.Position = archive.Position(stream.Position(r.followed.Position).After(frame))
		}
		r.done(int64(len(s.Frames)))
	}
	return nil
}

// cut returns the part of a frame before the place at which the next term continues; a frame without
// a kind if there is no such part.
func cut(link archive.Link, frame stream.Frame) stream.Frame {
	upto := link.Upto.Of(frame.Store)
	if frame.Kind == stream.Safe && link.Cut && !link.Upto.Covers(frame.Position()) {
		return stream.Frame{}
	}
	if !link.Cut || frame.Store == stream.None || !upto.Before(frame.End()) {
		return frame
	}
	if frame.Kind != stream.Bytes || frame.Log != upto.Log || frame.Offset >= upto.Offset {
		return stream.Frame{}
	}
	frame.Data = frame.Data[:upto.Offset-frame.Offset]
	return frame
}
