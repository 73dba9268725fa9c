package fanout_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// A bot posts 1,000 times a minute to 1,000 followers. The table takes 5 ms for each request of 25 writes,
// and there are as many workers as in a daemon. An ordinary post takes no longer during the bot's posts than
// without the bot (I8). The workers take messages in the order of arrival, but posts share no request and no
// budget of a process.
func TestABotDelaysNoOtherAuthor(t *testing.T) {
	const (
		request = 5 * time.Millisecond
		workers = 32
	)
	slowest := map[bool]time.Duration{}
	for _, bot := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3) // the followers of the ordinary author
			for i := range 1000 {
				_, err := w.mem.Put(t.Context(), table.PutInput{Item: schema.FollowerItem("bot", follower(i), w.now)})
				w.must(err)
			}
			w.store.around = func(_ table.Op, keys []table.Key, do func() error) error {
				<-time.After(request * time.Duration(max(1, (len(keys)+table.MaxBatchWrite-1)/table.MaxBatchWrite)))
				return do()
			}
			var mu sync.Mutex
			made := map[int]int{} // posts by the number of followers
			ids := id.NewGenerator(time.Now)
			worker := w.newWorker(func(c *fanout.Config) {
				c.IDs, c.Now, c.Writers, c.PageSize = ids, time.Now, 8, 4096
				c.Observe = func(n int, took time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					if made[n]++; n == 3 {
						slowest[bot] = max(slowest[bot], took)
					}
				}
			})
			posts := make(chan *messages.PostCreated, 1000)
			var running sync.WaitGroup
			for range workers {
				running.Go(func() {
					for e := range posts {
						assert.NoError(t, worker.HandlePosts(t.Context(), e))
					}
				})
			}
			post := func(by string) {
				postID, err := ids.New()
				w.must(err)
				posts <- &messages.PostCreated{Header: messages.Header{EventID: postID, Time: time.Now()}, PostID: postID, AuthorID: by, Content: messages.Content{Text: "hello"}}
			}
			for ms := range 3000 {
				if ms%20 == 0 {
					post(author)
				}
				if bot && ms%60 == 0 {
					post("bot")
				}
				<-time.After(time.Millisecond)
			}
			close(posts)
			running.Wait()
			require.Equal(t, 150, made[3])
			require.Equal(t, bot, made[1000] == 50, "posts of the bot")
		})
	}
	require.Positive(t, slowest[false])
	assert.LessOrEqual(t, slowest[true], slowest[false]*12/10)
}
