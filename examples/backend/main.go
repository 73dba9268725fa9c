// Backend is a backend for a frontend: a browser has a session with the backend and never sees a
// token of Fanfare. The backend calls Fanfare for the session's user, with its own token, which has
// the scope fanfare:act. README.md shows how to run it.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"fanfare/client"
)

const (
	cookie = "session"
	// maxSessions bounds the memory for sessions. A real backend keeps its sessions in a database.
	maxSessions = 10_000
	maxForm     = 64 << 10
)

func main() {
	addr := flag.String("addr", "127.0.0.1:3000", "address of this backend")
	api := flag.String("api", "http://127.0.0.1:8080", "URL of Fanfare")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *addr, *api, os.Getenv("SERVICE_TOKEN"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "backend:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr, api, token string) error {
	if token == "" {
		return errors.New("SERVICE_TOKEN is missing: a token with the scope fanfare:act")
	}
	fanfare, err := client.New(api, client.WithToken(token))
	if err != nil {
		return err
	}
	defer fanfare.CloseIdleConnections()
	b := &backend{fanfare: fanfare, sessions: map[string]string{}}
	server := &http.Server{Addr: addr, Handler: b.handler(), ReadTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() { stopped <- server.Shutdown(context.WithoutCancel(ctx)) })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

type backend struct {
	fanfare  *client.Client
	mu       sync.Mutex
	sessions map[string]string // the users by the value of the cookie
}

// handler returns the handler of all calls. It refuses a form that a page of another site sends with the
// user's cookie.
func (b *backend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", b.login)
	mux.HandleFunc("POST /logout", b.logout)
	mux.HandleFunc("GET /home", b.forUser(func(r *http.Request, as *client.Client) (any, error) {
		return as.Home(client.Push).Page(r.Context(), r.FormValue("cursor"), 20)
	}))
	mux.HandleFunc("POST /posts", b.forUser(func(r *http.Request, as *client.Client) (any, error) {
		return as.CreatePost(r.Context(), client.PostInput{Text: r.FormValue("text")})
	}))
	return http.NewCrossOriginProtection().Handler(mux)
}

// login makes a session. A real backend checks a password here, or receives the answer of an identity
// provider. In a real backend the browser must never choose the id of the user. In this example the
// browser chooses it.
func (b *backend) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	user := r.PostFormValue("user")
	if _, err := b.fanfare.ActAs(user).PutMe(r.Context(), client.ProfileInput{Name: user}); err != nil {
		fail(w, err)
		return
	}
	session := rand.Text()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sessions) == maxSessions {
		http.Error(w, "too many sessions", http.StatusServiceUnavailable)
		return
	}
	b.sessions[session] = user
	// Secure: browsers send the cookie only over https, and to localhost.
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: session, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
	w.WriteHeader(http.StatusNoContent)
}

func (b *backend) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookie); err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.sessions, c.Value)
	}
	w.WriteHeader(http.StatusNoContent)
}

// forUser returns a handler that makes a call on behalf of the session's user and answers with the
// result.
func (b *backend) forUser(call func(*http.Request, *client.Client) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		session, err := r.Cookie(cookie)
		if err != nil {
			http.Error(w, "log in first", http.StatusUnauthorized)
			return
		}
		b.mu.Lock()
		user, ok := b.sessions[session.Value]
		b.mu.Unlock()
		if !ok {
			http.Error(w, "log in again", http.StatusUnauthorized)
			return
		}
		answer, err := call(r, b.fanfare.ActAs(user))
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // if the browser has left, it needs no answer
	}
}

// fail passes Fanfare's problem on to the browser. The token belongs to this program, so a 401 or 403 is
// a fault of this program, and the user cannot repair it.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status != http.StatusUnauthorized && p.Status != http.StatusForbidden {
		status = p.Status
	}
	http.Error(w, err.Error(), status)
}
