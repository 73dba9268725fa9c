//go:build e2e

package doctor_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/client"
	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/ops/doctor"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
	"fanfare/messages"
)

// recorder is a proxy before an emulator. For each call, it records the action and the ARN of the resource,
// which IAM would check.
type recorder struct {
	t    *testing.T
	url  string
	next http.Handler
	// prefix is the prefix of the queues' names.
	prefix string

	mu    sync.Mutex
	calls map[string]bool
	// fails has the topics in which a message must still be redelivered. The table fails until fails is empty.
	fails map[string]bool
	// only is the operation of the table that fails, "" for all operations.
	only string
	// failed means that a call of the table failed.
	failed bool
	// chunks means that the first message to the topic of chunks adds this topic to fails.
	chunks bool
}

// record starts a recorder. The AWS configuration that this process loads next uses the recorder.
func record(t *testing.T, cfg config.Config, next http.Handler) *recorder {
	t.Helper()
	r := &recorder{t: t, prefix: cfg.QueuePrefix, next: next, calls: map[string]bool{}, fails: map[string]bool{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	awsAt(t, r.url)
	return r
}

// ServeHTTP implements http.Handler.
func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client has left
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	if _, metric, ok := strings.Cut(req.URL.Path, "/service/GraniteServiceVersion20100801/operation/"); ok { // in CBOR
		r.keep("cloudwatch:" + metric + " *")
		r.next.ServeHTTP(w, req)
		return
	}
	if r.note(req.Header.Get("X-Amz-Target"), body) {
		answer(w, http.StatusInternalServerError, `{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"planted"}`)
		return
	}
	r.next.ServeHTTP(w, req)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, text) // the client may have left
}

// keep records an action with its resource.
func (r *recorder) keep(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[call] = true
}

// note records a call, and reports whether the call has to fail.
func (r *recorder) note(target string, body []byte) bool {
	var in struct {
		TableName, IndexName, QueueURL, QueueName string
		RequestItems                              map[string]any
		TransactItems                             []map[string]struct{ TableName string }
	}
	_, op, _ := strings.Cut(target, ".")
	assert.NoError(r.t, json.Unmarshal(body, &in), "%s", body)
	if strings.HasPrefix(target, "AnyScaleFrontendService.") {
		r.keep("application-autoscaling:" + op + " *")
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	const place = ":eu-central-1:123456789012:"
	if strings.HasPrefix(target, "AmazonSQS.") {
		name := strings.Trim(in.QueueName+path.Base("/"+in.QueueURL), "/")
		action := strings.TrimSuffix(op, "Batch")
		r.calls["sqs:"+action+" arn:aws:sqs"+place+name] = true
		topic := strings.TrimPrefix(name, r.prefix+"-")
		if action == "ChangeMessageVisibility" {
			delete(r.fails, topic)
		}
		if action == "SendMessage" && topic == queue.TopicChunks && r.chunks {
			r.chunks, r.fails[topic] = false, true
		}
		return false
	}
	arn := "arn:aws:dynamodb" + place + "table/"
	for name := range in.RequestItems {
		r.calls["dynamodb:"+op+" "+arn+name] = true
	}
	for _, item := range in.TransactItems {
		for kind, part := range item {
			r.calls["dynamodb:"+map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}[kind]+" "+arn+part.TableName] = true
		}
	}
	if in.IndexName != "" {
		in.TableName += "/index/" + in.IndexName
	}
	if in.TableName != "" {
		r.calls["dynamodb:"+op+" "+arn+in.TableName] = true
	}
	fails := len(r.fails) > 0 && (r.only == "" || r.only == op)
	r.failed = r.failed || fails
	return fails
}

// fail makes an operation of the table fail until a message of each given topic was
// returned to its queue. If op is "", all operations fail.
func (r *recorder) fail(op string, topics ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.only = op
	for _, topic := range topics {
		r.fails[topic] = true
	}
	r.chunks = slices.Contains(topics, queue.TopicPosts)
}

// work ends the failures of the table.
func (r *recorder) work() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.fails)
}

// mended reports whether no call of the table fails, now or later.
func (r *recorder) mended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.fails) == 0 && !r.chunks
}

// failing reports whether a call of the table has failed.
func (r *recorder) failing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// made returns the recorded calls in sorted order.
func (r *recorder) made() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for call := range r.calls {
		out = append(out, call)
	}
	slices.Sort(out)
	return out
}

// allowed returns each action with each resource of a duty's policy, in sorted order.
func allowed(t *testing.T, cfg config.Config, duty string) (out []string) {
	t.Helper()
	policy, err := doctor.PolicyOf(cfg, doctor.Account{Region: "eu-central-1", ID: "123456789012"}, duty)
	require.NoError(t, err)
	for _, s := range policy.Statement {
		for _, action := range s.Action {
			for _, resource := range s.Resource {
				out = append(out, action+" "+resource)
			}
		}
	}
	slices.Sort(out)
	return out
}

// deployment has a table, queues, and a recorder for each duty.
type deployment struct {
	cfg     config.Config
	engines http.Handler
	queues  *sqstest.Server
	at      daemon.Addresses // the addresses of the api
	records map[string]*recorder
	admin   map[string]string // the admin address of each daemon
	// stop ends all daemons together, because each daemon waits for its last poll.
	ctx  context.Context
	stop func()
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	upstream := os.Getenv("E2E_DYNOXIDE_URL")
	require.NotEmpty(t, upstream, "E2E_DYNOXIDE_URL is not set: run this by scripts/with-emulators.sh")
	target, err := url.Parse(upstream)
	require.NoError(t, err)
	proxy, queues := httputil.NewSingleHostReverseProxy(target), sqstest.New(0)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	engines := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch target := req.Header.Get("X-Amz-Target"); {
		case strings.HasPrefix(target, "AnyScaleFrontendService."): // nothing scales the table
			answer(w, http.StatusOK, "{}")
		case strings.HasPrefix(req.URL.Path, "/service/GraniteServiceVersion20100801/"): // there are no metrics
			w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
			_, _ = w.Write([]byte{0xa0}) // the client may have left
		case target == "AmazonSQS.CreateQueue": // the queues exist with other settings
			answer(w, http.StatusBadRequest, `{"__type":"com.amazonaws.sqs#QueueNameExists"}`)
		case target == "AmazonSQS.SetQueueAttributes":
			answer(w, http.StatusOK, "{}")
		case strings.HasPrefix(target, "AmazonSQS."):
			queues.ServeHTTP(w, req)
		default:
			proxy.ServeHTTP(w, req)
		}
	})
	name := "iam-" + strings.ToLower(rand.Text()[:10])
	cfg, err := config.Load([]string{
		"FANFARE_ENGINE=aws", "FANFARE_TABLE=" + name, "FANFARE_QUEUE_PREFIX=" + name, "FANFARE_EVENTS_QUEUE=" + name + "-events", "FANFARE_LIKE_WINDOW=50ms", "FANFARE_NOTIFICATIONS=on", "FANFARE_PUSH_LIMIT=2",
		"FANFARE_HTTP_ADDR=127.0.0.1:0", "FANFARE_ADMIN_ADDR=127.0.0.1:0",
		"FANFARE_DEV_AUTH_ON_AWS=allow", "FANFARE_DEV_SECRET=" + rand.Text() + rand.Text(),
	}, config.API)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	return &deployment{ctx: ctx, stop: stop, cfg: cfg, engines: engines, queues: queues, records: map[string]*recorder{}, admin: map[string]string{}}
}

// as starts a recorder for a duty. The AWS configuration that this process loads next uses the recorder.
func (d *deployment) as(t *testing.T, duty string) *recorder {
	t.Helper()
	d.records[duty] = record(t, d.cfg, d.engines)
	return d.records[duty]
}

// setUp makes the table and the queues.
func (d *deployment) setUp(t *testing.T) {
	t.Helper()
	d.as(t, "setup")
	store, err := daemon.OpenTable(t.Context(), d.cfg, nil)
	require.NoError(t, err)
	// The table gets provisioned capacity, so that the doctor makes its calls about provisioned capacity.
	// The emulator accepts all these calls.
	ranges := dynamo.Ranges{Write: dynamo.Range{Least: 1000, Most: 1000}, Read: dynamo.Range{Least: 1000, Most: 1000}}
	_, err = store.CreateAs(t.Context(), dynamo.Plan{Billing: dynamo.Provisioned, Table: ranges, Index: ranges})
	require.NoError(t, err)
	broker, err := daemon.OpenQueues(t.Context(), d.cfg)
	require.NoError(t, err)
	require.NoError(t, broker.Create(t.Context()))
	_, err = broker.Describe(t.Context())
	require.NoError(t, err)
	require.NoError(t, broker.Close())
}

// run starts a daemon. With its settings, an author with three followers has chunks.
func (d *deployment) run(t *testing.T, duty string, roles daemon.Roles) (stop func()) {
	t.Helper()
	if r := d.records[duty]; r != nil {
		awsAt(t, r.url)
	} else {
		d.as(t, duty)
	}
	ctx, cancel := context.WithCancel(d.ctx)
	ready, ended := make(chan daemon.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{
			Config: d.cfg, Roles: roles, Log: zap.NewNop(), Grace: time.Second, ChunkSize: 2, Ready: func(at daemon.Addresses) { ready <- at },
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	select {
	case at := <-ready:
		d.admin[duty] = at.Admin
		if roles.API {
			d.at = at
		}
	case err := <-ended:
		ended <- err
		t.Fatalf("not started: %v", err)
	}
	return stop
}

// user returns a client of a user who has a profile.
func (d *deployment) user(t *testing.T, id string) *client.Client {
	t.Helper()
	all, err := client.New("http://" + d.at.HTTP)
	require.NoError(t, err)
	t.Cleanup(all.CloseIdleConnections)
	token, err := all.DevToken(t.Context(), id, time.Hour)
	require.NoError(t, err)
	c := all.AsToken(token.Token)
	_, err = c.PutMe(t.Context(), client.ProfileInput{Name: id})
	require.NoError(t, err)
	return c
}

// TestEachDutyMakesTheCallsThatItsPolicyAllows records a run of all duties. Each recorded call must be in the
// policy of its duty, and each action of the policy must be recorded.
func TestEachDutyMakesTheCallsThatItsPolicyAllows(t *testing.T) {
	d := newDeployment(t)
	defer d.stop()
	d.setUp(t)
	d.run(t, "api", daemon.Roles{API: true})
	d.run(t, "fanout", daemon.Roles{Fanout: true})
	stop := d.run(t, "likeagg", daemon.Roles{Likes: true})
	d.play(t, stop)
	d.operate(t)
	for _, duty := range doctor.Duties() {
		if duty == "up" { // it uses neither the table nor the queues of Fanfare's own work
			continue
		}
		assert.EventuallyWithT(t, func(c *assert.CollectT) {
			want, made := allowed(t, d.cfg, duty), d.records[duty].made()
			assert.Empty(c, slices.DeleteFunc(slices.Clone(want), func(call string) bool { return slices.Contains(made, call) }), "not made")
			assert.Empty(c, slices.DeleteFunc(made, func(call string) bool { return slices.Contains(want, call) }), "not allowed")
		}, 2*time.Minute, 50*time.Millisecond, duty)
	}
}

// play uses the whole API. Each topic fails once, and a stopped like aggregator leaves the count of a post
// to another aggregator.
func (d *deployment) play(t *testing.T, stopLikes func()) {
	t.Helper()
	ctx := t.Context()
	fanout, likeagg := d.records["fanout"], d.records["likeagg"]
	ann, ben, cat, dan := d.user(t, "ann"), d.user(t, "ben"), d.user(t, "cat"), d.user(t, "dan")
	fanout.fail("", queue.TopicPosts, queue.TopicBackfills)
	likeagg.fail("UpdateItem", queue.TopicLikes)
	for _, c := range []*client.Client{ben, cat, dan} {
		require.NoError(t, c.Follow(ctx, "ann"))
	}
	require.NoError(t, ben.Follow(ctx, "dan"))
	other, err := dan.CreatePost(ctx, client.PostInput{Text: "to one"})
	require.NoError(t, err)
	post, err := ann.CreatePost(ctx, client.PostInput{Text: "one", IdempotencyKey: "one"})
	require.NoError(t, err)
	require.NoError(t, ben.Like(ctx, post.ID))
	until(t, "each topic of the fan-out fails once", fanout.mended)
	for id, author := range map[string]*client.Client{post.ID: ann, other.ID: dan} {
		until(t, "the post is delivered", func() bool {
			delivery, err := author.Delivery(ctx, id)
			return err == nil && delivery.State == client.DeliveryComplete
		})
	}
	until(t, "the like is stamped", likeagg.failing)
	stopLikes() // the aggregator returns the like to the queue
	likeagg.work()
	d.run(t, "likeagg", daemon.Roles{Likes: true})
	until(t, "the like is counted", func() bool {
		n, err := ann.LikeCount(ctx, post.ID)
		return err == nil && n.Count == 1
	})
	comment, err := cat.CreateComment(ctx, post.ID, "well")
	require.NoError(t, err)
	for what, call := range map[string]func() error{
		"likes of a user":    func() error { _, err := ben.LikesByUser("ben").Collect(ctx); return err },
		"comments of a user": func() error { _, err := ben.CommentsByUser("cat").Collect(ctx); return err },
		"an edit":            func() error { _, err := ann.EditPost(ctx, post.ID, client.PostEdit{Text: &post.ID}); return err },
		"an unlike":          func() error { return ben.Unlike(ctx, post.ID) },
		"an unfollow":        func() error { return ben.Unfollow(ctx, "dan") },
		"a deleted comment":  func() error { return cat.DeleteComment(ctx, post.ID, comment.ID) },
		"a reader is away":   func() error { return cat.BeAway(ctx) },
	} {
		require.NoError(t, call(), what)
	}
	d.forget(t, post.ID)
	broker := d.broker(t, d.as(t, "the test").url)
	require.NoError(t, broker.Publish(queue.TopicBackfills, d.removal(t)))
	for _, topic := range queue.Topics() {
		require.NoError(t, broker.Publish(topic, message.NewMessage("bad-"+topic, []byte("no event")), message.NewMessage("other-"+topic, []byte("no event"))))
	}
	d.wait(t)
	for _, admin := range d.admin {
		res, err := http.Get("http://" + admin + "/metrics")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
}

// wait puts a message that is due in an hour into each topic. The consumer of the topic
// sends a copy of this message.
func (d *deployment) wait(t *testing.T) {
	t.Helper()
	now := time.Now()
	for _, topic := range queue.Topics() {
		msg := message.NewMessage("waits-"+topic, []byte("no event"))
		msg.Metadata.Set(queue.MetaWait, fmt.Sprintf("1 %d %d", now.UnixMilli(), now.Add(time.Hour).UnixMilli()))
		require.NoError(t, d.queues.Load(d.cfg.QueuePrefix+"-"+topic, msg))
	}
}

// forget deletes a user who has a record of each kind.
func (d *deployment) forget(t *testing.T, post string) {
	t.Helper()
	ctx, fay := t.Context(), d.user(t, "fay")
	require.NoError(t, fay.Follow(ctx, "ann"))
	_, err := fay.CreatePost(ctx, client.PostInput{Text: "not for long"})
	require.NoError(t, err)
	_, err = fay.CreateComment(ctx, post, "well")
	require.NoError(t, err)
	require.NoError(t, fay.Like(ctx, post))
	until(t, "the like is there", func() bool {
		likes, err := fay.LikesByUser("fay").Collect(ctx)
		return err == nil && len(likes) == 1
	})
	require.NoError(t, fay.DeleteMe(ctx))
}

// removal returns the message of an unfollow, for a home with many entries of the unfollowed author.
func (d *deployment) removal(t *testing.T) *message.Message {
	t.Helper()
	store, err := daemon.OpenTable(t.Context(), d.cfg, nil)
	require.NoError(t, err)
	mark, err := store.Get(t.Context(), table.GetInput{Key: schema.MarkKey("ben", "dan"), Consistent: true})
	require.NoError(t, err)
	require.NotNil(t, mark.Item)
	version := mark.Item.Str(schema.AttrVersion)
	msg, err := queue.Message(t.Context(), &messages.Unfollowed{
		Header: messages.Header{EventID: version, Time: time.Now().UTC()}, FollowerID: "ben", AuthorID: "dan", MarkVersion: version,
	})
	require.NoError(t, err)
	return msg
}

// lose deletes an item, as a person who edits the table does.
func (d *deployment) lose(t *testing.T, key table.Key) {
	t.Helper()
	d.as(t, "the test")
	store, err := daemon.OpenTable(t.Context(), d.cfg, nil)
	require.NoError(t, err)
	_, err = store.Delete(t.Context(), table.DeleteInput{Key: key})
	require.NoError(t, err)
}

// broker opens the queues at an endpoint, and closes them when the test ends.
func (d *deployment) broker(t *testing.T, endpoint string) *sqs.Broker {
	t.Helper()
	awsAt(t, endpoint)
	broker, err := daemon.OpenQueues(t.Context(), d.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, broker.Close()) })
	return broker
}

// operate does the work of an operator: on dead letters, and on a post whose delivery does not progress.
func (d *deployment) operate(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	depths := d.broker(t, d.as(t, "the test").url)
	for _, topic := range queue.Topics() {
		until(t, "the dead letters of "+topic, func() bool {
			depth, err := depths.Depth(ctx, topic)
			return err == nil && depth.Dead == 2
		})
	}
	d.records["fanout"].fail("", "the operator's look")
	post, err := d.user(t, "eve").CreatePost(ctx, client.PostInput{Text: "two"})
	require.NoError(t, err)
	d.lose(t, schema.FollowerKey("ann", "cat"))
	operator := d.as(t, "operator")
	domain, end, err := daemon.OpenOperations(ctx, d.cfg)
	require.NoError(t, err)
	done, err := admin.Reconcile().Do(ctx, domain, admin.Reconciling{Since: time.Now().Add(-time.Minute), Until: time.Now().Add(time.Minute), Limit: 10})
	require.NoError(t, err)
	assert.NotZero(t, done.Published)
	_, err = admin.Explain().Do(ctx, domain, admin.Explained{User: "dan"})
	require.NoError(t, err)
	_, err = admin.Delivery().Do(ctx, domain, admin.Delivered{Post: post.ID})
	require.NoError(t, err)
	_, err = admin.Verify().Do(ctx, domain, admin.Verification{Rate: 1000, Event: func(admin.VerifyEvent) error { return nil }})
	require.NoError(t, err)
	require.NoError(t, end())
	d.records["fanout"].work()
	_, err = d.broker(t, operator.url).Describe(ctx)
	require.NoError(t, err)
	var walks sync.WaitGroup // each walk waits for a second
	for _, topic := range queue.Topics() {
		broker := d.broker(t, operator.url)
		walks.Go(func() {
			sent, _, err := broker.Redrive(ctx, topic, []string{"bad-" + topic}, nil)
			assert.NoError(t, err)
			assert.Equal(t, 1, sent, topic)
		})
	}
	walks.Wait()
	assert.NotEmpty(t, doctor.Examine(ctx, d.cfg, nil, daemon.Roles{}, time.Now))
}

// until waits until a condition holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatal("not in time: " + what)
		case <-tick.C:
		}
	}
}
