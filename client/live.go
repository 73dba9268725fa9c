package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"
)

const (
	// silence is the time without a sign of life after which a stream counts as dead. The service sends a
	// sign of life every 15 seconds.
	silence = 40 * time.Second
	// mostLate is longer than the time for which an API process shares an old list with new streams.
	mostLate = 10 * time.Second
)

// Live iterates over the posts that come into the caller's home, over deletions and edits of the home's
// posts, over like counts of the newest posts, and over numbers of unread notifications, until ctx or the
// loop ends. last is a post or a Place after which the iteration begins; "" means now.
//
// When a connection breaks, Live opens a new connection that continues at the same place, so the loop
// gets each post once. Deletions and edits during the break are not repeated: a caller that shows posts
// reads them again at each Update with Open or Stale. If the service cannot be reached in the attempts of WithAttempts, or in the time
// of WithFailover, or refuses the stream, the error is yielded once and ends the loop. The HTTP client of
// the caller must not limit the time of a request.
func (c *Client) Live(ctx context.Context, last string) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		s := &live{call: call{method: http.MethodGet, path: path("v1", "home", "stream"), accept: "text/event-stream", last: last}}
		attempts := tries{began: time.Now()}
		for {
			s.heard, s.opened = false, time.Time{}
			at := c.service.now.Load()
			goOn, err := c.receive(ctx, at, s, yield)
			if !goOn {
				return
			}
			if s.heard {
				attempts.n, attempts.began = 0, time.Now()
			}
			if s.lasted() {
				attempts.short = 0
			}
			if Unanswered(err) {
				c.service.leave(at)
			}
			wait, repeat := c.next(ctx, &attempts, s.call, err)
			if !repeat || !sleep(ctx, wait) {
				yield(Update{}, fmt.Errorf("client: %s %s: %w", s.call.method, s.call.path, err))
				return
			}
		}
	}
}

// live is the state of Live between two connections.
type live struct {
	call call
	// since has the posts that were yielded after the place in call. A new connection may send these
	// posts again.
	since map[string]bool
	// behind is the time at which the current connection began, or last sent a post again. A slow API
	// process sends places in the middle of the posts that it sends again.
	behind time.Time
	// opened is the time of the answer of the current connection, zero without an answer of the service. heard reports whether the
	// connection sent anything.
	opened time.Time
	heard  bool
}

// lasted reports whether the connection ends the series of failures. A shorter connection may be a proxy that cuts
// every answer.
func (s *live) lasted() bool { return !s.opened.IsZero() && time.Since(s.opened) >= maxBackoff }

var (
	errSilent = errors.New("the stream is silent")
	// errEnded means that the caller's loop has ended.
	errEnded = errors.New("the loop has ended")
)

// receive opens a stream and yields its updates until the stream breaks. goOn is false if the loop has
// ended.
func (c *Client) receive(ctx context.Context, at uint32, s *live, yield func(Update, error) bool) (goOn bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := c.request(ctx, at, s.call, nil)
	if err != nil {
		return true, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return true, lost(ctx, err)
	}
	defer resp.Body.Close()
	if err := refusal(ctx, resp); err != nil {
		return true, err
	}
	if resp.StatusCode != http.StatusOK || !isMedia(resp, "text/event-stream") {
		answer, err := bodyOf(ctx, resp)
		if err != nil {
			return true, err
		}
		return true, foreign(resp, answer, "the service answers with an event stream")
	}
	s.opened = time.Now()
	s.behind = s.opened
	if !yield(Update{Open: true, Place: s.call.last}, nil) {
		return false, nil
	}
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	err = blocks(resp.Body, func() { s.heard = true; quiet.Reset(silence) }, func(b block) error {
		update, ok, err := s.update(b)
		if err != nil {
			return err
		}
		quiet.Stop() // the loop may take any time
		if ok && !yield(update, nil) {
			return errEnded
		}
		quiet.Reset(silence)
		return nil
	})
	if errors.Is(err, errEnded) {
		return false, nil
	}
	return true, lost(ctx, err)
}

// update returns the update of a block of the stream. It returns false if the block has nothing new.
func (s *live) update(b block) (u Update, ok bool, err error) {
	id, data := b.id, b.data.String()
	switch name := b.event; {
	case !b.hasData && id != "":
		if s.call.last = id; time.Since(s.behind) > mostLate {
			s.since = nil
		}
		return Update{}, false, nil
	case name == "entry":
		u.Entry = new(HomeItem)
		err = json.Unmarshal([]byte(data), u.Entry)
	case name == "edited":
		u.Edited = new(HomeItem)
		err = json.Unmarshal([]byte(data), u.Edited)
	case name == "deleted":
		u.Deleted = new(DeletedUpdate)
		err = json.Unmarshal([]byte(data), u.Deleted)
	case name == "changed":
		u.Changed = new(ChangedUpdate)
		err = json.Unmarshal([]byte(data), u.Changed)
	case name == "stale":
		u.Stale = true
	case name == "likes":
		u.Likes = new(LikesUpdate)
		err = json.Unmarshal([]byte(data), u.Likes)
	case name == "notifications":
		var n unread
		err = json.Unmarshal([]byte(data), &n)
		u.Unread = &n.Unread
	default:
		return Update{}, false, nil
	}
	if err != nil {
		return Update{}, false, fmt.Errorf("decode an event: %w", err)
	}
	u.Place = s.call.last
	if u.Entry == nil {
		return u, true, nil
	}
	if s.since[id] {
		s.behind = time.Now()
		return Update{}, false, nil
	}
	if s.since == nil {
		s.since = map[string]bool{}
	}
	s.since[id] = true
	if s.call.last == "" { // the stream has sent no place before this post
		s.call.last = id
	}
	return u, true, nil
}
