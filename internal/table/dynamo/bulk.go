package dynamo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"fanfare/internal/table"
)

// byHand makes the two calls that a fan-out consists of, BatchWriteItem and Query,
// without the SDK's middleware, which costs several times the rest. It makes one
// try and takes only the answer that is hoped for. Whatever else comes (an error, a
// lost connection, a reply that it cannot read) is an error here, and the caller
// has the SDK make the call: both calls may be made twice. So retry classes, error
// types and the odd cases are the SDK's own.
//
// What a request looks like it learns from the SDK, which makes one of each kind
// into a recorder: the endpoint, however it was resolved, the headers, and whom to
// sign it for. Credentials and signer are the SDK's, too.
type byHand struct {
	opt dynamodb.Options
	// client is a quicker one than the SDK's, if that knows of one (direct). It has
	// read a request when it returns.
	client aws.HTTPClient
	direct bool
	name   string
	models [2]atomic.Pointer[model]
	// misses is how many calls in a row failed that need not have, calls how many were
	// asked for since they are too many.
	misses, calls atomic.Int32
	// requests holds *request, replies *[]byte.
	requests, replies sync.Pool
}

// request is the memory of a request.
type request struct {
	text   []byte
	body   bytes.Reader
	url    url.URL
	header http.Header
	model  *model // whose headers header has
}

// call is a kind of call that can be made by hand.
type call int

const (
	callBatchWrite call = iota
	callQuery
)

// model is what all requests of one kind have in common.
type model struct {
	// key and account are those of the credentials that it was made with: they
	// may decide about the endpoint.
	key, account    string
	url             url.URL
	header          http.Header
	service, region string
}

// newByHand returns nil if the client is set up in a way that only the SDK knows
// how to honour.
func newByHand(opt dynamodb.Options, name string) *byHand {
	if len(opt.APIOptions) > 0 || opt.ClientLogMode != 0 || opt.Credentials == nil || opt.EnableAcceptEncodingGzip ||
		opt.EndpointDiscovery.EnableEndpointDiscovery == aws.EndpointDiscoveryEnabled ||
		intercepted(opt) {
		return nil
	}
	h := &byHand{opt: opt, client: opt.HTTPClient, name: name}
	if d, ok := opt.HTTPClient.(interface{ Direct() aws.HTTPClient }); ok {
		if client := d.Direct(); client != nil {
			h.client, h.direct = client, true
		}
	}
	h.requests.New = func() any { return new(request) }
	h.replies.New = func() any { return new([]byte) }
	return h
}

const (
	// mostMisses calls in a row that only the SDK could make (its clock is right and
	// ours is not, say) are taken for a sign that it has to make them all. Then one in
	// retryMisses is tried.
	mostMisses  = 8
	retryMisses = 64
)

// usable tells whether to make a call by hand.
func (h *byHand) usable() bool {
	return h != nil && (h.misses.Load() < mostMisses || h.calls.Add(1)%retryMisses == 0)
}

// intercepted tells whether interceptors of any kind are to see the calls.
func intercepted(opt dynamodb.Options) bool {
	for _, list := range reflect.ValueOf(opt.Interceptors).Fields() {
		if list.Len() > 0 {
			return true
		}
	}
	return false
}

func (h *byHand) batchWrite(ctx context.Context, writes []table.BatchWrite) (reply batchReply, err error) {
	r := h.requests.Get().(*request)
	defer h.done(r)
	r.text = appendBatchWrite(r.text[:0], h.name, writes)
	err = h.do(ctx, callBatchWrite, r, func(text []byte) error {
		reply, err = parseBatchWrite(text, h.name)
		return err
	})
	return reply, err
}

func (h *byHand) query(ctx context.Context, in *dynamodb.QueryInput) (reply queryReply, err error) {
	r := h.requests.Get().(*request)
	defer h.done(r)
	if r.text, err = appendQuery(r.text[:0], in); err != nil {
		return reply, err
	}
	err = h.do(ctx, callQuery, r, func(text []byte) error {
		reply, err = parseQuery(text)
		return err
	})
	return reply, err
}

// done takes the memory of a request back, but what net/http has: that may still be
// sending a request whose answer it has returned.
func (h *byHand) done(r *request) {
	if h.direct {
		h.requests.Put(r)
	}
}

// do sends what r has as text and has a good reply read, whose text is not valid any
// longer.
func (h *byHand) do(ctx context.Context, kind call, r *request, read func(text []byte) error) error {
	err := h.try(ctx, kind, r, read)
	switch {
	case err == nil:
		if h.misses.Load() != 0 {
			h.misses.Store(0)
		}
	case ctx.Err() == nil && !throttled(err):
		h.misses.Add(1)
	}
	return err
}

func (h *byHand) try(ctx context.Context, kind call, r *request, read func(text []byte) error) error {
	req, err := h.sign(ctx, kind, r)
	if err != nil {
		return err
	}
	res, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Encoding") != "" {
		// What is left unread costs the connection. Errors are short.
		text, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
		if err != nil {
			return err
		}
		return refusal(text)
	}
	reply := h.replies.Get().(*[]byte)
	defer h.replies.Put(reply)
	if *reply, err = readAll((*reply)[:0], res); err != nil {
		return err
	}
	if sum := res.Header.Get("X-Amz-Crc32"); sum != "" && !h.opt.DisableValidateResponseChecksum &&
		sum != strconv.FormatUint(uint64(crc32.ChecksumIEEE(*reply)), 10) {
		return errUnusual
	}
	return read(*reply)
}

// refusal reads an error reply: a caller wants to know of lacking capacity, all else is
// the SDK's to read.
func refusal(text []byte) error {
	var said struct {
		Type string `json:"__type"`
	}
	if json.Unmarshal(text, &said) != nil {
		return errUnusual
	}
	_, code, _ := strings.Cut(said.Type, "#")
	if err := (&smithy.GenericAPIError{Code: code, Message: "by hand"}); throttled(err) {
		return err
	}
	return errUnusual
}

// maxReply is above the largest reply of DynamoDB, 16 MB.
const maxReply = 32 << 20

// readAll reads the body of a reply into b.
func readAll(b []byte, res *http.Response) ([]byte, error) {
	n := res.ContentLength
	switch {
	case n > maxReply:
		return b, errUnusual
	case n < 0: // DynamoDB says how long its replies are, emulators need not
		all := bytes.NewBuffer(b)
		_, err := all.ReadFrom(io.LimitReader(res.Body, maxReply))
		return all.Bytes(), err
	}
	b = slices.Grow(b, int(n))[:n]
	_, err := io.ReadFull(res.Body, b)
	return b, err
}

// sign makes a signed request of r's text.
func (h *byHand) sign(ctx context.Context, kind call, r *request) (*http.Request, error) {
	credentials, err := h.opt.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	m := h.models[kind].Load()
	if m == nil || m.key != credentials.AccessKeyID || m.account != credentials.AccountID {
		if m, err = h.learn(ctx, kind, credentials); err != nil {
			return nil, err
		}
		h.models[kind].Store(m)
	}
	if r.model != m {
		r.model, r.header = m, make(http.Header, len(m.header)+3)
		for name, values := range m.header {
			r.header[name] = slices.Clone(values)
		}
	}
	delete(r.header, "X-Amz-Security-Token") // the signer replaces the others that it sets
	r.url = m.url                            // it may change that
	r.body.Reset(r.text)
	req := (&http.Request{
		Method: http.MethodPost, URL: &r.url, Host: r.url.Host, Header: r.header, ContentLength: int64(len(r.text)),
		Body: io.NopCloser(&r.body), // net/http sends head and body in one piece if it knows this type
	}).WithContext(ctx)
	if !h.direct { // which never sends it again
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.text)), nil }
	}
	sum := sha256.Sum256(r.text)
	err = h.opt.HTTPSignerV4.SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), m.service, m.region, time.Now())
	return req, err
}

// learn has the SDK make a request of a kind, which is recorded instead of sent.
func (h *byHand) learn(ctx context.Context, kind call, credentials aws.Credentials) (*model, error) {
	var recorder recorder
	client := dynamodb.New(h.opt, func(o *dynamodb.Options) {
		o.HTTPClient, o.Retryer = &recorder, aws.NopRetryer{}
	})
	var err error
	key := map[string]types.AttributeValue{table.AttrPK: &types.AttributeValueMemberS{Value: "p"}}
	switch kind {
	case callBatchWrite:
		_, err = client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
			h.name: {{PutRequest: &types.PutRequest{Item: key}}},
		}})
	case callQuery:
		_, err = client.Query(ctx, &dynamodb.QueryInput{TableName: &h.name, ExpressionAttributeValues: key})
	}
	if err != nil {
		return nil, fmt.Errorf("learn what a request looks like: %w", err)
	}
	return newModel(recorder.req, credentials)
}

// newModel takes from a request what all of its kind have in common.
func newModel(req *http.Request, credentials aws.Credentials) (*model, error) {
	m := &model{key: credentials.AccessKeyID, account: credentials.AccountID, url: *req.URL, header: req.Header.Clone()}
	// AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/SERVICE/aws4_request, ...
	scope, isV4 := strings.CutPrefix(req.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="+credentials.AccessKeyID+"/")
	scope, _, _ = strings.Cut(scope, ",")
	parts := strings.Split(scope, "/")
	host := req.URL.Host
	if port := req.URL.Port(); req.URL.Scheme == "https" && port == "443" || req.URL.Scheme == "http" && port == "80" {
		host = req.URL.Hostname() // the signer has taken the port away
	}
	if !isV4 || len(parts) != 4 || (req.Host != "" && req.Host != req.URL.Host && req.Host != host) {
		return nil, errUnusual
	}
	m.region, m.service = parts[1], parts[2]
	for _, name := range []string{
		"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "Content-Length",
		// They tell tries of one call apart, for AWS's own statistics.
		"Amz-Sdk-Invocation-Id", "Amz-Sdk-Request",
	} {
		m.header.Del(name)
	}
	return m, nil
}

// recorder is an HTTP client that sends nothing.
type recorder struct{ req *http.Request }

// Do implements aws.HTTPClient.
func (r *recorder) Do(req *http.Request) (*http.Response, error) {
	r.req = req.Clone(req.Context())
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: req,
	}, nil
}
