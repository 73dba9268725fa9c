package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"fanfare/internal/auth"
	"fanfare/internal/feed/access"
	"fanfare/internal/obs"
	"fanfare/internal/trace"
)

// userHeader is the header that names the user for whom a service calls.
const userHeader = "Fanfare-User"

// caller is the user or service that sent a request.
type caller struct {
	// user is the user whose rights the request has, "" for a service that acts for no user.
	user string
	// service is the service that acts for user, "" for none. deletes reports whether the service may
	// delete user.
	service string
	deletes bool
	// until is the time from which the request's token is refused, zero without a token.
	until time.Time
}

// keys returns the keys under which the work of the caller counts. The first key is the service, or the
// user if there is no service; answers count under the first key only. No user id has a space, so the key
// of a service is never the key of a user.
func (c caller) keys() []string {
	switch {
	case c.service == "":
		return []string{c.user}
	case c.user == "":
		return []string{servicePrefix + c.service}
	}
	return []string{servicePrefix + c.service, c.user}
}

const servicePrefix = "service "

// tokenChecked is the time between two checks of the caller of a stream.
const tokenChecked = 15 * time.Second

// deletesUser marks an operation that deletes its user: a service needs a scope for it.
const deletesUser = "deletes user"

// actsAlone marks an operation of a service that acts for no user. Its value is the consequence of a token without the scope
// to delete, "" if the operation does not need this scope.
const actsAlone = "acts alone"

type callerKey struct{}

// callerOf returns the caller of a request, or the zero caller if the request needs no token.
func callerOf(ctx context.Context) caller {
	c, ok := ctx.Value(callerKey{}).(caller)
	if !ok {
		return caller{}
	}
	return c
}

// userOf returns the user whose rights the request has.
func userOf(ctx context.Context) string { return callerOf(ctx).user }

// viewerOf returns the viewer of the posts that the request reads.
func viewerOf(ctx context.Context) access.Viewer { return access.As(userOf(ctx)) }

// authenticate refuses requests without a valid token, or that the site refuses (I10), unless the operation needs
// no caller. A service may name the user to act for.
func (a *API) authenticate(ctx huma.Context, next func(huma.Context)) {
	if len(ctx.Operation().Security[0]) == 0 {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	var who caller
	var err error
	if lacking, alone := ctx.Operation().Metadata[actsAlone].(string); alone {
		who, err = a.identifyService(r, lacking)
	} else {
		who, err = a.identify(r)
	}
	if err != nil {
		a.problem(r.Context(), err).write(w)
		return
	}
	if rec, ok := w.(*recorder); ok {
		rec.who = who
	}
	if ctx.Operation().Metadata[deletesUser] == true && who.service != "" && !who.deletes {
		a.lacksScope(a.scopes.Delete, "it deletes no user for whom it acts").write(w)
		return
	}
	if wait := a.take(who); wait > 0 {
		newProblem(http.StatusTooManyRequests, typeRateLimited, "Too many requests",
			"you send more requests, or dearer ones, than the limit allows: slow down").retryAfter(wait).write(w)
		return
	}
	if who.service != "" && who.user != "" {
		// The level is at least the logger's own, so no FANFARE_LOG_LEVEL hides the line.
		a.log.Log(max(zap.InfoLevel, a.log.Level()), "acted for a user", zap.String("service", who.service), zap.String("user_id", who.user),
			zap.String("method", r.Method), zap.String("route", ctx.Operation().Path), zap.String("request_id", obs.RequestID(r.Context())), trace.ID(r.Context()))
	}
	next(huma.WithValue(ctx, callerKey{}, who))
}

// verify returns the identity of a request's caller. Its error is a *Problem, or the
// error of the verifier or of the site. A cookie comes with requests of any page, so a page of another site may change
// nothing.
func (a *API) verify(r *http.Request) (auth.Identity, error) {
	if a.site != nil {
		if err := a.sameSite.Check(r); err != nil {
			return auth.Identity{}, forbidden("this request comes from a page of another site, which may change nothing here: to allow it, name the page's origin in FANFARE_CORS_ORIGINS")
		}
		return a.site.Identify(a.outside(r))
	}
	token, p := bearer(r)
	if p != nil {
		return auth.Identity{}, p
	}
	return a.verifier.Verify(r.Context(), token)
}

// outside returns the request as the program that embeds Fanfare gets it: with the prefix, so that the program may decide by the path.
func (a *API) outside(r *http.Request) *http.Request {
	if a.prefix == "" {
		return r
	}
	whole, url := *r, *r.URL
	if url.Path = a.prefix + url.Path; url.RawPath != "" {
		url.RawPath = a.prefix + url.RawPath
	}
	whole.URL = &url
	return &whole
}

// identifyService returns the service behind a request that acts for no user. If lacking is not "", the token needs the scope
// to delete, and lacking is the consequence of a token without it.
func (a *API) identifyService(r *http.Request, lacking string) (caller, error) {
	id, err := a.verify(r)
	switch {
	case err != nil:
		return caller{}, err
	case id.Service == "":
		return caller{}, a.lacksScope(a.scopes.Act, "it is no token of a service")
	case lacking != "" && !id.Deletes:
		return caller{}, a.lacksScope(a.scopes.Delete, lacking)
	}
	return caller{service: id.Service, deletes: id.Deletes, until: id.Until}, nil
}

// identify returns the caller of a request. It returns the same errors as verify.
func (a *API) identify(r *http.Request) (caller, error) {
	id, err := a.verify(r)
	if err != nil {
		return caller{}, err
	}
	named := r.Header.Values(userHeader)
	switch {
	case len(named) == 0 && id.User == "":
		return caller{}, forbidden("the caller is a service, which stands for no user: name the user in the header " + userHeader)
	case len(named) == 0:
		return caller{user: id.User, until: id.Until}, nil
	case id.Service == "":
		return caller{}, a.lacksScope(a.scopes.Act, fmt.Sprintf("the header %s cannot name a user", userHeader))
	case len(named) > 1:
		return caller{}, invalid(FieldError{userHeader, "occurs more than once"})
	}
	if fault := auth.UserFault(named[0]); fault != "" {
		return caller{}, invalid(FieldError{userHeader, fault})
	}
	return caller{user: named[0], service: id.Service, deletes: id.Deletes, until: id.Until}, nil
}

// lacksScope returns the answer to a token without a scope. The parameter so names the consequence. Without tokens it is the
// answer to callers that are not a service.
func (a *API) lacksScope(scope, so string) *Problem {
	if a.site != nil {
		return forbidden("only a service may do this, and the site names no service for this call")
	}
	return forbidden(fmt.Sprintf("the token lacks the scope %s, so %s", scope, so)).
		header("WWW-Authenticate", fmt.Sprintf(`Bearer realm="fanfare", error="insufficient_scope", scope="%s"`, scope))
}

func forbidden(detail string) *Problem {
	return newProblem(http.StatusForbidden, typeForbidden, "Forbidden", detail)
}

// take takes a token from each of the caller's buckets. If a bucket is empty, it returns
// the time until its next token.
func (a *API) take(c caller) time.Duration {
	if c.service != "" {
		if wait := a.services.take(c.service, a.now()); wait > 0 {
			return wait
		}
	}
	if c.user == "" {
		return 0
	}
	return a.limiter.take(c.user, a.now())
}

// charge takes the tokens for the units that a request used.
func (a *API) charge(c caller, units float64) {
	if c.service != "" {
		a.services.charge(c.service, units, a.now())
	}
	if c.user != "" {
		a.limiter.charge(c.user, units, a.now())
	}
}

// tokensOfLike is the number of tokens that a like, or the end of a like, costs the user. All likes of a
// user are in one partition of the index, and the partition takes 1,000 writes a second from all
// processes together.
const tokensOfLike = 5

// chargeLike takes the tokens for a like from the user of the like, in addition to the token of the
// request. A service that acts for users pays only for the request.
func (a *API) chargeLike(c caller) {
	a.limiter.carry(c.user, (tokensOfLike-1)*unitsOfRequest, a.now())
}

// errToken is the reason for which a stream or an export ends whose token or session is no longer valid.
var errToken = errors.New("the token or the session is not valid any more")

// untilRefused waits until the caller of a stream is refused (I10): at the end of the token's lifetime,
// even if the issuer does not answer, and soon after the issuer withdrew its key or the site ended the session.
func (a *API) untilRefused(ctx context.Context, r *http.Request, who caller) error {
	for {
		wait := tokenChecked
		if !who.until.IsZero() {
			wait = min(wait, who.until.Sub(a.now()))
		}
		if wait <= 0 {
			return errToken
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := a.stillValid(r, who); err != nil {
			return err
		}
	}
}

// stillValid checks the caller of a request again. If the issuer does not answer, the
// stream continues.
func (a *API) stillValid(r *http.Request, who caller) error {
	now, err := a.identify(r)
	if _, unknown := errors.AsType[*auth.UnavailableError](err); unknown {
		return nil
	}
	if err != nil || now.user != who.user || now.service != who.service {
		return errToken
	}
	return nil
}
