package feed

import (
	"context"
	"errors"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

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
