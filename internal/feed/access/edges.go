package access

import (
	"context"
	"slices"

	"fanfare/internal/fault"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// edgesForEachUser bounds the query of a user's edges: for each user of the page, the query reads
// edgesForEachUser edges at most.
const edgesForEachUser = 3

// EdgesTo returns the subset of users for which a partition of one user's edges or blocks has an item that has none of the
// attributes but.
// Like ownReactions, EdgesTo reads the items between the first and the last of users; if the range has
// very many items, EdgesTo reads the remaining items by key. Both reads are consistent, because a
// follow must show at once.
func (a *Access) EdgesTo(ctx context.Context, pk string, users []string, but ...string) (map[string]bool, error) {
	has := make(map[string]bool, len(users))
	if len(users) > 1 {
		q := table.Query{
			PK: pk, Low: schema.UserSK(slices.Min(users)), High: schema.UserSK(slices.Max(users)),
			PageSize: edgesForEachUser * len(users), Consistent: true, Project: append([]string{}, but...),
		}
		last := "" // the sort key up to which all edges were read
		for read, err := range a.Store.Query(ctx, q) {
			if err != nil {
				return nil, fault.Wrap("table", err)
			}
			for _, it := range read.Items {
				has[page.PositionOf(it.Key.SK)], last = !slices.ContainsFunc(but, it.Has), it.Key.SK
			}
			if !read.More {
				return has, nil
			}
			if len(read.Items) > 0 {
				break
			}
		}
		users = slices.DeleteFunc(slices.Clone(users), func(user string) bool { return schema.UserSK(user) <= last })
	}
	keys := make([]table.Key, len(users))
	for i, user := range users {
		keys[i] = table.Key{PK: pk, SK: schema.UserSK(user)}
	}
	found, err := a.BatchGet(ctx, keys, true, but...)
	for key, it := range found {
		has[page.PositionOf(key.SK)] = !slices.ContainsFunc(but, it.Has)
	}
	return has, err
}
