package feed

import (
	"context"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file contains kept blocks and mutes. A kept block or mute names a removed user, and was made by
// another user. The block or mute is the decision of the user who made it, so it holds again if the
// removed user returns (docs/decisions/0034). The note of the removal keeps the block or mute. A
// separate ttl could expire after the user's return, and at different times on the two sides of a
// block.

// keeps returns the operations by which a note keeps an imported block or mute of a user. keeps
// returns no operation if the user has a profile or a note. found has the profile and the note.
func (s *Service) keeps(found map[table.Key]table.Item, user string) []table.TransactOp {
	profile, note := schema.ProfileKey(user), schema.ForgottenKey(user)
	for _, key := range []table.Key{profile, note} {
		if _, there := found[key]; there {
			return nil
		}
	}
	// The removal happened in another installation, so no work of the removal runs here.
	at := s.access.Now().Add(-24 * time.Hour)
	removal := schema.Removal{User: user, Event: id.Floor(at), At: at}
	return []table.TransactOp{
		{Check: &table.CheckInput{Key: profile, If: table.Absent{}}},
		{Put: &table.PutInput{Item: removal.Item(), If: table.Absent{}}},
	}
}

// goneForGood returns the checks that a user has neither a profile nor the note of a removal. ok
// reports whether found has neither.
func goneForGood(found map[table.Key]table.Item, user string) (checks []table.TransactOp, ok bool) {
	for _, key := range []table.Key{schema.ProfileKey(user), schema.ForgottenKey(user)} {
		if _, there := found[key]; there {
			return nil, false
		}
		checks = append(checks, table.TransactOp{Check: &table.CheckInput{Key: key, If: table.Absent{}}})
	}
	return checks, true
}

// EndKeptBlock ends user's block of other if other has neither a profile nor the note of a removal,
// and reports whether it ended the block. If a concurrent call of another process changes the block,
// EndKeptBlock writes nothing.
func (s *Service) EndKeptBlock(ctx context.Context, user, other string) (ended bool, err error) {
	now, err := s.readBlocks(ctx, user, other)
	if err != nil {
		return false, err
	}
	if err := s.addNotes(ctx, now, other); err != nil {
		return false, err
	}
	_, back, err := now.times(user, other)
	if err != nil {
		return false, err
	}
	checks, gone := goneForGood(now, other)
	ops := now.set(user, other, time.Time{}, back)
	if !gone || len(ops) == 0 {
		return false, nil
	}
	return s.transactIfUnchanged(ctx, append(ops, checks...))
}

// EndKeptMute ends user's mute of author under the conditions of EndKeptBlock.
func (s *Service) EndKeptMute(ctx context.Context, user, author string) (ended bool, err error) {
	mute, muter := schema.MuteKey(user, author), schema.MuterKey(author, user)
	found, err := s.access.BatchGet(ctx, []table.Key{mute, schema.ProfileKey(author), schema.ForgottenKey(author)}, true)
	if err != nil {
		return false, err
	}
	it, there := found[mute]
	checks, gone := goneForGood(found, author)
	if !there || !gone {
		return false, nil
	}
	return s.transactIfUnchanged(ctx, append(checks,
		table.TransactOp{Delete: &table.DeleteInput{Key: mute, If: unchangedAttr(it, schema.AttrSince)}},
		table.TransactOp{Delete: &table.DeleteInput{Key: muter}}))
}
