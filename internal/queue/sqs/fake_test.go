package sqs_test

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // SQS's checksum of a body
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"fanfare/internal/queue"
	"fanfare/internal/queue/queuetest"
	"fanfare/internal/queue/sqs"
)

// fake is SQS under the real SDK: its HTTP client. It speaks the awsjson protocol
// and can fail in each way that SQS and the network do.
type fake struct {
	mu       sync.Mutex
	changed  chan struct{} // closed when messages may have become visible
	queues   map[string]*fakeQueue
	requests map[string]int
	number   int
	// latency is how long each request takes.
	latency time.Duration
	// fault decides what goes wrong with a request of an operation; nil: nothing.
	fault func(op string) *fault
}

// fault is one way to fail.
type fault struct {
	// status and code refuse the request, which has no effect.
	status int
	code   string
	// cut lets the request have its effect and cuts the reply; lost sends none.
	cut, lost bool
	// entries fails entries of a batch, by their id, which have no effect.
	entries map[string]entryFault
	// silent are the ids of entries of a batch that have no effect and that the
	// reply leaves out.
	silent []string
	// delay comes on top of the latency, before the effect.
	delay time.Duration
	// hold comes after the effect, before the reply.
	hold time.Duration
}

type entryFault struct {
	code   string
	sender bool
}

// fakeQueue finds messages fast, so that benchmarks measure the transport.
type fakeQueue struct {
	messages  []*fakeMessage
	byReceipt map[string]*fakeMessage
	// from is below the first message that may be visible.
	from, live int
}

type fakeMessage struct {
	id, body, group, receipt string
	attributes               json.RawMessage
	visible                  time.Time
	receives                 int
	gone                     bool
}

func newFake() *fake {
	f := &fake{changed: make(chan struct{}), queues: map[string]*fakeQueue{}, requests: map[string]int{}}
	for _, topic := range queue.Topics() {
		for _, suffix := range []string{"", "-dlq"} {
			f.queues["test-"+topic+suffix] = &fakeQueue{byReceipt: map[string]*fakeMessage{}}
		}
	}
	return f
}

// open returns a Broker on f.
func (f *fake) open(t *testing.T, o sqs.Options) *sqs.Broker {
	t.Helper()
	o.Prefix = "test"
	b := sqs.New(clientOn(f), o)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// clientOn returns the real SDK's client over an HTTP client.
func clientOn(inner aws.HTTPClient) *awssqs.Client {
	return awssqs.NewFromConfig(aws.Config{
		Region: "us-east-1", HTTPClient: inner, BaseEndpoint: aws.String("http://fake"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
}

func (f *fake) setFault(fault func(op string) *fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// once fails the first request of an operation.
func (f *fake) once(op string, what fault) { f.nth(1, op, what) }

// nth fails the request of an operation with this number, from now.
func (f *fake) nth(number int, op string, what fault) {
	n := 0
	f.setFault(func(got string) *fault {
		if got == op {
			n++
		}
		if got != op || n != number {
			return nil
		}
		return &what
	})
}

func (f *fake) counted() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.requests)
}

func (f *fake) resetCounts() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.requests)
}

func (f *fake) length(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queues[name].live
}

// Do implements aws.HTTPClient.
func (f *fake) Do(req *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.requests[op]++
	what := fault{}
	if f.fault != nil {
		if chosen := f.fault(op); chosen != nil {
			what = *chosen
		}
	}
	latency := f.latency
	f.mu.Unlock()
	if err := wait(req.Context(), latency+what.delay); err != nil {
		return nil, err
	}
	if what.status != 0 {
		return reply(what.status, map[string]string{"__type": "com.amazonaws.sqs#" + what.code, "message": "as planned"}, false)
	}
	out, status, err := f.handle(req.Context(), op, body, what)
	if err != nil {
		return nil, err
	}
	if err := wait(req.Context(), what.hold); err != nil {
		return nil, err
	}
	if what.lost {
		return nil, io.ErrUnexpectedEOF
	}
	return reply(status, out, what.cut)
}

func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func reply(status int, body any, cut bool) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	resp := &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, ContentLength: int64(len(data)),
		Body: io.NopCloser(bytes.NewReader(data)),
	}
	if cut {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(data[:len(data)/2]), broken{}))
	}
	return resp, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// input has the fields of all requests that we use.
type input struct {
	QueueName string
	QueueURL  string `json:"QueueUrl"`
	Entries   []struct {
		ID                string `json:"Id"`
		MessageBody       string
		MessageAttributes json.RawMessage
		MessageGroupID    string `json:"MessageGroupId"`
		ReceiptHandle     string
		VisibilityTimeout int
	}
	MaxNumberOfMessages, VisibilityTimeout, WaitTimeSeconds int
	Attributes                                              map[string]string
}

type entryReply struct {
	ID               string `json:"Id"`
	MessageID        string `json:"MessageId,omitempty"`
	MD5OfMessageBody string `json:",omitempty"`
	Code             string `json:",omitempty"`
	SenderFault      bool   `json:",omitempty"`
	Message          string `json:",omitempty"`
}

func checksum(body string) string {
	sum := md5.Sum([]byte(body)) //nolint:gosec // SQS's checksum of a body
	return hex.EncodeToString(sum[:])
}

func (f *fake) handle(ctx context.Context, op string, body []byte, what fault) (any, int, error) {
	var in input
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, 0, err
	}
	name := in.QueueName
	if name == "" {
		name = strings.TrimPrefix(in.QueueURL, "http://fake/000000000000/")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	q, ok := f.queues[name]
	if !ok {
		return map[string]string{"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": name}, http.StatusBadRequest, nil
	}
	switch op {
	case "GetQueueUrl":
		return map[string]string{"QueueUrl": "http://fake/000000000000/" + name}, http.StatusOK, nil
	case "GetQueueAttributes":
		return map[string]any{"Attributes": q.counts()}, http.StatusOK, nil
	case "ReceiveMessage":
		messages, err := f.receive(ctx, q, in)
		return map[string]any{"Messages": messages}, http.StatusOK, err
	case "SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch":
		return f.batch(op, q, in, what)
	}
	return nil, 0, fmt.Errorf("operation %q is not faked", op)
}

func (q *fakeQueue) counts() map[string]string {
	visible := 0
	for _, m := range q.messages {
		if !m.gone && !m.visible.After(time.Now()) {
			visible++
		}
	}
	return map[string]string{
		"ApproximateNumberOfMessages":           strconv.Itoa(visible),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(q.live - visible),
		"ApproximateNumberOfMessagesDelayed":    "0", "QueueArn": "arn:fake",
	}
}

// receive is a long poll. It holds mu except while it waits. A poll that its client
// has left takes no messages.
func (f *fake) receive(ctx context.Context, q *fakeQueue, in input) ([]map[string]any, error) {
	until := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
	for {
		var out []map[string]any
		next := until
		for q.from < len(q.messages) && q.messages[q.from].gone {
			q.from++
		}
		now := time.Now()
		for _, m := range q.messages[q.from:] {
			if m.gone {
				continue
			}
			if m.visible.After(now) {
				if m.visible.Before(next) {
					next = m.visible
				}
				continue
			}
			if len(out) == in.MaxNumberOfMessages {
				break
			}
			f.number++
			m.receives++
			delete(q.byReceipt, m.receipt)
			m.receipt = fmt.Sprint("receipt-", f.number)
			q.byReceipt[m.receipt] = m
			m.visible = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
			out = append(out, map[string]any{
				"MessageId": m.id, "ReceiptHandle": m.receipt, "Body": m.body, "MD5OfBody": checksum(m.body),
				"MessageAttributes": m.attributes,
				"Attributes":        map[string]string{"ApproximateReceiveCount": strconv.Itoa(m.receives)},
			})
		}
		if len(out) > 0 || !time.Now().Before(until) {
			return out, nil
		}
		changed := f.changed
		f.mu.Unlock()
		timer := time.NewTimer(time.Until(next))
		var err error
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
		f.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
}

func (f *fake) batch(op string, q *fakeQueue, in input, what fault) (any, int, error) {
	if n := len(in.Entries); n == 0 || n > 10 {
		return nil, 0, fmt.Errorf("%s of %d entries", op, n)
	}
	var succeeded, failed []entryReply
	size := 0
	for _, e := range in.Entries {
		size += len(e.MessageBody) + len(e.MessageAttributes)
		if bad, ok := what.entries[e.ID]; ok {
			failed = append(failed, entryReply{ID: e.ID, Code: bad.code, SenderFault: bad.sender, Message: "as planned"})
			continue
		}
		if slices.Contains(what.silent, e.ID) {
			continue
		}
		ok := entryReply{ID: e.ID}
		if op == "SendMessageBatch" {
			f.number++
			m := &fakeMessage{
				id: fmt.Sprint("message-", f.number), body: e.MessageBody, group: e.MessageGroupID, attributes: e.MessageAttributes,
			}
			q.messages = append(q.messages, m)
			q.live++
			ok.MessageID, ok.MD5OfMessageBody = m.id, checksum(m.body)
		} else if err := q.answer(op, e.ReceiptHandle, e.VisibilityTimeout); err != nil {
			failed = append(failed, entryReply{ID: e.ID, Code: err.Error(), SenderFault: true, Message: "no such receipt"})
			continue
		}
		succeeded = append(succeeded, ok)
	}
	close(f.changed)
	f.changed = make(chan struct{})
	if op == "SendMessageBatch" && size > 3<<20 { // attributes are counted with their JSON here
		return nil, 0, fmt.Errorf("a batch of %d bytes", size)
	}
	return map[string]any{"Successful": succeeded, "Failed": failed}, http.StatusOK, nil
}

func (q *fakeQueue) answer(op, receipt string, seconds int) error {
	m, ok := q.byReceipt[receipt]
	switch {
	case !ok:
		return errors.New("ReceiptHandleIsInvalid")
	case op == "DeleteMessageBatch":
		delete(q.byReceipt, receipt)
		m.gone = true
		q.live--
	case !m.visible.After(time.Now()):
		return errors.New("MessageNotInflight")
	default:
		m.visible = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	return nil
}

// process is the HTTP client of one broker, which a crash cuts off.
type process struct {
	inner aws.HTTPClient
	dead  chan struct{}
}

func (p *process) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel() // the fake's bodies are in memory
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		select {
		case <-p.dead:
			cancel()
		case <-gone:
		}
	}()
	select {
	case <-p.dead:
		return nil, errors.New("the process is dead")
	default:
		return p.inner.Do(req.WithContext(ctx))
	}
}

func TestBrokerKeepsTheContractOnTheFake(t *testing.T) {
	queuetest.Run(t, func(*testing.T) queuetest.Backend {
		f := newFake()
		var mu sync.Mutex
		processes := map[queue.Broker]*process{}
		return queuetest.Backend{
			Open: func(t *testing.T, o queuetest.Options) queue.Broker {
				t.Helper()
				options := sqs.Options{Prefix: "test", Visibility: o.Visibility, PollWait: time.Second}
				if o.MaxInFlight > 0 {
					options.MaxInFlight = map[string]int{queue.TopicPosts: o.MaxInFlight}
				}
				p := &process{inner: f, dead: make(chan struct{})}
				b := sqs.New(clientOn(p), options)
				mu.Lock()
				processes[b] = p
				mu.Unlock()
				t.Cleanup(func() {
					if err := b.Close(); err != nil {
						t.Error(err)
					}
				})
				return b
			},
			Crash: func(_ *testing.T, b queue.Broker) {
				mu.Lock()
				defer mu.Unlock()
				close(processes[b].dead)
			},
		}
	})
}
