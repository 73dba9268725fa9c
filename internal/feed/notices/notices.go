// Package notices reads a user's notifications: the list, the number of unread ones, and the mark up to
// which they are read. Workers write notifications; see package schema for the item.
//
// # It must never
//
//   - Write anything but the mark.
//   - Show a notification about a post that is gone, or by a muted or blocked user.
//   - Store a number: each number that a page shows is a count that exists.
//   - Walk over a whole partition in one request: page.TableCalls is the bound (I11).
//
// # The invariants it keeps
//
//   - I7: a page continues after a place, never after a number of items. See List.
//   - I14: the mark of a page is the highest place that the page looked at, and a mark only grows. See
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
	"fanfare/internal/table"
)

// domain is the part of the domain that pages need. feed.Service has it.
type domain interface {
	User(ctx context.Context, user string) (feed.User, error)
	MutesOf(ctx context.Context, user string) (map[string]bool, error)
	Hydrate(ctx context.Context, calls *page.Budget, viewer string, refs []access.Ref, posts map[table.Key]table.Item) ([]feed.HomeItem, error)
}

// Notices reads notifications. Its methods may be called at the same time.
type Notices struct {
	access *access.Access
	feed   domain
	on     bool
	// unreadRead is called with each read of a number of unread notifications.
	unreadRead func()
}

// New returns the Notices of a feed. If on is false, each call answers NotificationsOff. unreadRead,
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
	// ID stays the same when the notification moves.
	ID     string
	Kind   schema.NoticeKind
	Target string
	// Actors are the users who acted last, the newest first. The list is empty if only older actions hold.
	Actors []Actor
	// Count is the stored number of likes, comments or followers. It is nil for a mention, and also if the
	// reader has too many own comments to subtract.
	Count *int64
	// At is the time of the notification's place.
	At     time.Time
	Unread bool
	// On is the post that the notification is about, nil for a follow.
	On *feed.HomeItem

	place string
	acts  []schema.Act
	// hidden is the number of kept actions that hold but do not show.
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
	// ReadTo is the token of the highest place that the page looked at, or of the mark if it looked at none.
	ReadTo string
	// Unread is the number of unread notifications, DefaultUnread at most. Only the first page has it.
	Unread *int
}

// reader reads one page.
type reader struct {
	n    *Notices
	user string
	size int
	// mark is the user's mark, and muted are the users that the user mutes. blocks reports whether the user
	// ever had a block.
	mark   string
	muted  map[string]bool
	blocks bool
	// top is the highest place that was looked at, and above is the number of keys above the mark. low is set
	// once a key was not above the mark.
	top   string
	above int
	low   bool
	// shown is the number of notifications on the page so far. seen has the ids of all
	// notifications that were looked at.
	shown int
	seen  map[string]bool
	// posts are the posts that were read, and refs the living posts among them.
	posts map[table.Key]table.Item
	refs  map[string]access.Ref
}
