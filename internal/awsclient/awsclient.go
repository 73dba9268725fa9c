// Package awsclient makes the AWS configuration of a process: the SDK's own sources
// (environment, profile, instance role), one HTTP client and one retry policy for all
// services. The package must never depend on a service: callers make their clients from the
// configuration that Load returns.
//
// The HTTP client keeps its connections. The SDK's stock client loses connections in two
// ways. It closes the request body when a call returns, and then net/http drops a
// connection whose answer came early. It also keeps only ten idle connections for each
// host, so 256 callers dial most of the time. The number of connections is bounded (I9).
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
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"fanfare/internal/backoff"
)

const (
	// maxConns bounds the connections to one service, including idle ones. Further calls
	// wait for a free connection.
	maxConns = 512
	// dialTimeout is short because a host that does not answer at once is down, and a retry
	// may find another address. It is shorter than attemptTimeout, so a failed dial
	// certainly has sent nothing.
	dialTimeout = 2 * time.Second
	// writeBuffer is large enough for the head and the body of a batch, so that the request
	// is sent in one piece. Go's default is 4 KB.
	writeBuffer = 16 << 10

	// credentialsTime is the timeout for a request for credentials.
	credentialsTime = 20 * time.Second

	maxAttempts = 4
	maxBackoff  = 2 * time.Second
)

type changeKey struct{}

// With returns a context in which Load applies change to each configuration that it reads. So a test gives each of its
// processes an AWS of its own, although all processes share one environment.
func With(ctx context.Context, change func(*aws.Config)) context.Context {
	return context.WithValue(ctx, changeKey{}, change)
}

// Load reads the configuration as every AWS tool does, including AWS_ENDPOINT_URL,
// AWS_REGION and AWS_CA_BUNDLE. The caller's options override the options of Load: for
// example, config.WithLogger enables the SDK's warnings.
func Load(ctx context.Context, options ...func(*config.LoadOptions) error) (aws.Config, error) {
	keys := &renewing{}
	all := append([]func(*config.LoadOptions) error{
		// The SDK refuses AWS_CA_BUNDLE if the client is not a BuildableClient. So the
		// client is wrapped below, after the configuration is loaded.
		config.WithHTTPClient(newTransport()),
		config.WithRetryer(func() aws.Retryer { return newRetryer(keys) }),
		// The SDK would write its own lines to stderr beside the structured log. Every
		// failure is also returned as an error.
		config.WithLogger(logging.Nop{}),
	}, options...)
	change, changes := ctx.Value(changeKey{}).(func(*aws.Config))
	read := func(ctx context.Context) (aws.Config, error) {
		cfg, err := config.LoadDefaultConfig(ctx, all...)
		if err == nil && changes {
			change(&cfg)
		}
		return cfg, err
	}
	cfg, err := read(ctx)
	if err != nil {
		return aws.Config{}, fmt.Errorf("aws configuration: %w", err)
	}
	keys.from = cfg.Credentials
	keys.read = func(ctx context.Context) (aws.CredentialsProvider, error) {
		again, err := read(ctx)
		return again.Credentials, err
	}
	cfg.Credentials = keys
	if cfg.Region == "" {
		return aws.Config{}, errors.New("aws configuration: no region: set AWS_REGION")
	}
	if err := checkEndpoint(cfg.BaseEndpoint); err != nil {
		return aws.Config{}, err
	}
	if err := checkCredentials(ctx, cfg.Credentials); err != nil {
		return aws.Config{}, err
	}
	cfg.HTTPClient = replayable{bounded{cfg.HTTPClient}}
	return cfg, nil
}

// checkEndpoint returns an error for an endpoint to which no call can be sent. Without
// checkEndpoint, every call would fail and be retried.
func checkEndpoint(endpoint *string) error {
	if endpoint == nil {
		return nil
	}
	u, err := url.Parse(*endpoint)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" {
		return nil
	}
	return fmt.Errorf("aws configuration: AWS_ENDPOINT_URL: %q is not a URL such as http://localhost:4566", *endpoint)
}

// checkCredentials returns an error if there are no credentials.
func checkCredentials(ctx context.Context, credentials aws.CredentialsProvider) error {
	ctx, cancel := context.WithTimeout(ctx, credentialsTime)
	defer cancel()
	if _, err := credentials.Retrieve(ctx); err != nil {
		return fmt.Errorf("aws configuration: no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine or the task a role: %w", err)
	}
	return nil
}

// Place formats the region and the endpoint of a client for errors. It omits an endpoint of AWS.
func Place(region string, endpoint *string) string {
	if endpoint == nil {
		return "in " + region
	}
	return "in " + region + " at " + *endpoint
}

// Observed returns cfg with a client that calls observe for each reply of AWS, with the
// time in the reply and the duration of the exchange.
func Observed(cfg aws.Config, observe func(server time.Time, took time.Duration)) aws.Config {
	cfg.HTTPClient = observed{cfg.HTTPClient, observe}
	return cfg
}

type observed struct {
	next    aws.HTTPClient
	observe func(server time.Time, took time.Duration)
}

// Do implements aws.HTTPClient.
func (c observed) Do(req *http.Request) (*http.Response, error) {
	began := time.Now()
	res, err := c.next.Do(req)
	if err != nil {
		return res, err
	}
	// A proxy may answer instead of AWS, so only replies with a request id of AWS count.
	if date := res.Header.Get("Date"); date != "" && res.Header.Get("X-Amzn-Requestid") != "" {
		if server, err := http.ParseTime(date); err == nil {
			c.observe(server, time.Since(began))
		}
	}
	return res, nil
}

func newTransport() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(tr *http.Transport) {
			tr.MaxConnsPerHost = maxConns
			tr.MaxIdleConnsPerHost = maxConns
			tr.MaxIdleConns = 0 // the limit for each host is enough, because there are two hosts
			tr.WriteBufferSize = writeBuffer
		})
}

// newRetryer returns the SDK's standard mode with a backoff for calls of a few milliseconds, because the stock
// backoff waits up to 2 seconds before the first retry. The standard quota stays: when most calls fail,
// retries stop and the caller gets the error.
//
// The adaptive mode is not used. If some calls of a client are throttled, the adaptive mode delays all
// calls of the client, so one hot partition slows every user down. Callers that send in bulk slow
// themselves down instead.
func newRetryer(keys *renewing) aws.Retryer {
	waits := backoff.Exponential{First: 25 * time.Millisecond, Most: maxBackoff}
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.MaxBackoff = maxBackoff
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return waits.Jittered(attempt, rand.Float64()), nil
		})
		o.Retryables = append(o.Retryables,
			retry.IsErrorRetryableFunc(cutReply),
			keys,
			// Two concurrent writes changed the same item, and at least one of them was in a transaction.
			retry.RetryableErrorCode{Codes: map[string]struct{}{"TransactionConflictException": {}}},
		)
	})
}

// cutReply recognises a connection that was lost during a reply. The SDK reports such a
// reply as a reply that it cannot decode.
func cutReply(err error) aws.Ternary {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// maxCopied is the maximum size of a body that replayable copies. A file of an archive may
// be larger: replayable then does not copy the body, and the call may lose its connection.
const maxCopied = 16 << 20

// replayable gives net/http a copy of the request body. The SDK cannot close the copy, and
// net/http can send the copy again on another connection.
type replayable struct{ next aws.HTTPClient }

// Do implements aws.HTTPClient.
func (c replayable) Do(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.ContentLength <= 0 || req.ContentLength > maxCopied || req.GetBody != nil { // net/http can already resend a body with GetBody
		return c.next.Do(req)
	}
	body := make([]byte, req.ContentLength)
	if _, err := io.ReadFull(req.Body, body); err != nil {
		return nil, fmt.Errorf("aws request body: %w", err)
	}
	out := req.WithContext(req.Context()) // a copy: the SDK closes the body of the original
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	out.Body = io.NopCloser(bytes.NewReader(body))
	return c.next.Do(out)
}
