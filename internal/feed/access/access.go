// Package access gives the domain its table and its queue: reads, transactions, events, and the checks
// that several access patterns share. Each process has one Access, so that requests share reads.
// Requests share like counts and names for as long as a shown count or name may be old. Requests share
// a read of a post only while all these requests wait for the read.
//
// # It must never
//
//   - Return a post from a read that began before the request (I2), or without a Viewer.
//   - Decide more about users, posts and follows than whether they exist.
//   - Read a whole partition into memory, or Scan (I9).
package access

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/memory"
	"fanfare/internal/table"
)

// Config holds the parts and settings of an Access. Store, Publisher, IDs, Now and Lifetimes are
// required; the zero value of each other field takes its default.
type Config struct {
	// Store is the table. Store may return expired items, because New hides expired items.
	Store table.Store
	// Local means that Store is in this process. A request then makes its reads one after another, and
	// shares no reads of posts and profiles.
	Local bool
	// Publisher takes PostCreated, PostDeleted, Followed, Unfollowed, Seen, Returned, Liked,
	// Unliked and Reacted.
	Publisher message.Publisher
	// IDs makes the ids of posts, comments and events. A process has one generator.
	IDs *id.Generator
	// Now is the clock.
	Now func() time.Time
	// Clock, if not nil, reports when Now is too uncertain to decide by age.
	Clock *clock.Clock
	// Lifetimes are the times for which homes show posts, by the times of the posts' ids.
	Lifetimes *lifetime.View
	// LikeWindow is the window of the like aggregators. Reads share like counts for half of LikeWindow,
	// and authors' names for KeptNames. If LikeWindow is 0, reads share nothing.
	LikeWindow time.Duration
	// KeptNames is the time for which a process shows an author's name after a read of the name. The default is a
	// minute.
	KeptNames time.Duration
	// Reactions are the kinds of reaction, besides like, that reads show.
	Reactions []string
	// ActiveDays is the number of days ahead by which readers' edges are dated. 0 enrols no reader.
	ActiveDays int
	// Jitter returns a number in [0, 1) that spreads retries. The default is random.
	Jitter func() float64
	// RequestID returns the id of the request that ctx belongs to, for events and logs. The default is "".
	RequestID func(context.Context) string
	// Log takes the warnings. The default is no log.
	Log *zap.Logger
}

func (c Config) withDefaults() Config {
	c.Store = table.MeasureContext(table.HideExpired(c.Store, func() time.Time { return c.Clock.Expired(c.Now()) }), addCost)
	if c.KeptNames == 0 {
		c.KeptNames = keptNames
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.RequestID == nil {
		c.RequestID = func(context.Context) string { return "" }
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Access reads and writes the table, and sends events. Its methods are safe for concurrent use.
type Access struct {
	Config
	// Recent holds authors and like counts that may be slightly old.
	Recent *Recent
	// posts reads posts by their keys, and refs reads posts by their ids; both reads are consistent. posts
	// and refs have separate batches, so that likes do not delay homes.
	posts, refs func(context.Context, []table.Key) (map[table.Key]table.Item, error)
	turns       *turns
}

// New returns an Access. Its Config contains the defaults, and must not change afterwards.
func New(cfg Config) *Access {
	a := &Access{Config: cfg.withDefaults(), turns: newTurns()}
	a.posts, a.refs = a.getAll, a.getAll
	if !a.Local { // a local table has no limit on the reads of one item
		a.posts, a.refs = memory.Share(a.getAll).Get, memory.Share(a.getAll).Get
	}
	a.Recent = newRecentReads(a)
	return a
}
