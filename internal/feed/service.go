// Package feed is the domain: users, follows, posts, comments, likes. Of the folders below feed,
// package home computes homes, package view computes views, package delivery reads deliveries, package
// removal removes users, and package access gives the other packages the table and the queue. Each
// access pattern of docs/ACCESS_PATTERNS.md is one method of the domain. Package feed uses the table
// and the queue through their ports and depends on neither AWS nor HTTP. Callers check the grammar of
// user ids and ULIDs; package feed checks the values of the domain, such as the length of a text.
// and ULIDs; this package checks the values of the domain, such as the length of a text.
//
// # It must never
//
//   - Answer success before the effect is durable (I5).
//   - Change a count outside of the transaction that changes the counted items (I4).
//   - Read a whole partition into memory, or Scan (I9).
//   - Walk over a whole partition in one request: page.TableCalls is the bound.
//   - Delete timeline entries, or compute a home. The home read leaves out unfollowed authors
//     and deleted posts (I2), and package fanout removes the entries of unfollowed authors.
//
// # The invariants it keeps
//
//   - I1: a new follower misses no post. The comment of Follow, in follows.go, gives the
//     reason.
//   - I2: posts of unfollowed authors, and deleted posts, never appear again. Unfollow in
//     unfollows.go, DeletePost in posts.go and the home's consistent reads ensure this.
//   - I4: counts are exact. Counts change in the transactions of follows.go, unfollows.go,
//     publish.go, posts.go and comments.go.
//   - I5: an accepted call is durable. See CreatePost and Like.
//   - I7, I10: every list is made by package page.
package feed

import (
	"context"

	"fanfare/internal/feed/access"
	"fanfare/internal/memory"
	"fanfare/messages"
)

// Config holds the parts and settings of a Service. Access is required; the zero value of each
// other field takes its default.
type Config struct {
	Access *access.Access
	// Authors, if not nil, saves the reads before a post of a known author. Authors is only for the one
	// process that writes the table; all Services of that process share one Authors.
	Authors *Authors
	// LikesByUser means that the index of likes by user contains likes.
	LikesByUser bool
	// RecentPosts is the number of an author's newest posts that a new follow shows. The default is 100.
	RecentPosts int
	// MaxFollowing is the number of users whom one user may follow. 0 means no limit.
	MaxFollowing int64
	// FollowersPerLikeShard is the number of followers for which the like lists of an author's posts get
	// one more partition. The default is 100,000.
	FollowersPerLikeShard int64
	// UserUnits is the number of capacity units that the calls of one user may cause in an hour, over all
	// processes (docs/decisions/0044). 0 means no limit.
	UserUnits int64
	// Notices, if not nil, sends the events that notify users.
	Notices func(ctx context.Context, events ...messages.Event) error
	// Posted is called once for each accepted post, and not for a repeated call whose post is already in
	// the table.
	Posted func()
}

func (c Config) withDefaults() Config {
	if c.RecentPosts <= 0 {
		c.RecentPosts = 100
	}
	if c.FollowersPerLikeShard <= 0 {
		c.FollowersPerLikeShard = 100_000
	}
	if c.Posted == nil {
		c.Posted = func() {}
	}
	return c
}

// Service is the domain without its homes, views, deliveries and removals. Its methods are safe for
// concurrent use.
type Service struct {
	cfg    Config
	access *access.Access
	// users reads profiles with counts, consistently.
	users     func(context.Context, []string) (map[string]storedUser, error)
	unwritten unwritten
}

// New returns a Service.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg.withDefaults(), access: cfg.Access, unwritten: unwritten{posts: map[string][]unwrittenPost{}}}
	s.users = s.readUsers
	if !s.access.Local { // a local table has no limit on the reads of one item
		s.users = memory.Share(s.readUsers).Get
	}
	return s
}
