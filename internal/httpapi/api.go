// Package httpapi is the HTTP face of a feed: the calls of the contract, their OpenAPI document,
// authentication, limits, and errors as RFC 9457 problems.
//
// The package decides nothing about feeds: it reads a request, calls the domain and writes the answer. It
// must never let a request without a known caller reach the domain (I10), read a body or keep a list
// without a bound (I9), or answer success before the domain has succeeded (I5). Errors become HTTP
// answers in one place, problem.go.
//
// A request passes ServeHTTP (request id, panics, metrics), Origins.Allow, route (404, 405), then huma's
// middlewares: authenticate, admit (the work of one user, the answer in memory), checkRequest (the body)
// and handle (the work of the process), and the operation. The request for a stream (stream.go) passes
// the same functions. The stream itself is sent after the request has stopped counting.
package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"fanfare/client"
	"fanfare/internal/feed/home"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/auth"
	"fanfare/internal/events"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/notices"
	"fanfare/internal/feed/removal"
	"fanfare/internal/feed/view"
	"fanfare/internal/live"
	"fanfare/internal/obs"
	"fanfare/internal/page"
)

const (
	// callTimeout bounds the time that a call waits for the table and the queue, so that the caller has
	// an answer within five seconds. A write that timed out may have had its effect. A retry has no
	// second effect, because the write is idempotent or has an Idempotency-Key.
	callTimeout = 4500 * time.Millisecond
	// apiVersion is the version of the contract, not of the program.
	apiVersion = "1.0.0"
)

// TokenIssuer makes dev tokens.
type TokenIssuer interface {
	Issue(user string, ttl time.Duration, scopes ...string) (token string, expiresAt time.Time, err error)
}

// Counters count accepted likes, answered requests and the events of streams.
type Counters interface {
	live.Counters
	Like()
	Request(route, method string, status int, took time.Duration)
}

// Config holds the parts and settings of an API.
type Config struct {
	Feed       *feed.Service
	Homes      *home.Homes
	Views      *view.Views
	Notices    *notices.Notices
	Deliveries *delivery.Deliveries
	Removals   *removal.Removals
	// Export, if not nil, adds GET /v1/me/export to the API. It writes each record of a user as one line
	// of JSON.
	Export func(ctx context.Context, user string, out io.Writer) error
	// Events, if not nil, is the log of events for services.
	Events   *events.Reader
	Verifier auth.Verifier
	// Site, if not nil, identifies callers in place of Verifier: requests have sessions of a site, and no tokens.
	Site *auth.Site
	// Tokens, if not nil, adds POST /v1/dev/token and POST /v1/dev/away to the API.
	Tokens TokenIssuer
	// OwnHost refuses requests whose Host is neither this machine nor one of Hosts.
	OwnHost bool
	// Direct refuses requests that came through a proxy.
	Direct bool
	Hosts  []string
	Health *admin.Health
	// RateLimit is the number of requests that a user may make in a second; 0 is no limit.
	RateLimit int
	// ServiceRateLimit is the limit of a service that acts for users. A request counts against the
	// limit of the service and against the limit of the user.
	ServiceRateLimit int
	// Scopes are the scopes of a service that acts for users. The answer to a token without a scope names
	// the scope.
	Scopes auth.Scopes
	// Origins lists the origins of web pages that may call the API.
	Origins []string
	// PageHeaders are the headers that pages of Origins may send in addition to the headers of the API
	// and of tracing.
	PageHeaders []string
	Limits      Limits
	Streams     Streams
	// Prefix is the path below which clients find the API (see Below), "" for the root.
	Prefix string
	// Console, if not nil, are the pages of the console.
	Console Pages
	// Operations, if not nil, answers the console's page for operators: metrics, and dead letters to
	// redrive. The page needs no token, so only this machine may reach the address.
	Operations http.Handler
	Counters   Counters
	// Tracer, if not nil, makes a span for each request, in the trace of the caller.
	Tracer oteltrace.Tracer
	Now    func() time.Time
	Log    *zap.Logger
}

// API is an http.Handler.
type API struct {
	feed       *feed.Service
	homes      *home.Homes
	views      *view.Views
	notices    *notices.Notices
	deliveries *delivery.Deliveries
	removals   *removal.Removals
	events     *events.Reader
	export     func(ctx context.Context, user string, out io.Writer) error
	exports    *exports
	verifier   auth.Verifier
	site       *auth.Site
	// sameSite refuses changes by pages of other origins, whose requests have the cookies of the site, too.
	sameSite *http.CrossOriginProtection
	tokens   TokenIssuer
	ownHost  bool
	direct   bool
	hosts    []string
	prefix   string
	limiter  *limiter
	// services limits the requests of services that act for users, and scopes are the scopes of such
	// services.
	services *limiter
	scopes   auth.Scopes
	origins  Origins
	work     *admission
	streams  *live.Hub
	counters Counters
	observe  func(route, method string, status int, took time.Duration)
	tracer   oteltrace.Tracer
	now      func() time.Time
	log      *zap.Logger
	// sampled logs lines that strangers, or an outage, can cause at any rate. It drops most repeated
	// lines.
	sampled  *zap.Logger
	mux      *http.ServeMux
	huma     huma.API
	document []byte
}

// New returns an API.
func New(cfg Config) (*API, error) {
	cfg.Streams.Process = cmp.Or(cfg.Streams.Process, maxStreams)
	if cfg.Events == nil {
		cfg.Events = events.NewReader(nil, "this server keeps no events")
	}
	cfg.Limits.ServiceStreams = cmp.Or(cfg.Limits.ServiceStreams, max(1, cfg.Streams.Process/4))
	a := &API{
		feed: cfg.Feed, homes: cfg.Homes, views: cfg.Views, notices: cfg.Notices, deliveries: cfg.Deliveries, removals: cfg.Removals, events: cfg.Events, export: cfg.Export, exports: newExports(), verifier: cfg.Verifier, site: cfg.Site, tokens: cfg.Tokens, ownHost: cfg.OwnHost, direct: cfg.Direct, hosts: cfg.Hosts, prefix: cfg.Prefix,
		limiter: newLimiter(cfg.RateLimit, maxBuckets), services: newLimiter(cfg.ServiceRateLimit, maxServices),
		scopes:  cfg.Scopes.OrDefault(),
		origins: NewOrigins(cfg.Origins, cfg.PageHeaders, cfg.Site != nil), work: newAdmission(cfg.Limits),
		counters: cfg.Counters, observe: cfg.Counters.Request, tracer: cfg.Tracer, now: cfg.Now, log: cfg.Log, sampled: obs.Sampled(cfg.Log, zap.InfoLevel),
		mux: http.NewServeMux(),
	}
	if cfg.Site != nil {
		a.sameSite = http.NewCrossOriginProtection()
		for _, origin := range cfg.Origins {
			if err := a.sameSite.AddTrustedOrigin(origin); err != nil {
				return nil, fmt.Errorf("origins of pages: %w", err)
			}
		}
	}
	cfg.Health.Watch(a.work.overloaded)
	a.streams = a.newStreams(cfg.Streams)
	a.huma = humago.New(a.mux, humaConfig(cfg.Prefix))
	a.huma.UseMiddleware(a.authenticate, a.admit, checkRequest, a.handle)
	a.registerUsers()
	a.registerFollows()
	a.registerMutes()
	a.registerOwn()
	a.registerPosts()
	a.registerReposts()
	a.registerTakeDown()
	a.registerDelivery()
	a.registerComments()
	a.registerLikes()
	a.registerNotifications()
	a.registerEvents()
	a.registerReactions()
	a.registerHome()
	a.registerFound()
	a.registerStream()
	if a.export != nil {
		a.registerExport()
	}
	if a.tokens != nil {
		a.registerTokens()
		a.registerAway()
	}
	if err := complete(a.huma.OpenAPI()); err != nil {
		return nil, err
	}
	var err error
	if a.document, err = json.MarshalIndent(a.huma.OpenAPI(), "", "  "); err != nil {
		return nil, fmt.Errorf("openapi document: %w", err)
	}
	a.document = append(a.document, '\n')
	a.mux.HandleFunc("GET /healthz", cfg.Health.Live)
	a.mux.HandleFunc("GET /servez", cfg.Health.Serving)
	a.mux.HandleFunc("GET /readyz", cfg.Health.Ready)
	if err := a.registerDocs(links{Console: cfg.Console != nil, Operations: cfg.Operations != nil, Site: cfg.Site != nil}); err != nil {
		return nil, fmt.Errorf("docs: %w", err)
	}
	a.registerConsole(cfg.Console, cfg.Operations)
	return a, nil
}

// Document returns the OpenAPI document.
func (a *API) Document() []byte { return a.document }

// route is the route of a call, with the texts of the call in the document. name is the operation id.
type route struct{ method, path, name, tag, summary string }

// operation describes one call. It adds the values that all calls have.
func operation(r route, status int, errs ...int) huma.Operation {
	return huma.Operation{
		OperationID: r.name, Method: r.method, Path: r.path, Tags: []string{r.tag}, Summary: r.summary, DefaultStatus: status,
		// huma refuses a body of exactly MaxBodyBytes + 1, but never gets one: copyBody
		// has refused every body above MaxBodyBytes.
		MaxBodyBytes: MaxBodyBytes + 1,
		// The body is in memory. A deadline for the read would end the call.
		BodyReadTimeout: -1,
		Security:        []map[string][]string{{"bearer": {}}},
		Errors: append([]int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity,
			http.StatusTooManyRequests, http.StatusServiceUnavailable,
		}, errs...),
	}
}

// register adds a call. problem turns the call's errors into answers.
func register[I, O any](a *API, op huma.Operation, call func(context.Context, *I) (*O, error)) {
	op.Errors = append(op.Errors, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge)
	if _, body := reflect.TypeFor[I]().FieldByName("Body"); body || op.Method == http.MethodPost {
		op.Errors = append(op.Errors, http.StatusUnsupportedMediaType)
	}
	a.describeErrors(&op)
	longest, _ := op.Metadata[waits].(time.Duration) // 0 for an operation that does not wait
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		if faults := bodyFaults(ctx); len(faults) > 0 {
			return nil, invalid(faults...)
		}
		ctx, cancel := context.WithTimeout(ctx, callTimeout+longest)
		defer cancel()
		out, err := call(ctx, in)
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		return out, nil
	})
}

// describeErrors describes the answers of a call that failed. huma would describe its own errors.
func (a *API) describeErrors(op *huma.Operation) {
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "")
	for _, status := range append(op.Errors, http.StatusInternalServerError) {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status), Content: map[string]*huma.MediaType{problemType: {Schema: schema}},
		}
	}
	op.Errors = nil
}

// TokenRequest is the request for a dev token.
type TokenRequest struct {
	UserID userID `json:"user_id" doc:"The user that the token stands for." example:"alice"`
	TTL    int64  `json:"ttl_s,omitempty" minimum:"1" maximum:"2592000" default:"86400" doc:"The life of the token in seconds."`
	Scope  string `json:"scope,omitempty" enum:"fanfare:act,fanfare:act fanfare:delete" doc:"Makes it a token of a service, which acts for the user in the header Fanfare-User, and with fanfare:delete deletes such a user, too."`
}

// registerTokens adds the call that issues a dev token to anybody.
func (a *API) registerTokens() {
	type tokenIn struct{ Body TokenRequest }
	type tokenOut struct{ Body client.DevToken }
	op := operation(route{http.MethodPost, "/v1/dev/token", "issue-dev-token", "Development",
		"Get a token for any user (only with FANFARE_AUTH=dev)"}, http.StatusOK)
	op.Security = []map[string][]string{{}} // no scheme is required
	op.Middlewares = huma.Middlewares{requireJSON}
	op.Errors = []int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusServiceUnavailable}
	register(a, op, func(_ context.Context, in *tokenIn) (*tokenOut, error) {
		token, expires, err := a.tokens.Issue(string(in.Body.UserID), time.Duration(in.Body.TTL)*time.Second, strings.Fields(in.Body.Scope)...)
		if err != nil {
			return nil, errors.Join(errors.New("issue a dev token"), err)
		}
		return &tokenOut{client.DevToken{Token: token, ExpiresAt: expires.UTC()}}, nil
	})
}

// registerAway adds the call that shows a developer the home of a user who was absent for days.
func (a *API) registerAway() {
	op := operation(route{http.MethodPost, "/v1/dev/away", "be-away", "Development",
		"Become a reader that was last seen longer ago than FANFARE_ACTIVE_DAYS, until you read your home (only with FANFARE_AUTH=dev)"},
		http.StatusNoContent, http.StatusNotFound, http.StatusConflict)
	register(a, op, func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		return nil, a.homes.PutAway(ctx, userOf(ctx))
	})
}

// requireJSON refuses a body without a media type, because a page of another site may send such a body. A
// page of another site may send a body with a media type only if the API allows the origin of the page.
func requireJSON(ctx huma.Context, next func(huma.Context)) {
	if r, w := humago.Unwrap(ctx); r.Header.Get("Content-Type") == "" {
		wrongMediaType().write(w)
		return
	}
	next(ctx)
}

// Page holds the parameters of every list.
type Page struct {
	Limit  pageLimit `query:"limit" doc:"The most items to return. A page has fewer where one more would exceed 256 KiB of JSON."`
	Cursor string    `query:"cursor" doc:"The next_cursor of the previous page."`
}

func (p Page) request() page.Request { return page.Request{Limit: int(p.Limit), Cursor: p.Cursor} }

// pageLimit is the Limit of a page.Request. A struct tag could not use the constants of the limit.
type pageLimit int

// Schema implements huma.SchemaProvider.
func (pageLimit) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(1.0), Maximum: new(float64(page.MaxLimit)), Default: page.DefaultLimit}
}

// List is a page of any list.
type List[T any] struct {
	Items      []T    `json:"items" nullable:"false"`
	NextCursor string `json:"next_cursor,omitempty" doc:"Absent on the last page."`
}

// listOut is the answer of an operation that returns a List.
type listOut[T any] struct{ Body List[T] }

// converted applies a function to the result of a domain call, and returns the call's error
// unchanged.
func converted[F, O any](to func(F) *O) func(F, error) (*O, error) {
	return func(value F, err error) (*O, error) {
		if err != nil {
			return nil, err
		}
		return to(value), nil
	}
}

// listed converts the list that a domain call returns: it applies item to each item.
func listed[F, T any](item func(F) T) func(page.List[F], error) (*listOut[T], error) {
	return converted(func(in page.List[F]) *listOut[T] { return &listOut[T]{toList(item, in)} })
}

func toList[F, T any](item func(F) T, in page.List[F]) List[T] {
	out := List[T]{Items: make([]T, len(in.Items)), NextCursor: in.NextCursor}
	for i, it := range in.Items {
		out.Items[i] = item(it)
	}
	return out
}

// empty is an answer without a body.
type empty struct{}
