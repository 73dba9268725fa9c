package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

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
	// Took is the newest term that the directory got. Asked is the newest term that the directory
	// asked for. Both are 0 for none.
	Took, Asked uint64
	// Keep stores asked on the directory's disk, before the directory asks for that term. So an
	// older copy of the directory lacks this number.
	Keep func(asked uint64) error
	// At is the end of the directory's logs.
	At stream.Position
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
	// Anyway allows the directory to take the archive from another directory, or from other data.
	Anyway bool
}

// These errors are the reasons why a directory may not write to an archive. An operator has to decide.
var (
	// ErrOtherLineage means that the archive has other data.
	ErrOtherLineage = errors.New("the archive holds the data of another directory: choose another bucket or prefix, or run fanfare archive take")
	// ErrTakenOver means that another directory wrote to the archive last.
	ErrTakenOver = errors.New("another directory wrote to the archive last: a restored copy must not end its writer by accident; to continue with this directory, run fanfare archive take")
	// ErrTermsLost means that the archive lacks terms that the directory wrote.
	ErrTermsLost = errors.New("the archive lacks the last terms of this directory: check its address, or run fanfare archive take")
	// ErrReplaced means that the other machine of the pair was the primary later.
	ErrReplaced = errors.New("the other machine of the pair wrote to the archive last, as the primary of a later term: start this machine as its standby")
	// ErrOldCopy means that the archive has newer data of the directory than the directory itself.
	ErrOldCopy = errors.New("the archive has more of this directory than the directory itself, which is an old copy: restore from the archive")
)

// Refused reports whether err means that the process must not write to the archive, and that only an
// operator can change that.
func Refused(err error) bool {
	return Ended(err) || errors.Is(err, ErrOtherLineage) || errors.Is(err, ErrTakenOver) || errors.Is(err, ErrTermsLost) || errors.Is(err, ErrReplaced) || errors.Is(err, ErrOldCopy)
}

// Ended reports whether err means that another process has ended the term of this process, or took the next term at the
// same time.
func Ended(err error) bool {
	_, taken := errors.AsType[*TakenError](err)
	_, fenced := errors.AsType[*FencedError](err)
	return taken || fenced
}

// TakenError means that another directory took the next term at the same time.
type TakenError struct{ Term Term }

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s took term %x of the archive at %s: this process must not start with it", e.Term.Node, e.Term.Number, e.Term.At.Format(time.RFC3339))
}

// maxTakes is the maximum number of terms that Take asks for. A term may already be taken by
// the late request of an earlier start of the same directory.
const maxTakes = 8

// Take gives a directory the next term. Before that, Take seals the newest term, so the writer
// of the newest term is refused from then on (A3): no clock and no lease decide. If the
// directory may not write to the archive, Take seals nothing.
func (a *Archive) Take(ctx context.Context, start Start) (Term, error) {
	for range maxTakes {
		newest, err := a.Newest(ctx)
		if err != nil {
			return Term{}, err
		}
		if err := start.mayFollow(newest); err != nil {
			return Term{}, err
		}
		end := start.At
		if newest.Number > 0 {
			if end, err = a.seal(ctx, newest); err != nil {
				return Term{}, err
			}
		}
		if newest.Node == start.Node && !start.At.Covers(end) {
			if !start.Anyway {
				return Term{}, fmt.Errorf("%w (term %x)", ErrOldCopy, newest.Number)
			}
			// The logs of the directory may have more of one store, and less of the other one.
			end = earlier(end, start.At)
		}
		start.Asked = newest.Number + 1
		if err := start.Keep(start.Asked); err != nil {
			return Term{}, err
		}
		term, err := a.begin(ctx, newest, end, start)
		if taken, ok := errors.AsType[*TakenError](err); ok && taken.Term.Node == start.Node {
			continue // the late request of an earlier start of this directory took the term
		}
		return term, err
	}
	return Term{}, fmt.Errorf("%w: requests of %d earlier starts arrived late", objects.ErrAway, maxTakes)
}

// mayFollow decides whether a directory may end the writer of the newest term (A1, A4). Take
// calls mayFollow before the seal, so that a rehearsal of a restore does not end another writer.
func (s Start) mayFollow(newest Term) error {
	switch {
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
	case newest.Number > s.Asked:
		return fmt.Errorf("%w: it never asked for term %x", ErrOldCopy, newest.Number)
	}
	return nil
}

// begin creates the term after newest. end is the position at which newest ends.
func (a *Archive) begin(ctx context.Context, newest Term, end stream.Position, start Start) (Term, error) {
	term := Term{
		Format: start.Pair.format(), Number: newest.Number + 1, From: Position(start.At), Lineage: start.Lineage, Node: start.Node,
		Version: start.Version, DataFormat: start.DataFormat, Nonce: rand.Text(), At: a.now().UTC(), Pair: start.Pair,
	}
	switch {
	case newest.Node != start.Node && start.Pair.reigns(newest.Pair):
		term.Lineage = newest.Lineage
		term.Parent, term.From = start.succeed(newest, end)
	case newest.Number == 0 || newest.Lineage != start.Lineage: // no earlier term has these data
	case newest.Node == start.Node:
		// The segments begin with the bytes after the end of the last segment.
		term.From, term.Parent = Position(end), Parent{newest.Number, Position(end)}
	case start.Followed.Term > 0 && start.Followed.Term <= newest.Number: // a restore may end in an older term
		term.Parent = start.Followed
	}
	text, err := term.encode()
	if err != nil {
		return Term{}, err
	}
	err = a.store.Create(ctx, termName(term.Number), objects.Bytes(text))
	if _, exists := errors.AsType[*objects.ExistsError](err); exists {
		other, err := a.Term(ctx, term.Number)
		if err != nil {
			return Term{}, err
		}
		return Term{}, &TakenError{other}
	}
	return term, err
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

// seal ends a term and returns the position of its end. Another process may have written the seal.
func (a *Archive) seal(ctx context.Context, term Term) (stream.Position, error) {
	last, err := a.lastSegment(ctx, term.Number)
	if err != nil {
		return stream.Position{}, err
	}
	end := term.From.stream()
	if last > 0 {
		s, err := a.Segment(ctx, term.Number, last)
		if err != nil {
			return stream.Position{}, err
		}
		if end = s.End; s.Seal {
			return end, nil
		}
	}
	// If the writer is faster, its segment has the place of the seal, and the seal gets the next place.
	for writer := rand.Text(); ; last++ {
		now := a.now()
		object, err := a.codec.Encode(Segment{Header: Header{
			Term: term.Number, N: last + 1, First: now, Last: now, Start: end, End: end, Seal: true, Writer: writer,
		}})
		if err != nil {
			return stream.Position{}, err
		}
		err = a.store.Create(ctx, segmentName(term.Number, last+1), objects.Bytes(object))
		if _, exists := errors.AsType[*objects.ExistsError](err); !exists {
			return end, err
		}
		there, err := a.Segment(ctx, term.Number, last+1)
		if err != nil {
			return stream.Position{}, err
		}
		if end = there.End; there.Seal {
			return end, nil
		}
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
