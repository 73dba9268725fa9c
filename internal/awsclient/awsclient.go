// Package awsclient makes the one AWS configuration of a process: the SDK's usual
// sources (environment, profile, instance role), one HTTP client and one retry
// policy for all services. It knows no service; clients are made from what Load
// returns.
//
// The HTTP client keeps its connections: the SDK's stock one closes the request
// body when a call returns, which makes net/http drop the connection whenever the
// answer was quicker than its own bookkeeping, and keeps ten idle connections a
// host, which makes 256 callers dial most of the time. Its number of connections
// is bounded (I9).
package awsclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"
)

const (
	// maxConns bounds the connections to one service, idle ones included: more
	// calls than that wait for a free one. The direct client has as many of its own.
	maxConns = 512
	// dialTimeout is short because a host that does not answer at once is down,
	// and the retry finds another address.
	dialTimeout = 5 * time.Second
	// readTimeout is how long a connection may be silent while a reply is
	// awaited. It must be above SQS's longest poll, 20 seconds. Callers set
	// shorter deadlines by their context.
	readTimeout = 30 * time.Second
	// writeBuffer holds the request of a batch, head and body, so that it goes out
	// in one piece. Go's default is 4 KB.
	writeBuffer = 16 << 10

	maxAttempts  = 4
	firstBackoff = 25 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// Load reads the configuration as every AWS tool does, AWS_ENDPOINT_URL, AWS_REGION
// and AWS_CA_BUNDLE included. Options come behind its own: config.WithLogger, say,
// lets the SDK's warnings through.
func Load(ctx context.Context, options ...func(*config.LoadOptions) error) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, append([]func(*config.LoadOptions) error{
		// It has to be a BuildableClient while the configuration is loaded, or
		// AWS_CA_BUNDLE is refused. So it is wrapped below, not here.
		config.WithHTTPClient(newTransport()),
		config.WithRetryer(newRetryer),
		// The SDK's own lines would go to stderr beside our structured ones. What
		// fails comes back as an error anyhow.
		config.WithLogger(logging.Nop{}),
	}, options...)...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("aws configuration: %w", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, errors.New("aws configuration: no region: set AWS_REGION")
	}
	client := replayable{next: cfg.HTTPClient}
	if buildable, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok { // an option may have set another
		client.direct = newDirect(buildable.GetTransport(), client)
	}
	cfg.HTTPClient = client
	return cfg, nil
}

func newTransport() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(tr *http.Transport) {
			tr.MaxConnsPerHost = maxConns
			tr.MaxIdleConnsPerHost = maxConns
			tr.MaxIdleConns = 0 // the limit by host is enough: there are two hosts
			tr.WriteBufferSize = writeBuffer
		}).
		WithReadTimeout(readTimeout)
}

// newRetryer is the SDK's standard mode with a backoff that fits calls of a few
// milliseconds; the stock one waits up to 2 seconds before the first retry. It
// keeps the standard quota: when most calls fail, retries stop and the failure is
// the caller's to see.
//
// The adaptive mode is not used: it holds back all calls of a client when some are
// throttled, and so lets one hot partition slow every other user. Who sends in bulk
// slows itself down instead.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.MaxBackoff = maxBackoff
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return backoff(attempt), nil
		})
		o.Retryables = append(o.Retryables,
			retry.IsErrorRetryableFunc(cutReply),
			// Two writes of one item at once, one of them in a transaction.
			retry.RetryableErrorCode{Codes: map[string]struct{}{"TransactionConflictException": {}}},
		)
	})
}

// backoff is full jitter below a bound that doubles with each attempt, from 1.
func backoff(attempt int) time.Duration {
	bound := maxBackoff
	if attempt < 8 {
		bound = min(maxBackoff, firstBackoff<<max(0, attempt-1))
	}
	return rand.N(bound)
}

// cutReply finds a connection that was lost inside of a reply, which the SDK takes
// for a reply that cannot be decoded.
func cutReply(err error) aws.Ternary {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// replayable hands net/http a body in memory, which outlives the SDK's closing of
// its own and can be sent again on another connection. Bodies are in memory anyway
// and below 16 MB by the services' limits.
type replayable struct {
	next   aws.HTTPClient
	direct *direct
}

// Do implements aws.HTTPClient.
func (c replayable) Do(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.ContentLength <= 0 || req.GetBody != nil { // GetBody: it is replayable already
		return c.next.Do(req)
	}
	body := make([]byte, req.ContentLength)
	if _, err := io.ReadFull(req.Body, body); err != nil {
		return nil, fmt.Errorf("aws request body: %w", err)
	}
	out := req.WithContext(req.Context()) // a copy: the SDK closes the body of its own
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	out.Body = io.NopCloser(bytes.NewReader(body))
	return c.next.Do(out)
}
