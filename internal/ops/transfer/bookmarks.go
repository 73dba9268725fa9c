package transfer

import (
	"context"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

func (im *importer) bookmark(ctx context.Context, r *record) error {
	return im.feed.ImportBookmark(ctx, r.UserID, im.index.postID(r.PostID), r.Time)
}

// written returns which of the bookmarked posts were written before.
func (e *exporter) written(_ context.Context, bookmarks []table.Item) (map[string]bool, error) {
	written := map[string]bool{}
	for _, it := range bookmarks {
		post, _ := schema.PostOfSK(it.Key.SK) // the query returns only keys of posts
		_, written[post] = e.posts[hashOf(post)]
	}
	return written, nil
}

// bookmarks writes the bookmarks of a user in the order of post ids, which is defined even if two bookmarks have the same
// time.
func (e *exporter) bookmarks(ctx context.Context, user string) error {
	var all []record
	q := table.Query{PK: schema.BookmarksPK(user), Low: schema.PostSK(id.Min), Consistent: true, PageSize: table.MaxBatchGet}
	for page, err := range e.store.Query(ctx, q) {
		if err != nil {
			return err
		}
		living, err := e.living(ctx, page.Items)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			b, err := schema.ParseBookmark(it)
			if err != nil {
				return err
			}
			if !living[b.Post] {
				continue
			}
			at, err := id.Time(b.V)
			if err != nil {
				return err
			}
			all = append(all, record{Type: kindBookmark, PostID: b.Post, UserID: user, Time: at})
		}
	}
	return e.within(feed.MaxBookmarks, all)
}

// alive returns which of the bookmarked posts live.
func (e *exporter) alive(ctx context.Context, bookmarks []table.Item) (map[string]bool, error) {
	if len(bookmarks) == 0 {
		return nil, nil
	}
	keys, living := make([]table.Key, len(bookmarks)), map[string]bool{}
	for i, it := range bookmarks {
		post, _ := schema.PostOfSK(it.Key.SK) // the query returns only keys of posts
		keys[i] = schema.PostByIDKey(post)
	}
	res, err := e.store.BatchGet(ctx, table.BatchGetInput{Keys: keys, Consistent: true})
	if err != nil {
		return nil, err
	}
	for _, it := range res.Items {
		ref, err := schema.ParsePostRef(it)
		if err != nil {
			return nil, err
		}
		living[ref.ID] = !ref.Gone(e.cfg.Now())
	}
	return living, nil
}
