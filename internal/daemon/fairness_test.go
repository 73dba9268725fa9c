package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/awsclient"
	"fanfare/internal/clock"
	"fanfare/internal/datadir"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/obs"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// stuckMarks is a table in which reads of home marks wait for the release, so no backfill
// makes progress before the release.
type stuckMarks struct {
	table.Store
	release chan struct{}
}

func (s stuckMarks) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if strings.HasSuffix(in.Key.PK, schema.MarksPK("")[len("u#"):]) {
		select {
		case <-s.release:
		case <-ctx.Done():
			return table.GetResult{}, ctx.Err()
		}
	}
	return s.Store.Get(ctx, in)
}

// TestAPostWaitsForNoBackfill makes many users follow one author while every backfill hangs. A post that is
// published after all these follows must still reach its follower, with one worker for each topic (I8).
func TestAPostWaitsForNoBackfill(t *testing.T) {
	t.Parallel()
	const crowd = 2000
	broker, err := queueembedded.Create(t.TempDir(), queueembedded.Options{})
	require.NoError(t, err)
	metrics, err := obs.NewMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	store := stuckMarks{tabletest.NewMemory(), make(chan struct{})}
	p := &process{opt: Options{Now: time.Now, Grace: time.Minute}, log: zap.NewNop(), work: zap.NewNop(), ids: id.NewGenerator(time.Now), metrics: metrics}
	p.eng = &engine{store: store, broker: broker, writers: 1, workers: fanoutWorkers{1, 1, 1, 1, 1}}
	p.lifetimes = lifetime.Fixed(time.Hour)
	users := p.newDomain(store).feed
	profile := func(user string) {
		t.Helper()
		if _, err := users.PutProfile(t.Context(), user, feed.ProfileInput{Name: user}); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(user, author string) {
		t.Helper()
		require.NoError(t, users.Follow(t.Context(), user, author))
	}
	for _, user := range []string{"celebrity", "ordinary", "reader"} {
		profile(user)
	}
	follow("reader", "ordinary")
	for i := range crowd {
		fan := fmt.Sprintf("fan%d", i)
		profile(fan)
		follow(fan, "celebrity")
	}
	post, err := users.CreatePost(t.Context(), "ordinary", feed.PostInput{Content: feed.Content{Text: "hello"}})
	require.NoError(t, err)

	release := sync.OnceFunc(func() { close(store.release) })
	p.roots = newRoots(t.Context(), p.log)
	p.startFanout()
	defer func() {
		release()
		p.roots.cancel()
		assert.NoError(t, p.roots.wait())
		assert.NoError(t, broker.Close())
	}()
	within := func(what string, done func() bool) {
		t.Helper()
		look, deadline := time.NewTicker(time.Millisecond), time.After(5*time.Minute)
		defer look.Stop()
		for !done() {
			select {
			case <-look.C:
			case <-deadline:
				t.Fatalf("no %s in time", what)
			}
		}
	}
	within("entry of the post", func() bool {
		res, err := store.Store.Get(t.Context(), table.GetInput{
			Key: table.Key{PK: schema.TimelinePK("reader"), SK: schema.EntrySK(post.ID, "ordinary")}, Consistent: true,
		})
		require.NoError(t, err)
		return res.Item != nil
	})
	depth := func() int64 {
		d, err := broker.Depth(t.Context(), queue.TopicBackfills)
		require.NoError(t, err)
		return d.Ready + d.InFlight + d.Delayed
	}
	assert.Equal(t, int64(crowd+1), depth(), "backfills are left while all are held up")
	release()
	within("end of the backfills", func() bool { return depth() == 0 })
}

// delivering holds each write of entries until the test lets it go, but not the write of the reader's entry.
type delivering struct {
	table.Store
	held, next, seen chan struct{}
	free             chan struct{} // closed at the end of the test
}

func (d *delivering) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	if writes[0].Key().PK == schema.TimelinePK("reader") {
		d.seen <- struct{}{}
		return d.Store.BatchWrite(ctx, writes)
	}
	select {
	case d.held <- struct{}{}:
		select {
		case <-d.next:
		case <-d.free:
		}
	case <-d.free:
	}
	return d.Store.BatchWrite(ctx, writes)
}

// On the embedded engine chunks and backfills rest while ordinary posts are delivered (I8).
func TestLargeWorkYieldsOnTheEmbeddedEngine(t *testing.T) {
	t.Parallel()
	p := &process{opt: Options{Now: time.Now}, log: zap.NewNop(), work: zap.NewNop(), clock: clock.New(time.Now)}
	dir, err := datadir.Open(t.TempDir())
	require.NoError(t, err)
	p.cleanups.addCloser("data directory", dir.Close)
	_, err = p.openEmbedded(t.Context(), dir)
	assert.NoError(t, err)
	assert.True(t, p.shares.Yield.Rest)
	assert.NoError(t, p.cleanups.run(context.Background(), time.Minute))
}

// On AWS chunks and backfills leave processor time to ordinary posts (I8).
func TestLargeWorkYieldsOnAWS(t *testing.T) {
	t.Parallel()
	p := &process{opt: Options{Now: time.Now}, log: zap.NewNop(), work: zap.NewNop(), clock: clock.New(time.Now)}
	_, err := p.openAWS(awsclient.With(t.Context(), func(cfg *aws.Config) {
		cfg.Region, cfg.Credentials = "eu-central-1", credentials.NewStaticCredentialsProvider("test", "test", "")
	}))
	require.NoError(t, err)
	assert.Equal(t, BatchesAtOnce(), p.shares.Yield.AtOnce)
	assert.Positive(t, p.shares.Yield.AtOnce)
	assert.False(t, p.shares.Yield.Rest, "a rest frees no processor while a write waits for the network")
	assert.NoError(t, p.cleanups.run(context.Background(), time.Minute))
}

// TestAPostWaitsForNoFloodOfOneAuthor publishes many posts of one author, with the default settings of a
// process, and then publishes an ordinary post. The embedded queue is fair by rounds, and SQS is fair by its
// rule for noisy groups. Only the messages that the process already holds may be delivered before the
// ordinary post, so no worker has to be reserved for other authors (I8).
func TestAPostWaitsForNoFloodOfOneAuthor(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		workers := embeddedWorkers()
		broker, err := queueembedded.Create(t.TempDir(), queueembedded.Options{MaxInFlight: workers.maxInFlight()})
		require.NoError(t, err)
		floodByOneAuthor(t, broker, workers)
	})
	t.Run("sqs", func(t *testing.T) {
		workers := awsWorkers()
		floodByOneAuthor(t, sqs.New(sqstest.Client(sqstest.New(0)), sqs.Options{
			Prefix: "test", PollWait: time.Second, MaxInFlight: workers.maxInFlight(),
		}), workers)
	})
}

func floodByOneAuthor(t *testing.T, broker interface {
	queue.Broker
	Close() error
}, workers fanoutWorkers) {
	t.Helper()
	const flood, fans = 1000, 500
	metrics, err := obs.NewMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	store := &delivering{Store: tabletest.NewMemory(), held: make(chan struct{}), next: make(chan struct{}), seen: make(chan struct{}, 1), free: make(chan struct{})}
	p := &process{opt: Options{Now: time.Now, Grace: time.Minute}, log: zap.NewNop(), work: zap.NewNop(), ids: id.NewGenerator(time.Now), metrics: metrics}
	p.eng = &engine{store: store, broker: broker, writers: 1, workers: workers}
	p.lifetimes = lifetime.Fixed(time.Hour)

	edges := []table.BatchWrite{}
	follower := func(author, user string) {
		it := schema.FollowerItem(author, user, time.Now())
		edges = append(edges, table.BatchWrite{Put: &it})
	}
	follower("ordinary", "reader")
	for i := range fans {
		follower("flooder", fmt.Sprintf("fan%d", i))
	}
	_, err = store.Store.BatchWrite(t.Context(), edges)
	require.NoError(t, err)
	post := func(author string) *message.Message {
		t.Helper()
		eventID, err := p.ids.New()
		require.NoError(t, err)
		head := messages.Header{EventID: eventID, Time: time.Now().UTC()}
		msg, err := queue.Message(t.Context(), &messages.PostCreated{Header: head, PostID: eventID, AuthorID: author, Content: messages.Content{Text: "x"}})
		require.NoError(t, err)
		return msg
	}
	posts := make([]*message.Message, flood)
	for i := range posts {
		posts[i] = post("flooder")
	}
	require.NoError(t, broker.Publish(queue.TopicPosts, posts...))

	p.roots = newRoots(t.Context(), p.log)
	p.startFanout()
	defer func() {
		close(store.free)
		p.roots.cancel()
		assert.NoError(t, errors.Join(p.roots.wait(), broker.Close()))
	}()
	for range workers.posts { // wait until each worker delivers a post of the flood
		<-store.held
	}
	require.NoError(t, broker.Publish(queue.TopicPosts, post("ordinary")))
	for first := 0; ; first++ { // posts of the flood that go before
		require.LessOrEqual(t, first, workers.maxInFlight()[queue.TopicPosts]+workers.posts)
		store.next <- struct{}{}
		select {
		case <-store.held: // the worker has taken another post of the flood
		case <-store.seen:
			return
		case <-time.After(5 * time.Minute):
			t.Fatal("the worker takes no post in time")
		}
	}
}
