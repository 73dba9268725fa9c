// Package home computes homes: the posts of a reader's followees, newest first. By push, a home is the
// reader's timeline, which fan-out writes, with the posts of a few authors merged in. By pull, a home
// is merged from the followees' post lists. Package feed makes the items of a page. Explain returns
// the reason why a home shows or does not show a post.
//
// # It must never
//
//   - Write any item but the reader's presence: workers write entries, at the request of a home
//     read. Only PutAway, for development, dates edges back.
//   - Show a post whose deletion, or whose author's unfollow, was answered before the read (I2).
//   - Walk over a whole partition in one request: page.TableCalls is the bound (I11).
//   - Hold more than a page of a list in memory (I9).
//
// # The invariants it keeps
//
//   - I1: a home misses no post of a followee. See timeline.go and away.go.
//   - I2: marks and posts are read consistently. See timeline.go and pull.go.
//   - I7: paging neither repeats nor skips. See lists.go and package page.
package home

import (
	"context"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// items makes the items of a home from references to posts. feed.Service implements items.
type items interface {
	Hydrate(ctx context.Context, calls *page.Budget, viewer feed.Viewer, refs []access.Ref, posts *access.Readables) ([]feed.HomeItem, error)
	FillUp(ctx context.Context, viewer feed.Viewer, refs []access.Ref, missing int) (shown []feed.HomeItem, more bool, err error)
}

// mutes returns a user's muted authors. feed.Service implements mutes.
type mutes interface {
	MutesOf(ctx context.Context, user string) (map[string]bool, error)
}

// Config holds the parts and settings of Homes. Access, Items and Mutes are required; the zero
// value of each other field takes its default.
type Config struct {
	Access *access.Access
	Items  items
	Mutes  mutes
	// HeadAge is the maximum age of a pulled author's newest posts on a first page of a home. First pages
	// share these posts for HeadAge. With 0, first pages share nothing.
	HeadAge time.Duration
	// HeadBytes bounds the memory of the shared posts. The default is 16 MiB.
	HeadBytes int
	// HeadsHeld is called with the size of the memory of the shared posts when that size changes.
	HeadsHeld func(bytes int)
	// StreamPart is the number of posts that a look at a live home reads and sends at once. The default is
	// 20.
	StreamPart int
	// RemoveFrom is a number of entries of an unfollowed author. A home read that skipped at least
	// RemoveFrom entries requests the removal of the entries. The default is 100: the removal of an entry
	// costs two write units, and each read of 100 entries costs two read units.
	RemoveFrom int
}

func (c Config) withDefaults() Config {
	if c.HeadBytes <= 0 {
		c.HeadBytes = defaultHeadBytes
	}
	if c.HeadsHeld == nil {
		c.HeadsHeld = func(int) {}
	}
	if c.StreamPart <= 0 {
		c.StreamPart = page.DefaultLimit
	}
	if c.RemoveFrom <= 0 {
		c.RemoveFrom = 100
	}
	return c
}

// Homes reads homes. Its methods are safe for concurrent use.
type Homes struct {
	cfg       Config
	access    *access.Access
	items     items
	mutes     mutes
	heads     *heads
	reminders *reminders
	seen      *seenReaders
}

// New returns Homes.
func New(cfg Config) *Homes {
	h := &Homes{cfg: cfg.withDefaults(), access: cfg.Access, items: cfg.Items, mutes: cfg.Mutes}
	h.heads, h.reminders, h.seen = newHeads(h.cfg), newReminders(h.access.Now), newSeenReaders(h.access.Now)
	return h
}

// HasProfile reports whether a reader has a profile. An inconsistent read costs half as much, but may
// return a removed profile while a replica is behind.
func (h *Homes) HasProfile(ctx context.Context, viewer string, consistent bool) (bool, error) {
	it, err := h.access.Get(ctx, schema.ProfileKey(viewer), consistent, schema.AttrAfter)
	return it != nil, err
}
