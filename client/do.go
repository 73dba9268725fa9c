package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// call describes a call of the API.
type call struct {
	method string
	path   string
	query  url.Values
	body   any
	key    string // the Idempotency-Key
	repeat bool   // a POST that can be repeated without a key
	open   bool   // the call needs no token
	known  string // the If-None-Match
	etag   *string
	accept string    // the media type of the answer, "" for JSON
	last   string    // the Last-Event-ID
	lines  io.Writer // where the lines of an answer go, which are not kept
}

func path(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(part))
	}
	return b.String()
}

// repeatable reports whether two attempts of a call have the effect of one.
func (k call) repeatable() bool {
	switch k.method {
	case http.MethodGet, http.MethodPut, http.MethodDelete:
		return true
	case http.MethodPost:
		return k.key != "" || k.repeat
	}
	return false
}

// do sends a call until it is answered or must not be repeated. It decodes the answer into out, if out is
// not nil.
func (c *Client) do(ctx context.Context, k call, out any) error {
	var body []byte
	if k.body != nil {
		var err error
		if body, err = json.Marshal(k.body); err != nil {
			return fmt.Errorf("client: %s %s: %w", k.method, k.path, err)
		}
	}
	unanswered := false
	attempts := tries{began: time.Now()}
	for {
		at := c.service.now.Load()
		err := c.send(ctx, at, k, body, out)
		if err == nil || unanswered && k.method == http.MethodDelete && gone(err) {
			return nil
		}
		if Unanswered(err) {
			unanswered = unanswered || !harmless(err)
			c.service.leave(at)
		}
		wait, repeat := c.next(ctx, &attempts, k, err)
		if !repeat || !sleep(ctx, wait) {
			return fmt.Errorf("client: %s %s: %w", k.method, k.path, err)
		}
	}
}

// gone reports whether the service answered that the object does not exist. After a deletion without an answer, the
// deletion has had its effect.
func gone(err error) bool {
	if _, unsent := errors.AsType[*unsentError](err); unsent {
		return false
	}
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Status == http.StatusNotFound && !p.foreign
}

// stray matches a path with an empty or a dot segment, such as the id "..", also if it is encoded once more.
// Servers and proxies resolve dots, so they would send the call to another path.
var stray = regexp.MustCompile(`(?i)(^|/|%(25)*(2f|5c))(\.|%(25)*2e){0,2}($|/|%(25)*(2f|5c))`)

// request returns the request of one attempt, for the machine at. Its errors are unsentErrors.
func (c *Client) request(ctx context.Context, at uint32, k call, body []byte) (*http.Request, error) {
	if stray.MatchString(k.path[1:]) {
		return nil, &unsentError{errors.New("an id is empty, \".\" or \"..\": check the ids of the call")}
	}
	req, err := c.build(ctx, at, k, body)
	if err != nil {
		return nil, &unsentError{err}
	}
	for name, values := range req.Header {
		if strings.ContainsFunc(values[0], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, &unsentError{fmt.Errorf("the value of %s has characters that no header may have: is the value damaged?", name)}
		}
	}
	return req, nil
}

func (c *Client) build(ctx context.Context, at uint32, k call, body []byte) (*http.Request, error) {
	u := *c.service.machines[at]
	escaped := u.EscapedPath() + k.path
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, err
	}
	u.Path, u.RawPath, u.RawQuery = plain, escaped, k.query.Encode()
	req, err := http.NewRequestWithContext(ctx, k.method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", cmp.Or(k.accept, "application/json")+", application/problem+json")
	if k.last != "" {
		req.Header.Set("Last-Event-ID", k.last)
	}
	if k.key != "" {
		req.Header.Set("Idempotency-Key", k.key)
	}
	if k.known != "" {
		req.Header.Set("If-None-Match", k.known)
	}
	if !k.open && c.token != nil {
		token, err := c.token(ctx)
		if err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if !k.open && c.user != "" {
		req.Header.Set("Fanfare-User", c.user)
	}
	return req, nil
}

// send makes one attempt, at the machine at.
func (c *Client) send(ctx context.Context, at uint32, k call, body []byte, out any) error {
	req, err := c.request(ctx, at, k, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return lost(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified && k.known != "" {
		*k.etag = k.known
		return nil
	}
	if err := refusal(ctx, resp); err != nil {
		return err
	}
	if k.lines != nil && isMedia(resp, "application/x-ndjson") {
		return copyRecords(k.lines, resp.Body)
	}
	answer, err := bodyOf(ctx, resp)
	if err != nil {
		return err
	}
	if k.lines != nil {
		return foreign(resp, answer, "the service answers with lines of JSON")
	}
	if err := decode(resp, answer, out); err != nil {
		return err
	}
	if k.etag != nil {
		*k.etag = resp.Header.Get("ETag")
	}
	return nil
}

// sleep waits for d. It returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		end, limited := ctx.Deadline() // it may be this moment, and then the caller needs the last real error
		return ctx.Err() == nil && (!limited || time.Now().Before(end))
	}
}
