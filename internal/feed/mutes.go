package feed

import (
	"context"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file contains mutes (docs/decisions/0034). A mute hides an author's posts from one home when
// the home is read, and has no other effect. The follow stays and entries are written, so the home
// shows the posts again as soon as the mute ends.

// MaxMutes is the number of authors whom one user may mute. Each home read reads all mutes of its
// user, so MaxMutes bounds the cost of a home read (I11). Concurrent calls may exceed the bound by the
// number of these calls.
const MaxMutes = 1000

func ownMutes() ownList[schema.Mute] {
	return ownList[schema.Mute]{
		all: func(user string) table.Query {
			return table.Query{PK: schema.MarksPK(user), Low: schema.SortMute, High: schema.SortMuteEnd, Consistent: true}
		},
		parse: schema.ParseMute, former: func(m schema.Mute, after string) bool { return isFormer(m.Since, after) }, same: sameMute,
		end: (*Service).endMute, most: MaxMutes, sort: "mute", full: "you mute %d users, the most that you may: unmute one first",
	}
}

// OwnMutes returns the mutes of user.
func (s *Service) OwnMutes(user string) Own { return ownMutes().of(s, user) }

// Mute hides the posts of author from user's home. A call may be repeated.
func (s *Service) Mute(ctx context.Context, user, author string) error {
	return s.access.RetryChanged(func() (bool, error) {
		found, err := s.readMute(ctx, user, author)
		if err == nil {
			err = mayMute(found, user, author)
		}
		if err != nil {
			return false, err
		}
		return s.mute(ctx, schema.Mute{User: user, Author: author, Since: s.access.Now()}, found)
	})
}

// mute makes a mute, unless the mute exists. The transaction also includes the operations in also.
// changed reports that another call has changed the mute, or an item of also, after the read of found.
func (s *Service) mute(ctx context.Context, m schema.Mute, found map[table.Key]table.Item, also ...table.TransactOp) (changed bool, err error) {
	stored, err := storedMute(found, m.User, m.Author)
	if err != nil {
		return false, err
	}
	after := afterOf(found, m.User, m.Author)
	same, err := ownMutes().place(stored, after, func() error { return ownMutes().mayMore(ctx, s, m.User, afterOf(found, m.User, m.User)) })
	if err != nil || same == nil {
		return false, err
	}
	m.Since = above(after, m.Since)
	mute, muter := m.Items()
	err = s.access.Transact(ctx, append(also,
		table.TransactOp{Put: &table.PutInput{Item: mute, If: same}},
		table.TransactOp{Put: &table.PutInput{Item: muter}},
	)...)
	return access.ConditionFailed(err), fault.Wrap("table", err)
}

// Unmute ends a mute. A call may be repeated.
func (s *Service) Unmute(ctx context.Context, user, author string) error {
	found, err := s.readMute(ctx, user, author)
	if err == nil {
		err = mayMute(found, user, author)
	}
	if err != nil {
		return err
	}
	stored, err := storedMute(found, user, author)
	if err != nil || stored == nil {
		return err
	}
	_, err = s.endMute(ctx, *stored)
	return err
}

// endMute ends a mute if its user has not renewed the mute after the read, and reports whether the
// mute no longer exists.
func (s *Service) endMute(ctx context.Context, m schema.Mute) (ended bool, err error) {
	return s.transactIfUnchanged(ctx, []table.TransactOp{
		{Delete: &table.DeleteInput{Key: schema.MuteKey(m.User, m.Author), If: table.Any{table.Absent{}, sameMute(m)}}},
		{Delete: &table.DeleteInput{Key: schema.MuterKey(m.Author, m.User)}},
	})
}

// sameMute holds while a mute has not changed since the read.
func sameMute(m schema.Mute) table.Cond {
	return table.Equal{Name: schema.AttrSince, Value: table.N(m.Since.UnixMilli())}
}

// storedMute returns user's mute of author from the items in found, nil for none.
func storedMute(found map[table.Key]table.Item, user, author string) (*schema.Mute, error) {
	it, muted := found[schema.MuteKey(user, author)]
	if !muted {
		return nil, nil
	}
	return ownMutes().stored(&it)
}

// readMute reads user's mute of author, the profiles of both users, and the keys in also,
// consistently. The user must have a profile.
func (s *Service) readMute(ctx context.Context, user, author string, also ...table.Key) (map[table.Key]table.Item, error) {
	if user == author {
		return nil, &fault.Error{Kind: fault.Invalid, Detail: "a mute is of another user, and this is your own id", Fields: []fault.FieldError{{Field: "id", Detail: "is your own id"}}}
	}
	also = append(also, schema.MuteKey(user, author), schema.ProfileKey(user), schema.ProfileKey(author))
	found, err := s.access.BatchGet(ctx, also, true)
	if err != nil {
		return nil, err
	}
	if _, ok := found[schema.ProfileKey(user)]; !ok {
		return nil, fault.NoProfile(user)
	}
	return found, nil
}

// mayMute refuses a call about an author without a profile. An existing mute proves that the
// author was a user.
func mayMute(found map[table.Key]table.Item, user, author string) error {
	_, muted := found[schema.MuteKey(user, author)]
	if _, ok := found[schema.ProfileKey(author)]; !ok && !muted {
		return fault.NotFoundf("there is no user %s", author)
	}
	return nil
}

// MutesOf returns the authors whom user mutes. The read is consistent, because a mute hides posts at
// once.
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
	return listing[Edge]{
		scope: page.ListByUser("mutes", user), query: ownMutes().all(user), sortKey: schema.MuteSK, position: edgeUser,
		read: shownAs(schema.ParseMute, func(m schema.Mute) Edge { return Edge{m.Author, m.Since} }),
	}.page(ctx, s, in)
}
