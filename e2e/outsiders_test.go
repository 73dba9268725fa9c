//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// document holds the operations of an OpenAPI document by path and method.
type document struct {
	Paths map[string]map[string]struct {
		OperationID string `json:"operationId"`
	} `json:"paths"`
}

func (u *upright) document(t *testing.T) document {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+u.http+"/openapi.json", http.NoBody)
	require.NoError(t, err)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var d document
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil || len(d.Paths) == 0 {
		t.Fatalf("document with %d paths: %v", len(d.Paths), err)
	}
	return d
}

// outsiders is a proxy for all hosts except loopback. It refuses all requests and records them.
type outsiders struct {
	url string

	mu    sync.Mutex
	asked []string
}

func newOutsiders(t *testing.T) *outsiders {
	t.Helper()
	o := &outsiders{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.asked = append(o.asked, r.Method+" "+r.RequestURI)
		http.Error(w, "not in a test", http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	o.url = server.URL
	return o
}

// environment returns variables that make programs use o as the proxy for every host except loopback.
func (o *outsiders) environment() []string {
	var env []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		env = append(env, name+"="+o.url)
	}
	return append(env, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
}

// none fails the test if a program sent a request to another host.
func (o *outsiders) none(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.asked) > 0 {
		t.Errorf("hosts that are not on loopback were asked: %s", strings.Join(o.asked, ", "))
	}
}
