package archiving

import (
	"context"
	"iter"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/stream"
)

// Tail is the part of the stream of the primary before that the directory of its former standby still has.
type Tail interface {
	// Frames yields the frames in order. They are before the place at which the machine took over.
	Frames() iter.Seq2[stream.Frame, error]
	// Forget removes the frames.
	Forget() error
}

// complete writes the part of the tail that the archive lacks. If the tail does not reach back far enough, the archive gets a
// gap, because the next term cannot continue then.
func (a *Archiving) complete(ctx context.Context, start archive.Start) error {
	term, ok, err := a.archive.Complete(ctx, start)
	if err != nil || !ok {
		return err
	}
	at := archive.Sequel{At: stream.Position(term.From)}
	c := completion{ctx: ctx, writer: a.archive.Writer(term)}
	for frame, err := range a.cfg.Shared.Tail.Frames() {
		continues, missing := false, err != nil
		if !missing {
			continues, missing = at.Take(frame)
		}
		switch {
		case missing:
			a.cfg.Log.Warn("the tail of the standby does not reach back to the end of the archive: the archive gets a gap", zap.Error(err))
			return nil
		case continues:
			c.held = append(c.held, heldFrame{frame, at.At})
		case frame.Kind == stream.Safe:
			if err := c.settle(frame.Position()); err != nil {
				return err
			}
		}
	}
	if err := c.settle(at.At); err != nil {
		return err
	}
	return c.flush(true) // the machine took over there
}

// completion writes frames to the segments of a term. A restore may end behind a segment at a safe point of the primary before:
// frames behind the safe point may be undone by a later cut.
type completion struct {
	ctx     context.Context //nolint:containedctx // the life of one call of complete
	writer  *archive.Writer
	held    []heldFrame // behind the last safe point
	segment archive.Segment
	safe    bool // the segment ends at a safe point
}

// heldFrame is a frame, and the position behind it.
type heldFrame struct {
	stream.Frame

	end stream.Position
}

// settle adds the frames before a safe point.
func (c *completion) settle(safe stream.Position) error {
	for len(c.held) > 0 && !safe.Of(c.held[0].Store).Before(c.held[0].End()) {
		if err := c.add(c.held[0]); err != nil {
			return err
		}
		c.held, c.safe = c.held[1:], false
	}
	c.safe = true
	return nil
}

// add adds a frame. What a start of the primary found in its logs has one time and no order, so no restore ends inside it.
func (c *completion) add(f heldFrame) error {
	at := time.UnixMilli(f.Time)
	safe, size := c.safe && at.After(c.segment.Last), len(c.segment.Frames)
	if safe && size > archive.MaxFrames/2 || size+f.Len()+longest > archive.MaxFrames {
		if err := c.flush(safe); err != nil {
			return err
		}
	}
	if len(c.segment.Frames) == 0 {
		c.segment.First = at
	}
	c.segment.Frames, c.segment.End, c.segment.Last = stream.Append(c.segment.Frames, f.Frame), f.end, at
	return nil
}

// flush writes a segment. A restore may end behind it if it is safe.
func (c *completion) flush(safe bool) error {
	s := c.segment
	if c.segment = (archive.Segment{}); len(s.Frames) == 0 {
		return nil
	}
	s.Start = c.writer.End()
	if safe {
		s.Frames = stream.Append(s.Frames, stream.SafeAt(s.End, s.Last.UnixMilli()))
	}
	return c.writer.Put(c.ctx, s)
}
