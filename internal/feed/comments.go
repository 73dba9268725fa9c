package feed

import (
	"context"
	"errors"
	"fmt"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// CreateComment comments on a living post, and counts the comment.
func (s *Service) CreateComment(ctx context.Context, user, post, text string) (Comment, error) {
	if err := validateComment(text); err != nil {
		return Comment{}, err
	}
	byID, err := s.writerAndPost(ctx, user, post)
	if err != nil {
		return Comment{}, err
	}
	if err := s.notBlocked(ctx, user, byID.Author); err != nil {
		return Comment{}, err
	}
	comment, err := s.cfg.IDs.New()
	if err != nil {
		return Comment{}, fmt.Errorf("feed: %w", err)
	}
	c := schema.Comment{ID: comment, Post: post, Author: user, Text: text}
	write := table.TransactOp{Put: &table.PutInput{Item: c.Item(), If: table.Absent{}}}
	if err := s.transactComment(ctx, byID.Author, post, 1, write); err != nil {
		return Comment{}, unavailable("table", err)
	}
	return commentOf(c), nil
}

// Comments lists a living post's comments, oldest first.
func (s *Service) Comments(ctx context.Context, post string, in PageRequest) (List[Comment], error) {
	scope := byID("comments", post, "")
	after, err := scope.position(in.Cursor)
	if err != nil {
		return List[Comment]{}, err
	}
	q := table.Query{PK: schema.CommentsPK(post), Consistent: true}
	if after != "" {
		q.After = schema.CommentSK(after)
	}
	var comments stretch[Comment]
	err = s.all(ctx,
		func(ctx context.Context) error { _, err := s.livingPost(ctx, post); return err },
		func(ctx context.Context) (err error) {
			comments, err = collect(ctx, s.cfg.Store, q, in.limit()+1, refill{}, each(func(it table.Item) (Comment, bool, error) {
				c, err := schema.ParseComment(it)
				return commentOf(c), true, err
			}))
			return err
		},
	)
	if err != nil {
		return List[Comment]{}, err
	}
	return page(comments, in.limit(), scope, func(c Comment) string { return c.ID }), nil
}

// DeleteComment deletes a comment. Its author may do so, and the author of the post.
func (s *Service) DeleteComment(ctx context.Context, user, post, comment string) error {
	key := schema.CommentKey(post, comment)
	var byID schema.PostRef
	var it *table.Item
	err := s.all(ctx,
		func(ctx context.Context) (err error) { byID, err = s.livingPost(ctx, post); return err },
		func(ctx context.Context) (err error) { it, err = s.get(ctx, key, true); return err },
	)
	if err != nil {
		return err
	}
	if it == nil {
		return notFound("there is no comment %s of post %s", comment, post)
	}
	c, err := schema.ParseComment(*it)
	if err != nil {
		return unavailable("table", err)
	}
	if user != c.Author && user != byID.Author {
		return s.refuse(ctx, user, "neither the comment nor its post is yours")
	}
	err = s.transactComment(ctx, byID.Author, post, -1, table.TransactOp{Delete: &table.DeleteInput{Key: key, If: table.Exists{}}})
	if conditionFailed(err) {
		return notFound("comment %s was deleted", comment)
	}
	return unavailable("table", err)
}

// CommentsByUser lists user's comments of living posts, newest first.
func (s *Service) CommentsByUser(ctx context.Context, user string, in PageRequest) (List[Comment], error) {
	list, _, _, err := s.commentsByUser(ctx, user, in)
	return list, err
}

// commentsByUser also returns the posts by id, and the scope of the cursor.
func (s *Service) commentsByUser(ctx context.Context, user string, in PageRequest) (List[Comment], map[string]schema.PostRef, scope, error) {
	scope := byID("comments-by-user", user, "")
	before, err := scope.position(in.Cursor)
	if err != nil {
		return List[Comment]{}, nil, scope, err
	}
	q := table.Query{Index: true, PK: schema.UserCommentsPK(user), Descending: true}
	if before != "" {
		q.After = schema.CommentSK(before)
	}
	parse := each(func(it table.Item) (Comment, bool, error) {
		c, err := schema.ParseComment(it)
		return commentOf(c), true, err
	})
	refs := map[string]schema.PostRef{}
	postID := func(c Comment) string { return c.PostID }
	comments, err := collect(ctx, s.cfg.Store, q, in.limit()+1, refillOfLivingPosts(), ofLivingPosts(ctx, s, parse, postID, refs))
	if err != nil {
		return List[Comment]{}, nil, scope, err
	}
	list, err := userPage(ctx, s, comments, in, scope, func(c Comment) string { return c.ID })
	return list, refs, scope, err
}

// transactComment writes or deletes a comment by op, and changes the number of comments that
// the post has, in one transaction (I4, docs/decisions/0028). Such transactions write one
// item, so those of a post take turns in this process. The error is the transaction's own if
// op's condition failed.
func (s *Service) transactComment(ctx context.Context, author, post string, delta int64, op table.TransactOp) error {
	count := addTo(schema.PostKey(author, post), schema.AttrComments, delta)
	count.If = table.Exists{}
	err := s.transactInTurn(ctx, lane{author: post}, op, table.TransactOp{Update: count})
	if !conditionFailed(err) {
		return unavailable("table", err)
	}
	if cancelled, _ := errors.AsType[*table.CancelledError](err); cancelled.Failed(0) {
		return err
	}
	return notFound("post %s was deleted", post)
}
