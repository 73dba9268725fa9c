// Package feed is the domain: users, follows, posts, comments, likes and homes.
// Every access pattern of docs/ACCESS_PATTERNS.md is here, once. It speaks to the
// table and the queue through their ports and knows neither AWS nor HTTP.
//
// # What it must never do
//
//   - Answer success before the effect is durable (I5).
//   - Change a count outside of the transaction that changes what it counts (I4).
//   - Read a whole partition into memory, or Scan (I9).
//   - Delete timeline entries: the home read leaves out what must not show (I2).
//
// # Where the invariants are kept
//
//   - I1, no post missed by a new follower: Follow, in follows.go.
//   - I2, no resurrection: Unfollow, in follows.go; DeletePost, in posts.go; and the
//     consistent reads of the home, in home.go.
//   - I4, counts: the transactions in follows.go, publish.go and posts.go.
//   - I5, accepted is durable: CreatePost, in publish.go; Like, in likes.go.
//   - I7, paging: the merge rule in merge.go and the positions in cursor.go.
//   - I10, strangers out: cursors are bound to a list, its user and its filter.
//
// The callers have checked the grammar of user ids and ULIDs. This package checks
// the values of the domain.
package feed

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/table"
)

// Config is what a Service needs.
type Config struct {
	// Store is the table. Expired items are hidden here; it need not do that.
	Store table.Store
	// Publisher takes PostCreated, Followed, Liked and Unliked.
	Publisher message.Publisher
	// IDs makes the ids of posts, comments and events: one for the process.
	IDs *id.Generator
	// Now is the clock.
	Now func() time.Time
	// TimelineTTL is how long a post stays in homes, by the time of its id.
	TimelineTTL time.Duration
	// LikesByUser tells whether likes are in the index of the user's likes.
	LikesByUser bool
	// PushLimit is the number of followers above which a new follower's home
	// pulls the author; 0 is never.
	PushLimit int64
	// FollowersPerLikeShard spreads the like list of a post over one more
	// partition for each that many followers of its author; 0 is 100,000.
	FollowersPerLikeShard int64
	// Jitter returns a number in [0, 1) that spreads retries; nil is random.
	Jitter func() float64
	// Posted, if not nil, hears of each post that was accepted. A call that repeats
	// another, whose post is in the table, accepts none.
	Posted func()
	// RequestID returns the id of the request that ctx belongs to, for events
	// and logs; nil is none.
	RequestID func(context.Context) string
	Log       *zap.Logger
}

// Limits that are part of what users see.
const (
	// RecentPosts is how many of an author's newest posts a new follow shows.
	RecentPosts = 100
	// DefaultLimit and MaxLimit are the sizes of a page.
	DefaultLimit = 20
	MaxLimit     = 100
)

// readers is how many queries of one request run at the same time (I9).
const readers = 20

// Service is the domain. Its methods may be called at the same time.
type Service struct {
	store       table.Store
	publisher   message.Publisher
	ids         *id.Generator
	now         func() time.Time
	timelineTTL time.Duration
	likesByUser bool
	pushLimit   int64
	perShard    int64
	jitter      func() float64
	posted      func()
	requestID   func(context.Context) string
	log         *zap.Logger
	reminders   *reminders
	posts       *sharedReads
}

// New returns a Service.
func New(cfg Config) *Service {
	s := &Service{
		store:       table.HideExpired(cfg.Store, cfg.Now),
		publisher:   cfg.Publisher,
		ids:         cfg.IDs,
		now:         cfg.Now,
		timelineTTL: cfg.TimelineTTL,
		likesByUser: cfg.LikesByUser,
		pushLimit:   cfg.PushLimit,
		perShard:    cfg.FollowersPerLikeShard,
		jitter:      cfg.Jitter,
		posted:      cfg.Posted,
		requestID:   cfg.RequestID,
		log:         cfg.Log,
		reminders:   newReminders(cfg.Now),
	}
	s.posts = newSharedReads(func(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
		return s.batchGet(ctx, keys, true)
	})
	if s.perShard <= 0 {
		s.perShard = 100_000
	}
	if s.jitter == nil {
		s.jitter = rand.Float64
	}
	if s.posted == nil {
		s.posted = func() {}
	}
	if s.requestID == nil {
		s.requestID = func(context.Context) string { return "" }
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	return s
}
