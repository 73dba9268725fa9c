package dynamo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyauth "github.com/aws/smithy-go/auth"
	"github.com/aws/smithy-go/metrics"
	"github.com/aws/smithy-go/tracing"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"fanfare/internal/table"
)

// bulkClient makes the bulk calls, BatchWriteItem and Query, of which a fan-out
// consists. It writes and reads their JSON itself, without the SDK's middleware, which
// costs more than all the rest. Endpoint, credentials, signature and HTTP client are the
// SDK's.
//
// It sends a request once and accepts only a good reply that it can read. After any
// other outcome the caller lets the SDK make the call, which is safe because both
// calls may be made twice. So retries, error types and rare replies are the SDK's.
type bulkClient struct {
	opt      dynamodb.Options
	name     string
	resolved atomic.Pointer[endpoint]
	// misses counts the failures in a row that a lack of capacity does not explain;
	// calls counts the calls since there were too many.
	misses, calls atomic.Int32
}

// newBulkClient returns nil if the options ask for something that only the SDK does.
func newBulkClient(opt dynamodb.Options, name string) *bulkClient {
	_, untraced := opt.TracerProvider.(*tracing.NopTracerProvider)
	_, unmetered := opt.MeterProvider.(metrics.NopMeterProvider)
	if !untraced || !unmetered || len(opt.APIOptions) > 0 || opt.ClientLogMode != 0 || intercepted(opt) ||
		opt.Credentials == nil || opt.EnableAcceptEncodingGzip || opt.EndpointOptions.DisableHTTPS ||
		opt.EndpointResolver != nil || //nolint:staticcheck // deprecated, and still honoured by the SDK
		opt.EndpointDiscovery.EnableEndpointDiscovery == aws.EndpointDiscoveryEnabled ||
		reflect.TypeOf(opt.EndpointResolverV2) != reflect.TypeOf(dynamodb.NewDefaultEndpointResolverV2()) ||
		strings.Contains(opt.Region, "fips") { // the SDK translates such names of regions
		return nil
	}
	return &bulkClient{opt: opt, name: name}
}

// intercepted reports whether the options have interceptors of any kind.
func intercepted(opt dynamodb.Options) bool {
	for _, list := range reflect.ValueOf(opt.Interceptors).Fields() {
		if list.Len() > 0 {
			return true
		}
	}
	return false
}

const (
	// After mostMisses misses in a row only the SDK seems to succeed (because it corrects
	// a wrong clock, for example). Then bulkClient tries one call in retryMisses.
	mostMisses  = 8
	retryMisses = 64
)

// usable reports whether to try a call here before the SDK.
func (c *bulkClient) usable() bool {
	return c != nil && (c.misses.Load() < mostMisses || c.calls.Add(1)%retryMisses == 0)
}

func (c *bulkClient) batchWrite(ctx context.Context, writes []table.BatchWrite) (reply batchReply, err error) {
	err = c.call(ctx, "BatchWriteItem", appendBatchWrite(nil, c.name, writes), func(text string) error {
		reply, err = decodeBatchWrite(text, c.name)
		return err
	})
	return reply, err
}

// query asks for one page of q, which is in.
func (c *bulkClient) query(ctx context.Context, in *dynamodb.QueryInput, q table.Query) (reply queryReply, err error) {
	body, err := appendQuery(nil, in)
	if err != nil {
		return reply, err
	}
	err = c.call(ctx, "Query", body, func(text string) error {
		reply, err = decodeQuery(text, c.name, q)
		return err
	})
	return reply, err
}

// call makes a call and counts it if it failed in vain.
func (c *bulkClient) call(ctx context.Context, op string, body []byte, read func(text string) error) error {
	text, err := c.send(ctx, op, body)
	if err == nil {
		err = read(text)
	}
	switch {
	case err == nil && c.misses.Load() != 0:
		c.misses.Store(0)
	case err != nil && ctx.Err() == nil && !throttled(err):
		c.misses.Add(1)
	}
	return err
}

// send sends a request once and returns the text of a good reply.
func (c *bulkClient) send(ctx context.Context, op string, body []byte) (string, error) {
	req, err := c.request(ctx, op, body)
	if err != nil {
		return "", err
	}
	res, err := c.opt.HTTPClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := readAll(res) // a body that is not read to its end costs the connection
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", refusal(text)
	}
	sum := res.Header.Get("X-Amz-Crc32")
	if res.Header.Get("Content-Encoding") != "" ||
		sum != "" && !c.opt.DisableValidateResponseChecksum && sum != strconv.FormatUint(uint64(crc32.ChecksumIEEE(text)), 10) {
		return "", errUnreadable
	}
	return string(text), nil
}

// maxReply is above the largest reply of DynamoDB, 16 MB.
const maxReply = 32 << 20

// readAll reads the body of a reply. DynamoDB says its length, emulators need not.
func readAll(res *http.Response) ([]byte, error) {
	if res.ContentLength < 0 || res.ContentLength > maxReply {
		return io.ReadAll(io.LimitReader(res.Body, maxReply))
	}
	text := make([]byte, res.ContentLength)
	_, err := io.ReadFull(res.Body, text)
	return text, err
}

// refusal returns the error that the text of an error reply means. The caller has to
// know of a lack of capacity; all other errors are the SDK's to read.
func refusal(text []byte) error {
	var reply struct {
		Type string `json:"__type"` //nolint:tagliatelle // DynamoDB's name
	}
	if json.Unmarshal(text, &reply) != nil {
		return errUnreadable
	}
	_, code, _ := strings.Cut(reply.Type, "#")
	if err := (&smithy.GenericAPIError{Code: code, Message: "no capacity"}); throttled(err) {
		return err
	}
	return errUnreadable
}

// endpoint is the address of the requests of one account, and the scope that they are
// signed for.
type endpoint struct {
	account         string
	url             url.URL
	header          http.Header
	service, region string
}

// endpointOf returns the endpoint for an account. It is resolved once: newBulkClient takes
// only the SDK's own resolver, whose answer depends on nothing else.
func (c *bulkClient) endpointOf(ctx context.Context, account string) (*endpoint, error) {
	if e := c.resolved.Load(); e != nil && e.account == account {
		return e, nil
	}
	params := dynamodb.EndpointParameters{
		Region: &c.opt.Region, Endpoint: c.opt.BaseEndpoint, ResourceArn: &c.name,
		UseDualStack:          aws.Bool(c.opt.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled),
		UseFIPS:               aws.Bool(c.opt.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled),
		AccountIdEndpointMode: aws.String(string(c.opt.AccountIDEndpointMode)),
	}
	switch {
	case c.opt.AccountIDEndpointMode == aws.AccountIDEndpointModeDisabled:
	case account != "":
		params.AccountId = &account
	case c.opt.AccountIDEndpointMode == aws.AccountIDEndpointModeRequired:
		return nil, errors.New("the endpoint needs an account id, and the credentials have none")
	}
	answer, err := c.opt.EndpointResolverV2.ResolveEndpoint(ctx, params)
	if err != nil {
		return nil, err
	}
	e := &endpoint{account: account, url: answer.URI, header: answer.Headers, service: "dynamodb", region: c.opt.Region}
	e.url.Path = smithyhttp.JoinPath(e.url.Path, "/")
	schemes, _ := smithyauth.GetAuthOptions(&answer.Properties)
	for _, scheme := range schemes { // the endpoint of DynamoDB Local names a region of its own
		if service, ok := smithyhttp.GetSigV4SigningName(&scheme.SignerProperties); ok {
			e.service = service
		}
		if region, ok := smithyhttp.GetSigV4SigningRegion(&scheme.SignerProperties); ok {
			e.region = region
		}
	}
	c.resolved.Store(e)
	return e, nil
}

// request returns a signed request.
func (c *bulkClient) request(ctx context.Context, op string, body []byte) (*http.Request, error) {
	credentials, err := c.opt.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	e, err := c.endpointOf(ctx, credentials.AccountID)
	if err != nil {
		return nil, err
	}
	header := http.Header{
		"Accept-Encoding": {"identity"}, // the checksum is that of the body as it is sent
		"Content-Type":    {"application/x-amz-json-1.0"},
		"User-Agent":      {"fanfare"},
		"X-Amz-Target":    {"DynamoDB_20120810." + op},
	}
	maps.Copy(header, e.header)
	target := e.url // the signer changes it
	// net/http sends head and body in one piece because it knows this type of body.
	newBody := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req := (&http.Request{
		Method: http.MethodPost, URL: &target, Host: target.Host, Header: header, ContentLength: int64(len(body)), GetBody: newBody,
	}).WithContext(ctx)
	req.Body, _ = newBody()
	sum := sha256.Sum256(body)
	err = c.opt.HTTPSignerV4.SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), e.service, e.region, time.Now())
	return req, err
}
