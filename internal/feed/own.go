package feed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// ownList is a kind of thing that one user keeps: a mute, a bookmark or a read marker. Only calls of the
// user write such a thing, and a user may have most of each kind in one life.
type ownList[T any] struct {
	// all returns the query for the things of a user.
	all   func(user string) table.Query
	parse func(table.Item) (T, error)
	// former reports whether a thing is of a former life, all of whose ids are at most after.
	former func(t T, after string) bool
	// same holds while a thing has not changed since the read.
	same func(T) table.Cond
	// end ends a thing if its user has not renewed the thing after the read, and reports whether the
	// thing no longer exists.
	end  func(s *Service, ctx context.Context, t T) (ended bool, err error)
	most int
	// sort and full are the refusal of one thing more. full has a verb for most.
	sort, full string
}

// ofThisLife returns the things of the user's present life.
func (o ownList[T]) ofThisLife(ctx context.Context, s *Service, user, after string) (all []T, err error) {
	err = s.access.EachItem(ctx, o.all(user), func(it table.Item) error {
		t, err := o.parse(it)
		if err == nil && !o.former(t, after) {
			all = append(all, t)
		}
		return fault.Wrap("table", err)
	})
	return all, err
}

// mayMore refuses a thing beyond the limit. The things of former lives do not count.
func (o ownList[T]) mayMore(ctx context.Context, s *Service, user, after string) error {
	all, err := o.ofThisLife(ctx, s, user, after)
	if err == nil && len(all) >= o.most {
		err = o.refusal()
	}
	return err
}

func (o ownList[T]) refusal() error {
	return &fault.Error{Kind: fault.Limit, Of: o.sort, Detail: fmt.Sprintf(o.full, o.most)}
}

// place returns the condition for the write of a thing, or nil if the present life has the thing. A
// stored thing of a former life is replaced while it has not changed, because a removal may be about to
// delete it. If no thing is stored, mayMore decides.
func (o ownList[T]) place(stored *T, after string, mayMore func() error) (table.Cond, error) {
	switch {
	case stored == nil:
		return table.Absent{}, mayMore()
	case o.former(*stored, after):
		return o.same(*stored), nil
	}
	return nil, nil
}

// Own is a sort of things that one user keeps, for a removal of the user.
type Own struct {
	All table.Query
	// End ends the thing of an item if the thing is of a former life, all of whose ids are at most former.
	End func(ctx context.Context, it table.Item, former string) (ended bool, err error)
}

func (o ownList[T]) of(s *Service, user string) Own {
	all := o.all(user)
	all.Consistent = true
	return Own{all, func(ctx context.Context, it table.Item, former string) (bool, error) {
		t, err := o.parse(it)
		if err != nil || !o.former(t, former) {
			return false, fault.Wrap("table", err)
		}
		return o.end(s, ctx, t)
	}}
}

// stored reads a thing from a found item, nil for none.
func (o ownList[T]) stored(it *table.Item) (*T, error) {
	if it == nil {
		return nil, nil
	}
	t, err := o.parse(*it)
	return &t, fault.Wrap("table", err)
}

// transactIfUnchanged sends a transaction and reports whether its conditions held. It returns false if
// a condition failed.
func (s *Service) transactIfUnchanged(ctx context.Context, ops []table.TransactOp) (done bool, err error) {
	err = s.access.Transact(ctx, ops...)
	if access.ConditionFailed(err) {
		return false, nil
	}
	return err == nil, fault.Wrap("table", err)
}

// ownForEachPost bounds the query of a viewer's own likes or bookmarks: for each post of a page, the query
// reads ownForEachPost items at most. These items cost a fifth of the read of the page's items by key.
const ownForEachPost = 3

// ownOfPosts reads a user's likes, bookmarks or reposts of the posts of a page, by one call: the items of q's
// partition between the page's oldest and newest post. If the user has very many items of that time, rest
// has the posts whose items remain to be read by key (docs/decisions/0020). The read is not consistent.
func (s *Service) ownOfPosts(ctx context.Context, q table.Query, refs []access.Ref, each func(table.Item) error) (rest []access.Ref, err error) {
	older := func(a, b access.Ref) int { return strings.Compare(a.Post, b.Post) }
	q.Low, q.High = schema.PostSK(slices.MinFunc(refs, older).Post), schema.PostSK(slices.MaxFunc(refs, older).Post)
	q.Descending, q.PageSize = true, ownForEachPost*len(refs)
	for page, err := range s.access.Store.Query(ctx, q) {
		if err != nil {
			return nil, fault.Wrap("table", err)
		}
		for _, it := range page.Items {
			if err := each(it); err != nil {
				return nil, fault.Wrap("table", err)
			}
		}
		if n := len(page.Items); page.More && n > 0 {
			last := page.Items[n-1].Key.SK
			if q.Index {
				last = page.Items[n-1].Str(table.AttrGSI1SK)
			}
			return slices.DeleteFunc(slices.Clone(refs), func(r access.Ref) bool { return schema.PostSK(r.Post) >= last }), nil
		}
	}
	return nil, nil
}
