package stream

import (
	"context"
	"slices"

	"go.uber.org/zap"
)

// Receiver gets the frames of a stream in order. One goroutine calls its methods; only Done may
// be called by any goroutine.
type Receiver struct {
	stream *Stream
	from   Position // the receiver has everything before this position
	next   uint64   // the number of the next frame
	// The stream's mu guards the fields below.
	done uint64 // the receiver has the frames before this number
	gap  bool
}

// Mark marks a place after frames that Next returned.
type Mark uint64

// Receive returns a receiver of the frames after a position. The caller has got everything
// before the position in an earlier process. If the stream lacks a frame after the position,
// Next returns ErrGap.
func (s *Stream) Receive(from Position) *Receiver {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, begin := s.oldest()
	r := &Receiver{stream: s, from: from, next: first, done: first, gap: !from.Covers(begin)}
	s.receivers[r] = true
	return r
}

// Next waits for frames before the safe point, and returns the next frames: at least one, and
// as many as fit into atMost bytes. Done takes the mark.
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

// has reports whether the receiver had the frame before the stream was opened. Frames of kind
// Ends and Cut at the receiver's position may be new.
func (r *Receiver) has(f Frame) bool {
	at, end := r.from.Of(f.Store), f.End()
	return end.Before(at) || end == at && (f.Kind == Begins || f.Kind == Bytes)
}

// look returns the next frames of the ring or of a batch of the spool. If there is no frame, it
// returns a channel that is closed when there may be one.
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

// hand returns the first frames that fit into atMost bytes, at least one, and moves the receiver past them.
func (r *Receiver) hand(frames []Frame, atMost int) []Frame {
	n := 1
	for size := frames[0].Len(); n < len(frames) && size+frames[n].Len() <= atMost; n++ {
		size += frames[n].Len()
	}
	r.next += uint64(n)
	return slices.Clone(frames[:n])
}

// Done reports that the receiver has the frames before a mark on a disk of its own.
func (r *Receiver) Done(upto Mark) {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	r.done = max(r.done, uint64(upto))
	r.stream.trim()
}

// Restart ends a gap. The receiver gets the frames after the returned position. It calls Restart
// before it makes its new base.
func (r *Receiver) Restart() Position {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	r.gap, r.next, r.done = false, s.safe, s.safe
	return s.safeAt
}

// Close ends the receiver. The stream no longer keeps frames for the receiver.
func (r *Receiver) Close() {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	delete(r.stream.receivers, r)
	r.stream.trim()
}

// oldest returns the number of the oldest kept frame, and the position before this frame. The caller holds mu.
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

// cut removes the frames before the number upto from the ring. The caller holds mu.
func (s *Stream) cut(upto uint64) {
	n := 0
	for ; s.first < upto; n++ {
		f := s.frames[n]
		s.begin, s.first, s.size = s.begin.After(f), s.first+1, s.size-f.Len()
		s.frames[n] = Frame{} // frees the data
	}
	s.frames = s.frames[n:]
}

// drop drops all frames up to the safe point. The receivers that need these frames have a gap. Frames
// after the safe point stay: Pebble's memtables bound their size. The caller holds mu.
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
