package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"fanfare/internal/datadir"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// Archive is the archive in a store of objects.
type Archive struct {
	store objects.Store
	codec *Codec
	now   func() time.Time
}

// New returns the archive in a store. now gives the times of terms and seals. No decision depends on these times.
func New(store objects.Store, now func() time.Time) (*Archive, error) {
	codec, err := NewCodec()
	if err != nil {
		return nil, err
	}
	return &Archive{store, codec, now}, nil
}

// Start is a data directory that asks for the next term.
type Start struct {
	// Lineage names the data, and Node names the directory.
	Lineage, Node string
	// Took is the newest term that the directory got, 0 for none.
	Took uint64
	// Nonce is the nonce of the term that the directory asks for. Keep stores it on the directory's disk before the directory
	// asks, and Asked reports whether Keep has stored a nonce. So the directory knows each term that it asked for, and
	// another copy of the directory does not.
	Nonce string
	Keep  func() error
	Asked func(nonce string) bool
	// At is the end of the directory's logs at its first start after the term Took. Logs is their present end.
	At, Logs stream.Position
	// Followed is the place up to which a restore has the stream of another directory. Its term
	// may be older than the newest term. Its log numbers differ from the log numbers of this
	// directory. Its term is 0 if the directory has writes that no term has.
	Followed Parent
	// Pair is the directory's place in its pair of machines, nil without a pair. A machine that has become the primary
	// follows the terms of the other machine.
	Pair *Pair
	// Disk is the disk of the primary whose stream the directory has as its standby, exactly up to Followed, which has no
	// term then. It is empty if that is not known.
	Disk string
	// Version is the version of the program. DataFormat is the format of the directory.
	Version    string
	DataFormat int
	// Likeness reports whether the directory is the one that got the term Took. Seen is the place of the newest segment some time ago,
	// nil at the first try. It decides about a directory that may be the original or a copy of its disk.
	Likeness datadir.Likeness
	Seen     *Seen
	// Anyway allows the directory to take the archive from another directory, or from other data.
	// Over is the newest term to which that applies, nil for any term.
	Anyway bool
	Over   *uint64
}

// Seen is the newest segment of the newest term at a time. N is 0 before the first segment.
type Seen struct{ Term, N uint64 }

// maxTakes is the maximum number of terms that Take asks for. A term may already be taken by
// the late request of an earlier start of the same directory.
const maxTakes = 8

// Take gives a directory the next term. Before that, Take seals the newest term, so the writer
// of the newest term is refused from then on (A3): no clock and no lease decide. All that can
// refuse the directory comes before the seal: a directory that may not write to the archive ends nobody.
func (a *Archive) Take(ctx context.Context, start Start) (Term, error) {
	for range maxTakes {
		newest, err := a.Newest(ctx)
		if err != nil {
			return Term{}, err
		}
		if err := a.mayFollow(ctx, start, newest); err != nil {
			return Term{}, err
		}
		at, err := a.end(ctx, newest)
		if err != nil {
			return Term{}, err
		}
		term, err := a.next(ctx, newest, at, start)
		if err == nil {
			err = start.Keep()
		}
		if err == nil && newest.Number > 0 {
			term, err = a.sealFor(ctx, newest, at, start)
		}
		if err == nil {
			err = a.create(ctx, term)
		}
		if taken, ok := errors.AsType[*TakenError](err); ok && taken.Term.Node == start.Node && start.Asked(taken.Term.Nonce) {
			continue // the late request of an earlier start of this directory took the term
		}
		if err != nil {
			return Term{}, err
		}
		return term, nil
	}
	return Term{}, fmt.Errorf("%w: requests of %d earlier starts arrived late", objects.ErrAway, maxTakes)
}

// Preview returns the terms that a Take of the directory would end and begin, and changes nothing.
func (a *Archive) Preview(ctx context.Context, start Start) (p Preview, err error) {
	if p.Newest, err = a.Newest(ctx); err != nil {
		return p, err
	}
	at, err := a.end(ctx, p.Newest)
	if err != nil {
		return p, err
	}
	if p.Next, err = a.next(ctx, p.Newest, at, start); err != nil || p.Newest.Number == 0 {
		return p, err
	}
	p.Own, p.Copy = start.wrote(p.Newest), p.Newest.Node == start.Node && !start.wrote(p.Newest)
	p.Lacks = p.Next.Parent.Term != p.Newest.Number || !p.Next.Parent.stream().Covers(at.end)
	return p, nil
}

// Preview is a Take that may follow.
type Preview struct {
	// Newest is the term that ends, zero if the archive is empty. Own reports that the directory wrote it, Copy that another copy of
	// the directory did.
	Newest    Term
	Own, Copy bool
	// Next is the term that begins. Lacks reports that it does not continue with everything that Newest has.
	Next  Term
	Lacks bool
}

// sealFor seals the newest term, and returns the term after it. The writer of the newest term may be faster, and
// write segments that the directory lacks. So the directory is compared again before each try to write the seal, and never after it.
func (a *Archive) sealFor(ctx context.Context, newest Term, at edge, start Start) (term Term, err error) {
	_, err = a.seal(ctx, newest, at, func(there edge) error {
		term, err = a.next(ctx, newest, there, start)
		return err
	})
	return term, err
}

// wrote reports whether the directory asked for a term. Another copy of the directory has its node, and terms of its own.
func (s Start) wrote(term Term) bool { return term.Node == s.Node && s.Asked(term.Nonce) }

// mayFollow decides whether a directory may end the writer of the newest term (A1, A4). Take
// calls mayFollow before the seal, so that a rehearsal of a restore does not end another writer.
func (a *Archive) mayFollow(ctx context.Context, s Start, newest Term) error {
	switch {
	case s.Anyway && s.Over != nil && newest.Number != *s.Over && !s.wrote(newest):
		return fmt.Errorf("another process took term %x of the archive in between: run the command again", newest.Number)
	case s.Anyway:
		return nil
	case newest.Number < s.Took:
		return fmt.Errorf("%w: its newest term is %x, the directory wrote term %x", ErrTermsLost, newest.Number, s.Took)
	case newest.Number == 0 || newest.Node != s.Node && s.Pair.reigns(newest.Pair):
		return nil
	case s.Pair.knows(newest.Pair) && s.Pair.Term < newest.Pair.Term:
		return fmt.Errorf("%w (term %d)", ErrReplaced, newest.Pair.Term)
	case newest.Lineage != s.Lineage:
		return fmt.Errorf("%w (lineage %s)", ErrOtherLineage, newest.Lineage)
	case newest.Node != s.Node:
		return fmt.Errorf("%w (directory %s, term %x)", ErrTakenOver, newest.Node, newest.Number)
	case !s.wrote(newest):
		return a.parted(ctx, s, newest)
	}
	return nil
}

// next returns the term after newest, which ends at a place. It returns ErrOldCopy if the directory lacks writes of its own
// term, unless an operator has allowed that.
func (a *Archive) next(ctx context.Context, newest Term, at edge, start Start) (Term, error) {
	own, end := start.wrote(newest), at.end
	if own && !start.Anyway {
		if err := start.original(newest, at); err != nil {
			return Term{}, err
		}
	}
	if own && !start.At.Covers(end) {
		if !start.Anyway {
			return Term{}, start.old(at)
		}
		// The logs of the directory may have more of one store, and less of the other one.
		end = earlier(end, start.At)
	}
	term := Term{
		Number: newest.Number + 1, From: Position(start.At), Lineage: start.Lineage, Node: start.Node,
		Version: start.Version, DataFormat: start.DataFormat, Nonce: start.Nonce, At: a.now().UTC(), Pair: start.Pair,
	}
	switch {
	case newest.Node != start.Node && start.Pair.reigns(newest.Pair):
		term.Lineage = newest.Lineage
		term.Parent, term.From = start.succeed(newest, end)
	case newest.Number == 0 || newest.Lineage != start.Lineage: // no earlier term has these data
	case own:
		// The segments begin with the bytes after the end of the last segment.
		term.From, term.Parent = Position(end), Parent{newest.Number, Position(end)}
	case start.Followed.Term > 0 && start.Followed.Term <= newest.Number: // a restore may end in an older term
		term.Parent = start.Followed
	case start.Took > 0: // another directory or another copy wrote meanwhile
		took, at, err := a.took(ctx, start)
		if err != nil {
			return Term{}, err
		}
		if took.Number > 0 && start.At.Covers(at.end) {
			term.From, term.Parent = Position(at.end), Parent{took.Number, Position(at.end)}
		}
	}
	return term, term.check()
}

// took returns the newest term that the directory got, and its end; the zero Term if the archive lacks that term.
func (a *Archive) took(ctx context.Context, start Start) (Term, edge, error) {
	term, err := a.Term(ctx, start.Took)
	if errors.Is(err, objects.ErrNotThere) || err == nil && !start.wrote(term) {
		return Term{}, edge{}, nil
	}
	if err != nil {
		return Term{}, edge{}, err
	}
	at, err := a.end(ctx, term)
	return term, at, err
}

// create stores a term.
func (a *Archive) create(ctx context.Context, term Term) error {
	text, err := term.encode()
	if err != nil {
		return err
	}
	err = a.store.Create(ctx, termName(term.Number), objects.Bytes(text))
	if _, exists := errors.AsType[*objects.ExistsError](err); exists {
		other, err := a.Term(ctx, term.Number)
		if err != nil {
			return err
		}
		return &TakenError{other}
	}
	return err
}

// succeed returns the parent and the start of the term of a machine that takes the place of the writer of newest, which
// ends at a position. The machine has everything before the end, because only such bytes were archived. If the archive
// lacks a part of the stream that the machine had then, the term starts at the zero position: its logs do not reach back that
// far, so the first segment is behind a gap.
func (s Start) succeed(newest Term, end stream.Position) (Parent, Position) {
	if s.Disk == newest.Pair.Disk && end.Covers(s.Followed.stream()) {
		return Parent{newest.Number, s.Followed.Position}, Position(s.At)
	}
	return Parent{newest.Number, Position(end)}, Position{}
}

// edge is the end of a term.
type edge struct {
	last   uint64 // the number of the last segment or of the seal, 0 for none
	end    stream.Position
	at     time.Time // no frame before the end is later
	sealed bool
}

// end returns the present end of a term, the zero position for the zero Term.
func (a *Archive) end(ctx context.Context, term Term) (edge, error) {
	p := edge{end: term.From.stream(), at: term.At}
	if term.Number == 0 {
		return p, nil
	}
	last, err := a.lastSegment(ctx, term.Number)
	if err != nil || last == 0 {
		return p, err
	}
	s, err := a.Segment(ctx, term.Number, last)
	return edge{last, s.End, s.Last, s.Seal}, err
}

// Seal ends a term of this process, which writes nothing more. It returns the number of the seal.
func (a *Archive) Seal(ctx context.Context, term Term) (n uint64, err error) {
	at, err := a.end(ctx, term)
	if err != nil {
		return 0, err
	}
	_, err = a.seal(ctx, term, at, func(before edge) error {
		if n = before.last + 1; before.sealed {
			n = before.last
		}
		return nil
	})
	return n, err
}

// seal ends a term and returns the position of its end. Another process may have written the seal. seal calls may before each try to write
// the seal, and writes none if may returns an error.
func (a *Archive) seal(ctx context.Context, term Term, at edge, may func(edge) error) (stream.Position, error) {
	writer := rand.Text()
	for {
		if err := may(at); err != nil || at.sealed {
			return at.end, err
		}
		// If the writer is faster, its segment has the place of the seal, and the seal gets the next place.
		now, n := a.now(), at.last+1
		object, err := a.codec.Encode(Segment{Header: Header{
			Term: term.Number, N: n, First: now, Last: now, Start: at.end, End: at.end, Seal: true, Writer: writer,
		}})
		if err != nil {
			return at.end, err
		}
		err = a.store.Create(ctx, segmentName(term.Number, n), objects.Bytes(object))
		if _, exists := errors.AsType[*objects.ExistsError](err); !exists {
			return at.end, err
		}
		there, err := a.Segment(ctx, term.Number, n)
		if err != nil {
			return at.end, err
		}
		at = edge{n, there.End, there.Last, there.Seal}
	}
}

// Newest returns the newest term, the zero Term if there is none.
func (a *Archive) Newest(ctx context.Context) (Term, error) {
	number, err := a.highest(ctx, termsPrefix, termDigits)
	if err != nil || number == 0 {
		return Term{}, err
	}
	return a.Term(ctx, number)
}

// Term returns a term.
func (a *Archive) Term(ctx context.Context, number uint64) (Term, error) {
	text, err := objects.Read(ctx, a.store, termName(number), maxTerm)
	if err != nil {
		return Term{}, err
	}
	return decodeTerm(text, number)
}

// Segment returns a segment of a term.
func (a *Archive) Segment(ctx context.Context, term, n uint64) (Segment, error) {
	object, err := objects.Read(ctx, a.store, segmentName(term, n), maxSegmentBytes)
	if err != nil {
		return Segment{}, err
	}
	return a.codec.Decode(object, term, n)
}

func (a *Archive) lastSegment(ctx context.Context, term uint64) (uint64, error) {
	return a.highest(ctx, segmentsPrefix(term), segmentDigits)
}

// highest returns the highest number after a prefix, 0 if there is none. A term of a week has
// some hundred thousand segments, so highest makes a search: a list that begins after a number
// shows whether there is a higher number.
func (a *Archive) highest(ctx context.Context, prefix string, digits int) (uint64, error) {
	above := func(n uint64) (uint64, error) { // the next number above n, 0 if there is none
		after := fmt.Sprintf("%s%0*x~", prefix, digits, n) // "~" comes after all names of n
		for object, err := range a.store.List(ctx, prefix, after) {
			if err != nil {
				return 0, err
			}
			return numberAt(object.Name, prefix, digits)
		}
		return 0, nil
	}
	// low exists, or is 0. There is no number above high, unless a writer has just added one.
	low, high, step := uint64(0), uint64(math.MaxInt64), uint64(1)
	for low < high {
		probe := min(low+step-1, low+(high-low)/2)
		next, err := above(probe)
		switch {
		case err != nil:
			return 0, err
		case next > 0:
			low, high, step = next, max(high, next), step*2
		default:
			high = probe
		}
	}
	return low, nil
}
