package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cases are the tables of testdata/cases.json, which the tests of the TypeScript client read, too.
type cases struct {
	Answers []falseAnswer `json:"answers"`
	Streams []struct {
		Name   string   `json:"name"`
		Chunks []string `json:"chunks"`
		Events []string `json:"events"`
		Place  string   `json:"place"`
	} `json:"streams"`
	IDs struct {
		Refused []string `json:"refused"`
		Sent    []string `json:"sent"`
	} `json:"ids"`
}

// falseAnswer is an answer of the service, or of something before the service. Means has its meaning for calls with a
// JSON answer, for calls with an empty answer, and for the stream: done, refused, unanswered, harmless or short.
type falseAnswer struct {
	Name    string            `json:"name"`
	Status  int               `json:"status"` // 0: no answer
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Cut     bool              `json:"cut"`
	Means   map[string]string `json:"means"`
}

func read(t *testing.T) cases {
	t.Helper()
	raw, err := os.ReadFile("testdata/cases.json")
	require.NoError(t, err)
	var c cases
	require.NoError(t, json.Unmarshal(raw, &c))
	return c
}

// falseServer answers each connection of a client with the bytes of one answer, in memory.
type falseServer struct {
	answer   falseAnswer
	requests []*http.Request
}

func (s *falseServer) client(t *testing.T) *Client {
	t.Helper()
	dial := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go s.serve(there)
		return here, nil
	}
	c, err := New("http://fanfare.test", WithHTTPClient(&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, CheckRedirect: noRedirect}), WithToken("t"))
	require.NoError(t, err)
	return c
}

func (s *falseServer) serve(conn net.Conn) {
	defer conn.Close()
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	s.requests = append(s.requests, r)
	if s.answer.Status == 0 {
		return
	}
	length := len(s.answer.Body)
	if s.answer.Cut {
		length += 10
	}
	var head strings.Builder
	fmt.Fprintf(&head, "HTTP/1.1 %d x\r\nConnection: close\r\n", s.answer.Status)
	if s.answer.Status >= 200 && s.answer.Status != http.StatusNoContent && s.answer.Status != http.StatusNotModified {
		fmt.Fprintf(&head, "Content-Length: %d\r\n", length)
	}
	for name, value := range s.answer.Headers {
		fmt.Fprintf(&head, "%s: %s\r\n", name, value)
	}
	_, _ = io.WriteString(conn, head.String()+"\r\n"+s.answer.Body) // the client looks at the outcome
}

// The table of false answers: the sender of each answer, and the reaction of the client.
func TestOnlyTheServiceAnswers(t *testing.T) {
	for _, answer := range read(t).Answers {
		t.Run(answer.Name, func(t *testing.T) {
			for name, tt := range map[string]struct {
				kind   string
				repeat bool
				call   func(context.Context, *Client) error
			}{
				"get":     {"json", true, func(ctx context.Context, c *Client) error { _, err := c.User(ctx, "u"); return err }},
				"list":    {"json", true, func(ctx context.Context, c *Client) error { _, err := c.Followers("u").Collect(ctx); return err }},
				"post":    {"json", true, func(ctx context.Context, c *Client) error { _, err := c.CreatePost(ctx, PostInput{}); return err }},
				"put me":  {"json", true, func(ctx context.Context, c *Client) error { _, err := c.PutMe(ctx, ProfileInput{}); return err }},
				"edit":    {"json", false, func(ctx context.Context, c *Client) error { _, err := c.EditPost(ctx, "p", PostEdit{}); return err }},
				"comment": {"json", false, func(ctx context.Context, c *Client) error { _, err := c.CreateComment(ctx, "p", "x"); return err }},
				"put":     {"empty", true, func(ctx context.Context, c *Client) error { return c.Like(ctx, "p") }},
				"delete":  {"empty", true, func(ctx context.Context, c *Client) error { return c.DeletePost(ctx, "p") }},
				"away":    {"empty", true, func(ctx context.Context, c *Client) error { return c.BeAway(ctx) }},
			} {
				synctest.Test(t, func(t *testing.T) {
					s := &falseServer{answer: answer}
					began := time.Now()
					err := tt.call(t.Context(), s.client(t))
					check(t, fmt.Sprintf("%s: %v", name, err), answer, answer.Means[tt.kind], tt.repeat, err, len(s.requests))
					if len(s.requests) == defaultAttempts {
						assert.GreaterOrEqual(t, time.Since(began), 3*time.Second, "the waits double")
					}
				})
			}
		})
	}
}

func check(t *testing.T, name string, answer falseAnswer, means string, repeat bool, err error, requests int) {
	t.Helper()
	sent := 1
	switch means {
	case "done":
		assert.NoError(t, err, name)
	case "refused":
		p, ok := errors.AsType[*Problem](err)
		assert.True(t, ok && p.Status == answer.Status && !Unanswered(err), name)
	case "harmless":
		p, ok := errors.AsType[*Problem](err)
		assert.True(t, ok && p.Status == answer.Status, name)
		sent = defaultAttempts
	default:
		assert.True(t, Unanswered(err), name)
		if repeat {
			sent = defaultAttempts
		}
	}
	assert.Equal(t, sent, requests, name)
}

// A stream of false answers asks six times with doubled waits, and yields nothing.
func TestOnlyTheServiceStreams(t *testing.T) {
	for _, answer := range read(t).Answers {
		t.Run(answer.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &falseServer{answer: answer}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				var end error
				for u, err := range s.client(t).Live(ctx, "") {
					if u.Open {
						continue
					}
					require.Error(t, err, "%+v", u)
					end = err
				}
				if means := answer.Means["stream"]; means != "short" {
					check(t, fmt.Sprint(end), answer, means, true, end, len(s.requests))
					return
				}
				// A cut stream of the service may be an outage, so the client asks on, at least every five seconds.
				assert.Less(t, len(s.requests), 10*60/2, "the waits double")
			})
		})
	}
}

// An export of a proxy's page writes nothing.
func TestOnlyTheServiceExports(t *testing.T) {
	for _, answer := range read(t).Answers {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			assert.Error(t, (&falseServer{answer: answer}).client(t).Export(t.Context(), &out), answer.Name)
			assert.Empty(t, out.String(), answer.Name)
		})
	}
}

// inParts returns its parts one after another, and then a refusal ends the stream.
type inParts struct {
	parts [][]byte
	place *string
}

func (p *inParts) Read(to []byte) (int, error) {
	for len(p.parts) > 0 && len(p.parts[0]) == 0 {
		p.parts = p.parts[1:]
	}
	if len(p.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.parts[0])
	p.parts[0] = p.parts[0][n:]
	return n, nil
}

func (*inParts) Close() error { return nil }

func (p *inParts) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.place == nil {
		p.place = new(string)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: p}, nil
	}
	*p.place = r.Header.Get("Last-Event-ID")
	return &http.Response{StatusCode: http.StatusConflict, Header: http.Header{}, Body: http.NoBody}, nil
}

func TestStreamsAreReadByTheStandard(t *testing.T) {
	for _, tt := range read(t).Streams {
		whole := []byte(strings.Join(tt.Chunks, ""))
		parts := map[string][][]byte{"chunks": {}, "bytes": {}, "whole": {whole}}
		for _, chunk := range tt.Chunks {
			parts["chunks"] = append(parts["chunks"], []byte(chunk))
		}
		for i := range whole {
			parts["bytes"] = append(parts["bytes"], []byte{whole[i]})
		}
		for how, parts := range parts {
			t.Run(tt.Name+" by "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sent := &inParts{parts: parts}
					c, err := New("http://fanfare.test", WithHTTPClient(&http.Client{Transport: sent}))
					require.NoError(t, err)
					got := []string{}
					for u, err := range c.Live(t.Context(), "") {
						switch {
						case err != nil:
							p, ok := errors.AsType[*Problem](err)
							require.True(t, ok && p.Status == http.StatusConflict, "%v", err)
						case u.Entry != nil:
							got = append(got, "entry "+u.Entry.Post.ID)
						case u.Edited != nil:
							got = append(got, "edited "+u.Edited.Post.ID)
						case u.Deleted != nil:
							got = append(got, "deleted "+u.Deleted.PostID)
						case u.Changed != nil:
							got = append(got, "changed "+u.Changed.PostID)
						case u.Likes != nil:
							got = append(got, fmt.Sprint("likes ", u.Likes.PostID, " ", u.Likes.Count, " ", u.Likes.Reactions["like"]))
						case u.Stale:
							got = append(got, "stale")
						case u.Unread != nil:
							got = append(got, fmt.Sprint("unread ", *u.Unread))
						}
					}
					assert.Equal(t, tt.Events, got)
					assert.Equal(t, tt.Place, *sent.place)
				})
			})
		}
	}
}

// A line or an event without an end does not fill the memory.
func TestAStreamWithoutAnEndIsGivenUp(t *testing.T) {
	for name, text := range map[string]string{"line": strings.Repeat("x", 2*maxEvent), "event": strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 2*maxEvent/1000)} {
		err := blocks(strings.NewReader(text), func() {}, func(block) error { return nil })
		assert.ErrorIs(t, err, errTooLarge, name)
	}
}

// If an id could leave its place in the path, the call sends nothing.
func TestAnIDStaysInItsPlace(t *testing.T) {
	ids := read(t).IDs
	calls := map[string]func(context.Context, *Client, string) error{
		"at the end": func(ctx context.Context, c *Client, id string) error { return c.Unfollow(ctx, id) },
		"within":     func(ctx context.Context, c *Client, id string) error { return c.DeleteComment(ctx, id, "c") },
		"in a list": func(ctx context.Context, c *Client, id string) error {
			_, err := c.Followers(id).Collect(ctx)
			return err
		},
		"a marker": func(ctx context.Context, c *Client, id string) error { return c.DeleteMarker(ctx, id) },
	}
	for name, call := range calls {
		for _, id := range ids.Refused {
			s := &script{steps: []step{{status: 204}}}
			err := call(t.Context(), scripted(t, s), id)
			assert.Error(t, err, "%s: %q", name, id)
			assert.False(t, Unanswered(err))
			assert.Empty(t, s.requests, "%s: %q", name, id)
		}
		for _, id := range ids.Sent {
			s := &script{steps: []step{{status: 403}}}
			require.Error(t, call(t.Context(), scripted(t, s), id))
			require.Len(t, s.requests, 1, "%s: %q", name, id)
			assert.Contains(t, s.requests[0].URL.EscapedPath()+"/", "/"+url.PathEscape(id)+"/")
		}
	}
}

// Nothing was sent if the token or a value is bad, so the caller gets the cause at once, even if the cause is the error
// of another call.
func TestACallThatCannotBeSentFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := map[string]error{
			"plain": errors.New("signed out"), "another call had no answer": lost(t.Context(), errCut),
			"another call was refused": &Problem{Status: 404, Type: "not-found"}, "another service is busy": &Problem{Status: 503},
			"a limit": &Problem{Status: 429}, "no connection": &net.OpError{Op: "dial", Err: errors.New("refused")},
		}
		for name, cause := range causes {
			asked := 0
			s := &script{steps: []step{{}, {status: 204}}}
			c := scripted(t, s, WithTokenSource(func(context.Context) (string, error) {
				if asked++; asked > 1 {
					return "", cause
				}
				return "t", nil
			}))
			began := time.Now()
			err := c.DeletePost(t.Context(), "p") // the first attempt has no answer
			require.ErrorIs(t, err, cause, name)
			assert.False(t, Unanswered(err), name)
			assert.Equal(t, []int{2, 1}, []int{asked, len(s.requests)}, name)
			assert.Less(t, time.Since(began), time.Second, name)
			for _, err := range c.Live(t.Context(), "") {
				require.ErrorIs(t, err, cause, name)
			}
			assert.Equal(t, []int{3, 1}, []int{asked, len(s.requests)}, name)
		}
		for name, call := range map[string]func(*Client) error{
			"place": func(c *Client) error {
				var end error
				for _, err := range c.Live(t.Context(), "pl\x00ace") {
					end = err
				}
				return end
			},
			"key": func(c *Client) error {
				_, err := c.CreatePost(t.Context(), PostInput{IdempotencyKey: "a\nb"})
				return err
			},
			"token": func(c *Client) error { return c.AsToken("a\nb").Follow(t.Context(), "u") },
			"user":  func(c *Client) error { return c.ActAs("a\x7fb").Follow(t.Context(), "u") },
		} {
			s := &script{steps: []step{{status: 204}}}
			err := call(scripted(t, s))
			require.ErrorContains(t, err, "no header may have", name)
			assert.NotContains(t, err.Error(), "a\nb", "the value may be a token")
			assert.False(t, Unanswered(err), name)
			assert.Empty(t, s.requests, name)
		}
	})
}

func TestAListNeedsItems(t *testing.T) {
	s := &script{steps: []step{{status: 200, body: `{"error":"sign in"}`}}}
	_, err := scripted(t, s).Followers("u").Collect(t.Context())
	assert.True(t, Unanswered(err), "%v", err)
}

func TestAnEndlessAnswerIsRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	c, err := New(server.URL, WithAttempts(1))
	require.NoError(t, err)
	defer c.CloseIdleConnections()
	_, err = c.User(t.Context(), "u")
	assert.ErrorContains(t, err, "larger than")
}

// An empty list of images removes the images, so it is sent. Without a list the images stay.
func TestAnEditSendsAnEmptyListOfImages(t *testing.T) {
	for _, c := range []struct {
		edit PostEdit
		want string
	}{{PostEdit{Images: []Image{}}, `{"images":[]}`}, {PostEdit{}, `{}`}} {
		sent, err := json.Marshal(c.edit)
		if err != nil || string(sent) != c.want {
			t.Errorf("%+v is sent as %s, want %s: %v", c.edit, sent, c.want, err)
		}
	}
}
