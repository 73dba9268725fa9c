package feed

import (
	"context"
	"errors"
	"fmt"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// CreateComment adds a comment that has only a text.
func (s *Service) CreateComment(ctx context.Context, user, post, text string) (Comment, error) {
	return s.AddComment(ctx, user, post, CommentInput{Text: text})
}

// AddComment comments on a living post, and counts the comment.
func (s *Service) AddComment(ctx context.Context, user, post string, in CommentInput) (Comment, error) {
	if err := in.validate(); err != nil {
		return Comment{}, err
	}
	after, byID, err := s.access.WriterAndPost(ctx, access.As(user), user, post)
	if err != nil {
		return Comment{}, err
	}
	if err := s.notBlocked(ctx, user, byID.Author); err != nil {
		return Comment{}, err
	}
	comment, err := s.access.IDs.After(after)
	if err != nil {
		return Comment{}, fmt.Errorf("feed: %w", err)
	}
	c := schema.Comment{ID: comment, Post: post, Author: user, Text: in.Text, Data: in.Data, Mentions: in.Mentions, TTL: byID.End}
	if err := s.countAlone(ctx, s.useOf(user, access.TimeOf(comment), s.costOfComment(c), nil)); err != nil {
		return Comment{}, err
	}
	s.noticeComment(ctx, byID, c)
	write := table.TransactOp{Put: &table.PutInput{Item: c.Item(), If: table.Absent{}}}
	if err := s.transactComment(ctx, user, byID, 1, write); err != nil {
		return Comment{}, fault.Wrap("table", err)
	}
	return commentOf(c), nil
}

// Comments lists a living post's comments, oldest first.
func (s *Service) Comments(ctx context.Context, by access.Viewer, post string, in page.Request) (page.List[Comment], error) {
	ofPost := table.Query{PK: schema.CommentsPK(post), Consistent: true} //nolint:forbidigo // the check of the post runs beside the query
	comments := listing[Comment]{
		scope: page.ListByID("comments", post, ""), query: ofPost, sortKey: schema.CommentSK,
		position: commentID, read: shownAs(schema.ParseComment, commentOf),
	}
	if _, err := comments.scope.Position(in.Cursor); err != nil {
		return page.List[Comment]{}, err
	}
	var list page.List[Comment]
	err := s.access.All(ctx,
		func(ctx context.Context) error { _, err := s.access.LivingPost(ctx, by, post); return err },
		func(ctx context.Context) (err error) { list, err = comments.page(ctx, s, in); return err },
	)
	return list, err
}

func commentID(c Comment) string { return c.ID }

// DeleteComment deletes a comment. The comment's author and the post's author may delete a comment.
func (s *Service) DeleteComment(ctx context.Context, user, post, comment string) error {
	key := schema.CommentKey(post, comment)
	var on access.Seen
	var it *table.Item
	err := s.access.All(ctx,
		func(ctx context.Context) (err error) {
			on, err = s.access.LivingPost(ctx, access.AnyAudience(access.OwnUndo), post)
			return err
		},
		func(ctx context.Context) (err error) { it, err = s.access.Get(ctx, key, true); return err },
	)
	if err != nil {
		return err
	}
	if it == nil {
		return fault.NotFoundf("there is no comment %s of post %s", comment, post)
	}
	byID := on.Ref()
	c, err := schema.ParseComment(*it)
	if err != nil {
		return fault.Wrap("table", err)
	}
	if user != c.Author && user != byID.Author {
		return s.access.Refuse(ctx, user, "neither the comment nor its post is yours")
	}
	// The deletion fails if the notices cannot be sent. Otherwise a notification would show a deleted comment.
	if err := s.tellOfComment(ctx, byID, c, true); err != nil {
		return err
	}
	err = s.transactComment(ctx, user, byID, -1, table.TransactOp{Delete: &table.DeleteInput{Key: key, If: table.Exists{}}})
	if access.ConditionFailed(err) {
		return fault.NotFoundf("comment %s was deleted", comment)
	}
	return fault.Wrap("table", err)
}

// CommentsByUser lists user's comments of living posts, newest first.
func (s *Service) CommentsByUser(ctx context.Context, by access.Viewer, user string, in page.Request) (page.List[Comment], error) {
	list, _, err := s.CommentsWithPosts(ctx, by, user, in)
	return list, err
}

// CommentsWithPosts returns the list of CommentsByUser, and the posts by id.
func (s *Service) CommentsWithPosts(ctx context.Context, by access.Viewer, user string, in page.Request) (page.List[Comment], map[string]access.Seen, error) {
	living := s.access.LivingFor(by)
	byUser := table.Query{Index: true, PK: schema.UserCommentsPK(user), Descending: true} //nolint:forbidigo // OfLivingPosts reads the posts
	list, err := listing[Comment]{
		scope: page.ListByID("comments-by-user", user, ""), query: byUser, sortKey: schema.CommentSK,
		position: commentID, fill: access.RefillOfLivingPosts(),
		read: access.OfLivingPosts(ctx, living, shownAs(schema.ParseComment, commentOf), func(c Comment) string { return c.PostID }),
	}.userPage(ctx, s, in)
	return list, living.Posts, err
}

// transactComment writes or deletes a comment by op, and changes the post's number of comments, in one
// transaction (I4, docs/decisions/0028). All transactions about one post write the same item, so these
// transactions take turns in this process, user by user. If op's condition failed, transactComment
// returns the transaction's own error.
func (s *Service) transactComment(ctx context.Context, user string, post schema.PostRef, delta int64, op table.TransactOp) error {
	count := access.AddTo(schema.PostKey(post.Author, post.ID), schema.AttrComments, delta)
	count.If = table.Exists{}
	err := s.access.TransactInTurn(ctx, access.Lane{Author: post.ID}, user, op, table.TransactOp{Update: count})
	if !access.ConditionFailed(err) {
		return fault.Wrap("table", err)
	}
	if cancelled, _ := errors.AsType[*table.CancelledError](err); cancelled.Failed(0) {
		return err
	}
	return fault.NotFoundf("post %s was deleted", post.ID)
}
