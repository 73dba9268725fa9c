// Package live streams homes: it sends each post that arrives in a home to the open streams of the
// home's user, once. The streams of one user share their looks at the table. The next look follows
// after a minute at the latest, and earlier if a hint means that a post may have arrived
// (docs/decisions/0023). Only a look makes an event, except the event of a deletion, which is final.
//
// Package live must never wait for a client: a stream with a full buffer ends, and its client
// reconnects and resumes at its position. Package live must never hold data that a reconnect needs: a
// client may reconnect to another process, so all state is in the table and in the position that the
// client sends.
package live

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/panics"
)

const (
	// Heartbeat is the time between two heartbeats on a stream.
	Heartbeat = 15 * time.Second
	// DefaultSlowLook is the time between two looks at a home without hints.
	DefaultSlowLook = time.Minute
	// unlistedLook is the time between two slow looks at an unlisted home: a home whose authors do not fit
	// into the list of all homes.
	unlistedLook = 10 * time.Second
	// DefaultLikes is the time between two looks at the like counts of a home.
	DefaultLikes = time.Minute
	// DefaultUnits is the maximum number of read units that all streams of a process use in a second.
	DefaultUnits = 2000
	// listAge is the time for which a process keeps the list of a home's authors.
	listAge = 30 * time.Minute
	// readTime ends a look whose table calls hang. If each call takes only seconds, a look ends earlier
	// without readTime.
	readTime = 5 * time.Minute
	// reads is the maximum number of concurrent looks for all streams.
	reads = 64
	// leastGap is the minimum time between two looks at one home.
	leastGap = 20 * time.Millisecond
	// failedLook and mostGap are the minimum and the maximum time from a failed look to the next look.
	failedLook = time.Second
	mostGap    = 30 * time.Second
	// profileLook is the time between two looks at the profile of a user with streams. The lag of a
	// replica is mostly below a second, so the streams of a user without a profile end within a minute,
	// even if the tail has missed the removal. A removal by this process ends the streams at once, and a
	// removal that the tail reads ends the streams within seconds.
	profileLook = 50 * time.Second
	// mostPending is the size of a stream's buffer in bytes.
	mostPending = 1 << 20
	// replayBytes is the number of bytes from which the answers to one look are sent before the next look.
	replayBytes = 64 << 10
)

// These errors are the refusals of a new stream.
var (
	ErrStopping = errors.New("live: the process stops")
	ErrFull     = errors.New("live: too many streams")
	ErrUserFull = errors.New("live: too many streams of this user")
	// ErrNoProfile also ends the open streams of a removed user.
	ErrNoProfile = errors.New("live: the user has no profile")
)

// OwesError is the refusal of a new stream whose user has used up the user's share (I11). For is the
// time until the user owes no units.
type OwesError struct{ For time.Duration }

func (e *OwesError) Error() string {
	return "live: the streams of the user have to rest for " + e.For.String()
}

// BusyError is the refusal of a new stream because the reads of all streams use all units of the
// process. For is the time until units are free.
type BusyError struct{ For time.Duration }

func (e *BusyError) Error() string {
	return "live: the reads of streams have to wait for " + e.For.String()
}

// ErrSlow ends a stream whose client reads too slowly.
var ErrSlow = errors.New("live: the client is too slow")

// Homes is the part of home.Homes that streams use.
type Homes interface {
	HomeStreamed(ctx context.Context, viewer, last string) (*home.Streamed, error)
	Arrivals(ctx context.Context, viewer string, seen *home.Streamed) iter.Seq2[[]feed.HomeItem, error]
	LikeChanges(ctx context.Context, viewer string, seen *home.Streamed) ([]home.PostLikes, error)
	HasProfile(ctx context.Context, viewer string, consistent bool) (bool, error)
	Edited(ctx context.Context, viewer string, refs []access.Ref) ([]feed.HomeItem, error)
	Heard(ctx context.Context, viewer string, most int) (authors []string, whole bool, err error)
}

// Frames encode the blocks of a stream.
type Frames struct {
	Entry   func(feed.HomeItem) ([]byte, error)
	Edited  func(feed.HomeItem) ([]byte, error)
	Deleted func(post string) ([]byte, error)
	// Changed has only the id of an edited post.
	Changed  func(post string) ([]byte, error)
	Likes    func(home.PostLikes) ([]byte, error)
	Unread   func(n int) ([]byte, error)
	Position func(string) []byte
	// Stale tells the client to read its pages again.
	Stale []byte
	// Heartbeat is a block without content, which shows that the connection still works.
	Heartbeat []byte
}

// Counters count the events of streams.
type Counters interface {
	// Streams adds change to the number of open streams.
	Streams(change int)
	// StreamEvents counts the events that were passed to streams.
	StreamEvents(kind string, n int)
	// StreamPoll counts a look at a home.
	StreamPoll(err error)
	// StreamTail sets the age of the last read of new posts.
	StreamTail(age time.Duration)
	// StreamsUnlisted adds change to the number of homes whose authors do not fit into the list of all
	// homes.
	StreamsUnlisted(change int)
	// StreamEnded counts the end of a stream, except an end by the client.
	StreamEnded(reason string)
}

// Unread is the number of a user's unread notifications above a mark. A client that moves the mark
// gets a number from that call. So a stream sends an equal number again if the mark has changed (I14).
type Unread struct {
	Number int
	Mark   string
}

// Config holds the parts and settings of a Hub.
type Config struct {
	Homes  Homes
	Frames Frames
	// Unread returns a user's unread notifications. It is nil if notifications are off.
	Unread func(ctx context.Context, user string) (Unread, error)
	// Posts, if not nil, has the posts of other processes. If Posts is nil, this process makes all posts.
	Posts Posts
	// SlowLook is the time between two looks at a home without hints. LikesEach is the time between two
	// looks at a home's like counts. 0 means the default.
	SlowLook, LikesEach time.Duration
	// Units bounds the read units that all streams use in a second, 0 for no limit. Edges bounds the
	// number of authors in the lists of all homes, 0 for the default.
	Units, Edges int
	// Jitter returns a number in [0, 1) that spreads the looks at homes. If Jitter is nil, the numbers are
	// random.
	Jitter func() float64
	// Streams bounds the open streams of the process. UserStreams bounds the open streams of one user.
	Streams, UserStreams int
	// Hold counts bytes in the memory of user's streams until release is called, and returns nil if the
	// bytes do not fit in. Hold calls cut if another user needs the memory.
	Hold func(user string, size int, cut func()) (release func())
	// Charge charges a user for the capacity units of the user's streams. ChargeService charges a service
	// that has opened some of the streams. Charge and ChargeService return the time for which the user or
	// the service owes units.
	Charge        func(user string, units float64) (owed time.Duration)
	ChargeService func(service string, units float64) (owed time.Duration)
	Counters      Counters
	Now           func() time.Time
	Log           *zap.Logger
}

// Hub holds the open streams of a process.
type Hub struct {
	cfg   Config
	reads chan struct{}
	ctx   context.Context //nolint:containedctx // the end of ctx stops all looks and streams
	stop  context.CancelFunc
	polls sync.WaitGroup
	// open is the number of open streams. Wake reads open without the lock.
	open   atomic.Int64
	shares shares
	budget budget
	// readers has the homes by the authors whose posts the homes show.
	readers *readers
	recent  recent
	// newest is the time of the newest post that this process has seen, in milliseconds.
	newest atomic.Int64

	mu    sync.RWMutex
	homes map[string]*userHome
}

// New returns a Hub. The caller must run or close the Hub.
func New(cfg Config) *Hub {
	cfg.SlowLook, cfg.LikesEach, cfg.Edges = cmp.Or(cfg.SlowLook, DefaultSlowLook), cmp.Or(cfg.LikesEach, DefaultLikes), cmp.Or(cfg.Edges, mostEdges)
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	h := &Hub{
		cfg: cfg, reads: make(chan struct{}, reads), homes: map[string]*userHome{}, shares: shares{paid: map[string]time.Time{}},
		budget: budget{rate: float64(cfg.Units)}, readers: newReaders(cfg.Edges, cfg.Counters.StreamsUnlisted), recent: recent{deleted: map[string]struct{}{}},
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	if cfg.Posts != nil {
		h.polls.Go(h.runTail)
	}
	return h
}

// Run closes the hub when ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	<-ctx.Done()
	h.Close()
	return nil
}

// Close ends all streams and waits for the looks at their homes.
func (h *Hub) Close() {
	h.mu.Lock() // after the lock, no stream opens
	h.stop()
	h.mu.Unlock()
	h.polls.Wait()
}

// Stopping reports whether the hub is closed.
func (h *Hub) Stopping() bool { return h.ctx.Err() != nil }

// home returns the home of a user in this process, nil if the user has none.
func (h *Hub) home(user string) *userHome {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.homes[user]
}

// Wake reports to the hub that this process wrote into user's home.
func (h *Hub) Wake(user string) {
	if hm := h.home(user); hm != nil {
		hm.wake()
	}
}

// Noticed reports to the hub that this process wrote one of user's notifications, or user's mark of
// notifications.
func (h *Hub) Noticed(user string) {
	if hm := h.home(user); hm != nil && h.cfg.Unread != nil {
		hm.agenda.notice()
	}
}

// Posted reports to the hub that this process stored a post.
func (h *Hub) Posted(user, post string) { h.hint(user, post, nearTry) }

// Removed reports to the hub that a user's profile was removed, by this process or another process.
func (h *Hub) Removed(user string) {
	if hm := h.home(user); hm != nil {
		select {
		case hm.doubted <- struct{}{}:
		default:
		}
	}
}

// Heard reports to the hub that this process changed whether user's home shows the posts of another
// user. If the home hides posts from now on, the user's other pages have to be read again (C6).
func (h *Hub) Heard(user, other string, heard bool) {
	if hm := h.home(user); hm != nil {
		h.readers.change(hm, edge{h.readers.hash(other), heard})
		if !heard {
			hm.stale(nil)
		}
	}
}

// enter takes a place of a channel, or returns the cause of ctx's end. If both cases are ready, select
// chooses one at random, but a cancelled read must not begin.
func enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		if ctx.Err() == nil {
			return nil
		}
		<-places
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// reading runs a look at a home when one of the slots for reads is free.
func (h *Hub) reading(ctx context.Context, look func(context.Context) error) error {
	if err := enter(ctx, h.reads); err != nil {
		return err
	}
	defer func() { <-h.reads }()
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return panics.Catch(func() error { return look(ctx) })
}

// Caller is the party that opens a stream: a user, or a service that acts for the user.
type Caller struct{ User, Service string }

// Open opens a stream of the user's home that continues after last (home.Homes.HomeStreamed). The
// caller must close the stream. The stream sends no data before Serve.
func (h *Hub) Open(ctx context.Context, who Caller, last string) (*Stream, error) {
	if owed := h.shares.owes(who.User); owed > 0 {
		return nil, &OwesError{owed}
	}
	turn, err := h.budget.join(h.shares.last(who.User))
	if err != nil {
		return nil, err
	}
	defer turn.end()
	st, err := h.admit(who)
	if err != nil {
		return nil, err
	}
	if err = turn.wait(ctx); err == nil {
		err = st.begin(ctx, last)
	}
	if err != nil {
		st.Close()
		return nil, err
	}
	st.opening = false
	return st, nil
}

// admit counts a new stream.
func (h *Hub) admit(who Caller) (*Stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hm := h.homes[who.User]
	switch {
	case h.Stopping():
		return nil, ErrStopping
	case h.open.Load() >= int64(h.cfg.Streams):
		return nil, ErrFull
	case hm != nil && hm.ctx.Err() == nil && hm.streamsOpen() >= h.cfg.UserStreams:
		return nil, ErrUserFull
	case hm == nil || hm.ctx.Err() != nil: // the home's user was removed, and may have returned
		hm = newHome(h, who.User)
		h.homes[who.User] = hm
		h.polls.Go(hm.run)
		h.polls.Go(hm.keep)
	}
	hm.open[who.Service]++
	h.open.Add(1)
	h.cfg.Counters.Streams(1)
	return newStream(hm, who.Service), nil
}

// services returns the services that have streams of a home. own reports whether the user has own
// streams. Own streams have the service "".
func (h *Hub) services(hm *userHome) (services []string, own bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Collect(maps.Keys(hm.open)), hm.open[""] > 0
}

// leave removes a stream from the number of open streams, and ends the looks at a home without
// streams.
func (h *Hub) leave(hm *userHome, service string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open.Add(-1)
	h.cfg.Counters.Streams(-1)
	if hm.open[service]--; hm.open[service] == 0 {
		delete(hm.open, service)
	}
	if len(hm.open) > 0 {
		return
	}
	if h.homes[hm.user] == hm {
		delete(h.homes, hm.user)
	}
	h.readers.drop(hm)
	hm.stop(nil)
}
