package feed_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed/notices"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// noticed is the user that the patterns of notifications are measured with. Its id, and the ids of its actors, have
// 20 characters.
const noticed = "reader-of-20-letters"

// notify20 gives noticed n posts with five likes each, by users of their own, and a notification of each post.
func (w *world) notify20(n int) {
	w.t.Helper()
	w.users(noticed)
	for i := range n {
		p := w.post(noticed, "liked")
		of := schema.Notice{User: noticed, Kind: schema.NoticeLike, Target: p.ID, Revision: 1, TTL: w.clock.now().Add(90 * 24 * time.Hour)}
		for j := range schema.NoticeActs {
			user := fmt.Sprintf("actor-%014d", i*schema.NoticeActs+j)
			w.users(user)
			w.clock.add(time.Millisecond)
			act := id.Floor(w.clock.now())
			of.Acts = append([]schema.Act{{Version: act, Place: act, State: "like", User: user}}, of.Acts...)
		}
		_, err := w.store.Put(w.t.Context(), table.PutInput{Item: of.Item()})
		require.NoError(w.t, err)
		w.addLikes(p.ID, schema.NoticeActs)
	}
}

func noticePatterns() []accessPattern {
	unread := func(most int) func(ctx context.Context, s *sample) error {
		return func(ctx context.Context, s *sample) error {
			_, err := s.domain.notices.Unread(ctx, noticed, most)
			return err
		}
	}
	list := func(ctx context.Context, s *sample) (notices.Page[notices.Notice], error) {
		return s.domain.notices.List(ctx, noticed, page.Request{})
	}
	views := func(ctx context.Context, s *sample) error {
		of, err := list(ctx, s)
		if err == nil {
			_, err = s.NoticeViews(ctx, noticed, of)
		}
		return err
	}
	return []accessPattern{
		{"unread notifications, none", "`u#U#notif` / `read`, and GSI1 `u#U#notif` above it", unread(notices.DefaultUnread)},
		{"unread notifications, 10", "the same", func(ctx context.Context, s *sample) error {
			s.notify20(sampleUsers)
			s.measure()
			return unread(notices.DefaultUnread)(ctx, s)
		}},
		{"unread notifications, 20", "the same", unread(notices.MaxUnread)},
		{"notifications", "`u#U#notif` / `read`, the note of blocks, and the mutes; GSI1 `u#U#notif`, descending; posts, and profiles of three actors each; counts and own likes", func(ctx context.Context, s *sample) error {
			_, err := list(ctx, s.cold())
			return err
		}},
		{"notifications, names known", "the same, within a minute", func(ctx context.Context, s *sample) error {
			s.clock.add(likeWindow)
			_, err := list(ctx, s)
			return err
		}},
		{"notifications with posts and users", "the same, and the reader's edges in the range of their ids", func(ctx context.Context, s *sample) error { return views(ctx, s.cold()) }},
		{"notifications with posts and users, names known", "the same, within a minute", func(ctx context.Context, s *sample) error {
			s.clock.add(likeWindow)
			return views(ctx, s)
		}},
	}
}

// markPattern reads a page of notifications and marks it.
func markPattern() accessPattern {
	return accessPattern{"mark notifications as read", "the mark; then the number of unread ones", func(ctx context.Context, s *sample) error {
		list, err := s.domain.notices.List(ctx, noticed, page.Request{})
		if err != nil {
			return err
		}
		s.measure()
		_, err = s.domain.notices.MarkRead(ctx, noticed, list.ReadTo)
		return err
	}}
}

// The price list of the reads of notifications.
func TestWhatNotificationsCostToRead(t *testing.T) {
	var mu sync.Mutex
	var units table.Units
	w := newWorld(t, sharing, func(c *config) {
		c.Store = table.Measure(c.Store, func(_ table.Op, u table.Units, _ error) {
			mu.Lock()
			defer mu.Unlock()
			units = units.Plus(u)
		})
	})
	s := &sample{world: w, measure: func() {
		mu.Lock()
		defer mu.Unlock()
		units = table.Units{}
	}}
	w.users(noticed)
	want := []table.Units{{Read: 1.5}, {Read: 2}, {Read: 2.5}, {Read: 65}, {Read: 35}, {Read: 67}, {Read: 37}, {Read: 2.5, Write: 1}}
	for i, p := range append(noticePatterns(), markPattern()) {
		s.measure()
		require.NoError(t, p.do(t.Context(), s), p.name)
		mu.Lock()
		assert.Equal(t, want[i], units, p.name)
		mu.Unlock()
	}
}
