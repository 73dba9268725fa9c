package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"time"
)

// This file decides the meaning of an answer. testdata/cases.json has the same decisions as a table, for this client
// and for the client in TypeScript.

// errNoAnswer marks an attempt that ended without an answer of the service.
var errNoAnswer = errors.New("no answer")

// unsentError marks a call that sent nothing, because its token or one of its values is bad. Its cause decides
// nothing about the call, even if the cause is the error of another call.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// Unanswered reports whether the effect of the failed call is unknown: the call had no answer of the service, or a
// server or a proxy failed, or did not receive the whole request in time.
func Unanswered(err error) bool {
	if _, unsent := errors.AsType[*unsentError](err); unsent {
		return false
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status >= http.StatusInternalServerError || p.Status == http.StatusRequestTimeout
	}
	return errors.Is(err, errNoAnswer)
}

// harmless reports whether a failed attempt had no effect: the service limits the rate or handles no early data, the
// machine is the standby of a pair, or no connection was opened.
func harmless(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		switch p.Status {
		case http.StatusTooManyRequests, http.StatusTooEarly:
			return true
		}
		return p.Status == http.StatusServiceUnavailable && p.Type == "standby"
	}
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}

// refusal returns the error of an answer without success, nil for an answer that may be one. A redirect is never the
// service's.
func refusal(ctx context.Context, resp *http.Response) error {
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case resp.StatusCode < 400:
		return foreign(resp, nil, "the service never redirects")
	}
	body, err := bodyOf(ctx, resp)
	if err != nil {
		return err
	}
	return problemOf(resp, body, time.Now())
}

// bodyOf reads an answer.
func bodyOf(ctx context.Context, resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, lost(ctx, err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("%w: the answer is larger than %d bytes", errNoAnswer, maxBody)
	}
	return body, nil
}

// decode decodes a successful answer into out, which is nil if the call's answers are empty. An answer that the
// service never gives is the answer of a proxy, so the outcome of the call is unknown.
func decode(resp *http.Response, body []byte, out any) error {
	switch {
	case out == nil && (resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusAccepted || len(body) > 0):
		return foreign(resp, body, "the service answers without content")
	case out == nil:
		return nil
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated || !isMedia(resp, "application/json") || !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
		return foreign(resp, body, "the service answers with a JSON object")
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%w: decode the answer: %w", errNoAnswer, err)
	}
	return nil
}

// foreign is the error of an answer that is not the service's.
func foreign(resp *http.Response, body []byte, reason string) error {
	return fmt.Errorf("%w: the answer %s with Content-Type %q is not the service's: %s: %s", errNoAnswer, resp.Status, resp.Header.Get("Content-Type"), reason, excerpt(body))
}

func isMedia(resp *http.Response, want string) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == want
}

// lost marks err as an attempt without an answer. If the context has ended, the call is not repeated, but
// its outcome is unknown, too.
func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", errNoAnswer, err)
}
