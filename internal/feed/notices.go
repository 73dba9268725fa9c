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

// noticeTime bounds how long a comment waits for the queue of notices.
const noticeTime = time.Second

// tellOfComment sends the notices of a comment that is being made or deleted. It sends them before
// the transaction, so that no crash in between loses them. The worker of the notices looks the
// comment up.
func (s *Service) tellOfComment(ctx context.Context, post schema.PostRef, c schema.Comment, deleted bool) error {
	if s.cfg.Notices == nil {
		return nil
	}
	events := []messages.Event{&messages.Commented{PostID: c.Post, AuthorID: post.Author, CommentID: c.ID, UserID: c.Author, Deleted: deleted}}
	for _, user := range c.Mentions[:min(len(c.Mentions), schema.NoticedMentions)] {
		events = append(events, &messages.Mentioned{UserID: user, ActorID: c.Author, PostID: c.Post, CommentID: c.ID, Deleted: deleted})
	}
	requestID := s.access.RequestID(ctx)
	for _, e := range events {
		eventID, err := s.access.IDs.New()
		if err != nil {
			return fmt.Errorf("feed: %w", err)
		}
		*e.Head() = messages.Header{EventID: eventID, Time: s.access.Now().UTC(), RequestID: requestID}
	}
	if !deleted {
		access.Cause(ctx, s.unitsOfNotices(len(events)-1))
	}
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	return fault.Wrap("queue", s.cfg.Notices(ctx, events...))
}

// noticeComment is tellOfComment for a new comment. If the queue fails, the comment is
// still made.
func (s *Service) noticeComment(ctx context.Context, post schema.PostRef, c schema.Comment) {
	if err := s.tellOfComment(ctx, post, c, false); err != nil {
		s.access.Log.Warn("a comment has no notification", zap.String("request_id", s.access.RequestID(ctx)), trace.ID(ctx), zap.String("post_id", c.Post), zap.Error(err))
	}
}
