package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/httpapi"
)

// pipes is a network in memory that buffers nothing, so a client that does not read blocks
// the server at the first byte.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serve answers on pipes until the end of the test, which runs in virtual time.
func (w *world) serve(t *testing.T) pipes {
	t.Helper()
	network := pipes{make(chan net.Conn)}
	server := &http.Server{Handler: w.api, ReadTimeout: 20 * time.Second, WriteTimeout: 45 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(network) }()
	t.Cleanup(func() {
		close(network.conns)
		<-served
		assert.NoError(t, server.Close())
	})
	return network
}

// send opens a connection and sends text on it.
func (p pipes) send(t *testing.T, text string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() {
		assert.NoError(t, client.Close())
	})
	p.conns <- server
	_, err := io.WriteString(client, text)
	require.NoError(t, err)
	return client
}

// request returns the head of a request of user ("" for no user), with further header lines.
func (w *world) request(t *testing.T, user, line string, header ...string) string {
	t.Helper()
	if user != "" {
		header = append(header, "Authorization: Bearer "+w.token(t, user))
	}
	return line + " HTTP/1.1\r\nHost: fanfare\r\n" + strings.Join(append(header, "", ""), "\r\n")
}

// answers reads an answer from each connection. It returns the number of whole answers by status, and the
// number of broken answers under the key 0.
func answers(t *testing.T, conns []net.Conn) map[int]int {
	t.Helper()
	found := map[int]int{}
	for _, conn := range conns {
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			found[0]++
			continue
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			res.StatusCode = 0
		}
		if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
			t.Error("a 503 without Retry-After")
		}
		found[res.StatusCode]++
		res.Body.Close()
	}
	return found
}

// gone reads each connection to its end, and fails if a connection returned a whole document.
func gone(t *testing.T, conns []net.Conn) {
	t.Helper()
	found := answers(t, conns)
	assert.Equalf(t, len(conns), found[0], "statuses are %v", found)
}

// others is the number of an attacker's connections: more than the requests that a process handles at
// once.
const others = 1060

func TestStrangersWhoDoNotReadTheDocumentStopNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ben")
		network := w.serve(t)
		conns := make([]net.Conn, others)
		for i := range conns {
			conns[i] = network.send(t, w.request(t, "", "GET /openapi.json"))
		}
		synctest.Wait()
		res := w.call(t, "ben", "GET", "/v1/me", "")
		assert.Equalf(t, http.StatusOK, res.Code, "another user's call: %d %s", res.Code, res.Body)
		<-time.After(10 * time.Second) // in virtual time
		gone(t, conns)
	})
}

func TestSlowBodiesOfOneUserStopNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ben")
		network := w.serve(t)
		began := time.Now()
		conns := make([]net.Conn, others)
		for i := range conns {
			conns[i] = network.send(t, w.request(t, "ann", "PUT /v1/me", "Content-Length: 100")+"{")
		}
		synctest.Wait()
		res := w.call(t, "ben", "PUT", "/v1/me", `{"name":"b"}`)
		assert.Equalf(t, http.StatusOK, res.Code, "another user's call: %d %s", res.Code, res.Body)
		found := answers(t, conns)
		assert.Equalf(t, 32, found[http.StatusRequestTimeout], "statuses are %v", found)
		assert.Equalf(t, others-32, found[http.StatusServiceUnavailable], "statuses are %v", found)
		assert.Equal(t, 5*time.Second, time.Since(began), "answered after")
		res = w.call(t, "ann", "PUT", "/v1/me", `{"name":"a"}`)
		assert.Equalf(t, http.StatusOK, res.Code, "the same user's call afterwards: %d %s", res.Code, res.Body)
	})
}

func TestSlowReadersHoldNoMoreThanTheirShareOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ann")
		w.profile(t, "ben")
		for range 100 {
			_, err := w.cfg.Feed.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: strings.Repeat("😀", 5000)}})
			require.NoError(t, err)
		}
		network := w.serve(t)
		list := w.request(t, "ann", "GET /v1/users/ann/posts?limit=100")
		conns := make([]net.Conn, 40)
		for i := range conns {
			conns[i] = network.send(t, list)
			synctest.Wait() // each request ends before the next one begins, so the limit of a user's requests refuses none
		}
		res := w.call(t, "ben", "GET", "/v1/users/ann/posts?limit=100", "")
		assert.Equalf(t, http.StatusOK, res.Code, "another user's call: %d %s", res.Code, res.Body)
		// An answer has 12 posts of 20 kB, and a user may have 4 MiB.
		found := answers(t, conns[17:])
		assert.Equalf(t, 23, found[http.StatusServiceUnavailable], "beside 17 answers: statuses are %v", found)
		found = answers(t, conns[:1])
		assert.Equalf(t, 1, found[http.StatusOK], "an answer that waited: statuses are %v", found)
		<-time.After(time.Minute) // in virtual time
		gone(t, conns[1:2])
		res = w.call(t, "ann", "GET", "/v1/users/ann/posts?limit=100", "")
		assert.Equal(t, http.StatusOK, res.Code, "after the slow readers")
	})
}

func TestSlowReadersOfManyUsersHoldNoMoreThanTheProcessMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Limits.Unread = 100_000 })
		w.profile(t, "ann")
		post := w.largePost(t)
		network := w.serve(t)
		conns := make([]net.Conn, 50)
		for i := range conns {
			conns[i] = network.send(t, w.request(t, fmt.Sprintf("u%d", i), "GET /v1/posts/"+post))
			synctest.Wait()
		}
		if found := answers(t, conns); found[http.StatusOK] != 4 || found[http.StatusServiceUnavailable] != 46 {
			t.Errorf("statuses are %v, want 4 answers of 20 kB", found)
		}
	})
}

// A user with fewer unread bytes than the slow readers is answered, because the oldest answers of the
// users with the most bytes are cut. A user with as many bytes as the slow readers gets a 503.
func TestSlowReadersOfManyUsersFailNobodyElsesReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Limits.Unread = 100_000 })
		w.profile(t, "ann")
		read := "GET /v1/posts/" + w.largePost(t)
		network := w.serve(t)
		var conns []net.Conn
		slow := func(user string) {
			conns = append(conns, network.send(t, w.request(t, user, read)))
			synctest.Wait()
		}
		for _, user := range []string{"s1", "s1", "s2", "s2"} { // the budget is full
			slow(user)
		}
		for range 3 {
			res := w.call(t, "ben", "GET", strings.TrimPrefix(read, "GET "), "")
			assert.Equalf(t, http.StatusOK, res.Code, "a fast reader: %d %s", res.Code, res.Body)
		}
		slow("s3") // there is room for one answer
		slow("s4") // s1 or s2 still held two answers
		slow("s5") // each slow reader holds one answer
		if found := answers(t, conns[:4]); found[http.StatusOK] != 2 || found[0] != 2 {
			t.Errorf("those who held two answers: %v, want the oldest of each cut", found)
		}
		if found := answers(t, conns[4:]); found[http.StatusOK] != 2 || found[http.StatusServiceUnavailable] != 1 {
			t.Errorf("those who came later: %v", found)
		}
	})
}

// The answer to a successful write finds room, even if other users have more unread bytes.
func TestTheAnswerOfAWriteFindsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Limits.Unread = 30_000 })
		w.profile(t, "ann")
		path := "/v1/posts/" + w.largePost(t)
		network := w.serve(t)
		body := `{"text":"` + strings.Repeat("😀", 5000) + `"}`
		var conns []net.Conn
		for _, user := range []string{"ann", "ben"} {
			w.profile(t, user)
			conns = append(conns, network.send(t, w.request(t, user, "POST "+path+"/comments", fmt.Sprintf("Content-Length: %d", len(body)))+body))
			synctest.Wait()
		}
		if found := answers(t, conns); found[0] != 1 || found[http.StatusCreated] != 1 {
			t.Errorf("statuses are %v, want the second answer instead of the first", found)
		}
	})
}

// largePost makes a post of ann whose text has 20,000 bytes.
func (w *world) largePost(t *testing.T) string {
	t.Helper()
	post, err := w.cfg.Feed.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: strings.Repeat("😀", 5000)}})
	require.NoError(t, err)
	return post.ID
}

// The answer to a write waits for its client even if the user's share is used up, because the answer is the
// proof that the write has happened.
func TestTheAnswerOfAWriteIsSentWhateverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Limits.UserUnread = 1 })
		w.profile(t, "ann")
		post := w.largePost(t)
		network := w.serve(t)
		arrived, leave := make(chan struct{}, 10), make(chan struct{})
		w.store.get = func(context.Context) error { arrived <- struct{}{}; <-leave; return nil }
		body := `{"text":"` + strings.Repeat("😀", 5000) + `"}`
		comment := network.send(t, w.request(t, "ann", "POST /v1/posts/"+post+"/comments", fmt.Sprintf("Content-Length: %d", len(body)))+body)
		<-arrived
		unread := network.send(t, w.request(t, "ann", "GET /v1/users/ann/posts"))
		synctest.Wait()
		close(leave)
		synctest.Wait()
		if found := answers(t, []net.Conn{comment, unread}); found[http.StatusCreated] != 1 || found[http.StatusOK] != 1 {
			t.Errorf("statuses are %v", found)
		}
	})
}

func TestOneUsersRequestsLeaveSlotsForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		leave := make(chan struct{})
		network := w.serve(t)
		w.profile(t, "ben")
		w.store.get = func(context.Context) error { <-leave; return nil }
		conns := make([]net.Conn, others)
		for i := range conns {
			conns[i] = network.send(t, w.request(t, "ann", "GET /v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV"))
		}
		synctest.Wait()
		res := w.call(t, "ben", "GET", "/v1/me", "")
		assert.Equalf(t, http.StatusOK, res.Code, "another user's call: %d %s", res.Code, res.Body)
		close(leave)
		if found := answers(t, conns); found[http.StatusNotFound] != 32 || found[http.StatusServiceUnavailable] != others-32 {
			t.Errorf("statuses are %v", found)
		}
	})
}

func TestAProcessThatShedsNearlyAllIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Limits.Requests = 1 })
		network := w.serve(t)
		leave := make(chan struct{})
		w.store.get = func(context.Context) error { <-leave; return nil }
		const read = "GET /v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV"
		held := []net.Conn{network.send(t, w.request(t, "ann", read))}
		synctest.Wait()
		ready := func() string { return w.call(t, "", "GET", "/readyz", "").Body.String() }
		for range 99 {
			problem(t, w.call(t, "ben", "GET", "/v1/me", ""), http.StatusServiceUnavailable, "unavailable")
		}
		assert.Contains(t, ready(), `"ready"`, "after 99 requests that it shed")
		problem(t, w.call(t, "ben", "GET", "/v1/me", ""), http.StatusServiceUnavailable, "unavailable")
		assert.Contains(t, ready(), `"overloaded"`, "after 100 requests that it shed")
		close(leave)
		answers(t, held)
		<-time.After(10 * time.Second) // in virtual time
		assert.Contains(t, ready(), `"ready"`)
	})
}

// Requests of one user above its own limits do not make the process unready.
func TestOneUserCannotMakeTheProcessNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Limits.UserRequests = 1 })
		network := w.serve(t)
		leave := make(chan struct{})
		w.store.get = func(context.Context) error { <-leave; return nil }
		held := []net.Conn{network.send(t, w.request(t, "ann", "GET /v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV"))}
		synctest.Wait()
		for range 1000 {
			problem(t, w.call(t, "ann", "GET", "/v1/me", ""), http.StatusServiceUnavailable, "unavailable")
		}
		res := w.call(t, "", "GET", "/readyz", "")
		assert.Equalf(t, http.StatusOK, res.Code, "answer is %d %s", res.Code, res.Body)
		close(leave)
		answers(t, held)
	})
}

// The deadline of a body ends once the body has arrived.
func TestACallMayTakeLongerThanABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ann")
		network := w.serve(t)
		post := w.largePost(t)
		w.store.get = func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return errors.New("the call was ended")
			case <-time.After(2 * time.Second):
				return nil
			}
		}
		body := `{"text":"c"}`
		conns := []net.Conn{
			network.send(t, w.request(t, "ann", "POST /v1/posts/"+post+"/comments", fmt.Sprintf("Content-Length: %d", len(body)))),
			network.send(t, w.request(t, "ann", "GET /v1/posts/"+post, "Transfer-Encoding: chunked")),
		}
		<-time.After(4 * time.Second)
		for i, rest := range []string{body, "0\r\n\r\n"} {
			_, err := conns[i].Write([]byte(rest))
			require.NoError(t, err)
		}
		if found := answers(t, conns); found[http.StatusCreated] != 1 || found[http.StatusOK] != 1 {
			t.Errorf("statuses are %v", found)
		}
	})
}
