package feed

import (
	"context"
	"slices"
	"strings"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// friendsPage is the number of edges of one side that are read at a time.
const friendsPage = 64

// Friends lists the users who follow user and whom user follows, by user id. A
// friendship is as old as its younger half. Both partitions are sorted by the same
// key, so one pass merges them, and each side leaps to the position of the other. It
// stores no extra items and holds two small pages in memory (I9).
func (s *Service) Friends(ctx context.Context, user string, in PageRequest) (List[Edge], error) {
	scope := byUser("friends", user)
	position, err := scope.position(in.Cursor)
	if err != nil {
		return List[Edge]{}, err
	}
	sides := [2]*edgeReader{{s: s, pk: schema.FollowingPK(user)}, {s: s, pk: schema.FollowersPK(user)}}
	low := ""
	if position != "" {
		low = justAfter(position)
	}
	var heads [2]*schema.Edge
	if err := all(ctx,
		func(ctx context.Context) (err error) { heads[0], err = sides[0].seek(ctx, low); return err },
		func(ctx context.Context) (err error) { heads[1], err = sides[1].seek(ctx, low); return err },
	); err != nil {
		return List[Edge]{}, err
	}
	var friends []Edge
	for heads[0] != nil && heads[1] != nil && len(friends) <= in.limit() {
		lagging, low := 0, ""
		switch strings.Compare(heads[0].Other, heads[1].Other) {
		case 0:
			since := heads[0].Since
			if heads[1].Since.After(since) {
				since = heads[1].Since
			}
			friends = append(friends, Edge{heads[0].Other, since})
			low = justAfter(heads[0].Other)
		case -1:
			low = heads[1].Other
		case 1:
			lagging, low = 1, heads[0].Other
		}
		if heads[lagging], err = sides[lagging].seek(ctx, low); err != nil {
			return List[Edge]{}, err
		}
	}
	return userPage(ctx, s, friends, in, scope, edgeUser)
}

// justAfter returns a string that sorts after user and before every greater user id:
// '!' sorts before each character of user ids.
func justAfter(user string) string { return user + "!" }

// edgeReader reads edges in the order of their users, and can leap forward.
type edgeReader struct {
	s    *Service
	pk   string
	read []schema.Edge
	// end says that no edge follows those in read.
	end bool
}

// seek returns the first edge whose user is low or greater, nil if there is none. It
// cannot go back.
func (r *edgeReader) seek(ctx context.Context, low string) (*schema.Edge, error) {
	at, _ := slices.BinarySearchFunc(r.read, low, func(e schema.Edge, low string) int { return strings.Compare(e.Other, low) })
	r.read = r.read[at:]
	if len(r.read) == 0 && !r.end {
		q := table.Query{PK: r.pk, Low: schema.UserSK(low), PageSize: friendsPage, Consistent: true}
		edges, more, err := collect(r.s.cfg.Store.Query(ctx, q), friendsPage, each(func(it table.Item) (schema.Edge, bool, error) {
			edge, err := schema.ParseEdge(it)
			return edge, true, err
		}))
		if err != nil {
			return nil, err
		}
		r.read, r.end = edges, !more
	}
	if len(r.read) == 0 {
		return nil, nil
	}
	return &r.read[0], nil
}
