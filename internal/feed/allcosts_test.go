package feed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// whole is a world whose workers do all work that a call causes, and count its units.
type whole struct {
	*sample
	meter   *meter
	worker  *fanout.Worker
	notices []messages.Event
}

func newWhole(t *testing.T) *whole {
	t.Helper()
	e := &whole{meter: &meter{}}
	send := func(_ context.Context, events ...messages.Event) error {
		e.notices = append(e.notices, events...)
		return nil
	}
	e.sample = &sample{world: newWorld(t, e.meter.onto, withLimit(1_000_000_000), func(c *config) { c.service.Notices = send })}
	e.worker = fanout.New(fanout.Config{
		Store: e.store, Posts: e.Service, Publisher: e.published, IDs: id.NewGenerator(e.clock.now), Now: e.clock.now, Lifetimes: lifetime.Fixed(timelineTTL),
		Notices: send,
	})
	return e
}

// rest does all work that waits.
func (e *whole) rest() {
	e.t.Helper()
	for {
		events := e.published.take()
		for _, event := range events {
			handle := e.worker.HandleBackfills
			switch event.(type) {
			case *messages.Liked, *messages.Unliked, *messages.Reposted:
				like, kind, _ := messages.ActionOf(event)
				e.count(*like, kind)
				continue
			case *messages.PostCreated:
				handle = e.worker.HandlePosts
			case *messages.FanoutPlan, *messages.FanoutChunk:
				handle = e.worker.HandleChunks
			}
			err := handle(e.t.Context(), event)
			for later, waits := errors.AsType[*queue.Later](err); waits; later, waits = errors.AsType[*queue.Later](err) {
				e.clock.add(max(later.After, time.Second))
				err = handle(e.t.Context(), event)
			}
			require.NoError(e.t, err)
		}
		notices := e.notices
		e.notices = nil
		for _, event := range notices {
			require.NoError(e.t, e.notify(e.t.Context(), event))
		}
		if len(events)+len(notices) == 0 {
			return
		}
	}
}

// The rate limit and the hour count at least the units that a call causes, with the work that follows its answer.
func TestTheLimitsCountWhatEachKindOfCallCauses(t *testing.T) {
	e := newWhole(t)
	var friends, strangers []string
	for i := range messages.MaxMentions {
		friends = append(friends, fmt.Sprintf("friend%02d", i))
		strangers = append(strangers, fmt.Sprintf("nobody%02d", i))
	}
	e.users(friends...)
	e.users("reader", "fat")
	long := strings.Repeat("\U0001F3BA", 5000)
	data := func(bytes int) string { return `{"a":"` + strings.Repeat("x", bytes-len(`{"a":""}`)) + `"}` }
	image := "https://" + strings.Repeat("i", 2040)
	fat, err := e.CreatePost(t.Context(), "fat", feed.PostInput{Content: feed.Content{Text: long, Images: mostImages(), Data: feed.Data(data(messages.MaxPostData)), Mentions: friends}})
	require.NoError(t, err)
	thin := e.world.post("fat", "x")
	e.rest()
	post := func(in feed.PostInput) func(context.Context, string) error {
		return func(ctx context.Context, user string) error { _, err := e.CreatePost(ctx, user, in); return err }
	}
	comment := func(on string, in feed.CommentInput) func(context.Context, string) error {
		return func(ctx context.Context, user string) error { _, err := e.AddComment(ctx, user, on, in); return err }
	}
	posts := func(n int, text string) func(string) {
		return func(user string) {
			for range n {
				e.world.post(user, text)
			}
		}
	}
	own := map[string]string{}
	ownPost := func(in feed.PostInput) func(string) {
		return func(user string) {
			p, err := e.CreatePost(e.t.Context(), user, in)
			require.NoError(t, err)
			own[user] = p.ID
		}
	}
	var comments []feed.Comment
	profile := func(in feed.ProfileInput) func(context.Context, string) error {
		return func(ctx context.Context, user string) error { _, err := e.PutProfile(ctx, user, in); return err }
	}
	for i, c := range []struct {
		name   string
		before func(user string)
		do     func(ctx context.Context, user string) error
		hour   bool // the hour counts the call
	}{
		{"a post of a character", nil, post(feed.PostInput{Content: feed.Content{Text: "x"}}), true},
		{"a post with a key", nil, post(feed.PostInput{Content: feed.Content{Text: "x"}, IdempotencyKey: "key"}), true},
		{"a post of 20 KB", nil, post(feed.PostInput{Content: feed.Content{Text: long}}), true},
		{"a post with an image", nil, post(feed.PostInput{Content: feed.Content{Text: "x", Images: []feed.Image{{URL: image}}}}), true},
		{"a post with ten images", nil, post(feed.PostInput{Content: feed.Content{Images: mostImages()}}), true},
		{"a post with data", nil, post(feed.PostInput{Content: feed.Content{Text: "x", Data: feed.Data(data(messages.MaxPostData))}}), true},
		{"a post with a mention", nil, post(feed.PostInput{Content: feed.Content{Text: "x", Mentions: friends[:1]}}), true},
		{"a post with mentions", nil, post(feed.PostInput{Content: feed.Content{Text: "x", Mentions: friends}}), true},
		{"a post with mentions of nobody", nil, post(feed.PostInput{Content: feed.Content{Text: "x", Mentions: strangers}}), true},
		{"the largest post", nil, post(feed.PostInput{Content: feed.Content{Text: long, Images: mostImages(), Data: feed.Data(data(messages.MaxPostData)), Mentions: friends}}), true},
		{"a post with an end", nil, post(feed.PostInput{Content: feed.Content{Text: "x", ExpiresAt: e.clock.now().Add(time.Hour)}}), true},
		{"a post to followers", func(user string) {
			for _, f := range friends[:20] {
				e.follow(f, user)
			}
		}, post(feed.PostInput{Content: feed.Content{Text: "x"}}), true},
		{"a post to 2,500 followers", func(user string) {
			for i := range 2500 {
				_, err := e.store.Put(t.Context(), table.PutInput{Item: schema.FollowerItem(user, fmt.Sprintf("follower%04d", i), e.clock.now())})
				require.NoError(t, err)
			}
			e.famous(user, 2500)
		}, post(feed.PostInput{Content: feed.Content{Text: "x"}}), true},
		{"a repost", nil, func(ctx context.Context, user string) error { _, err := e.Repost(ctx, user, fat.ID); return err }, true},
		{"a quote", nil, post(feed.PostInput{Content: feed.Content{Text: "x"}, QuoteOf: fat.ID}), true},
		{"the end of a repost", func(user string) { e.world.repost(user, fat.ID) }, func(ctx context.Context, user string) error { return e.EndRepost(ctx, user, fat.ID) }, false},
		{"a comment", nil, comment(thin.ID, feed.CommentInput{Text: "x"}), true},
		{"a comment on the largest post", nil, comment(fat.ID, feed.CommentInput{Text: "x"}), true},
		{"a comment with a mention", nil, comment(thin.ID, feed.CommentInput{Text: "x", Mentions: friends[:1]}), true},
		{"the largest comment on the largest post", nil, comment(fat.ID, feed.CommentInput{Text: long, Data: data(messages.MaxSmallData), Mentions: friends}), true},
		{"a follow", nil, func(ctx context.Context, user string) error { return e.Follow(ctx, user, friends[0]) }, true},
		{"a follow of an author with posts", nil, func(ctx context.Context, user string) error { return e.Follow(ctx, user, "fat") }, true},
		{"an unfollow", func(user string) { e.follow(user, friends[0]) }, func(ctx context.Context, user string) error { return e.Unfollow(ctx, user, friends[0]) }, true},
		{"an unfollow of an author with posts", func(user string) { e.follow(user, "fat"); e.rest(); e.clock.add(2 * time.Minute) }, func(ctx context.Context, user string) error { return e.Unfollow(ctx, user, "fat") }, true},
		{"a rename", nil, profile(feed.ProfileInput{Name: "New"}), true},
		{"a rename with posts", posts(20, "x"), profile(feed.ProfileInput{Name: "New"}), true},
		{"an image with long posts", posts(20, long), profile(feed.ProfileInput{Name: "New", ImageURL: image}), true},
		{"another bio", nil, profile(feed.ProfileInput{Name: "Name", Bio: "Trumpets."}), false},
		{"data of a profile", nil, profile(feed.ProfileInput{Name: "Name", Data: new(data(messages.MaxSmallData))}), false},
		{"an edit", ownPost(feed.PostInput{Content: feed.Content{Text: "x"}}), func(ctx context.Context, user string) error {
			_, err := e.EditPost(ctx, user, own[user], feed.PostEdit{Text: new("y")})
			return err
		}, false},
		{"an edit to 20 KB and data", ownPost(feed.PostInput{Content: feed.Content{Text: "x"}}), func(ctx context.Context, user string) error {
			_, err := e.EditPost(ctx, user, own[user], feed.PostEdit{Text: &long, Data: new(data(messages.MaxPostData))})
			return err
		}, false},
		{"the deletion of a post", ownPost(feed.PostInput{Content: feed.Content{Text: "x"}}), func(ctx context.Context, user string) error { return e.DeletePost(ctx, user, own[user]) }, false},
		{"the deletion of the largest post", ownPost(feed.PostInput{Content: feed.Content{Text: long, Images: mostImages(), Data: feed.Data(data(messages.MaxPostData)), Mentions: friends}}), func(ctx context.Context, user string) error { return e.DeletePost(ctx, user, own[user]) }, false},
		{"the deletion of a post with comments", func(user string) {
			ownPost(feed.PostInput{Content: feed.Content{Text: "x"}})(user)
			for range 5 {
				_, err := e.CreateComment(t.Context(), "reader", own[user], "x")
				require.NoError(t, err)
			}
		}, func(ctx context.Context, user string) error { return e.DeletePost(ctx, user, own[user]) }, false},
		{"the deletion of a comment", func(user string) {
			c, err := e.CreateComment(t.Context(), user, thin.ID, "x")
			require.NoError(t, err)
			comments = append(comments, c)
		}, func(ctx context.Context, user string) error {
			return e.DeleteComment(ctx, user, thin.ID, comments[0].ID)
		}, false},
		{"a block", nil, func(ctx context.Context, user string) error { return e.Block(ctx, user, friends[0]) }, false},
		{"a block that ends follows", func(user string) { e.follow(user, friends[0]); e.follow(friends[0], user) }, func(ctx context.Context, user string) error { return e.Block(ctx, user, friends[0]) }, false},
		{"the end of a block", func(user string) { require.NoError(t, e.Block(t.Context(), user, friends[0])) }, func(ctx context.Context, user string) error { return e.Unblock(ctx, user, friends[0]) }, false},
		{"a mute", nil, func(ctx context.Context, user string) error { return e.Mute(ctx, user, friends[0]) }, false},
	} {
		user := fmt.Sprintf("user%02d", i)
		_, err := e.PutProfile(t.Context(), user, feed.ProfileInput{Name: "Name"})
		require.NoError(t, err)
		e.clock.add(time.Second)
		if c.before != nil {
			c.before(user)
		}
		e.rest()
		e.clock.add(2 * time.Minute) // nothing is remembered
		hour := e.units(user)
		sum := e.meter.sum()
		ctx, cost := access.WithCost(t.Context())
		require.NoError(t, c.do(ctx, user), c.name)
		e.rest()
		caused := e.meter.sum() - sum
		if strings.HasSuffix(c.name, "with comments") {
			caused -= 5 * 3 // in the cost of the comments
		}
		t.Logf("%-44s caused %6.1f, the rate limit %6.1f, the hour %4d", c.name, caused, cost.Units(), e.units(user)-hour)
		assert.GreaterOrEqual(t, cost.Units(), caused, "the rate limit: %s", c.name)
		assert.LessOrEqual(t, cost.Units(), 2*caused+5, "the rate limit: %s", c.name)
		if c.hour {
			assert.GreaterOrEqual(t, float64(e.units(user)-hour), caused, "the hour: %s", c.name)
		}
	}
}
