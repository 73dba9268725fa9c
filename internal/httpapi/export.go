package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/obs"
	"fanfare/internal/panics"
	"fanfare/internal/trace"
)

const (
	// maxExports bounds the concurrent exports of a process, because each export holds a page of the
	// table in memory (I9).
	maxExports = 32
	// exportAgain is the time after which a user with a running export may ask for another export.
	exportAgain = 30 * time.Second
	// A user may begin exportBurst exports at once, for example after interruptions, and one more in each exportEach.
	exportEach  = 10 * time.Minute
	exportBurst = 3
	// mostExported bounds the memory of users who had exports (I9).
	mostExported = 10_000
)

// exports holds the running exports, at most one for each user.
type exports struct {
	mu    sync.Mutex
	users map[string]struct{}
	// rested has, by user, the time at which the user may begin exportBurst exports again.
	rested map[string]time.Time
	// stopping ends when the process does.
	stopping context.Context //nolint:containedctx // it belongs to the process
	stop     context.CancelFunc
}

func newExports() *exports {
	ctx, stop := context.WithCancel(context.Background())
	return &exports{users: map[string]struct{}{}, rested: map[string]time.Time{}, stopping: ctx, stop: stop}
}

// begin returns nil if user may have an export now. Then the caller must call end.
func (e *exports) begin(user string, now time.Time) *Problem {
	e.mu.Lock()
	defer e.mu.Unlock()
	rests := e.rested[user].Add(-(exportBurst - 1) * exportEach).Sub(now)
	switch _, exporting := e.users[user]; {
	case exporting:
		return newProblem(http.StatusTooManyRequests, typeRateLimited, "Too many requests",
			"an export of yours is under way: take it to its end, or close it, and try again").retryAfter(exportAgain)
	case rests > 0:
		return newProblem(http.StatusTooManyRequests, typeRateLimited, "Too many requests",
			fmt.Sprintf("you had %d exports lately: take the next one later", exportBurst)).retryAfter(rests)
	case len(e.users) >= maxExports, e.stopping.Err() != nil:
		return busy()
	}
	e.users[user] = struct{}{}
	return nil
}

func (e *exports) end(user string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.users, user)
}

// sends notes that an export of user sends its records.
func (e *exports) sends(user string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rested := e.rested[user]
	if rested.Before(now) {
		rested = now
	}
	maps.DeleteFunc(e.rested, func(other string, at time.Time) bool { return !at.After(now) || len(e.rested) >= mostExported })
	e.rested[user] = rested.Add(exportEach)
}

const exportType = "application/x-ndjson"

func (a *API) registerExport() {
	op := operation(route{http.MethodGet, "/v1/me/export", "export-me", "Users", "Receive all that is yours, as lines of JSON"}, http.StatusOK, http.StatusConflict)
	op.Description = "Your profile, follows in both directions, mutes, blocks, read markers, bookmarks, posts, comments, and your reactions where the server has their index: the lines of `fanfare export --user`. It is no snapshot. " +
		"Only for your own token: a service that acts for you gets 403. One export of yours is under way at a time, and you get three at once and one more each ten minutes. It counts as requests by the units that it reads, and waits where they are more than your rate allows."
	op.Responses = map[string]*huma.Response{"200": {
		Description: "One record a line, each with a `type`. The last line has the type `end` and the number of the lines before it. An export without it is not whole: an error, or the end of your token, cuts the connection.",
		Content: map[string]*huma.MediaType{exportType: {
			Schema:  &huma.Schema{Description: "One line.", Type: huma.TypeObject, Required: []string{"type"}, Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString}}, AdditionalProperties: true},
			Example: map[string]any{"type": "end", "records": 12},
		}},
	}}
	register(a, op, func(ctx context.Context, _ *struct{}) (*huma.StreamResponse, error) {
		who := callerOf(ctx)
		if who.service != "" {
			return nil, forbidden("an export has private records of the user, so only the user's own token gets it")
		}
		if _, err := a.feed.User(ctx, who.user); err != nil {
			if missing, ok := errors.AsType[*fault.Error](err); ok && missing.Kind == fault.NotFound {
				err = fault.NoProfile(who.user)
			}
			return nil, err
		}
		if p := a.exports.begin(who.user, a.now()); p != nil {
			return nil, p
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			_, w := humago.Unwrap(ctx)
			w.(*answer).stream = func(w http.ResponseWriter, r *http.Request) { a.sendExport(w, r, who) } //nolint:forcetypeassert // admit gives each operation one
		}}, nil
	})
}

// sendExport sends an export while it reads the records. An export holds no slot of a request. The client
// can detect a failure: the last line is missing, and the connection is cut.
func (a *API) sendExport(w http.ResponseWriter, r *http.Request, who caller) {
	defer a.exports.end(who.user)
	if rec, ok := w.(*recorder); ok {
		rec.answered = a.now()
	}
	w.Header().Set("Content-Type", exportType)
	w.Header().Set("X-Accel-Buffering", "no") // turns off the buffering of a proxy
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return
	}
	a.exports.sends(who.user, a.now())
	// Otherwise the server would treat the read deadline of the request as the end of the client.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // only a test has a connection without deadlines
	ctx, cost := access.WithCost(r.Context())
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() { cancel(panics.Catch(func() error { return a.untilRefused(ctx, r, who) })) })
	defer context.AfterFunc(a.exports.stopping, func() { cancel(errStopping) })()
	paid := 0.0
	pay := func() time.Duration {
		used := cost.Units()
		owes := a.limiter.carry(who.user, used-paid, a.now())
		paid = used
		return owes
	}
	defer pay() // for the reads after the last write
	out := &lines{ctx: ctx, to: w, pay: pay}
	err := a.export(ctx, who.user, out)
	if err == nil {
		_, err = fmt.Fprintf(out, `{"type":"end","records":%d}`+"\n", out.n)
	}
	switch {
	case err == nil:
	case !out.began && errors.Is(context.Cause(ctx), errToken):
		a.problem(ctx, unauthenticated("the token is not valid any more")).write(w)
	case !out.began:
		a.problem(ctx, fault.Wrap("table", err)).write(w)
	default:
		level := zap.WarnLevel
		if r.Context().Err() != nil { // the client has left
			level = zap.DebugLevel
		}
		a.sampled.Log(level, "an export ended early", zap.String("user_id", who.user), zap.String("request_id", obs.RequestID(ctx)), trace.ID(ctx), zap.Error(err))
		panic(http.ErrAbortHandler)
	}
}

// errStopping is the reason for which an export ends when the process stops.
var errStopping = errors.New("the process stops")

// lines sends the lines of an export, and counts them.
type lines struct {
	ctx context.Context //nolint:containedctx // it belongs to one request
	to  http.ResponseWriter
	// pay charges the user for the reads since the last call, and returns the time until the user has
	// paid.
	pay func() time.Duration
	// began reports whether the status was sent. n is the number of lines.
	began bool
	n     int
}

// Write implements io.Writer. It waits until the user has paid for the earlier reads, so an export stays
// within the user's share.
func (l *lines) Write(p []byte) (int, error) {
	if err := backoff.Wait(l.ctx, l.pay()); err != nil {
		return 0, err
	}
	l.began = true
	l.n += bytes.Count(p, []byte("\n"))
	limitTime(l.to, len(p))
	return l.to.Write(p)
}
