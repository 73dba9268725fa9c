package feed

import (
	"context"
	"slices"
	"strings"

	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// friendsPage is the number of edges of one side that are read at a time.
const friendsPage = 64

// Friends lists the users who follow user and whom user follows, by user id, without silent follows. The time of a friendship
// is the time of its younger follow. Both partitions are sorted by the same key, so one pass merges
// the two lists, and each list skips to the position of the other list. Friends stores no extra items
// and keeps two small pages in memory (I9). Two long lists without a common user would take many
// calls. Then the page ends after the last user that the slower list has read, because all users up to
// that user have been compared.
func (s *Service) Friends(ctx context.Context, user string, in page.Request) (page.List[Edge], error) {
	scope := page.ListByUser("friends", user)
	position, err := scope.Position(in.Cursor)
	if err != nil {
		return page.List[Edge]{}, err
	}
	sides := [2]*edgeReader{{s: s, pk: schema.FollowingPK(user)}, {s: s, pk: schema.FollowersPK(user)}}
	low := ""
	if position != "" {
		low = justAfter(position)
	}
	calls := page.BudgetAfter(3) // the first pages, and the check of the user
	var next [2]*schema.Edge
	if err := s.access.All(ctx,
		func(ctx context.Context) (err error) { next[0], err = sides[0].seek(ctx, low); return err },
		func(ctx context.Context) (err error) { next[1], err = sides[1].seek(ctx, low); return err },
	); err != nil {
		return page.List[Edge]{}, err
	}
	var friends page.Stretch[Edge]
	for next[0] != nil && next[1] != nil && len(friends.Items) <= in.Size() {
		lagging, low := 0, ""
		switch strings.Compare(next[0].Other, next[1].Other) {
		case 0:
			since := next[0].Since
			if next[1].Since.After(since) {
				since = next[1].Since
			}
			if !next[0].Silent && !next[1].Silent {
				friends.Items = append(friends.Items, Edge{next[0].Other, since})
			}
			low = justAfter(next[0].Other)
		case -1:
			low = next[1].Other
		case 1:
			lagging, low = 1, next[0].Other
		}
		if sides[lagging].reads(low) && !calls.Take(1) {
			friends.Cut = sides[lagging].last
			break
		}
		if next[lagging], err = sides[lagging].seek(ctx, low); err != nil {
			return page.List[Edge]{}, err
		}
	}
	return access.UserPage(ctx, s.access, friends, in, scope, edgeUser)
}

// justAfter returns a string that sorts after user and before every greater user id:
// '!' sorts before each character of user ids.
func justAfter(user string) string { return user + "!" }

// edgeReader reads edges in the order of their users, and can skip forward.
type edgeReader struct {
	s    *Service
	pk   string
	read []schema.Edge
	// last is the user of the last edge that was read.
	last string
	// end means that no edge follows the edges in read.
	end bool
}

// reads reports whether seek needs a read of the table.
func (r *edgeReader) reads(low string) bool {
	return !r.end && (len(r.read) == 0 || r.last < low)
}

// seek returns the first edge whose user is at least low, nil if no such edge exists. A later call
// must not have a smaller low.
func (r *edgeReader) seek(ctx context.Context, low string) (*schema.Edge, error) {
	at, _ := slices.BinarySearchFunc(r.read, low, func(e schema.Edge, low string) int { return strings.Compare(e.Other, low) })
	r.read = r.read[at:]
	if len(r.read) == 0 && !r.end {
		q := table.Query{PK: r.pk, Low: schema.UserSK(low), Consistent: true}
		page, err := page.Collect(ctx, r.s.access.Store, q, friendsPage, page.Refill{}, page.Each(func(it table.Item) (schema.Edge, bool, error) {
			edge, err := schema.ParseEdge(it)
			return edge, true, err
		}))
		if err != nil {
			return nil, err
		}
		r.read, r.end = page.Items, !page.More
		if n := len(r.read); n > 0 {
			r.last = r.read[n-1].Other
		}
	}
	if len(r.read) == 0 {
		return nil, nil
	}
	return &r.read[0], nil
}
