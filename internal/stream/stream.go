package stream

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// These are the sizes of the part of the stream in memory.
const (
	// ringSize is the maximum size of the ring, which keeps frames for slow receivers (S5).
	ringSize = 16 << 20
	// When the ring is larger than spoolAbove, frames move to the spool until the ring has the size spoolDown.
	spoolAbove, spoolDown = ringSize / 2, ringSize / 4
)

// ErrGap means that the stream dropped frames before the receiver got them. The receiver has to
// begin again with a new base.
var ErrGap = errors.New("the stream dropped frames that were not received: a new base is needed")

// Stream is the stream of one process. The logs of both stores enter the stream through Tap, and
// leave it through receivers.
type Stream struct {
	now    func() time.Time
	log    *zap.Logger
	keep   bool          // see Config.Keep
	kicked chan struct{} // see kick

	moving sync.Mutex // held while frames move to the spool; locked before mu

	mu sync.Mutex
	// frames is the ring: the frames whose numbers begin at first. The frames with numbers below safe are before
	// the safe point. The numbers are valid only in this process.
	frames      []Frame
	first, safe uint64
	size        int
	total       int64  // the size of all frames of this process
	read        uint64 // behind the last frame that the start has read from the logs
	live        bool   // the stores write: read is final
	time        int64
	spool       spool // has the frames with numbers below first
	// begin is the position before the first frame of the ring. safeAt is the safe point. end
	// is the position after the newest frame. synced has the place up to which each log is on
	// the disk.
	begin, safeAt, end, synced Position
	sources                    [Table + 1]source
	receivers                  map[*Receiver]bool
	changed                    chan struct{} // closed at the next change of the safe point
	added                      chan struct{} // closed at the next frame or change, nil if no receiver waits in Ahead
}

// source is the log that a store writes at present.
type source struct {
	log  uint64
	sync func() (uint64, error) // nil before the first log of this process
	from int64                  // the size of the stream at the beginning of the log
}

// Tap receives the log of one store. It implements disk.Tap.
type Tap struct {
	stream *Stream
	store  Store
}

// Tap returns the tap of a store.
func (s *Stream) Tap(store Store) Tap { return Tap{s, store} }

// Created begins a log, and ends the previous log.
func (t Tap) Created(log uint64, sync func() (uint64, error)) {
	s := t.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMilli()
	if at := s.end.Of(t.store); s.sources[t.store].sync != nil {
		s.add(Frame{Kind: Ends, Store: t.store, Time: now, Log: at.Log, Offset: at.Offset})
	}
	s.sources[t.store], s.live = source{log, sync, s.total}, true
	s.add(Frame{Kind: Begins, Store: t.store, Time: now, Log: log})
	s.sync(t.store, Place{log, 0})
}

// Wrote adds bytes of a log. It waits for no disk and no receiver.
func (t Tap) Wrote(log, offset uint64, data []byte) {
	s := t.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMilli()
	for len(data) > 0 {
		n := min(len(data), MaxData)
		s.add(Frame{Kind: Bytes, Store: t.store, Time: now, Log: log, Offset: offset, Data: bytes.Clone(data[:n])})
		data, offset = data[n:], offset+uint64(n)
	}
}

// Synced moves the safe point. It does not wait, because no answer may wait for an archive.
func (t Tap) Synced(log, offset uint64) {
	t.stream.mu.Lock()
	defer t.stream.mu.Unlock()
	t.stream.sync(t.store, Place{log, offset})
}

// add appends a frame. The caller holds mu.
func (s *Stream) add(f Frame) {
	s.time = max(s.time, f.Time) // the times of frames never go back, even if the clock is set back
	f.Time = s.time
	s.frames = append(s.frames, f)
	s.size, s.total = s.size+f.Len(), s.total+int64(f.Len())
	s.end = s.end.After(f)
	s.wakeAhead()
	if s.size > spoolAbove {
		s.kick()
	}
	if s.size > ringSize {
		s.dropOldest(errors.New("the spool takes them too slowly"))
	}
}

// kick makes Run check the ring and the spool.
func (s *Stream) kick() {
	select {
	case s.kicked <- struct{}{}:
	default:
	}
}

// sync notes that a log is on the disk up to a place. Then the safe point is before the first
// frame that is not completely on the disk. The caller holds mu.
func (s *Stream) sync(store Store, at Place) {
	if s.synced.Of(store).Before(at) {
		s.synced = s.synced.With(store, at)
	}
	before := s.safe
	for s.safe < s.first+uint64(len(s.frames)) {
		f := s.frames[s.safe-s.first]
		if s.synced.Of(f.Store).Before(f.End()) {
			break
		}
		s.safeAt = s.safeAt.After(f)
		s.safe++
	}
	if s.safe != before {
		s.trim()
		s.wake()
	}
}

// wake wakes the receivers that wait. The caller holds mu.
func (s *Stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.wakeAhead()
}

// Safe returns the safe point. Both stores have synced everything before the safe point (S3).
func (s *Stream) Safe() Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.safeAt
}

// End returns the position after the newest frame.
func (s *Stream) End() Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// Log returns the number of the log that a store writes, 0 for none yet, and the size of the frames of both stores since the beginning of this log.
func (s *Stream) Log(store Store) (number uint64, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.sources[store]
	return from.log, s.total - from.from
}

// Settle moves the safe point to the present end. It syncs the logs that have bytes that their store
// has not synced. Without Settle, a store that is idle after a write without a sync would stop the safe
// point forever.
func (s *Stream) Settle() error {
	for store := Queue; store <= Table; store++ {
		s.mu.Lock()
		from, behind := s.sources[store], s.synced.Of(store).Before(s.end.Of(store))
		s.mu.Unlock()
		if !behind || from.sync == nil {
			continue
		}
		offset, err := from.sync()
		if err != nil {
			return fmt.Errorf("sync the log of a store: %w", err)
		}
		s.mu.Lock()
		s.sync(store, Place{from.log, offset})
		s.mu.Unlock()
	}
	return nil
}

// Spooled returns the size of the spool on the disk.
func (s *Stream) Spooled() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spool.used()
}

// Memory returns the size of the frames in memory.
func (s *Stream) Memory() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}
