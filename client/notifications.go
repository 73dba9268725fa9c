package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Notification is one kind of action on one target of the caller: likes, comments or reposts of a post, follows, or a
// mention.
type Notification struct {
	// ID stays the same when the notification moves up, so keep one notification for each ID.
	ID   string `json:"id" doc:"It stays while the notification moves: keep one notification for each id." example:"like:01JZ0000000000000000000000"`
	Kind string `json:"kind" enum:"like,comment,follow,mention,repost"`
	// Target is a post, "" for a follow.
	Target string `json:"target,omitempty" doc:"The post. Absent for a follow."`
	// Actors are the users who acted last, 3 at most.
	Actors []Actor `json:"actors" nullable:"false" maxItems:"3" doc:"The users that acted last, the newest first. Empty if only older actions are left."`
	// Count is the stored count, without the caller's own part. It is nil for a mention and for reposts.
	Count  *int64    `json:"count,omitempty" doc:"The count that exists without your own part: of likes, of comments, or of followers. Absent for a mention and for reposts, and where you have commented very often."`
	At     time.Time `json:"at" doc:"The time of the place in the list."`
	Unread bool      `json:"unread" doc:"True if it is above your mark."`
	// Post is nil except in NotificationViews.
	Post *PostView `json:"post,omitempty" doc:"Only with expand=view, and absent for a follow."`
}

// Actor is a user in a notification.
type Actor struct {
	UserID string `json:"user_id"`
	// Reaction is the kind of the reaction that Actor has, if the notification is about likes.
	Reaction string    `json:"reaction,omitempty" doc:"The kind of a like."`
	At       time.Time `json:"at" doc:"The time of the action."`
	// User is nil except in NotificationViews.
	User *UserView `json:"user,omitempty" doc:"Only with expand=view."`
}

// NotificationPage is a page of notifications.
type NotificationPage struct {
	Page[Notification]

	// ReadTo is the argument for ReadNotifications, after the user has seen the page.
	ReadTo string `json:"read_to"`
	// Unread is the number of unread notifications; 10 means 10 or more. Only the first page has this
	// number. If the page has all unread notifications, it is their number in the page; the numbers of Client.Unread
	// and Live may count hidden notifications, too, until the page's ReadTo is marked as read.
	Unread *int `json:"unread,omitempty"`
}

// Notifications reads a page of at most limit notifications (1..100; 0 is the service's default), newest
// first. The page begins at cursor. If a notification moves up between two reads, the first page has it.
func (c *Client) Notifications(ctx context.Context, cursor string, limit int) (NotificationPage, error) {
	return c.notifications(ctx, url.Values{}, cursor, limit)
}

// NotificationViews reads a page as Notifications does, with posts and users.
func (c *Client) NotificationViews(ctx context.Context, cursor string, limit int) (NotificationPage, error) {
	return c.notifications(ctx, view(), cursor, limit)
}

func (c *Client) notifications(ctx context.Context, of url.Values, cursor string, limit int) (NotificationPage, error) {
	return query[NotificationPage](ctx, c, paged(of, cursor, limit), "v1", "me", "notifications")
}

// Unread counts the caller's unread notifications up to most (1..100; 0 is the service's default).
func (c *Client) Unread(ctx context.Context, most int) (int, error) {
	of := url.Values{}
	if most != 0 {
		of.Set("most", strconv.Itoa(most))
	}
	out, err := query[unread](ctx, c, of, "v1", "me", "notifications", "unread")
	return out.Unread, err
}

type unread struct {
	Unread int `json:"unread"`
}

// ReadNotifications marks the caller's notifications as read, up to the ReadTo of a page. It returns the
// number of unread notifications; 10 means 10 or more.
func (c *Client) ReadNotifications(ctx context.Context, readTo string) (int, error) {
	body := struct {
		ReadTo string `json:"read_to"`
	}{readTo}
	var out unread
	err := c.do(ctx, call{method: http.MethodPut, path: path("v1", "me", "notifications", "read"), body: body}, &out)
	return out.Unread, err
}
