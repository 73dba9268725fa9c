// Package notices reads a user's notifications: the list, the number of unread notifications, and the
// mark up to which the user has read notifications. Workers write notifications; see package schema
// for the item.
//
// # It must never
//
//   - Write any item but the mark.
//   - Show a notification about a post that is gone, or by a muted or blocked user.
//   - Store a number: each number that a page shows is an existing count.
//   - Walk over a whole partition in one request: page.TableCalls is the bound (I11).
//
// # The invariants it keeps
//
//   - I7: a page continues after a place, never after a number of items. See List.
//   - I14: the mark of a page is the highest place that the page examined, and a mark only grows. See
//     MarkRead.
package notices

import (
	"context"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// domain is the part of the domain that pages need. feed.Service implements domain.
type domain interface {
	User(ctx context.Context, user string) (feed.User, error)
	MutesOf(ctx context.Context, user string) (map[string]bool, error)
	Hydrate(ctx context.Context, calls *page.Budget, viewer feed.Viewer, refs []access.Ref, posts *access.Readables) ([]feed.HomeItem, error)
}

// Notices reads notifications. Its methods are safe for concurrent use.
type Notices struct {
	access *access.Access
	feed   domain
	on     bool
	// unreadRead is called with each read of a number of unread notifications.
	unreadRead func()
}

// New returns the Notices of a feed. If on is false, each call returns NotificationsOff. unreadRead,
// if not nil, is called with each read of a number of unread notifications.
func New(a *access.Access, f domain, on bool, unreadRead func()) *Notices {
	if unreadRead == nil {
		unreadRead = func() {}
	}
	return &Notices{a, f, on, unreadRead}
}

// On reports whether notifications are switched on.
func (n *Notices) On() bool { return n.on }

func (n *Notices) requireOn() error {
	if n.on {
		return nil
	}
	return &fault.Error{Kind: fault.NotificationsOff, Detail: "notifications are switched off here"}
}

// Notice is a notification as its reader sees it.
type Notice struct {
	// ID stays the same when the notification moves to another place.
	ID     string
	Kind   schema.NoticeKind
	Target string
	// Actors are the users who acted last, the newest user first. The list is empty if only older actions
	// hold.
	Actors []Actor
	// Count is the stored number of likes, comments or followers. Count is nil for a mention and a repost, and if the
	// reader has too many own comments to subtract.
	Count *int64
	// At is the time of the notification's place.
	At     time.Time
	Unread bool
	// On is the post of the notification, nil for a follow.
	On *feed.HomeItem

	place string
	acts  []schema.Act
	// hidden is the number of kept actions that hold but are not shown.
	hidden int
}

// Actor is a user who acted.
type Actor struct {
	UserID string
	// Reaction is the kind of a like, "" for any other action.
	Reaction string
	At       time.Time
}

// Page is a page of notifications, the highest place first.
type Page[T any] struct {
	page.List[T]
	// ReadTo is the token of the highest place that the page examined. If the page examined no place,
	// ReadTo is the token of the mark.
	ReadTo string
	// Unread is the number of unread notifications, DefaultUnread at most. Only the first page has Unread.
	Unread *int
}

// reader reads one page.
type reader struct {
	n    *Notices
	user string
	size int
	// mark is the user's mark, and muted are the users whom the user mutes. blocks reports whether the
	// user ever had a block.
	mark   string
	muted  map[string]bool
	blocks bool
	// top is the highest examined place, and above is the number of keys above the mark. low is true once
	// a key was not above the mark.
	top   string
	above int
	low   bool
	// shown is the number of notifications on the page so far. seen has the ids of all examined
	// notifications.
	shown int
	seen  map[string]bool
	// posts are the read posts, and refs are the living posts among posts.
	posts access.Readables
	refs  map[string]access.Ref
}
