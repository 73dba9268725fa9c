package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

const (
	// leastOften is the time after which a segment is written even if there are no new frames. A
	// restore to a point in time needs to know that the archive has everything before that time.
	leastOften = time.Minute
	// late is the lag from which the archive counts as late.
	late = 10 * time.Second
)

// Stream is the stream of the data directory. No call of Stream may wait for a write, or make a write wait.
type Stream interface {
	// Next returns the frames after a position, up to the last safe point, with a size of most
	// bytes or less. It returns no frames if there is no later safe point. In most bytes of frames there
	// has to be a safe point.
	Next(ctx context.Context, after stream.Position, most int) (Part, error)
	// Archived reports that the archive has the stream up to a position. Logs and spool files
	// before that position may be removed.
	Archived(end stream.Position)
}

// Part is a part of the stream that begins and ends at safe points.
type Part struct {
	Frames      []byte
	Start, End  stream.Position
	First, Last time.Time
	// Gap means that the bytes before Start were dropped.
	Gap bool
	// Waits means that a part without frames does not have everything up to now: there are frames that the archive must not
	// have yet.
	Waits bool
}

// Archiver writes a stream to the segments of a term. It never makes a write wait: while the
// store is unreachable, the archiver retries, and the spool keeps the stream.
type Archiver struct {
	stream Stream
	writer *Writer
	every  time.Duration
	most   int // the maximum number of bytes of frames in a segment
	log    *zap.Logger
	waits  backoff.Exponential
	// Random draws from 0 to 1, so that two writers do not retry at the same time. Set it before Run.
	Random func() float64

	// since is the time of the first frame of the part that is written, in Unix nanoseconds. It is 0
	// if the archive has all frames that the archiver has read.
	since atomic.Int64
	wrote time.Time // the time of the last segment

	mu      sync.Mutex // guards the fields below
	reached Reached
	changed chan struct{} // closed at the next change of reached
}

// Reached is a place in the archive: the end of the last segment that an archiver wrote.
type Reached struct {
	// Next is the number of the next segment.
	Next uint64
	End  stream.Position
	// Last is a time that no frame before End is later than, the zero time before the first segment.
	Last time.Time
	// Gap is the number of the newest segment behind a gap, 0 for none.
	Gap uint64
	// Bytes is the number of bytes of all frames that the archiver wrote.
	Bytes int64
}

// NewArchiver returns an archiver that writes a segment at each interval of the length every.
func NewArchiver(stream Stream, writer *Writer, every time.Duration, log *zap.Logger) *Archiver {
	return &Archiver{
		stream: stream, writer: writer, every: every, most: MaxFrames, log: log, waits: backoff.Exponential{First: 100 * time.Millisecond, Most: 5 * time.Second}, Random: rand.Float64,
		reached: Reached{Next: writer.Next(), End: writer.End()}, changed: make(chan struct{}),
	}
}

// Reached returns the end of the last segment, and a channel that is closed after the next segment.
func (a *Archiver) Reached() (Reached, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reached, a.changed
}

// reach stores that the archive has a part of the stream.
func (a *Archiver) reach(part Part) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if part.Gap {
		a.reached.Gap = a.reached.Next
	}
	a.reached.Next, a.reached.End, a.reached.Last = a.writer.Next(), part.End, a.writer.last
	a.reached.Bytes += int64(len(part.Frames))
	close(a.changed)
	a.changed = make(chan struct{})
}

// Lag returns the age of the oldest frame that the archiver has read and the archive lacks.
func (a *Archiver) Lag() time.Duration {
	since := a.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, time.Since(time.Unix(0, since)))
}

// Run writes segments until ctx ends, which is no error. If another process fences the writer, Run
// returns a *FencedError, and the process has to stop.
func (a *Archiver) Run(ctx context.Context) error {
	a.wrote = time.Now()
	ticker := time.NewTicker(a.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := a.Drain(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// Drain writes all frames up to the last safe point. A process that stops calls Drain once more
// after its last write, with a ctx that ends with the remaining time.
func (a *Archiver) Drain(ctx context.Context) error {
	for {
		var part Part
		var now time.Time
		err := a.until(ctx, "read the stream", func() (err error) {
			// The archive may lack a write that was answered during the call. So a segment without
			// frames has the time before the call: a restore to a later time must not end there.
			now = time.Now()
			part, err = a.stream.Next(ctx, a.writer.End(), a.most)
			return err
		})
		if err != nil {
			return err
		}
		if len(part.Frames) == 0 {
			if part.Waits || now.Sub(a.wrote) < leastOften {
				a.since.Store(0)
				return nil
			}
			part = Part{Start: a.writer.End(), End: a.writer.End(), First: now, Last: now}
		}
		if err := a.put(ctx, part); err != nil {
			return err
		}
		// After a full segment there may be more frames, because the store was unreachable.
		if a.wrote = now; len(part.Frames) < a.most/2 {
			a.since.Store(0)
			return nil
		}
	}
}

func (a *Archiver) put(ctx context.Context, part Part) error {
	a.since.Store(part.First.UnixNano())
	segment := Segment{Header: Header{First: part.First, Last: part.Last, Start: part.Start, End: part.End, Gap: part.Gap}, Frames: part.Frames}
	if err := a.until(ctx, "write a segment", func() error { return a.writer.Put(ctx, segment) }); err != nil {
		return err
	}
	a.reach(part)
	a.stream.Archived(part.End)
	return nil
}

// until repeats a call until it succeeds, ctx ends, or the writer is fenced. An archive that is
// unreachable, or that needs an operator, does not stop the process.
func (a *Archiver) until(ctx context.Context, what string, call func() error) error {
	warned := false
	for failures := 1; ; failures++ {
		err := call()
		if err == nil {
			if warned {
				a.log.Info("the archive is back", zap.Int("tries", failures))
			}
			return nil
		}
		if _, fenced := errors.AsType[*FencedError](err); fenced {
			return err
		}
		if !warned && (a.Lag() > late || errors.Is(err, objects.ErrRefused)) {
			warned = true
			a.log.Warn("the archive is late: a loss of this machine would lose the writes that it lacks", zap.String("call", what), zap.Duration("lag", a.Lag()), zap.Error(err))
		}
		if err := backoff.Wait(ctx, a.waits.Jittered(failures, 0.5+a.Random()/2)); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}
