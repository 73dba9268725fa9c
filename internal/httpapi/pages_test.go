package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/internal/feed/access"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/httpapi"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// meter counts the read units of a table.
type meter struct {
	mu    sync.Mutex
	units float64
}

func (m *meter) add(_ table.Op, used table.Units, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units += used.Read
}

func (m *meter) take() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	units := m.units
	m.units = 0
	return units
}

// pagesWorld has alice with 20 followers and 20 posts of 280 characters. The newest post has 20 comments.
// ann, who draws the pages, follows alice and ten of the followers. The caches of the API are empty.
func pagesWorld(t *testing.T) (ann *client.Client, post string, units *meter, requests func() int) {
	t.Helper()
	store, units := tabletest.NewMemory(), &meter{}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at } // at a fixed time no cache expires
	way := access.Config{
		Store: store, Publisher: &published{}, IDs: id.NewGenerator(now), Now: now, Lifetimes: lifetime.Fixed(time.Hour), LikeWindow: time.Second, Log: zap.NewNop(),
	}
	made := feed.New(feed.Config{Access: access.New(way), LikesByUser: true})
	ctx, text := t.Context(), strings.Repeat("x", 280)
	users := []string{"alice", "ann"}
	for i := range 20 {
		users = append(users, fmt.Sprintf("user-%02d", i))
	}
	for _, user := range users {
		_, err := made.PutProfile(ctx, user, feed.ProfileInput{Name: "Name of " + user})
		require.NoError(t, err)
	}
	for range 20 {
		p, err := made.CreatePost(ctx, "alice", feed.PostInput{Content: feed.Content{Text: text}})
		require.NoError(t, err)
		post = p.ID
	}
	for i, user := range users[2:] {
		require.NoError(t, made.Follow(ctx, user, "alice"))
		_, err := made.CreateComment(ctx, user, post, text)
		require.NoError(t, err)
		if i%2 == 0 {
			require.NoError(t, made.Follow(ctx, "ann", user))
		}
	}
	require.NoError(t, made.Follow(ctx, "ann", "alice"))
	w := newWorld(t, func(c *httpapi.Config) {
		read := way
		read.Store = table.Measure(store, units.add)
		serve(c, read, feed.Config{LikesByUser: true})
	})
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.api.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	ann, err := client.New(server.URL)
	require.NoError(t, err)
	t.Cleanup(ann.CloseIdleConnections)
	return ann.AsToken(w.token(t, "ann")), post, units, func() int { return int(calls.Swap(0)) }
}

// page is a page of a user interface. It is drawn once with views, and once without views, by the
// necessary calls.
type page struct {
	name          string
	calls         int
	views, before func(ctx context.Context, c *client.Client, post string) error
}

func each[T any](ctx context.Context, items []T, read ...func(T) error) error {
	for _, item := range items {
		for _, one := range read {
			if err := one(item); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// absent turns the error of a 404 into nil.
func absent[T any](_ T, err error) error {
	if err != nil && strings.Contains(err.Error(), "404") {
		return nil
	}
	return err
}

func only[T any](_ T, err error) error { return err }

func pages() []page {
	return []page{
		{"a profile with its 20 newest posts", 2, func(ctx context.Context, c *client.Client, post string) error {
			u, err := c.Profile(ctx, "alice")
			if err != nil || u.Counts.Followers != 21 || !u.Following {
				return fmt.Errorf("profile %+v: %w", u, err)
			}
			l, err := c.PostViewsByUser("alice", client.PostRange{}).Page(ctx, "", 20)
			if err != nil || len(l.Items) != 20 || l.Items[0].Post.ID != post || l.Items[0].CommentCount != 20 || l.Items[0].Author.Name != "Name of alice" {
				return fmt.Errorf("posts %+v: %w", l, err)
			}
			return nil
		}, func(ctx context.Context, c *client.Client, _ string) error {
			l, err := c.PostsByUser("alice", client.PostRange{}).Page(ctx, "", 20)
			if err != nil {
				return err
			}
			if err := only(c.User(ctx, "alice")); err != nil {
				return err
			}
			if err := only(c.Relationship(ctx, "ann", "alice")); err != nil {
				return err
			}
			return each(ctx, l.Items,
				func(p client.Post) error { return only(c.LikeCount(ctx, p.ID)) }, func(p client.Post) error { return absent(c.LikeOf(ctx, p.ID, "ann")) })
		}},
		{"20 followers", 1, func(ctx context.Context, c *client.Client, _ string) error {
			l, err := client.WithUsers(c.Followers("alice")).Page(ctx, "", 20)
			if err != nil || len(l.Items) != 20 || l.Items[1].User.Name == "" || !l.Items[1].User.Following || l.Items[1].User.FollowedBy {
				return fmt.Errorf("followers %+v: %w", l, err)
			}
			return nil
		}, func(ctx context.Context, c *client.Client, _ string) error {
			l, err := c.Followers("alice").Page(ctx, "", 20)
			if err != nil {
				return err
			}
			return each(ctx, l.Items,
				func(e client.Edge) error { return only(c.User(ctx, e.UserID)) }, func(e client.Edge) error { return only(c.Relationship(ctx, "ann", e.UserID)) })
		}},
		{"a post with 20 comments", 2, func(ctx context.Context, c *client.Client, post string) error {
			v, err := c.PostView(ctx, post)
			if err != nil || v.CommentCount != 20 || v.Author.Name != "Name of alice" {
				return fmt.Errorf("post %+v: %w", v, err)
			}
			l, err := client.WithUsers(c.Comments(post)).Page(ctx, "", 20)
			if err != nil || len(l.Items) != 20 || l.Items[0].Author.Name != "Name of user-00" || !l.Items[0].Author.Following {
				return fmt.Errorf("comments %+v: %w", l, err)
			}
			return nil
		}, func(ctx context.Context, c *client.Client, post string) error {
			if err := each(ctx, []string{post}, func(p string) error { return only(c.Post(ctx, p)) }, func(string) error { return only(c.User(ctx, "alice")) },
				func(p string) error { return only(c.LikeCount(ctx, p)) }, func(p string) error { return absent(c.LikeOf(ctx, p, "ann")) }); err != nil {
				return err
			}
			l, err := c.Comments(post).Page(ctx, "", 20)
			if err != nil {
				return err
			}
			return each(ctx, l.Items,
				func(e client.Comment) error { return only(c.User(ctx, e.AuthorID)) },
				func(e client.Comment) error { return only(c.Relationship(ctx, "ann", e.AuthorID)) })
		}},
	}
}

// A page takes one or two calls. docs/CAPACITY.md has the units of each page.
func TestAPageTakesOneOrTwoCalls(t *testing.T) {
	var rows strings.Builder
	for _, p := range pages() {
		ann, post, units, requests := pagesWorld(t)
		fmt.Fprintf(&rows, "| %s |", p.name)
		for i, draw := range []func(context.Context, *client.Client, string) error{p.views, p.views, p.before} {
			units.take()
			requests()
			require.NoError(t, draw(t.Context(), ann, post), p.name)
			calls := requests()
			if i != 1 {
				fmt.Fprintf(&rows, " %d |", calls)
			}
			fmt.Fprintf(&rows, " %g |", units.take())
			assert.True(t, i == 2 || calls == p.calls, "%s: %d calls", p.name, calls)
		}
		rows.WriteString("\n")
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "CAPACITY.md"))
	require.NoError(t, err)
	assert.Contains(t, string(doc), rows.String(), "docs/CAPACITY.md has other rows")
}
