package view

import (
	"context"
	"maps"
	"slices"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// User is a user as lists show users, with the follows between the user and the viewer.
type User struct {
	feed.HomeAuthor
	Following, FollowedBy bool
}

// WithUser is an item of a list, with the user that the item names.
type WithUser[T any] struct {
	Item T
	User User
}

// JSONBytes returns an upper bound of the size of the item in JSON.
func (w WithUser[T]) JSONBytes() int {
	n := w.User.JSONBytes()
	if item, ok := any(w.Item).(interface{ JSONBytes() int }); ok {
		n += item.JSONBytes()
	}
	return n
}

// JSONBytes returns an upper bound of the size of the view in JSON.
func (u User) JSONBytes() int {
	return page.FieldBytes + page.JSONBytes(u.Name) + page.JSONBytes(u.ImageURL)
}

// UserViews returns the views of the existing users among users, MaxLimit at most.
func (v *Views) UserViews(ctx context.Context, viewer string, users []string) (Found[User], error) {
	byID, err := v.userViews(ctx, viewer, users, true)
	if err != nil {
		return Found[User]{}, err
	}
	var views []User
	for _, user := range once(users) {
		if view, ok := byID[user]; ok {
			views = append(views, view)
		}
	}
	return found(users, views, func(u User) string { return u.ID }), nil
}

// Relations returns the follows between viewer and user, as viewer may see these follows.
func (v *Views) Relations(ctx context.Context, viewer, user string) (User, error) {
	views, err := v.relations(ctx, viewer, []string{user})
	return views[user], err
}

// EdgeViews adds the views of the users to a page of follows, friends, mutes or blocks.
func (v *Views) EdgeViews(ctx context.Context, viewer string, list page.List[feed.Edge]) (page.List[WithUser[feed.Edge]], error) {
	return withUsers(ctx, v, viewer, list, func(e feed.Edge) string { return e.UserID })
}

// LikerViews adds the views of the users to a page of likers.
func (v *Views) LikerViews(ctx context.Context, viewer string, list page.List[feed.Liker]) (page.List[WithUser[feed.Liker]], error) {
	return withUsers(ctx, v, viewer, list, func(l feed.Liker) string { return l.UserID })
}

// CommentViews adds the views of the authors to a page of comments.
func (v *Views) CommentViews(ctx context.Context, viewer string, list page.List[feed.Comment]) (page.List[WithUser[feed.Comment]], error) {
	return withUsers(ctx, v, viewer, list, func(c feed.Comment) string { return c.AuthorID })
}

// withUsers adds the views of the users to a page of a list. withUsers takes two round trips and 5
// table calls at most: for the profiles, and for the viewer's edges in both directions.
func withUsers[T any](ctx context.Context, v *Views, viewer string, list page.List[T], user func(T) string) (page.List[WithUser[T]], error) {
	if len(list.Items) == 0 {
		return page.List[WithUser[T]]{NextCursor: list.NextCursor}, nil
	}
	users := make([]string, len(list.Items))
	for i, item := range list.Items {
		users[i] = user(item)
	}
	views, err := v.userViews(ctx, viewer, users, false)
	if err != nil {
		return page.List[WithUser[T]]{}, err
	}
	items := make([]WithUser[T], len(users))
	for i, item := range list.Items {
		items[i] = WithUser[T]{item, views[users[i]]}
	}
	return page.With(list, items, func(w WithUser[T]) T { return w.Item }), nil
}

// userViews returns the views of users by their ids. A name may be a minute old. If ask is true,
// userViews leaves out users without a profile; a second, consistent read confirms that a profile is
// absent.
func (v *Views) userViews(ctx context.Context, viewer string, users []string, ask bool) (map[string]User, error) {
	users = once(users)
	keys := make([]table.Key, len(users))
	for i, user := range users {
		keys[i] = schema.ProfileKey(user)
	}
	var profiles map[table.Key]table.Item
	var views map[string]User
	err := v.access.All(ctx,
		func(ctx context.Context) (err error) { profiles, err = v.access.Recent.Get(ctx, keys); return err },
		func(ctx context.Context) (err error) { views, err = v.relations(ctx, viewer, users); return err },
	)
	if err != nil {
		return nil, err
	}
	if ask {
		absent := slices.DeleteFunc(keys, func(key table.Key) bool { _, ok := profiles[key]; return ok })
		found, err := v.access.BatchGet(ctx, absent, true, schema.AttrName, schema.AttrImageURL)
		if err != nil {
			return nil, err
		}
		maps.Copy(profiles, found)
	}
	for user, view := range views {
		it, ok := profiles[schema.ProfileKey(user)]
		if !ok && ask {
			delete(views, user)
			continue
		}
		if ok {
			profile, err := schema.ParseProfile(it)
			if err != nil {
				return nil, fault.Wrap("table", err)
			}
			view.Name, view.ImageURL = profile.Name, profile.ImageURL
		}
		views[user] = view
	}
	return views, nil
}

// relations returns views of users that contain only the users' ids and follows.
func (v *Views) relations(ctx context.Context, viewer string, users []string) (map[string]User, error) {
	var following, followers map[string]bool
	err := v.access.All(ctx,
		func(ctx context.Context) (err error) {
			following, err = v.access.EdgesTo(ctx, schema.FollowingPK(viewer), users)
			return err
		},
		func(ctx context.Context) (err error) {
			followers, err = v.access.EdgesTo(ctx, schema.FollowersPK(viewer), users, schema.AttrSilent)
			return err
		},
	)
	views := make(map[string]User, len(users))
	for _, user := range users {
		views[user] = User{feed.HomeAuthor{ID: user}, following[user], followers[user]}
	}
	return views, err
}
