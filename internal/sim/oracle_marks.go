package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// A home is right but expensive if one of its marks waits for a lost backfill, or hides entries of
// an unfollowed author. The next reads of such a home request the backfill or the removal again
// (I6).

// mostAsked is the maximum number of reads of a home with remaining work.
const mostAsked = 5

// askAgain makes users read homes with remaining work until no work remains.
func (w *World) askAgain() {
	l := w.load
	skew := func(p *Proc) time.Duration { return time.Duration(p.skew.Load()).Abs() }
	api := slices.MinFunc(l.apis, func(a, b *Proc) int { return int(skew(a) - skew(b)) })
	if skew(api) > time.Minute {
		return // the read may treat a lost backfill as a young one
	}
	var left []string
	for asked := 0; asked <= mostAsked; asked++ {
		left = nil
		for _, user := range l.users {
			if !api.up() {
				return // the process may fall asleep in quiet times, too
			}
			if work := w.leftIn(user); len(work) > 0 {
				left = append(left, work...)
				l.run(l.wholeHome(user), api)
			}
		}
		if len(left) == 0 || !w.calm() {
			return
		}
	}
	l.fail("I6", "nobody asks again for %v", left)
}

// wholeHome reads a home in one page that is large enough for all posts of this world.
func (l *workload) wholeHome(user string) *operation {
	return &operation{
		name: "home", user: user,
		do: func(ctx context.Context, s *domain) error {
			_, err := s.Home(ctx, user, home.Query{}, page.Request{Limit: page.MaxLimit})
			return err
		},
		settle: func(error) {}, // the process may be killed even in quiet times
	}
}

// leftIn returns the remaining work of a home: backfills that are not done, entries of
// unfollowed authors, and a return.
func (w *World) leftIn(user string) (work []string) {
	entries := map[string]int{} // number of entries by author
	timeline := w.partition(schema.TimelinePK(user))
	for _, it := range timeline {
		if e, err := schema.ParseEntry(it); err == nil && !w.mayHaveExpired(e.Post) && len(timeline) <= page.MaxLimit {
			entries[e.Author]++
		}
	}
	work = w.awayFrom(user)
	if p := w.presenceOf(user); p != nil && time.Now().Before(p.At) {
		return work // a worker with a fast clock ended the return, so the home is read by pull for longer
	}
	for _, it := range w.partition(schema.MarksPK(user)) {
		if _, mark := schema.UserOfSK(it.Key.SK); !mark {
			continue
		}
		mark, err := schema.ParseMark(it)
		made, timeErr := id.Time(mark.Version)
		switch {
		case err != nil || timeErr != nil:
			w.load.fail("I6", "mark %v: %v, %v", it.Key, err, timeErr)
		case mark.Kind == schema.MarkBackfill && !it.Has(table.AttrTTL) && time.Since(made) > time.Minute:
			work = append(work, fmt.Sprintf("the backfill of %s to %s", mark.Author, user))
		case mark.Kind == schema.MarkUnfollowed && entries[mark.Author] > 0:
			work = append(work, fmt.Sprintf("the removal of %d entries of %s from the home of %s", entries[mark.Author], mark.Author, user))
		}
	}
	return work
}
