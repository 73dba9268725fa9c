// Package apitest is the contract of the HTTP API as a table: a row for each call and for each error of
// the call, over HTTP. It must know only the URL and the tokens of the API under test, so that the same
// rows run against every engine.
package apitest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/backoff"
)

// Target is an API to test. Workers deliver its posts and count its likes.
type Target struct {
	// URL is the base URL of the API, without a slash at the end.
	URL string
	// Token returns a valid token of a user.
	Token func(t *testing.T, user string) string
	// Service returns a valid token of a service that acts for users. If deletes is true, the service may
	// delete its users, too.
	Service func(t *testing.T, subject string, deletes bool) string
	// LikesByUser reports whether the index of likes by user is on.
	LikesByUser bool
	// Notifications reports whether notifications are on.
	Notifications bool
	// Reactions reports whether the kinds love and wow are configured, in addition to
	// like.
	Reactions bool
	// Events reports whether events are kept.
	Events bool
	// DevTokens reports whether the API has /v1/dev/token.
	DevTokens bool
	// Lacks, if not nil, reports whether the API does not promise this status for a path. Exercise skips
	// rows with such a status.
	Lacks func(path string, status int) bool
	// Late means that the target's emulator may answer too late for a call. The call is then repeated, as clients do.
	Late bool
}

// soon is the longest wait for an effect that the contract promises "soon".
const soon = 2 * time.Minute

// row is one request and its answer.
type row struct {
	name string
	// as is the user whose token is sent; "" sends none.
	as     string
	method string
	path   string
	body   string
	header http.Header

	status int
	// problem is the type of the expected problem, and fields are the faulty fields that the problem
	// names.
	problem string
	fields  []string
	// want is a subset of the answer's members. "*" matches any value but null.
	want map[string]any
	// check makes further checks of the answer.
	check func(t *testing.T, res *response)
	// soon repeats the request until the row has the expected answer.
	soon bool
	// save is the name under which the id in the answer is kept; later rows use it as {name}.
	save string
	// keep returns another text of the answer to keep, with its name.
	keep func(body object) (name, text string)
}

// linesType is the content type of lines of JSON.
const linesType = "application/x-ndjson"

type response struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

// suite is one run. Names in braces stand for users and ids of this run.
type suite struct {
	target Target
	client *http.Client
	names  map[string]string
	tokens map[string]string
}

// Exercise runs all rows against target, and then every method of the Go client. It creates new users, so
// several runs can share a target.
func Exercise(t *testing.T, target Target) {
	t.Helper()
	s := &suite{
		target: target, names: map[string]string{}, tokens: map[string]string{},
		client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute},
	}
	t.Cleanup(s.client.CloseIdleConnections)
	run := rand.Text()[:8]
	for _, user := range []string{"ann", "ben", "cat", "new", "far", "zoe", "sam", "vic", "eve", "rex", "nia", "oli", "dot"} {
		s.names[user] = user + "-" + run
	}
	// The ids have the form in which identity providers make ids. One id is a prefix of another.
	s.names["ben"] = "auth0|" + run
	s.names["cat"] = s.names["ben"] + ".0456:cat@example"
	for user, name := range s.names {
		s.tokens[user] = target.Token(t, name)
	}
	s.tokens["service"] = target.Service(t, "service-"+run, false)
	s.tokens["deleter"] = target.Service(t, "deleter-"+run, true)
	s.names["absent"] = "nobody-" + run
	s.names["nopost"] = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	rows := slices.Concat(tokenRows(target), userRows(), silentRows(), postRows(), commentRows(), likeRows(target), reactionRows(target), viewRows(target), idRows(),
		homeRows(), muteRows(), blockRows(), ownRows(), repostRows(), returnRows(), listRows(target), bodyRows(target), protocolRows(), serviceRows(), takeDownRows(), notificationRows(target), eventRows(target), exportRows(target), lastRows(target), dataRows())
	rows = append(rows, strangerRows(rows)...)
	for _, r := range rows {
		if target.Lacks != nil && target.Lacks(r.path, r.status) {
			continue
		}
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) { s.run(t, r) })
	}
	t.Run("the Go client", func(t *testing.T) { exerciseClient(t, target) })
}

func (s *suite) run(t *testing.T, r row) {
	t.Helper()
	deadline := time.Now().Add(soon)
	for {
		res := s.send(t, r)
		var faults []string
		if faults = s.compare(r, res); len(faults) == 0 {
			if r.check != nil {
				r.check(t, res)
			}
			if etag := res.header.Get("ETag"); etag != "" {
				s.names["etag"] = etag
			}
			if r.save != "" {
				id, ok := res.body["id"].(string)
				if !ok {
					t.Fatalf("no id to keep in %s", res.raw)
				}
				s.names[r.save] = id
			}
			if r.keep != nil {
				name, text := r.keep(res.body)
				if text == "" {
					t.Fatalf("no %s to keep in %s", name, res.raw)
				}
				s.names[name] = text
			}
			return
		}
		late := s.target.Late && res.status == http.StatusServiceUnavailable
		if !r.soon && !late || time.Now().After(deadline) {
			t.Fatalf("%s %s answered %d %s\n%s", r.method, s.fill(r.path), res.status, res.raw, strings.Join(faults, "\n"))
		}
		require.NoError(t, backoff.Wait(t.Context(), 50*time.Millisecond))
	}
}

func (s *suite) send(t *testing.T, r row) *response {
	t.Helper()
	var body io.Reader = http.NoBody
	if r.body != "" {
		body = strings.NewReader(s.fill(r.body))
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, s.target.URL+s.fill(r.path), body)
	require.NoError(t, err)
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.as != "" {
		req.Header.Set("Authorization", "Bearer "+s.tokens[r.as])
	}
	for name, values := range r.header {
		req.Header.Del(name)
		for _, value := range values {
			req.Header.Add(name, s.fill(value))
		}
	}
	if r.header.Get("Transfer-Encoding") == "chunked" {
		req.Header.Del("Transfer-Encoding")
		req.ContentLength = -1
	}
	httpRes, err := s.client.Do(req)
	require.NoError(t, err)
	defer httpRes.Body.Close()
	res := &response{status: httpRes.StatusCode, header: httpRes.Header}
	res.raw, err = io.ReadAll(httpRes.Body)
	require.NoError(t, err)
	if bytes.HasPrefix(res.raw, []byte("{")) && res.header.Get("Content-Type") != linesType {
		if err := json.Unmarshal(res.raw, &res.body); err != nil {
			t.Fatalf("answer is not JSON: %v: %s", err, res.raw)
		}
	}
	return res
}

// fill replaces each {name} by its value in this run.
func (s *suite) fill(text string) string {
	for _, name := range slices.Sorted(maps.Keys(s.names)) {
		text = strings.ReplaceAll(text, "{"+name+"}", s.names[name])
	}
	return text
}

// compare returns the differences between an answer and the answer that the row expects.
func (s *suite) compare(r row, res *response) []string {
	var faults []string
	fault := func(what string) { faults = append(faults, what) }
	if res.status != r.status {
		fault("status is not " + http.StatusText(r.status))
	}
	if res.header.Get("X-Request-Id") == "" {
		fault("X-Request-Id is missing")
	}
	switch contentType := res.header.Get("Content-Type"); {
	case r.method == http.MethodHead || r.status == http.StatusNoContent || r.status == http.StatusAccepted || r.status == http.StatusNotModified:
		if len(res.raw) > 0 {
			fault("the answer has a body")
		}
	case r.status >= 400 && contentType != "application/problem+json":
		fault("content type is " + contentType)
	case strings.HasSuffix(r.path, "/export") && r.status < 300:
		if contentType != linesType {
			fault("content type is " + contentType)
		}
	case r.status < 300 && strings.HasPrefix(r.path, "/v1/") && contentType != "application/json":
		fault("content type is " + contentType)
	}
	if r.status >= 400 && r.method != http.MethodHead {
		faults = append(faults, s.compareProblem(r, res)...)
	}
	for _, key := range slices.Sorted(maps.Keys(r.want)) {
		faults = append(faults, s.match(key, r.want[key], res.body[key])...)
	}
	return faults
}

func (s *suite) compareProblem(r row, res *response) []string {
	var faults []string
	for _, member := range []string{"type", "title", "status", "detail"} {
		if res.body[member] == nil {
			faults = append(faults, "the problem has no "+member)
		}
	}
	if res.body["type"] != r.problem {
		faults = append(faults, "type is not "+r.problem)
	}
	if res.body["status"] != float64(r.status) {
		faults = append(faults, "the member status is wrong")
	}
	var fields []string
	errs, ok := res.body["errors"].([]any)
	if !ok {
		errs = nil
	}
	for _, e := range errs {
		entry, ok := e.(map[string]any)
		if !ok || entry["detail"] == "" {
			faults = append(faults, "an error has no detail")
			continue
		}
		field, ok := entry["field"].(string)
		if !ok {
			faults = append(faults, "an error has no field")
		}
		fields = append(fields, field)
	}
	slices.Sort(fields)
	want := slices.Sorted(slices.Values(r.fields))
	if !slices.Equal(fields, want) {
		faults = append(faults, "fields are "+strings.Join(fields, ", ")+", not "+strings.Join(want, ", "))
	}
	return faults
}

func (s *suite) match(at string, want, got any) []string {
	switch want := want.(type) {
	case string:
		if want == "*" && got != nil {
			return nil
		}
		if got != s.fill(want) {
			return []string{at + " is not " + s.fill(want)}
		}
	case int:
		if got != float64(want) {
			return []string{at + " is a wrong number"}
		}
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			return []string{at + " is not an object"}
		}
		var faults []string
		for _, key := range slices.Sorted(maps.Keys(want)) {
			faults = append(faults, s.match(at+"."+key, want[key], members[key])...)
		}
		return faults
	case []any:
		elements, ok := got.([]any)
		if !ok || len(elements) != len(want) {
			return []string{at + " is not a list of the right length"}
		}
		var faults []string
		for i := range want {
			faults = append(faults, s.match(at, want[i], elements[i])...)
		}
		return faults
	default:
		if got != want {
			return []string{at + " is a wrong value"}
		}
	}
	return nil
}
