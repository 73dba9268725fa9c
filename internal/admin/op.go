package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/fault"
	"fanfare/internal/rfc3339"
	"fanfare/internal/strictjson"
)

// longestPause is the longest time for which a caller of a long operation may take no part of the answer. Then the caller is gone.
const longestPause = 10 * time.Minute

// Op is an operation of an operator, and the only place that knows the operation: the handler of the admin address, the
// call of the client, the line of the trail and the command come from it.
type Op[In, Out any] struct {
	// Name is the action in the trail, and the answer to the question of the command.
	Name string
	// Route is the pattern of the handler. The body of a POST is the input, which Form shows to people.
	Route, Form string
	// Params are the inputs of the path, of the query of a GET, and of the command.
	Params func(*In) []Param
	// Has reports whether a process has the operation. The client returns Absent if the process does not have it; "" is
	// the answer of the process.
	Has    func(Domain) bool
	Absent string
	// Busy, if set, is the refusal of a second call at the same time.
	Busy string
	// Long means that the call has no time limit, and Fails is the status of a failure; 0 is 503.
	Long  bool
	Fails int
	// Check returns an error for an impossible input. It may be nil.
	Check func(In) error
	Run   func(context.Context, Domain, In) (Out, error)
	// Note returns the number of changes, and the fields of the line in the trail; without fields there is no line. An
	// operation that only reads has no Note.
	Note func(In, Out) (changed int, fields []zap.Field)
	// Command is the command of the operation. Without Use there is none.
	Command Command[In, Out]

	// stream, if not nil, answers with lines. It calls do, and returns its error if no line was written. The client reads
	// the lines with receive.
	stream  func(line func(any) error, in In, do func(In) (Out, error)) error
	receive func(lines io.Reader, in In) (Out, error)
}

// Param is an input by its name.
type Param struct {
	Name string
	// At is a *string, a *bool, an *int or a *time.Time.
	At any
	// Help describes the flag of the command. Without Help the param is an argument of the command.
	Help string
}

// None is the input of an operation without an input.
type None struct{}

// Process is a process that does operations: this one (Domain), or the one behind an admin address (Client).
type Process interface{ operated() }

func (Domain) operated() {}

func (*Client) operated() {}

// Do does the operation in a process.
func (o Op[In, Out]) Do(ctx context.Context, at Process, in In) (out Out, err error) {
	switch at := at.(type) {
	case *Client:
		return o.call(ctx, at, in)
	case Domain:
		return o.do(ctx, at, in)
	}
	return out, errors.New("no process")
}

func (o Op[In, Out]) do(ctx context.Context, d Domain, in In) (out Out, err error) {
	if err := o.check(in); err != nil {
		return out, err
	}
	out, err = o.Run(ctx, d, in)
	if o.Note != nil {
		if changed, fields := o.Note(in, out); len(fields) > 0 {
			d.Trail.Note(ctx, o.Name, changed, err, fields...)
		}
	}
	if cause, ok := errors.AsType[*fault.Error](err); ok && cause.Kind == fault.NotFound {
		err = &RefusalError{notFound, cause.Detail}
	} else if ok && cause.Kind == fault.Malformed {
		err = &RefusalError{http.StatusBadRequest, cause.Detail}
	}
	return out, err
}

func (o Op[In, Out]) check(in In) error {
	if o.Check == nil {
		return nil
	}
	return o.Check(in)
}

// RefusalError is the reason why an operation was refused or failed, in words for the operator.
type RefusalError struct {
	Status int
	Detail string
}

func (r *RefusalError) Error() string { return r.Detail }

// notFound is the status for a user or post that does not exist. It is not 404, because older versions without a route
// answer 404.
const notFound = http.StatusGone

// isRefusal reports whether the text of an answer is the whole error for the operator, because the process has the operation.
func isRefusal(status int) bool {
	return status == notFound || status == http.StatusConflict || status == http.StatusPreconditionFailed
}

func invalid(format string, args ...any) error {
	return &RefusalError{http.StatusUnprocessableEntity, fmt.Sprintf(format, args...)}
}

// handle adds the operation to mux, if the process has it. The admin address needs no token, so no page of another site
// may call an operation.
func (o Op[In, Out]) handle(mux *http.ServeMux, d Domain) {
	if o.Has != nil && !o.Has(d) {
		return
	}
	var one sync.Mutex
	do := func(ctx context.Context, in In) (out Out, err error) {
		if o.Busy != "" {
			if !one.TryLock() {
				return out, &RefusalError{http.StatusConflict, o.Busy}
			}
			defer one.Unlock()
		}
		return o.do(ctx, d, in)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.serve(w, r, do) })
	mux.Handle(o.Route, http.NewCrossOriginProtection().Handler(NotFromOtherSites(handler)))
}

func (o Op[In, Out]) serve(w http.ResponseWriter, r *http.Request, do func(context.Context, In) (Out, error)) {
	var in In
	if err := o.read(w, r, &in); err != nil {
		o.refuse(w, err)
		return
	}
	answer := http.NewResponseController(w)
	if o.Long { // otherwise the server would treat the read deadline of the request as the end of the client
		_ = errors.Join(answer.SetReadDeadline(time.Time{}), answer.SetWriteDeadline(time.Time{})) // this fails only for a server without deadlines
	}
	text := json.NewEncoder(w)
	if o.stream != nil {
		w.Header().Set("Content-Type", "application/x-ndjson")
		line := func(v any) error {
			_ = answer.SetWriteDeadline(time.Now().Add(longestPause)) // this fails only for a server without deadlines
			return errors.Join(text.Encode(v), answer.Flush())
		}
		if err := o.stream(line, in, func(in In) (Out, error) { return do(r.Context(), in) }); err != nil {
			o.refuse(w, err)
		}
		return
	}
	out, err := do(r.Context(), in)
	if err != nil {
		o.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = text.Encode(out) // a failed write means that the client is gone
}

func (o Op[In, Out]) refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if o.Fails != 0 {
		status = o.Fails
	}
	if refusal, ok := errors.AsType[*RefusalError](err); ok {
		status = refusal.Status
	}
	http.Error(w, err.Error(), status)
}

// maxBody is the maximum size of a request's body, in bytes.
const maxBody = 1 << 20

// read decodes the input of a request.
func (o Op[In, Out]) read(w http.ResponseWriter, r *http.Request, in *In) error {
	if r.Method == http.MethodPost {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			err = strictjson.UnmarshalKnown(text, in)
		}
		if err != nil {
			return &RefusalError{http.StatusBadRequest, "the body must be " + o.Form + ": " + err.Error()}
		}
	}
	query := r.URL.Query()
	for _, p := range o.params(in) {
		text := query.Get(p.Name)
		if o.inPath(p) {
			text = r.PathValue(p.Name)
		} else if r.Method == http.MethodPost {
			continue
		}
		if err := p.Set(text); err != nil {
			return invalid("%s %s", p.Name, err)
		}
	}
	return nil
}

func (o Op[In, Out]) params(in *In) []Param {
	if o.Params == nil {
		return nil
	}
	return o.Params(in)
}

func (o Op[In, Out]) inPath(p Param) bool { return strings.Contains(o.Route, "{"+p.Name+"}") }

// call does the operation in the process behind an admin address.
func (o Op[In, Out]) call(ctx context.Context, c *Client, in In) (out Out, err error) {
	req, err := o.request(ctx, c, in)
	if err != nil {
		return out, err
	}
	client := *c.client
	if o.Long {
		client.Timeout = 0
	}
	res, err := client.Do(req)
	if err != nil {
		return out, fmt.Errorf("the admin address does not answer (is fanfare up running there? see --admin): %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK && o.receive != nil {
		return o.receive(res.Body, in)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	switch detail := strings.TrimSpace(string(text)); {
	case err != nil:
		return out, err
	case isRefusal(res.StatusCode):
		return out, &RefusalError{res.StatusCode, detail}
	case res.StatusCode == http.StatusNotFound && o.Absent != "":
		return out, errors.New(o.Absent)
	case res.StatusCode != http.StatusOK:
		return out, c.refusal(res.StatusCode, detail)
	}
	return out, json.Unmarshal(text, &out)
}

// request returns the request of a client for an input.
func (o Op[In, Out]) request(ctx context.Context, c *Client, in In) (*http.Request, error) {
	method, path, _ := strings.Cut(o.Route, " ")
	query := url.Values{}
	for _, p := range o.params(&in) {
		switch text := p.text(); {
		case o.inPath(p):
			path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(text), 1)
		case method == http.MethodGet && text != "":
			query.Set(p.Name, text)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if method == http.MethodGet {
		return c.request(ctx, method, path, http.NoBody)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	return c.request(ctx, method, path, strings.NewReader(string(body)))
}

// Set reads the value from a text. The empty text is no value.
func (p Param) Set(text string) (err error) {
	if text == "" {
		return nil
	}
	switch at := p.At.(type) {
	case *string:
		*at = text
	case *int:
		if *at, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
	case *time.Time:
		*at, err = rfc3339.Parse(text)
	}
	return err
}

// text is the opposite of Set.
func (p Param) text() string {
	switch at := p.At.(type) {
	case *string:
		return *at
	case *int:
		return strconv.Itoa(*at)
	case *time.Time:
		if !at.IsZero() {
			return at.Format(time.RFC3339Nano)
		}
	}
	return ""
}
