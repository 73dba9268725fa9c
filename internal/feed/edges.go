package feed

import (
	"context"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// following is the stored state of a follow: the edge under the follower, and the home mark. edge,
// mark or counts is nil if the item is absent. upto is the day of the follower's counts. after is an
// id above all ids of the former lives of the two users, and own is such an id of the follower. use is the use of the call that changes the
// follow. silent means that a new follow is silent. forgets means that the end of the follow takes no notification back.
type following struct {
	edge, mark, counts *table.Item
	upto               schema.Day
	after, own         string
	use                use
	silent, forgets    bool
}

// isSilent reports whether the stored follow is silent.
func (f following) isSilent() bool { return f.edge != nil && f.edge.Has(schema.AttrSilent) }

// countFollower adds n to the follower count of author, and to the silent followers if the follow is silent.
func countFollower(author, follower string, n int64, silent bool) *table.UpdateInput {
	update := access.AddTo(schema.FollowerCountKey(author, follower), schema.AttrN, n)
	if silent {
		update.Add = append(update.Add, table.Attr{Name: schema.AttrSilent, Value: table.N(n)})
	}
	return update
}

// readFollow reads a follow, both profiles, and the keys in also, consistently. Both profiles must
// exist.
func (s *Service) readFollow(ctx context.Context, follower, author string, also ...table.Key) (following, error) {
	edge, mark := schema.FollowingKey(follower, author), schema.MarkKey(follower, author)
	found, err := s.access.BatchGet(ctx, append([]table.Key{edge, mark, schema.ProfileKey(follower), schema.ProfileKey(author)}, also...), true)
	if err != nil {
		return following{}, err
	}
	if _, ok := found[schema.ProfileKey(follower)]; !ok {
		return following{}, fault.NoProfile(follower)
	}
	if _, ok := found[schema.ProfileKey(author)]; !ok {
		return following{}, fault.NotFoundf("there is no user %s", author)
	}
	now := following{after: afterOf(found, follower, author), own: afterOf(found, follower, follower)}
	if it, ok := found[edge]; ok {
		now.edge = &it
	}
	if it, ok := found[schema.CountsKey(follower)]; ok {
		now.counts = &it
		now.upto = schema.Day(it.Int(schema.AttrUptoDay))
	}
	if it, ok := found[mark]; ok {
		now.mark = &it
	}
	return now, nil
}

// readEdge reads a follow without the profiles.
func (s *Service) readEdge(ctx context.Context, follower, author string) (now following, err error) {
	edge, mark := schema.FollowingKey(follower, author), schema.MarkKey(follower, author)
	found, err := s.access.BatchGet(ctx, []table.Key{edge, mark}, true)
	if it, ok := found[edge]; ok {
		now.edge = &it
	}
	if it, ok := found[mark]; ok {
		now.mark = &it
	}
	return now, err
}

func notSelf(user, other string) error {
	if user == other {
		return &fault.Error{Kind: fault.Invalid, Detail: "you cannot follow yourself", Fields: []fault.FieldError{{Field: "id", Detail: "is your own id"}}}
	}
	return nil
}

// markVersion returns a version for a new home mark in place of the mark old. The versions of two users' marks grow even if
// clocks differ, because a follow and its end have the versions of their marks in the author's notification (I13). The version
// is above after, so the notifier does not take a follow of a new life for a follow of a former life (I12).
func (s *Service) markVersion(old *table.Item, after string) (string, error) {
	if old != nil {
		after = max(after, old.Str(schema.AttrVersion))
	}
	return s.access.IDs.After(after)
}

// sameEdge holds while an edge has not changed since the read.
func sameEdge(it table.Item) table.Cond {
	return table.All{table.Exists{}, unchangedAttr(it, schema.AttrSince), unchangedAttr(it, schema.AttrEdgeV), unchangedAttr(it, schema.AttrSilent)}
}

// unchanged holds while the home mark has not changed since the read. A nil mark means that there was
// no mark. A transaction that timed out may reach the table after later transactions were answered.
// Such a transaction then finds another mark and fails, so it does not undo the later transactions
// (I2).
func (s *Service) unchanged(mark *table.Item) table.Cond {
	if mark == nil { // absent, or expired and not deleted yet
		return table.Any{table.Absent{}, table.Less{Name: table.AttrTTL, Value: table.N(s.access.Clock.Expired(s.access.Now()).Unix() + 1)}}
	}
	return table.Equal{Name: schema.AttrVersion, Value: mark.Get(schema.AttrVersion)}
}
