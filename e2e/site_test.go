//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/porttest"
)

// newSite runs examples/site, and returns its URL. The feed is below /feed/.
func newSite(t *testing.T) (url string, p *process) {
	t.Helper()
	binary, addr := filepath.Join(t.TempDir(), "site"), porttest.Free(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", binary, ".")
	build.Dir = "../examples/site"
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	p = startBinary(t, environment(), binary, "-addr", addr, "-data", filepath.Join(t.TempDir(), "data"))
	p.ready(t, addr+"/feed")
	return "http://" + addr, p
}

// signInAt begins a session by the form of the site.
func (b *tab) signInAt(user string) *tab {
	b.t.Helper()
	b.run(chromedp.SendKeys(`[name=user]`, user, chromedp.ByQuery), chromedp.Click(`button`, chromedp.ByQuery))
	b.until("the site leads to the console", `location.pathname === "/feed/"`)
	return b
}

// isBelow checks that each request of a page was below a prefix, and that no answer was a refusal.
func (b *tab) isBelow(site, prefix string) {
	b.t.Helper()
	requests, _ := b.seen()
	for _, request := range requests {
		assert.True(b.t, strings.HasPrefix(request, site+prefix) || strings.HasPrefix(request, "data:"), request)
	}
	b.isClean(strings.TrimPrefix(site, "http://")) // a refusal is a line of the browser's log
}

// TestTheConsoleWorksInsideASite uses the console below the path of a site whose sessions identify the users.
func TestTheConsoleWorksInsideASite(t *testing.T) {
	t.Parallel()
	site, p := newSite(t)
	window := newWindow(t)
	stranger := window.open(site + "/feed/")
	stranger.until("it asks to sign in", `document.querySelector(".signin p").textContent.includes("nobody is signed in") && !document.querySelector(".signin form")`)

	member := window.open(site).signInAt("ann")
	member.until("it asks for a name", `document.querySelector(".signin [name=name]")`)
	member.press(".signin [name=name]", "Ann")
	member.press(".signin .primary", "\r")
	member.until("she has a home", `document.querySelector("#live.on")`)

	ann := window.open(site + "/feed/")
	ann.until("the home is live", `document.querySelector("#live.on") && document.querySelector(".counts")`)
	ann.write("Hello @ann")
	ann.until("the post is delivered", `document.querySelector(".delivery.complete") && document.querySelector("#home .entry .like")`)
	ann.until("the mention leads below the prefix", `document.querySelector("#home .text a").pathname === "/feed/users/ann"`)
	ann.press("#home .entry .like", " ")
	ann.until("the like is counted", `document.querySelector("#home .entry .count").textContent === "1"`)
	ann.run(chromedp.Evaluate(`document.querySelector("#home .react").open = true`, nil))
	ann.press("#home .react .kind", " ")
	ann.until("the love is counted", `document.querySelector("#home .kinds").textContent.includes("love 1")`)
	ann.until("its link leads below the prefix", `document.querySelector("#home .kinds a").pathname.startsWith("/feed/posts/")`)
	ann.here("/feed/users/ann", `document.querySelector("#user h1 bdi") && document.querySelector("#list .entry")`)
	ann.here("/feed/notifications", `document.querySelector("#list:not(.loading)")`)
	ann.here("/feed/profile", `document.querySelector("[name=bio]")`)
	assert.Equal(t, "null", ann.text(`String(sessionStorage.getItem("fanfare.token"))`), "the site has the session")
	ann.here("/feed/docs", `document.querySelectorAll("#list a").length > 30 && !document.querySelector("#token-form").checkVisibility()`)
	ann.run(chromedp.Evaluate(`document.getElementById("get-me").open = true`, nil))
	ann.until("its form is there", `document.querySelector("#get-me form button")`)
	ann.press("#get-me form button", "\r")
	ann.until("the call has the session", `document.querySelector("#get-me .answer").textContent.includes('"Ann"')`)
	assert.Contains(t, ann.text(`document.querySelector("#get-me pre.curl").textContent`), site+"/feed/v1/me'")
	ann.isBelow(site, "/feed/")

	window.open(site).signInAt("bob") // in the same browser
	ann.run(chromedp.Navigate(site + "/feed/"))
	ann.until("the tab has another user", `document.querySelector(".signin [name=name]")`)
	p.stop(t)
}
