// Package standin is a DynamoDB endpoint for benchmarks that does next to nothing:
// an author has as many followers as it is told, read by key range and made up as
// they are asked for; timeline entries are counted and forgotten; the few other
// items that a fan-out writes are kept. So what is measured against it is the
// client. It runs in a process of its own, whose CPU time does not count, and can
// hold back each reply to play a network.
//
// It must never be taken for DynamoDB: of conditions it knows "if absent", of
// transactions nothing, and it checks no signature. It listens on loopback only.
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

// Options say what a stand-in plays.
type Options struct {
	// Followers is how many followers every author has.
	Followers int
	// Latency is how long each reply is held back.
	Latency time.Duration
}

// Author is what Follower numbers the followers of; any author has them.
const Author = "author"

// Follower is the id of follower n, from 0. Ids ascend with n.
func Follower(n int) string { return fmt.Sprintf("f%09d", n) }

// Serve listens on a free port of loopback, prints the endpoint's URL as one line
// on out, and answers until ctx ends or in does: a child ends with who started it.
func Serve(ctx context.Context, opt Options, in io.Reader, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: New(opt), ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if in != nil {
		// It ends with the process at the latest: a read cannot be called off.
		go func() {
			_, _ = io.Copy(io.Discard, in) // its end is all that matters
			cancel()
		}()
	}
	defer context.AfterFunc(ctx, func() {
		// Who measures is gone.
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

// String is the form in which Parse takes the options: for a child's arguments or
// environment.
func (o Options) String() string {
	text, err := json.Marshal(o)
	if err != nil {
		return "{}" // two numbers never fail
	}
	return string(text)
}

// Parse is the reverse of String.
func Parse(text string) (o Options, err error) {
	if err = json.Unmarshal([]byte(text), &o); err != nil {
		return o, fmt.Errorf("stand-in: options %q: %w", text, err)
	}
	return o, nil
}
