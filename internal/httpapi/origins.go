package httpapi

import (
	"net/http"
	"slices"
	"strings"
)

// pageHeaders are the headers that pages may always send: the API's headers, and the headers that tracing
// in browsers adds to every call.
const pageHeaders = "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, X-Request-Id, " +
	"Traceparent, Tracestate, Baggage, Sentry-Trace"

// Origins are the origins of web pages that may call the API.
type Origins struct {
	allowed []string
	headers string // that pages may send
	// credentials lets pages send cookies. Only the sessions of a site need cookies.
	credentials bool
}

// NewOrigins returns the given origins. headers are the headers that pages may send in addition to the headers of the
// API and of tracing. credentials lets the pages send cookies.
func NewOrigins(allowed, headers []string, credentials bool) Origins {
	return Origins{allowed: allowed, credentials: credentials, headers: strings.Join(append([]string{pageHeaders}, headers...), ", ")}
}

// Allow lets a page of the origins read the answer to a request. It runs before every answer; otherwise a page could
// not read even the answer of a busy server. It reports whether it has given the answer itself, to a preflight.
func (o Origins) Allow(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(o.allowed) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(o.allowed, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if o.credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	h.Set("Access-Control-Expose-Headers", "ETag, Location, Retry-After, X-Request-Id")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", o.headers)
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
