package feed

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// pushed is the home by push: the timeline, without the authors whose mark says
// unfollowed, and with the recent posts of those whose mark says that pushing alone
// is not enough.
type pushed struct {
	s              *Service
	viewer, oldest string
	// marks are the first page of the viewer's, read once a request.
	marks *marks
}

// marksPage is how many marks are held at a time. There is a mark for each author
// who was followed or unfollowed lately, hence one page of almost everybody's.
const marksPage = 1000

// marks are a page of a home's marks, in the order of their authors.
type marks struct {
	unfollowed map[string]bool
	merged     []followee
	// late are backfills that should have ended long ago.
	late []schema.Mark
	// last is the last author of the page if there may be more, else "".
	last string
}

func (p *pushed) next(ctx context.Context, before string, want int) ([]ref, error) {
	var entries []ref
	var more bool
	reads := []func(context.Context) error{func(ctx context.Context) (err error) {
		entries, more, err = p.entries(ctx, before, want)
		return err
	}}
	first := p.marks == nil
	if first {
		reads = append(reads, func(ctx context.Context) (err error) { p.marks, err = p.s.readMarks(ctx, p.viewer, ""); return err })
	}
	if err := all(ctx, reads...); err != nil {
		return nil, err
	}
	var top []ref
	for {
		unfollowed, err := p.unfollowed(ctx, entries)
		if err != nil {
			return nil, err
		}
		for _, r := range entries {
			if !unfollowed[r.author] && len(top) < want {
				top = append(top, r)
			}
		}
		if len(top) == want || !more {
			break
		}
		// what was left out is filled up
		if entries, more, err = p.entries(ctx, entries[len(entries)-1].post, want); err != nil {
			return nil, err
		}
	}
	var reminding sync.WaitGroup
	defer reminding.Wait()
	for page := p.marks; ; {
		if first {
			late := page.late
			reminding.Wait()
			reminding.Go(func() { p.s.remind(ctx, late) })
		}
		var err error
		if top, err = p.s.newestOf(ctx, page.merged, p.oldest, before, want, top); err != nil || page.last == "" {
			return top, err
		}
		if page, err = p.s.readMarks(ctx, p.viewer, page.last); err != nil {
			return nil, err
		}
	}
}

// unfollowed tells which authors of entries are unfollowed. The first page of marks
// knows it of the authors up to its last one; the marks of those behind it are read
// by their keys, so that memory does not grow with what was ever unfollowed (I9).
func (p *pushed) unfollowed(ctx context.Context, entries []ref) (map[string]bool, error) {
	if p.marks.last == "" {
		return p.marks.unfollowed, nil
	}
	unfollowed := map[string]bool{}
	var keys []table.Key
	for _, r := range entries {
		if _, seen := unfollowed[r.author]; seen {
			continue
		}
		unfollowed[r.author] = p.marks.unfollowed[r.author]
		if r.author > p.marks.last {
			keys = append(keys, schema.MarkKey(p.viewer, r.author))
		}
	}
	found, err := p.s.batchGet(ctx, keys, true) // consistent, for I2
	if err != nil {
		return nil, err
	}
	for _, it := range found {
		m, err := schema.ParseMark(it)
		if err != nil {
			return nil, unavailable("table", err)
		}
		unfollowed[m.Author] = m.Kind == schema.MarkUnfollowed
	}
	return unfollowed, nil
}

// entries reads want timeline entries below before, and whether there may be more.
func (p *pushed) entries(ctx context.Context, before string, want int) ([]ref, bool, error) {
	q := table.Query{
		PK: schema.TimelinePK(p.viewer), Low: schema.PostSK(p.oldest),
		Descending: true, PageSize: want, Consistent: true,
	}
	if before != "" {
		if before <= p.oldest {
			return nil, false, nil
		}
		q.After = schema.PostSK(before) // below each entry of that post
	}
	return collect(p.s.store.Query(ctx, q), want, each(func(it table.Item) (ref, bool, error) {
		e, err := schema.ParseEntry(it)
		return ref{e.Post, e.Author, e.LikeShards}, true, err
	}))
}

// readMarks reads the page of viewer's marks behind the author after, "" for the
// first. It is consistent, for I2.
func (s *Service) readMarks(ctx context.Context, viewer, after string) (*marks, error) {
	q := table.Query{PK: schema.MarksPK(viewer), PageSize: marksPage, Consistent: true}
	if after != "" {
		q.After = schema.UserSK(after)
	}
	page, more, err := collect(s.store.Query(ctx, q), marksPage, each(func(it table.Item) (schema.Mark, bool, error) {
		m, err := schema.ParseMark(it)
		return m, true, err
	}))
	if err != nil {
		return nil, err
	}
	read := &marks{unfollowed: map[string]bool{}}
	for _, m := range page {
		if m.Kind == schema.MarkUnfollowed {
			read.unfollowed[m.Author] = true
			continue
		}
		read.merged = append(read.merged, followee{m.Author, m.From})
		if m.Kind == schema.MarkBackfill && m.TTL.IsZero() && s.now().Sub(timeOf(m.Version)) > lateAfter {
			read.late = append(read.late, m)
		}
	}
	if more {
		read.last = page[len(page)-1].Author
	}
	return read, nil
}

// Reminders of late backfills.
const (
	// lateAfter is the age at which a backfill that has not ended looks lost.
	lateAfter = 10 * time.Second
	// remindFor bounds how long a home read waits for them.
	remindFor = time.Second
)

// remind publishes Followed again for marks whose event may have been lost in a
// crash, at a limited rate. The home is right without: it only costs more.
func (s *Service) remind(ctx context.Context, late []schema.Mark) {
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
		e := &messages.Followed{FollowerID: m.User, AuthorID: m.Author, From: m.From, MarkVersion: m.Version}
		msg, err := s.message(ctx, e)
		if err != nil {
			s.log.Error("backfill not asked for again", zap.String("follower", m.User), zap.String("author", m.Author), zap.Error(err))
			continue
		}
		msgs = append(msgs, msg)
	}
	if len(msgs) == 0 {
		return
	}
	err := panics.Catch(func() error { return s.publisher.Publish(queue.TopicPosts, msgs...) })
	if err != nil {
		s.log.Warn("backfills not asked for again", zap.Int("backfills", len(msgs)), zap.Error(err))
	}
}
