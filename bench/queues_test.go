package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/bench/standin"
	"fanfare/internal/daemon"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/queue"
)

// queuesFor starts queues that stop at the end of the test.
func queuesFor(t *testing.T, latency time.Duration) *queues {
	t.Helper()
	server := startQueues(latency)
	t.Cleanup(server.stop)
	return server
}

// Both transports receive each sent message once.
func TestTheFakeSQSServesBothTransports(t *testing.T) {
	for _, kind := range []string{"ours", "stock"} {
		t.Run(kind, func(t *testing.T) {
			server := queuesFor(t, time.Millisecond)
			tr, err := openTransport(t.Context(), kind, server, nil)
			require.NoError(t, err)
			defer func() {
				assert.NoError(t, tr.close())
			}()
			ids, want := id.NewGenerator(time.Now), map[string]bool{}
			for range 25 {
				msg, err := sample(t.Context(), ids)
				if err == nil {
					err = tr.publish(queue.TopicPosts, msg)
				}
				require.NoError(t, err)
				want[msg.UUID] = true
			}
			in, err := tr.subscribe(t.Context(), queue.TopicPosts)
			require.NoError(t, err)
			for len(want) > 0 {
				msg := <-in
				require.Truef(t, want[msg.UUID], "%s came twice, or was never sent", msg.UUID)
				delete(want, msg.UUID)
				msg.Ack()
			}
			if err := until(t.Context(), server.Idle); err != nil {
				t.Fatal(errors.New("messages were not deleted"))
			}
		})
	}
}

// TestDeliveriesTakeFewQueueRequests counts the requests of T5 at the endpoint. The product's fan-out
// uses its SQS transport and its DynamoDB store, both on loopback. Long polls without a message do not
// count, because an idle worker sends such polls, too.
func TestDeliveriesTakeFewQueueRequests(t *testing.T) {
	for _, followers := range []int{4_000, 5_000, 100_000} {
		t.Run(fmt.Sprint(followers), func(t *testing.T) {
			tables := httptest.NewServer(standin.New(standin.Options{Followers: followers}))
			defer tables.Close()
			server := queuesFor(t, 0)
			s, err := openScale(t.Context(), tables.URL, server.url, scaleInFlight())
			require.NoError(t, err)
			defer func() {
				assert.NoError(t, s.broker.Close())
			}()
			var entries atomic.Int64
			w := newWorkers(s.store, s.broker, 2, 8, func(n int, _ time.Duration) { entries.Add(int64(n)) })
			stop := w.run(t.Context(), 4)
			defer func() {
				assert.NoError(t, stop())
			}()
			_, err = w.feed.PutProfile(t.Context(), author, feed.ProfileInput{Name: author})
			require.NoError(t, err)
			post, err := w.feed.CreatePost(t.Context(), author, feed.PostInput{Content: feed.Content{Text: "hello, everybody"}})
			require.NoError(t, err)
			require.NoError(t, complete(t.Context(), w.deliveries, post.ID, int64(followers)))
			require.NoError(t, until(t.Context(), server.Idle), "messages were not deleted")
			requests := server.counts()
			for _, action := range []string{"SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch"} {
				assert.NotZerof(t, requests[action], "no %s was counted", action)
			}
			perThousand := 1000 * float64(requests.total()) / float64(followers+1)
			t.Logf("%.2f requests per 1,000 deliveries: %s", perThousand, requests)
			assert.LessOrEqualf(t, perThousand, 3.0,
				"%.2f queue requests per 1,000 deliveries, want at most 3 (T5): %s", perThousand, requests)
			assert.Equal(t, int64(followers), entries.Load(), "entries written")
		})
	}
}

func TestLikesAreCountedByWindows(t *testing.T) {
	e := &env{dir: t.TempDir(), id: "test"}
	run, err := e.countLikes(t.Context(), 100, 10)
	require.NoError(t, err)
	assert.LessOrEqual(t, run.countWrites, run.windows)
	assert.Equal(t, float64(run.likes)+float64(run.flushes), run.units.Write)
}

// TestAWorkerCollectsAsTheDaemonsDo reads the GOGC of this process, which Work has set.
func TestAWorkerCollectsAsTheDaemonsDo(t *testing.T) {
	const stock = 100
	defer debug.SetGCPercent(debug.SetGCPercent(stock))
	server := queuesFor(t, 0)
	for _, tt := range []struct {
		environ []string
		want    int
	}{
		{[]string{"HOME=/"}, daemon.GCPercent},
		{[]string{"GOGC=100"}, stock}, // the runtime has already applied this value
	} {
		debug.SetGCPercent(stock)
		ctx, cancel := context.WithCancel(t.Context())
		var got int
		err := Work(ctx, WorkerConfig{Table: server.url, Queue: server.url, Chunks: 1, Writers: 1, Environ: tt.environ}, func() error {
			got = debug.SetGCPercent(stock)
			cancel()
			return nil
		})
		cancel()
		assert.NoErrorf(t, err, "%v", tt.environ)
		assert.Equalf(t, tt.want, got, "%v: GOGC", tt.environ)
	}
}
