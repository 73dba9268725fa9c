package clienttest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"fanfare/client"
	"fanfare/internal/oracle"
)

func write(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	kind := "application/json"
	if status >= 400 {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler) // the caller has left; net/http ends the request
	}
}

// kinds returns the contract's types of problem (docs/openapi.json) by status.
func kinds() map[int]string {
	return map[int]string{
		http.StatusBadRequest: "malformed", http.StatusUnauthorized: "unauthenticated", http.StatusForbidden: "forbidden",
		http.StatusNotFound: "not-found", http.StatusConflict: "profile-missing", http.StatusUnprocessableEntity: "invalid",
	}
}

func problem(status int, fields ...string) client.Problem {
	p := client.Problem{Type: kinds()[status], Title: http.StatusText(status), Status: status, Detail: "clienttest refuses the request"}
	for _, field := range fields {
		p.Errors = append(p.Errors, client.FieldError{Field: field, Detail: "is not valid"})
	}
	return p
}

func fail(status int, fields ...string) (int, any) { return status, problem(status, fields...) }

// answer returns an answer without a body, or the problem of a refusal.
func answer(refusal oracle.Refusal, status int) (int, any) {
	switch refusal {
	case oracle.Invalid:
		return fail(http.StatusUnprocessableEntity, "id")
	case oracle.NotFound:
		return fail(http.StatusNotFound)
	case oracle.Forbidden:
		return fail(http.StatusForbidden)
	case oracle.Blocked:
		p := problem(http.StatusForbidden)
		p.Type = "blocked"
		return http.StatusForbidden, p
	case oracle.IsRepost:
		p := problem(http.StatusConflict)
		p.Type = "is-repost"
		return http.StatusConflict, p
	}
	return status, nil
}

type listed[T any] struct {
	Items  []T    `json:"items"`
	Next   string `json:"next_cursor,omitempty"`
	Unread *int   `json:"unread,omitempty"`
}

// page cuts one page of items that are sorted by key in the list's order.
func page[T any](r *http.Request, items []T, key func(T) string) (int, any) {
	limit := 20
	if given := r.URL.Query().Get("limit"); given != "" {
		var err error
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 || limit > 100 {
			return fail(http.StatusUnprocessableEntity, "limit")
		}
	}
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		at := slices.IndexFunc(items, func(item T) bool { return key(item) == cursor })
		if at < 0 {
			return fail(http.StatusBadRequest, "cursor")
		}
		items = items[at+1:]
	}
	out := listed[T]{Items: items[:min(limit, len(items))]}
	if len(items) > limit {
		out.Next = key(items[limit-1])
	}
	if out.Items == nil {
		out.Items = []T{}
	}
	return http.StatusOK, out
}

func decode(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// unknownField returns the name of the field that made decode fail, if the contract lacks this field.
func unknownField(err error) (name string, unknown bool) {
	if err == nil {
		return "", false
	}
	rest, unknown := strings.CutPrefix(err.Error(), `json: unknown field "`)
	return strings.TrimSuffix(rest, `"`), unknown
}

// changed returns the stored custom data after a call. If the call gives no data, the stored data does
// not change, and null removes it.
func changed(data, given json.RawMessage) json.RawMessage {
	var compact bytes.Buffer
	switch {
	case given == nil || json.Compact(&compact, given) != nil:
		return data
	case compact.String() == "null":
		return nil
	}
	return compact.Bytes()
}

func badText(text string, least, most int) bool {
	n := utf8.RuneCountInString(text)
	return n < least || n > most
}
