// Package standin is a DynamoDB endpoint for benchmarks that does almost nothing, so that a benchmark
// measures the client. Each author has a set number of followers, which the endpoint generates when a
// query asks for them. The endpoint counts timeline entries and does not store them. It stores the few
// other items that a fan-out writes. It runs in a separate process, whose CPU time does not count, and
// can delay each reply as a network would.
//
// A stand-in must never be used as DynamoDB: it knows only the condition "if absent", its transactions
// are not atomic, and it checks no signature. It listens on loopback only.
package standin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Options set the size and speed of a stand-in.
type Options struct {
	// Followers is the number of followers of every author.
	Followers int
	// Few has the numbers of followers of authors with another number of followers.
	Few map[string]int
	// Latency is the delay of each reply.
	Latency time.Duration
}

// Author is the id of an author. Every other author has the same followers.
const Author = "author"

// Follower returns the id of follower n, counted from 0. Ids ascend with n.
func Follower(n int) string { return fmt.Sprintf("f%09d", n) }

// Serve listens on a free port of loopback, prints the endpoint's URL as one line on out, and answers
// until ctx or in ends. in ends when the process that started the stand-in ends.
func Serve(ctx context.Context, opt Options, in io.Reader, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: New(opt), ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if in != nil {
		// This goroutine may outlive the call, because a read cannot be cancelled.
		go func() {
			_, _ = io.Copy(io.Discard, in) // only the end of in matters
			cancel()
		}()
	}
	defer context.AfterFunc(ctx, func() {
		// An error is ignored, because no client is left.
		_ = server.Close()
	})()
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// String returns the options in the form that Parse reads, for the environment of a child.
func (o Options) String() string {
	text, err := json.Marshal(o)
	if err != nil {
		return "{}" // numbers never fail
	}
	return string(text)
}

// Parse reads the form that String writes.
func Parse(text string) (o Options, err error) {
	if err = json.Unmarshal([]byte(text), &o); err != nil {
		return o, fmt.Errorf("stand-in: options %q: %w", text, err)
	}
	return o, nil
}
