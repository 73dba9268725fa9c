package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/client"
)

func TestDemoIsANetworkToLookAtOnceOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := up(t, dir, "--demo")
	ada := p.as(t, "ada")
	until(t, "a home to look at", func() bool {
		page, err := ada.Home(client.Push).Page(t.Context(), "", 100)
		return err == nil && len(page.Items) >= 20 && page.Items[len(page.Items)-1].LikeCount > 0
	})
	until(t, "the network is loaded", func() bool {
		last, err := ada.User(t.Context(), demoPerson(demoCrowd-1).id)
		return err == nil && last.Counts.Posts > 0
	})
	var known map[string]bool
	until(t, "the crowd lives: somebody posts and likes", func() bool {
		page, err := ada.Home(client.Push).Page(t.Context(), "", 100)
		if err != nil {
			return false
		}
		if known == nil {
			known = map[string]bool{}
			for _, item := range page.Items {
				known[item.Post.ID] = true
			}
		}
		return slices.ContainsFunc(page.Items, func(item client.PostView) bool { return !known[item.Post.ID] && item.LikeCount > 0 })
	})
	before, err := ada.User(t.Context(), "margaret")
	require.NoError(t, err)
	author, err := ada.User(t.Context(), "ada")
	require.NoError(t, err)
	assert.Equal(t, int64(304), author.Counts.Followers, "followers of the large author")
	require.Zero(t, p.stop(t, os.Interrupt), "exit code")
	p = up(t, dir, "--demo")
	ada = p.as(t, "ada")
	posts := func() int64 {
		author, err := ada.User(t.Context(), "ada")
		require.NoError(t, err)
		return author.Counts.Posts
	}
	was := posts()
	until(t, "the network lives again", func() bool { return posts() > was })
	after, err := ada.User(t.Context(), "margaret")
	assert.NoError(t, err)
	assert.Equal(t, before.Counts, after.Counts, "after a restart")
}

// A call of the load may fail, for example on a machine with too much work.
// The mark of a complete load is written last, so that a load that failed is repeated.
func TestTheDemoIsLoadedAfterAFailure(t *testing.T) {
	t.Parallel()
	p := up(t, t.TempDir())
	api, err := url.Parse(p.url)
	require.NoError(t, err)
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(api) }}
	var posts atomic.Int64
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/posts") && posts.Add(1) == 10 {
			http.Error(w, "no", http.StatusTeapot)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(door.Close)
	ctx, cancel := context.WithCancel(t.Context())
	log, logged := observer.New(zap.InfoLevel)
	done := make(chan struct{})
	go func() { defer close(done); (&app{}).demo(ctx, door.URL, zap.New(log)) }()
	until(t, "the network is loaded", func() bool { return logged.FilterMessage("demo network loaded").Len() > 0 })
	cancel()
	<-done
	assert.Equal(t, 1, logged.FilterMessage("demo network not loaded, trying again").Len(), "failed loads")
	ada, err := p.as(t, "ada").User(t.Context(), "ada")
	require.NoError(t, err)
	assert.Equal(t, int64(304), ada.Counts.Followers, "followers of the large author")
}
