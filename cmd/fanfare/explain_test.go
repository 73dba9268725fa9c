package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/internal/feed/access"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/admin"
	"fanfare/internal/datadir"
	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/queue"
	"fanfare/internal/table/embedded"
	"fanfare/messages"
)

// offline calls do with the feed of a data directory that no process has open. The clock of the feed shows
// the time at. The messages of follows are handled, and all other messages are lost.
func offline(t *testing.T, path string, at time.Time, do func(*feed.Service)) {
	t.Helper()
	dir, err := datadir.Open(path)
	require.NoError(t, err)
	now := func() time.Time { return at }
	store, err := embedded.Create(dir.Path("table"), embedded.Options{Now: now})
	require.NoError(t, err)
	sent := &backfills{}
	do(feed.New(feed.Config{Access: access.New(access.Config{Store: store, Publisher: sent, IDs: id.NewGenerator(now), Now: now, Lifetimes: lifetime.Fixed(30 * 24 * time.Hour)})}))
	worker := fanout.New(fanout.Config{Store: store, IDs: id.NewGenerator(now), Now: now, Lifetimes: lifetime.Fixed(30 * 24 * time.Hour)})
	for _, e := range sent.events {
		assert.NoError(t, worker.HandleBackfills(t.Context(), e))
	}
	require.NoError(t, errors.Join(store.Close(), dir.Close()))
}

// backfills is a publisher that keeps the messages of follows, and loses all other messages.
type backfills struct{ events []messages.Event }

func (*backfills) Close() error { return nil }

func (b *backfills) Publish(_ string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		e, err := messages.Decode(msg.Payload)
		if _, follow := e.(*messages.Followed); err != nil || !follow {
			return err
		}
		b.events = append(b.events, e)
	}
	return nil
}

// makePosts makes n posts of a user. The messages of the posts are lost.
func makePosts(t *testing.T, f *feed.Service, author string, n int) (posts []string) {
	t.Helper()
	for range n {
		p, err := f.CreatePost(t.Context(), author, feed.PostInput{Content: feed.Content{Text: "by " + author}})
		require.NoError(t, err)
		posts = append(posts, p.ID)
	}
	return posts
}

// explained requests the reason why a home shows a post or lacks it.
func (r *running) explained(t *testing.T, user, post string) home.Explanation {
	t.Helper()
	all, err := admin.Explain().Do(t.Context(), admin.NewClient(r.admin, &http.Client{Timeout: time.Minute}), admin.Explained{User: user, Post: post})
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// The test causes each reason on the embedded engine, with calls of users and with faults. The home that the
// API serves agrees with each reason.
func TestExplainTellsTheReasonOfEachPost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var expired, older, lost []string
	profiles := func(f *feed.Service, users ...string) {
		for _, user := range users {
			_, err := f.PutProfile(t.Context(), user, feed.ProfileInput{Name: user})
			require.NoError(t, err)
		}
	}
	offline(t, dir, time.Now().Add(-30*24*time.Hour-time.Minute), func(f *feed.Service) {
		profiles(f, "ann")
		expired = makePosts(t, f, "ann", 1)
	})
	offline(t, dir, time.Now().Add(-time.Hour), func(f *feed.Service) { // after an hour the marks no longer merge posts
		profiles(f, "big", "eve", "fan", "gone", "old", "zed")
		older = makePosts(t, f, "old", 101)
		require.NoError(t, f.Follow(t.Context(), "fan", "ann"))
	})
	p := upWith(t, []string{"FANFARE_PUSH_LIMIT=1"}, dir)
	ctx := t.Context()
	post := func(user string) string {
		made, err := p.as(t, user).CreatePost(ctx, client.PostInput{Text: "by " + user})
		require.NoError(t, err)
		return made.ID
	}
	for _, pair := range [][2]string{{"fan", "big"}, {"eve", "big"}, {"fan", "gone"}, {"fan", "old"}} {
		require.NoError(t, p.as(t, pair[0]).Follow(ctx, pair[1]))
	}
	want := map[string]string{
		post("fan"): "own", post("zed"): "not_followed", expired[0]: "expired", older[0]: "before_follow", older[100]: "copied",
	}
	pushed, deleted, unfollowed := post("ann"), post("ann"), post("gone")
	for _, post := range []string{pushed, deleted, unfollowed} {
		until(t, "a delivery", func() bool { return p.explained(t, "fan", post).Reason == "pushed" })
	}
	want[pushed], want[deleted], want[unfollowed] = "pushed", "deleted", "unfollowed"
	until(t, "a backfill", func() bool { return p.explained(t, "fan", older[100]).Reason == "copied" })
	require.NoError(t, p.as(t, "ann").DeletePost(ctx, deleted))
	require.NoError(t, p.as(t, "fan").Unfollow(ctx, "gone"))
	var pulled string
	until(t, "a pulled post", func() bool {
		pulled = post("big")
		state := ""
		until(t, "its delivery", func() bool {
			d, err := admin.Delivery().Do(ctx, admin.NewClient(p.admin, &http.Client{Timeout: time.Minute}), admin.Delivered{Post: pulled})
			require.NoError(t, err)
			state = string(d.State)
			return state == "complete" || state == "pulled"
		})
		return state == "pulled"
	})
	want[pulled] = "pulled"
	p.stop(t, os.Interrupt)

	offline(t, dir, time.Now(), func(f *feed.Service) { lost = makePosts(t, f, "ann", 2) })
	queued, dead := lost[0], lost[1]
	old, err := id.NewGenerator(func() time.Time { return time.Now().Add(-messages.MaxAge - time.Hour) }).New()
	require.NoError(t, err)
	stale, err := queue.Message(ctx, &messages.PostCreated{
		Header: messages.Header{EventID: old, Time: time.Now().UTC()}, PostID: dead, AuthorID: "ann", Content: messages.Content{Text: "dead"},
	})
	require.NoError(t, err)
	poison(t, dir, map[string]*message.Message{queue.TopicPosts: stale})
	want[queued], want[dead] = "queued", "dead_letter"
	p = upWith(t, []string{"FANFARE_PUSH_LIMIT=1"}, dir)
	until(t, "the dead letter", func() bool { return p.explained(t, "fan", dead).Reason == "dead_letter" })

	shownHome, err := p.as(t, "fan").Home(client.Push).Page(ctx, "", 100)
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, item := range shownHome.Items {
		shown[item.Post.ID] = true
	}
	for post, reason := range want {
		e := p.explained(t, "fan", post)
		assert.EqualValues(t, reason, e.Reason, e.Text)
		assert.Equal(t, shown[post], e.InHome, e.Text)
	}
	_, out, errs := result(t, nil, "fanfare", "explain", "fan", "--json", "--admin", p.admin)
	var recent struct{ Items []home.Explanation }
	require.NoError(t, json.Unmarshal([]byte(out), &recent), errs)
	assert.Len(t, recent.Items, 20)
	assert.Equal(t, p.explained(t, "fan", dead), recent.Items[0])
	code, _, errs := result(t, nil, "fanfare", "explain", "fan", id.Min, "--admin", p.admin)
	assert.Equal(t, 1, code)
	assert.Equal(t, "fanfare: there is no post "+id.Min+", or its message still waits\n", errs)
	watchToTheEnd(t, p, pushed, queued)
}

// watchToTheEnd watches two deliveries: the first delivery has ended, and the second begins during the watch.
func watchToTheEnd(t *testing.T, p *running, ended, queued string) {
	t.Helper()
	code, out, errs := result(t, nil, "fanfare", "delivery", ended, "--watch", "--admin", p.admin)
	if code != 0 || !strings.Contains(out, "100 % complete: 2 of 2 homes, 1 of 1 chunks, at ") || strings.Count(out, "\n") != 1 {
		t.Errorf("exit code %d, %q, %s", code, out, errs)
	}
	watch := command(t, nil, "fanfare", "delivery", queued, "--watch", "--admin", p.admin)
	pipe, err := watch.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, watch.Start())
	lines := bufio.NewReader(pipe)
	first, err := lines.ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, first, "  0 % queued since ")
	code, _, errs = result(t, nil, "fanfare", "reconcile", "--older-than", "0s", "--admin", p.admin)
	require.Zero(t, code, errs)
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, watch.Wait())
	assert.Contains(t, string(rest), "100 % complete: 2 of 2 homes, 1 of 1 chunks, at ")
}

// deliveries gives successive answers about one post.
type deliveries struct {
	answers []delivery.Progress
	asked   int
}

func (d *deliveries) read() (delivery.Progress, error) {
	answer := d.answers[min(d.asked, len(d.answers)-1)]
	d.asked++
	return answer, nil
}

// someDeliveries returns the states of one delivery in the order of time.
func someDeliveries() []delivery.Progress {
	at := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	n := func(v int64) *int64 { return &v }
	return []delivery.Progress{
		{State: "queued", AcceptedAt: at},
		{State: "running", AcceptedAt: at, Planned: n(10_001), Delivered: n(1), ChunksDone: n(0), Attempts: 1},
		{State: "running", AcceptedAt: at, Planned: n(10_001), Delivered: n(4001), ChunksDone: n(1), ChunksTotal: n(3), Attempts: 2},
		{State: "running", AcceptedAt: at, Planned: n(10_001), Delivered: n(4001), ChunksDone: n(1), ChunksTotal: n(3), Attempts: 2},
		{State: "running", AcceptedAt: at, Planned: n(10_001), Delivered: n(9001), Skipped: n(1000), ChunksDone: n(2), ChunksTotal: n(3), Attempts: 2},
		{State: "complete", AcceptedAt: at, Planned: n(10_001), Delivered: n(10_002), ChunksDone: n(3), ChunksTotal: n(3), CompletedAt: &at},
	}
}

const someLines = `[..............................]   0 % queued since 2026-11-22T08:00:00Z: no worker has begun
[..............................]   0 % running: 1 of 10,001 homes, 0 chunks, attempt 1
[############..................]  40 % running: 4,001 of 10,001 homes, 1 of 3 chunks, attempt 2
[#############################.]  99 % running: 9,001 and 1,000 skipped of 10,001 homes, 2 of 3 chunks, attempt 2
[##############################] 100 % complete: 10,002 of 10,001 homes, 3 of 3 chunks, at 2026-11-22T08:00:00Z
`

func TestAWatchEndsWithTheDelivery(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers []delivery.Progress
		watch   bool
		out     string
		looks   int
	}{
		"unfinished":              {someDeliveries(), true, someLines, 6},
		"finished":                {someDeliveries()[5:], true, someLines[strings.LastIndex(someLines[:len(someLines)-1], "\n")+1:], 1},
		"one look":                {someDeliveries(), false, someLines[:strings.Index(someLines, "\n")+1], 1},
		"pulled":                  {[]delivery.Progress{{State: "pulled"}}, true, "pulled: homes merge it in, nothing is delivered\n", 1},
		"cancelled":               {[]delivery.Progress{{State: "cancelled", Reason: "the post was deleted"}}, true, "cancelled: the post was deleted before its delivery was complete\n", 1},
		"complete without record": {[]delivery.Progress{{State: "complete"}}, true, "[##############################] 100 % complete, and its record has expired\n", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			d := &deliveries{answers: tt.answers}
			began := time.Now()
			require.NoError(t, watchDelivery(t.Context(), tt.watch, d.read, (&app{stdout: &out}).showDelivery()))
			assert.Equal(t, tt.out, out.String(), name)
			assert.Equal(t, tt.looks, d.asked, name)
			assert.Equal(t, time.Duration(tt.looks-1)*watchEvery, time.Since(began), name)
		})
	}
}

func TestAWatchOfARestingDeliveryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		d := &deliveries{answers: someDeliveries()[:1]}
		err := watchDelivery(ctx, true, d.read, func(delivery.Progress, bool) error { return nil })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.InDelta(t, time.Hour/watchEvery, d.asked, 1)
	})
}

// A stranger chooses the texts of a dead letter.
func TestExplainPrintsARowForEachPost(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin/explain/fan" && r.URL.Query().Get("post") == "" {
			assert.NoError(t, json.NewEncoder(w).Encode([]home.Explanation{
				{Post: id.Min, Author: "ann", InHome: true, Reason: "pushed", Text: "chunk 2 pushed it, done at 2026-11-22T08:00:00Z"},
				{Post: id.Max, Author: "bob", Reason: "dead_letter", Text: "its delivery stopped at dead letter x\x1b[2J of posts"},
			}))
			return
		}
		http.Error(w, "there is no user", http.StatusGone)
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	code, out, errs := result(t, nil, "fanfare", "explain", "fan", "--admin", addr)
	require.Zero(t, code, errs)
	assert.Equal(t, `POST                        AUTHOR  IN HOME  REASON
00000000000000000000000000  ann     yes      chunk 2 pushed it, done at 2026-11-22T08:00:00Z
7ZZZZZZZZZZZZZZZZZZZZZZZZZ  bob     no       "its delivery stopped at dead letter x\x1b[2J of posts"
`, out)
	code, _, errs = result(t, nil, "fanfare", "explain", "nobody", "--admin", addr)
	assert.Equal(t, 1, code)
	assert.Equal(t, "fanfare: there is no user\n", errs)
	for _, args := range [][]string{{""}, {"fan", ""}, {"fan", "x"}, {"a/b"}} {
		code, _, _ = result(t, nil, "fanfare", append([]string{"explain", "--admin", addr}, args...)...) // only the exit code matters
		assert.Equal(t, 2, code, args)
	}
}
