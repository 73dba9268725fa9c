package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/removal"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/auth"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/notices"
	"fanfare/internal/feed/view"
	"fanfare/internal/httpapi"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/obs"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

var update = flag.Bool("update", false, "write the golden files anew")

// published is a publisher that keeps its messages, or fails.
type published struct {
	mu       sync.Mutex
	messages []*message.Message
	err      error
	// hung publishers keep their messages, but return only when the caller has given up.
	hung bool
}

func (p *published) Publish(_ string, msgs ...*message.Message) error {
	p.mu.Lock()
	err, hung := p.err, p.hung
	if err == nil {
		p.messages = append(p.messages, msgs...)
	}
	p.mu.Unlock()
	if hung {
		<-msgs[0].Context().Done()
		return msgs[0].Context().Err()
	}
	return err
}

func (p *published) Close() error { return nil }

// counted keeps the counted requests, and counts streams.
type counted struct {
	mu       sync.Mutex
	requests []string
	streams  int
	polls    int
	ended    map[string]int
}

func (c *counted) Like()                    {}
func (c *counted) StreamEvents(string, int) {}
func (c *counted) StreamTail(time.Duration) {}
func (c *counted) StreamsUnlisted(int)      {}

func (c *counted) Streams(change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams += change
}

func (c *counted) StreamPoll(error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls++
}

func (c *counted) StreamEnded(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[reason]++
}

func (c *counted) open() int  { return counter(c, func() int { return c.streams }) }
func (c *counted) looks() int { return counter(c, func() int { return c.polls }) }
func (c *counted) endedBy(reason string) int {
	return counter(c, func() int { return c.ended[reason] })
}

func counter(c *counted, read func() int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return read()
}

func (c *counted) Request(route, method string, _ int, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, method+" "+route)
}

// faulty is a table whose reads a test can replace.
type faulty struct {
	table.Store
	get func(context.Context) error
}

func (f *faulty) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if err := f.get(ctx); err != nil {
		return table.GetResult{}, err
	}
	return f.Store.Get(ctx, in)
}

type world struct {
	cfg       httpapi.Config
	store     *faulty
	published *published
	counted   *counted
	dev       *auth.Dev
	api       *httpapi.API
}

// poll is the time between two looks at a live home.
const poll = time.Second

func newWorld(tb testing.TB, change ...func(*httpapi.Config)) *world {
	tb.Helper()
	dev, err := auth.NewDev([]byte(strings.Repeat("s", 32)), time.Now)
	require.NoError(tb, err)
	w := &world{
		store: &faulty{tabletest.NewMemory(), func(context.Context) error { return nil }}, published: &published{}, counted: &counted{ended: map[string]int{}}, dev: dev,
	}
	w.cfg = httpapi.Config{
		Verifier: dev, Tokens: dev, Health: admin.NewHealth(),
		Streams:  httpapi.Streams{SlowLook: poll, Likes: 2 * poll, Alone: true},
		Export:   func(context.Context, string, io.Writer) error { return nil },
		Counters: w.counted, Now: time.Now, Log: zap.NewNop(),
	}
	serve(&w.cfg, access.Config{
		Store: w.store, Publisher: w.published, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour), RequestID: obs.RequestID, Log: zap.NewNop(),
	}, feed.Config{LikesByUser: true})
	for _, c := range change {
		c(&w.cfg)
	}
	w.api, err = httpapi.New(w.cfg)
	require.NoError(tb, err)
	return w
}

// serve configures an API on a domain with these settings.
func serve(c *httpapi.Config, way access.Config, settings feed.Config) {
	settings.Access = access.New(way)
	c.Feed = feed.New(settings)
	c.Homes = home.New(home.Config{Access: settings.Access, Items: c.Feed, Mutes: c.Feed})
	c.Views = view.New(settings.Access, c.Feed)
	c.Notices = notices.New(settings.Access, c.Feed, false, nil)
	c.Deliveries = delivery.New(settings.Access)
	c.Removals = removal.New(settings.Access, c.Feed)
}

func (w *world) token(t *testing.T, user string) string {
	t.Helper()
	token, _, err := w.dev.Issue(user, time.Hour)
	require.NoError(t, err)
	return token
}

// call sends one request as a user ("" for none).
func (w *world) call(t *testing.T, user, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if user != "" {
		req.Header.Set("Authorization", "Bearer "+w.token(t, user))
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res := httptest.NewRecorder()
	w.api.ServeHTTP(res, req)
	return res
}

func problem(t *testing.T, res *httptest.ResponseRecorder, status int, kind string) httpapi.Problem {
	t.Helper()
	var p httpapi.Problem
	if err := json.Unmarshal(res.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %s: %v", res.Code, res.Body, err)
	}
	if res.Code != status || p.Status != status || p.Type != kind || res.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("answer is %d %s, not %d %s", res.Code, res.Body, status, kind)
	}
	return p
}

func (w *world) profile(t *testing.T, user string) {
	t.Helper()
	res := w.call(t, user, "PUT", "/v1/me", `{"name":"n"}`)
	require.Equalf(t, 200, res.Code, "profile: %d %s", res.Code, res.Body)
}

func TestDocumentIsTheCommittedOne(t *testing.T) {
	golden := filepath.Join("..", "..", "docs", "openapi.json")
	w := newWorld(t)
	if *update {
		require.NoError(t, os.WriteFile(golden, w.api.Document(), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, w.api.Document()),
		"docs/openapi.json differs from the code: review the change and run go test ./internal/httpapi -update")
	res := w.call(t, "", "GET", "/openapi.json", "")
	assert.True(t, bytes.Equal(res.Body.Bytes(), want), "/openapi.json is another document")
}

// The name of a field has one spelling, also where huma and encoding/json would take another one.
func TestTheNameOfAFieldHasOneSpelling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.profile(t, "ann")
	res := w.call(t, "ann", "PUT", "/v1/me", `{"Name":"Ann"}`)
	assert.ElementsMatch(t, []httpapi.FieldError{{Field: "Name", Detail: "is unknown"}, {Field: "name", Detail: "is missing"}}, problem(t, res, http.StatusUnprocessableEntity, "invalid").Errors)
	res = w.call(t, "ann", "POST", "/v1/posts", `{"text":"Hello","images":[{"url":"https://cdn.example/a.png","Alt":"A"}]}`)
	assert.Equal(t, []httpapi.FieldError{{Field: "images[0].Alt", Detail: "is unknown"}}, problem(t, res, http.StatusUnprocessableEntity, "invalid").Errors)
	assert.Equal(t, http.StatusCreated, w.call(t, "ann", "POST", "/v1/posts", `{"text":"Hello","data":{"Any":{"Name":1}}}`).Code)
}

// People read the details: a detail names the rule of the value in plain words, and not in the words of the schema's library.
func TestAFaultOfAValueSaysWhatTheValueMustBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.profile(t, "ann")
	for _, c := range []struct{ method, path, body, field, detail string }{
		{"POST", "/v1/posts/01JZ0000000000000000000000/comments", `{"text":""}`, "text", "must not be empty"},
		{"PUT", "/v1/me", `{"name":"` + strings.Repeat("n", 101) + `"}`, "name", "must have at most 100 characters"},
		{"POST", "/v1/posts", `{"text":3}`, "text", "must be a string"},
		{"POST", "/v1/posts", `{"text":"Hello","images":{}}`, "images", "is not a JSON array"},
		{"POST", "/v1/posts", `{"text":"Hello","mentions":[` + strings.Repeat(`"bob",`, 50) + `"bob"]}`, "mentions", "must have at most 50 items"},
		{"POST", "/v1/posts", `{"text":"Hello","data":3}`, "data", "is not a JSON object"},
		{"GET", "/v1/home?limit=101", "", "limit", "must be at most 100"},
		{"GET", "/v1/home?limit=0", "", "limit", "must be at least 1"},
		{"GET", "/v1/home?source=pill", "", "source", `must be one of "push, pull"`},
	} {
		found := problem(t, w.call(t, "ann", c.method, c.path, c.body), http.StatusUnprocessableEntity, "invalid").Errors
		assert.Equalf(t, []httpapi.FieldError{{Field: c.field, Detail: c.detail}}, found, "%s %s", c.method, c.path)
	}
}

func TestDocumentNamesEveryCall(t *testing.T) {
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Security    []map[string][]string
			Parameters  []struct{ Name, In string }
			Responses   map[string]struct{ Content map[string]json.RawMessage }
		}
	}
	require.NoError(t, json.Unmarshal(newWorld(t).api.Document(), &doc))
	assert.Truef(t, strings.HasPrefix(doc.OpenAPI, "3.1"), "version is %s", doc.OpenAPI)
	calls := 0
	for path, operations := range doc.Paths {
		for method, op := range operations {
			calls++
			require.Lenf(t, op.Security, 1, "%s %s", method, path)
			assert.Equalf(t, path == "/v1/dev/token", len(op.Security[0]) == 0, "%s %s: security is %v", method, path, op.Security)
			for _, name := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
				if !slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.Name == name[1] && p.In == "path" }) {
					t.Errorf("%s %s: {%s} is not documented", method, path, name[1])
				}
			}
			for status, response := range op.Responses {
				if status >= "400" {
					assert.Containsf(t, response.Content, "application/problem+json", "%s %s: %s is no problem", method, path, status)
				}
			}
		}
	}
	assert.Equal(t, 60, calls, "calls: a new one needs rows in apitest and a number here")
}

func TestDocsPageNeedsNoOtherHost(t *testing.T) {
	w := newWorld(t)
	for path, kind := range map[string]string{"/docs": "text/html", "/docs/page.css": "text/css", "/docs/page.js": "text/javascript", "/docs/samples.js": "text/javascript", "/docs/theme.js": "text/javascript"} {
		res := w.call(t, "", "GET", path, "")
		if res.Code != 200 || !strings.HasPrefix(res.Header().Get("Content-Type"), kind) {
			t.Fatalf("%s: answer is %d %s", path, res.Code, res.Header())
		}
		assert.Emptyf(t, regexp.MustCompile(`(src|href)="(https?:)?//|@import|\burl\(`).FindString(res.Body.String()), "%s loads", path)
		csp := res.Header().Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "http") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy is %q", path, csp)
		}
	}
}

// Each sample in the document compiles against package client.
func TestSamplesCompile(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct {
			Samples []struct{ Lang, Source string } `json:"x-codeSamples"`
		}
	}
	require.NoError(t, json.Unmarshal(newWorld(t).api.Document(), &doc))
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m").Output()
	require.NoError(t, err)
	var program strings.Builder
	// The compiler reads a package that is no program: nothing is linked.
	fmt.Fprintf(&program, "package samples\n\nimport (\n\"context\"\n\"fmt\"\n\"os\"\n\"time\"\n\n%q\n)\n\n"+
		"func Use() { fmt.Fprintln(os.Stdout, time.Hour) }\n\n", strings.TrimSpace(string(module))+"/client")
	n := 0
	for _, operations := range doc.Paths {
		for method, op := range operations {
			require.Len(t, op.Samples, 1, method)
			n++
			fmt.Fprintf(&program, "func f%d(ctx context.Context, c *client.Client) error {\n%s", n, op.Samples[0].Source)
			names, _, declares := strings.Cut(op.Samples[0].Source, " :=")
			if !declares || strings.HasPrefix(names, "for ") {
				names = "nil"
			} else if value, isPair := strings.CutSuffix(names, ", err"); isPair {
				program.WriteString("fmt.Println(" + value + ")\n")
				names = "err"
			}
			program.WriteString("return " + names + "\n}\n\n")
		}
	}
	file := filepath.Join(t.TempDir(), "samples.go")
	require.NoError(t, os.WriteFile(file, []byte(program.String()), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// An answer names a bounded number of faults, however many faults the request has.
func TestAnAnswerNamesTheFirstTwentyFaults(t *testing.T) {
	w := newWorld(t)
	const faults = 6000
	var body, query strings.Builder
	for i := range faults {
		fmt.Fprintf(&body, `"x%d":1,`, i)
		fmt.Fprintf(&query, "&y%d", i)
	}
	for name, res := range map[string]*httptest.ResponseRecorder{
		"fields":     w.call(t, "ann", "POST", "/v1/posts", "{"+body.String()+`"text":"t"}`),
		"parameters": w.call(t, "ann", "GET", "/v1/home?"+query.String()[1:], ""),
	} {
		p := problem(t, res, 422, "invalid")
		if len(p.Errors) != 20 || !strings.Contains(p.Detail, "6000 fields are invalid") {
			t.Errorf("%s: %d errors, %q", name, len(p.Errors), p.Detail)
		}
	}
	p := problem(t, w.call(t, "ann", "POST", "/v1/posts", `{"text":null,"x":1,"y":null}`), 422, "invalid")
	assert.Len(t, p.Errors, 3)
	assert.Equal(t, "some fields are invalid: see errors", p.Detail)
}

func TestPanicIsA500WithItsRequestID(t *testing.T) {
	w := newWorld(t)
	w.store.get = func(context.Context) error { panic("boom") }
	res := w.call(t, "ann", "GET", "/v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", "X-Request-Id", "req-7")
	p := problem(t, res, 500, "internal")
	if p.RequestID != "req-7" || res.Header().Get("X-Request-Id") != "req-7" || strings.Contains(res.Body.String(), "boom") {
		t.Errorf("answer is %s %s", res.Header(), res.Body)
	}
}

// The id in a path goes into events. If the id were not copied, it would keep the whole request line in
// memory (I9).
func TestThePathOfARequestKeepsNothingElseOfItsLine(t *testing.T) {
	w := newWorld(t)
	r := httptest.NewRequest(http.MethodPut, "/v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV/like?"+strings.Repeat("&", 30_000), nil)
	path, inLine := r.URL.Path, unsafe.StringData(r.URL.Path)
	w.api.ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, path, r.URL.Path)
	assert.NotSame(t, inLine, unsafe.StringData(r.URL.Path))
}

// torn is a ResponseWriter that panics after half of an answer.
type torn struct{ http.ResponseWriter }

func (w torn) Write(b []byte) (int, error) {
	_, err := w.ResponseWriter.Write(b[:len(b)/2])
	panic(errors.Join(errors.New("boom"), err))
}

func TestPanicAfterHalfAnAnswerCutsTheConnection(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.api.ServeHTTP(torn{rw}, r) }))
	defer server.Close()
	res, err := server.Client().Get(server.URL + "/openapi.json")
	if err != nil {
		return // the connection was cut before the client received the headers
	}
	defer res.Body.Close()
	_, err = io.ReadAll(res.Body)
	assert.Error(t, err, "the answer looks whole")
}

func TestDefectIsA500ThatSaysNothing(t *testing.T) {
	w := newWorld(t)
	w.store.get = func(context.Context) error { return &table.InvalidError{Problem: "secret"} }
	res := w.call(t, "ann", "GET", "/v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV", "")
	if p := problem(t, res, 500, "internal"); p.RequestID == "" || strings.Contains(res.Body.String(), "secret") {
		t.Errorf("answer is %s", res.Body)
	}
}

func TestTableThatDoesNotAnswerIsA503(t *testing.T) {
	w := newWorld(t)
	w.store.get = func(context.Context) error { return &table.UnavailableError{Op: "get", Err: errors.New("away")} }
	for _, path := range []string{"/v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV", "/v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV/delivery"} {
		res := w.call(t, "ann", "GET", path, "")
		problem(t, res, 503, "unavailable")
		assert.Equal(t, "1", res.Header().Get("Retry-After"))
	}
}

// The answer shows an operator which maximum is used up, and clients retry as for any lack of capacity.
func TestAUsedUpMaximumIsA503ThatNamesIt(t *testing.T) {
	for reason, detail := range map[table.Shortage]string{
		table.ShortMaxOnDemand: "the capacity that this network allows itself is used up",
		table.ShortProvisioned: "the table did not answer in time: try again", table.ShortKeyRange: "the table did not answer in time: try again",
		table.ShortAccount: "the table did not answer in time: try again", table.ShortUnknown: "the table did not answer in time: try again",
	} {
		w := newWorld(t)
		w.profile(t, "ann")
		w.store.get = func(context.Context) error {
			return &table.UnavailableError{Op: "get", Err: errors.New("short"), Reason: reason, Index: true}
		}
		res := w.call(t, "ann", "GET", "/v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV", "")
		assert.Equal(t, detail, problem(t, res, 503, "unavailable").Detail, reason)
		assert.Equal(t, "1", res.Header().Get("Retry-After"))
	}
}

func TestQueueThatDoesNotAnswerIsA503AndNothingIsWritten(t *testing.T) {
	w := newWorld(t)
	w.profile(t, "ann")
	w.published.err = errors.New("away")
	res := w.call(t, "ann", "POST", "/v1/posts", `{"text":"t"}`)
	problem(t, res, 503, "unavailable")
	assert.NotEmpty(t, res.Header().Get("Retry-After"), "no Retry-After")
	assert.Contains(t, w.call(t, "ann", "GET", "/v1/users/ann/posts", "").Body.String(), `"items":[]`)
}

// unchecked is a verifier that cannot check any token.
type unchecked struct{}

func (unchecked) Verify(context.Context, string) (auth.Identity, error) {
	return auth.Identity{}, &auth.UnavailableError{Err: errors.New("away")}
}

func TestTokenThatCannotBeCheckedIsA503(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Verifier = unchecked{} })
	problem(t, w.call(t, "ann", "GET", "/v1/me", ""), 503, "unavailable")
}

func TestRequestIDTravelsWithTheEvent(t *testing.T) {
	w := newWorld(t)
	w.profile(t, "ann")
	res := w.call(t, "ann", "POST", "/v1/posts", `{"text":"t"}`, "X-Request-Id", "req-9")
	require.Equalf(t, 201, res.Code, "answer is %d %s", res.Code, res.Body)
	event, err := messages.Decode(w.published.messages[0].Payload)
	if err != nil || event.Head().RequestID != "req-9" {
		t.Errorf("event is %+v, %v", event, err)
	}
}

func TestTooFastIsA429UntilTheBucketFills(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	w := newWorld(t, func(c *httpapi.Config) {
		c.RateLimit = 2
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	w.profile(t, "ann")
	for i := range 19 { // the profile took the first of 20 tokens
		require.Equalf(t, 200, w.call(t, "ann", "GET", "/v1/me", "").Code, "request %d", i)
	}
	res := w.call(t, "ann", "GET", "/v1/me", "")
	problem(t, res, 429, "rate-limited")
	assert.Equal(t, "1", res.Header().Get("Retry-After"))
	problem(t, w.call(t, "ben", "GET", "/v1/me", ""), 409, "profile-missing") // another user has other tokens
	mu.Lock()
	now = now.Add(time.Second)
	mu.Unlock()
	assert.Equal(t, 200, w.call(t, "ann", "GET", "/v1/me", "").Code, "after a second")
}

// A request counts as one more request for each 20 units of the table that it uses.
func TestADearRequestCountsMoreThanOnce(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	w := newWorld(t, func(c *httpapi.Config) {
		c.RateLimit = 10
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	w.profile(t, "ann") // takes the first of 100 tokens
	for range 101 {
		_, err := w.cfg.Feed.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: strings.Repeat("😀", 5000)}})
		require.NoError(t, err)
	}
	const units = 496 // 101 posts of 20,064 bytes: one unit for each 4,096 bytes
	answered := func(want int, path string) {
		t.Helper()
		for n := 0; ; n++ {
			res := w.call(t, "ann", "GET", path, "")
			if res.Code == http.StatusOK {
				continue
			}
			problem(t, res, 429, "rate-limited")
			assert.Equalf(t, want, n, "requests for %s were answered", path)
			return
		}
	}
	require.Equal(t, http.StatusOK, w.call(t, "ann", "GET", "/v1/users/ann/posts?limit=100", "").Code)
	answered(99-1-units/20, "/v1/me")
	mu.Lock()
	now = now.Add(8 * time.Second)
	mu.Unlock()
	answered(4, "/v1/users/ann/posts?limit=100") // 80 tokens are left, and the last request owes 20 tokens
	res := w.call(t, "ann", "GET", "/v1/me", "")
	problem(t, res, 429, "rate-limited")
	assert.Equal(t, "3", res.Header().Get("Retry-After"))
}

// A user also pays for the work that follows from a request.
func TestARequestIsChargedWhatItCauses(t *testing.T) {
	const rate = 50 // a burst of 500 tokens
	store := tabletest.NewMemory()
	w := newWorld(t, func(c *httpapi.Config) {
		c.RateLimit = rate
		now := time.Now()
		c.Now = func() time.Time { return now }
		serve(c, access.Config{
			Store: store, Publisher: &published{}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour),
		}, feed.Config{Notices: func(context.Context, ...messages.Event) error { return nil }})
	})
	followers := func(user string, n int64) {
		t.Helper()
		_, err := store.Update(t.Context(), *access.AddTo(schema.FollowerCountKey(user, "crowd"), schema.AttrN, n))
		require.NoError(t, err)
	}
	users := 0
	for _, c := range []struct {
		name string
		call []string // method, path, body, headers
		want int      // tokens
	}{
		{"a post to nobody", []string{"POST", "/v1/posts", `{"text":"x"}`}, 1},
		{"a post to 4,000 followers", []string{"POST", "/v1/posts", `{"text":"x"}`}, 1 + (17+4000+4000/32)/20},
		{"a post to more followers than a burst", []string{"POST", "/v1/posts", `{"text":"x"}`}, 1 + 500},
		{"a post with 25 mentions", []string{"POST", "/v1/posts", `{"text":"x","mentions":[` + mentions(25) + `]}`}, 1 + (17+25*8)/20},
		{"a comment with mentions, of which ten notify", []string{"POST", "/v1/posts/POST/comments", `{"text":"x","mentions":[` + mentions(25) + `]}`}, 1 + (9+3+11*8)/20},
		{"a like", []string{"PUT", "/v1/posts/POST/like", ""}, 5},
		{"a reaction", []string{"PUT", "/v1/posts/POST/reactions/like", ""}, 5},
		{"the end of a reaction", []string{"DELETE", "/v1/posts/POST/reactions/like", ""}, 5},
		{"a follow of an author with 100 posts", []string{"PUT", "/v1/me/following/author", ""}, 1 + (18+4+4+3*100)/20},
		{"a rename of a user with 100 posts", []string{"PUT", "/v1/me", `{"name":"New"}`}, 1 + (2+100+16)/20},
	} {
		users++
		user := fmt.Sprintf("user%d", users)
		w.profile(t, user) // takes one token
		switch {
		case strings.Contains(c.name, "4,000"):
			followers(user, 4000)
		case strings.Contains(c.name, "burst"):
			followers(user, 1_000_000)
		case strings.Contains(c.name, "author"):
			w.profile(t, "author")
			w.make(t, "author", 100)
		case strings.Contains(c.name, "rename"):
			w.make(t, user, 100)
		}
		path := c.call[1]
		if strings.Contains(path, "POST") {
			w.profile(t, "liked")
			path = strings.Replace(path, "POST", w.make(t, "liked", 1)[0], 1)
		}
		res := w.call(t, user, c.call[0], path, c.call[2])
		require.Lessf(t, res.Code, 300, "%s: %s", c.name, res.Body)
		left := 0
		for w.call(t, user, "GET", "/v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV", "").Code == http.StatusNotFound {
			left++
		}
		assert.Equal(t, max(0, 10*rate-1-c.want), left, c.name)
	}
}

// mentions returns n users as JSON.
func mentions(n int) string {
	users := make([]string, n)
	for i := range users {
		users[i] = fmt.Sprintf(`"m%d"`, i)
	}
	return strings.Join(users, ",")
}

// make makes posts in the domain, without the API.
func (w *world) make(t *testing.T, author string, n int) (posts []string) {
	t.Helper()
	for range n {
		p, err := w.cfg.Feed.CreatePost(t.Context(), author, feed.PostInput{Content: feed.Content{Text: "x"}})
		require.NoError(t, err)
		posts = append(posts, p.ID)
	}
	return posts
}

func TestAUsedUpHourIsA429ThatSaysWhenItEnds(t *testing.T) {
	store, at := tabletest.NewMemory(), time.Date(2026, 11, 26, 12, 59, 30, 0, time.UTC)
	clock := func() time.Time { return at }
	w := newWorld(t, func(c *httpapi.Config) {
		serve(c, access.Config{
			Store: store, Publisher: &published{}, IDs: id.NewGenerator(clock), Now: clock, Lifetimes: lifetime.Fixed(time.Hour),
		}, feed.Config{UserUnits: 1000})
	})
	w.profile(t, "ann")
	key := []string{"Idempotency-Key", "bound"}
	first := w.call(t, "ann", "POST", "/v1/posts", `{"text":"x"}`, key...)
	require.Equal(t, 201, first.Code)
	for _, attr := range []string{schema.HourOf(at).AttrUnits(), schema.HourOf(at).AttrMade()} {
		_, err := store.Update(t.Context(), *access.AddTo(schema.CountsKey("ann"), attr, 1000))
		require.NoError(t, err)
	}
	res := w.call(t, "ann", "POST", "/v1/posts", `{"text":"x"}`)
	p := problem(t, res, 429, "rate-limited")
	assert.Equal(t, "30", res.Header().Get("Retry-After"))
	assert.Equal(t, "your calls of this hour have caused 1000 units of work, the most that the limit allows: try again after 2026-11-26T13:00:00Z", p.Detail)
	again := w.call(t, "ann", "POST", "/v1/posts", `{"text":"x"}`, key...)
	assert.Equal(t, 201, again.Code)
	assert.Equal(t, first.Body.String(), again.Body.String())
}

func TestAFollowAboveTheLimitIsA409(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) {
		serve(c, access.Config{
			Store: tabletest.NewMemory(), Publisher: &published{}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour),
		}, feed.Config{MaxFollowing: 1})
	})
	for _, user := range []string{"ann", "ben", "cid"} {
		w.profile(t, user)
	}
	for range 2 {
		res := w.call(t, "ann", "PUT", "/v1/me/following/ben", "")
		assert.Equalf(t, 204, res.Code, "the follow is %d %s", res.Code, res.Body)
	}
	problem(t, w.call(t, "ann", "PUT", "/v1/me/following/cid", ""), 409, "following-limit")
}

func TestSaturatedAPIAnswers503AtOnceAndStaysHealthy(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Limits.Requests, c.Origins = 1, []string{"https://app.example"} })
	entered, leave := make(chan struct{}), make(chan struct{})
	w.store.get = func(context.Context) error { close(entered); <-leave; return nil }
	var wg sync.WaitGroup
	wg.Go(func() { w.call(t, "ann", "GET", "/v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV", "") })
	<-entered
	res := w.call(t, "ann", "GET", "/v1/me", "", "Origin", "https://app.example")
	problem(t, res, 503, "unavailable")
	assert.NotEmpty(t, res.Header().Get("Retry-After"), "no Retry-After")
	if h := res.Header(); h.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "Retry-After") || h.Get("Vary") != "Origin" {
		t.Errorf("a page cannot read it: %v", h)
	}
	res = w.call(t, "", "OPTIONS", "/v1/me", "", "Origin", "https://app.example", "Access-Control-Request-Method", "GET")
	assert.Equal(t, 204, res.Code)
	assert.Equal(t, 200, w.call(t, "", "GET", "/healthz", "").Code)
	close(leave)
	wg.Wait()
	problem(t, w.call(t, "", "GET", "/v1/me", ""), 401, "unauthenticated") // the slot is free again
}

func TestCORSLetsConfiguredOriginsIn(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) {
		c.Origins, c.PageHeaders = []string{"https://app.example"}, []string{"X-Team"}
	})
	preflight := func(origin string) *httptest.ResponseRecorder {
		return w.call(t, "", "OPTIONS", "/v1/posts", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,idempotency-key")
	}
	res := preflight("https://app.example")
	h := res.Header()
	if res.Code != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "PATCH") ||
		!strings.HasSuffix(h.Get("Access-Control-Allow-Headers"), "Idempotency-Key, If-None-Match, Last-Event-ID, X-Request-Id, Traceparent, Tracestate, Baggage, Sentry-Trace, X-Team") || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("preflight is %d %v", res.Code, h)
	}
	if res := preflight("https://evil.example"); res.Code != 405 || res.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a stranger's preflight is %d %v", res.Code, res.Header())
	}
	res = w.call(t, "", "GET", "/v1/me", "", "Origin", "https://app.example")
	problem(t, res, 401, "unauthenticated") // a page can read errors, too
	if res.Header().Get("Access-Control-Allow-Origin") != "https://app.example" || res.Header().Get("Vary") != "Origin" {
		t.Errorf("headers are %v", res.Header())
	}
}

func TestTheRootLeadsToThePageOfTheAPI(t *testing.T) {
	res := newWorld(t).call(t, "", "GET", "/", "")
	assert.Equal(t, "302 /docs", fmt.Sprint(res.Code, " ", res.Header().Get("Location")))
}

// answering is a handler that answers with its own name.
func answering(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, name) // a recorder accepts everything
	})
}

// twoPages answers two patterns.
type twoPages struct{ http.Handler }

func (twoPages) Patterns() []string { return []string{"GET /{$}", "GET /operator"} }

func TestTheConsoleHasItsPatterns(t *testing.T) {
	console := twoPages{answering("page")}
	alone := func(c *httpapi.Config) { c.Console = console }
	all := func(c *httpapi.Config) { c.Console, c.Operations = console, answering("operations") }
	for _, row := range []struct{ request, alone, withOperations string }{
		{"GET /", "page", "page"},
		{"GET /operator", "page", "page"},
		{"GET /metrics", "404", "operations"},
		{"GET /admin/dead-letters/posts", "404", "operations"},
		{"POST /admin/dead-letters/posts/redrive", "404", "operations"},
		{"POST /admin/dead-letters/posts/drop", "404", "404"},
		{"POST /admin/reconcile", "404", "404"},
		{"GET /admin/explain/ann", "404", "operations"},
		{"GET /admin/delivery/post", "404", "operations"},
		{"GET /admin/posts/post", "404", "operations"},
		{"GET /admin/pair", "404", "operations"},
		{"GET /admin/history", "404", "operations"},
		{"GET /admin/users/ann", "404", "404"},
		{"POST /admin/posts/post/takedown", "404", "404"},
		{"POST /admin/users/ann/forget", "404", "404"},
		{"POST /admin/verify", "404", "404"},
		{"POST /admin/backup", "404", "404"},
		{"GET /debug/pprof/", "404", "404"},
		{"GET /console/file", "404", "404"},
	} {
		method, path, _ := strings.Cut(row.request, " ")
		for want, world := range map[string]*world{"0" + row.alone: newWorld(t, alone), "1" + row.withOperations: newWorld(t, all)} {
			res := world.call(t, "", method, path, "")
			got := res.Body.String()
			if res.Code != http.StatusOK {
				got = strconv.Itoa(res.Code)
			}
			assert.Equal(t, want[1:], got, row.request)
		}
	}
}

// A person waits for a page, so a table that never answers must not delay the page for long.
func TestAHungTableAnswersAReadWithinFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.get = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		began := time.Now()
		res := w.call(t, "ann", "GET", "/v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV", "")
		problem(t, res, 503, "unavailable")
		assert.NotEmpty(t, res.Header().Get("Retry-After"))
		assert.LessOrEqual(t, time.Since(began), 5*time.Second)
	})
}

// The answer asks the caller to retry soon. So the caller repeats a call whose outcome is unknown: the
// message of the first call may have been sent.
func TestAHungQueueAnswersAWriteWithinFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ann")
		w.profile(t, "bob")
		post := postID(t, w.call(t, "bob", "POST", "/v1/posts", `{"text":"t"}`))
		first := len(w.published.messages)
		write := []string{"POST /v1/posts", "PUT /v1/posts/" + post + "/like", "DELETE /v1/posts/" + post + "/like", "PUT /v1/posts/" + post + "/reactions/like", "DELETE /v1/me"}
		call := func(line string) *httptest.ResponseRecorder {
			method, path, _ := strings.Cut(line, " ")
			body := ""
			if method == "POST" {
				body = `{"text":"once"}`
			}
			return w.call(t, "ann", method, path, body, "Idempotency-Key", "k")
		}
		for _, line := range write {
			w.published.hung = true
			began := time.Now()
			res := call(line)
			problem(t, res, 503, "unavailable")
			assert.NotEmpty(t, res.Header().Get("Retry-After"), line)
			assert.LessOrEqual(t, time.Since(began), 5*time.Second, line)
			w.published.hung = false
			assert.Less(t, call(line).Code, 300, line)
		}
		made := map[string]int{}
		for _, msg := range w.published.messages[first:] {
			event, err := messages.Decode(msg.Payload)
			require.NoError(t, err)
			if created, ok := event.(*messages.PostCreated); ok {
				made[created.PostID]++
			}
		}
		assert.Len(t, made, 1, "one post, whatever became of its first message")
	})
}

// postID returns the id of a new post from the answer to its request.
func postID(t *testing.T, res *httptest.ResponseRecorder) string {
	t.Helper()
	var post struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.Unmarshal(res.Body.Bytes(), &post), res.Body)
	require.NotEmpty(t, post.ID, res.Body)
	return post.ID
}

func TestRoutesAreCountedByTheirPattern(t *testing.T) {
	w := newWorld(t)
	w.call(t, "ann", "GET", "/v1/users/u1", "")
	w.call(t, "ann", "GET", "/v1/users/u2", "")
	w.call(t, "ann", "BREW", "/coffee", "")
	want := []string{"GET /v1/users/{id}", "GET /v1/users/{id}", "other none"}
	assert.Truef(t, slices.Equal(w.counted.requests, want), "counted %q", w.counted.requests)
}

// A page of any site may send a body without a media type, or with the media type of plain text.
func TestADevTokenIsNotForPagesOfOtherSites(t *testing.T) {
	w := newWorld(t)
	const path, body = "/v1/dev/token", `{"user_id":"ann"}`
	problem(t, w.call(t, "", "POST", path, body, "Sec-Fetch-Site", "cross-site"), 415, "unsupported-media-type")
	problem(t, w.call(t, "", "POST", path, body, "Content-Type", "text/plain"), 415, "unsupported-media-type")
	res := w.call(t, "", "POST", path, body, "Content-Type", "application/json")
	assert.Equalf(t, 200, res.Code, "answer is %d %s", res.Code, res.Body)
	preflight := w.call(t, "", "OPTIONS", path, "", "Origin", "https://evil.example",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
	origin := preflight.Header().Get("Access-Control-Allow-Origin")
	assert.Emptyf(t, origin, "the origin %q may send a media type", origin)
}

func TestWithoutDevTokensTheirCallIsNotThere(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Tokens = nil })
	problem(t, w.call(t, "", "POST", "/v1/dev/token", `{"user_id":"ann"}`), 404, "not-found")
	problem(t, w.call(t, "ann", "POST", "/v1/dev/away", ""), 404, "not-found")
	assert.False(t, bytes.Contains(w.api.Document(), []byte("/v1/dev/")), "the document has them")
}

func TestADeveloperBecomesAnAwayReader(t *testing.T) {
	w := newWorld(t)
	w.profile(t, "ann")
	off := problem(t, w.call(t, "ann", "POST", "/v1/dev/away", ""), 404, "not-found")
	assert.Contains(t, off.Detail, "FANFARE_ACTIVE_DAYS")
	w = newWorld(t, func(c *httpapi.Config) {
		serve(c, access.Config{
			Store: tabletest.NewMemory(), Publisher: &published{}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour), ActiveDays: 14, Log: zap.NewNop(),
		}, feed.Config{})
	})
	w.profile(t, "ann")
	for range 2 {
		assert.Equal(t, 204, w.call(t, "ann", "POST", "/v1/dev/away", "").Code)
	}
	assert.Equal(t, 200, w.call(t, "ann", "GET", "/v1/home", "").Code)
	problem(t, w.call(t, "ann", "POST", "/v1/dev/away", ""), 503, "unavailable") // the user's return has begun
}

func TestNotReadyNamesTheFailingDependencies(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) {
		c.Health = admin.NewHealth(
			admin.Check{Name: "table", Ask: func(context.Context) error { return errors.New("at 10.0.0.7") }},
			admin.Check{Name: "queue", Ask: func(context.Context) error { return nil }})
	})
	res := w.call(t, "", "GET", "/readyz", "")
	if res.Code != 503 || !strings.Contains(res.Body.String(), `"failing":["table"]`) || strings.Contains(res.Body.String(), "10.0.0.7") {
		t.Errorf("answer is %d %s", res.Code, res.Body)
	}
	assert.Equal(t, 200, w.call(t, "", "GET", "/healthz", "").Code)
}

// The limits of values are in the document, as tags of the types, and in the domain. Both must agree.
func TestDocumentHasTheDomainsLimits(t *testing.T) {
	w := newWorld(t)
	w.profile(t, "ann")
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ MaxLength int }
			}
		}
		Paths map[string]map[string]struct {
			Parameters []struct{ Schema struct{ MaxLength int } }
		}
	}
	require.NoError(t, json.Unmarshal(w.api.Document(), &document))
	of := func(schema, field string) int { return document.Components.Schemas[schema].Properties[field].MaxLength }
	post := func(in feed.PostInput) error { _, err := w.cfg.Feed.CreatePost(t.Context(), "ann", in); return err }
	profile := func(in feed.ProfileInput) error { _, err := w.cfg.Feed.PutProfile(t.Context(), "ann", in); return err }
	image := func(n int) string { return "http://" + strings.Repeat("a", n-len("http://")) }
	created, err := w.cfg.Feed.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "t"}})
	require.NoError(t, err)
	edit := func(in feed.PostEdit) error {
		_, err := w.cfg.Feed.EditPost(t.Context(), "ann", created.ID, in)
		return err
	}
	for name, tt := range map[string]struct {
		most int
		send func(n int) error
	}{
		"name":          {of("ProfileInput", "name"), func(n int) error { return profile(feed.ProfileInput{Name: strings.Repeat("ä", n)}) }},
		"bio":           {of("ProfileInput", "bio"), func(n int) error { return profile(feed.ProfileInput{Name: "A", Bio: strings.Repeat("ä", n)}) }},
		"profile image": {of("ProfileInput", "image_url"), func(n int) error { return profile(feed.ProfileInput{Name: "A", ImageURL: image(n)}) }},
		"text":          {of("PostInput", "text"), func(n int) error { return post(feed.PostInput{Content: feed.Content{Text: strings.Repeat("ä", n)}}) }},
		"image": {of("Image", "url"), func(n int) error {
			return post(feed.PostInput{Content: feed.Content{Images: []feed.Image{{URL: image(n)}}}})
		}},
		"alt": {of("Image", "alt"), func(n int) error {
			return post(feed.PostInput{Content: feed.Content{Images: []feed.Image{{URL: image(9), Alt: strings.Repeat("ä", n)}}}})
		}},
		"key": {document.Paths["/v1/posts"]["post"].Parameters[0].Schema.MaxLength, func(n int) error {
			return post(feed.PostInput{Content: feed.Content{Text: "t"}, IdempotencyKey: strings.Repeat("k", n)})
		}},
		"edited text":  {of("PostEdit", "text"), func(n int) error { text := strings.Repeat("ä", n); return edit(feed.PostEdit{Text: &text}) }},
		"edited image": {of("Image", "url"), func(n int) error { return edit(feed.PostEdit{Images: &[]feed.Image{{URL: image(n)}}}) }},
		"comment": {of("CommentInput", "text"), func(n int) error {
			_, err := w.cfg.Feed.CreateComment(t.Context(), "ann", created.ID, strings.Repeat("ä", n))
			return err
		}},
	} {
		assert.NoErrorf(t, tt.send(tt.most), "%s of %d characters", name, tt.most)
		if e, ok := errors.AsType[*fault.Error](tt.send(tt.most + 1)); !ok || e.Kind != fault.Invalid {
			t.Errorf("%s of %d characters: %v, want invalid", name, tt.most+1, e)
		}
	}
}
