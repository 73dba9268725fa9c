package httpapi

import (
	"math"
	"net/http"
	"path"
	"strings"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/obs"
	"fanfare/internal/trace"
)

// recorder keeps the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	// answered is the time at which a stream began, or the zero time for any other answer.
	answered time.Time
	// who is the caller, or the zero caller until a token was accepted.
	who caller
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find the wrapped writer.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServeHTTP implements http.Handler. Every request passes here: the request gets an id, a panic becomes a
// 500, and the answer is counted.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := a.now()
	requestID := r.Header.Get("X-Request-Id")
	if !obs.ValidRequestID(requestID) {
		requestID = obs.NewRequestID()
	}
	h := w.Header()
	h.Set("X-Request-Id", requestID)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store") // an answer belongs to one user
	rec := &recorder{ResponseWriter: w}
	if r.ContentLength != 0 {
		// The deadline also limits a body that no handler reads, because the server waits for such a body
		// before it sends the answer. Only a test has a connection without deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	}
	ctx, span := a.traced(obs.WithRequestID(r.Context(), requestID), r)
	r = r.WithContext(ctx)
	// Ids in the path go into events that outlive the request. The id of an event would keep the whole
	// request line in memory, which a stranger can make long (I9). So the path is copied.
	r.URL.Path, r.URL.RawPath = strings.Clone(r.URL.Path), strings.Clone(r.URL.RawPath)
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it with == too
				a.done(r, rec, start, span)
				panic(p)
			}
			a.log.Error("handler panicked", zap.String("request_id", requestID), zap.String("method", r.Method),
				zap.String("route", r.Pattern), trace.ID(ctx), zap.Any("panic", p), zap.Stack("stack"))
			if rec.status != 0 {
				panic(http.ErrAbortHandler) // half of an answer was sent: cut the connection
			}
			problem := internal()
			problem.RequestID = requestID
			problem.write(rec)
		}
		a.done(r, rec, start, span)
	}()
	if !a.origins.Allow(rec, r) {
		a.route(rec, r)
	}
}

// Below returns a handler for requests below a prefix, which api does not see. Other requests are not found. A prefix "" is
// the root.
func Below(prefix string, api http.Handler) http.Handler {
	if prefix == "" {
		return api
	}
	inside := http.StripPrefix(prefix, api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == prefix:
			http.Redirect(w, r, prefix+"/", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, prefix+"/"):
			inside.ServeHTTP(w, r)
		default:
			noSuchPath().write(w)
		}
	})
}

func (a *API) done(r *http.Request, rec *recorder, start time.Time, span oteltrace.Span) {
	status := rec.status
	if status == 0 {
		status = http.StatusOK
	}
	_, route, ok := strings.Cut(r.Pattern, " ")
	if !ok {
		route = "none"
	}
	end := rec.answered // the metric must not count the length of the stream
	if end.IsZero() {
		end = a.now()
	}
	took := end.Sub(start)
	a.observe(route, knownMethod(r.Method), status, took)
	endSpan(span, knownMethod(r.Method), route, status)
	fields := func() []zap.Field {
		return []zap.Field{
			zap.String("request_id", obs.RequestID(r.Context())), zap.String("method", knownMethod(r.Method)),
			zap.String("route", route), zap.Int("status", status), zap.Duration("took", took), trace.ID(r.Context()),
		}
	}
	if line := a.log.Check(zap.DebugLevel, "answered"); line != nil {
		line.Write(fields()...)
	}
	if why := refusal(status); why != "" {
		if line := a.sampled.Check(zap.InfoLevel, why); line != nil {
			line.Write(append(fields(), zap.String("user_id", rec.who.user), zap.String("service", rec.who.service))...)
		}
	}
}

// refusal returns the log line about an answer that refuses a caller, or "" for other answers. The log
// has at most one line a second for each kind of refusal, with the number of omitted lines.
func refusal(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "refused: not authenticated"
	case http.StatusForbidden:
		return "refused: forbidden"
	case http.StatusTooManyRequests:
		return "refused: too many requests"
	}
	return ""
}

// knownMethod returns a fixed label for an unknown method, so that strangers cannot add labels to
// metrics.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// route passes the request to the mux and turns the mux's own 404, 405 and redirects into
// Problems. A path that is not clean is not found: /v1/users//posts must not become the
// user "posts".
func (a *API) route(w http.ResponseWriter, r *http.Request) {
	if why := a.misdirected(r); why != "" {
		newProblem(http.StatusMisdirectedRequest, typeMisdirected, "Misdirected request", why).write(w)
		return
	}
	escaped := r.URL.EscapedPath()
	if r.Method != http.MethodConnect && (!strings.HasPrefix(escaped, "/") || path.Clean(escaped) != escaped) {
		noSuchPath().write(w)
		return
	}
	handler, pattern := a.mux.Handler(r)
	if pattern != "" {
		a.mux.ServeHTTP(w, r)
		return
	}
	probe := &discard{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if allow := probe.header.Get("Allow"); probe.status == http.StatusMethodNotAllowed && allow != "" {
		allow = a.ofClosest(r, allow)
		newProblem(http.StatusMethodNotAllowed, typeMethodNotAllowed, "Method not allowed",
			"the methods of this path are "+allow).header("Allow", allow).write(w)
		return
	}
	noSuchPath().write(w)
}

// misdirected returns why an API with dev tokens does not answer a request, "" if it does. The address of a proxy on this machine is a
// loopback address, too, but anyone on the network may use the proxy.
func (a *API) misdirected(r *http.Request) string {
	switch {
	case a.direct && admin.ThroughProxy(r.Header):
		return "this request came through a proxy, and with dev tokens anyone behind the proxy could be any user: set FANFARE_AUTH=jwt, or FANFARE_DEV_AUTH_PUBLIC=allow for a test system"
	case a.ownHost && !admin.IsOwnHost(r.Host, a.hosts...):
		return "with dev tokens any page could use a name of its own for this server: use localhost or an IP address, or set FANFARE_AUTH=jwt; " +
			"for a test system set FANFARE_DEV_AUTH_PUBLIC=allow, and add the name to FANFARE_DEV_AUTH_HOSTS"
	}
	return ""
}

// ofClosest returns the methods in allow that belong to the pattern closest to the path. The path
// /v1/posts/1/reactions/count has methods of its own, but matches the pattern of {kind}, too.
func (a *API) ofClosest(r *http.Request, allow string) string {
	var closest []string
	least := math.MaxInt
	for method := range strings.SplitSeq(allow, ", ") {
		as := r.Clone(r.Context())
		as.Method = method
		_, pattern := a.mux.Handler(as)
		switch wild := strings.Count(pattern, "{"); {
		case wild < least:
			least, closest = wild, []string{method}
		case wild == least:
			closest = append(closest, method)
		}
	}
	return strings.Join(closest, ", ")
}

func noSuchPath() *Problem {
	return newProblem(http.StatusNotFound, typeNotFound, "Not found", "this path does not exist: see /docs")
}

// discard keeps the status and the header of an answer, and drops the body.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header { return d.header }

func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

func (d *discard) WriteHeader(status int) { d.status = status }
