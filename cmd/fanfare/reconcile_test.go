package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/client"
	"fanfare/internal/admin"
	"fanfare/internal/datadir"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/table/embedded"
)

// lostQueue is a queue that is deleted with its messages.
type lostQueue struct{}

func (lostQueue) Publish(string, ...*message.Message) error { return nil }
func (lostQueue) Close() error                              { return nil }

// loseQueue makes posts of a user whose messages are lost with the queue, in a data
// directory that nobody runs on.
func loseQueue(t *testing.T, path, author string, texts ...string) {
	t.Helper()
	dir, err := datadir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	store, err := embedded.Open(dir.Path("table"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	posts := feed.New(feed.Config{
		Store: store, Publisher: lostQueue{}, IDs: id.NewGenerator(time.Now), Now: time.Now, TimelineTTL: 30 * 24 * time.Hour,
	})
	for _, text := range texts {
		if _, err := posts.CreatePost(t.Context(), author, feed.PostInput{Text: text}); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(store.Close(), os.RemoveAll(dir.Path("queue")), dir.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestReconcileDeliversPostsWhoseQueueWasLost(t *testing.T) {
	dir := t.TempDir()
	p := up(t, dir)
	for _, user := range []string{"ann", "fan"} {
		if _, err := p.as(t, user).PutMe(t.Context(), client.ProfileInput{Name: user}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.as(t, "fan").Follow(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.as(t, "ann").CreatePost(t.Context(), client.PostInput{Text: "delivered"}); err != nil {
		t.Fatal(err)
	}
	home := func() string {
		page, err := p.as(t, "fan").Home(client.Push).Page(t.Context(), "", 100)
		if err != nil {
			t.Fatal(err)
		}
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

	reconcile := func(args ...string) (done admin.Reconciled) {
		t.Helper()
		code, out, errs := result(t, nil, "fanfare", append([]string{"reconcile", "--admin", p.admin, "--json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &done); code != 0 || err != nil {
			t.Fatalf("exit code %d, %q, %s", code, out, errs)
		}
		return done
	}
	if got := reconcile(); got != (admin.Reconciled{}) {
		t.Errorf("%+v of posts that are all young", got)
	}
	if got := reconcile("--older-than", "0s", "--rate", "2"); got.Checked != 3 || got.Published != 2 {
		t.Errorf("%+v, want 2 of 3 posts published", got)
	}
	until(t, "all posts", func() bool { return home() == "lost 2, lost 1, delivered" })
	until(t, "complete deliveries", func() bool { return reconcile("--older-than", "0s").Published == 0 })
	if got := home(); got != "lost 2, lost 1, delivered" {
		t.Errorf("in the end the home is %q", got)
	}
}

func TestReconcileRefusesWrongUse(t *testing.T) {
	for _, args := range [][]string{{"--since", "yesterday"}, {"--rate", "0"}, {"--older-than", "-1h"}, {"POST"}} {
		if code, _, errs := result(t, nil, "fanfare", append([]string{"reconcile"}, args...)...); code != 2 || errs == "" {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
	}
}
