package feed_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/table/embedded"
	"fanfare/messages"
)

// onDisk returns a Service on a durable embedded table in a new directory. deliver handles all
// published events of the Service, and lets the home marks expire.
func onDisk(b *testing.B) (s *domain, deliver func()) {
	b.Helper()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	store, err := embedded.Create(b.TempDir(), embedded.Options{})
	require.NoError(b, err)
	b.Cleanup(func() {
		assert.NoError(b, store.Close())
	})
	published, ids := &recorder{}, id.NewGenerator(now)
	s = newDomain(config{way: way{
		Store: store, Publisher: published, IDs: ids, Now: now, Lifetimes: lifetime.Fixed(timelineTTL),
	}, service: service{LikesByUser: true}})
	worker := fanout.New(fanout.Config{Store: store, Posts: s, Publisher: published, IDs: ids, Now: now, Lifetimes: lifetime.Fixed(timelineTTL)})
	return s, func() {
		for _, e := range published.take() {
			handle := worker.HandlePosts
			if _, is := e.(*messages.Followed); is {
				handle = worker.HandleBackfills
			}
			require.NoError(b, handle(b.Context(), e))
		}
		ahead.Store(int64(2 * time.Minute))
	}
}

// BenchmarkFollowsOfOneAuthor measures the number of users a second who can follow one author.
func BenchmarkFollowsOfOneAuthor(b *testing.B) {
	s, _ := onDisk(b)
	profile := func(user string) {
		_, err := s.PutProfile(b.Context(), user, feed.ProfileInput{Name: user})
		assert.NoError(b, err)
	}
	profile("ann")
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			user := fmt.Sprintf("user%d", n.Add(1))
			profile(user)
			if err := s.Follow(b.Context(), user, "ann"); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "follows/s")
}

// BenchmarkHome reads a page of 20 posts from a home with 20 authors, by push and by pull.
func BenchmarkHome(b *testing.B) {
	for name, query := range map[string]home.Query{"push": {}, "pull": {Pull: true}} {
		b.Run(name, func(b *testing.B) {
			s, deliver := onDisk(b)
			users := append(numbered(20, "author"), "ann")
			for _, user := range users {
				_, err := s.PutProfile(b.Context(), user, feed.ProfileInput{Name: user})
				require.NoError(b, err)
			}
			for _, author := range users[:20] {
				require.NoError(b, s.Follow(b.Context(), "ann", author))
				for range 3 {
					_, err := s.CreatePost(b.Context(), author, feed.PostInput{Content: feed.Content{Text: "some words of a post"}})
					require.NoError(b, err)
				}
			}
			deliver()
			for b.Loop() {
				l, err := s.Home(b.Context(), "ann", query, page.Request{})
				if err != nil || len(l.Items) != 20 {
					b.Fatal(len(l.Items), err)
				}
			}
		})
	}
}
