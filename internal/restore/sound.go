package restore

import "fanfare/internal/archive"

// This file has the reads on which a plan relies: a header has no sum of its own, so each segment is read whole whose header
// decides about the plan.

// sound returns the damage of the segments of a term from first to last. A search by headers, whose values ascend, was misled by
// none of them if the two segments are sound between which it ended.
func (f finder) sound(term, first, last uint64) error {
	for n := first; n <= last; n++ {
		if _, err := f.archive.Whole(f.ctx, term, n); err != nil {
			return err
		}
	}
	return nil
}

// span returns the first and the last segment of a link.
func (f finder) span(link archive.Link) (first, last uint64, err error) {
	first, last, err = f.archive.Span(f.ctx, link)
	if err != nil || !link.Cut || last < first {
		return first, last, err
	}
	return first, last, f.sound(link.Number, max(first, last-1), last)
}

// ends returns the segment in which a base ends.
func (f finder) ends(base archive.Base) (archive.Entry, error) {
	e, err := f.archive.Ends(f.ctx, base)
	if err != nil {
		return e, err
	}
	return e, f.sound(base.Term, max(base.First, e.N-1), e.N)
}
