// Program site is a small website with users of its own. Its sessions identify the users of the feed, which is below
// /feed/, so nobody needs a token. In a clone:
//
//	cd examples/site && go run .   # the first build takes minutes
//
// Then http://127.0.0.1:8080/ asks who you are, and http://127.0.0.1:8080/feed/ is the console.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
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
	if err := run(ctx, *addr, *data); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves the website until ctx ends.
func run(ctx context.Context, addr, data string) error {
	pages, feed, err := newSite(context.WithoutCancel(ctx), data) // the feed must outlive the server
	if err != nil {
		return err
	}
	server := &http.Server{Addr: addr, Handler: pages, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err = <-ended: // the server failed
		return errors.Join(err, feed.Close())
	case <-ctx.Done():
	}
	err = feed.Close() // before the server, because it ends the live homes
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(final))
}

// sessions has the signed-in users by the values of their cookies. Your site keeps them in a store.
type sessions struct{ users sync.Map }

// newSite returns the pages of the website, and the feed below /feed/, whose users the sessions identify.
func newSite(ctx context.Context, data string) (http.Handler, *fanfare.Server, error) {
	s := &sessions{}
	feed, err := fanfare.Start(ctx, fanfare.Config{
		DataDir: data, Log: zap.Must(zap.NewProduction()), Prefix: "/feed", User: s.user, Settings: map[string]string{"FANFARE_REACTIONS": "love,wow"},
	})
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, `<!doctype html><title>Site</title><form method="post" action="/sign-in"><label>Who are you? <input name="user"></label><button>Sign in</button></form>`)
	})
	mux.HandleFunc("POST /sign-in", s.signIn)
	mux.Handle("/feed/", feed)
	return http.NewCrossOriginProtection().Handler(mux), feed, nil
}

// user returns the user whose session a request has.
func (s *sessions) user(r *http.Request) (string, error) {
	cookie, err := r.Cookie("session")
	if err != nil {
		return "", err
	}
	user, _ := s.users.Load(cookie.Value)
	name, _ := user.(string)
	return name, nil
}

// signIn begins a session. Your site asks for a password, too, and sets Secure behind https.
func (s *sessions) signIn(w http.ResponseWriter, r *http.Request) {
	session := rand.Text()
	s.users.Store(session, r.FormValue("user"))
	http.SetCookie(w, &http.Cookie{Name: "session", Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/feed/", http.StatusSeeOther)
}
