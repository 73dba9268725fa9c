package feed

import (
	"cmp"
	"context"
	"errors"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file contains the writes of reposts (docs/decisions/0063). A repost is a post without content that refers to its
// original. Fan-out, follows, marks and returns treat a repost as any post of its author; only reads of items know the
// original (refers.go).

// Repost makes user's repost of a post, or returns user's living repost of the post. A repost of a repost is a repost of
// the original. The binding is written before the publish, so at most one repost of a post by a user lives.
func (s *Service) Repost(ctx context.Context, user, post string) (Post, error) {
	of, err := s.original(ctx, access.As(user), post)
	if err == nil {
		err = s.notBlocked(ctx, user, of.Author)
	}
	if err != nil { // a user without a profile gets the error of every other write
		return Post{}, cmp.Or(s.access.RequireWriter(ctx, user), err)
	}
	d, err := s.newPost(ctx, user, PostInput{Content: Content{ExpiresAt: of.End}}, Reference{RepostOf: of.ID, OfAuthor: of.Author, OfShards: of.LikeShards})
	if err != nil {
		return Post{}, err
	}
	if of.Gone(access.TimeOf(d.post.ID)) {
		return Post{}, fault.NotFoundf("post %s %s", of.ID, access.WhyGone(of))
	}
	if err := s.refer(ctx, of); err != nil {
		return Post{}, err
	}
	err = s.inTurn(ctx, d.use, func(now use) error {
		d.use = now
		living, err := s.bindRepost(ctx, &d)
		if err != nil || living {
			return err
		}
		return s.commitDraft(ctx, d)
	})
	if err != nil {
		return Post{}, err
	}
	return postOf(access.OwnPost(d.post)), nil
}

// bindRepost binds the draft as the one repost, or gives the draft the id of the repost that is bound. living reports
// that the table has this repost. A bound repost that the table does not have is published again, because its call may
// have crashed before the publish, and its message may be in a queue.
func (s *Service) bindRepost(ctx context.Context, d *draft) (living bool, err error) {
	p := &d.post
	binding := schema.Repost{User: p.Author, Of: p.RepostOf, R: p.ID}
	err = s.access.RetryChanged(func() (bool, error) {
		bound, byID, changed, err := s.livingRepost(ctx, binding, d.after)
		if changed || err != nil {
			return changed, err
		}
		if bound.User != "" {
			p.ID, d.use.hour, living = bound.R, schema.HourOf(access.TimeOf(bound.R)), byID != nil
			return false, nil
		}
		if refused := s.refused(d.use); refused != nil {
			return false, refused
		}
		_, err = s.access.Store.Put(ctx, table.PutInput{Item: binding.Item(), If: boundTo(bound.R)})
		return access.ConditionFailed(err), fault.Wrap("table", err)
	})
	return living, err
}

// livingRepost returns the binding that may not be replaced, because its repost lives or may still be written, and the
// repost's post by id, nil if the table does not have it. Otherwise the binding has no User, and its R is the id of a dead
// repost, "" for none. If the bound repost is absent and too old for its message, livingRepost makes its tombstone, because
// another call may be about to write it. changed reports that the repost was made after the read.
func (s *Service) livingRepost(ctx context.Context, b schema.Repost, after string) (bound schema.Repost, byID *schema.PostRef, changed bool, err error) {
	bound, byID, err = s.boundRepost(ctx, b.User, b.Of)
	if err != nil || bound.Version() <= after || byID != nil && byID.Deleted {
		return schema.Repost{R: bound.R}, nil, false, err
	}
	comes := byID != nil
	if !comes {
		comes, err = s.mayBeMade(ctx, b.User, bound.R)
	}
	if comes || err != nil {
		return bound, byID, false, err
	}
	changed, err = s.buryUnmade(ctx, b.User, bound.R)
	return schema.Repost{R: bound.R}, nil, changed, err
}

// boundTo holds while a binding names the post bound, "" for no binding.
func boundTo(bound string) table.Cond {
	if bound == "" {
		return table.Absent{}
	}
	return table.Equal{Name: schema.AttrKeyPost, Value: table.S(bound)}
}

// boundRepost returns the binding of user's repost of a post, zero for none, and the repost's post by id, nil if the
// table does not have it.
func (s *Service) boundRepost(ctx context.Context, user, post string) (bound schema.Repost, byID *schema.PostRef, err error) {
	it, err := s.access.Get(ctx, schema.RepostKey(user, post), true)
	if err != nil || it == nil {
		return bound, nil, err
	}
	if bound, err = schema.ParseRepost(*it); err != nil {
		return bound, nil, fault.Wrap("table", err)
	}
	if it, err = s.access.Get(ctx, schema.PostByIDKey(bound.R), true); err != nil || it == nil {
		return bound, nil, err
	}
	ref, err := schema.ParsePostRef(*it) //nolint:forbidigo // the own repost
	return bound, &ref, fault.Wrap("table", err)
}

// EndRepost ends user's repost of a post. The call may be repeated, and may name a deleted post, or a repost.
func (s *Service) EndRepost(ctx context.Context, user, post string) error {
	if err := s.access.RequireWriter(ctx, user); err != nil {
		return err
	}
	byID, err := s.access.PostOfAnyAudience(ctx, access.OwnUndo, post)
	if err = access.Failure(err); err != nil {
		return err
	}
	return s.access.RetryChanged(func() (bool, error) {
		return s.endRepost(ctx, user, cmp.Or(byID.RepostOf, post))
	})
}

// endRepost makes one attempt of EndRepost. changed reports that the repost was made after the read. A repost that is
// published and not written yet gets its tombstone, so no worker writes the repost. The binding is removed last: without
// the binding, a repeated call would not find such a repost.
func (s *Service) endRepost(ctx context.Context, user, post string) (changed bool, err error) {
	bound, byID, err := s.boundRepost(ctx, user, post)
	switch {
	case err != nil || bound.R == "":
		return false, err
	case byID == nil:
		changed, err = s.buryUnmade(ctx, user, bound.R)
	case !byID.Deleted:
		changed, err = s.deleteOwn(ctx, user, bound.R)
		if gone, ok := errors.AsType[*fault.Error](err); ok && gone.Kind == fault.NotFound { // another call deleted the repost, or the repost ended
			err = nil
		}
	}
	if changed || err != nil {
		return changed, err
	}
	_, err = s.access.Store.Delete(ctx, table.DeleteInput{Key: schema.RepostKey(user, post), If: boundTo(bound.R)})
	if access.ConditionFailed(err) { // another call has bound a newer repost
		err = nil
	}
	return false, fault.Wrap("table", err)
}

// OwnReposts returns the bindings of user's reposts. The reposts themselves are posts of user.
func (s *Service) OwnReposts(user string) Own {
	return Own{table.Query{PK: schema.RepostsPK(user), Consistent: true}, func(ctx context.Context, it table.Item, former string) (bool, error) {
		b, err := schema.ParseRepost(it)
		if err != nil || b.Version() > former {
			return false, fault.Wrap("table", err)
		}
		return s.transactIfUnchanged(ctx, []table.TransactOp{{Delete: &table.DeleteInput{Key: it.Key, If: boundTo(b.R)}}})
	}}
}
