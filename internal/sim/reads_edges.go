package sim

import (
	"context"
	"fmt"
	"slices"

	"fanfare/internal/feed"
	"fanfare/internal/feed/view"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// edgeReads returns the reads of the follows between users.
func edgeReads() map[string]readKind {
	between := func(of *read) (string, []string) {
		there, back := of.w.shows(of.user, of.user, of.other), of.w.shows(of.user, of.other, of.user)
		return fmt.Sprint(there, back), []string{schema.FollowingPK(of.user), schema.FollowersPK(of.user), schema.FollowingPK(of.other)}
	}
	return map[string]readKind{
		"relationship": {truth: between, do: func(ctx context.Context, s *domain, of *read) (string, error) {
			is, err := s.Relationship(ctx, of.user, of.user, of.other)
			return fmt.Sprint(is.Following, is.FollowedBy), err
		}},
		"user with follows": {calls: "view.(*Views).Relations", truth: between, do: func(ctx context.Context, s *domain, of *read) (string, error) {
			is, err := s.Relations(ctx, of.user, of.other)
			return fmt.Sprint(is.Following, is.FollowedBy), err
		}},
		"users": {truth: between, do: func(ctx context.Context, s *domain, of *read) (string, error) {
			found, err := s.UserViews(ctx, of.user, []string{of.other, "nobody"})
			if err != nil || len(found.Items) != 1 || len(found.Missing) != 1 {
				return fmt.Sprint(found), err
			}
			return fmt.Sprint(found.Items[0].Following, found.Items[0].FollowedBy), nil
		}},
		"followers with users": {calls: "view.(*Views).EdgeViews", do: func(ctx context.Context, s *domain, of *read) (string, error) {
			list, err := s.Followers(ctx, of.other, page.Request{})
			if err != nil {
				return "", err
			}
			views, err := s.EdgeViews(ctx, of.user, list)
			return fmt.Sprint(lines(views.Items, func(v view.WithUser[feed.Edge]) string {
				return fmt.Sprint(v.User.ID, v.User.Following, v.User.FollowedBy)
			})), err
		}, truth: func(of *read) (string, []string) {
			views := lines(of.w.shownIn(schema.FollowersPK(of.other)), func(user string) string {
				there, back := of.w.shows(of.user, of.user, user), of.w.shows(of.user, user, of.user)
				return fmt.Sprint(user, there, back)
			})
			return fmt.Sprint(views[:min(len(views), page.DefaultLimit)]), []string{schema.FollowersPK(of.other), schema.FollowersPK(of.user), schema.FollowingPK(of.user)}
		}},
	}
}

// edgeLists returns the reads of the lists of follows, mutes and blocks.
func edgeLists() map[string]readKind {
	listOf := func(pk func(of *read) []string, users func(of *read) []string, list func(s *domain, ctx context.Context, of *read, in page.Request) (page.List[feed.Edge], error)) readKind {
		return readKind{
			do: func(ctx context.Context, s *domain, of *read) (string, error) {
				edges, err := whole(&reader{r: of.r}, func(in page.Request) (page.List[feed.Edge], error) { return list(s, ctx, of, in) })
				return fmt.Sprint(lines(edges, func(e feed.Edge) string { return e.UserID })), err
			},
			truth: func(of *read) (string, []string) { return fmt.Sprint(users(of)), pk(of) },
		}
	}
	return map[string]readKind{
		"followers": listOf(
			func(of *read) []string { return []string{schema.FollowersPK(of.other)} },
			func(of *read) []string { return of.w.shownIn(schema.FollowersPK(of.other)) },
			func(s *domain, ctx context.Context, of *read, in page.Request) (page.List[feed.Edge], error) {
				return s.Followers(ctx, of.other, in)
			}),
		"following": listOf(
			func(of *read) []string { return []string{schema.FollowingPK(of.other)} },
			func(of *read) []string {
				if of.other == of.user {
					return of.w.usersIn(schema.FollowingPK(of.other))
				}
				return of.w.shownIn(schema.FollowingPK(of.other))
			},
			func(s *domain, ctx context.Context, of *read, in page.Request) (page.List[feed.Edge], error) {
				return s.Following(ctx, of.user, of.other, in)
			}),
		"friends": listOf(
			func(of *read) []string {
				return []string{schema.FollowingPK(of.other), schema.FollowersPK(of.other)}
			},
			func(of *read) []string {
				followers := of.w.shownIn(schema.FollowersPK(of.other))
				return slices.DeleteFunc(of.w.shownIn(schema.FollowingPK(of.other)), func(user string) bool { return !slices.Contains(followers, user) })
			},
			func(s *domain, ctx context.Context, of *read, in page.Request) (page.List[feed.Edge], error) {
				return s.Friends(ctx, of.other, in)
			}),
		"mutes": listOf(
			func(of *read) []string { return []string{schema.MarksPK(of.user)} },
			func(of *read) []string { return of.w.mutedBy(of.user) },
			func(s *domain, ctx context.Context, of *read, in page.Request) (page.List[feed.Edge], error) {
				return s.Mutes(ctx, of.user, in)
			}),
		"blocks": listOf(
			func(of *read) []string { return []string{schema.BlocksPK(of.user)} },
			func(of *read) []string { return of.w.blockedBy(of.user) },
			func(s *domain, ctx context.Context, of *read, in page.Request) (page.List[feed.Edge], error) {
				return s.Blocks(ctx, of.user, in)
			}),
	}
}

// usersIn returns the users of a partition whose sort keys are users, in order.
func (w *World) usersIn(pk string) []string {
	all := []string{}
	for _, it := range w.partition(pk) {
		if user, ok := schema.UserOfSK(it.Key.SK); ok {
			all = append(all, user)
		}
	}
	return all
}
