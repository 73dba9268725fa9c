package stream

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// Receiver gets the frames of a stream in order. One goroutine calls its methods; only Done, Behind and Gaps may
// be called by any goroutine.
type Receiver struct {
	stream *Stream
	from   Position // the receiver has everything before this position; before From, the position of the oldest frame
	next   uint64   // the number of the next frame
	inside bool     // the place before next is inside what a start has read
	torn   bool     // the place before the newest frames is
	// The stream's mu guards the fields below.
	done uint64 // the receiver has the frames before this number
	kept bool
	gap  bool
	gaps int64 // the number of times that gap became true
}

// Mark marks a place after frames that Next returned.
type Mark uint64

// Receive returns a receiver of the frames after a position. The caller has got everything
// before the position in an earlier process. If the stream lacks a frame after the position,
// Next returns ErrGap.
func (s *Stream) Receive(from Position) *Receiver {
	r := s.Hold()
	r.From(from)
	return r
}

// Hold returns a receiver whose position is not known yet: the stream keeps all of its frames.
// The caller calls From before Next.
func (s *Stream) Hold() *Receiver {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, begin := s.oldest()
	r := &Receiver{stream: s, from: begin, next: first, done: first, kept: s.keep}
	s.receivers[r] = true
	return r
}

// From sets the position of a receiver of Hold. The receiver has everything before the position.
func (r *Receiver) From(position Position) {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	if !position.Covers(r.from) {
		r.lose()
	}
	r.from = position
}

// Keep sets whether the stream drops no frame that the receiver needs. The owner of such a receiver makes the writers wait, which
// bounds the ring, and the logs stay while the spool has no room (S5).
func (r *Receiver) Keep(kept bool) {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	r.kept = kept
}

// lose notes that frames were dropped which the receiver needs. The caller holds the stream's mu.
func (r *Receiver) lose() (first bool) {
	if r.gap {
		return false
	}
	r.gap = true
	r.gaps++
	return true
}

// Gaps returns the number of gaps, and whether the receiver has a gap that Restart has not ended.
func (r *Receiver) Gaps() (n int64, open bool) {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	return r.gaps, r.gap
}

// Next waits for frames before the safe point, and returns the next frames: at least one, and
// as many as fit into atMost bytes. Done takes the mark.
func (r *Receiver) Next(ctx context.Context, atMost int) ([]Frame, Mark, error) {
	for {
		frames, mark, changed, err := r.look(atMost, window{})
		if err != nil || len(frames) > 0 {
			return frames, mark, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// Ready returns the next frames before the position upto as Next does, but does not wait: it may return no frame.
func (r *Receiver) Ready(atMost int, upto Position) ([]Frame, Mark, error) {
	frames, mark, _, err := r.look(atMost, window{upto: &upto})
	return frames, mark, err
}

// window bounds the frames that a receiver may read: frames after the safe point only if ahead is true, and only frames
// before upto if upto is not nil.
type window struct {
	ahead bool
	upto  *Position
}

// has reports whether a frame is before the end of the window.
func (w window) has(f Frame) bool { return w.upto == nil || !w.upto.Of(f.Store).Before(f.End()) }

// has reports whether the receiver had the frame before the stream was opened. Frames of kind
// Ends and Cut at the receiver's position may be new. A cut may be before the position,
// because its writer had sent a part of a record.
func (r *Receiver) has(f Frame) bool {
	at, end := r.from.Of(f.Store), f.End()
	if f.Kind == Cut {
		return f.Log < at.Log
	}
	return end.Before(at) || end == at && (f.Kind == Begins || f.Kind == Bytes)
}

// look returns the next frames that the receiver does not have, and their mark. If there is no frame, it
// returns a channel that is closed when there may be one.
func (r *Receiver) look(atMost int, w window) ([]Frame, Mark, <-chan struct{}, error) {
	for {
		frames, changed, err := r.read(atMost, w)
		frames = slices.DeleteFunc(frames, r.has)
		if err != nil || changed != nil || len(frames) > 0 {
			return frames, Mark(r.next), changed, err
		}
	}
}

// read returns the next frames of the ring or of a batch of the spool. If there is no frame, it
// returns a channel that is closed when there may be one.
func (r *Receiver) read(atMost int, w window) ([]Frame, <-chan struct{}, error) {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.gap {
		return nil, nil, ErrGap
	}
	if r.next >= s.first {
		end, changed := s.readable(w.ahead)
		if r.next >= end {
			return nil, changed, nil
		}
		frames, changed := r.hand(s.frames[r.next-s.first:end-s.first], atMost, w)
		if len(frames) > 0 {
			r.torn, r.inside = r.inside, false
		}
		return frames, changed, nil
	}
	b := s.spool.find(r.next)
	s.mu.Unlock()
	frames, err := s.spool.read(b)
	s.mu.Lock()
	if err != nil {
		r.lose() // the frames are in no other place
		s.drop(b.behind(), err)
		return nil, nil, fmt.Errorf("%w (%w)", ErrGap, err)
	}
	frames, changed := r.hand(frames[r.next-b.first:], atMost, w)
	if len(frames) > 0 {
		r.torn, r.inside = r.inside, b.inside && r.next == b.behind()
	}
	return frames, changed, nil
}

// Torn reports whether the place before the newest frames is between the frames of two starts, of which the first one has not spooled all
// that it had read from the logs. Between the stores these frames have no order, but the frames of the two starts have different times.
func (r *Receiver) Torn() bool { return r.torn }

// hand returns the first frames of a window that fit into atMost bytes, at least one, and moves the receiver past
// them. If the window has no frame, hand returns a channel as read does. The caller holds mu.
func (r *Receiver) hand(frames []Frame, atMost int, w window) ([]Frame, <-chan struct{}) {
	n := 0
	for size := 0; n < len(frames) && w.has(frames[n]) && (n == 0 || size+frames[n].Len() <= atMost); n++ {
		size += frames[n].Len()
	}
	if n == 0 {
		return nil, r.stream.changed
	}
	r.next += uint64(n)
	return slices.Clone(frames[:n]), nil
}

// Behind returns about how many bytes before the position upto the receiver lacks, and the time of the oldest frame
// of these bytes, the zero time if there is none. For a frame that an earlier process spooled it is the time at which
// the stream was opened.
func (r *Receiver) Behind(upto Position) (bytes int64, since time.Time) {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.spool.batches {
		if b.behind() > r.done && upto.Covers(b.end) {
			if bytes += int64(b.length); since.IsZero() {
				since = b.since
			}
		}
	}
	for i, f := range s.frames {
		if s.first+uint64(i) >= r.done && (window{upto: &upto}).has(f) {
			if bytes += int64(f.Len()); since.IsZero() {
				since = time.UnixMilli(f.Time)
			}
		}
	}
	return bytes, since
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

// needed returns the number of the oldest frame that a receiver needs. The caller holds mu.
func (s *Stream) needed() uint64 {
	needed := s.safe
	for r := range s.receivers {
		if !r.gap {
			needed = min(needed, r.done)
		}
	}
	return needed
}

// trim forgets the frames that no receiver needs. The caller holds mu.
func (s *Stream) trim() {
	needed := s.needed()
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

// dropOldest drops the oldest frames that a receiver needs, if no receiver keeps them. So an archive that is away never
// costs a standby its place. The caller holds mu.
func (s *Stream) dropOldest(why error) (lost bool) {
	upto := s.needed() + 1
	for r := range s.receivers {
		if r.kept && !r.gap {
			upto = min(upto, r.done)
		}
	}
	return s.drop(upto, why)
}

// drop drops the frames before the number upto, and before the safe point, that no receiver keeps. It reports whether
// another receiver needs one of these frames: that receiver has a gap, and needs no frame any more. Frames after the safe
// point stay: Pebble's memtables bound their size. The caller holds mu.
func (s *Stream) drop(upto uint64, why error) (lost bool) {
	for r := range s.receivers {
		if !r.kept && r.done < min(upto, s.safe) && r.lose() {
			lost = true
		}
	}
	if lost {
		s.log.Error("frames of the stream are dropped: a new base will be made", zap.Error(why))
		s.wake()
	}
	s.trim()
	return lost
}
