package archiving

import (
	"context"
	"iter"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/stream"
)

// Tail is what the directory of a primary still has of the stream of the primary before, whose standby it was.
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
		case !continues:
			continue
		}
		if err := c.add(frame, at.At); err != nil {
			return err
		}
	}
	return c.flush(true)
}

// completion writes frames to the segments of a term.
type completion struct {
	ctx     context.Context //nolint:containedctx // the life of one call of complete
	writer  *archive.Writer
	segment archive.Segment
}

// add adds a frame. end is the position behind it.
func (c *completion) add(f stream.Frame, end stream.Position) error {
	if len(c.segment.Frames)+f.Len()+longest > archive.MaxFrames {
		if err := c.flush(false); err != nil {
			return err
		}
	}
	if len(c.segment.Frames) == 0 {
		c.segment.First = time.UnixMilli(f.Time)
	}
	c.segment.Frames, c.segment.End, c.segment.Last = stream.Append(c.segment.Frames, f), end, time.UnixMilli(f.Time)
	return nil
}

// flush writes a segment. A restore may end behind the whole tail, because the machine took over there.
func (c *completion) flush(whole bool) error {
	s := c.segment
	if c.segment = (archive.Segment{}); len(s.Frames) == 0 {
		return nil
	}
	s.Start = c.writer.End()
	if whole {
		s.Frames = stream.Append(s.Frames, stream.SafeAt(s.End, s.Last.UnixMilli()))
	}
	return c.writer.Put(c.ctx, s)
}
