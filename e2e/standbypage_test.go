//go:build e2e

package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAPairShowsItsStateInABrowser opens the pages of both machines of a pair. A program gets JSON from the standby, as before.
func TestAPairShowsItsStateInABrowser(t *testing.T) {
	t.Parallel()
	one, two := twins(t)
	one.env = append(one.env, "FANFARE_ARCHIVE=file://"+t.TempDir())
	p := one.start(t)
	s := two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")

	window := newWindow(t)
	primary := window.open("http://" + one.admin + "/")
	primary.until("the primary shows the pair", `document.querySelector("#pair:not([hidden]) [data-fact=mode].yes")?.textContent === "paired"`)
	assert.Equal(t, "primary|2|"+peerOf(one)+", connected", primary.text(`["role", "term", "peer"].map(n => document.querySelector("[data-fact=" + n + "]").textContent).join("|")`))
	primary.until("the archive is there", `!document.querySelector("[data-if-metric]").hidden && /^[\d.]+ (ms|s|min)$/.test(document.querySelector("[data-tile=base]").textContent)`)

	admin := window.open("http://" + two.admin + "/")
	admin.until("the standby shows the pair", `document.querySelector("#pair:not([hidden]) [data-fact=mode].yes")?.textContent === "paired" && document.querySelector("[data-fact=role]").textContent === "standby"`)
	api := window.open("http://" + two.http + "/users/ada")
	api.until("the API's address has a page, too", `document.querySelector("h1")?.textContent === "This machine is a standby" && document.querySelector("main").textContent.includes("`+peerOf(two)+`")`)
	assert.Equal(t, "null", api.text(`String(document.getElementById("pair"))`), "strangers see nothing of the state")

	for _, url := range []string{"http://" + two.http + "/v1/home", "http://" + two.admin + "/", "http://" + two.admin + "/readyz"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		if url == "http://"+two.admin+"/readyz" {
			req.Header.Set("Accept", "text/html")
		}
		res, err := (&http.Client{Timeout: time.Minute}).Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode, url)
		assert.Contains(t, res.Header.Get("Content-Type"), "json", "%s answered %s", url, text)
	}
	primary.run(chromedp.Evaluate(`{ const real = fetch; window.fetch = async (...call) => {
		const answer = await real(...call);
		return String(call[0]).endsWith("/admin/pair") ? Response.json({ ...await answer.json(), connected: false }) : answer;
	}; }`, nil))
	primary.until("a pair whose peer is away is not well", `document.querySelector("#pair [data-fact=mode].no") && document.querySelector("[data-fact=peer]").textContent.endsWith(", away")`)
	require.NoError(t, chromedp.Cancel(window.ctx), "close the browser")
	s.stop(t)
	p.stop(t)
}

// peerOf returns the address of the other machine in the environment of a server.
func peerOf(u *upright) string {
	for _, v := range u.env {
		if peer, ok := strings.CutPrefix(v, "FANFARE_PEER="); ok {
			return peer
		}
	}
	return ""
}
