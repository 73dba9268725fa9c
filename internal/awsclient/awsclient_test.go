package awsclient_test

import (
	"context"
	"encoding/pem"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
)

// endpoint is an HTTP server that counts its connections and requests.
type endpoint struct {
	*httptest.Server
	conns, requests atomic.Int64
}

func newEndpoint(t *testing.T, handler http.HandlerFunc) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.requests.Add(1)
		handler(w, r)
	}))
	e.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			e.conns.Add(1)
		}
	}
	t.Cleanup(e.Close)
	return e
}

func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10))
	_, _ = io.WriteString(w, body) // if the write fails, the client reports a missing reply
}

// quick answers without reading the request. To the client, quick looks like a nearby endpoint: the
// answer arrives before net/http has noted the end of the request.
func quick(w http.ResponseWriter, _ *http.Request) { answer(w, "{}") }

func isolate(tb testing.TB, url string) {
	tb.Helper()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": url, "AWS_REGION": "eu-central-1", "AWS_PROFILE": "", "AWS_CA_BUNDLE": "",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_MAX_ATTEMPTS": "", "AWS_RETRY_MODE": "",
	} {
		tb.Setenv(name, value)
	}
}

func load(t *testing.T) aws.Config {
	t.Helper()
	cfg, err := awsclient.Load(t.Context())
	require.NoError(t, err)
	return cfg
}

func put(ctx context.Context, c *dynamodb.Client) error {
	_, err := c.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String("t"),
		Item:      map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: strings.Repeat("x", 4096)}},
	})
	return err
}

// shareOne fails the test unless calls share one connection. net/http itself gives up a
// connection if the goroutine that writes the request has not reported back 50 ms after the
// answer (maxWriteWaitBeforeConnReuse), and a busy machine can stop a thread for that long.
// So each call that took 50 ms may cost one more connection. The stock client loses
// connections in quick calls.
func shareOne(t *testing.T, e *endpoint, calls int) {
	t.Helper()
	client := dynamodb.NewFromConfig(load(t))
	stopped := int64(0)
	for range calls {
		began := time.Now()
		require.NoError(t, put(t.Context(), client))
		if time.Since(began) >= 50*time.Millisecond {
			stopped++
		}
	}
	n := e.conns.Load()
	assert.LessOrEqualf(t, n, 1+stopped, "%d connections for %d calls, %d of them slow", n, calls, stopped)
}

func TestCallsOfOneCallerShareOneConnection(t *testing.T) {
	e := newEndpoint(t, quick)
	e.Start()
	isolate(t, e.URL)
	shareOne(t, e, 3000)
}

// Without the wrapper, the same calls lose connections. So
// TestCallsOfOneCallerShareOneConnection can fail.
func TestTheStockClientLosesConnections(t *testing.T) {
	e := newEndpoint(t, quick)
	e.Start()
	isolate(t, e.URL)
	cfg, err := config.LoadDefaultConfig(t.Context())
	require.NoError(t, err)
	client := dynamodb.NewFromConfig(cfg)
	calls := 0
	for ; calls < 50_000 && e.conns.Load() < 5; calls++ {
		require.NoError(t, put(t.Context(), client))
	}
	assert.GreaterOrEqualf(t, e.conns.Load(), int64(5),
		"the stock client kept its connection over %d calls: the wrapper is not needed any more", calls)
	t.Logf("stock client: %d connections for %d calls", e.conns.Load(), calls)
}

// The client keeps the idle connections of many callers, so a second wave of calls dials no connection.
func TestManyCallersKeepTheirConnections(t *testing.T) {
	const callers = 64
	var wave sync.WaitGroup
	release := make(chan struct{})
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		wave.Done()
		<-release
		answer(w, "{}")
	})
	e.Start()
	isolate(t, e.URL)
	client := dynamodb.NewFromConfig(load(t))
	for round := range 3 {
		var wg sync.WaitGroup
		wave.Add(callers)
		for range callers {
			wg.Go(func() {
				if err := put(t.Context(), client); err != nil {
					t.Error(err)
				}
			})
		}
		wave.Wait() // all requests have reached the endpoint
		for range callers {
			release <- struct{}{}
		}
		wg.Wait()
		n := e.conns.Load()
		require.Equalf(t, int64(callers), n, "round %d: %d connections so far", round, n)
	}
}

func TestACustomCABundleIsHonoured(t *testing.T) {
	e := newEndpoint(t, quick)
	e.StartTLS()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw})
	require.NoError(t, os.WriteFile(bundle, block, 0o600))
	isolate(t, e.URL)
	t.Setenv("AWS_CA_BUNDLE", bundle)
	shareOne(t, e, 200)
}

func TestARetrySendsTheWholeBodyAgain(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(body))
		switch len(bodies) {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2: // the reply is cut
			w.Header().Set("Content-Length", "100")
			answer(w, `{"Item`)
			panic(http.ErrAbortHandler)
		default:
			answer(w, "{}")
		}
	})
	e.Start()
	isolate(t, e.URL)
	require.NoError(t, put(t.Context(), dynamodb.NewFromConfig(load(t))))
	if len(bodies) != 3 || bodies[0] != bodies[1] || bodies[1] != bodies[2] || len(bodies[0]) < 4096 {
		t.Errorf("%d attempts with different bodies", len(bodies))
	}
}

func TestTheContextEndsACall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := newEndpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // now the server notices when the client leaves
		cancel()                           // the client leaves only after the call was made
		<-r.Context().Done()
	})
	e.Start()
	isolate(t, e.URL)
	if err := put(ctx, dynamodb.NewFromConfig(load(t))); err == nil || ctx.Err() == nil {
		t.Errorf("error %v, context %v: want both", err, ctx.Err())
	}
	assert.Equal(t, int64(1), e.requests.Load(), "a cancelled call is not retried")
}

func TestAMissingRegionIsNamed(t *testing.T) {
	isolate(t, "http://127.0.0.1:1")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	_, err := awsclient.Load(t.Context())
	assert.ErrorContains(t, err, "AWS_REGION")
}

// readCounter counts the bytes that were read from a body.
type readCounter struct{ read int }

func (r *readCounter) Read(p []byte) (int, error) { r.read += len(p); return len(p), nil }

// A file of an archive may be as large as the memory of the process.
func TestALargeBodyIsNotCopied(t *testing.T) {
	isolate(t, "http://aws.test")
	for size, copied := range map[int64]int64{16 << 20: 16 << 20, 16<<20 + 1: 0, 1 << 40: 0} {
		body := &readCounter{}
		cfg, err := awsclient.Load(t.Context(), config.WithHTTPClient(doing(func(*http.Request) (*http.Response, error) {
			assert.EqualValuesf(t, copied, body.read, "of %d bytes", size)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})))
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://aws.test", io.NopCloser(body))
		require.NoError(t, err)
		req.ContentLength = size
		res, err := cfg.HTTPClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
}
