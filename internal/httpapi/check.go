package httpapi

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
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// MaxBodyBytes is the largest body that is accepted.
const MaxBodyBytes = 64 * 1024

type userKey struct{}

// userOf returns the user whose token the request carries.
func userOf(ctx context.Context) string {
	user, ok := ctx.Value(userKey{}).(string)
	if !ok {
		return ""
	}
	return user
}

// authenticate lets nobody in without a valid token (I10), but for operations that
// need none.
func (a *API) authenticate(ctx huma.Context, next func(huma.Context)) {
	if len(ctx.Operation().Security) == 0 {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	token, p := bearer(r)
	if p != nil {
		p.write(w)
		return
	}
	user, err := a.verifier.Verify(r.Context(), token)
	if err != nil {
		a.problem(r.Context(), err).write(w)
		return
	}
	if wait := a.limiter.take(user, a.now()); wait > 0 {
		newProblem(http.StatusTooManyRequests, typeRateLimited, "Too many requests",
			"you make more requests than are allowed: slow down").retryAfter(wait).write(w)
		return
	}
	next(huma.WithValue(ctx, userKey{}, user))
}

// bearer returns the token of the Authorization header, the only place for it.
func bearer(r *http.Request) (string, *Problem) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", unauthenticated("send a token: Authorization: Bearer TOKEN").
			header("WWW-Authenticate", `Bearer realm="fanfare"`) // RFC 6750: no error code without a token
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", unauthenticated("the Authorization header is not Bearer TOKEN")
	}
	return token, nil
}

// checkRequest looks at what huma would pass over: query parameters that are
// unknown, empty or there twice, and the bytes of the body.
func checkRequest(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if p := checkParams(ctx.Operation(), r); p != nil {
		p.write(w)
		return
	}
	if ctx.Operation().RequestBody == nil {
		if p := ignoreBody(w, r); p != nil {
			p.write(w)
			return
		}
		next(ctx)
		return
	}
	body, p := readBody(w, r)
	if p == nil {
		p = checkJSON(body)
	}
	if p != nil {
		p.write(w)
		return
	}
	faults, p := checkFields(body)
	if p != nil {
		p.write(w)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if len(faults) > 0 {
		ctx = huma.WithValue(ctx, faultsKey{}, faults)
	}
	next(ctx)
}

func checkParams(op *huma.Operation, r *http.Request) *Problem {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return malformed("the query string is not well-formed: " + err.Error())
	}
	var faults []FieldError
	for _, param := range op.Parameters {
		var values []string
		switch param.In {
		case "query":
			values = query[param.Name]
			delete(query, param.Name)
		case "header":
			values = r.Header.Values(param.Name)
		}
		switch {
		case len(values) > 1:
			faults = append(faults, FieldError{param.Name, "occurs more than once"})
		case len(values) == 1 && values[0] == "" && param.Name != "cursor": // an empty cursor is the first page
			faults = append(faults, FieldError{param.Name, "is empty"})
		}
	}
	for _, name := range sortedKeys(query) {
		faults = append(faults, FieldError{name, "is unknown"})
	}
	if len(faults) > 0 {
		return invalid(faults...)
	}
	return nil
}

// readBody reads the body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *Problem) {
	if contentType := r.Header.Get("Content-Type"); contentType != "" {
		if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "application/json" {
			return nil, newProblem(http.StatusUnsupportedMediaType, typeMediaType, "Unsupported media type",
				"send the body as Content-Type: application/json")
		}
	}
	var body bytes.Buffer
	if p := copyBody(&body, w, r); p != nil {
		return nil, p
	}
	return body.Bytes(), nil
}

// ignoreBody refuses a body that is too large where none is wanted at all. Another one
// does no harm.
func ignoreBody(w http.ResponseWriter, r *http.Request) *Problem {
	if r.ContentLength >= 0 && r.ContentLength <= MaxBodyBytes { // nearly always 0
		return nil
	}
	return copyBody(io.Discard, w, r)
}

// copyBody reads the body up to the limit, however it is sent.
func copyBody(to io.Writer, w http.ResponseWriter, r *http.Request) *Problem {
	tooLarge := newProblem(http.StatusRequestEntityTooLarge, typeTooLarge, "Body too large",
		fmt.Sprintf("a body has at most %d bytes", MaxBodyBytes))
	if r.ContentLength > MaxBodyBytes {
		return tooLarge
	}
	_, err := io.Copy(to, http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return newProblem(http.StatusRequestTimeout, typeTimeout, "Timeout", "the body did not arrive in time")
	}
	return malformed("the body could not be read")
}

// checkJSON refuses what is not JSON in UTF-8. The standard decoder would put
// U+FFFD in the place of bad bytes and lone surrogates, silently.
func checkJSON(body []byte) *Problem {
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return malformed("the body is missing: send a JSON object")
	case !utf8.Valid(body):
		return malformed("the body is not valid UTF-8")
	case !json.Valid(body):
		return malformed("the body is not well-formed JSON")
	case loneSurrogate(body):
		return malformed(`the body has half of a surrogate pair (\ud800 to \udfff): it stands for no character`)
	}
	return nil
}

// loneSurrogate tells whether well-formed JSON has an escaped surrogate without its
// other half.
func loneSurrogate(body []byte) bool {
	high := false // the escape just before is the first half of a pair
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			if high {
				return true
			}
			continue
		}
		i++ // the escaped character: JSON is well-formed, so it is there
		if body[i] != 'u' {
			if high {
				return true
			}
			continue
		}
		unit, err := strconv.ParseUint(string(body[i+1:i+5]), 16, 16)
		if err != nil {
			return true // cannot be: four hex digits follow
		}
		i += 4
		isHigh, isLow := unit >= 0xD800 && unit < 0xDC00, unit >= 0xDC00 && unit < 0xE000
		if isLow != high {
			return true
		}
		high = isHigh
	}
	return high
}

type faultsKey struct{}

// bodyFaults returns what checkFields found in the request of ctx.
func bodyFaults(ctx context.Context) []FieldError {
	faults, ok := ctx.Value(faultsKey{}).([]FieldError)
	if !ok {
		return nil
	}
	return faults
}

// checkFields looks at the top level of a body, which is all there is: null, which
// huma takes for absent, and a name there twice, of which the decoder takes the last.
// A number that no float can hold is a Problem at once: huma could not go on.
func checkFields(body []byte) ([]FieldError, *Problem) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, invalid(FieldError{"body", "is not a JSON object"})
	}
	var faults []FieldError
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, malformed("the body is not well-formed JSON")
		}
		field, ok := name.(string)
		if !ok {
			return nil, malformed("the body is not well-formed JSON")
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, malformed("the body is not well-formed JSON")
		}
		if seen[field] {
			faults = append(faults, FieldError{field, "occurs more than once"})
		}
		seen[field] = true
		if value == nil {
			faults = append(faults, FieldError{field, "is null: leave it out instead"})
		}
		if hugeNumber(value) {
			return nil, invalid(append(faults, FieldError{field, "has a number that is out of range"})...)
		}
	}
	return faults, nil
}

// unmarshal reads a body. To JSON Schema, and so to huma, 60.0 and 6e1 are integers;
// the decoder takes none but 60 for one, and tells clients of Go's types. It gets them
// as it would write them itself.
func unmarshal(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
		return err
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	plain, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}

func hugeNumber(value any) bool {
	switch v := value.(type) {
	case json.Number:
		_, err := v.Float64()
		return err != nil
	case []any:
		for _, element := range v {
			if hugeNumber(element) {
				return true
			}
		}
	case map[string]any:
		for _, element := range v {
			if hugeNumber(element) {
				return true
			}
		}
	}
	return false
}
