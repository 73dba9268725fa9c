// Package follow applies the frames of a stream to stores, so that they become what a power cut
// would have left of the stores that wrote them. It parses Pebble's log bytes with Pebble's own
// reader, and applies the batches (docs/decisions/0053-stream.md).
//
// It must never apply a frame behind the safe point (S3), nor a batch of which it does not know every
// effect (S6). It knows neither where the frames come from nor what the stores hold.
package follow

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/stream"
)

var (
	// ErrMissing means that frames are missing before this one.
	ErrMissing = errors.New("a part of the stream is missing: begin with a new base")
	// ErrRewound means that the writer has less than a safe point of its own: its disk lost synced writes, or is an
	// old copy.
	ErrRewound = errors.New("the stream goes back behind a safe point: its writer lost synced writes")
	// ErrDamaged means that the bytes of a log are not whole.
	ErrDamaged = errors.New("a log of the stream is damaged")
	// ErrUnknownBatch means that a batch has effects that are in no log, or that this version does not know.
	ErrUnknownBatch = errors.New("a batch has an entry that a follower cannot apply: begin with a new base")
)

// Follower applies frames to a pair of stores. It is for one goroutine. The stores may hold a base: a
// checkpoint of each, of whatever moments, that Base was called for.
type Follower struct {
	queue, table replica
	held         []stream.Frame // behind the last safe point
}

// New returns a follower of the stores, which nobody else writes to.
func New(queue, table *pebble.DB) *Follower {
	return &Follower{queue: replica{db: queue}, table: replica{db: table}}
}

func (f *Follower) of(store stream.Store) *replica {
	if store == stream.Queue {
		return &f.queue
	}
	return &f.table
}

// Base takes the logs of a base of a store in dir, which Pebble did not open yet. Pebble applies these logs, too, when
// it opens the base. Set and Delete twice in the same order end the same.
func (f *Follower) Base(store stream.Store, fs vfs.FS, dir string) error {
	r := f.of(store)
	var end stream.Frame
	for frame, err := range Logs(fs, dir, store, stream.Place{}, 0) {
		if err != nil {
			return err
		}
		if frame.Kind == stream.Cut { // the last log continues in the stream
			end = frame
			continue
		}
		if frame.Kind == stream.Begins && end.Kind == stream.Cut {
			if err := r.take(end); err != nil {
				return err
			}
		}
		if err := r.take(frame); err != nil {
			return err
		}
	}
	if r.at == (stream.Place{}) {
		return fmt.Errorf("%w: the base in %s has no log", ErrMissing, dir)
	}
	return nil
}

// Take takes the next frame of the stream. It applies what a safe point covers. Frames that the stores have already are passed over,
// so a receiver may begin before its base. After an error the stores are of no use.
func (f *Follower) Take(frame stream.Frame) error {
	switch frame.Kind {
	case stream.Safe:
		return f.release(frame.Position())
	case stream.Cut:
		f.forget(frame)
	case stream.Seal:
		return nil
	default:
	}
	f.held = append(f.held, frame)
	return nil
}

// forget drops held frames that never were: their bytes were not synced when their writer crashed.
func (f *Follower) forget(cut stream.Frame) {
	f.held = slices.DeleteFunc(f.held, func(h stream.Frame) bool {
		return h.Store == cut.Store && h.Log == cut.Log && h.Kind != stream.Begins && h.Offset >= cut.Offset
	})
	for i, h := range f.held {
		if h.Store == cut.Store && h.Log == cut.Log {
			f.held[i].Data = h.Data[:min(uint64(len(h.Data)), cut.Offset-h.Offset)]
		}
	}
}

// release applies the held frames before a safe point.
func (f *Follower) release(safe stream.Position) error {
	for i, frame := range f.held {
		if safe.Of(frame.Store).Before(frame.End()) {
			f.held = f.held[i:]
			return nil
		}
		if err := f.of(frame.Store).take(frame); err != nil {
			return fmt.Errorf("log %d of store %d: %w", frame.Log, frame.Store, err)
		}
	}
	f.held = nil
	return nil
}

// Position returns how far the frames are applied, but for a last block of each log.
func (f *Follower) Position() stream.Position {
	return stream.Position{Queue: f.queue.at, Table: f.table.at}
}

// Finish applies all up to the last safe point and ends the follower. Then the stores are as after a
// power cut at that point.
func (f *Follower) Finish() error {
	f.held = nil
	return errors.Join(f.queue.finish(), f.table.finish())
}

// Close ends a follower at any time, after an error too. It applies nothing.
func (f *Follower) Close() {
	for _, r := range []*replica{&f.queue, &f.table} {
		if r.log != nil {
			r.log.stop()
			r.log = nil
		}
	}
}

// Switch continues with the stream of another writer. The stores of that writer began as a copy of these stores, but
// its logs have numbers of their own; its stream begins at from. Frames behind the last safe point are dropped.
func (f *Follower) Switch(from stream.Position) error {
	if err := f.Finish(); err != nil {
		return err
	}
	f.queue = replica{db: f.queue.db, at: from.Queue}
	f.table = replica{db: f.table.db, at: from.Table}
	return nil
}

// replica is one store of a follower.
type replica struct {
	db      *pebble.DB
	at      stream.Place
	log     *parser // nil if the log at that place has ended
	applied uint64  // how far the log is in whole records, at its end
}

func (r *replica) take(f stream.Frame) error {
	switch {
	case f.Log < r.at.Log: // the base has it
		return nil
	case f.Log > r.at.Log:
		if f.Kind != stream.Begins || r.log != nil {
			return fmt.Errorf("%w: log %d has not ended at %d", ErrMissing, r.at.Log, r.at.Offset)
		}
		r.at, r.log = stream.Place{Log: f.Log}, newParser(f.Log, func(repr []byte) error { return apply(r.db, repr) })
		return nil
	case f.Offset > r.at.Offset:
		return fmt.Errorf("%w: from %d on", ErrMissing, r.at.Offset)
	}
	switch f.Kind {
	case stream.Bytes:
		return r.bytes(f)
	case stream.Ends:
		return r.end(f)
	case stream.Cut:
		return r.cut(f)
	default: // it began already
		return nil
	}
}

func (r *replica) bytes(f stream.Frame) error {
	data := f.Data[min(uint64(len(f.Data)), r.at.Offset-f.Offset):]
	if len(data) == 0 {
		return nil
	}
	if r.log == nil {
		return fmt.Errorf("%w: bytes behind its end", ErrDamaged)
	}
	r.at.Offset += uint64(len(data))
	return r.log.feed(data)
}

func (r *replica) end(f stream.Frame) error {
	if f.Offset < r.at.Offset {
		return fmt.Errorf("%w: it ends at %d, but has %d bytes", ErrDamaged, f.Offset, r.at.Offset)
	}
	log := r.log
	if err := r.finish(); err != nil {
		return err
	}
	if log != nil && log.torn {
		return fmt.Errorf("%w: it ends inside a record", ErrDamaged)
	}
	return nil
}

// cut ends a log whose writer crashed. The bytes of a record of which the writer has only a
// part may be here.
func (r *replica) cut(f stream.Frame) error {
	err := r.finish()
	if r.applied > f.Offset {
		return errors.Join(ErrRewound, err)
	}
	return err
}

// finish applies the rest of the log.
func (r *replica) finish() error {
	if r.log == nil {
		return nil
	}
	err := r.log.end()
	r.applied, r.log = r.log.applied, nil
	return err
}
