package feed

import (
	"context"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// noteTime is the maximum time for which an edit waits for the log of changes.
const noteTime = time.Second

// noted appends the note of a deletion to the writes of its transaction, so that the live homes of other
// processes learn of each deletion. A local table has no other processes.
func (s *Service) noted(ops []table.TransactOp, of schema.PostRef) ([]table.TransactOp, error) {
	if s.access.Local {
		return ops, nil
	}
	change, err := s.change(of.Author, of.ID, true)
	return append(ops, table.TransactOp{Put: change}), err
}

// noteEdit adds an edit to the log of changes, even if the caller has left. Without the note, pages that
// are open at other processes have the old text until their stream opens again. So an edit is answered
// only after its note.
func (s *Service) noteEdit(ctx context.Context, author, post string) error {
	if s.access.Local {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	change, err := s.change(author, post, false)
	if err != nil {
		return err
	}
	_, err = s.access.Store.Put(ctx, *change)
	return err
}

func (s *Service) change(author, post string, deleted bool) (*table.PutInput, error) {
	event, err := s.access.IDs.New()
	c := schema.Change{Event: event, Post: post, Author: author, Deleted: deleted}
	return &table.PutInput{Item: c.Item(s.access.Now())}, err
}
