package stream

import (
	"context"

	"go.uber.org/zap"
)

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

// MayGo returns when all receivers have the frames of the log, or the spool has them, or
// they were dropped (S4). The beginning of the next log counts: a start continues with a log that
// it finds. MayGo waits for the store's own disk, never for a receiver.
func (t Tap) MayGo(log uint64) {
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
}

// move moves the frames before a number from the ring to the spool, whose disk has them
// then. If it cannot, the frames are dropped.
func (s *Stream) move(upto uint64) {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.mu.Lock()
	unsafe := upto > s.safe
	s.mu.Unlock()
	var err error
	if unsafe {
		err = s.Settle()
	}
	for more := true; more && err == nil; {
		more, err = s.moveSome(upto)
	}
	s.mu.Lock()
	if err != nil {
		s.drop(err)
	}
	unused := s.spool.unused()
	s.mu.Unlock()
	if err := s.spool.remove(unused); err != nil {
		s.log.Warn("cannot remove files of the spool", zap.Error(err))
	}
}

// moveSome moves one batch. It reports whether there was one.
func (s *Stream) moveSome(upto uint64) (bool, error) {
	s.mu.Lock()
	first, begin, used := s.first, s.begin, s.spool.used()
	var frames []Frame
	for size := 0; first+uint64(len(frames)) < min(upto, s.safe) && size < batchSize; {
		f := s.frames[len(frames)]
		frames, size = append(frames, f), size+f.Len()
	}
	s.mu.Unlock()
	if len(frames) == 0 {
		return false, nil
	}
	b, err := s.spool.write(frames, begin, used)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.first = first
	s.spool.add(b)
	s.cut(b.behind())
	s.trim()
	return true, nil
}
