package archiving

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/stream"
)

// longest is the length of the longest frame in the form of stream.Append.
const longest = stream.MaxData + 64

// intake gives the frames of the stream to the archiver. It implements archive.Stream.
type intake struct {
	stream   *stream.Stream
	receiver *stream.Receiver
	// upto returns the place up to which the archive may have the stream.
	upto func() stream.Position
	log  *zap.Logger
	// rest is the end of the frames that an earlier process wrote. Between the two stores, these
	// frames have no order, so no restore may end before rest.
	rest stream.Position
	at   stream.Position // the end of the last part

	part    archive.Part // the last part
	mark    stream.Mark  // its end
	pending bool         // the archive may lack the last part
	resumes bool         // the last part is behind a gap, and the archive may not have its place yet

	// unwritten is true from the end of a gap in the stream until the archive has the part after the gap.
	unwritten atomic.Bool
}

var _ archive.Stream = (*intake)(nil)

// begin sets the position at which the archive ends. Call begin once, before Next.
func (i *intake) begin(from stream.Position) {
	i.receiver.From(from)
	i.at = from
}

// Next implements archive.Stream. After a part that the archive may lack, Next returns the same part again,
// because the archive may have it, and another part in its place would look like the part of another writer.
func (i *intake) Next(_ context.Context, _ stream.Position, most int) (archive.Part, error) {
	if i.pending {
		return i.part, nil
	}
	// A store that is idle after a write without a sync would stop the safe point.
	if err := i.stream.Settle(); err != nil {
		return archive.Part{}, err
	}
	if i.resumes {
		return i.resume(), nil
	}
	upto := i.upto()
	part := archive.Part{Start: i.at, End: i.at}
	var last int64
	for room := most - longest; room >= longest; room = most - longest - len(part.Frames) {
		frames, mark, err := i.receiver.Ready(room, upto)
		if errors.Is(err, stream.ErrGap) && len(part.Frames) == 0 {
			i.gap()
			return i.resume(), nil
		}
		if err != nil && !errors.Is(err, stream.ErrGap) {
			return archive.Part{}, err
		}
		if len(frames) == 0 {
			break
		}
		if len(part.Frames) == 0 {
			part.First = time.UnixMilli(frames[0].Time)
		}
		for _, f := range frames {
			part.Frames, part.End, last = stream.Append(part.Frames, f), part.End.After(f), f.Time
		}
		i.mark = mark
	}
	if len(part.Frames) == 0 {
		behind, _ := i.receiver.Behind(i.stream.End())
		part.Waits = behind > 0
		return part, nil
	}
	part.Last = time.UnixMilli(last)
	if part.End.Covers(i.rest) { // a restore may end here
		part.Frames = stream.Append(part.Frames, stream.SafeAt(part.End, last))
	}
	i.part, i.at, i.pending = part, part.End, true
	return part, nil
}

// gap makes the part that begins after a gap.
func (i *intake) gap() {
	i.unwritten.Store(true)
	at, now := i.receiver.Restart(), time.Now()
	gaps, _ := i.receiver.Gaps()
	i.log.Error("the archive has a gap: restores to a later time need the next base", zap.Int64("gaps", gaps))
	i.part = archive.Part{Start: at, End: at, First: now, Last: now, Gap: true, Frames: stream.Append(nil, stream.SafeAt(at, now.UnixMilli()))}
	i.mark, i.resumes = 0, true
}

// resume returns the part after a gap once the archive may have its place, and before that a part without frames.
func (i *intake) resume() archive.Part {
	if !i.upto().Covers(i.part.End) {
		return archive.Part{Start: i.at, End: i.at, Waits: true}
	}
	i.at, i.pending, i.resumes = i.part.End, true, false
	return i.part
}

// Archived implements archive.Stream.
func (i *intake) Archived(stream.Position) {
	if i.pending {
		i.pending = false
		i.receiver.Done(i.mark)
		i.unwritten.Store(false)
	}
}

// behind returns about how many bytes of the stream the archive lacks and may have, and the time of the oldest one.
func (i *intake) behind() (bytes int64, since time.Time) { return i.receiver.Behind(i.upto()) }
