// Package sqstest is Amazon SQS in memory for the real SDK. The tests of queue/sqs and of the
// daemon use it, and so do benchmarks. A Server implements the awsjson protocol as an HTTP
// client (in virtual time, too) or as an HTTP handler. Messages have receive counts, receipts
// and visibility timeouts as on SQS, and each request can fail as SQS or the network fail. A
// queue exists from its first use on. The settings of a queue have no effect.
//
// The product must never import the package.
package sqstest

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing/iotest"
	"time"

	wsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"fanfare/internal/backoff"
)

// defaultVisibility is SQS's visibility timeout for receives that set no timeout.
const defaultVisibility = 30 * time.Second

// Server is an SQS in memory. It implements aws.HTTPClient and http.Handler.
type Server struct {
	latency time.Duration

	mu       sync.Mutex
	queues   map[string]*fifo
	requests map[string]int
	full     int
	hurried  bool
	fault    func(op string) *Fault
	settings map[string]map[string]string // by the name of the queue
}

// New returns a server without messages. Each request takes at least latency.
func New(latency time.Duration) *Server {
	return &Server{latency: latency, queues: map[string]*fifo{}, requests: map[string]int{}, settings: map[string]map[string]string{}}
}

// Hurry ends the waits of receives: if the queue has no message, a receive returns at once. A test in real time
// calls it if the waits prove nothing.
func (s *Server) Hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurried = true
}

// Set changes a setting of a queue.
func (s *Server) Set(name, attribute, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(name, map[string]string{attribute: value})
}

// set changes settings of a queue. The caller holds mu.
func (s *Server) set(name string, attributes map[string]string) {
	if s.settings[name] == nil {
		s.settings[name] = map[string]string{}
	}
	maps.Copy(s.settings[name], attributes)
}

// Client returns a client of the real SDK that uses an HTTP client, which may be a Server.
func Client(over aws.HTTPClient) *sqs.Client {
	return sqs.NewFromConfig(aws.Config{
		Region: "us-east-1", HTTPClient: over, BaseEndpoint: aws.String("http://fake"),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// Load puts a message into the queue without a request.
func (s *Server) Load(name string, msg *message.Message) error {
	m, err := wsqs.DefaultMarshalerUnmarshaler{}.Marshal(msg)
	if err != nil {
		return err
	}
	attributes, err := json.Marshal(m.MessageAttributes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(name)
	defer q.wake()
	_, err = q.send(&entry{MessageBody: aws.ToString(m.Body), MessageAttributes: attributes})
	return err
}

// Requests returns the number of requests so far, by operation.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// FullReceives returns the number of receives that returned messages.
func (s *Server) FullReceives() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full
}

// Len returns the number of messages of a queue.
func (s *Server) Len(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue(name).len()
}

// Visible returns the number of messages of a queue that may be received now.
func (s *Server) Visible(name string) int {
	visible, _, _ := s.States(name)
	return visible
}

// States returns the numbers of messages of a queue that may be received now, are in flight, and are delayed.
func (s *Server) States(name string) (visible, inFlight, delayed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(name)
	q.show(time.Now())
	return q.visible(), len(q.hidden), len(q.delayed)
}

// Removed returns the number of messages of a queue that were deleted so far.
func (s *Server) Removed(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue(name).removed
}

// Groups returns the group ids of the messages of a queue that may be received now.
func (s *Server) Groups(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(name)
	q.show(time.Now())
	var groups []string
	for _, l := range []*list.List{q.ready, q.loud} {
		for e := l.Front(); e != nil; e = e.Next() {
			groups = append(groups, e.Value.(*stored).group)
		}
	}
	return groups
}

// Idle reports whether all messages were deleted.
func (s *Server) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		if q.len() > 0 {
			return false
		}
	}
	return true
}

// queue returns a queue, and creates it at its first use. The caller holds mu.
func (s *Server) queue(name string) *fifo {
	q := s.queues[name]
	if q == nil {
		q = newFIFO()
		s.queues[name] = q
	}
	return q
}

// These types have the fields of requests and replies that the product and watermill-aws use.
type (
	request struct {
		entry
		QueueName           string
		Attributes          map[string]string
		QueueURL            string `json:"QueueUrl"`
		Entries             []entry
		MaxNumberOfMessages int
		WaitTimeSeconds     int
	}
	entry struct {
		ID                string `json:"Id"`
		MessageBody       string
		MessageAttributes json.RawMessage
		MessageGroupID    string `json:"MessageGroupId"`
		ReceiptHandle     string
		VisibilityTimeout int
		DelaySeconds      int
	}
	success struct {
		ID               string `json:"Id,omitempty"`
		MessageID        string `json:"MessageId,omitempty"`
		MD5OfMessageBody string `json:",omitempty"`
	}
	failure struct {
		ID          string `json:"Id"`
		Code        string
		SenderFault bool
		Message     string
	}
	received struct {
		MessageID         string `json:"MessageId"`
		ReceiptHandle     string
		Body              string
		MD5OfBody         string
		MessageAttributes json.RawMessage `json:",omitempty"`
		Attributes        struct {
			ApproximateReceiveCount, SentTimestamp string
			MessageGroupID                         string `json:"MessageGroupId,omitempty"`
		}
	}
)

// apiError is a refusal of a request by SQS.
type apiError struct {
	status        int
	code, message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func refused(code, format string, args ...any) error {
	return &apiError{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}

// Do implements aws.HTTPClient.
func (s *Server) Do(req *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	var in request
	text, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(text, &in)
	}
	if err != nil {
		return nil, err
	}
	ctx, fault := req.Context(), s.begin(op)
	if err := wait(ctx, s.latency+fault.Delay); err != nil {
		return nil, err
	}
	var out any
	if fault.Status != 0 {
		err = &apiError{fault.Status, fault.Code, "as planned"}
	} else {
		out, err = s.do(ctx, op, cmp.Or(req.URL.Host, req.Host), &in, fault)
	}
	status := http.StatusOK
	if e, ok := errors.AsType[*apiError](err); ok {
		status, out = e.status, map[string]string{"__type": "com.amazonaws.sqs#" + e.code, "message": e.message}
	} else if err != nil {
		return nil, err
	}
	if err := wait(ctx, fault.Hold); err != nil {
		return nil, err
	}
	if fault.Lost {
		return nil, io.ErrUnexpectedEOF
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	var body io.Reader = bytes.NewReader(data)
	if fault.Cut {
		body = io.MultiReader(bytes.NewReader(data[:len(data)/2]), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		ContentLength: int64(len(data)), Body: io.NopCloser(body),
	}, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	resp, err := s.Do(req)
	if err == nil {
		defer resp.Body.Close()
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, err = io.Copy(w, resp.Body)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // breaks the connection
	}
}

// begin counts a request and returns its fault.
func (s *Server) begin(op string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[op]++
	if s.fault != nil {
		if f := s.fault(op); f != nil {
			return *f
		}
	}
	return Fault{}
}

func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	return backoff.Wait(ctx, d)
}

// do applies the effect of a request and returns the reply. The error is an apiError, or the
// error of the context.
func (s *Server) do(ctx context.Context, op, host string, in *request, fault Fault) (any, error) {
	switch op {
	case "CreateQueue":
		s.mu.Lock()
		s.set(in.QueueName, in.Attributes)
		s.mu.Unlock()
		fallthrough
	case "GetQueueUrl":
		return map[string]string{"QueueUrl": "http://" + host + "/000000000000/" + in.QueueName}, nil
	}
	name := in.QueueURL[strings.LastIndexByte(in.QueueURL, '/')+1:]
	if op == "ReceiveMessage" {
		return s.receive(ctx, name, in)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(name)
	q.show(time.Now())
	if op == "GetQueueAttributes" {
		attributes := map[string]string{
			"ApproximateNumberOfMessages": strconv.Itoa(q.visible()), "ApproximateNumberOfMessagesNotVisible": strconv.Itoa(len(q.hidden)),
			"ApproximateNumberOfMessagesDelayed": strconv.Itoa(len(q.delayed)), "QueueArn": "arn:fake:" + name,
		}
		maps.Copy(attributes, s.settings[name])
		return map[string]any{"Attributes": attributes}, nil
	}
	single, isBatch := strings.CutSuffix(op, "Batch")
	var effect func(*entry) (success, error)
	switch single {
	case "SendMessage":
		effect = q.send
		defer q.wake()
	case "DeleteMessage":
		effect = q.remove
	case "ChangeMessageVisibility":
		effect = q.hide
		defer q.wake()
	default:
		return nil, refused("InvalidAction", "the fake does not know %s", op)
	}
	if !isBatch {
		return effect(&in.entry)
	}
	return batch(in.Entries, effect, fault)
}

// batch calls effect for each entry. The fault makes some entries fail, or omits them from the reply.
func batch(entries []entry, effect func(*entry) (success, error), fault Fault) (any, error) {
	size := 0
	for i := range entries {
		size += len(entries[i].MessageBody)
	}
	switch {
	case len(entries) == 0:
		return nil, refused("EmptyBatchRequest", "no entries")
	case len(entries) > 10:
		return nil, refused("TooManyEntriesInBatchRequest", "%d entries", len(entries))
	case size > 1<<20:
		return nil, refused("BatchRequestTooLong", "%d bytes", size)
	}
	out := struct {
		Successful []success
		Failed     []failure `json:",omitempty"`
	}{Successful: make([]success, 0, len(entries))}
	for i := range entries {
		e := &entries[i]
		if f, ok := fault.Entries[e.ID]; ok {
			if f.Code != "" {
				out.Failed = append(out.Failed, failure{e.ID, f.Code, f.Sender, "as planned"})
			}
			continue
		}
		done, err := effect(e)
		if refusal, ok := errors.AsType[*apiError](err); ok {
			out.Failed = append(out.Failed, failure{e.ID, refusal.code, true, refusal.message})
			continue
		}
		done.ID = e.ID
		out.Successful = append(out.Successful, done)
	}
	return out, nil
}

// receive makes a long poll. If the client of a poll has left, the poll takes no messages.
func (s *Server) receive(ctx context.Context, name string, in *request) (any, error) {
	type reply struct{ Messages []received }
	visibility := defaultVisibility
	if in.VisibilityTimeout > 0 {
		visibility = time.Duration(in.VisibilityTimeout) * time.Second
	}
	until := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.mu.Lock()
		q, now := s.queue(name), time.Now()
		got := q.receive(now, max(1, in.MaxNumberOfMessages), visibility)
		arrived, next, over := q.arrived, q.next(until), s.hurried || !now.Before(until)
		if len(got) > 0 {
			s.full++
		}
		s.mu.Unlock()
		if len(got) > 0 || over {
			return reply{got}, nil
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-arrived:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
