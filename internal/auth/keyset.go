package auth

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/strictjson"
)

const (
	// refreshEvery is the age at which the keys are fetched again.
	refreshEvery = 15 * time.Minute
	// refreshPause is the minimum time between two fetches for unknown key ids, because a
	// stranger can invent any number of ids.
	refreshPause = 10 * time.Second
	fetchTimeout = 5 * time.Second
	// maxKeyAge is the time for which keys are used after their fetch. An issuer withdraws
	// a stolen key, but the thief may block the issuer's answers.
	maxKeyAge    = 24 * time.Hour
	maxRedirects = 10
	// maxAnswer is the maximum size of a key set and of a discovery document, in bytes.
	maxAnswer  = 1 << 20
	minRSABits = 2048
)

// KeySet is a cache of the keys that an issuer publishes (a JWK set). A KeySet fetches the
// keys in the background, and when a token names an unknown key. While the issuer does not
// answer, a KeySet keeps its keys for up to maxKeyAge.
type KeySet struct {
	// url is the URL of the keys. If url is "", the discovery document of the issuer names
	// the URL of the keys.
	url    string
	issuer string
	client *http.Client
	now    func() time.Time
	log    *zap.Logger

	// A caller holds fetching during a fetch, so that concurrent callers share the fetch.
	fetching chan struct{}

	mu      sync.Mutex
	keys    map[string][]*publicKey // by id; nil until the first successful fetch
	fetched time.Time               // the time of the last successful fetch
	tried   time.Time
	lastErr error
	// done and failed count the successful and the failed fetches.
	done, failed int64
}

// NewDiscoveredKeySet returns the keys that the discovery document of an issuer names
// (OpenID Connect Discovery). Each fetch reads the document again.
func NewDiscoveredKeySet(issuer string, client *http.Client, now func() time.Time, log *zap.Logger) *KeySet {
	s := NewKeySet("", client, now, log)
	s.issuer = issuer
	return s
}

// NewKeySet returns the keys that are published at a URL, and fetches nothing yet. A fetch
// follows redirects only to https: over http, an attacker between the two machines could
// answer with other keys.
func NewKeySet(at string, client *http.Client, now func() time.Time, log *zap.Logger) *KeySet {
	own := *client
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		switch {
		case req.URL.Scheme != "https":
			return errors.New("the issuer redirects to another scheme than https: set FANFARE_JWKS_URL to where the keys are")
		case len(via) > maxRedirects:
			return fmt.Errorf("the issuer redirects more than %d times", maxRedirects)
		}
		return nil
	}
	return &KeySet{url: at, client: &own, now: now, log: log, fetching: make(chan struct{}, 1)}
}

// Fetches returns the numbers of successful and failed fetches.
func (s *KeySet) Fetches() (done, failed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done, s.failed
}

// Run refreshes the keys until ctx ends.
func (s *KeySet) Run(ctx context.Context) error {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.refresh(ctx, time.Time{}); err != nil && ctx.Err() == nil {
				s.log.Warn("the keys could not be refreshed; those fetched before stay in use for 24 hours", zap.Error(err))
			}
		}
	}
}

// Ready returns nil if there are keys for the check of tokens. If there are no keys, Ready
// first fetches them.
func (s *KeySet) Ready(ctx context.Context) error {
	if s.loaded() {
		return nil
	}
	return s.refresh(ctx, s.now().Add(-refreshPause))
}

// Key returns the first public key with the id kid for the algorithm alg.
func (s *KeySet) Key(ctx context.Context, kid, alg string) (crypto.PublicKey, error) {
	found, err := s.find(ctx, kid, alg)
	if err != nil {
		return nil, err
	}
	return found[0].key, nil
}

// find returns the keys with the id kid for the algorithm alg: one key, unless the issuer used an id twice. A
// token can name any kid. So if many callers have an unknown kid, one caller fetches the keys and all other
// callers get an answer at once.
func (s *KeySet) find(ctx context.Context, kid, alg string) ([]*publicKey, error) {
	named, ok := s.lookup(kid)
	if !ok {
		// The issuer may have rotated its keys. Fetch them at most once in a refreshPause.
		err := s.refreshOnce(ctx)
		named, ok = s.lookup(kid)
		switch {
		case ok:
		case err != nil: // another caller's fetch, which may find the key, is an error, too
			return nil, &UnavailableError{err}
		default:
			return nil, invalid("the issuer has no such key")
		}
	}
	var found []*publicKey
	for _, key := range named {
		if slices.Contains(key.algs, alg) {
			found = append(found, key)
		}
	}
	if len(found) == 0 {
		return nil, invalid("the key is for another algorithm")
	}
	return found, nil
}

func (s *KeySet) loaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usable()
}

func (s *KeySet) lookup(kid string) ([]*publicKey, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.usable() {
		return nil, false
	}
	named, ok := s.keys[kid]
	return named, ok
}

// usable reports whether there are keys that are not too old. The caller holds mu.
func (s *KeySet) usable() bool { return s.keys != nil && s.now().Sub(s.fetched) <= maxKeyAge }

// refreshOnce fetches the keys because of an unknown key id: at most once in each
// refreshPause. refreshOnce does not wait for a fetch in progress.
func (s *KeySet) refreshOnce(ctx context.Context) error {
	since := s.now().Add(-refreshPause)
	if recent, err := s.triedAfter(since); recent {
		return err
	}
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
		return s.refreshHeld(ctx, since)
	default:
		return errFetching
	}
}

var errFetching = errors.New("the issuer's keys are being fetched")

// refresh fetches the keys. If another caller's fetch ended after since, refresh returns
// the result of that fetch instead. With a zero since, refresh always fetches.
func (s *KeySet) refresh(ctx context.Context, since time.Time) error {
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
		return s.refreshHeld(ctx, since)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// triedAfter reports whether the last fetch ended after since, and returns the error of this fetch.
func (s *KeySet) triedAfter(since time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !since.IsZero() && s.tried.After(since), s.lastErr
}

// refreshHeld does the work of refresh for a caller that holds fetching.
func (s *KeySet) refreshHeld(ctx context.Context, since time.Time) error {
	if recent, err := s.triedAfter(since); recent {
		return err
	}
	// The fetch continues if its caller gives up, because other callers wait for the fetch.
	fetchCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	keys, err := s.fetch(fetchCtx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried, s.lastErr = s.now(), err
	if err != nil {
		s.failed++
		return err
	}
	s.done++
	s.keys, s.fetched = keys, s.tried
	return nil
}

func (s *KeySet) fetch(ctx context.Context) (map[string][]*publicKey, error) {
	at := s.url
	if at == "" {
		var err error
		if at, err = s.discover(ctx); err != nil {
			return nil, fmt.Errorf("discover the issuer's keys: %w: correct FANFARE_JWT_ISSUER, or set FANFARE_JWKS_URL", err)
		}
	}
	body, err := s.get(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("fetch the key set: %w", err)
	}
	keys, err := parseKeySet(body)
	if err != nil {
		return nil, fmt.Errorf("key set of %s: %w", at, err)
	}
	return keys, nil
}

// discover returns the URL of the keys. The document must name the configured issuer. Otherwise
// a server could name another issuer's keys, or name its own keys for another issuer's tokens.
func (s *KeySet) discover(ctx context.Context) (string, error) {
	at := strings.TrimSuffix(s.issuer, "/") + "/.well-known/openid-configuration"
	body, err := s.get(ctx, at)
	if err != nil {
		return "", err
	}
	var document struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := strictjson.Unmarshal(body, &document); err != nil {
		return "", fmt.Errorf("%s is not a discovery document: %w", at, err)
	}
	if document.Issuer != s.issuer {
		return "", fmt.Errorf("%s is of another issuer (%.200q)", at, document.Issuer)
	}
	keys, err := url.Parse(document.Keys)
	if err != nil || keys.Host == "" || keys.User != nil {
		return "", fmt.Errorf("%s names no URL of keys (jwks_uri)", at)
	}
	if keys.Scheme == "https" || strings.HasPrefix(document.Keys, "http://"+keys.Host+"/") && strings.HasPrefix(at, "http://"+keys.Host+"/") { // an issuer on loopback
		return document.Keys, nil
	}
	return "", fmt.Errorf("%s names keys that are not at an https URL: others on the way could answer with keys of their own", at)
}

// get returns the body of the answer at a URL.
func (s *KeySet) get(ctx context.Context, at string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", at, res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("%s has more than %d bytes", at, maxAnswer)
	}
	return body, err
}
