package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"fanfare/internal/auth"
	"fanfare/internal/fault"
	"fanfare/internal/obs"
	"fanfare/internal/panics"
	"fanfare/internal/trace"
)

// The types of problems are part of the contract, because clients decide by the type. A limit of a sort of
// things has a type of its own, such as bookmark-limit.
const (
	typeMalformed        = "malformed"
	typeUnauthenticated  = "unauthenticated"
	typeForbidden        = "forbidden"
	typeNotFound         = "not-found"
	typeIndexOff         = "index-off"
	typeNotificationsOff = "notifications-off"
	typeEventsOff        = "events-off"
	typeEventsGone       = "events-gone"
	typeMethodNotAllowed = "method-not-allowed"
	typeMisdirected      = "misdirected"
	typeProfileMissing   = "profile-missing"
	typeBlocked          = "blocked"
	typeIsRepost         = "is-repost"
	typeTimeout          = "timeout"
	typeTooLarge         = "too-large"
	typeMediaType        = "unsupported-media-type"
	typeInvalid          = "invalid"
	typeRateLimited      = "rate-limited"
	typeInternal         = "internal"
	typeUnavailable      = "unavailable"
	typeStandby          = "standby"
)

// problemType is the media type of a Problem.
const problemType = "application/problem+json"

// Problem is the answer to a call that failed (RFC 9457).
type Problem struct { //nolint:errname // RFC 9457 calls it a problem
	Type      string       `json:"type" doc:"Stable name of the kind of problem, a relative URI reference." format:"uri-reference" example:"not-found"`
	Title     string       `json:"title" doc:"The kind of problem in words."`
	Status    int          `json:"status" doc:"The HTTP status."`
	Detail    string       `json:"detail,omitempty" doc:"The fault of this request, and how to mend it."`
	RequestID string       `json:"request_id,omitempty" doc:"The id of the request in the server's log."`
	Errors    []FieldError `json:"errors,omitempty" nullable:"false" doc:"The bad fields, the first 20 of them."`

	headers http.Header
}

// FieldError is the fault of one field of a request.
type FieldError struct {
	Field  string `json:"field" doc:"The name of a field of the body, a parameter or a header; body is the whole body."`
	Detail string `json:"detail" doc:"The fault."`
}

// Error implements error.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header { return p.headers }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

func newProblem(status int, kind, title, detail string) *Problem {
	return &Problem{Type: kind, Title: title, Status: status, Detail: detail}
}

func (p *Problem) header(name, value string) *Problem {
	if p.headers == nil {
		p.headers = http.Header{}
	}
	p.headers.Set(name, value)
	return p
}

func (p *Problem) retryAfter(d time.Duration) *Problem {
	seconds := max(1, int64((d+time.Second-1)/time.Second))
	return p.header("Retry-After", strconv.FormatInt(seconds, 10))
}

func malformed(detail string) *Problem {
	return newProblem(http.StatusBadRequest, typeMalformed, "Malformed request", detail)
}

func unauthenticated(detail string) *Problem {
	return newProblem(http.StatusUnauthorized, typeUnauthenticated, "Not authenticated", detail).
		header("WWW-Authenticate", `Bearer realm="fanfare", error="invalid_token"`)
}

func invalid(fields ...FieldError) *Problem {
	p := newProblem(http.StatusUnprocessableEntity, typeInvalid, "Invalid request", "some fields are invalid: see errors")
	var more int
	if p.Errors, more = distinct(fields); more > 0 {
		p.Detail = fmt.Sprintf("%d fields are invalid: see errors for the first %d", maxErrors+more, maxErrors)
	}
	return p
}

func unavailable(detail string, retry time.Duration) *Problem {
	return newProblem(http.StatusServiceUnavailable, typeUnavailable, "Unavailable", detail).retryAfter(retry)
}

// Stopped answers a request to a process that has stopped.
func Stopped(w http.ResponseWriter) {
	unavailable("Fanfare has stopped in this process: start it again", time.Second).write(w)
}

// Unpromised answers a request to a primary that must not answer without its standby.
func Unpromised(w http.ResponseWriter) {
	unavailable("this machine must not answer without the other machine of its pair: ask again", time.Second).
		header("Connection", "close").write(w)
}

// Standby answers a request to the standby of a pair. The request had no effect, so a client may repeat any request.
// The connection ends, so that a balancer chooses the machine of the next request.
func Standby(w http.ResponseWriter) {
	newProblem(http.StatusServiceUnavailable, typeStandby, "Standby", "this machine is the standby of its pair: ask the primary").
		retryAfter(time.Second).header("Connection", "close").write(w)
}

func internal() *Problem {
	return newProblem(http.StatusInternalServerError, typeInternal, "Internal error",
		"the server has a defect: report it with the request_id")
}

// maxErrors is the number of faulty fields that an answer names.
const maxErrors = 20

// distinct returns the first fault of each field, for the first maxErrors fields, and the number of
// further faulty fields.
func distinct(fields []FieldError) (named []FieldError, more int) {
	named = make([]FieldError, 0, min(len(fields), maxErrors))
	seen := make(map[string]struct{}, len(fields))
	for _, f := range fields {
		if _, again := seen[f.Field]; again {
			continue
		}
		seen[f.Field] = struct{}{}
		if len(named) < maxErrors {
			named = append(named, f)
		}
	}
	return named, len(seen) - len(named)
}

// problem turns any error into a Problem, and no other function does so. It also logs causes that a
// client must not see.
func (a *API) problem(ctx context.Context, err error) *Problem {
	p := a.toProblem(err)
	if stranger, ok := errors.AsType[*auth.StrangerError](err); ok && stranger.Err != nil {
		a.sampled.Info("the site could not identify a caller", zap.String("request_id", obs.RequestID(ctx)), trace.ID(ctx), zap.Error(stranger.Err))
	}
	if p.Status < http.StatusInternalServerError {
		return p
	}
	p.RequestID = obs.RequestID(ctx)
	log := a.log
	if p.Status == http.StatusServiceUnavailable { // outages cause many; each 500 is a defect, and is logged
		log = a.sampled
	}
	log = log.With(zap.String("request_id", p.RequestID), trace.ID(ctx), zap.Error(err))
	if caught, ok := errors.AsType[*panics.Error](err); ok {
		log = log.With(zap.String("stack", caught.Stack))
	}
	switch {
	case errors.Is(err, context.Canceled):
		log.Debug("the client is gone")
	case p.Status == http.StatusServiceUnavailable:
		log.Warn("a request was not answered in time")
	default:
		log.Error("request failed")
	}
	return p
}

func (a *API) toProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*auth.InvalidTokenError](err); ok {
		return unauthenticated(e.Error())
	}
	if e, ok := errors.AsType[*auth.StrangerError](err); ok {
		return unauthenticated(e.Reason).header("WWW-Authenticate", `Bearer realm="fanfare"`)
	}
	if _, ok := errors.AsType[*auth.UnavailableError](err); ok {
		return unavailable("the token cannot be checked now, because the issuer's keys could not be fetched: try again", time.Second)
	}
	e, ok := errors.AsType[*fault.Error](err)
	switch {
	case ok:
	case errors.Is(err, context.DeadlineExceeded): // the request's time ended while the request waited
		return busy()
	default:
		return internal()
	}
	switch e.Kind {
	case fault.NotFound:
		return newProblem(http.StatusNotFound, typeNotFound, "Not found", e.Detail)
	case fault.Forbidden:
		return newProblem(http.StatusForbidden, typeForbidden, "Forbidden", e.Detail)
	case fault.Invalid:
		fields := make([]FieldError, len(e.Fields))
		for i, f := range e.Fields {
			fields[i] = FieldError(f)
		}
		p := invalid(fields...)
		if e.Detail != "" {
			p.Detail = e.Detail
		}
		return p
	case fault.Malformed:
		return malformed(e.Detail)
	case fault.ProfileMissing:
		return newProblem(http.StatusConflict, typeProfileMissing, "Profile missing", e.Detail)
	case fault.Limit:
		return newProblem(http.StatusConflict, e.Of+"-limit", strings.ToUpper(e.Of[:1])+e.Of[1:]+" limit", e.Detail)
	case fault.Blocked:
		return newProblem(http.StatusForbidden, typeBlocked, "Blocked", e.Detail)
	case fault.IsRepost:
		return newProblem(http.StatusConflict, typeIsRepost, "The post is a repost", e.Detail)
	case fault.IndexOff:
		return newProblem(http.StatusNotFound, typeIndexOff, "Index off", e.Detail)
	case fault.NotificationsOff:
		return newProblem(http.StatusNotFound, typeNotificationsOff, "Notifications off", e.Detail)
	case fault.EventsOff:
		return newProblem(http.StatusNotFound, typeEventsOff, "Events off", e.Detail)
	case fault.EventsGone:
		return newProblem(http.StatusGone, typeEventsGone, "Events gone", e.Detail)
	case fault.TooSoon:
		return newProblem(http.StatusTooManyRequests, typeRateLimited, "Too many requests", e.Detail).retryAfter(e.RetryAfter)
	case fault.Unavailable:
		return unavailable(e.Detail, e.RetryAfter)
	}
	return internal()
}

// write sends p without huma.
func (p *Problem) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), p.headers)
	w.Header().Set("Content-Type", problemType)
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte("{}") // strings and numbers never fail, and the answer to a panic must not panic
	}
	send(w, p.Status, append(body, '\n'))
}

// problems turns huma's own errors into Problems. It is a huma.Transformer, because huma keeps the hooks for errors in
// globals, which belong to the program that embeds Fanfare. An error that a hook of the program has made names no fields.
func problems(ctx huma.Context, _ string, answer any) (any, error) {
	err, failed := answer.(huma.StatusError)
	if _, ours := answer.(*Problem); ours || !failed {
		return answer, nil
	}
	var faults []FieldError
	if model, ok := answer.(*huma.ErrorModel); ok {
		for _, d := range model.Errors {
			faults = append(faults, toField(d))
		}
	}
	faults = append(faults, bodyFaults(ctx.Context())...)
	ctx.SetHeader("Content-Type", problemType)
	p := fromHuma(err.GetStatus(), err.Error(), faults)
	if p.Status >= http.StatusInternalServerError {
		p.RequestID = obs.RequestID(ctx.Context())
	}
	return p, nil
}

// fromHuma returns the Problem for an error that huma found in a request.
func fromHuma(status int, msg string, faults []FieldError) *Problem {
	switch status {
	case http.StatusUnprocessableEntity:
		return invalid(faults...)
	case http.StatusBadRequest:
		return malformed(msg)
	case http.StatusInternalServerError:
		return internal()
	default: // check.go leaves no other status to huma
		return newProblem(status, typeMalformed, http.StatusText(status), msg)
	}
}

// toField returns a fault with the contract's name of the field. huma's location has a prefix: body.text,
// query.limit.
func toField(d *huma.ErrorDetail) FieldError {
	_, field, _ := strings.Cut(strings.TrimSuffix(d.Location, apart), ".")
	if name, ok := strings.CutPrefix(d.Message, "expected required property "); ok {
		name, _, _ = strings.Cut(name, " ")
		return FieldError{strings.TrimPrefix(field+"."+name, "."), "is missing"}
	}
	if place, detail, ok := strings.Cut(d.Message, ": "); ok && field == "" { // from unmarshal
		return FieldError{place, detail}
	}
	if field == "" {
		field = "body"
	}
	if d.Message == "unexpected property" {
		return FieldError{field, "is unknown"}
	}
	if strings.HasPrefix(d.Message, "invalid date/time") { // huma adds the format in Go's notation
		return FieldError{field, "is not an RFC 3339 time such as 2026-07-14T09:00:00Z"}
	}
	for _, rule := range schemaRules() {
		if bound, ok := strings.CutPrefix(d.Message, rule.message); ok {
			return FieldError{field, strings.Replace(rule.detail, "BOUND", bound, 1)}
		}
	}
	return FieldError{field, d.Message}
}

type schemaRule struct{ message, detail string }

// schemaRules returns the details of the faults of a schema, by the prefixes of huma's messages: the first one counts.
func schemaRules() []schemaRule {
	return []schemaRule{
		{"expected length >= 1", "must not be empty"},
		{"expected length >= ", "must have at least BOUND characters"},
		{"expected length <= ", "must have at most BOUND characters"},
		{"expected array length >= ", "must have at least BOUND items"},
		{"expected array length <= ", "must have at most BOUND items"},
		{"expected array items to be unique", "must have each item once"},
		{"expected number >= ", "must be at least BOUND"},
		{"expected number <= ", "must be at most BOUND"},
		{"expected value to be one of ", "must be one of BOUND"},
		{"expected string to be ", "must be BOUND"},
		{"expected object", "is not a JSON object"},
		{"expected array", "is not a JSON array"},
		{"expected boolean", "must be true or false"},
		{"expected integer", "must be an integer"},
		{"expected number", "must be a number"},
		{"expected string", "must be a string"},
	}
}
