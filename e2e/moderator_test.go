//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// TestAModeratorEndsAPostAndAUser opens a hostile post and its author on the admin address, takes the post down, and removes the
// author, with the keyboard only.
func TestAModeratorEndsAPostAndAUser(t *testing.T) {
	t.Parallel()
	u, p := newDemo(t)
	bob := u.as(t, "bob")
	_, err := bob.PutMe(t.Context(), client.ProfileInput{Name: hostile, Bio: hostile, ImageURL: "https://other.example/bob.png"})
	require.NoError(t, err)
	right, err := bob.CreatePost(t.Context(), client.PostInput{Text: "Nothing is wrong with this"})
	require.NoError(t, err)
	post, err := bob.CreatePost(t.Context(), client.PostInput{Text: "Forged shoes, " + hostile})
	require.NoError(t, err)
	await(t, "the post is delivered", func() bool {
		d, err := bob.Delivery(t.Context(), post.ID)
		return err == nil && d.State == "complete"
	})

	window := newWindow(t)
	page := window.open("http://" + u.admin + "/")
	page.until("the page leads to the page for moderators", `document.querySelector("nav a[href='/moderate']")`)
	page.run(chromedp.Click(`nav a[href="/moderate"]`, chromedp.ByQuery))
	page.until("the form is there", `location.pathname === "/moderate" && document.querySelector("#open [name=post]")`)
	page.press(`#open [name=post]`, post.ID+"\r")
	page.until("the post is there", `document.querySelector("#seen .text")`)
	assert.Equal(t, "Forged shoes, "+hostile+hostile, page.text(`document.querySelector("#seen .text").textContent + document.querySelector("#seen .name").textContent`))

	page.accept()
	page.press(`.end [name=reason]`, "It advertises forged shoes.\r")
	page.until("the post is gone, with the reason", `document.querySelector("#seen strong")?.textContent === "Taken down: It advertises forged shoes."`)
	d, err := bob.Delivery(t.Context(), post.ID)
	require.NoError(t, err)
	assert.Equal(t, "operator: It advertises forged shoes.", d.TakenDown.By+": "+d.TakenDown.Reason, "the author sees the reason")
	page.isOpenToAll("moderator-gone")

	carol := u.as(t, "carol")
	_, err = carol.PutMe(t.Context(), client.ProfileInput{Name: "Carol"})
	require.NoError(t, err)
	for i := range 19 {
		_, err := carol.CreatePost(t.Context(), client.PostInput{Text: fmt.Sprint("post ", i)})
		require.NoError(t, err)
	}
	_, err = carol.CreatePost(t.Context(), client.PostInput{Text: "so true", QuoteOf: right.ID})
	require.NoError(t, err)
	_, err = carol.Repost(t.Context(), right.ID)
	require.NoError(t, err)
	const texts = `[...document.querySelectorAll("#seen .entry .text")].map(e => e.textContent)`
	page.here("/moderate?user=carol", texts+`.slice(0, 3).join() === "Nothing is wrong with this,so true,post 18"`)
	assert.Equal(t, "reposted by Carol", page.text(`[...document.querySelectorAll("#seen .line")].map(e => e.textContent).join()`))
	assert.Equal(t, "quotes "+hostile+": Nothing is wrong with this"+"/moderate?post="+right.ID, page.text(`[...document.querySelectorAll("#seen .quotes")].map(e => e.textContent + e.getAttribute("href")).join()`))
	page.press(`#seen .more a`, "\r")
	page.until("the older posts follow", texts+`.join() === "post 0"`)
	assert.Equal(t, "0", page.text(`String(document.querySelectorAll("#seen .end, #seen .profile").length)`), "only the first page has the user")

	page.here("/moderate?user=bob", `document.querySelector("#seen h2")?.textContent === `+"`"+hostile+"`")
	assert.Equal(t, hostile, page.text(`document.querySelector("#seen .bio").textContent`))
	page.until("posts are there", `[...document.querySelectorAll("#seen .entry .text")].map(e => e.textContent).join() === "Nothing is wrong with this"`)
	page.press(`.end [name=again]`, "ada\r")
	page.until("another id removes nobody", `document.getElementById("toast").textContent === "This is not the id of the user: type bob."`)
	page.run(chromedp.Evaluate(`document.querySelector(".end [name=again]").value = ""`, nil))
	page.press(`.end [name=again]`, "bob\r")
	page.until("the user is removed", `/^bob is removed, with [\d,]+ things? of the user/.test(document.querySelector("#seen .card")?.textContent)`)
	_, err = u.as(t, "ada").User(t.Context(), "bob")
	gone, ok := errors.AsType[*client.Problem](err)
	require.True(t, ok && gone.Status == http.StatusNotFound, err)
	page.here("/moderate?user=bob", `document.querySelector("#seen .card")?.textContent.includes("bob")`)
	page.here("/moderate?post=x", `document.querySelector("#seen .card")?.textContent.includes("is no post id")`)

	// The browser logs each answer that refuses, and nothing else.
	_, problems := page.seen()
	for _, problem := range problems {
		assert.Contains(t, problem, "410", "problem in the browser")
	}
	assert.Equal(t, "undefined", page.text(`typeof window.hacked`), "a text of a user ran")
	require.NoError(t, chromedp.Cancel(window.ctx), "close the browser")
	p.stop(t)
}
