package feed_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/feed/notices"
	"fanfare/internal/id"
	"fanfare/internal/notify"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// noticed is the user in the measurements of notifications. The id of noticed, and the ids of the
// actors, have 20 characters.
const noticed = "reader-of-20-letters"

// sampleNotices is the number of notifications of noticed.
const sampleNotices = 100

// listNotices gives noticed posts with five likes each, and a notification for each post. The newest
// posts, which are on a page, have likes of different users.
func (w *world) listNotices() {
	w.t.Helper()
	w.users(noticed)
	for i := range sampleNotices {
		p := w.post(noticed, "liked")
		of := schema.Notice{User: noticed, Kind: schema.NoticeLike, Target: p.ID, Revision: 1, TTL: w.clock.now().Add(90 * 24 * time.Hour)}
		for j := range schema.NoticeActs {
			user := fmt.Sprintf("actor-%014d", max(0, i-sampleNotices+sampleUsers)*schema.NoticeActs+j)
			if i == 0 || i > sampleNotices-sampleUsers {
				w.users(user)
			}
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
			s.listNotices()
			s.measure()
			return unread(notices.DefaultUnread)(ctx, s)
		}},
		{"unread notifications, 20", "the same", unread(20)},
		{"unread notifications, 100", "the same", unread(notices.MaxUnread)},
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

// markPattern reads a page of notifications and marks the page as read.
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

// oneMessage is a queue that delivers a window with one event. A dead letter fails the test.
type oneMessage struct {
	queue.DeadLetters
	msg *message.Message
}

func (q oneMessage) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	in := make(chan *message.Message, 1)
	in <- q.msg
	context.AfterFunc(ctx, func() { close(in) })
	return in, nil
}

func (oneMessage) Close() error { return nil }

// notify writes a window with one event, as the notifier does.
func (s *sample) notify(ctx context.Context, e messages.Event) error {
	if e.Head().EventID == "" {
		s.clock.add(time.Millisecond)
		e.Head().EventID, e.Head().Time = id.Floor(s.clock.now()), s.clock.now()
	}
	msg, err := queue.Message(ctx, e)
	if err != nil {
		return err
	}
	msg.SetContext(queue.WithReceive(ctx, queue.NewReceive(1)))
	running, stop := context.WithCancel(ctx)
	var run errgroup.Group
	run.Go(func() error {
		return notify.New(notify.Config{
			Store: s.store, Broker: oneMessage{msg: msg}, IDs: id.NewGenerator(s.clock.now), Now: s.clock.now, Window: time.Millisecond,
		}).Run(running)
	})
	select {
	case <-msg.Acked():
	case <-msg.Nacked():
		err = errors.New("the notifier failed")
	}
	stop()
	return errors.Join(err, run.Wait())
}

// windowPatterns are windows of the notifier. Each window has one event.
func windowPatterns() []accessPattern {
	var post string
	var first *messages.LikeCounted
	const same = "the same"
	like := func(user, reaction string) *messages.LikeCounted {
		return &messages.LikeCounted{PostID: post, AuthorID: noticed, UserID: user, Liked: reaction != "", Reaction: reaction}
	}
	return []accessPattern{
		{"a new like", "the notification, in GSI1 too. It, the mark, the post by id and the actor's mute are read", func(ctx context.Context, s *sample) error {
			post = s.world.post(noticed, "noticed").ID
			s.measure()
			first = like(s.authors[0], schema.KindLike)
			return s.notify(ctx, first)
		}},
		{"a later like", "the same, to another place in GSI1", func(ctx context.Context, s *sample) error {
			return s.notify(ctx, like(s.authors[1], schema.KindLike))
		}},
		{"a like that is taken back, behind the top", same, func(ctx context.Context, s *sample) error {
			return s.notify(ctx, like(s.authors[0], ""))
		}},
		{"a like that is taken back, at the top", "the same, which leaves GSI1", func(ctx context.Context, s *sample) error {
			return s.notify(ctx, like(s.authors[1], ""))
		}},
		{"an event that is redelivered", "nothing", func(ctx context.Context, s *sample) error { return s.notify(ctx, first) }},
		{"a new comment", "the same; the comment is read, too", func(ctx context.Context, s *sample) error {
			c, err := s.CreateComment(ctx, s.authors[2], post, "noticed")
			if err != nil {
				return err
			}
			s.measure()
			return s.notify(ctx, &messages.Commented{PostID: post, AuthorID: noticed, CommentID: c.ID, UserID: s.authors[2]})
		}},
		{"a new mention", "the same; the profile and the block are read, too", func(ctx context.Context, s *sample) error {
			return s.notify(ctx, &messages.Mentioned{UserID: noticed, ActorID: s.authors[3], PostID: s.ids[2]})
		}},
		{"a new repost", "the same; the repost is read by its id, too", func(ctx context.Context, s *sample) error {
			repost, err := s.Repost(ctx, s.authors[2], post)
			if err != nil {
				return err
			}
			s.measure()
			return s.notify(ctx, &messages.Reposted{PostID: post, AuthorID: noticed, RepostID: repost.ID, UserID: s.authors[2]})
		}},
		{"a new follow", "the same, with the profile in the place of the post", func(ctx context.Context, s *sample) error {
			return s.notify(ctx, &messages.Followed{FollowerID: s.authors[4], AuthorID: noticed, From: id.Min, MarkVersion: id.Floor(s.clock.now())})
		}},
		{"the end of a follow", "the same; the home mark is read, too", func(ctx context.Context, s *sample) error {
			s.clock.add(time.Millisecond)
			mark := schema.Mark{User: s.authors[4], Author: noticed, Kind: schema.MarkUnfollowed, Version: id.Floor(s.clock.now()), TTL: s.clock.now().Add(time.Hour)}
			if _, err := s.store.Put(ctx, table.PutInput{Item: mark.Item()}); err != nil {
				return err
			}
			s.measure()
			return s.notify(ctx, &messages.Unfollowed{FollowerID: mark.User, AuthorID: noticed, MarkVersion: mark.Version})
		}},
		{"a like of a post that is gone", "the notification goes, from GSI1 too", func(ctx context.Context, s *sample) error {
			if err := s.notify(ctx, like(s.authors[5], schema.KindLike)); err != nil {
				return err
			}
			if err := s.DeletePost(ctx, noticed, post); err != nil {
				return err
			}
			s.measure()
			return s.notify(ctx, like(s.authors[6], schema.KindLike))
		}},
	}
}
