package feed

import (
	"context"
	"errors"
	"math"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// countPage is the number of comments that a count reads at once.
const countPage = 1000

// transactComment writes or deletes a comment by op, and changes the number of comments that
// the post has, in one transaction (I4, docs/decisions/0028). Such transactions write one
// item, so those of a post take turns in this process. The error is the transaction's own if
// op's condition failed.
func (s *Service) transactComment(ctx context.Context, author, post string, delta int64, op table.TransactOp) error {
	count := addTo(schema.PostKey(author, post), schema.AttrComments, delta)
	count.If = table.All{
		table.AttrAbsent{Name: schema.AttrDeleted}, table.AttrAbsent{Name: schema.AttrCountedTo},
		table.Less{Name: schema.AttrComments, Value: table.N(math.MaxInt64)}, // it is there
	}
	for try := 1; ; try++ {
		err := s.transactInTurn(ctx, lane{author: post}, op, table.TransactOp{Update: count})
		if !conditionFailed(err) {
			return unavailable("table", err)
		}
		cancelled, _ := errors.AsType[*table.CancelledError](err)
		if cancelled.Failed(0) || !cancelled.Failed(1) {
			return err
		}
		p, found, err := parsePost(cancelled.Reasons[1].Old)
		if err != nil {
			return err
		}
		if !found {
			return notFound("post %s was deleted", post)
		}
		if try == maxTries {
			return unavailable("table", cancelled)
		}
		if !p.Counted { // else another call has counted it since
			if _, err := s.countComments(ctx, budgetAfter(1), p); err != nil {
				return err
			}
		}
	}
}

// parsePost decodes a post that was read, and reports whether it is there and alive.
func parsePost(it *table.Item) (p schema.Post, living bool, err error) {
	if it == nil {
		return schema.Post{}, false, nil
	}
	if p, err = schema.ParsePost(*it); err != nil {
		return schema.Post{}, false, unavailable("table", err)
	}
	return p, !p.Deleted, nil
}

// countComments counts the comments of a post that an earlier version made, and stores their
// number. Until that is done no comment of the post is written or deleted, because
// transactComment asks for the number: so the comments that were counted stay the same. A
// post with more comments than the budget allows is counted in several calls. All but the
// last one are Unavailable, and store how far they came.
func (s *Service) countComments(ctx context.Context, calls *budget, p schema.Post) (int64, error) {
	q := table.Query{PK: schema.CommentsPK(p.ID), Consistent: true, PageSize: countPage, Project: []string{}}
	var same table.Cond = table.AttrAbsent{Name: schema.AttrComments}
	if p.CountedTo != "" {
		q.After, same = schema.CommentSK(p.CountedTo), table.Equal{Name: schema.AttrCountedTo, Value: table.S(p.CountedTo)}
	}
	n, last, whole := p.Comments, p.CountedTo, true
	for page, err := range s.cfg.Store.Query(ctx, q) {
		if err != nil {
			return 0, unavailable("table", err)
		}
		if n += int64(len(page.Items)); len(page.Items) > 0 {
			last = positionOf(page.Items[len(page.Items)-1].Key.SK)
		}
		if whole = !page.More; whole || last != "" && !calls.take(1) {
			break
		}
	}
	up := table.UpdateInput{
		Key: schema.PostKey(p.Author, p.ID), Set: []table.Attr{{Name: schema.AttrComments, Value: table.N(n)}},
		If: table.All{table.Exists{}, table.AttrAbsent{Name: schema.AttrDeleted}, same},
	}
	if whole {
		up.Remove = []string{schema.AttrCountedTo}
	} else {
		up.Set = append(up.Set, table.Attr{Name: schema.AttrCountedTo, Value: table.S(last)})
	}
	_, err := s.cfg.Store.Update(ctx, up)
	if _, other := errors.AsType[*table.ConditionError](err); err != nil && !other { // another call has counted them, or deleted the post
		return 0, unavailable("table", err)
	}
	if !whole {
		return 0, &Error{Kind: Unavailable, Detail: "the comments of the post are being counted, once: try again", RetryAfter: retryAfter}
	}
	return n, nil
}

// checkComments forgets the number of a post's comments if it is wrong, so that they are
// counted anew: a process of an earlier version, which does not count, wrote or deleted some.
// n comments were read. A number that others change meanwhile is left alone; a right one may
// be forgotten, too.
func (s *Service) checkComments(ctx context.Context, byID schema.PostRef, n int64) error {
	key := schema.PostKey(byID.Author, byID.ID)
	stored := func() (comments int64, counted bool, err error) {
		it, err := s.get(ctx, key, true)
		if err != nil {
			return 0, false, err
		}
		p, living, err := parsePost(it)
		return p.Comments, living && p.Counted, err
	}
	was, counted, err := stored()
	if err != nil || !counted || was == n {
		return err
	}
	all := table.Query{PK: schema.CommentsPK(byID.ID), PageSize: 2 * MaxLimit, Consistent: true, Project: []string{}}
	now, _, err := table.Collect(s.cfg.Store.Query(ctx, all), all.PageSize)
	if err != nil {
		return unavailable("table", err)
	}
	is, counted, err := stored()
	if err != nil || !counted || is != was || is == int64(len(now)) {
		return err
	}
	_, err = s.cfg.Store.Update(ctx, table.UpdateInput{
		Key: key, Remove: []string{schema.AttrComments}, If: table.Equal{Name: schema.AttrComments, Value: table.N(is)},
	})
	if _, other := errors.AsType[*table.ConditionError](err); other {
		return nil
	}
	return unavailable("table", err)
}
