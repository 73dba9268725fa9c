package feed

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// pushSource computes a home from the viewer's timeline and marks. It leaves out
// unfollowed and muted authors, and posts below the first one that a follow shows. It merges in the
// post lists of authors with a backfill or pulled mark, whose posts the timeline may lack.
type pushSource struct {
	s      *Service
	viewer string
	of     span
	// marks is the first page of the viewer's marks, read once a request.
	marks *marks
}

// marksPage is the number of marks that are held at a time. A home has a mark for each
// busy author that it followed within the timeline's TTL, and for each author that it
// unfollowed within that and 30 days. So one page is enough for nearly every home.
const marksPage = 1000

// marks is a page of a home's marks, in the order of their authors.
type marks struct {
	// of holds the mark of each author.
	of     map[string]schema.Mark
	merged []followee
	// muted holds all muted authors: the first page has them.
	muted map[string]bool
	// late holds the marks whose backfills should have ended long ago.
	late []schema.Mark
	// last is the last author of the page if there may be more, else "".
	last string
	// presence is the reader's presence, nil for none. The first page has it.
	presence *schema.Presence
}

func (p *pushSource) next(ctx context.Context, calls *budget, last string, want int) (top stretch[ref], again int, err error) {
	part := p.of.after(last)
	var entries stretch[ref]
	reads := []func(context.Context) error{func(ctx context.Context) (err error) {
		entries, err = p.entries(ctx, part, want)
		return err
	}}
	firstCall := p.marks == nil
	if firstCall {
		reads = append(reads, func(ctx context.Context) (err error) {
			p.marks, err = p.s.readMarks(ctx, p.viewer, "", nil)
			return err
		})
	}
	if err := p.s.all(ctx, reads...); err != nil {
		return stretch[ref]{}, 0, err
	}
	seen := false
	if firstCall {
		var pull bool
		if pull, seen = p.s.byPull(ctx, p.viewer, p.marks.presence); pull {
			return stretch[ref]{}, 0, errByPull
		}
	}
	left := map[schema.Mark]int{} // the entries of unfollowed authors, by the mark
	for size := want; ; {
		marks, err := p.marksOf(ctx, calls, entries.items)
		if err != nil {
			return stretch[ref]{}, 0, err
		}
		for _, r := range entries.items {
			switch m := marks[r.author]; {
			case m.Kind == schema.MarkUnfollowed:
				left[m]++
			case !m.Hides(r.post) && !p.marks.muted[r.author] && len(top.items) < want:
				top.items = append(top.items, r)
			}
		}
		if len(top.items) == want || !entries.more {
			break
		}
		// Fill up for the entries that were left out.
		end := entries.items[len(entries.items)-1].post
		if !calls.take(1) {
			top.cut = end
			break
		}
		size = grown(size, mostRefill)
		if entries, err = p.entries(ctx, part.after(end), size); err != nil {
			return stretch[ref]{}, 0, err
		}
	}
	var reminding sync.WaitGroup
	defer reminding.Wait()
	again = 1 // the entries
	read := part.upTo(top.cut)
	if len(top.items) == want {
		read = part.upTo(top.items[want-1].post)
	}
	if inGap(p.marks.presence, read) {
		if firstCall {
			p.s.remind(ctx, p.viewer, slices.Concat(p.marks.late, p.s.hiding(left)), seen)
		}
		return stretch[ref]{}, 0, errByPull
	}
	for page := p.marks; ; again++ {
		if firstCall {
			late := slices.Concat(page.late, p.s.hiding(left))
			left = nil
			reminding.Wait()
			reminding.Go(func() { p.s.remind(ctx, p.viewer, late, seen) })
		}
		again += len(page.merged)
		if top, err = p.s.mergedPosts(ctx, calls, page.merged, part, want, top); err != nil || page.last == "" {
			return top, again, err
		}
		calls.spend(1)
		if page, err = p.s.readMarks(ctx, p.viewer, page.last, p.marks.muted); err != nil {
			return stretch[ref]{}, 0, err
		}
	}
}

// marksOf returns the marks of the authors of entries. The first page of marks answers for
// the authors up to its last one. The marks of later authors are read by their keys, so
// that memory does not grow with the number of marks (I9).
func (p *pushSource) marksOf(ctx context.Context, calls *budget, entries []ref) (map[string]schema.Mark, error) {
	if p.marks.last == "" {
		return p.marks.of, nil
	}
	marks := map[string]schema.Mark{}
	var keys []table.Key
	for _, r := range entries {
		if _, seen := marks[r.author]; seen {
			continue
		}
		marks[r.author] = p.marks.of[r.author]
		if r.author > p.marks.last {
			keys = append(keys, schema.MarkKey(p.viewer, r.author))
		}
	}
	calls.spend(batches(len(keys)))
	found, err := p.s.batchGet(ctx, keys, true) // consistent, for I2
	if err != nil {
		return nil, err
	}
	for _, it := range found {
		if !schema.KnownMark(it) {
			continue
		}
		m, err := schema.ParseMark(it)
		if err != nil {
			return nil, unavailable("table", err)
		}
		marks[m.Author] = m
	}
	return marks, nil
}

// entries reads want timeline entries of a span, and reports whether there may be more.
func (p *pushSource) entries(ctx context.Context, of span, want int) (stretch[ref], error) {
	if of.empty() {
		return stretch[ref]{}, nil
	}
	return collect(ctx, p.s.cfg.Store, of.query(schema.TimelinePK(p.viewer)), want, refill{}, each(func(it table.Item) (ref, bool, error) {
		e, err := schema.ParseEntry(it)
		return ref{e.Post, e.Author, e.LikeShards}, true, err
	}))
}

// readMarks reads the page of viewer's marks that follows the author after, "" for the
// first page. The first page has the muted authors; for later ones they are given. The read is
// consistent, for I2.
func (s *Service) readMarks(ctx context.Context, viewer, after string, muted map[string]bool) (*marks, error) {
	q := table.Query{PK: schema.MarksPK(viewer), Consistent: true}
	if after != "" {
		q.After = schema.UserSK(after)
	}
	read := &marks{of: map[string]schema.Mark{}, muted: muted}
	page, err := collect(ctx, s.cfg.Store, q, marksPage, refill{}, each(func(it table.Item) (schema.Mark, bool, error) {
		if it.Key.SK == schema.SortPresence {
			presence, err := schema.ParsePresence(it)
			read.presence = &presence
			return schema.Mark{}, false, err
		}
		if author, ok := schema.MutedOfSK(it.Key.SK); ok {
			if read.muted == nil {
				read.muted = map[string]bool{}
			}
			read.muted[author] = true
		}
		if !schema.KnownMark(it) {
			return schema.Mark{}, false, nil
		}
		m, err := schema.ParseMark(it)
		return m, true, err
	}))
	if err != nil {
		return nil, err
	}
	for _, m := range page.items {
		read.of[m.Author] = m
		if m.Merges(s.cfg.Now()) && !read.muted[m.Author] {
			read.merged = append(read.merged, followee{author: m.Author, from: m.Pull, pulled: m.Kind == schema.MarkPulled})
		}
		if m.Kind == schema.MarkBackfill && m.TTL.IsZero() && s.cfg.Now().Sub(timeOf(m.Version)) > lateAfter {
			read.late = append(read.late, m)
		}
	}
	if page.more {
		read.last = page.items[marksPage-1].Author
	}
	return read, nil
}

const (
	// lateAfter is the age from which a backfill that has not ended looks lost.
	lateAfter = 10 * time.Second
)

// hiding returns the marks of unfollowed authors whose entries are worth a removal. left
// counts the entries that this read has skipped.
func (s *Service) hiding(left map[schema.Mark]int) (many []schema.Mark) {
	for mark, entries := range left {
		if entries >= s.cfg.RemoveFrom {
			many = append(many, mark)
		}
	}
	slices.SortFunc(many, func(a, b schema.Mark) int { return cmp.Compare(a.Author, b.Author) })
	return many
}

// remind publishes, at a limited rate, Followed again for marks whose event may have been
// lost in a crash, Unfollowed for marks that hide many entries, and Seen. Without it the home
// is right too, but each read costs more.
func (s *Service) remind(ctx context.Context, viewer string, late []schema.Mark, seen bool) {
	var msgs []*message.Message
	ctx, cancel := context.WithTimeout(ctx, remindFor)
	defer cancel()
	for _, m := range late {
		if len(msgs) == readers {
			break
		}
		if !s.reminders.allow(m.Version) {
			continue
		}
		var e messages.Event = &messages.Followed{FollowerID: m.User, AuthorID: m.Author, From: m.From, MarkVersion: m.Version}
		if m.Kind == schema.MarkUnfollowed {
			e = &messages.Unfollowed{FollowerID: m.User, AuthorID: m.Author, MarkVersion: m.Version}
		}
		msg, err := s.message(ctx, e, "")
		if err != nil {
			s.cfg.Log.Error("late backfill or removal not requested again", zap.String("follower", m.User), zap.String("author", m.Author), zap.Error(err))
			continue
		}
		msgs = append(msgs, msg)
	}
	if seen = seen && s.seen.allow(viewer); seen {
		msg, err := s.message(ctx, &messages.Seen{UserID: viewer}, "")
		if err != nil {
			s.cfg.Log.Error("refresh not requested", zap.String("user_id", viewer), zap.Error(err))
		} else {
			msgs = append(msgs, msg)
		}
	}
	if len(msgs) == 0 {
		return
	}
	if err := s.send(msgs...); err != nil {
		if seen {
			s.seen.forget(viewer)
		}
		s.cfg.Log.Warn("late backfills, removals or refreshes not requested", zap.Int("messages", len(msgs)), zap.Error(err))
	}
}
