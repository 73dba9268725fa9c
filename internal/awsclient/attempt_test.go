package awsclient_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
)

// doing is a function that serves as an HTTP client.
type doing func(*http.Request) (*http.Response, error)

func (d doing) Do(req *http.Request) (*http.Response, error) { return d(req) }

// stalling is a body that returns some text, and then stays silent until the request ends.
type stalling struct {
	io.Reader
	req *http.Request
}

func (s stalling) Read(p []byte) (int, error) {
	if n, err := s.Reader.Read(p); n > 0 {
		return n, err
	}
	<-s.req.Context().Done()
	return 0, s.req.Context().Err()
}

func (stalling) Close() error { return nil }

// If an endpoint accepts requests and never answers, an attempt ends after three seconds without a byte,
// before the reply begins or within the reply.
func TestASilentEndpointCostsAnAttemptThreeSeconds(t *testing.T) {
	silent := func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	for name, do := range map[string]doing{
		"no reply": silent,
		"half a reply": func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, ContentLength: 100, Body: stalling{strings.NewReader(`{"Item`), req}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			isolate(t, "http://aws.test")
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				cfg, err := awsclient.Load(t.Context(), config.WithHTTPClient(doing(func(req *http.Request) (*http.Response, error) {
					attempts++
					return do(req)
				})))
				require.NoError(t, err)
				began := time.Now()
				err = put(t.Context(), dynamodb.NewFromConfig(cfg))
				took := time.Since(began)
				assert.True(t, awsclient.Transient(err), "%v", err)
				assert.Equal(t, 4, attempts)
				assert.GreaterOrEqual(t, took, 4*3*time.Second)
				assert.LessOrEqual(t, took, 4*3*time.Second+time.Second)
			})
		})
	}
}

// A long poll may take three seconds more than its wait. A slow reply that makes progress is not cut.
func TestAReplyThatIsExpectedLateIsWaitedFor(t *testing.T) {
	isolate(t, "http://aws.test")
	synctest.Test(t, func(t *testing.T) {
		answerAfter := func(d time.Duration) doing {
			return func(req *http.Request) (*http.Response, error) {
				select {
				case <-time.After(d):
				case <-req.Context().Done():
					return nil, req.Context().Err()
				}
				text := `{"Attributes":{"PK":{"S":"` + strings.Repeat("x", 8) + `"}}}`
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(slowly{strings.NewReader(text), 2 * time.Second, req})}, nil
			}
		}
		for late, well := range map[time.Duration]bool{22 * time.Second: true, 24 * time.Second: false} {
			cfg, err := awsclient.Load(t.Context(), config.WithHTTPClient(answerAfter(late)))
			require.NoError(t, err)
			err = put(awsclient.Patient(t.Context(), 20*time.Second), dynamodb.NewFromConfig(cfg))
			assert.Equal(t, well, err == nil, "after %s: %v", late, err)
		}
	})
}

// slowly is a body that returns one byte after each pause, until the request ends.
type slowly struct {
	io.Reader
	pause time.Duration
	req   *http.Request
}

func (s slowly) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.pause):
		return s.Reader.Read(p[:1])
	case <-s.req.Context().Done():
		return 0, s.req.Context().Err()
	}
}

// An emulator shares the machine with its callers, so the parts of its reply may be late, too.
func TestAnEmulatorMayPauseWithinItsReply(t *testing.T) {
	for endpoint, well := range map[string]bool{"http://localhost:4566": true, "http://aws.test": false} {
		isolate(t, endpoint)
		synctest.Test(t, func(t *testing.T) {
			cfg, err := awsclient.Load(t.Context(), config.WithHTTPClient(doing(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(slowly{strings.NewReader("{}"), 15 * time.Second, req})}, nil
			})))
			require.NoError(t, err)
			err = put(t.Context(), dynamodb.NewFromConfig(cfg))
			assert.Equal(t, well, err == nil, "%s: %v", endpoint, err)
		})
	}
}

// Every reply with a request id of AWS sets the clock, and the reply of a proxy does not.
func TestRepliesOfAWSTellTheTime(t *testing.T) {
	isolate(t, "http://aws.test")
	synctest.Test(t, func(t *testing.T) {
		header := http.Header{}
		cfg, err := awsclient.Load(t.Context(), config.WithHTTPClient(doing(func(*http.Request) (*http.Response, error) {
			<-time.After(time.Second)
			return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})))
		require.NoError(t, err)
		var told []time.Time
		client := dynamodb.NewFromConfig(awsclient.Observed(cfg, func(server time.Time, took time.Duration) {
			assert.Equal(t, time.Second, took)
			told = append(told, server)
		}))
		for _, h := range []http.Header{
			{}, {"Date": {"Sun, 22 Nov 2026 05:00:00 GMT"}}, {"Date": {"yesterday"}, "X-Amzn-Requestid": {"1"}},
			{"Date": {"Sun, 22 Nov 2026 05:00:00 GMT"}, "X-Amzn-Requestid": {"1"}},
		} {
			require.Empty(t, told)
			header = h
			require.NoError(t, put(t.Context(), client))
		}
		require.Len(t, told, 1)
		assert.True(t, told[0].Equal(time.Date(2026, 11, 22, 5, 0, 0, 0, time.UTC)))
	})
}
