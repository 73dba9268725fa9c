package transfer

import (
	"context"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// written returns which of the posts were written before.
func (e *exporter) written(_ context.Context, posts []string) (map[string]bool, error) {
	written := map[string]bool{}
	for _, post := range posts {
		_, written[post] = e.posts[hashOf(post)]
	}
	return written, nil
}

// kept writes the posts that a user keeps in the order of post ids, which is defined even if two records have the same
// time. The sort keys of pk are the posts. The function of returns the post of an item, and the id with the time of the
// record.
func (e *exporter) kept(ctx context.Context, k kind, user, pk string, most int, of func(table.Item) (post, at string, err error)) error {
	var all []record
	q := table.Query{PK: pk, Low: schema.PostSK(id.Min), Consistent: true, PageSize: table.MaxBatchGet}
	for page, err := range e.store.Query(ctx, q) {
		if err != nil {
			return err
		}
		posts := make([]string, len(page.Items))
		for i, it := range page.Items {
			posts[i], _ = schema.PostOfSK(it.Key.SK) // the query returns only keys of posts
		}
		living, err := e.living(ctx, posts)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			post, v, err := of(it)
			if err != nil {
				return err
			}
			if !living[post] {
				continue
			}
			at, err := id.Time(v)
			if err != nil {
				return err
			}
			all = append(all, record{Type: k, PostID: post, UserID: user, Time: at})
		}
	}
	return e.within(most, all)
}

// alive returns which of the posts live, and belong to users of the export.
func (e *exporter) alive(ctx context.Context, posts []string) (map[string]bool, error) {
	if len(posts) == 0 {
		return nil, nil
	}
	keys, living := make([]table.Key, len(posts)), map[string]bool{}
	for i, post := range posts {
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
		living[ref.ID] = !ref.Gone(e.cfg.Now()) && (e.single || e.users[ref.Author])
	}
	return living, nil
}
