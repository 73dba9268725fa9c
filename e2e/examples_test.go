//go:build e2e

package e2e

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// TestThePageOfTheExamplesShowsALiveHome opens examples/browser in a real browser, from
// another origin than the API's, as its comment says.
func TestThePageOfTheExamplesShowsALiveHome(t *testing.T) {
	t.Parallel()
	files := http.NewServeMux()
	files.Handle("/", http.FileServer(http.Dir("../examples/browser")))
	files.HandleFunc("/favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	site := httptest.NewServer(files)
	defer site.Close()
	u := newUp(t)
	u.env = append(u.env, "FANFARE_CORS_ORIGINS="+site.URL)
	p := u.start(t)
	ann, bob := signUp(t, connect(t, u.http), "ann"), signUp(t, connect(t, u.http), "bob")
	require.NoError(t, bob.Follow(t.Context(), "ann"))
	token, err := connect(t, u.http).DevToken(t.Context(), "bob", 0)
	require.NoError(t, err)

	page := newWindow(t).open(site.URL)
	page.run(chromedp.SetValue(`[name=api]`, "http://"+u.http, chromedp.ByQuery),
		chromedp.SetValue(`[name=token]`, token.Token, chromedp.ByQuery), chromedp.Click(`#connect button`, chromedp.ByQuery))
	page.until("the home is live", `document.querySelector("#state").value === "live"`)
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: hostile})
	require.NoError(t, err)
	page.until("the post is shown", `document.getElementById("`+post.ID+`")`)
	assert.Equal(t, "ann: "+hostile+" (0 likes)", page.text(`document.getElementById("`+post.ID+`").textContent`))
	require.NoError(t, bob.Like(t.Context(), post.ID))
	page.until("the like is shown", `document.getElementById("`+post.ID+`").textContent.endsWith("(1 likes)")`)
	_, problems := page.seen()
	assert.Empty(t, problems)
	assert.Equal(t, "undefined", page.text(`typeof window.hacked`), "a text of a user ran")
	p.stop(t)
}

// TestTheTestOfTheExamplesPasses runs the test of examples/testcontainers. No machine of the
// project has Docker, so it is given a `fanfare up` in place of the container.
func TestTheTestOfTheExamplesPasses(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	test := exec.CommandContext(t.Context(), "go", "test", "-tags", "docker", "-vet=off", "-ldflags=-w", "-count=1", "-v", ".")
	test.Dir, test.Env = "../examples/testcontainers", environment("FEED_URL=http://"+u.http)
	out, err := test.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, 1, strings.Count(string(out), "--- PASS: TestAPostComesIntoTheHomeOfAFollower"), "%s", out)
	p.stop(t)
}
