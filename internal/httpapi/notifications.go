package httpapi

import (
	"context"
	"net/http"

	"fanfare/client"
	"fanfare/internal/feed/notices"
	"fanfare/internal/feed/view"
)

// NotificationPage is a page of notifications.
type NotificationPage struct {
	List[client.Notification]
	ReadTo string `json:"read_to" doc:"Send it to PUT /v1/me/notifications/read once the page was seen: it covers each notification that this page has looked at, also hidden ones."`
	Unread *int   `json:"unread,omitempty" minimum:"0" maximum:"10" doc:"The number of unread notifications; 10 is 10 or more. Only the first page has it. If the page has all unread notifications, this is their number in the page."`
}

// Unread is a number of unread notifications.
type Unread struct {
	Unread int `json:"unread" minimum:"0" maximum:"10" doc:"10 is 10 or more."`
}

// UnreadUpTo is a number of unread notifications with an upper bound.
type UnreadUpTo struct {
	Unread int `json:"unread" minimum:"0" maximum:"100" doc:"most is that many or more. It may count a notification that the list hides, such as one of a muted user, or of a post that was deleted in the last minutes, until the read_to of a page is marked as read."`
	Most   int `json:"most" minimum:"1" maximum:"100"`
}

// ReadTo marks notifications as read.
type ReadTo struct {
	ReadTo string `json:"read_to" minLength:"1" maxLength:"256" doc:"The read_to of a page of your notifications."`
}

func (a *API) registerNotifications() {
	const tag = "Notifications"
	type listIn struct {
		Page
		Views
	}
	type listOut struct{ Body NotificationPage }
	list := operation(route{http.MethodGet, "/v1/me/notifications", "list-notifications", tag, "List your notifications, the newest first"}, http.StatusOK, http.StatusNotFound)
	list.Description = "A notification is about one kind of action on one target, and moves up with each new action. A page continues behind a place, so each notification that stays is on one page, " +
		"and one that moves up meanwhile is on the first page when you read it again. Posts that are gone, and users that you mute, that have a block with you or follow you no more, are left out at once, removed users within a minute. " + offNotifications
	register(a, list, func(ctx context.Context, in *listIn) (*listOut, error) {
		page, err := a.notices.List(ctx, userOf(ctx), in.request())
		if err != nil {
			return nil, err
		}
		if !in.wanted() {
			return &listOut{toNotifications(toNotification, page)}, nil
		}
		views, err := a.views.NoticeViews(ctx, userOf(ctx), page)
		if err != nil {
			return nil, err
		}
		return &listOut{toNotifications(toNotificationView, views)}, nil
	})

	type unreadIn struct {
		Most int `query:"most" minimum:"1" maximum:"100" default:"10" doc:"The number from which on nobody counts."`
	}
	type unreadOut struct{ Body UnreadUpTo }
	unread := operation(route{http.MethodGet, "/v1/me/notifications/unread", "count-unread", tag, "Count your unread notifications"}, http.StatusOK, http.StatusNotFound)
	unread.Description = offNotifications
	register(a, unread, func(ctx context.Context, in *unreadIn) (*unreadOut, error) {
		n, err := a.notices.Unread(ctx, userOf(ctx), in.Most)
		if err != nil {
			return nil, err
		}
		return &unreadOut{UnreadUpTo{n, in.Most}}, nil
	})

	type readIn struct{ Body ReadTo }
	type readOut struct{ Body Unread }
	read := operation(route{http.MethodPut, "/v1/me/notifications/read", "read-notifications", tag, "Mark your notifications as read"}, http.StatusOK, http.StatusNotFound, http.StatusConflict)
	read.Description = "The mark only grows, so calls may be repeated, and come from several devices in any order. The next read shows it. A read_to that was changed, or is another user's, is 400. " + offNotifications
	register(a, read, func(ctx context.Context, in *readIn) (*readOut, error) {
		n, err := a.notices.MarkRead(ctx, userOf(ctx), in.Body.ReadTo)
		if err != nil {
			return nil, err
		}
		return &readOut{Unread{n}}, nil
	})
}

// offNotifications describes the refusal of a call about notifications.
const offNotifications = "Where notifications are switched off it is 404 of type notifications-off."

func toNotifications[F any](item func(F) client.Notification, in notices.Page[F]) NotificationPage {
	return NotificationPage{List: toList(item, in.List), ReadTo: in.ReadTo, Unread: in.Unread}
}

func toNotification(in notices.Notice) client.Notification {
	out := client.Notification{
		ID: in.ID, Kind: string(in.Kind), Target: in.Target, Actors: make([]client.Actor, len(in.Actors)), Count: in.Count, At: in.At.UTC(), Unread: in.Unread,
	}
	for i, actor := range in.Actors {
		out.Actors[i] = client.Actor{UserID: actor.UserID, Reaction: actor.Reaction, At: actor.At.UTC()}
	}
	return out
}

func toNotificationView(in view.Notice) client.Notification {
	out := toNotification(in.Notice)
	if in.On != nil {
		post := toPostView(view.Post{HomeItem: *in.On})
		out.Post = &post
	}
	for i, user := range in.Users {
		shown := toUserView(user)
		out.Actors[i].User = &shown
	}
	return out
}
