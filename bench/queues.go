package bench

import (
	"container/list"
	"context"
	"crypto/md5" //nolint:gosec // the wire format asks for it
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	wsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"fanfare/internal/awsclient"
)

// queues is a stand-in for SQS on a loopback port: it keeps messages in memory and
// answers after a latency. Visibility timeouts do not run out, no more than a
// benchmark needs. It counts requests.
type queues struct {
	latency  time.Duration
	url      string
	server   *http.Server
	serving  sync.WaitGroup
	serveErr error

	mu       sync.Mutex
	wake     chan struct{} // closed when messages come
	byName   map[string]*standQueue
	requests requestCounts
	// empty counts the long polls that found nothing.
	empty    int64
	receipts int64
}

type standQueue struct {
	ready *list.List // of *standMessage
	out   map[string]*standMessage
}

type standMessage struct {
	id, body   string
	attributes json.RawMessage
	receives   int
}

// requestCounts counts requests by action, but for receives that found nothing.
type requestCounts map[string]int64

func (c requestCounts) total() (n int64) {
	for _, v := range c {
		n += v
	}
	return n
}

func (c requestCounts) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%d %s", c[name], name))
	}
	return strings.Join(parts, ", ")
}

func startQueues(latency time.Duration) (*queues, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		return nil, err
	}
	q := &queues{
		latency: latency, url: "http://" + listener.Addr().String(), wake: make(chan struct{}),
		byName: map[string]*standQueue{}, requests: requestCounts{},
	}
	q.server = &http.Server{Handler: q, ReadHeaderTimeout: time.Minute}
	q.serving.Go(func() {
		if err := q.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			q.serveErr = err
		}
	})
	return q, nil
}

func (q *queues) stop() error {
	err := q.server.Close()
	q.serving.Wait()
	return errors.Join(err, q.serveErr)
}

// client returns a client of the stand-in with the product's HTTP client, over at
// most conns connections.
func (q *queues) client(ctx context.Context, conns int) (*awssqs.Client, error) {
	cfg, err := standInConfig(ctx, q.url, conns)
	if err != nil {
		return nil, err
	}
	return awssqs.NewFromConfig(cfg), nil
}

func standInConfig(ctx context.Context, url string, conns int) (aws.Config, error) {
	return awsclient.Load(ctx,
		config.WithRegion("us-east-1"), config.WithBaseEndpoint(url),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("bench", "bench", "")),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
			tr.MaxConnsPerHost, tr.MaxIdleConnsPerHost, tr.MaxIdleConns = conns, conns, 0
		})),
	)
}

// counts returns the requests so far.
func (q *queues) counts() requestCounts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.requests)
}

// emptyPolls returns how many receives have found nothing.
func (q *queues) emptyPolls() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.empty
}

// idle tells whether all messages were deleted.
func (q *queues) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.byName {
		if s.ready.Len()+len(s.out) > 0 {
			return false
		}
	}
	return true
}

// The requests and replies of SQS's JSON protocol, as far as they are used.
type (
	queueRequest struct {
		QueueName           string
		QueueUrl            string
		MessageBody         string
		MessageAttributes   json.RawMessage
		ReceiptHandle       string
		VisibilityTimeout   int
		MaxNumberOfMessages int
		WaitTimeSeconds     int
		Entries             []queueEntry
	}
	queueEntry struct {
		Id                string
		MessageBody       string
		MessageAttributes json.RawMessage
		ReceiptHandle     string
		VisibilityTimeout int
	}
	queueDone struct {
		Id               string `json:",omitempty"`
		MessageId        string `json:",omitempty"`
		MD5OfMessageBody string `json:",omitempty"`
	}
	queueMessage struct {
		MessageId, ReceiptHandle, Body, MD5OfBody string
		Attributes                                map[string]string
		MessageAttributes                         json.RawMessage `json:",omitempty"`
	}
)

// ServeHTTP implements http.Handler.
func (q *queues) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in queueRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var due <-chan time.Time
	if q.latency > 0 {
		due = time.After(q.latency)
	}
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	reply, err := q.do(r.Context(), action, &in)
	if due != nil {
		<-due
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		reply = map[string]string{"__type": "com.amazonaws.sqs#InvalidParameterValue", "message": err.Error()}
	}
	// A client that is gone does not need its reply.
	_ = json.NewEncoder(w).Encode(reply)
}

func (q *queues) do(ctx context.Context, action string, in *queueRequest) (any, error) {
	if action == "GetQueueUrl" {
		return map[string]string{"QueueUrl": q.url + "/000000000000/" + in.QueueName}, nil
	}
	name := in.QueueUrl[strings.LastIndexByte(in.QueueUrl, '/')+1:]
	if action == "ReceiveMessage" {
		return q.receive(ctx, name, in)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requests[action]++
	s := q.queue(name)
	switch action {
	case "SendMessage":
		return q.send(s, in.MessageBody, in.MessageAttributes), nil
	case "SendMessageBatch":
		return batch(in.Entries, func(e queueEntry) queueDone { return q.send(s, e.MessageBody, e.MessageAttributes) }), nil
	case "DeleteMessage":
		delete(s.out, in.ReceiptHandle)
		return struct{}{}, nil
	case "DeleteMessageBatch":
		return batch(in.Entries, func(e queueEntry) queueDone { delete(s.out, e.ReceiptHandle); return queueDone{} }), nil
	case "ChangeMessageVisibility":
		q.giveBack(s, in.ReceiptHandle, in.VisibilityTimeout)
		return struct{}{}, nil
	case "ChangeMessageVisibilityBatch":
		return batch(in.Entries, func(e queueEntry) queueDone {
			q.giveBack(s, e.ReceiptHandle, e.VisibilityTimeout)
			return queueDone{}
		}), nil
	}
	return nil, fmt.Errorf("the stand-in does not know %s", action)
}

func batch(entries []queueEntry, do func(queueEntry) queueDone) any {
	done := make([]queueDone, len(entries))
	for i, e := range entries {
		done[i] = do(e)
		done[i].Id = e.Id
	}
	return map[string]any{"Successful": done, "Failed": []queueDone{}}
}

// queue returns the queue of a name, made at first use. The caller holds mu.
func (q *queues) queue(name string) *standQueue {
	s := q.byName[name]
	if s == nil {
		s = &standQueue{list.New(), map[string]*standMessage{}}
		q.byName[name] = s
	}
	return s
}

func (q *queues) send(s *standQueue, body string, attributes json.RawMessage) queueDone {
	q.receipts++
	m := &standMessage{id: strconv.FormatInt(q.receipts, 10), body: body, attributes: attributes}
	s.ready.PushBack(m)
	q.rouse()
	return queueDone{MessageId: m.id, MD5OfMessageBody: sum(body)}
}

// load puts a message into the queue name without a request.
func (q *queues) load(name string, msg *message.Message) error {
	m, err := wsqs.DefaultMarshalerUnmarshaler{}.Marshal(msg)
	if err != nil {
		return err
	}
	attributes, err := json.Marshal(m.MessageAttributes)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.send(q.queue(name), aws.ToString(m.Body), attributes)
	return nil
}

// rouse wakes the receives that wait. The caller holds mu.
func (q *queues) rouse() {
	close(q.wake)
	q.wake = make(chan struct{})
}

// giveBack makes a message visible at once, for a timeout of 0; a longer one only
// extends what does not run out here.
func (q *queues) giveBack(s *standQueue, receipt string, timeout int) {
	if m := s.out[receipt]; m != nil && timeout == 0 {
		delete(s.out, receipt)
		s.ready.PushFront(m)
		q.rouse()
	}
}

func (q *queues) receive(ctx context.Context, name string, in *queueRequest) (any, error) {
	wait := time.NewTimer(time.Duration(in.WaitTimeSeconds) * time.Second)
	defer wait.Stop()
	for {
		got, wake := q.take(name, max(1, in.MaxNumberOfMessages))
		if len(got) > 0 {
			return map[string]any{"Messages": got}, nil
		}
		select {
		case <-wake:
		case <-wait.C:
			q.mu.Lock()
			q.empty++
			q.mu.Unlock()
			return map[string]any{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (q *queues) take(name string, n int) ([]queueMessage, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.queue(name)
	var got []queueMessage
	for ; n > 0 && s.ready.Len() > 0; n-- {
		m := s.ready.Remove(s.ready.Front()).(*standMessage)
		m.receives++
		q.receipts++
		receipt := strconv.FormatInt(q.receipts, 10)
		s.out[receipt] = m
		got = append(got, queueMessage{
			m.id, receipt, m.body, sum(m.body),
			map[string]string{"ApproximateReceiveCount": strconv.Itoa(m.receives)}, m.attributes,
		})
	}
	if len(got) > 0 {
		q.requests["ReceiveMessage"]++
	}
	return got, q.wake
}

func sum(body string) string {
	s := md5.Sum([]byte(body)) //nolint:gosec // the wire format asks for it
	return hex.EncodeToString(s[:])
}
