package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"fanfare/client"
)

// sessions has a client for each user. All clients share one pool of connections, and each
// client has a dev token that is renewed before the token expires.
type sessions struct {
	anyone *client.Client
	mu     sync.Mutex
	users  map[string]*client.Client
}

func newSessions(s Service) (*sessions, error) {
	anyone, err := client.New(s.Target, client.WithAttempts(cmp.Or(s.Attempts, 12)))
	if err != nil {
		return nil, fmt.Errorf("%w: --target: %w", ErrUsage, err)
	}
	return &sessions{anyone: anyone, users: map[string]*client.Client{}}, nil
}

func (s *sessions) close() { s.anyone.CloseIdleConnections() }

func (s *sessions) of(user string) *client.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.users[user]
	if !ok {
		held := &token{anyone: s.anyone, user: user}
		c = s.anyone.As(held.get)
		s.users[user] = c
	}
	return c
}

// token has one user's token.
type token struct {
	anyone *client.Client
	user   string
	mu     sync.Mutex
	held   client.DevToken
}

const (
	tokenTTL   = time.Hour
	tokenSlack = time.Minute // the time before its expiry at which a token is renewed
)

func (t *token) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Until(t.held.ExpiresAt) > tokenSlack {
		return t.held.Token, nil
	}
	held, err := t.anyone.DevToken(ctx, t.user, tokenTTL)
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusNotFound {
		return "", errors.New("the target issues no dev tokens: start it with FANFARE_AUTH=dev")
	}
	if err != nil {
		return "", fmt.Errorf("dev token: %w", err)
	}
	t.held = held
	return held.Token, nil
}
