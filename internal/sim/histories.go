package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// If a run asks for histories, clients of a few users follow, repost, react and read concurrently during
// the storms. The run records the calls with their order in time, and the test in e2e/histories
// compares the record with a model.

// Call is one call of a history about one register. A register is an edge, a repost or a reaction, and is on or off.
type Call struct {
	Register string
	Client   int
	// Write sets the register to On. A read returned On.
	Write, On bool
	// Version orders the writes of a reaction: the newest write wins.
	Version string
	// Began and Ended are moments, in order. If Ended is Never, the call may take effect at any time.
	Began, Ended int64
}

// Never is the end of a call without an answer. The call may take effect at any time, or never.
const Never = math.MaxInt64

// Reaction reports whether the call is about a reaction, which an aggregator writes later.
func (c Call) Reaction() bool { return c.Version != "" || c.Register[0] == 'l' }

const (
	// historians are users that no other part of the world uses. Each historian has historianClients clients.
	// The first historian makes the posts to which all historians react.
	historians, historianClients, historianPosts = 3, 3, 2
)

func historian(n int) string { return fmt.Sprintf("historian%d", n) }

// histories has the recorded calls. A nil histories records nothing.
type histories struct {
	w     *World
	rng   *rand.Rand
	posts []string
	calls []*Call
	// writes has the calls by the operation that made them, to find the calls of versions.
	writes map[string]*Call
	// answered has the reactions that were answered and may not have taken effect yet.
	answered map[*Call]bool
	moments  []time.Time
}

func newHistories(w *World, o Options) *histories {
	if !o.Histories {
		return nil
	}
	for user := range historians {
		for client := range historianClients {
			w.load.clients = append(w.load.clients, clientOf(user, client))
		}
	}
	return &histories{w: w, rng: draws(w.seed, 0, 7), writes: map[string]*Call{}, answered: map[*Call]bool{}}
}

func clientOf(user, client int) string { return fmt.Sprintf("%s/%d", historian(user), client) }

// moment returns the next moment.
func (h *histories) moment() int64 {
	h.moments = append(h.moments, time.Now())
	return int64(2 * len(h.moments))
}

// populate gives the users profiles, and gives the first user its posts.
func (h *histories) populate() {
	if h == nil {
		return
	}
	l := h.w.load
	for user := range historians {
		h.w.write(schema.Profile{User: historian(user), Name: "h", CreatedAt: time.Now()}.Item())
	}
	for client := range historianPosts {
		var post feed.Post
		l.run(&operation{
			name: "post of a historian", user: clientOf(0, client),
			do: func(ctx context.Context, s *domain) (err error) {
				post, err = s.CreatePost(ctx, historian(0), feed.PostInput{Content: feed.Content{Text: "!"}})
				return err
			},
			settle: func(error) { h.posts = append(h.posts, post.ID) },
		}, l.apis[0])
	}
}

// beside returns a function that sometimes starts a call of a historian instead of next.
func (h *histories) beside(next func() bool) func() bool {
	if h == nil {
		return next
	}
	return func() bool { return h.rng.IntN(2) == 0 && h.next() || next() }
}

// next starts a call of a client that is free.
func (h *histories) next() bool {
	l := h.w.load
	user, client := h.rng.IntN(historians), h.rng.IntN(historianClients)
	api := l.apis[h.rng.IntN(len(l.apis))]
	if l.busy[clientOf(user, client)] != nil || !api.up() {
		return false
	}
	other, post := historian((user+1+h.rng.IntN(historians-1))%historians), h.posts[h.rng.IntN(len(h.posts))]
	edge, like, repost := "follow "+historian(user)+" "+other, "like "+historian(user)+" "+post, "repost "+historian(user)+" "+post
	me, on := historian(user), h.rng.IntN(2) == 0
	op := &operation{user: clientOf(user, client)}
	switch h.rng.IntN(7) {
	case 0:
		h.write(op, &Call{Register: edge, Client: client, Write: true, On: on}, func(ctx context.Context, s *domain) error {
			if on {
				return s.Follow(ctx, me, other)
			}
			return s.Unfollow(ctx, me, other)
		})
	case 1:
		h.read(op, 0, func(ctx context.Context, s *domain) ([]Call, error) {
			r, err := s.Relationship(ctx, me, me, other)
			return []Call{{Register: edge, Client: client, On: r.Following}}, err
		})
	case 2:
		h.read(op, 0, func(ctx context.Context, s *domain) ([]Call, error) { return followed(ctx, s, user, client) })
	case 3:
		h.write(op, &Call{Register: like, Client: client, Write: true, On: on}, func(ctx context.Context, s *domain) error {
			if on {
				return s.Like(ctx, me, post)
			}
			return s.Unlike(ctx, me, post)
		})
	case 4:
		c := &Call{Register: repost, Client: client, Write: true, On: on}
		h.write(op, c, func(ctx context.Context, s *domain) error {
			if on {
				_, err := s.Repost(ctx, me, post)
				return err
			}
			return s.EndRepost(ctx, me, post)
		})
		if settle := op.settle; on {
			op.settle = func(err error) { // a worker may have to write an answered repost
				if settle(err); err == nil && !h.reposted(me, post) {
					c.Ended = Never
				}
			}
		}
	case 5: // an eventually consistent read
		h.read(op, h.w.shape.Lag, func(ctx context.Context, s *domain) ([]Call, error) {
			seen, err := s.PostView(ctx, access.As(me), post)
			return []Call{{Register: repost, Client: client, On: seen.Reposted}}, err
		})
	default: // an eventually consistent read
		h.read(op, h.w.shape.Lag, func(ctx context.Context, s *domain) ([]Call, error) {
			_, err := s.LikeOf(ctx, access.As(me), post, me)
			if missing, ok := errors.AsType[*fault.Error](err); ok && missing.Kind == fault.NotFound {
				return []Call{{Register: like, Client: client}}, nil
			}
			return []Call{{Register: like, Client: client, On: true}}, err
		})
	}
	l.run(op, api)
	return true
}

// followed reads the list of the users whom a user follows. The edge to each other historian counts
// as a separate read, because a page of the table is no snapshot.
func followed(ctx context.Context, s *domain, user, client int) (reads []Call, err error) {
	list, err := s.Following(ctx, historian(user), historian(user), page.Request{Limit: historians})
	for other := range historians {
		if other != user {
			on := slices.ContainsFunc(list.Items, func(e feed.Edge) bool { return e.UserID == historian(other) })
			reads = append(reads, Call{Register: "follow " + historian(user) + " " + historian(other), Client: client, On: on})
		}
	}
	return reads, err
}

// write lets an operation write a register.
func (h *histories) write(op *operation, c *Call, do func(context.Context, *domain) error) {
	op.name, op.do = fmt.Sprintf("%s: %v", c.Register, c.On), do
	c.Began, c.Ended = h.moment(), Never
	h.calls = append(h.calls, c)
	h.writes[fmt.Sprintf("op0-%s-%d", op.user, h.w.load.serials[op.user]+1)] = c
	op.settle = func(err error) {
		switch {
		case refusedByHour(err): // the call has no effect
			h.calls = slices.DeleteFunc(h.calls, func(other *Call) bool { return other == c })
		case err == nil && c.Reaction():
			h.answered[c] = true
		case err == nil:
			c.Ended = h.moment()
		}
	}
}

// read lets an operation read registers. The answer may be older than the call by lag.
func (h *histories) read(op *operation, lag time.Duration, do func(context.Context, *domain) ([]Call, error)) {
	var reads []Call
	began := h.moment() - 1
	for i := len(h.moments) - 1; lag > 0 && i >= 0 && time.Since(h.moments[i]) <= lag; i-- {
		began = int64(2*i + 1)
	}
	op.name = "read of a historian"
	op.do = func(ctx context.Context, s *domain) (err error) {
		reads, err = do(ctx, s)
		return err
	}
	op.settle = func(err error) {
		if err != nil {
			return
		}
		ended := h.moment()
		for _, c := range reads {
			c.Began, c.Ended = began, ended
			h.calls = append(h.calls, &c)
		}
	}
}

// published records the version of a reaction once its event is durable.
func (h *histories) published(e *messages.Like) {
	if h != nil && h.writes[e.RequestID] != nil {
		h.writes[e.RequestID].Version = e.EventID
	}
}

// quiet reads all registers directly from the table while the world is quiet: each answered
// reaction has taken effect, unless its message is a dead letter.
func (h *histories) quiet() {
	if h == nil {
		return
	}
	now := h.moment()
	dead := map[string]bool{}
	for _, d := range h.w.queue(queue.TopicLikes).dead {
		dead[d.ID] = true
	}
	for c := range h.answered {
		if !dead[c.Version] {
			c.Ended = now
			delete(h.answered, c)
		}
	}
	for user := range historians {
		for other := range historians {
			if other != user {
				on, _ := h.w.edge(historian(user), historian(other))
				h.stored("follow "+historian(user)+" "+historian(other), on)
			}
		}
		for _, post := range h.posts {
			h.stored("repost "+historian(user)+" "+post, h.reposted(historian(user), post))
			h.stored("like "+historian(user)+" "+post, h.w.book.likes[post][historian(user)].Kind == schema.KindLike)
		}
	}
}

// reposted reports whether a repost of a post by a user is in the table.
func (h *histories) reposted(user, post string) bool {
	it := h.w.items[schema.RepostKey(user, post)]
	if it == nil {
		return false
	}
	bound, err := schema.ParseRepost(*it)
	ref := h.w.refOf(bound.R)
	return err == nil && ref != nil && !ref.Deleted
}

func (h *histories) stored(register string, on bool) {
	h.calls = append(h.calls, &Call{Register: register, Client: -1, On: on, Began: h.moment(), Ended: h.moment()})
}

// all returns the calls, without the reactions that have no answer and whose event never became
// durable.
func (h *histories) all() (calls []Call) {
	if h == nil {
		return nil
	}
	for _, c := range h.calls {
		if h.answered[c] || !c.Write || !c.Reaction() || c.Version != "" || c.Ended != Never {
			calls = append(calls, *c)
		}
	}
	return calls
}
