package feed_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/table/embedded"
)

// onDisk returns a Service on a durable embedded table in a new directory. deliver
// handles all events that the Service has published, and lets the home marks expire.
func onDisk(b *testing.B) (s *feed.Service, deliver func()) {
	b.Helper()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	store, err := embedded.Open(b.TempDir(), embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	published, ids := &recorder{}, id.NewGenerator(now)
	s = feed.New(feed.Config{
		Store: store, Publisher: published, IDs: ids, Now: now, TimelineTTL: timelineTTL, LikesByUser: true,
	})
	worker := fanout.New(fanout.Config{Store: store, Posts: s, Publisher: published, IDs: ids, Now: now, TimelineTTL: timelineTTL})
	return s, func() {
		for _, e := range published.take() {
			if err := worker.HandlePosts(b.Context(), e); err != nil {
				b.Fatal(err)
			}
		}
		ahead.Store(int64(2 * time.Minute))
	}
}

// BenchmarkFollowsOfOneAuthor measures how many users a second can follow one author.
func BenchmarkFollowsOfOneAuthor(b *testing.B) {
	s, _ := onDisk(b)
	profile := func(user string) {
		if _, err := s.PutProfile(b.Context(), user, feed.ProfileInput{Name: user}); err != nil {
			b.Error(err)
		}
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

// BenchmarkHome reads a page of 20 from a home of 20 authors, by push and by pull.
func BenchmarkHome(b *testing.B) {
	for name, query := range map[string]feed.HomeQuery{"push": {}, "pull": {Pull: true}} {
		b.Run(name, func(b *testing.B) {
			s, deliver := onDisk(b)
			users := append(numbered(20, "author"), "ann")
			for _, user := range users {
				if _, err := s.PutProfile(b.Context(), user, feed.ProfileInput{Name: user}); err != nil {
					b.Fatal(err)
				}
			}
			for _, author := range users[:20] {
				if err := s.Follow(b.Context(), "ann", author); err != nil {
					b.Fatal(err)
				}
				for range 3 {
					if _, err := s.CreatePost(b.Context(), author, feed.PostInput{Text: "some words of a post"}); err != nil {
						b.Fatal(err)
					}
				}
			}
			deliver()
			for b.Loop() {
				l, err := s.Home(b.Context(), "ann", query, feed.PageRequest{})
				if err != nil || len(l.Items) != 20 {
					b.Fatal(len(l.Items), err)
				}
			}
		})
	}
}
