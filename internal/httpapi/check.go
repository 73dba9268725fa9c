package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"fanfare/internal/strictjson"
)

// MaxBodyBytes is the size of the largest body that the API accepts.
const MaxBodyBytes = 64 * 1024

// bearer returns the token of the Authorization header. A token in any other place is ignored.
func bearer(r *http.Request) (string, *Problem) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", unauthenticated("send a token: Authorization: Bearer TOKEN").
			header("WWW-Authenticate", `Bearer realm="fanfare"`) // RFC 6750: no error code without a token
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", unauthenticated("the Authorization header must be Bearer TOKEN")
	}
	return token, nil
}

// checkRequest makes the checks that huma lacks. A parameter must be known, must not be empty, and must
// occur once unless it is a list. A body must be strict JSON.
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
	var faults []FieldError
	if p == nil {
		faults, p = checkBody(body)
	}
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
			if isList(param.Name) {
				joinLines(r.Header, param.Name)
				continue
			}
			values = r.Header.Values(param.Name)
		}
		switch {
		case len(values) > 1:
			faults = append(faults, FieldError{param.Name, "occurs more than once"})
		case len(values) == 1 && values[0] == "" && param.Name != "cursor" && param.Name != "Last-Event-ID": // empty is the start
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

// isList reports whether a header is a list. A list may be spread over several lines, or be empty.
func isList(name string) bool { return name == "If-None-Match" }

// joinLines joins the lines of a header that is a list (RFC 9110, 5.3). It removes a header whose list
// has no elements.
func joinLines(h http.Header, name string) {
	switch list := strings.Join(h.Values(name), ", "); {
	case strings.Trim(list, ", \t") == "":
		h.Del(name)
	default:
		h.Set(name, list)
	}
}

// readBody returns the body of a request that has a body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *Problem) {
	for _, contentType := range r.Header.Values("Content-Type") {
		if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "application/json" {
			return nil, wrongMediaType()
		}
	}
	var body bytes.Buffer
	if p := copyBody(&body, w, r); p != nil {
		return nil, p
	}
	return body.Bytes(), nil
}

func wrongMediaType() *Problem {
	return newProblem(http.StatusUnsupportedMediaType, typeMediaType, "Unsupported media type",
		"send the body as Content-Type: application/json")
}

// ignoreBody refuses a body that is too large, for an operation without a body. A smaller body is
// ignored.
func ignoreBody(w http.ResponseWriter, r *http.Request) *Problem {
	if r.ContentLength >= 0 && r.ContentLength <= MaxBodyBytes { // nearly always 0
		return nil
	}
	return copyBody(io.Discard, w, r)
}

// copyBody reads a body up to the limit. The request may lack a Content-Length.
func copyBody(to io.Writer, w http.ResponseWriter, r *http.Request) *Problem {
	if r.ContentLength > MaxBodyBytes {
		return tooLarge()
	}
	_, err := io.Copy(to, http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err == nil {
		// The server continues to read from the connection, to notice when the client leaves. A read
		// deadline would look like a client that leaves.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return newProblem(http.StatusRequestTimeout, typeTimeout, "Timeout", "the body did not arrive in time")
	}
	return malformed("the body could not be read")
}

func tooLarge() *Problem {
	return newProblem(http.StatusRequestEntityTooLarge, typeTooLarge, "Body too large",
		fmt.Sprintf("the largest body has %d bytes", MaxBodyBytes))
}

type faultsKey struct{}

// bodyFaults returns the faults that checkBody found in the request of ctx.
func bodyFaults(ctx context.Context) []FieldError {
	faults, ok := ctx.Value(faultsKey{}).([]FieldError)
	if !ok {
		return nil
	}
	return faults
}

// checkBody checks a body once and strictly, because huma would change some texts, and would take the
// last of two values with the same name. huma adds its own faults to the returned faults. After a Problem
// the request ends.
func checkBody(body []byte) ([]FieldError, *Problem) {
	if len(bytes.Trim(body, " \t\r\n")) == 0 {
		return nil, malformed("the body is missing: send a JSON object")
	}
	members, err := strictjson.Members(body)
	var faults []FieldError
	readable := true
	for _, m := range members {
		var decoded any
		switch kind := m.Value.Kind(); {
		case kind != '"' && json.Unmarshal(m.Value, &decoded) != nil: // a well-formed value fails by its numbers only
			faults, readable = append(faults, outOfRange(m)), false
		}
		if place, null := strictjson.Null(m.Value); null && m.Name != dataField { // huma would ignore it
			faults = append(faults, FieldError{strictjson.In(m.Name, place), "is null: leave it out instead"})
		}
	}
	if fault, ok := errors.AsType[*strictjson.Error](err); ok {
		if field, _, _ := strings.Cut(fault.Field, "."); fault.Malformed && field == dataField && json.Valid(body) && utf8.Valid(body) { // half a surrogate pair
			return nil, invalid(append(faults, FieldError{fault.Field, "has half a surrogate, which readers take in different ways"})...)
		}
		if fault.Malformed && fault.Field != "" {
			return nil, malformed("the body " + fault.Detail + ", in " + fault.Field)
		}
		if fault.Malformed {
			return nil, malformed("the body " + fault.Detail)
		}
		return nil, invalid(append(faults, FieldError{cmp.Or(fault.Field, "body"), fault.Detail})...)
	}
	if !readable {
		return nil, invalid(faults...)
	}
	return faults, nil
}

// dataField is the name of custom data in every body that may have custom data. The domain checks the
// data, because null has a meaning there.
const dataField = "data"

// outOfRange returns the fault of a member with a number that no float64 can hold.
func outOfRange(m strictjson.Member) FieldError {
	_, err := strictjson.Object(m.Value, MaxBodyBytes, MaxBodyBytes)
	if fault, ok := errors.AsType[*strictjson.Error](err); ok && fault.Field != "" {
		return FieldError{strictjson.In(m.Name, fault.Field), fault.Detail}
	}
	return FieldError{m.Name, "has a number that is out of range"}
}

// apart ends the name of a field that has another spelling than all fields of the contract.
const apart = "\x00"

// spellApart marks the names in a value of JSON that are not spelled as the fields of the contract, in lower case. Otherwise huma
// would take Text for text: its option for strict names is a global of the program.
func spellApart(value any) {
	switch v := value.(type) {
	case map[string]any:
		var others []string // a loop over a map must not add to the map
		for name, inner := range v {
			spellApart(inner)
			if strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' }) {
				others = append(others, name)
			}
		}
		for _, name := range others {
			v[name+apart] = v[name]
			delete(v, name)
		}
	case []any:
		for _, item := range v {
			spellApart(item)
		}
	}
}

// unmarshal reads a body, for huma's checks as an any, and then as the type of the call. JSON Schema, and so huma, accepts
// 60.0 and 6e1 as integers, but encoding/json rejects these texts for an int, with an error that names Go's types. So
// unmarshal first rewrites a number as encoding/json writes it: 60.
func unmarshal(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	if checked, ok := v.(*any); ok {
		spellApart(*checked)
	}
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
	return strictjson.Unmarshal(plain, v) // whose error names the place of a number that is still too large
}
