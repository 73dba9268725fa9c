// Package feed is the domain: users, follows, posts, comments, likes and homes.
// Each access pattern of docs/ACCESS_PATTERNS.md is one method of Service. The
// package uses the table and the queue through their ports and knows neither AWS
// nor HTTP. Callers have checked the grammar of user ids and ULIDs; this package
// checks the values of the domain, such as the length of a text.
//
// # It must never
//
//   - Answer success before the effect is durable (I5).
//   - Change a count outside of the transaction that changes the counted items (I4).
//   - Read a whole partition into memory, or Scan (I9).
//   - Walk over a whole partition in one request: tableCalls, in merge.go, is the bound.
//   - Delete timeline entries. The home read leaves out unfollowed authors and
//     deleted posts (I2), and package fanout removes the former's entries.
//
// # The invariants it keeps
//
//   - I1: a new follower misses no post. Follow, in follows.go, says why.
//   - I2: unfollowed authors and deleted posts never come back. Unfollow in
//     follows.go, DeletePost in posts.go and the home's consistent reads do this.
//   - I4: counts are exact. They change in the transactions of follows.go,
//     publish.go, posts.go and comments.go.
//   - I5: an accepted call is durable. See CreatePost and Like.
//   - I7: paging neither repeats nor skips. See merge.go and cursor.go.
//   - I10: a cursor works only for the list, the user and the filter it was made for.
package feed

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/table"
)

// Config holds the parts and settings of a Service. The fields down to TimelineTTL
// are required; the zero value of each other field takes its default.
type Config struct {
	// Store is the table. It may return expired items: New hides them.
	Store table.Store
	// Local says that Store is in this process. A request then makes its reads one after
	// the other and shares none of those of posts and profiles.
	Local bool
	// Authors, if not nil, spares known authors the reads before a post. Only a process that
	// alone writes the table may have it, one for all its Services.
	Authors *Authors
	// Publisher takes PostCreated, PostDeleted, Followed, Unfollowed, Seen, Returned, Liked and
	// Unliked.
	Publisher message.Publisher
	// IDs makes the ids of posts, comments and events. A process has one.
	IDs *id.Generator
	// Now is the clock.
	Now func() time.Time
	// Clock, if not nil, says when Now must not decide by age.
	Clock *clock.Clock
	// TimelineTTL is how long a post stays in homes, by the time of its id.
	TimelineTTL time.Duration
	// LikesByUser says that likes are in the index of likes by user.
	LikesByUser bool
	// LikeWindow is the window of the like aggregators. The reads of this Service share
	// like counts for half of it, and authors' names for a minute. With 0 each reads them.
	LikeWindow time.Duration
	// HeadAge is how old the newest posts of a pulled author may be on a first page of a
	// home. First pages share them for so long. With 0 each reads them.
	HeadAge time.Duration
	// HeadBytes bounds the memory of the shared posts. Default 16 MiB.
	HeadBytes int
	// HeadsHeld is called with the size of that memory when it changes.
	HeadsHeld func(bytes int)
	// RecentPosts is how many of an author's newest posts a new follow shows. Default
	// 100.
	RecentPosts int
	// StreamPart is how many posts a look at a live home reads and sends at once. Default 20.
	StreamPart int
	// RemoveFrom is the number of entries of an unfollowed author from which a home read
	// that had to skip them asks for their removal. Default 100: an entry costs two write
	// units to remove, and reading 100 entries costs two read units.
	RemoveFrom int
	// ActiveDays is how many days ahead the edges of readers are dated. 0 enrols nobody.
	ActiveDays int
	// MaxFollowing is the number of users whom one user may follow. 0 is no limit.
	MaxFollowing int64
	// FollowersPerLikeShard is the number of followers for which the like lists of
	// an author's posts get one more partition. Default 100,000.
	FollowersPerLikeShard int64
	// Jitter returns a number in [0, 1) that spreads retries. Default random.
	Jitter func() float64
	// Posted is called once for each accepted post. A call that repeats another
	// one, whose post is in the table already, accepts none.
	Posted func()
	// RequestID returns the id of the request that ctx belongs to, for events and
	// logs. Default "".
	RequestID func(context.Context) string
	// Log takes the warnings. Default none.
	Log *zap.Logger
}

func (c Config) withDefaults() Config {
	c.Store = table.MeasureContext(table.HideExpired(c.Store, c.Now), addCost)
	if c.HeadBytes <= 0 {
		c.HeadBytes = defaultHeadBytes
	}
	if c.HeadsHeld == nil {
		c.HeadsHeld = func(int) {}
	}
	if c.RecentPosts <= 0 {
		c.RecentPosts = 100
	}
	if c.StreamPart <= 0 {
		c.StreamPart = DefaultLimit
	}
	if c.RemoveFrom <= 0 {
		c.RemoveFrom = 100
	}
	if c.FollowersPerLikeShard <= 0 {
		c.FollowersPerLikeShard = 100_000
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.Posted == nil {
		c.Posted = func() {}
	}
	if c.RequestID == nil {
		c.RequestID = func(context.Context) string { return "" }
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// DefaultLimit and MaxLimit are the sizes of a page.
const (
	DefaultLimit = 20
	MaxLimit     = 100
)

const (
	// readers is the number of shards of a like list, or of delivery records, that one
	// request reads at the same time, and the number of reminders that a home read sends
	// (I9).
	readers = 20
	// homeReaders is the number of post lists that one home read reads at the same time.
	homeReaders = 100
)

// Service is the domain. Its methods may be called at the same time.
type Service struct {
	cfg       Config
	reminders *reminders
	seen      *seenReaders
	// posts reads posts by their keys, refs posts by their ids, and users profiles with counts,
	// consistently. Each has trains of its own, so that likes do not hold up homes.
	posts, refs func(context.Context, []table.Key) (map[table.Key]table.Item, error)
	users       func(context.Context, []string) (map[string]storedUser, error)

	recent *recentReads
	heads  *heads
	turns  *turns
}

// New returns a Service.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg.withDefaults(), reminders: newReminders(cfg.Now), seen: newSeenReaders(cfg.Now), turns: newTurns()}
	read := func(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
		if len(keys) == 1 {
			return s.getOne(ctx, keys[0])
		}
		return s.batchGet(ctx, keys, true)
	}
	s.posts, s.refs, s.users = read, read, s.readUsers
	if !s.cfg.Local { // a local table has no bound for one item
		s.posts, s.refs, s.users = newSharedReads(read).get, newSharedReads(read).get, newSharedReads(s.readUsers).get
	}
	s.recent, s.heads = newRecentReads(s), newHeads(s)
	return s
}
