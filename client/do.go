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
		if err == nil {
			return nil
		}
		if unanswered && k.method == http.MethodDelete && errors.Is(err, ErrNotFound) {
			// An earlier attempt has deleted the object, and its answer was lost.
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

// request returns the request of one attempt, for the machine at.
func (c *Client) request(ctx context.Context, at uint32, k call, body []byte) (*http.Request, error) {
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
		if c.user != "" {
			req.Header.Set("Fanfare-User", c.user)
		}
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
	if k.lines != nil && resp.StatusCode == http.StatusOK {
		return copyRecords(k.lines, resp.Body)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return lost(ctx, err)
	case len(answer) > maxBody:
		return fmt.Errorf("the answer is larger than %d bytes", maxBody)
	case resp.StatusCode == http.StatusNotModified && k.known != "":
		*k.etag = k.known
		return nil
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return problemOf(resp, answer, time.Now())
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("decode the answer: %w", err)
	}
	if k.etag != nil {
		*k.etag = resp.Header.Get("ETag")
	}
	return nil
}

// lost marks err as an attempt without an answer. If the context has ended, the call is not repeated, but
// its outcome is unknown, too.
func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", errNoAnswer, err)
}

// sleep waits for d. It returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
