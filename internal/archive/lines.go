package archive

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"fanfare/internal/objects"
)

// Line is a history that a restore can follow: a term and its ancestors. An archive has the line of
// its newest term, and a line for each term after which another directory continued, because the
// rest of such a term is in no other line. In a pair, and after an older copy of a directory, a term has a rest only if an operator
// gave writes up.
type Line struct {
	// Term is the last term of the line.
	Term uint64 `json:"term"`
	// Ranges are the times to which a restore can return, in order.
	Ranges []Range `json:"ranges"`
	// Gaps are the times after the first range to which no restore can return. A gap without an
	// end ends with the next base.
	Gaps []Range `json:"gaps"`
}

// Range is a range of times, with both ends. Its end is the zero time if it has no end.
type Range struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to,omitzero"`
}

// Lines returns the lines of an archive. The line of the newest term is the last one.
func (a *Archive) Lines(ctx context.Context, c Catalog) (lines []Line, err error) {
	return a.lines(ctx, c, nil)
}

// lines returns the lines of an archive of which some segments are broken.
func (a *Archive) lines(ctx context.Context, c Catalog, broken []Gap) (lines []Line, err error) {
	continued := map[uint64]bool{}
	terms := map[uint64]Term{}
	for _, term := range c.Terms {
		terms[term.Number] = term
		parent := terms[term.Parent.Term]
		if parent.Number == 0 || parent.Node != term.Node && !term.Pair.knows(parent.Pair) {
			continue
		}
		whole, err := a.continues(ctx, term, parent)
		if err != nil {
			return nil, err
		}
		if whole {
			continued[parent.Number] = true
		}
	}
	for _, term := range c.Terms {
		if continued[term.Number] {
			continue
		}
		line, err := a.line(ctx, c, term.Number, broken)
		if err != nil {
			return nil, err
		}
		if len(line.Ranges)+len(line.Gaps) > 0 || term.Number == c.newest().Number {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// continues reports whether a term has everything of its parent.
func (a *Archive) continues(ctx context.Context, term, parent Term) (bool, error) {
	_, last, err := a.Span(ctx, Link{Term: parent})
	if err != nil || last == 0 {
		return err == nil, err
	}
	e, err := a.Entry(ctx, parent.Number, last)
	if errors.Is(err, objects.ErrNotThere) { // retention removed the segment
		return true, nil
	}
	return term.Parent.stream().Covers(e.End), err
}

func (a *Archive) line(ctx context.Context, c Catalog, number uint64, broken []Gap) (Line, error) {
	line := Line{Term: number, Ranges: []Range{}, Gaps: []Range{}}
	chain := c.chain(number)
	bases, err := a.usable(ctx, c, chain)
	if err != nil || len(bases) == 0 {
		return line, err
	}
	for len(chain) > 1 && chain[0].Number < bases[0].Term {
		chain = chain[1:]
	}
	var gaps []Gap
	for gap, err := range a.Gaps(ctx, chain) {
		if err != nil {
			return line, err
		}
		gaps = append(gaps, gap)
	}
	for _, gap := range broken {
		if i := slices.IndexFunc(chain, func(l Link) bool { return l.Number == gap.Term }); i >= 0 {
			gaps = append(gaps, gap)
		}
	}
	slices.SortStableFunc(gaps, func(a, b Gap) int { return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.N, b.N)) })
	_, last, err := a.Span(ctx, chain[len(chain)-1])
	if err != nil {
		return line, err
	}
	end, err := a.before(ctx, chain, last+1)
	if err != nil {
		return line, err
	}
	if err := line.divide(ctx, a, bases, append(gaps, Gap{Term: number, N: maxSegment, From: end})); err != nil {
		return line, err
	}
	if n := len(line.Gaps); n > 0 && len(line.Ranges) > 0 && line.Gaps[n-1].To.IsZero() && !line.Gaps[n-1].From.Before(end) {
		line.Gaps = line.Gaps[:n-1] // the present end of the archive is no gap
	}
	return line, nil
}

// usable returns the bases of a chain from the first base on from which the archive has all
// segments to the end of the chain, oldest first.
func (a *Archive) usable(ctx context.Context, c Catalog, chain Chain) (bases []Base, err error) {
	for i := len(chain) - 1; i >= 0; i-- {
		number, first := chain[i].Number, uint64(1)
		object, err := a.first(ctx, segmentsPrefix(number), "")
		if err == nil && object.Name != "" {
			first, err = numberAt(object.Name, segmentsPrefix(number), segmentDigits)
		}
		if err != nil {
			return nil, err
		}
		for _, b := range c.bases(chain, number) {
			if b.First >= first {
				bases = append([]Base{b}, bases...)
			}
		}
		if first > 1 {
			break // retention deleted older ones
		}
	}
	return bases, nil
}

// divide divides the times of a line by its gaps. Each range begins with the first base after a
// gap. The last element of gaps is the end of the line.
func (l *Line) divide(ctx context.Context, a *Archive, bases []Base, gaps []Gap) error {
	for _, gap := range gaps {
		from, to := time.Time{}, gap.From
		if gap.N < maxSegment { // the lost frames may have the time of the last frame before them
			to = to.Add(-time.Millisecond)
		}
		for len(bases) > 0 && (bases[0].Term < gap.Term || bases[0].Term == gap.Term && bases[0].First <= gap.N) {
			b := bases[0]
			bases = bases[1:]
			if !from.IsZero() {
				continue
			}
			e, err := a.Ends(ctx, b)
			if o, away := damage(e, 0, err); away != nil {
				return away
			} else if o.err == nil && (e.Term < gap.Term || e.N < gap.N) {
				from = e.Last
			}
		}
		if from.IsZero() || from.After(to) {
			continue // the archive has no state before the gap
		}
		if n := len(l.Gaps); n > 0 {
			l.Gaps[n-1].To = from
		}
		l.Ranges = append(l.Ranges, Range{from, to})
		l.Gaps = append(l.Gaps, Range{From: gap.From})
	}
	return nil
}
