package pair

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

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
	held  error        // the trouble of a store that holds the goroutine of run; nothing else may use the follower then
}

func newApplier(t *tail, dbs map[stream.Store]*disk.DB) (*applier, error) {
	a := &applier{tail: t, reader: t.reader(), dbs: dbs, follower: follow.New(dbs[stream.Queue].DB, dbs[stream.Table].DB)}
	a.file = a.reader.number
	return a, a.follower.Switch(t.start)
}

// run applies frames until ctx ends.
func (a *applier) run(ctx context.Context) error {
	for ctx.Err() == nil {
		changed, err := a.step(ctx)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	return nil
}

// step applies all frames that are on the disk.
func (a *applier) step(ctx context.Context) (changed <-chan struct{}, err error) {
	if err := errors.Join(a.held, a.lost()); err != nil {
		return nil, err
	}
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
		return fmt.Errorf("apply the stream to the stores of the standby: %w", damagedCopy(err))
	}
	return nil
}

// damagedCopy names the way out of an error of damaged data.
func damagedCopy(err error) error {
	if errors.Is(err, follow.ErrMissing) || errors.Is(err, follow.ErrDamaged) || errors.Is(err, disk.ErrDamaged) || pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", ErrDamagedCopy, err)
	}
	return err
}

// lost returns an error if a store cannot become what the primary has: its disk has failed, or its data are damaged.
func (a *applier) lost() error {
	for store, db := range a.dbs {
		if db.Damage() != nil {
			return fmt.Errorf("%w: a file of the %s", ErrDamagedCopy, storeDir(store))
		}
		if err := db.Health(); errors.Is(err, disk.ErrFailed) {
			return err
		}
	}
	return nil
}

// trouble returns the present trouble of the stores, nil for none. The tail takes the frames meanwhile.
func (a *applier) trouble() error {
	for _, db := range a.dbs {
		if err := db.Health(); err != nil {
			return err
		}
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

// finish applies the tail. A standby that has each answered write may have confirmed some after the last safe point, so it applies these,
// too: each of them was confirmed before a write that depends on it began. A standby that gives writes up ends at the safe point:
// behind it the primary may have sent one store ahead of the other one, because a start reads the logs of the stores one after the other.
// exact reports whether the stores have the whole tail then.
func (a *applier) finish(ctx context.Context, givesUp bool) (exact bool, err error) {
	if _, err := a.step(ctx); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if exact = !givesUp || a.tail.safe().Covers(a.tail.counts()); exact {
		if err := a.follower.Take(stream.SafeAt(a.tail.end(), 0)); err != nil {
			return false, err
		}
	}
	return exact, a.follower.Finish()
}

// close syncs and closes the stores. A store in trouble is abandoned: a start applies the tail again.
func (a *applier) close() error {
	if a.held != nil {
		return a.held
	}
	a.follower.Close()
	err := a.reader.close()
	for _, db := range a.dbs {
		err = errors.Join(err, db.Close(func() {
			_ = db.LogData(nil, pebble.Sync) // its error is trouble, which Close returns
		}))
	}
	return err
}
