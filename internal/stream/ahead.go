package stream

import "context"

// Ahead waits for the next frames, and returns them as Next does, together with the frames after the safe
// point: a standby confirms a write while the disk of this machine still syncs it. safe is the safe point. Ahead
// returns without a frame if the safe point is not known any more.
func (r *Receiver) Ahead(ctx context.Context, atMost int, known Position) (frames []Frame, mark Mark, safe Position, err error) {
	for {
		frames, mark, changed, err := r.look(atMost, window{ahead: true})
		if safe = r.stream.Safe(); err != nil || len(frames) > 0 || safe != known {
			return frames, mark, safe, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, safe, ctx.Err()
		}
	}
}

// readable returns the number after the last frame that a receiver may read, and a channel that is
// closed when the number or the safe point changes. The caller holds mu.
func (s *Stream) readable(ahead bool) (end uint64, changed <-chan struct{}) {
	if !ahead {
		return s.safe, s.changed
	}
	if s.added == nil {
		s.added = make(chan struct{})
	}
	return s.first + uint64(len(s.frames)), s.added
}

// wakeAhead wakes the receivers that wait in Ahead. The caller holds mu.
func (s *Stream) wakeAhead() {
	if s.added != nil {
		close(s.added)
		s.added = nil
	}
}

// Again returns another receiver of the frames after a position, which covers everything that r has confirmed by Done. So
// Again reads no older frame that the stream keeps for another receiver. The error is ErrGap if r has a gap.
func (r *Receiver) Again(from Position) (*Receiver, error) {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.gap {
		return nil, ErrGap
	}
	next := &Receiver{stream: s, from: from, next: r.done, done: r.done, kept: r.kept}
	s.receivers[next] = true
	return next, nil
}

// Resume returns a receiver of the frames after a position, as Receive does. The error is ErrGap if the
// stream lacks a frame after the position.
func (s *Stream) Resume(from Position) (*Receiver, error) {
	r := s.Receive(from)
	s.mu.Lock()
	gap := r.gap
	s.mu.Unlock()
	if gap {
		r.Close()
		return nil, ErrGap
	}
	return r, nil
}
