package sim

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"fanfare/internal/live"
)

// liveClient is the client of one user's streams.
type liveClient struct {
	storm *liveStorm
	user  string

	mu sync.Mutex
	// stream is the stream that the client reads, and cut ends the stream. Both are nil if the client
	// has no stream.
	stream *live.Stream
	cut    context.CancelFunc
	watch
	livePage
	behind time.Time // the time at which the stream was opened, or last repeated a post
	// ended is set once stream has ended.
	ended bool
	// again is the time at which the client opens the next stream after a refusal.
	again time.Time
}

// write receives the frames of the client's stream. The client ignores frames of a stream that it
// has cut.
func (c *liveClient) write(st *live.Stream, frames []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != st {
		return nil
	}
	for line := range strings.Lines(string(frames)) {
		switch kind, value, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
		case "entry":
			post, _, _ := strings.Cut(value, " ")
			c.storm.came(c, post)
			c.take(kind, value)
		case "edited", "deleted", "changed", "stale":
			c.take(kind, value)
		case "position":
			c.last = value
			c.storm.placed(c)
		}
	}
	return nil
}

// came checks an event. A client drops a post after its last position if the client has had that post already.
func (s *liveStorm) came(c *liveClient, post string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found[pair{c.user, post}] == "" {
		s.broken = append(s.broken, fmt.Sprintf("I2: the stream of %s has %s, which no look found", c.user, post))
	}
	if c.since[post] {
		c.behind = time.Now()
	}
	if c.had[post] && !c.since[post] {
		s.broken = append(s.broken, fmt.Sprintf("I7: the stream of %s has %s twice", c.user, post))
	}
	c.had[post], c.since[post] = true, true
}

// remembers is the time after the opening of a stream, and after each repeated post, for which the product's
// client drops repeated posts.
const remembers = 10 * time.Second

// placed handles the new position of a client: posts before the position are never sent again,
// except posts of an author whom the user has left since. A position soon after the opening or after a repeated post
// may be of a look that ended before it reached the posts of an earlier stream. A stream that begins at an older position
// and does not find such a post sends a position without the post, and the user may follow the
// author again.
func (s *liveStorm) placed(c *liveClient) {
	if time.Since(c.behind) < remembers {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(c.since, func(post string, _ bool) bool {
		return !s.left[pair{c.user, s.found[pair{c.user, post}]}]
	})
}

// open opens a stream where the previous stream ended.
func (s *liveStorm) open(c *liveClient, api *Proc) *operation {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	stays := func() { // a stream without a position begins with all posts that exist at its opening
		if last == "" {
			maps.Copy(c.old, setOf(s.w.listed))
		}
	}
	stays()
	op := &operation{name: "open a stream", user: c.user, settle: func(err error) {
		if err != nil {
			c.again = time.Now().Add(openAgain)
			return
		}
		stays()
	}}
	hub, life := s.hubs[api], api.life.ctx
	op.do = func(ctx context.Context, _ *domain) error {
		st, err := hub.Open(ctx, live.Caller{User: c.user}, last)
		if err != nil {
			return err
		}
		serving, cut := context.WithCancel(life)
		c.mu.Lock()
		c.stream, c.cut, c.ended, c.behind = st, cut, false, time.Now()
		c.opened(api)
		c.mu.Unlock()
		api.run(func() {
			defer st.Close()
			_ = st.Serve(serving, func(frames []byte) error { return c.write(st, frames) }) // a stream may fail: the client opens the next one
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ended = c.ended || c.stream == st // the client may read the next stream already
		})
		return nil
	}
	return op
}

// setOf returns the keys of a map as a set.
func setOf[V any](m map[string]V) map[string]bool {
	out := make(map[string]bool, len(m))
	for key := range m {
		out[key] = true
	}
	return out
}

// close cuts the stream of a client, and reports whether the client had a stream.
func (c *liveClient) close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut == nil {
		return false
	}
	c.cut()
	c.stream, c.cut = nil, nil
	return true
}

func (c *liveClient) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut != nil && !c.ended
}
