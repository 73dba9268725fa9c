package daemon

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/obs"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/internal/throttle"
)

// TestAnOverloadedTableLosesNothing sends five times the load that a table of 100 write units a second can
// take, for ten seconds: posts, posts of a large author and follows. Every accepted call has its effect once
// the queues are empty, and no effect happens twice. A refused call is answered with a request to retry.
func TestAnOverloadedTableLosesNothing(t *testing.T) {
	t.Parallel()
	const seconds, authors, fans, crowd, postsASecond, followsASecond = 10, 6, 20, 150, 12, 6
	synctest.Test(t, func(t *testing.T) {
		memory := tabletest.NewMemory()
		limited := tabletest.NewLimited(memory, 100)
		server := sqstest.New(5 * time.Millisecond)
		workers := awsWorkers()
		broker := sqs.New(sqstest.Client(server), sqs.Options{Prefix: "test", PollWait: time.Second, MaxInFlight: workers.maxInFlight()})
		metrics, err := obs.NewMetrics(prometheus.NewRegistry())
		require.NoError(t, err)
		p := &process{opt: Options{Now: time.Now, Grace: time.Minute}, log: zap.NewNop(), work: zap.NewNop(), ids: id.NewGenerator(time.Now), metrics: metrics}
		p.lifetimes = lifetime.Fixed(24 * time.Hour)
		p.eng = &engine{store: limited, broker: broker, writers: awsWriters, pageSize: 200, workers: workers}
		setUp := p.newDomain(memory)
		api := p.newDomain(p.shares.Store(limited, throttle.API)).feed

		author := func(i int) string { return fmt.Sprintf("author%d", i) }
		fan := func(i int) string { return fmt.Sprintf("fan%d", i) }
		for i := range authors {
			_, err := setUp.feed.PutProfile(t.Context(), author(i), feed.ProfileInput{Name: author(i)})
			require.NoError(t, err)
		}
		for i := range crowd {
			_, err := setUp.feed.PutProfile(t.Context(), fan(i), feed.ProfileInput{Name: fan(i)})
			require.NoError(t, err)
			require.NoError(t, setUp.feed.Follow(t.Context(), fan(i), author(0))) // author0 is the large author
			if i < fans {
				for a := range authors - 1 {
					require.NoError(t, setUp.feed.Follow(t.Context(), fan(i), author(a+1)))
				}
			}
		}

		var mu sync.Mutex
		posts, refused, longest := map[string][]string{}, 0, time.Duration(0)
		follows := map[int]bool{}
		// try repeats a call until the call is accepted, as a client does.
		try := func(call func() error) {
			for {
				began := time.Now()
				err := call()
				mu.Lock()
				if err == nil {
					longest = max(longest, time.Since(began))
					mu.Unlock()
					return
				}
				refused++
				mu.Unlock()
				failed, ok := errors.AsType[*fault.Error](err)
				if !ok || failed.Kind != fault.Unavailable || failed.RetryAfter <= 0 {
					t.Errorf("refused for good: %v", err)
					return
				}
				<-time.After(failed.RetryAfter)
			}
		}
		var calls sync.WaitGroup
		post := func(author string) {
			calls.Go(func() {
				try(func() error {
					made, err := api.CreatePost(t.Context(), author, feed.PostInput{Content: feed.Content{Text: "under load"}})
					if err == nil {
						mu.Lock()
						posts[author] = append(posts[author], made.ID)
						mu.Unlock()
					}
					return err
				})
			})
		}
		p.roots = newRoots(t.Context(), p.log)
		p.startFanout()
		for second := range seconds {
			if second%5 == 0 {
				post(author(0))
			}
			for i := range postsASecond {
				post(author(1 + i%(authors-1)))
			}
			for i := range followsASecond {
				who := fans + second*followsASecond + i
				follows[who] = true
				calls.Go(func() { try(func() error { return api.Follow(t.Context(), fan(who), author(1)) }) })
			}
			<-time.After(time.Second)
		}
		calls.Wait()
		offered := time.Now()
		for !server.Idle() {
			<-time.After(time.Second)
			require.Less(t, time.Since(offered), 2*time.Hour, "the queues are never empty")
		}
		t.Logf("%d writes refused, %d calls answered 503, an accepted call took %s at most, empty %s after the last call",
			limited.Refusals(), refused, longest, time.Since(offered))
		p.roots.cancel()
		require.NoError(t, errors.Join(p.roots.wait(), broker.Close()))

		want := func(user int) (n int) {
			n = len(posts[author(0)])
			for a := 1; a < authors && user < fans; a++ {
				n += len(posts[author(a)])
			}
			if follows[user] {
				n += len(posts[author(1)])
			}
			return n
		}
		for user := range crowd {
			seen := map[string]bool{}
			for page, err := range memory.Query(t.Context(), table.Query{PK: schema.TimelinePK(fan(user))}) {
				require.NoError(t, err)
				for _, it := range page.Items {
					seen[it.Key.SK] = true
				}
			}
			assert.Len(t, seen, want(user), fan(user))
		}
		for a := range authors {
			for _, post := range posts[author(a)] {
				d, err := setUp.deliveries.Delivery(t.Context(), author(a), post)
				require.NoError(t, err)
				assert.Equal(t, delivery.Complete, d.State)
			}
		}
	})
}
