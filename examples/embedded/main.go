// Program embedded is a small website with a feed inside: one process, one directory, no other service. Its own
// pages and the API of Fanfare share one server. In a clone:
//
//	cd examples/embedded && go run .
//
// Then http://127.0.0.1:8080/hello is a page of the program, and http://127.0.0.1:8080/ is the console. Ctrl-C stops
// the server first, and then Fanfare.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"

	"fanfare"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address of the website")
	data := flag.String("data", "feed-data", "directory of the feed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *data, func(url string) { fmt.Println("ready at " + url) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves the website until ctx ends. It calls ready with the website's address.
func run(ctx context.Context, addr, data string, ready func(url string)) error {
	log, err := zap.NewProduction()
	if err != nil {
		return err
	}
	// The feed must outlive the server: its context does not end with ctx.
	feed, err := fanfare.Start(context.WithoutCancel(ctx), fanfare.Config{DataDir: data, Log: log})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return errors.Join(err, feed.Close())
	}
	server := &http.Server{Handler: pages(feed), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	ready("http://" + listener.Addr().String())
	select {
	case err = <-ended: // the server failed
		return errors.Join(err, feed.Close())
	case <-ctx.Done():
	}
	// Close ends the live homes, which Shutdown would wait for, and answers all other running requests.
	err = feed.Close()
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(final))
}

// pages returns the program's own page and, below all other paths, the API and the console of Fanfare.
func pages(feed http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "Hello. The feed is at /.")
	})
	mux.Handle("/", feed)
	return mux
}
