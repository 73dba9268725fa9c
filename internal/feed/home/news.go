package home

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// MaxUnread is the highest number to which a home's newer posts are counted.
const MaxUnread = 100

// HomeNews returns a page of the posts of viewer's home that are newer than query.After, newest first,
// and the number of such posts. If there are none, HomeNews reads only the timeline and the marks. If
// a page is not enough, HomeNews also reads which of the next MaxUnread posts live. That read is not
// consistent, because the page shows only the number of these posts. In a gathered home, HomeNews
// counts the gathered posts. The number is too low if the home has more hidden posts than TableCalls
// allows to skip.
func (h *Homes) HomeNews(ctx context.Context, viewer string, query Query, in page.Request) (News, error) {
	first, err := h.Home(ctx, viewer, query, in)
	if err != nil || in.Cursor != "" {
		return News{List: first}, err
	}
	news := News{List: first, Unread: len(first.Items)}
	if first.NextCursor == "" || news.Unread >= MaxUnread {
		return news, nil
	}
	at, gathers, err := homeAt(viewer, query.After, first.NextCursor)
	if err != nil {
		return News{}, err
	}
	if gathers && at.after != everyFollowee {
		return news, nil
	}
	once := feed.NewOnce(at.once) // a post counts once, too (I16)
	if gathers {
		refs, originals, err := h.stillShown(ctx, viewer, at.posts)
		for _, r := range refs {
			if once.Takes(r.Post, feed.Reference{RepostOf: originals[r.Post]}) {
				news.Unread++
			}
		}
		news.Unread = min(news.Unread, MaxUnread)
		return news, err
	}
	// Each round reads the entries and the posts. The first round also reads the marks.
	calls := page.BudgetAfter(3)
	of, err := h.newerThan(ctx, query.After)
	if err != nil {
		return News{}, err
	}
	source := h.source(viewer, query.Pull, of)
	for before := at.before; ; {
		refs, again, err := source.whole(ctx, calls, before, MaxUnread)
		if errors.Is(err, errGathered) {
			return news, nil
		}
		if err != nil {
			return News{}, err
		}
		posts, err := h.access.BatchGet(ctx, access.PostKeys(refs.Items), false, schema.AttrRepostOf)
		if err != nil {
			return News{}, err
		}
		for _, r := range refs.Items {
			it, there := posts[schema.PostKey(r.Author, r.Post)]
			p, err := schema.ParsePost(it) //nolint:forbidigo // the number of the posts, which the home shows
			if there && err != nil {
				return News{}, fault.Wrap("table", err)
			}
			if there && once.Takes(p.ID, p.Reference) {
				news.Unread++
			}
		}
		if news.Unread >= MaxUnread || len(refs.Items) < MaxUnread || !calls.Take(again+1) {
			news.Unread = min(news.Unread, MaxUnread)
			return news, nil
		}
		before = refs.Items[MaxUnread-1].Post
	}
}

// News is a page of the posts of a home that are newer than Query.After.
type News struct {
	page.List[feed.HomeItem]
	// Unread is the number of all newer posts. The value MaxUnread stands for MaxUnread posts or more.
	// Only the first page has Unread.
	Unread int
}

// Tag is equal for two answers to one request if both answers list the same posts and count the same
// number of posts. Names and like counts may differ.
func (n News) Tag() string {
	h := sha256.New()
	fmt.Fprintln(h, n.Unread, n.NextCursor != "")
	for _, item := range n.Items {
		fmt.Fprintln(h, item.Post.ID)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}
