//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"fanfare/internal/porttest"
)

// badNetwork has the proxies between the daemons and AWS. A test can give faults to the proxies.
type badNetwork struct{ queues, table *toxiproxy.Proxy }

func newBadNetwork(t *testing.T) *badNetwork {
	t.Helper()
	return &badNetwork{newProxy(t, "queues", os.Getenv("AWS_ENDPOINT_URL")), newProxy(t, "table", tableURL())}
}

// newProxy starts a proxy before a service.
func newProxy(t *testing.T, name, target string) *toxiproxy.Proxy {
	t.Helper()
	endpoint, err := url.Parse(target)
	require.NoError(t, err)
	require.NotEmpty(t, endpoint.Host, "AWS_ENDPOINT_URL is not set: run this with scripts/with-emulators.sh")
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	// No outgoing connection gets this port while a test stops the proxy.
	proxy := toxiproxy.NewProxy(server, name, porttest.Free(t), endpoint.Host)
	require.NoError(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	return proxy
}

// environment returns the variables that make a process call AWS through the network.
func (n *badNetwork) environment() []string {
	return []string{"AWS_ENDPOINT_URL=http://" + n.queues.Listen, "AWS_ENDPOINT_URL_DYNAMODB=http://" + n.table.Listen}
}

// fault is a kind of damage to a network.
type fault struct {
	kind, attributes string
	// cuts is true if no byte passes during the fault.
	cuts bool
}

func faults() []fault {
	return []fault{
		{kind: "latency", attributes: `"latency": 150, "jitter": 100`},
		{kind: "reset_peer", attributes: `"timeout": 5`, cuts: true},
		{kind: "timeout", attributes: `"timeout": 0`, cuts: true}, // no byte passes, and no connection ends
		{kind: "slow_close", attributes: `"delay": 700`},
	}
}

// begin applies a fault to one direction: "upstream" means the bytes to AWS, and "downstream" the bytes
// from AWS.
func (n *badNetwork) begin(t *testing.T, f fault, direction string) {
	t.Helper()
	for _, proxy := range []*toxiproxy.Proxy{n.queues, n.table} {
		addFault(t, proxy, f, direction)
	}
}

func addFault(t *testing.T, proxy *toxiproxy.Proxy, f fault, direction string) {
	t.Helper()
	_, err := proxy.Toxics.AddToxicJson(strings.NewReader(
		fmt.Sprintf(`{"name": "fault", "type": %q, "stream": %q, "attributes": {%s}}`, f.kind, direction, f.attributes)))
	require.NoError(t, err)
}

func (n *badNetwork) end(t *testing.T) {
	t.Helper()
	for _, proxy := range []*toxiproxy.Proxy{n.queues, n.table} {
		require.NoError(t, proxy.Toxics.RemoveToxic(t.Context(), "fault"))
	}
}

// readiness is the status of a member's /readyz, or 0 without an answer.
func (m *member) readiness(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.admin+"/readyz", http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
