// Package httpapi is the HTTP face of a feed: the calls of the contract, their
// OpenAPI document, and what stands before them: authentication, limits, and errors
// as RFC 9457 problems.
//
// It decides nothing about feeds: it reads a request, calls the domain, and words
// the answer. It must never let a request without a valid token reach the domain
// (I10), read a body or keep a list without a bound (I9), or answer success before
// the domain did (I5). Domain errors become HTTP in one place, problem.go.
//
// A request passes ServeHTTP (request id, panics, metrics), cors, admit (bounded
// concurrency), route (404, 405), then huma's middlewares authenticate and
// checkRequest, and the operation.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/auth"
	"fanfare/internal/feed"
)

const (
	// maxConcurrent is how many requests are in work at once, unless Config says
	// otherwise.
	maxConcurrent = 1024
	// requestTimeout is when a call gives up on the table and the queue.
	requestTimeout = 15 * time.Second
	// apiVersion is that of the contract, not of the program.
	apiVersion = "1"
)

// TokenIssuer makes dev tokens.
type TokenIssuer interface {
	Issue(user string, ttl time.Duration) (token string, expiresAt time.Time, err error)
}

// Counters hear what was accepted and answered.
type Counters interface {
	Like()
	Request(route, method string, status int, took time.Duration)
}

// Config is what an API needs.
type Config struct {
	Feed     *feed.Service
	Verifier auth.Verifier
	// Tokens makes POST /v1/dev/token part of the API, if it is not nil.
	Tokens TokenIssuer
	Health *admin.Health
	// RateLimit is how many requests a second a user may make, 0 for any number.
	RateLimit int
	// Origins may call the API from a browser.
	Origins []string
	// MaxConcurrent is how many requests are in work at once; 0 is 1,024.
	MaxConcurrent int
	Counters      Counters
	Now           func() time.Time
	Log           *zap.Logger
}

// API is an http.Handler.
type API struct {
	feed     *feed.Service
	verifier auth.Verifier
	tokens   TokenIssuer
	limiter  *limiter
	origins  []string
	slots    chan struct{}
	counters Counters
	observe  func(route, method string, status int, took time.Duration)
	now      func() time.Time
	log      *zap.Logger
	mux      *http.ServeMux
	huma     huma.API
	document []byte
}

// New returns an API.
func New(cfg Config) (*API, error) {
	setHumaGlobals()
	if cfg.MaxConcurrent <= 0 {
		cfg.MaxConcurrent = maxConcurrent
	}
	a := &API{
		feed: cfg.Feed, verifier: cfg.Verifier, tokens: cfg.Tokens,
		limiter: newLimiter(cfg.RateLimit, maxBuckets),
		origins: cfg.Origins, slots: make(chan struct{}, cfg.MaxConcurrent),
		counters: cfg.Counters, observe: cfg.Counters.Request, now: cfg.Now, log: cfg.Log,
		mux: http.NewServeMux(),
	}
	a.huma = humago.New(a.mux, humaConfig())
	a.huma.UseMiddleware(a.authenticate, checkRequest)
	a.registerUsers()
	a.registerPosts()
	a.registerDelivery()
	a.registerComments()
	a.registerLikes()
	a.registerHome()
	if a.tokens != nil {
		a.registerTokens()
	}
	var err error
	if a.document, err = json.MarshalIndent(a.huma.OpenAPI(), "", "  "); err != nil {
		return nil, fmt.Errorf("openapi document: %w", err)
	}
	a.document = append(a.document, '\n')
	a.mux.HandleFunc("GET /healthz", cfg.Health.Live)
	a.mux.HandleFunc("GET /readyz", cfg.Health.Ready)
	a.registerDocs()
	return a, nil
}

// Document returns the OpenAPI document.
func (a *API) Document() []byte { return a.document }

// Handle adds a handler that belongs to the same address but not to the contract,
// such as the console. pattern is one of http.ServeMux's.
func (a *API) Handle(pattern string, h http.Handler) { a.mux.Handle(pattern, h) }

func humaConfig() huma.Config {
	cfg := huma.DefaultConfig("Fanfare", apiVersion)
	cfg.Info.Description = "A feed: posts, follows, likes and home timelines. Errors are RFC 9457 problems whose type is stable. " +
		"Lists are paged by opaque cursors: pass next_cursor back as cursor; it is absent on the last page."
	// The document and its page are our own, and answers carry no $schema links.
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", ""
	cfg.CreateHooks = nil
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshal}
	cfg.Formats = map[string]huma.Format{"application/json": format, "json": format}
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "sub is the user id."},
	}
	return cfg
}

// operation describes one call: what is common to all is here.
func operation(method, path, name, tag, summary string, status int, errs ...int) huma.Operation {
	return huma.Operation{
		OperationID: name, Method: method, Path: path, Tags: []string{tag}, Summary: summary, DefaultStatus: status,
		// huma refuses a body of exactly this size. Ours are refused before, one
		// byte above MaxBodyBytes.
		MaxBodyBytes: MaxBodyBytes + 1,
		Security:     []map[string][]string{{"bearer": {}}},
		Errors: append([]int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusUnprocessableEntity,
			http.StatusTooManyRequests, http.StatusServiceUnavailable,
		}, errs...),
	}
}

// register adds a call. call's errors are worded by problem.
func register[I, O any](a *API, op huma.Operation, call func(context.Context, *I) (*O, error)) {
	op.Errors = append(op.Errors, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge)
	if op.Method == http.MethodPost || op.Method == http.MethodPatch || op.OperationID == "put-me" {
		op.Errors = append(op.Errors, http.StatusUnsupportedMediaType)
	}
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		if faults := bodyFaults(ctx); len(faults) > 0 {
			return nil, invalid(faults...)
		}
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		out, err := call(ctx, in)
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		return out, nil
	})
}

// TokenRequest asks for a dev token.
type TokenRequest struct {
	UserID string `json:"user_id" pattern:"^[A-Za-z0-9_-]{1,64}$" doc:"Who the token speaks for." example:"alice"`
	TTL    int64  `json:"ttl_s,omitempty" minimum:"1" maximum:"2592000" default:"86400" doc:"How many seconds it is valid."`
}

// Token is a dev token.
type Token struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// registerTokens adds the call that gives a dev token to whoever asks.
func (a *API) registerTokens() {
	type tokenIn struct{ Body TokenRequest }
	type tokenOut struct{ Body Token }
	op := operation(http.MethodPost, "/v1/dev/token", "issue-dev-token", "Development",
		"Get a token for any user. Only with FANFARE_AUTH=dev", http.StatusOK)
	op.Security = nil
	op.Errors = []int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusServiceUnavailable}
	register(a, op, func(_ context.Context, in *tokenIn) (*tokenOut, error) {
		token, expires, err := a.tokens.Issue(in.Body.UserID, time.Duration(in.Body.TTL)*time.Second)
		if err != nil {
			return nil, errors.Join(errors.New("issue a dev token"), err)
		}
		return &tokenOut{Token{token, expires.UTC()}}, nil
	})
}

// Page is what every list takes.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"How many items at most."`
	Cursor string `query:"cursor" doc:"next_cursor of the page before."`
}

func (p Page) request() feed.PageRequest { return feed.PageRequest{Limit: p.Limit, Cursor: p.Cursor} }

// List is what every list answers.
type List[T any] struct {
	Items      []T    `json:"items" nullable:"false"`
	NextCursor string `json:"next_cursor,omitempty" doc:"Absent on the last page."`
}

// listOut is a List as an operation answers it.
type listOut[T any] struct{ Body List[T] }

func list[F, T any](in feed.List[F], item func(F) T) *listOut[T] {
	out := &listOut[T]{List[T]{Items: make([]T, len(in.Items)), NextCursor: in.NextCursor}}
	for i, it := range in.Items {
		out.Body.Items[i] = item(it)
	}
	return out
}

// empty answers without a body.
type empty struct{}
