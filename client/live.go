package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"
)

const (
	// silence is the time without a sign of life after which a stream counts as dead. The service sends a
	// sign of life every 15 seconds.
	silence = 40 * time.Second
	// mostLate is longer than the time for which an API process shares an old list with new streams.
	mostLate = 10 * time.Second
	// maxEvent bounds a line of a stream.
	maxEvent = 1 << 20
)

// Live iterates over the posts that come into the caller's home, over like counts of the home's newest
// posts, and over numbers of unread notifications, until ctx or the loop ends. last is a post or a Place
// after which the iteration begins; "" means now.
//
// When a connection breaks, Live opens a new connection that continues at the same place, so the loop
// gets each post once. If the service cannot be reached in the attempts of WithAttempts, or in the time
// of WithFailover, or refuses the stream, the error is yielded once and ends the loop. The HTTP client of
// the caller must not limit the time of a request.
func (c *Client) Live(ctx context.Context, last string) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		s := &live{call: call{method: http.MethodGet, path: path("v1", "home", "stream"), accept: "text/event-stream", last: last}}
		attempts := tries{began: time.Now()}
		for {
			s.heard = false
			at := c.service.now.Load()
			goOn, err := c.receive(ctx, at, s, yield)
			if !goOn {
				return
			}
			if s.heard {
				attempts = tries{began: time.Now()}
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
	// heard reports whether the current connection was answered.
	heard bool
}

var errSilent = errors.New("the stream is silent")

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
	s.behind = time.Now()
	if resp.StatusCode != http.StatusOK {
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		if err != nil {
			return true, lost(ctx, err)
		}
		return true, problemOf(resp, answer, time.Now())
	}
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	var name, id, data string
	for lines.Scan() {
		s.heard = true
		field, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimPrefix(value, " "); field {
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			data += value
		case "":
			if lines.Text() != "" { // the line is a comment
				break
			}
			update, ok, err := s.update(name, id, data)
			if name, id, data = "", "", ""; err != nil {
				return true, err
			}
			quiet.Stop() // the loop may take any time
			if ok && !yield(update, nil) {
				return false, nil
			}
		}
		quiet.Reset(silence)
	}
	err = lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return true, fmt.Errorf("an event is larger than %d bytes", maxEvent)
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return true, lost(ctx, err)
}

// update returns the update of a block of the stream. It returns false if the block has nothing new.
func (s *live) update(name, id, data string) (u Update, ok bool, err error) {
	switch {
	case data == "" && id != "":
		if s.call.last = id; time.Since(s.behind) > mostLate {
			s.since = nil
		}
		return Update{}, false, nil
	case name == "entry":
		u.Entry = new(HomeItem)
		err = json.Unmarshal([]byte(data), u.Entry)
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
