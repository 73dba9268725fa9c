package feed

import (
	"context"
	"time"

	"fanfare/internal/feed/access"
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
	change, err := s.change(schema.Change{Post: of.ID, Author: of.Author, Deleted: true, Referred: of.Referred})
	return append(ops, table.TransactOp{Put: change}), err
}

// noteEdit adds an edit to the log of changes, even if the caller has left. Without the note, pages that
// are open at other processes have the old text until their stream opens again. So an edit is answered
// only after its note. In a local table, only the edit of a referred post has a note: its write tells the streams of the
// process that homes without the author may show the post.
func (s *Service) noteEdit(ctx context.Context, edited schema.PostRef) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	referred := s.referred(ctx, edited)
	if s.access.Local && !referred {
		return nil
	}
	change, err := s.change(schema.Change{Post: edited.ID, Author: edited.Author, Referred: referred})
	if err != nil {
		return err
	}
	_, err = s.access.Store.Put(ctx, *change)
	return err
}

// referred reports whether a repost or a quote of a post may show the text from before an edit that has just been made: each
// repost that is made after this read shows the new text.
func (s *Service) referred(ctx context.Context, edited schema.PostRef) bool {
	if edited.Referred {
		return true
	}
	now, err := s.access.PostOfAnyAudience(ctx, access.Author, edited.ID)
	return err != nil || now.Referred
}

func (s *Service) change(c schema.Change) (_ *table.PutInput, err error) {
	c.Event, err = s.access.IDs.New()
	return &table.PutInput{Item: c.Item(s.access.Now())}, err
}
