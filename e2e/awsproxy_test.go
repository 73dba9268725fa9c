//go:build e2e

package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startAWSProxy starts a proxy in front of SQS and the table, and returns the URL of the proxy. answered
// may answer a request instead of AWS, and then returns true. seen, if not nil, gets the answers of AWS.
func startAWSProxy(t *testing.T, answered func(http.ResponseWriter, *http.Request) bool, seen func(*http.Response) error) string {
	t.Helper()
	queues, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL"))
	require.NoError(t, err)
	table, err := url.Parse(tableURL())
	require.NoError(t, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			if p.SetURL(queues); strings.HasPrefix(p.In.Header.Get("X-Amz-Target"), "DynamoDB_") {
				p.SetURL(table)
			}
		},
		// A killed process closes its connections, and its requests fail without a line in the log.
		ErrorHandler:   func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) },
		ModifyResponse: seen,
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !answered(rw, r) {
			proxy.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// throughProxy returns the environment in which a process calls AWS through a proxy.
func throughProxy(url string) []string {
	return []string{"AWS_ENDPOINT_URL=" + url, "AWS_ENDPOINT_URL_DYNAMODB=" + url}
}
