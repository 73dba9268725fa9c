package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func entry(id string) string {
	return fmt.Sprintf("event: entry\nid: %s\ndata: {\"post\":{\"id\":%q}}\n\n", id, id)
}

func TestALiveHomeGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{
			{status: 200, body: "id: place1\n\n: heartbeat\n\n" + entry("b") + entry("a") + "event: entry\nid: c\ndata: {\"po"},
			{status: 503, header: after("3")},
			{},
			{status: 200, body: entry("a") + entry("b") + entry("c") + "id: place2\n\nevent: likes\ndata: {\"post_id\":\"a\",\"count\":3}\n\nevent: notifications\ndata: {\"unread\":2}\n\nevent: other\ndata: 1\n\n"},
			{status: 200, body: entry("d")},
			{status: 403, header: http.Header{"Content-Type": {"application/problem+json"}}, body: `{"type":"forbidden"}`},
		}}
		var got []string
		var end error
		for u, err := range scripted(t, s).Live(t.Context(), "start") {
			switch {
			case err != nil:
				end = err
			case u.Open:
				got = append(got, u.Place+" open")
			case u.Entry != nil:
				got = append(got, u.Place+" "+u.Entry.Post.ID)
			case u.Unread != nil:
				got = append(got, fmt.Sprint(u.Place, " unread ", *u.Unread))
			default:
				got = append(got, fmt.Sprint(u.Place, " ", u.Likes.PostID, " ", u.Likes.Count))
			}
		}
		p, _ := errors.AsType[*Problem](end)
		require.NotNil(t, p)
		assert.Equal(t, http.StatusForbidden, p.Status)
		assert.Equal(t, []string{
			"start open", "place1 b", "place1 a", "place1 open", "place1 c", "place2 a 3", "place2 unread 2", "place2 open", "place2 d",
		}, got)
		var places []string
		for _, r := range s.requests {
			places = append(places, r.Header.Get("Last-Event-ID"))
		}
		assert.Equal(t, []string{"start", "place1", "place1", "place1", "place2", "place2"}, places)
		assert.GreaterOrEqual(t, s.at[2].Sub(s.at[1]), 3*time.Second, "Retry-After")
	})
}

// The client connects to a process that shares an old list, and the list lacks a post that the client
// has. So the first place from this process lacks the post, and the process sends the post again after
// the first place.
func TestALiveHomeShowsAPostOnceThoughAProcessIsASecondLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{
			{status: 200, body: "id: place1\n\n" + entry("a")},
			{status: 200, body: "id: place2\n\n" + entry("a") + entry("b")},
			{status: 403},
		}}
		var got []string
		for u, err := range scripted(t, s).Live(t.Context(), "start") {
			if err == nil && !u.Open {
				got = append(got, u.Entry.Post.ID)
			}
		}
		assert.Equal(t, []string{"a", "b"}, got)
	})
}

// slowly is the body of a stream whose parts arrive 11 seconds apart.
type slowly struct{ parts []string }

func (s *slowly) Read(p []byte) (int, error) {
	if len(s.parts) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	<-time.After(11 * time.Second) // virtual time
	n := copy(p, s.parts[0])
	s.parts = s.parts[1:]
	return n, nil
}

func (s *slowly) Close() error { return nil }

// slow answers the first request at once, the second request slowly, and further requests with 403.
type slow struct{ answers []io.ReadCloser }

func (s *slow) RoundTrip(*http.Request) (*http.Response, error) {
	if len(s.answers) == 0 {
		return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody}, nil
	}
	body := s.answers[0]
	s.answers = s.answers[1:]
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
}

// A client that connects again gets three posts again from a slow process, in two parts with a place
// after each part. Later the user's home shows the first post again.
func TestALiveHomeShowsAPostOnceThoughAProcessRepeatsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New("http://fanfare.test", WithHTTPClient(&http.Client{Transport: &slow{[]io.ReadCloser{
			io.NopCloser(strings.NewReader("id: place1\n\n" + entry("a") + entry("b") + entry("c"))),
			&slowly{[]string{entry("a") + "id: place2\n\n" + entry("b") + entry("c") + "id: place3\n\n", entry("d") + "id: place4\n\n" + entry("a")}},
		}}}))
		require.NoError(t, err)
		var got []string
		for u, err := range c.Live(t.Context(), "start") {
			if err == nil && !u.Open {
				got = append(got, u.Entry.Post.ID)
			}
		}
		assert.Equal(t, []string{"a", "b", "c", "d", "a"}, got)
	})
}

// The page of a proxy is no stream, so it opens nothing.
func TestAnAnswerThatIsNoStreamDoesNotOpenALiveHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{{status: 200, header: http.Header{"Content-Type": {"text/html"}}, body: "<html>"}}}
		var end error
		for u, err := range scripted(t, s, WithAttempts(2)).Live(t.Context(), "") {
			assert.False(t, u.Open)
			end = err
		}
		require.Error(t, end)
	})
}

func TestALiveHomeEndsWithItsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{{status: 200, body: entry("a") + entry("b")}}}
		for range scripted(t, s).Live(t.Context(), "") {
			break
		}
		assert.Len(t, s.requests, 1)
		s = &script{steps: []step{{status: 200, body: entry("a") + entry("b")}}}
		for u := range scripted(t, s).Live(t.Context(), "") {
			if u.Entry != nil {
				break
			}
		}
		assert.Len(t, s.requests, 1)
		s = &script{steps: []step{{}}}
		failures := 0
		for _, err := range scripted(t, s, WithAttempts(3)).Live(t.Context(), "") {
			require.ErrorIs(t, err, errCut)
			failures++
		}
		assert.Equal(t, 1, failures)
		assert.Len(t, s.requests, 3)
	})
}

// mute answers requests with streams that send nothing.
type mute struct{ opened []time.Time }

func (m *mute) RoundTrip(r *http.Request) (*http.Response, error) {
	m.opened = append(m.opened, time.Now())
	body, w := io.Pipe()
	go func() {
		<-r.Context().Done()
		w.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(io.MultiReader(strings.NewReader(": hello\n\n"), body))}, nil
}

func TestASilentStreamIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(mute)
		c, err := New("http://fanfare.test", WithHTTPClient(&http.Client{Transport: m}))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		for u, err := range c.Live(ctx, "") {
			if !u.Open {
				require.ErrorIs(t, err, ctx.Err())
			}
		}
		require.Len(t, m.opened, 3)
		assert.InDelta(t, silence, m.opened[1].Sub(m.opened[0]), float64(time.Second))
	})
}

// A caller reads its page at each opening, which may take longer than the silence of a dead stream.
func TestAStreamWaitsForItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(mute)
		c, err := New("http://fanfare.test", WithHTTPClient(&http.Client{Transport: m}))
		require.NoError(t, err)
		for range c.Live(t.Context(), "") {
			if len(m.opened) == 2 {
				break
			}
			<-time.After(2 * silence)
		}
		assert.InDelta(t, 3*silence, m.opened[1].Sub(m.opened[0]), float64(time.Second))
	})
}
