package home

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// pushSource computes a home from the viewer's timeline and marks. pushSource leaves out unfollowed
// and muted authors, and posts below the first post that a follow shows. pushSource merges in the post
// lists of authors with a backfill or pulled mark, because the timeline may lack posts of these
// authors.
type pushSource struct {
	homes  *Homes
	viewer string
	of     access.Span
	// marks is the first page of the viewer's marks. A request reads the first page once.
	marks *marks
}

// marksPage is the number of marks in memory at a time. A home has a mark for each busy author that
// its user followed within the timeline's TTL, and for each author that its user unfollowed within the
// TTL plus 30 days. So one page is enough for nearly every home.
const marksPage = 1000

// marks is a page of a home's marks, in the order of their authors.
type marks struct {
	// of holds the mark of each author.
	of     map[string]schema.Mark
	merged []followee
	// muted contains all muted authors. The first page of marks has the mutes.
	muted map[string]bool
	// late contains the marks whose backfills should have ended long ago.
	late []schema.Mark
	// last is the last author of the page if more marks may follow, else "".
	last string
	// presence is the reader's presence, nil if the reader has no presence. The first page of marks has
	// the presence.
	presence *schema.Presence
}

// next returns references as source.next does. byPull reports that some entries are missing.
func (p *pushSource) next(ctx context.Context, calls *page.Budget, last string, want int) (top page.Stretch[access.Ref], again int, byPull bool, err error) {
	part := p.of.After(last)
	var entries page.Stretch[access.Ref]
	reads := []func(context.Context) error{func(ctx context.Context) (err error) {
		entries, err = p.entries(ctx, part, want)
		return err
	}}
	firstCall := p.marks == nil
	if firstCall {
		reads = append(reads, func(ctx context.Context) (err error) {
			p.marks, err = p.homes.readMarks(ctx, p.viewer, "", nil)
			return err
		})
	}
	if err := p.homes.access.All(ctx, reads...); err != nil {
		return page.Stretch[access.Ref]{}, 0, false, err
	}
	seen := false
	if firstCall {
		var pull bool
		if pull, seen = p.homes.byPull(ctx, p.viewer, p.marks.presence); pull {
			return page.Stretch[access.Ref]{}, 0, true, nil
		}
	}
	left := map[schema.Mark]int{} // the entries of unfollowed authors, by the mark
	for size := want; ; {
		marks, err := p.marksOf(ctx, calls, entries.Items)
		if err != nil {
			return page.Stretch[access.Ref]{}, 0, false, err
		}
		for _, r := range entries.Items {
			switch m := marks[r.Author]; {
			case m.Kind == schema.MarkUnfollowed:
				left[m]++
			case !m.Hides(r.Post) && !p.marks.muted[r.Author] && len(top.Items) < want:
				top.Items = append(top.Items, r)
			}
		}
		if len(top.Items) == want || !entries.More {
			break
		}
		// Read further entries to replace the entries that this read left out.
		end := entries.Items[len(entries.Items)-1].Post
		if !calls.Take(1) {
			top.Cut = end
			break
		}
		size = page.Grown(size, page.MostRefill)
		if entries, err = p.entries(ctx, part.After(end), size); err != nil {
			return page.Stretch[access.Ref]{}, 0, false, err
		}
	}
	var reminding sync.WaitGroup
	defer reminding.Wait()
	again = 1 // one call for the entries
	read := part.UpTo(top.Cut)
	if len(top.Items) == want {
		read = part.UpTo(top.Items[want-1].Post)
	}
	if inGap(p.marks.presence, read) {
		if firstCall {
			p.homes.remind(ctx, p.viewer, slices.Concat(p.marks.late, p.homes.hiding(left)), seen)
		}
		return page.Stretch[access.Ref]{}, 0, true, nil
	}
	for read := p.marks; ; again++ {
		if firstCall {
			late := slices.Concat(read.late, p.homes.hiding(left))
			left = nil
			reminding.Wait()
			reminding.Go(func() { p.homes.remind(ctx, p.viewer, late, seen) })
		}
		again += len(read.merged)
		if top, err = p.homes.mergedPosts(ctx, wantedPosts{calls, part, want}, read.merged, top); err != nil || read.last == "" {
			return top, again, false, err
		}
		calls.Spend(1)
		if read, err = p.homes.readMarks(ctx, p.viewer, read.last, p.marks.muted); err != nil {
			return page.Stretch[access.Ref]{}, 0, false, err
		}
	}
}

// marksOf returns the marks of the authors of entries. The first page of marks has the marks of all authors up
// to its last author. The marks of later authors are read by their keys, so that memory does not grow with the
// number of marks (I9).
func (p *pushSource) marksOf(ctx context.Context, calls *page.Budget, entries []access.Ref) (map[string]schema.Mark, error) {
	if p.marks.last == "" {
		return p.marks.of, nil
	}
	marks := map[string]schema.Mark{}
	var keys []table.Key
	for _, r := range entries {
		if _, seen := marks[r.Author]; seen {
			continue
		}
		marks[r.Author] = p.marks.of[r.Author]
		if r.Author > p.marks.last {
			keys = append(keys, schema.MarkKey(p.viewer, r.Author))
		}
	}
	calls.Spend(access.Batches(len(keys)))
	found, err := p.homes.access.BatchGet(ctx, keys, true) // consistent, for I2
	if err != nil {
		return nil, err
	}
	for _, it := range found {
		if !schema.KnownMark(it) {
			continue
		}
		m, err := schema.ParseMark(it)
		if err != nil {
			return nil, fault.Wrap("table", err)
		}
		marks[m.Author] = m
	}
	return marks, nil
}

// entries reads want timeline entries of a span, and reports whether more entries may follow.
func (p *pushSource) entries(ctx context.Context, of access.Span, want int) (page.Stretch[access.Ref], error) {
	if of.Empty() {
		return page.Stretch[access.Ref]{}, nil
	}
	return page.Collect(ctx, p.homes.access.Store, of.Query(schema.TimelinePK(p.viewer)), want, page.Refill{}, page.Each(func(it table.Item) (access.Ref, bool, error) {
		e, err := schema.ParseEntry(it)
		return access.Ref{Post: e.Post, Author: e.Author, LikeShards: e.LikeShards}, true, err
	}))
}

// readMarks reads the page of viewer's marks after the author after, or the first page if after is "".
// The first page includes the muted authors; for later pages, the caller passes these authors in
// muted. The read is consistent, for I2.
func (h *Homes) readMarks(ctx context.Context, viewer, after string, muted map[string]bool) (*marks, error) {
	q := table.Query{PK: schema.MarksPK(viewer), Consistent: true}
	if after != "" {
		q.After = schema.UserSK(after)
	}
	read := &marks{of: map[string]schema.Mark{}, muted: muted}
	page, err := page.Collect(ctx, h.access.Store, q, marksPage, page.Refill{}, page.Each(func(it table.Item) (schema.Mark, bool, error) {
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
	for _, m := range page.Items {
		read.of[m.Author] = m
		if m.Merges(h.access.Now()) && !read.muted[m.Author] {
			read.merged = append(read.merged, followee{author: m.Author, from: m.Pull, pulled: m.Kind == schema.MarkPulled})
		}
		if m.Kind == schema.MarkBackfill && m.TTL.IsZero() && h.access.Now().Sub(access.TimeOf(m.Version)) > lateAfter {
			read.late = append(read.late, m)
		}
	}
	if page.More {
		read.last = page.Items[marksPage-1].Author
	}
	return read, nil
}

const (
	// lateAfter is the age from which a backfill that has not ended counts as lost.
	lateAfter = 10 * time.Second
)

// hiding returns the marks of unfollowed authors with enough entries for a removal. left is the number
// of entries that this read has skipped, by mark.
func (h *Homes) hiding(left map[schema.Mark]int) (many []schema.Mark) {
	for mark, entries := range left {
		if entries >= h.cfg.RemoveFrom {
			many = append(many, mark)
		}
	}
	slices.SortFunc(many, func(a, b schema.Mark) int { return cmp.Compare(a.Author, b.Author) })
	return many
}

// remind publishes events at a limited rate: Followed for marks whose event may have been lost in a
// crash, Unfollowed for marks that hide many entries, and Seen. Homes are correct without remind, but
// each read would cost more.
func (h *Homes) remind(ctx context.Context, viewer string, late []schema.Mark, seen bool) {
	var msgs []*message.Message
	ctx, cancel := context.WithTimeout(ctx, remindFor)
	defer cancel()
	for _, m := range late {
		if len(msgs) == access.Readers {
			break
		}
		if !h.reminders.allow(m.Version) {
			continue
		}
		var e messages.Event = &messages.Followed{FollowerID: m.User, AuthorID: m.Author, From: m.From, MarkVersion: m.Version, FollowID: m.FollowID}
		if m.Kind == schema.MarkUnfollowed {
			e = &messages.Unfollowed{FollowerID: m.User, AuthorID: m.Author, MarkVersion: m.Version}
		}
		msg, err := h.access.Message(ctx, e, "")
		if err != nil {
			h.access.Log.Error("late backfill or removal not requested again", zap.String("follower", m.User), zap.String("author", m.Author), zap.Error(err))
			continue
		}
		msgs = append(msgs, msg)
	}
	if seen = seen && h.seen.allow(viewer); seen {
		msg, err := h.access.Message(ctx, &messages.Seen{UserID: viewer}, "")
		if err != nil {
			h.access.Log.Error("refresh not requested", zap.String("user_id", viewer), zap.Error(err))
		} else {
			msgs = append(msgs, msg)
		}
	}
	if len(msgs) == 0 {
		return
	}
	if err := h.send(msgs...); err != nil {
		if seen {
			h.seen.forget(viewer)
		}
		h.access.Log.Warn("late backfills, removals or refreshes not requested", zap.Int("messages", len(msgs)), zap.Error(err))
	}
}
