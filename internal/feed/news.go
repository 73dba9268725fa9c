package feed

import (
	"context"
	"errors"

	"fanfare/internal/schema"
)

// MaxUnread is the number up to which the newer posts of a home are counted.
const MaxUnread = 100

// HomeNews returns a page of the posts of viewer's home that are newer than query.After,
// newest first, and their number. Finding none takes the reads of the timeline and of the
// marks only. If there are more than a page, it also reads which of the next MaxUnread live,
// and not consistently: it shows nothing of them. The number is too low if more hidden posts
// are in the way than tableCalls bounds, and that of a home which is gathered counts the page.
func (s *Service) HomeNews(ctx context.Context, viewer string, query HomeQuery, in PageRequest) (HomeNews, error) {
	page, err := s.Home(ctx, viewer, query, in)
	if err != nil || in.Cursor != "" {
		return HomeNews{List: page}, err
	}
	news := HomeNews{List: page, Unread: len(page.Items)}
	if page.NextCursor == "" || news.Unread >= MaxUnread {
		return news, nil
	}
	at, gathers, err := homeAt(viewer, query.After, page.NextCursor)
	if err != nil || gathers {
		return news, err
	}
	// For each round: the entries, the marks if it is the first, and the posts.
	calls := budgetAfter(3)
	of := s.newerThan(query.After)
	source, _, err := s.refSource(ctx, viewer, query.Pull, of)
	if err != nil || source == nil {
		return news, err
	}
	for before := at.before; ; {
		refs, again, err := source.next(ctx, calls, before, MaxUnread)
		if errors.Is(err, errByPull) { // as the page was
			if source, _, err = s.refSource(ctx, viewer, true, of); err != nil || source == nil {
				return news, err
			}
			continue
		}
		if err != nil {
			return HomeNews{}, err
		}
		posts, err := s.batchGet(ctx, postKeys(homeKeysOf(refs.items)), false, schema.AttrLikeShards) // or any other small one
		if err != nil {
			return HomeNews{}, err
		}
		news.Unread += len(posts)
		if news.Unread >= MaxUnread || len(refs.items) < MaxUnread || !calls.take(again+1) {
			news.Unread = min(news.Unread, MaxUnread)
			return news, nil
		}
		before = refs.items[MaxUnread-1].post
	}
}
