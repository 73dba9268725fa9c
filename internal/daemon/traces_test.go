package daemon_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlptrace "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"fanfare/client"
	"fanfare/internal/daemon"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
)

// collector is a server that receives traces (OTLP over HTTP).
type collector struct {
	t *testing.T
	*httptest.Server

	mu       sync.Mutex
	spans    []*otlptrace.Span
	services []string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		var req collect.ExportTraceServiceRequest
		assert.NoError(t, proto.Unmarshal(body, &req))
		assert.Equal(t, "/v1/traces", r.URL.Path)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range req.GetResourceSpans() {
			for _, a := range of.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					c.services = append(c.services, a.GetValue().GetStringValue())
				}
			}
			for _, in := range of.GetScopeSpans() {
				c.spans = append(c.spans, in.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	return c
}

// named returns the spans of a trace that have the given name. If trace is "", named
// returns the spans of all traces.
func (c *collector) named(trace, name string) []*otlptrace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*otlptrace.Span
	for _, s := range c.spans {
		if s.GetName() == name && (trace == "" || fmt.Sprintf("%x", s.GetTraceId()) == trace) {
			found = append(found, s)
		}
	}
	return found
}

// tree returns a trace as lines, one for each span. Each line is indented below the line of its
// parent, and has one attribute in brackets.
func (c *collector) tree(trace string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	var below func(parent, indent string)
	below = func(parent, indent string) {
		var here []*otlptrace.Span
		for _, s := range c.spans {
			if fmt.Sprintf("%x", s.GetTraceId()) == trace && string(s.GetParentSpanId()) == parent {
				here = append(here, s)
			}
		}
		slices.SortFunc(here, func(a, b *otlptrace.Span) int {
			return strings.Compare(value(a, "fanfare.first"), value(b, "fanfare.first"))
		})
		for _, s := range here {
			line := indent + s.GetName()
			if n := value(s, "fanfare.delivered"); n != "" {
				line += " [" + n + "]"
			}
			lines = append(lines, line)
			below(string(s.GetSpanId()), indent+"  ")
		}
	}
	below(string([]byte{0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}), "")
	return lines
}

// value returns an attribute of a span as text, "" if the span has no such attribute.
func value(s *otlptrace.Span, name string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == name {
			if v := a.GetValue(); v.GetStringValue() == "" {
				return fmt.Sprint(v.GetIntValue())
			}
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// traced returns a client whose requests belong to a trace.
func traced(t *testing.T, url, token, trace string) *client.Client {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	c, err := client.New(url, client.WithHTTPClient(&http.Client{Transport: inTrace{transport, trace}}))
	require.NoError(t, err)
	return c.AsToken(token)
}

type inTrace struct {
	http.RoundTripper
	trace string
}

func (i inTrace) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", "00-"+i.trace+"-00f067aa0ba902b7-01")
	r.Header.Set("Tracestate", "vendor=x")
	r.Header.Set("Baggage", "secret=y")
	return i.RoundTripper.RoundTrip(r)
}

// crowd writes many followers of an author directly into the store, while no process runs.
func crowd(t *testing.T, dir, author string, n int) {
	t.Helper()
	store, err := tableembedded.Create(filepath.Join(dir, "table"), tableembedded.Options{Now: time.Now, Log: zap.NewNop()})
	require.NoError(t, err)
	var edges []table.BatchWrite
	for i := range n {
		it := schema.FollowerItem(author, fmt.Sprintf("fan%05d", i), time.Now())
		edges = append(edges, table.BatchWrite{Put: &it})
	}
	for part := range slices.Chunk(edges, 1000) {
		_, err = store.BatchWrite(t.Context(), part)
		require.NoError(t, err)
	}
	require.NoError(t, store.Close())
}

const (
	postTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	likeTrace = "4bf92f3577b34da6a3ce929d0e0e473" // the test adds a last digit
)

// The caller's trace continues through the queue, to the last chunk.
//
//nolint:paralleltest // the SDK reads the collector from the environment
func TestAPostIsOneTraceToItsLastChunk(t *testing.T) {
	dir := t.TempDir()
	_, stop := start(t, settings(t, dir))
	require.NoError(t, stop())
	crowd(t, dir, "ann", 9000)
	c := newCollector(t)
	logs, lines := observer.New(zapcore.DebugLevel)
	at, stop := startLogging(t, settings(t, dir), zap.New(logs))
	ann := traced(t, "http://"+at.HTTP, tokens(t, dir)(t, "ann"), postTrace)
	_, err := ann.PutMe(t.Context(), client.ProfileInput{Name: "n"})
	require.NoError(t, err)
	_, err = ann.CreatePost(t.Context(), client.PostInput{Text: "x"})
	require.NoError(t, err)
	until(t, "three chunks", func() bool { return len(c.named(postTrace, "process FanoutChunk")) == 3 })
	require.NoError(t, stop())
	assert.Equal(t, []string{
		"PUT /v1/me",
		"POST /v1/posts",
		"  process PostCreated",
		"    process FanoutPlan",
		"      process FanoutChunk [3999]",
		"      process FanoutChunk [4000]",
		"      process FanoutChunk [1001]",
	}, c.tree(postTrace))
	assert.Equal(t, "vendor=x", c.named(postTrace, "process FanoutChunk")[0].GetTraceState())
	assert.Contains(t, c.services, "fanfare")
	for _, line := range []string{"answered", "chunk delivered"} {
		got := lines.FilterMessage(line).All()
		require.NotEmpty(t, got, line)
		assert.Equal(t, postTrace, got[0].ContextMap()["trace_id"], line)
	}
}

// A window counts the likes of many requests, and its span has a link to the trace of each request.
//
//nolint:paralleltest // the SDK reads the collector from the environment
func TestAWindowOfLikesLinksToTheTraces(t *testing.T) {
	dir := t.TempDir()
	c := newCollector(t)
	at, stop := start(t, settings(t, dir, "FANFARE_LIKE_WINDOW=1m"))
	token := tokens(t, dir)
	url := "http://" + at.HTTP
	_, err := traced(t, url, token(t, "user1"), postTrace).PutMe(t.Context(), client.ProfileInput{Name: "n"})
	require.NoError(t, err)
	post, err := traced(t, url, token(t, "user1"), postTrace).CreatePost(t.Context(), client.PostInput{Text: "x"})
	require.NoError(t, err)
	want := []string{}
	for _, n := range []string{"1", "2", "3"} {
		want = append(want, likeTrace+n)
		liker := traced(t, url, token(t, "user"+n), likeTrace+n)
		_, err := liker.PutMe(t.Context(), client.ProfileInput{Name: "n"})
		require.NoError(t, err)
		require.NoError(t, liker.Like(t.Context(), post.ID))
	}
	until(t, "three likes in the window", func() bool {
		return metric(t, at.Admin, `fanfare_queue_depth{state="in_flight",topic="likes"}`) == 3
	})
	require.NoError(t, stop()) // the stop ends the window
	windows := c.named("", "count likes")
	require.Len(t, windows, 1)
	var links []string
	for _, l := range windows[0].GetLinks() {
		links = append(links, fmt.Sprintf("%x", l.GetTraceId()))
	}
	assert.ElementsMatch(t, want, links)
	assert.Contains(t, want, fmt.Sprintf("%x", windows[0].GetTraceId()))
	assert.Equal(t, "3", value(windows[0], "fanfare.likes_applied"))
}

func TestWithoutACollectorThereAreNoTraces(t *testing.T) {
	for _, name := range []string{"off", "disabled"} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t)
			if name == "off" {
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
			} else {
				t.Setenv("OTEL_SDK_DISABLED", "true")
			}
			dir := t.TempDir()
			logs, lines := observer.New(zapcore.DebugLevel)
			at, stop := startLogging(t, settings(t, dir), zap.New(logs))
			ann := traced(t, "http://"+at.HTTP, tokens(t, dir)(t, "ann"), postTrace)
			_, err := ann.PutMe(t.Context(), client.ProfileInput{Name: "n"})
			require.NoError(t, err)
			require.NoError(t, stop())
			assert.Empty(t, c.services)
			for _, line := range lines.All() {
				assert.NotContains(t, line.ContextMap(), "trace_id")
			}
		})
	}
}

// A collector that hangs delays neither the work nor the stop, and is not a failure of the process.
func TestACollectorThatHangsHoldsUpNothing(t *testing.T) {
	hanging, release := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hanging <- struct{}{}; <-release }))
	defer server.Close()
	defer close(release)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	dir := t.TempDir()
	logs, lines := observer.New(zapcore.WarnLevel)
	at, stop := startLogging(t, settings(t, dir), zap.New(logs))
	ann := traced(t, "http://"+at.HTTP, tokens(t, dir)(t, "ann"), postTrace)
	_, err := ann.PutMe(t.Context(), client.ProfileInput{Name: "n"})
	require.NoError(t, err)
	<-hanging
	_, err = ann.Me(context.WithoutCancel(t.Context()))
	require.NoError(t, err)
	require.NoError(t, stop())
	assert.Equal(t, 1, lines.FilterMessage("the last traces were not sent").Len())
}

func TestTracesWithAWrongSettingStopTheStart(t *testing.T) {
	t.Parallel()
	err := daemon.Run(t.Context(), daemon.Options{
		Config: settings(t, t.TempDir()), Roles: daemon.Roles{API: true}, Log: zap.NewNop(),
		Environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:4318"},
	})
	require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_ENDPOINT")
}
