package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"fanfare/internal/archive"
	"fanfare/internal/datadir"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// Target is the state that a restore makes.
type Target struct {
	// At is the time of the state: the data have all writes of the archive up to At. Zero means
	// the newest state.
	At time.Time
	// Term is the term in whose chain the state is; 0 means the newest term.
	Term uint64
}

// Plan is a restore that the archive allows.
type Plan struct {
	Base archive.Base
	// Until is the time of the state: all writes of the archive up to Until are restored.
	Until    time.Time
	Segments int
	Bytes    int64 // of the segments, without compression
	parts    []part
	// limit is the time in Unix milliseconds after which frames of the last part are not applied.
	limit int64
}

// part is the segments of a term from first to last.
type part struct {
	link        archive.Link
	first, last uint64
}

// Size returns the number of bytes of the base's files and of the segments.
func (p Plan) Size() int64 {
	size := p.Bytes
	for _, f := range p.Base.Files {
		size += f.Bytes
	}
	return size
}

// Term returns the term in which the restored state is.
func (p Plan) Term() uint64 { return p.parts[len(p.parts)-1].link.Number }

// Find returns the plan of a restore. The error is an *EarlyError, a *LateError or a *GapError for a
// state that the archive does not have. Find reads the headers of the segments that the restore needs, so it
// finds a gap before the restore begins, and it reads each segment whole whose header decides about the plan.
func Find(ctx context.Context, a *archive.Archive, target Target) (Plan, error) {
	plan, err := find(ctx, a, target)
	return plan, wayOut(err)
}

func find(ctx context.Context, a *archive.Archive, target Target) (Plan, error) {
	ids, err := a.Bases(ctx)
	if err == nil && len(ids) == 0 {
		err = &EarlyError{}
	}
	if err != nil {
		return Plan{}, err
	}
	chain, err := a.Chain(ctx, target.Term, ids[0].Term)
	if err == nil && len(chain) == 0 {
		err = errors.New("the archive has no term: check its address")
	}
	if err != nil {
		return Plan{}, err
	}
	f := finder{ctx, a, chain, ids, target.At}
	to, err := f.end()
	if err == nil {
		to, err = f.settle(to)
	}
	if err != nil {
		return Plan{}, err
	}
	base, err := f.base(to)
	if err != nil {
		return Plan{}, err
	}
	return f.plan(base, to)
}

type finder struct {
	ctx     context.Context //nolint:containedctx // the life of one call of Find
	archive *archive.Archive
	chain   archive.Chain
	ids     []archive.BaseID
	at      time.Time
}

// end is the place at which a restore ends: after the last frame up to the wanted time, in segment last of a
// link of the chain.
type end struct {
	link int
	last uint64
	at   stream.Position
}

// end finds the place of the wanted time. The clocks of two machines differ, so the frames of two terms may have
// the same times. Then the frames of the newer term decide: all that this term's machine answered is restored.
func (f finder) end() (end, error) {
	var behind archive.Entry // the first segment behind the place
	for i, link := range slices.Backward(f.chain) {
		first, last, err := f.span(link)
		if err != nil {
			return end{}, err
		}
		if last < first {
			if f.at.IsZero() {
				return end{link: i, at: stream.Position(link.From)}, nil
			}
			continue
		}
		newest, err := f.archive.Whole(f.ctx, link.Number, last)
		if err != nil {
			return end{}, err
		}
		if f.at.IsZero() {
			return end{link: i, last: last, at: newest.End}, nil
		}
		if behind.N == 0 && f.at.After(newest.Last) {
			return end{}, &LateError{newest.Last}
		}
		oldest, err := f.archive.Whole(f.ctx, link.Number, first)
		if err != nil {
			return end{}, err
		}
		if oldest.First.After(f.at) {
			behind = oldest
			continue
		}
		return f.within(i, first, last, behind)
	}
	return end{}, f.early()
}

// within finds the place of the wanted time in a link. The first frame of the link is not later than the wanted
// time.
func (f finder) within(i int, first, last uint64, behind archive.Entry) (end, error) {
	link := f.chain[i]
	n, err := f.archive.After(f.ctx, link.Number, first, last, f.at)
	if err != nil {
		return end{}, err
	}
	if n <= last {
		if behind, err = f.archive.Whole(f.ctx, link.Number, n); err != nil {
			return end{}, err
		}
		if !behind.First.After(f.at) {
			return f.inside(i, n)
		}
	}
	before, err := f.archive.Whole(f.ctx, link.Number, n-1)
	if err != nil {
		return end{}, err
	}
	if behind.Gap { // there may be lost writes between the two segments and up to the wanted time
		return end{}, f.gap(before.Last, behind)
	}
	return end{link: i, last: n - 1, at: before.End}, nil
}

// inside finds the place of the wanted time in a segment.
func (f finder) inside(i int, n uint64) (end, error) {
	s, err := f.archive.Segment(f.ctx, f.chain[i].Number, n)
	if err != nil {
		return end{}, err
	}
	at := s.Start
	for frame, err := range frames(s, f.at.UnixMilli()) {
		if err != nil {
			return end{}, err
		}
		at = at.After(frame)
	}
	return end{link: i, last: n, at: at}, nil
}

// settle moves a place back to one at which a restore may end. What a crash left in the logs is one piece, because it
// has no order between the stores. A segment that does not end with a safe point ends inside such a piece.
func (f finder) settle(to end) (end, error) {
	for {
		link := f.chain[to.link]
		if to.last == 0 {
			if to.link == 0 || f.chain[to.link-1].Node != link.Node {
				return to, nil
			}
			_, last, err := f.span(f.chain[to.link-1])
			if err != nil {
				return end{}, err
			}
			to = end{link: to.link - 1, last: last, at: stream.Position(link.From)}
			continue
		}
		s, err := f.archive.Segment(f.ctx, link.Number, to.last)
		if err != nil || len(s.Frames) == 0 {
			return to, err
		}
		var last stream.Frame
		for frame, err := range frames(s, math.MaxInt64) {
			if err != nil {
				return end{}, err
			}
			last = frame
		}
		if last.Kind == stream.Safe {
			return to, nil
		}
		to = end{link: to.link, last: to.last - 1, at: s.Start}
	}
}

// early returns the reason why no base ends before the wanted time.
func (f finder) early() error {
	earliest, err := f.earliest(archive.BaseID{})
	if err != nil {
		return err
	}
	return &EarlyError{earliest}
}

// earliest returns the earliest time to which a restore can begin with a base from since on, the zero time if there is no such base.
func (f finder) earliest(since archive.BaseID) (at time.Time, missing error) {
	for _, id := range f.ids {
		if id.Term < since.Term || id.Term == since.Term && id.First < since.First {
			continue
		}
		base, err := f.archive.Base(f.ctx, id)
		if err != nil {
			return time.Time{}, err
		}
		if !f.chain.Has(base) {
			continue
		}
		ends, err := f.ends(base)
		if !errors.Is(err, objects.ErrNotThere) {
			return ends.Last, err
		}
		missing = err
	}
	return time.Time{}, missing
}

// gap returns the error for a gap before a segment.
func (f finder) gap(from time.Time, behind archive.Entry) error {
	next, err := f.earliest(archive.BaseID{Term: behind.Term, First: behind.N})
	if err != nil {
		return err
	}
	return &GapError{from, behind.First, next}
}

// base returns the newest base that ends before a place of the chain.
func (f finder) base(to end) (archive.Base, error) {
	for _, id := range slices.Backward(f.ids) {
		i := slices.IndexFunc(f.chain, func(l archive.Link) bool { return l.Number == id.Term })
		if i < 0 || i > to.link {
			continue
		}
		base, err := f.archive.Base(f.ctx, id)
		if errors.Is(err, objects.ErrNotThere) {
			continue // retention removed the base
		}
		if err != nil {
			return base, err
		}
		if !f.chain.Has(base) || i == to.link && !to.at.Covers(stream.Position(base.To)) {
			continue
		}
		ends, err := f.ends(base)
		if err != nil {
			return base, err
		}
		if i < to.link || to.at.Covers(ends.End) {
			return base, datadir.CheckFormat("base "+archive.BaseName(id.Term, id.First), strconv.Itoa(base.DataFormat))
		}
	}
	return archive.Base{}, f.early()
}

// plan returns the plan from a base to a place, and checks that the archive has all between the two.
func (f finder) plan(base archive.Base, to end) (Plan, error) {
	p := Plan{Base: base, Until: base.MadeAt, limit: math.MaxInt64}
	if !f.at.IsZero() {
		p.limit = f.at.UnixMilli()
	}
	from := slices.IndexFunc(f.chain, func(l archive.Link) bool { return l.Number == base.Term })
	for i := from; i <= to.link; i++ {
		part := part{link: f.chain[i], first: 1, last: to.last}
		if i == from {
			part.first = base.First
		}
		if i < to.link {
			var err error
			if _, part.last, err = f.span(part.link); err != nil {
				return p, err
			}
		}
		if err := datadir.CheckFormat(fmt.Sprintf("term %x of the archive", part.link.Number), strconv.Itoa(part.link.DataFormat)); err != nil {
			return p, err
		}
		if err := f.check(&p, part, i < to.link); err != nil {
			return p, err
		}
		p.parts = append(p.parts, part)
	}
	if p.limit < p.Until.UnixMilli() {
		p.Until = f.at
	}
	return p, nil
}

// check checks that a part has no hole. If whole is true, the segments have to reach the place at which the next
// term continues.
func (f finder) check(p *Plan, part part, whole bool) error {
	at, time := stream.Position(part.link.From), part.link.At
	inBase := len(p.parts) == 0
	if inBase {
		at = stream.Position(p.Base.From)
	}
	for e, err := range f.archive.Entries(f.ctx, part.link.Number, part.first, part.last) {
		begins := e.Start == at || inBase && stream.Position(p.Base.From).Covers(e.Start) // the base has all before its beginning
		if err == nil && !begins {
			err = f.sound(e.Term, max(part.first, e.N-1), e.N)
		}
		switch {
		case err != nil:
			return err
		case begins:
		case e.Gap:
			return f.gap(time, e)
		default:
			return fmt.Errorf("the archive is damaged: segment %x of term %x does not begin where segment %x of term %x ends", e.N, e.Term, e.N-1, e.Term)
		}
		at, time = e.End, e.Last
		p.Until = e.Last
		p.Segments++
		p.Bytes += int64(e.Bytes)
	}
	if whole && !at.Covers(part.link.Upto) {
		return fmt.Errorf("the archive is damaged: term %x lacks segments after %x, up to the place at which the next term continues", part.link.Number, part.last)
	}
	return nil
}

// frames yields the frames of a segment up to a time in Unix milliseconds.
func frames(s archive.Segment, limit int64) func(func(stream.Frame, error) bool) {
	return func(yield func(stream.Frame, error) bool) {
		reader := stream.NewReader(bytes.NewReader(s.Frames))
		for {
			frame, err := reader.Next()
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(frame, fmt.Errorf("segment %x of term %x of the archive: %w", s.N, s.Term, err))
				return
			case frame.Time > limit:
				return
			case !yield(frame, nil):
				return
			}
		}
	}
}
