package stream

import (
	"context"
	"slices"

	"go.uber.org/zap"
)

// Receiver gets the frames of a stream in order. Its methods are for one goroutine, but for Done.
type Receiver struct {
	stream *Stream
	from   Position // the receiver has everything before it
	next   uint64   // the number of the next frame
	// The stream's mu guards the fields below.
	done uint64 // frames before this number are the receiver's
	gap  bool
}

// Mark is a place in the frames that Next returned.
type Mark uint64

// Receive returns a receiver of the frames behind a position, which the caller has got already
// in an earlier process. The receiver begins with ErrGap if the stream lacks a frame behind it.
func (s *Stream) Receive(from Position) *Receiver {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, begin := s.oldest()
	r := &Receiver{stream: s, from: from, next: first, done: first, gap: !from.Covers(begin)}
	s.receivers[r] = true
	return r
}

// Next returns the next frames up to the safe point, at least one, and waits for them. It stops
// before the frame that would be the first behind atMost bytes. Done takes the mark back.
func (r *Receiver) Next(ctx context.Context, atMost int) ([]Frame, Mark, error) {
	for {
		frames, changed, err := r.look(atMost)
		if err != nil {
			return nil, 0, err
		}
		frames = slices.DeleteFunc(frames, r.has)
		if len(frames) > 0 {
			return frames, Mark(r.next), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// has reports whether the receiver had the frame before the stream was opened. Ends and cuts
// at its position may be new.
func (r *Receiver) has(f Frame) bool {
	at, end := r.from.Of(f.Store), f.End()
	return end.Before(at) || end == at && (f.Kind == Begins || f.Kind == Bytes)
}

// look returns the next frames of the ring or of a batch of the spool. Without a frame it returns a
// channel that is closed when there is one.
func (r *Receiver) look(atMost int) ([]Frame, <-chan struct{}, error) {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.gap {
		return nil, nil, ErrGap
	}
	if r.next >= s.first {
		if r.next == s.safe {
			return nil, s.changed, nil
		}
		return r.hand(s.frames[r.next-s.first:s.safe-s.first], atMost), looked(), nil
	}
	b := s.spool.find(r.next)
	s.mu.Unlock()
	frames, err := s.spool.read(b)
	s.mu.Lock()
	if err != nil {
		s.drop(err)
		return nil, nil, ErrGap
	}
	return r.hand(frames[r.next-b.first:], atMost), looked(), nil
}

// looked returns a closed channel: there may be more frames.
func looked() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// hand returns the first frames, at least one.
func (r *Receiver) hand(frames []Frame, atMost int) []Frame {
	n := 1
	for size := frames[0].Len(); n < len(frames) && size+frames[n].Len() <= atMost; n++ {
		size += frames[n].Len()
	}
	r.next += uint64(n)
	return slices.Clone(frames[:n])
}

// Done forgets the frames before a mark: the receiver has them on a disk of its own.
func (r *Receiver) Done(upto Mark) {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	r.done = max(r.done, uint64(upto))
	r.stream.trim()
}

// Restart ends a gap. The receiver gets the frames from the returned position on, which it takes
// before it makes its new base.
func (r *Receiver) Restart() Position {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	r.gap, r.next, r.done = false, s.safe, s.safe
	return s.safeAt
}

// Close ends the receiver. The stream keeps nothing for it any longer.
func (r *Receiver) Close() {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	delete(r.stream.receivers, r)
	r.stream.trim()
}

// oldest returns the number and the position of the oldest frame that is kept. The caller holds mu.
func (s *Stream) oldest() (uint64, Position) {
	if len(s.spool.batches) > 0 {
		b := s.spool.batches[0]
		return b.first, b.begin
	}
	return s.first, s.begin
}

// trim forgets the frames that no receiver needs. The caller holds mu.
func (s *Stream) trim() {
	needed := s.safe
	for r := range s.receivers {
		if !r.gap {
			needed = min(needed, r.done)
		}
	}
	if s.spool.trim(needed) {
		s.kick() // Run removes the file
	}
	s.cut(needed)
}

// cut takes the frames before a number out of the ring. The caller holds mu.
func (s *Stream) cut(upto uint64) {
	n := 0
	for ; s.first < upto; n++ {
		f := s.frames[n]
		s.begin, s.first, s.size = s.begin.After(f), s.first+1, s.size-f.Len()
		s.frames[n] = Frame{} // its data are garbage
	}
	s.frames = s.frames[n:]
}

// drop forgets all frames up to the safe point. The receivers that need them have a gap. Unsafe frames
// stay: Pebble's memtables bound them. The caller holds mu.
func (s *Stream) drop(why error) {
	lost := 0
	for r := range s.receivers {
		if !r.gap && r.done < s.safe {
			r.gap = true
			lost++
		}
	}
	if lost > 0 {
		s.log.Error("frames of the stream are dropped: a new base will be made", zap.Error(why))
		s.wake()
	}
	s.trim()
}
