package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"fanfare/internal/feed/access"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/datadir"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/table/embedded"
)

// lostQueue is a queue that is deleted together with its messages.
type lostQueue struct{}

func (lostQueue) Publish(string, ...*message.Message) error { return nil }
func (lostQueue) Close() error                              { return nil }

// loseQueue makes posts of a user in a data directory that no process has open. The messages of the posts are
// lost with the queue.
func loseQueue(t *testing.T, path, author string, texts ...string) {
	t.Helper()
	dir, err := datadir.Open(path)
	require.NoError(t, err)
	store, err := embedded.Create(dir.Path("table"), embedded.Options{})
	require.NoError(t, err)
	posts := feed.New(feed.Config{
		Access: access.New(access.Config{
			Store: store, Publisher: lostQueue{}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(30 * 24 * time.Hour),
		}),
	})
	for _, text := range texts {
		if _, err := posts.CreatePost(t.Context(), author, feed.PostInput{Content: feed.Content{Text: text}}); err != nil {
			t.Error(err)
		}
	}
	require.NoError(t, errors.Join(store.Close(), os.RemoveAll(dir.Path("queue"))))
	empty, err := queueembedded.Create(dir.Path("queue"), queueembedded.Options{})
	require.NoError(t, err)
	require.NoError(t, errors.Join(empty.Close(), dir.Close()))
}

func TestReconcileDeliversPostsWhoseQueueWasLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := up(t, dir)
	for _, user := range []string{"ann", "fan"} {
		_, err := p.as(t, user).PutMe(t.Context(), client.ProfileInput{Name: user})
		require.NoError(t, err)
	}
	require.NoError(t, p.as(t, "fan").Follow(t.Context(), "ann"))
	_, err := p.as(t, "ann").CreatePost(t.Context(), client.PostInput{Text: "delivered"})
	require.NoError(t, err)
	home := func() string {
		page, err := p.as(t, "fan").Home(client.Push).Page(t.Context(), "", 100)
		require.NoError(t, err)
		var texts []string
		for _, item := range page.Items {
			texts = append(texts, item.Post.Text)
		}
		return strings.Join(texts, ", ")
	}
	until(t, "the first post", func() bool { return home() == "delivered" })
	p.stop(t, os.Interrupt)
	loseQueue(t, dir, "ann", "lost 1", "lost 2")
	p = up(t, dir)

	reconcile := func(args ...string) (done delivery.Reconciled) {
		t.Helper()
		code, out, errs := result(t, nil, "fanfare", append([]string{"reconcile", "--admin", p.admin, "--json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &done); code != 0 || err != nil {
			t.Fatalf("exit code %d, %q, %s", code, out, errs)
		}
		return done
	}
	got := reconcile()
	assert.Equalf(t, delivery.Reconciled{}, got, "%+v of posts that are all young", got)
	if got := reconcile("--older-than", "0s", "--rate", "2"); got.Checked != 3 || got.Published != 2 {
		t.Errorf("%+v, want 2 of 3 posts published", got)
	}
	until(t, "all posts", func() bool { return home() == "lost 2, lost 1, delivered" })
	until(t, "complete deliveries", func() bool { return reconcile("--older-than", "0s").Published == 0 })
	assert.Equal(t, "lost 2, lost 1, delivered", home(), "in the end the home")
}

func TestReconcileRefusesWrongUse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--since", "yesterday"}, {"--rate", "0"}, {"--older-than", "-1h"}, {"POST"}} {
		if code, _, errs := result(t, nil, "fanfare", append([]string{"reconcile"}, args...)...); code != 2 || errs == "" {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
	}
}
