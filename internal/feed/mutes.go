package feed

import (
	"context"
	"fmt"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file holds mutes (docs/decisions/0034). A mute hides the posts of an author from one
// home when it is read, and changes nothing else: the follow stays, entries are written, and
// without the mute the home shows them again at once.

// MaxMutes is the number of authors whom one user may mute. Each home read reads all mutes of
// its user, so the bound holds its cost (I11). Mutes that are made at the same time may exceed
// it by their number.
const MaxMutes = 1000

// Mute hides the posts of author from user's home. It may be repeated.
func (s *Service) Mute(ctx context.Context, user, author string) error {
	return s.mute(ctx, user, author, s.access.Now())
}

// mute is Mute for a mute of the time since.
func (s *Service) mute(ctx context.Context, user, author string, since time.Time) error {
	muted, err := s.readMute(ctx, user, author)
	if err != nil || muted {
		return err
	}
	mutes, err := s.MutesOf(ctx, user)
	if err != nil {
		return err
	}
	if len(mutes) >= MaxMutes {
		return &fault.Error{Kind: fault.MuteLimit, Detail: fmt.Sprintf("you mute %d users, the most that you may: unmute one first", MaxMutes)}
	}
	mute, muter := schema.Mute{User: user, Author: author, Since: since}.Items()
	err = s.access.Transact(ctx,
		table.TransactOp{Put: &table.PutInput{Item: mute, If: table.Absent{}}},
		table.TransactOp{Put: &table.PutInput{Item: muter}},
	)
	if access.ConditionFailed(err) { // another call made it
		return nil
	}
	return fault.Wrap("table", err)
}

// Unmute is the reverse of Mute, and may be repeated too.
func (s *Service) Unmute(ctx context.Context, user, author string) error {
	muted, err := s.readMute(ctx, user, author)
	if err != nil || !muted {
		return err
	}
	return s.endMute(ctx, user, author)
}

func (s *Service) endMute(ctx context.Context, user, author string) error {
	err := s.access.Transact(ctx,
		table.TransactOp{Delete: &table.DeleteInput{Key: schema.MuteKey(user, author), If: table.Exists{}}},
		table.TransactOp{Delete: &table.DeleteInput{Key: schema.MuterKey(author, user)}},
	)
	if access.ConditionFailed(err) { // another call ended it
		return nil
	}
	return fault.Wrap("table", err)
}

// readMute reports whether user mutes author, by a consistent read. Both must be users, or
// must have been.
func (s *Service) readMute(ctx context.Context, user, author string) (muted bool, err error) {
	if user == author {
		return false, &fault.Error{Kind: fault.Invalid, Detail: "a mute is of another user, and this is your own id", Fields: []fault.FieldError{{Field: "id", Detail: "is your own id"}}}
	}
	key := schema.MuteKey(user, author)
	found, err := s.access.BatchGet(ctx, []table.Key{key, schema.ProfileKey(user), schema.ProfileKey(author)}, true)
	if err != nil {
		return false, err
	}
	if _, ok := found[schema.ProfileKey(user)]; !ok {
		return false, fault.NoProfile(user)
	}
	if _, ok := found[key]; ok {
		return true, nil
	}
	if _, ok := found[schema.ProfileKey(author)]; !ok {
		return false, fault.NotFoundf("there is no user %s", author)
	}
	return false, nil
}

// MutesOf returns the authors whom user mutes. The read is consistent: a mute hides at once.
func (s *Service) MutesOf(ctx context.Context, user string) (map[string]bool, error) {
	q := table.Query{PK: schema.MarksPK(user), Low: schema.SortMute, High: schema.SortMuteEnd, Consistent: true, Project: []string{}}
	muted := map[string]bool{}
	err := s.access.EachItem(ctx, q, func(it table.Item) error {
		if author, ok := schema.MutedOfSK(it.Key.SK); ok {
			muted[author] = true
		}
		return nil
	})
	return muted, err
}

// Mutes lists the users whom user mutes, by user id.
func (s *Service) Mutes(ctx context.Context, user string, in page.Request) (page.List[Edge], error) {
	scope := page.ListByUser("mutes", user)
	position, err := scope.Position(in.Cursor)
	if err != nil {
		return page.List[Edge]{}, err
	}
	q := table.Query{PK: schema.MarksPK(user), Low: schema.SortMute, High: schema.SortMuteEnd, Consistent: true}
	if position != "" {
		q.After = schema.MuteSK(position)
	}
	mutes, err := page.Collect(ctx, s.access.Store, q, in.Size()+1, page.Refill{}, page.Each(func(it table.Item) (Edge, bool, error) {
		m, err := schema.ParseMute(it)
		return Edge{m.Author, m.Since}, true, err
	}))
	return page.Of(mutes, in.Size(), scope, edgeUser), err
}
