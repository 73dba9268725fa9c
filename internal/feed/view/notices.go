package view

import (
	"context"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/notices"
	"fanfare/internal/page"
)

// Notice is a notification with the view of its post, and with the users who acted.
type Notice struct {
	notices.Notice
	Users []User
}

// JSONBytes returns an upper bound of the size of the notification in JSON.
func (n Notice) JSONBytes() int {
	size := page.FieldBytes
	if n.On != nil {
		size += n.On.JSONBytes()
	}
	for _, user := range n.Users {
		size += user.JSONBytes()
	}
	return size
}

// NoticeViews adds the views of the users, and the viewer's bookmarks, to a page of notifications. The
// page already has the posts.
func (v *Views) NoticeViews(ctx context.Context, viewer string, list notices.Page[notices.Notice]) (notices.Page[Notice], error) {
	var users []string
	for _, of := range list.Items {
		for _, actor := range of.Actors {
			users = append(users, actor.UserID)
		}
	}
	var posts []string
	for _, of := range list.Items {
		if of.On != nil {
			posts = append(posts, of.On.Post.ID)
		}
	}
	var refs []access.Ref
	for _, post := range once(posts) {
		refs = append(refs, access.Ref{Post: post})
	}
	var views map[string]User
	var kept map[string]feed.Kept
	err := v.access.All(ctx,
		func(ctx context.Context) (err error) {
			if len(users) > 0 {
				views, err = v.userViews(ctx, viewer, users, false)
			}
			return err
		},
		func(ctx context.Context) (err error) {
			kept, err = v.feed.KeptOf(ctx, &page.Budget{}, viewer, refs)
			return err
		},
	)
	if err != nil {
		return notices.Page[Notice]{}, err
	}
	items := make([]Notice, len(list.Items))
	for i, of := range list.Items {
		items[i].Notice = of
		if of.On != nil {
			of.On.Kept = kept[of.On.Post.ID]
		}
		for _, actor := range of.Actors {
			items[i].Users = append(items[i].Users, views[actor.UserID])
		}
	}
	with := page.With(list.List, items, func(n Notice) notices.Notice { return n.Notice })
	return notices.Page[Notice]{List: with, ReadTo: list.ReadTo, Unread: list.Unread}, nil
}
