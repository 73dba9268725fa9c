package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is the error of a call that the service refused, with problem details (RFC 9457).
// errors.AsType[*client.Problem](err) returns the Problem.
type Problem struct { //nolint:errname // RFC 9457 calls it a problem
	// Type is the stable name of the kind of problem. Programs should decide by Type or by Status.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Errors names each faulty field of the request.
	Errors []FieldError `json:"errors"`
	// RetryAfter is the wait that the service requests, 0 for none.
	RetryAfter time.Duration `json:"-"`
	// foreign is true for the answer of a proxy, which has no problem details.
	foreign bool
}

// FieldError is the fault of one field of a request.
type FieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// Error names the status, the title, the detail and each faulty field.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", p.Status, p.Title)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for _, f := range p.Errors {
		fmt.Fprintf(&b, "; %s: %s", f.Field, f.Detail)
	}
	return b.String()
}

// Is reports whether target is the sentinel for the problem's status.
func (p *Problem) Is(target error) bool {
	return target == ErrNotFound && p.Status == http.StatusNotFound || target == ErrEventsGone && p.Status == http.StatusGone
}

// ErrNotFound matches every 404 by errors.Is.
var ErrNotFound = errors.New("not found")

// problemOf turns any unsuccessful answer into a Problem, even the answer of a proxy without problem
// details.
func problemOf(resp *http.Response, body []byte, now time.Time) *Problem {
	p := &Problem{}
	if !isMedia(resp, "application/problem+json") || !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) || json.Unmarshal(body, p) != nil {
		p = &Problem{Type: "about:blank", Detail: excerpt(body), foreign: true}
	}
	p.Status = resp.StatusCode
	if p.Title == "" {
		p.Title = http.StatusText(resp.StatusCode)
	}
	p.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
	return p
}

// retryAfter reads seconds or an HTTP date. It returns 0 for a past date or any other value.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

func excerpt(body []byte) string {
	const most = 200
	text := strings.ToValidUTF8(strings.TrimSpace(string(body[:min(len(body), most)])), "")
	return strings.Join(strings.Fields(text), " ")
}
