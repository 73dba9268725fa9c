package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// Chain is the terms that lead to a term, oldest first. It is the only order of writers: a term
// that is not in the chain of the newest term has no effect on the data.
type Chain []Link

// Link is a term of a chain.
type Link struct {
	Term
	// Cut reports that the next term of the chain continues at Upto. The bytes of this term after
	// Upto are void.
	Cut  bool
	Upto stream.Position
}

// Chain returns the chain of a term; of the newest term if number is 0. Terms before the term
// since are left out, and so are terms that retention removed. An archive without a term has an
// empty chain.
func (a *Archive) Chain(ctx context.Context, number, since uint64) (chain Chain, err error) {
	if number == 0 {
		if number, err = a.highest(ctx, termsPrefix, termDigits); err != nil || number == 0 {
			return nil, err
		}
	}
	return newChain(number, since, func(number uint64) (Term, error) { return a.Term(ctx, number) })
}

// newChain returns the chain of a term from the terms that read returns.
func newChain(number, since uint64, read func(number uint64) (Term, error)) (chain Chain, err error) {
	for link := (Link{}); ; {
		term, err := read(number)
		if errors.Is(err, objects.ErrNotThere) && len(chain) > 0 {
			break // retention removed the term
		}
		if err != nil {
			return nil, err
		}
		link.Term = term
		if n := len(chain); n > 0 && chain[n-1].Cut && chain[n-1].Node == term.Node {
			// A snapshot of a directory may be older than the directory's newest term: the bytes
			// after the snapshot are void in all terms of the directory.
			link.Upto = earlier(link.Upto, chain[n-1].Upto)
		}
		chain = append(chain, link)
		if number = term.Parent.Term; number == 0 || number < since {
			break
		}
		link = Link{Cut: true, Upto: term.Parent.stream()}
	}
	slices.Reverse(chain)
	return chain, nil
}

// Has reports whether the data of a base is a part of the chain's data.
func (c Chain) Has(b Base) bool {
	i := slices.IndexFunc(c, func(l Link) bool { return l.Number == b.Term })
	return i >= 0 && (!c[i].Cut || c[i].Upto.Covers(b.To.stream()))
}

// earlier returns the position up to which both positions have the stream.
func earlier(a, b stream.Position) stream.Position {
	if b.Queue.Before(a.Queue) {
		a.Queue = b.Queue
	}
	if b.Table.Before(a.Table) {
		a.Table = b.Table
	}
	return a
}

// Entry is the header of a segment, and the number of bytes of its frames.
type Entry struct {
	Header
	Bytes int
}

// Entry reads the header of a segment. It does not read the frames, so it does not compare the SHA-256, and the header may be
// damaged: Whole shows whether it is.
func (a *Archive) Entry(ctx context.Context, term, n uint64) (Entry, error) {
	body, err := a.store.Get(ctx, segmentName(term, n))
	if err != nil {
		return Entry{}, err
	}
	defer body.Close()
	head := make([]byte, headerBytes)
	read, err := io.ReadFull(body, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Entry{}, err
	}
	header, size, err := decodeHeader(head[:read], term, n)
	return Entry{header, size}, err
}

// Whole reads a segment, and compares it with its SHA-256. The header of such a segment may decide where a restore begins and
// ends.
func (a *Archive) Whole(ctx context.Context, term, n uint64) (Entry, error) {
	s, err := a.Segment(ctx, term, n)
	return Entry{s.Header, len(s.Frames)}, err
}

// Span returns the numbers of the first and the last segment of a link, without a seal. The
// first number is higher if retention removed segments. The last segment may have bytes after the
// place at which the link is cut. If the link has no segment, last is less than first.
func (a *Archive) Span(ctx context.Context, link Link) (first, last uint64, err error) {
	first = 1
	for object, err := range a.store.List(ctx, segmentsPrefix(link.Number), "") {
		if err != nil {
			return 0, 0, err
		}
		if first, err = numberAt(object.Name, segmentsPrefix(link.Number), segmentDigits); err != nil {
			return 0, 0, err
		}
		break
	}
	if last, err = a.lastSegment(ctx, link.Number); err != nil || last == 0 {
		return first, 0, err
	}
	end, err := a.Entry(ctx, link.Number, last)
	if err != nil {
		return 0, 0, err
	}
	if end.Seal {
		last--
	}
	switch {
	case !link.Cut || link.Upto.Covers(end.End):
	case link.From.stream().Covers(link.Upto):
		last = 0
	default:
		last, err = a.search(ctx, link.Number, first, last, func(e Entry) bool { return e.End.Covers(link.Upto) })
	}
	return first, last, err
}

// After returns the number of the first segment of first to last with a frame after a time; last+1
// if there is none. The times in a term never go back (see Writer.Put).
func (a *Archive) After(ctx context.Context, term, first, last uint64, at time.Time) (uint64, error) {
	return a.search(ctx, term, first, last+1, func(e Entry) bool { return e.Last.After(at) })
}

// search returns the first number from low on, and below high, whose segment fulfils a condition;
// high if there is none. All later segments fulfil the condition, too, so search reads few of them.
func (a *Archive) search(ctx context.Context, term, low, high uint64, fulfils func(Entry) bool) (uint64, error) {
	for low < high {
		middle := low + (high-low)/2
		e, err := a.Entry(ctx, term, middle)
		switch {
		case err != nil:
			return 0, err
		case fulfils(e):
			high = middle
		default:
			low = middle + 1
		}
	}
	return low, nil
}

// readAhead is the number of objects that are read at once, so that the latency of the store does
// not bound a reader of many segments.
const readAhead = 16

// Entries yields the headers of the segments of a term from first to last.
func (a *Archive) Entries(ctx context.Context, term, first, last uint64) iter.Seq2[Entry, error] {
	return inOrder(ctx, first, last, func(ctx context.Context, n uint64) (Entry, error) { return a.Entry(ctx, term, n) })
}

// Segments yields the segments of a term from first to last, whole and compared with their SHA-256.
func (a *Archive) Segments(ctx context.Context, term, first, last uint64) iter.Seq2[Segment, error] {
	// Only compressed objects are read ahead, because the frames of one segment may take 32 MiB.
	read := func(ctx context.Context, n uint64) ([]byte, error) {
		return objects.Read(ctx, a.store, segmentName(term, n), maxSegmentBytes)
	}
	return func(yield func(Segment, error) bool) {
		n := first
		for object, err := range inOrder(ctx, first, last, read) {
			var s Segment
			if err == nil {
				s, err = a.codec.Decode(object, term, n)
			}
			if !yield(s, err) || err != nil {
				return
			}
			n++
		}
	}
}

// Gap is a part of the stream that the archive lacks, because the spool was dropped.
type Gap struct {
	Term, N uint64 // the first segment after the gap
	// From is the time of the last frame before the gap, the zero time if the archive does not have
	// that frame. To is the time of the first frame after the gap, at Position. A base that begins at Position or later does not need the lost part.
	From, To time.Time
	Position stream.Position
}

// Gaps yields the gaps of a chain in order. Marks name the segments behind the gaps, so it reads few headers.
func (a *Archive) Gaps(ctx context.Context, chain Chain) iter.Seq2[Gap, error] {
	return func(yield func(Gap, error) bool) {
		for i, link := range chain {
			for object, err := range a.store.List(ctx, gapName(link.Number, 0), "") {
				if err != nil {
					yield(Gap{}, err)
					return
				}
				_, n, err := pairAt(object.Name, gapsPrefix)
				if err != nil {
					yield(Gap{}, err)
					return
				}
				gap, there, err := a.gap(ctx, chain[:i+1], n)
				if (there || err != nil) && !yield(gap, err) || err != nil {
					return
				}
			}
		}
	}
}

// gap returns the gap before a segment of the last link of a chain. There is no gap if a crash, or
// a seal, kept the writer from the segment, or if the segment is void.
func (a *Archive) gap(ctx context.Context, chain Chain, n uint64) (g Gap, there bool, err error) {
	link := chain[len(chain)-1]
	e, err := a.Entry(ctx, link.Number, n)
	if errors.Is(err, objects.ErrNotThere) {
		return g, false, nil
	}
	if err != nil || !e.Gap || link.Cut && !link.Upto.Covers(e.Start) {
		return g, false, err
	}
	from, err := a.before(ctx, chain, n)
	return Gap{link.Number, n, from, e.First, e.Start}, err == nil, err
}

// before returns the time of the last frame before a segment of the last link of a chain, the zero
// time if the archive has no such frame.
func (a *Archive) before(ctx context.Context, chain Chain, n uint64) (time.Time, error) {
	for n == 1 {
		if chain = chain[:len(chain)-1]; len(chain) == 0 {
			return time.Time{}, nil
		}
		_, last, err := a.Span(ctx, chain[len(chain)-1])
		if err != nil {
			return time.Time{}, err
		}
		n = last + 1
	}
	e, err := a.Entry(ctx, chain[len(chain)-1].Number, n-1)
	if errors.Is(err, objects.ErrNotThere) { // retention removed the segment
		err = nil
	}
	return e.Last, err
}

// BaseID names a base: its term, and its first segment.
type BaseID struct{ Term, First uint64 }

// Bases returns the bases of the archive, of all terms, oldest first.
func (a *Archive) Bases(ctx context.Context) (ids []BaseID, err error) {
	for object, err := range a.store.List(ctx, basesPrefix, "") {
		if err != nil {
			return nil, err
		}
		var id BaseID
		if id.Term, err = numberAt(object.Name, basesPrefix, termDigits); err != nil {
			return nil, err
		}
		if id.First, err = numberAt(object.Name, fmt.Sprintf("%s%0*x-", basesPrefix, termDigits, id.Term), segmentDigits); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Base reads the list of a base.
func (a *Archive) Base(ctx context.Context, id BaseID) (Base, error) {
	text, err := objects.Read(ctx, a.store, BaseName(id.Term, id.First), MaxBase)
	if err != nil {
		return Base{}, err
	}
	return DecodeBase(text, id.Term, id.First)
}

// Ends returns the segment in which a base ends. The last time of this segment is the earliest time to which a restore can begin with the base:
// lists of times and restores both have it from here. The error is ErrNotThere if the archive lacks a segment up to that end.
func (a *Archive) Ends(ctx context.Context, b Base) (Entry, error) {
	for n := b.First; ; n++ {
		e, err := a.Entry(ctx, b.Term, n)
		if err != nil || e.End.Covers(b.To.stream()) {
			return e, err
		}
	}
}

// Open opens the content of a file of a base. The caller compares it with its hash.
func (a *Archive) Open(ctx context.Context, file File) (io.ReadCloser, error) {
	return a.store.Get(ctx, FileName(file.SHA256))
}
