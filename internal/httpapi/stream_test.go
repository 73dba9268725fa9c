package httpapi_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/client"
	"fanfare/internal/feed/access"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/httpapi"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// events is a client of a stream. It follows the standard of server-sent events, and reads without a
// pause.
type events struct {
	net.Conn
	status   int
	incoming chan event
	// err is the reason for the end of the stream. It is set once incoming is closed.
	err error

	mu sync.Mutex
	// last is the client's Last-Event-ID.
	last string
	// beats is the number of received comments.
	beats int
}

type event struct{ name, id, data string }

// stream opens a stream and returns its client.
func (w *world) stream(t *testing.T, network pipes, user, last string, header ...string) *events {
	t.Helper()
	if last != "" {
		header = append(header, "Last-Event-ID: "+last)
	}
	e := &events{Conn: network.send(t, w.request(t, user, "GET /v1/home/stream", header...)), incoming: make(chan event, 1000)}
	res, err := http.ReadResponse(bufio.NewReader(e), nil)
	require.NoError(t, err)
	if e.status = res.StatusCode; e.status != http.StatusOK {
		assert.NotEmpty(t, res.Header.Get("Retry-After"))
		res.Body.Close()
		return e
	}
	assert.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	go e.read(res.Body)
	return e
}

func (e *events) read(body io.Reader) {
	defer close(e.incoming)
	var ev event
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		e.mu.Lock()
		switch field {
		case "event":
			ev.name = value
		case "id":
			ev.id, e.last = value, value
		case "data":
			ev.data = value
		case "":
			if value != "" {
				e.beats++
				break
			}
			if ev.data != "" {
				e.incoming <- ev
			}
			ev = event{}
		}
		e.mu.Unlock()
	}
	e.err = lines.Err()
}

// next returns the next event, and io.EOF at the end of the stream.
func (e *events) next() (event, error) {
	ev, ok := <-e.incoming
	if !ok {
		return event{}, cmp.Or(e.err, io.EOF)
	}
	return ev, nil
}

// place returns the client's Last-Event-ID, and the number of comments that the client has read.
func (e *events) place() (last string, beats int) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last, e.beats
}

// entries reads n entries and returns their posts.
func (e *events) entries(t *testing.T, n int) (posts []string) {
	t.Helper()
	for range n {
		ev, err := e.next()
		require.NoError(t, err)
		var item client.HomeItem
		require.NoError(t, json.Unmarshal([]byte(ev.data), &item))
		assert.Equal(t, event{"entry", item.Post.ID, ev.data}, ev)
		posts = append(posts, item.Post.ID)
	}
	return posts
}

// posts makes n posts of user. The home of user shows them at once.
func (w *world) posts(t *testing.T, user string, n int) (posts []string) {
	t.Helper()
	for range n {
		p, err := w.cfg.Feed.CreatePost(t.Context(), user, feed.PostInput{Content: feed.Content{Text: strings.Repeat("😀", 5000)}})
		require.NoError(t, err)
		posts = append(posts, p.ID)
	}
	return posts
}

func TestAStreamGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ann")
		network := w.serve(t)
		w.posts(t, "ann", 3)
		first := w.stream(t, network, "ann", "")
		want := w.posts(t, "ann", 5)
		assert.Equal(t, want, first.entries(t, 5))
		last, _ := first.place()
		require.NoError(t, first.Close())
		want = append(want, w.posts(t, "ann", 150)...)
		second := w.stream(t, network, "ann", last)
		want = append(want, w.posts(t, "ann", 2)...)
		got := second.entries(t, 152)
		assert.Equal(t, want[5:], got)
		<-time.After(15 * time.Second) // the replay used up the share of the user
		third := w.stream(t, network, "ann", want[100])
		assert.Equal(t, want[101:], third.entries(t, 56))
		// A minute is longer than any time limit of the server.
		<-time.After(time.Minute)
		assert.Equal(t, w.posts(t, "ann", 1), second.entries(t, 1))
		_, beats := second.place()
		assert.Equal(t, 5, beats)
	})
}

func TestLikeCountsAreStreamedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ann")
		network := w.serve(t)
		post := w.posts(t, "ann", 1)[0]
		like := func(count int64) event {
			_, err := w.store.Update(t.Context(), table.UpdateInput{
				Key: schema.LikeCountKey(post), Set: []table.Attr{{Name: schema.AttrLikes, Value: table.N(count)}},
			})
			require.NoError(t, err)
			return event{"likes", "", fmt.Sprintf(`{"post_id":%q,"count":%d}`, post, count)}
		}
		want := like(1)
		clients := []*events{w.stream(t, network, "ann", ""), w.stream(t, network, "ann", post)}
		for count := range int64(3) {
			<-time.After(10 * poll)
			for _, client := range clients {
				ev, err := client.next()
				require.NoError(t, err)
				assert.Equal(t, want, ev)
				assert.Empty(t, client.incoming)
			}
			want = like(2 - count) // the count is 0 at the end
		}
	})
}

func TestAStreamIsRefusedWithAProblem(t *testing.T) {
	w := newWorld(t)
	w.profile(t, "ann")
	const path = "/v1/home/stream"
	problem(t, w.call(t, "", "GET", path, ""), http.StatusUnauthorized, "unauthenticated")
	problem(t, w.call(t, "ben", "GET", path, ""), http.StatusConflict, "profile-missing")
	problem(t, w.call(t, "ben", "GET", path, "", "Last-Event-ID", id.Min), http.StatusConflict, "profile-missing")
	for _, last := range []string{"x", strings.ToLower(id.Max), id.Max + "0"} {
		problem(t, w.call(t, "ann", "GET", path, "", "Last-Event-ID", last), http.StatusBadRequest, "malformed")
	}
	res := w.call(t, "ann", "HEAD", path, "")
	assert.Equal(t, "200 text/event-stream", fmt.Sprint(res.Code, " ", res.Header().Get("Content-Type")))
	w = newWorld(t, func(c *httpapi.Config) {
		serve(c, access.Config{Store: down{}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour)}, feed.Config{})
	})
	problem(t, w.call(t, "ann", "GET", path, ""), http.StatusServiceUnavailable, "unavailable")
	problem(t, w.call(t, "ann", "GET", path, "", "Last-Event-ID", id.Min), http.StatusServiceUnavailable, "unavailable")
	assert.Zero(t, w.counted.open())
}

// down is a table that never answers.
type down struct{ table.Store }

func (down) Query(context.Context, table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) { yield(table.Page{}, errors.New("down")) }
}

// hung is a table whose queries wait until their caller gives up.
type hung struct{ table.Store }

func (hung) Query(ctx context.Context, _ table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) { <-ctx.Done(); yield(table.Page{}, context.Cause(ctx)) }
}

func (down) Get(context.Context, table.GetInput) (table.GetResult, error) {
	return table.GetResult{}, errors.New("down")
}

func (hung) Get(ctx context.Context, _ table.GetInput) (table.GetResult, error) {
	<-ctx.Done()
	return table.GetResult{}, context.Cause(ctx)
}

// Each user opens two streams. The second stream waits for the look of the first, and the last streams
// wait for a free look.
func TestStreamsThatWaitForAHungTableAreTold503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) {
			serve(c, access.Config{Store: hung{}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour)}, feed.Config{})
		})
		var calls sync.WaitGroup
		for i := range 150 {
			calls.Go(func() {
				res := w.call(t, fmt.Sprint("u", i/2), "GET", "/v1/home/stream", "")
				assert.Equal(t, http.StatusServiceUnavailable, res.Code)
				assert.NotEmpty(t, res.Header().Get("Retry-After"))
			})
		}
		calls.Wait()
		assert.Zero(t, w.counted.open())
	})
}

func TestStreamsOfAUserShareTheirLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ann")
		network := w.serve(t)
		looks := func() int {
			before := w.counted.looks()
			<-time.After(10*poll + poll/2)
			return w.counted.looks() - before
		}
		first := w.stream(t, network, "ann", "")
		assert.InDelta(t, 11, looks(), 1)
		second := w.stream(t, network, "ann", "")
		assert.InDelta(t, 11, looks(), 2)
		want := w.posts(t, "ann", 1)
		for _, client := range []*events{first, second} {
			assert.Equal(t, want, client.entries(t, 1))
			require.NoError(t, client.Close())
		}
		synctest.Wait()
		assert.Zero(t, looks())
	})
}

func TestOpenStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Streams.Process = 20; c.Limits.Requests = 2 })
		network := w.serve(t)
		w.profile(t, "ann")
		for i := range 20 {
			w.profile(t, fmt.Sprint("u", i))
		}
		found := map[int]int{}
		var open []*events
		for i := range 100 {
			e := w.stream(t, network, "ann", "")
			if found[e.status]++; i < 8 {
				open = append(open, e)
			}
		}
		assert.Equal(t, map[int]int{200: 8, 429: 92}, found, "of one user")
		clear(found)
		for i := range 20 {
			e := w.stream(t, network, fmt.Sprint("u", i), "")
			found[e.status]++
		}
		assert.Equal(t, map[int]int{200: 12, 503: 8}, found, "of all users")
		assert.Equal(t, http.StatusOK, w.call(t, "ann", "GET", "/v1/me", "").Code, "a request beside the streams")
		require.NoError(t, open[0].Close())
		synctest.Wait()
		assert.Equal(t, http.StatusOK, w.stream(t, network, "ann", "").status)
		assert.Equal(t, 20, w.counted.open())
	})
}

func TestAClientThatDoesNotReadIsClosedAndGoesOnLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ann")
		network := w.serve(t)
		slow := network.send(t, w.request(t, "ann", "GET /v1/home/stream"))
		res, err := http.ReadResponse(bufio.NewReader(slow), nil)
		require.NoError(t, err)
		defer res.Body.Close()
		fast := w.stream(t, network, "ann", "")
		var want []string
		for range 10 {
			more := w.posts(t, "ann", 10)
			want = append(want, more...)
			assert.Equal(t, more, fast.entries(t, 10), "a client that reads")
		}
		<-time.After(10 * time.Second)
		_, err = io.Copy(io.Discard, res.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Equal(t, 1, w.counted.open())
		again := w.stream(t, network, "ann", want[0])
		assert.Equal(t, want[1:], again.entries(t, 99))
	})
}

// A burst has more bytes than the buffer of a stream holds, and more than a user may have unread.
func TestABurstEndsTheStreamsThatCannotHoldIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Limits.UserUnread = 500_000 })
		w.profile(t, "ann")
		network := w.serve(t)
		slow := network.send(t, w.request(t, "ann", "GET /v1/home/stream"))
		res, err := http.ReadResponse(bufio.NewReader(slow), nil)
		require.NoError(t, err)
		defer res.Body.Close()
		w.posts(t, "ann", 60)
		<-time.After(poll + time.Millisecond)
		assert.Zero(t, w.counted.open())
		assert.Equal(t, 1, w.counted.endedBy("slow"))
		assert.Equal(t, http.StatusOK, w.call(t, "ann", "GET", "/v1/me", "").Code, "the memory is free again")
	})
}

func TestAStopEndsAllStreamsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ann")
		w.profile(t, "ben")
		network := w.serve(t)
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- w.api.Run(ctx) }()
		idle := w.stream(t, network, "ben", "")
		blocked := network.send(t, w.request(t, "ann", "GET /v1/home/stream"))
		res, err := http.ReadResponse(bufio.NewReader(blocked), nil)
		require.NoError(t, err)
		defer res.Body.Close()
		<-time.After(2 * poll) // the process writes events, and nobody reads them
		stop()
		require.NoError(t, <-stopped)
		began := time.Now()
		_, err = idle.next()
		assert.Equal(t, io.EOF, err, "the end of a stream whose client reads")
		assert.Zero(t, time.Since(began))
		<-time.After(time.Second + time.Millisecond)
		assert.Zero(t, w.counted.open())
		assert.Equal(t, 2, w.counted.endedBy("stop"))
		assert.Equal(t, http.StatusServiceUnavailable, w.stream(t, network, "ann", "").status)
	})
}

// The process refuses a stream at once if the reads of the stream would wait for the reads of other
// streams. The answer has the time until units are free, and the stream opens after that time. All other
// streams open well within the time limit of a call.
func TestABusyOpeningOfAStreamIsTold503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Streams.Alone = false })
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { assert.NoError(t, w.api.Run(ctx)) })
		defer running.Wait()
		defer stop()
		const openings = 500 // an opening takes 34 units, so 500 openings take more than a process has in five seconds
		for i := range openings {
			w.profile(t, fmt.Sprint("u", i))
		}
		w.store.get = func(context.Context) error { <-time.After(100 * time.Millisecond); return nil }
		var calls sync.WaitGroup
		var refused atomic.Int64
		for i := range openings {
			calls.Go(func() {
				open := func() *httptest.ResponseRecorder { return w.call(t, fmt.Sprint("u", i), "HEAD", "/v1/home/stream", "") }
				began, res := time.Now(), open()
				if res.Code == http.StatusServiceUnavailable {
					refused.Add(1)
					seconds, err := strconv.Atoi(res.Header().Get("Retry-After"))
					if !assert.NoError(t, err) || !assert.Zero(t, time.Since(began)) || !assert.Equal(t, 4, seconds) {
						return
					}
					<-time.After(time.Duration(seconds) * time.Second)
					res = open()
				}
				assert.Equal(t, http.StatusOK, res.Code)
			})
		}
		calls.Wait()
		assert.Positive(t, refused.Load())
		assert.Zero(t, w.counted.open())
	})
}
