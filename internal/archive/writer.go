package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// FencedError means that the term of a writer has ended: the process must stop.
type FencedError struct {
	Term, N uint64
	// Sealed reports whether a seal ended the term. If Sealed is false, the segment of another
	// writer has the writer's place. No writer of this protocol writes such a segment.
	Sealed bool
	By     string
}

func (e *FencedError) Error() string {
	if e.Sealed {
		return fmt.Sprintf("term %x of the archive was sealed at %x by %s: another process took over, and this one must stop", e.Term, e.N, e.By)
	}
	return fmt.Sprintf("segment %x of term %x of the archive is of another writer, %s: this process must stop", e.N, e.Term, e.By)
}

// Writer writes the segments of a term, one after another. Only one goroutine may use a Writer.
type Writer struct {
	archive *Archive
	term    Term
	next    uint64
	end     stream.Position
	last    time.Time // the last time of the previous segment
	// pending is the object of segment next once the segment was encoded. after is the end of that
	// segment. gap reports whether bytes before that segment are missing.
	pending []byte
	after   stream.Position
	gap     bool
}

// Writer returns the writer of a term that Take gave to this process.
func (a *Archive) Writer(term Term) *Writer {
	return &Writer{archive: a, term: term, next: 1, end: term.From.stream()}
}

// End returns the position up to which the archive has the stream.
func (w *Writer) End() stream.Position { return w.end }

// Next returns the number of the next segment.
func (w *Writer) Next() uint64 { return w.next }

// Put writes the next segment. After an error other than a *FencedError the outcome is unknown:
// the caller has to call Put with the same segment until Put succeeds, because other content
// would look like the content of another writer.
func (w *Writer) Put(ctx context.Context, s Segment) error {
	if w.pending == nil {
		s.Term, s.N, s.Writer = w.term.Number, w.next, w.term.Nonce
		if s.Start != w.end && !s.Gap {
			return fmt.Errorf("segment %x of term %x begins at %v, not at the end %v of the one before", w.next, s.Term, s.Start, w.end)
		}
		// A restore searches the segments of a term by time. The clock may be set back, and a
		// frame may be older than a segment that was written before the frame was synced.
		s.First = later(s.First, w.last)
		s.Last = later(s.Last, s.First)
		object, err := w.archive.codec.Encode(s)
		if err != nil {
			return err
		}
		w.pending, w.after, w.last, w.gap = object, s.End, s.Last, s.Gap
	}
	if w.gap {
		// The mark comes first: a crash leaves a mark without a gap, but never a gap without a mark.
		if err := w.archive.store.Create(ctx, gapName(w.term.Number, w.next), objects.Bytes(nil)); err != nil {
			return err
		}
	}
	err := w.archive.store.Create(ctx, segmentName(w.term.Number, w.next), objects.Bytes(w.pending))
	if _, exists := errors.AsType[*objects.ExistsError](err); exists {
		return w.fenced(ctx)
	}
	if err == nil {
		w.next, w.end, w.pending = w.next+1, w.after, nil
	}
	return err
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// fenced returns the fence that names the object in the place of the next segment. The object's
// content is only for the operator: with any content, the writer has lost the place.
func (w *Writer) fenced(ctx context.Context) error {
	there, err := w.archive.Segment(ctx, w.term.Number, w.next)
	if err != nil {
		return &FencedError{Term: w.term.Number, N: w.next, By: fmt.Sprintf("somebody (%v)", err)}
	}
	return &FencedError{w.term.Number, w.next, there.Seal, there.Writer}
}
