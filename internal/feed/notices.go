package feed

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// noticeTime is the maximum time for which a comment or the end of a follow or a repost waits for the queue of notices.
const noticeTime = time.Second

// tellOfComment sends the notices of a comment before the transaction that makes or deletes the
// comment, so that a crash between the two loses no notice. The worker of the notices looks the
// comment up.
func (s *Service) tellOfComment(ctx context.Context, post schema.PostRef, c schema.Comment, deleted bool) error {
	if s.cfg.Notices == nil {
		return nil
	}
	events := []messages.Event{&messages.Commented{PostID: c.Post, AuthorID: post.Author, CommentID: c.ID, UserID: c.Author, Deleted: deleted}}
	for _, user := range c.Mentions[:min(len(c.Mentions), schema.NoticedMentions)] {
		events = append(events, &messages.Mentioned{UserID: user, ActorID: c.Author, PostID: c.Post, CommentID: c.ID, Deleted: deleted})
	}
	access.Cause(ctx, s.costOfComment(c).later)
	return s.sendNotices(ctx, events...)
}

func (s *Service) sendNotices(ctx context.Context, events ...messages.Event) error {
	requestID := s.access.RequestID(ctx)
	for _, e := range events {
		eventID, err := s.access.IDs.New()
		if err != nil {
			return fmt.Errorf("feed: %w", err)
		}
		*e.Head() = messages.Header{EventID: eventID, Time: s.access.Now().UTC(), RequestID: requestID}
	}
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	return fault.Wrap("queue", s.cfg.Notices(ctx, events...))
}

// takeBack takes the notification of a follow or of a repost back before the transaction that ends it, so that a crash between
// the two loses nothing. The worker of the notices looks up the mark or the repost. If the queue fails, the transaction is still
// made, and the notification stays; lists hide the follow.
func (s *Service) takeBack(ctx context.Context, e messages.Event) {
	if s.cfg.Notices == nil {
		return
	}
	access.Cause(ctx, s.costOfNotices(1, 0))
	if err := s.sendNotices(ctx, e); err != nil {
		s.access.Log.Warn("the notification of an action that ends stays", zap.String("request_id", s.access.RequestID(ctx)), trace.ID(ctx), zap.String("kind", string(messages.KindOf(e))), zap.Error(err))
	}
}

func (s *Service) noticeUnfollow(ctx context.Context, mark schema.Mark) {
	s.takeBack(ctx, &messages.Unfollowed{FollowerID: mark.User, AuthorID: mark.Author, MarkVersion: mark.Version})
}

// noticeComment sends the notices of a new comment. If the queue fails, the comment is still made.
func (s *Service) noticeComment(ctx context.Context, post schema.PostRef, c schema.Comment) {
	if err := s.tellOfComment(ctx, post, c, false); err != nil {
		s.access.Log.Warn("a comment has no notification", zap.String("request_id", s.access.RequestID(ctx)), trace.ID(ctx), zap.String("post_id", c.Post), zap.Error(err))
	}
}
