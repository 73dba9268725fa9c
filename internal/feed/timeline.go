package feed

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/messages"
)

// pushed is the home by push: the timeline, without the authors whose mark says
// unfollowed, and with the recent posts of those whose mark says that pushing alone
// is not enough.
type pushed struct {
	s              *Service
	viewer, oldest string
	marks          *marks
}

// marks are a home's marks, read once a request. There is one for each author who
// was followed or unfollowed lately, so they are bounded by what one user does.
type marks struct {
	unfollowed map[string]bool
	merged     []followee
	// late are backfills that should have ended long ago.
	late []table.Mark
}

func (p *pushed) next(ctx context.Context, before string, want int) ([]ref, error) {
	var entries []ref
	var more bool
	reads := []func(context.Context) error{func(ctx context.Context) (err error) {
		entries, more, err = p.entries(ctx, before, want)
		return err
	}}
	if p.marks == nil {
		reads = append(reads, func(ctx context.Context) (err error) { p.marks, err = p.s.readMarks(ctx, p.viewer); return err })
	}
	first := p.marks == nil
	if err := all(ctx, reads...); err != nil {
		return nil, err
	}
	var reminding sync.WaitGroup
	defer reminding.Wait()
	if first {
		reminding.Go(func() { p.s.remind(ctx, p.marks.late) })
	}
	var top []ref
	for {
		for _, r := range entries {
			if !p.marks.unfollowed[r.author] && len(top) < want {
				top = append(top, r)
			}
		}
		if len(top) == want || !more {
			break
		}
		var err error // what was left out is filled up
		if entries, more, err = p.entries(ctx, entries[len(entries)-1].post, want); err != nil {
			return nil, err
		}
	}
	return p.s.newestOf(ctx, p.marks.merged, p.oldest, before, want, top)
}

// entries reads want timeline entries below before, and whether there may be more.
func (p *pushed) entries(ctx context.Context, before string, want int) ([]ref, bool, error) {
	q := table.Query{
		PK: table.TimelinePK(p.viewer), Low: table.PostSK(p.oldest),
		Descending: true, PageSize: want, Consistent: true,
	}
	if before != "" {
		if before <= p.oldest {
			return nil, false, nil
		}
		q.After = table.PostSK(before) // below each entry of that post
	}
	return collect(p.s.store.Query(ctx, q), want, each(func(it table.Item) (ref, bool, error) {
		e, err := table.ParseEntry(it)
		return ref{e.Post, e.Author, e.LikeShards}, true, err
	}))
}

func (s *Service) readMarks(ctx context.Context, viewer string) (*marks, error) {
	read := &marks{unfollowed: map[string]bool{}}
	q := table.Query{PK: table.MarksPK(viewer), Consistent: true}
	for page, err := range s.store.Query(ctx, q) {
		if err != nil {
			return nil, unavailable("table", err)
		}
		for _, it := range page.Items {
			m, err := table.ParseMark(it)
			if err != nil {
				return nil, unavailable("table", err)
			}
			if m.Kind == table.MarkUnfollowed {
				read.unfollowed[m.Author] = true
				continue
			}
			read.merged = append(read.merged, followee{m.Author, m.From})
			if m.Kind == table.MarkBackfill && m.TTL.IsZero() && s.now().Sub(timeOf(m.Version)) > lateAfter {
				read.late = append(read.late, m)
			}
		}
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
func (s *Service) remind(ctx context.Context, late []table.Mark) {
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
	if err := s.publisher.Publish(queue.TopicPosts, msgs...); err != nil {
		s.log.Warn("backfills not asked for again", zap.Int("backfills", len(msgs)), zap.Error(err))
	}
}
