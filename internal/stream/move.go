package stream

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// settleAgain is the time after which a write under way is looked at again.
const settleAgain = 10 * time.Millisecond

// Run moves frames to the spool while the ring is too full, until ctx ends.
func (s *Stream) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kicked:
			s.mu.Lock()
			upto, size := s.first, s.size
			for i := 0; s.size > spoolAbove && size > spoolDown; i++ {
				upto, size = upto+1, size-s.frames[i].Len()
			}
			s.mu.Unlock()
			s.move(upto)
		}
	}
}

// MayGo reports whether all receivers have the frames of the log, or the spool has these frames, or
// they were dropped (S4). The frame that begins the next log is included, because a start of the
// process continues with a log whose beginning the stream has. MayGo waits for the store's own
// disk, never for a receiver.
func (t Tap) MayGo(log uint64) bool {
	s := t.stream
	s.mu.Lock()
	upto, later := s.first, false
	for i, f := range s.frames {
		if f.Store == t.store && !later {
			later = f.Log > log
			upto = s.first + uint64(i) + 1
		}
	}
	s.mu.Unlock()
	s.move(upto)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first >= upto
}

// move moves the frames before the number upto from the ring to the spool. When move returns,
// the frames are on the spool's disk. While the move fails, the oldest frames are dropped that no receiver keeps.
func (s *Stream) move(upto uint64) {
	s.moving.Lock()
	defer s.moving.Unlock()
	for again := true; again; {
		err := s.moveAll(upto)
		s.mu.Lock()
		again = err != nil && s.dropOldest(err)
		unused := s.spool.unused()
		s.mu.Unlock()
		if err := s.spool.remove(unused); err != nil {
			s.log.Warn("cannot remove files of the spool", zap.Error(err))
		}
	}
}

// moveAll moves the frames until the first error.
func (s *Stream) moveAll(upto uint64) error {
	err := s.settleTo(upto)
	for more := true; more && err == nil; {
		more, err = s.moveSome(upto)
	}
	return err
}

// settleTo waits until the frames before a number are safe. A write that a store has under way may hold
// them up; while the disk has no room for it, the spool has none either.
func (s *Stream) settleTo(upto uint64) error {
	for {
		s.mu.Lock()
		unsafe, used := upto > s.safe, s.spool.used()
		s.mu.Unlock()
		if !unsafe {
			return nil
		}
		if err := errors.Join(s.Settle(), s.spool.room(used, 0)); err != nil {
			return err
		}
		s.mu.Lock()
		unsafe, changed := upto > s.safe, s.changed
		s.mu.Unlock()
		if unsafe {
			select {
			case <-changed:
			case <-time.After(settleAgain):
			}
		}
	}
}

// moveSome moves one batch of frames. It reports whether there was a batch to move.
func (s *Stream) moveSome(upto uint64) (bool, error) {
	s.mu.Lock()
	b, used := batch{first: s.first, begin: s.begin}, s.spool.used()
	var frames []Frame
	for size := 0; b.first+uint64(len(frames)) < min(upto, s.safe) && size < batchSize; {
		f := s.frames[len(frames)]
		frames, size = append(frames, f), size+f.Len()
	}
	end := b.first + uint64(len(frames))
	b.inside = end < s.read || end == s.read && !s.live
	s.mu.Unlock()
	if len(frames) == 0 {
		return false, nil
	}
	b, err := s.spool.write(b, frames, used)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spool.add(b)
	s.cut(b.behind())
	s.trim()
	return true, nil
}
