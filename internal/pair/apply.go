package pair

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"fanfare/internal/disk"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// applier applies the tail to the stores of the standby. One goroutine calls its methods.
type applier struct {
	tail     *tail
	reader   *tailReader
	dbs      map[stream.Store]*disk.DB
	follower *follow.Follower
	// begun has the stores of which a log has begun in the tail. The stores have the older logs, of which the tail may have a part.
	begun [stream.Table + 1]bool
	file  uint64       // the file of the last frame
	bytes atomic.Int64 // of the applied frames
}

func newApplier(t *tail, dbs map[stream.Store]*disk.DB) (*applier, error) {
	a := &applier{tail: t, reader: t.reader(), dbs: dbs, follower: follow.New(dbs[stream.Queue].DB, dbs[stream.Table].DB)}
	a.file = a.reader.number
	return a, a.follower.Switch(t.start)
}

// run applies frames until ctx ends.
func (a *applier) run(ctx context.Context) error {
	for {
		changed, err := a.step(ctx)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// step applies all frames that are on the disk.
func (a *applier) step(ctx context.Context) (changed <-chan struct{}, err error) {
	for ctx.Err() == nil {
		frame, ok, changed, err := a.reader.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return changed, nil
		}
		if a.reader.number != a.file {
			if err := a.trim(); err != nil {
				return nil, err
			}
		}
		if err := a.take(frame); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (a *applier) take(frame stream.Frame) error {
	a.bytes.Add(int64(frame.Len()))
	if frame.Kind == stream.Begins {
		a.begun[frame.Store] = true
	}
	if frame.Store != stream.None && !a.begun[frame.Store] {
		return nil
	}
	if err := a.follower.Take(frame); err != nil {
		return fmt.Errorf("apply the stream to the stores of the standby: %w", err)
	}
	return nil
}

// trim removes the files of the tail that no start needs.
func (a *applier) trim() error {
	a.file = a.reader.number
	upto := min(a.tail.needed(a.follower.Position()), a.file)
	if !a.tail.before(upto) {
		return nil
	}
	if err := syncStores(a.dbs); err != nil {
		return fmt.Errorf("sync the stores of the standby: %w", err)
	}
	return a.tail.trim(upto)
}

// finish applies the whole tail. The standby may have confirmed frames after the last safe point, so these are applied,
// too: each prefix of the stream is a state that a power cut could leave.
func (a *applier) finish(ctx context.Context) error {
	if _, err := a.step(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := a.follower.Take(stream.SafeAt(a.tail.end(), 0)); err != nil {
		return err
	}
	return a.follower.Finish()
}

// close syncs and closes the stores.
func (a *applier) close() error {
	a.follower.Close()
	return errors.Join(a.reader.close(), syncStores(a.dbs), closeStores(a.dbs))
}
