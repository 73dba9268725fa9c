// Package plain holds the applications that a team would write first for the requests of which people
// wait for the answer: a home page and a like on Redis, and a post on PostgreSQL, each behind net/http
// with JSON. Paths, bodies and answers have the form of Fanfare's API, so the same load generator can
// call Fanfare and the baselines.
//
// The applications are baselines: they promise less than Fanfare does, as bench/README.md explains. A
// token is the user's id without a signature. The applications have no second page, no deletion, no rate
// limit and no metric. The product must never import this package.
package plain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"fanfare/internal/id"
)

// Heap is the answer to GET /heap: the allocations of the application since its start.
type Heap struct {
	Allocs     uint64 `json:"allocs"`
	AllocBytes uint64 `json:"alloc_bytes"`
}

type post struct {
	ID        string    `json:"id"`
	AuthorID  string    `json:"author_id"`
	Text      string    `json:"text"`
	CreatedAt time.Time `json:"created_at"`
}

type author struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type homeItem struct {
	Post      post   `json:"post"`
	Author    author `json:"author"`
	LikeCount int64  `json:"like_count"`
	Liked     bool   `json:"liked"`
}

type home struct {
	Items []homeItem `json:"items"`
}

type likeCount struct {
	Count int64 `json:"count"`
}

// errAbsent is the error of a call that names a post or a user that does not exist.
var errAbsent = errors.New("there is no such post or user")

// Serve answers requests on a free port of loopback until ctx ends. It writes its address
// to out as one line.
func Serve(ctx context.Context, h http.Handler, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		return fmt.Errorf("plain: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() {
		_ = server.Close() // the connections end with the process
	})()
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("plain: %w", err)
	}
	return nil
}

func newMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /heap", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		reply(w, http.StatusOK, Heap{m.Mallocs, m.TotalAlloc}, nil)
	})
	return mux
}

// caller returns the user of a request: the token is the user's id.
func caller(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// newPost reads the post in a request, and gives the post a new id.
func newPost(r *http.Request, ids *id.Generator) (post, error) {
	p := post{AuthorID: caller(r), CreatedAt: time.Now().UTC()}
	var body struct {
		Text string `json:"text"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<16)).Decode(&body); err != nil {
		return p, fmt.Errorf("read the post: %w", err)
	}
	p.Text = body.Text
	var err error
	p.ID, err = ids.New()
	return p, err
}

func reply(w http.ResponseWriter, status int, v any, err error) {
	if err != nil {
		status, v = http.StatusInternalServerError, map[string]string{"detail": err.Error()}
		if errors.Is(err, errAbsent) {
			status = http.StatusNotFound
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has left
}
