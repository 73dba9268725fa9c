//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// example is a page of the examples on its own origin, and the API that the page calls.
type example struct {
	*upright

	t    *testing.T
	p    *process
	site *httptest.Server
	page string
}

func newExample(t *testing.T) *example {
	t.Helper()
	return newExampleAt(t, "/examples/browser/", browserExample(t))
}

// browserExample serves examples/browser, with the built client.
func browserExample(t *testing.T) http.Handler {
	t.Helper()
	built, err := typescript()
	require.NoError(t, err)
	files := http.NewServeMux()
	files.Handle("/examples/browser/", http.StripPrefix("/examples/browser/", http.FileServer(http.Dir("../examples/browser"))))
	files.Handle("/client/typescript/dist/", http.StripPrefix("/client/typescript/", http.FileServer(http.Dir(built))))
	return files
}

func newExampleAt(t *testing.T, page string, files http.Handler) *example {
	t.Helper()
	site := httptest.NewServer(files)
	t.Cleanup(site.Close)
	u := newUp(t)
	u.env = append(u.env, "FANFARE_CORS_ORIGINS="+site.URL, "FANFARE_LIKE_WINDOW=100ms")
	return &example{u, t, u.start(t), site, site.URL + page}
}

// open opens the page as a user.
func (e *example) open(window *tab, user string) *tab {
	e.t.Helper()
	page := window.open(e.page)
	e.signIn(page, user)
	return page
}

// signIn connects the page with the API as a user.
func (e *example) signIn(page *tab, user string) {
	e.t.Helper()
	token, err := reach(e.t, e.http).DevToken(e.t.Context(), user, 0)
	require.NoError(e.t, err)
	e.connect(page, token.Token)
	page.until(user+"'s home is live", `document.querySelector("#state").value === "live" && document.querySelector("#bell")?.hidden === false`)
}

// connect gives a token to the page.
func (e *example) connect(page *tab, token string) {
	e.t.Helper()
	page.until("the form is there", `document.querySelector("#connect button")`)
	page.run(chromedp.Evaluate(`document.querySelector("#connection").open = true`, nil),
		chromedp.SetValue(`[name=api]`, "http://"+e.http, chromedp.ByQuery),
		chromedp.SetValue(`[name=token]`, token, chromedp.ByQuery), chromedp.Click(`#connect button`, chromedp.ByQuery))
}

// toggleLike makes or ends the like of a post, with the keyboard.
func (b *tab) toggleLike(post string) {
	b.t.Helper()
	like := fmt.Sprintf(`[id="%s"] .like`, post)
	b.until("the post is shown", fmt.Sprintf(`document.querySelector('%s')`, like))
	b.press(like, " ")
}

// number returns the value of an expression.
func (b *tab) number(expression string) float64 {
	b.t.Helper()
	var value float64
	b.run(chromedp.Evaluate(expression, &value))
	return value
}

// isClean checks that the pages had no problem.
func (e *example) isClean(pages ...*tab) {
	e.t.Helper()
	for _, page := range pages {
		page.isClean(strings.TrimPrefix(e.site.URL, "http://"), e.http)
	}
}

// notified waits until the list of a user's notifications has this length.
func notified(t *testing.T, user *client.Client, length int) {
	t.Helper()
	await(t, fmt.Sprint(length, " notifications"), func() bool {
		page, err := user.Notifications(t.Context(), "", 100)
		return err == nil && len(page.Items) == length
	})
}

// TestThePageOfTheExamplesShowsALiveHome opens examples/browser in a real browser.
func TestThePageOfTheExamplesShowsALiveHome(t *testing.T) {
	t.Parallel()
	e := newExample(t)
	ann, bob := signUp(t, reach(t, e.http), "ann"), signUp(t, reach(t, e.http), "bob")
	require.NoError(t, bob.Follow(t.Context(), "ann"))
	before, err := ann.CreatePost(t.Context(), client.PostInput{Text: "Before"})
	require.NoError(t, err)

	window := newWindow(t)
	start := window.open(e.page)
	page := e.open(window, "bob")
	page.until("the earlier post is shown", fmt.Sprintf(`document.getElementById(%q)`, before.ID))
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: hostile})
	require.NoError(t, err)
	shown := fmt.Sprintf(`document.getElementById(%q)`, post.ID)
	page.until("the post is shown", shown)
	assert.Equal(t, "ann"+hostile+"0 likes", page.text(shown+`.textContent`))
	assert.Equal(t, post.ID, page.text(`document.querySelector("#home li").id`), "the newest is on top")
	require.NoError(t, bob.Like(t.Context(), post.ID))
	page.until("the like is shown", shown+`.textContent.endsWith("1 like")`)
	e.isClean(start, page)
	e.p.stop(t)
}

// TestABellShowsWhoLikedAPost opens two pages of Ann and one page of Bob.
func TestABellShowsWhoLikedAPost(t *testing.T) {
	t.Parallel()
	e := newExample(t)
	ann, bob := signUp(t, reach(t, e.http), "ann"), signUp(t, reach(t, e.http), "bob")
	_, err := bob.PutMe(t.Context(), client.ProfileInput{Name: "Bob " + hostile})
	require.NoError(t, err)
	require.NoError(t, bob.Follow(t.Context(), "ann"))
	notified(t, ann, 1) // the notification of the follow
	page, err := ann.Notifications(t.Context(), "", 0)
	require.NoError(t, err)
	_, err = ann.ReadNotifications(t.Context(), page.ReadTo)
	require.NoError(t, err)
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: "Hello, " + hostile})
	require.NoError(t, err)

	window := newWindow(t)
	first, second, his := e.open(window, "ann"), e.open(window, "ann"), e.open(window, "bob")
	shown := fmt.Sprintf(`document.getElementById(%q)`, post.ID)
	his.until("he has her post", shown)
	require.NoError(t, bob.Unfollow(t.Context(), "ann")) // the list of notifications is then empty
	his.until("her posts leave his page", `!`+shown)
	notified(t, ann, 0)
	first.run(chromedp.Evaluate(`window.sameDocument = true`, nil))
	require.NoError(t, bob.Like(t.Context(), post.ID))
	const badge = `document.querySelector("#badge")`
	for _, page := range []*tab{first, second} {
		page.until("the bell is at 1", badge+`.textContent === "1" && !`+badge+`.hidden`)
	}
	assert.Equal(t, "true", first.text(`String(window.sameDocument)`), "the page was not loaded again")

	first.press(`#bell`, "\r")
	const row = `document.querySelector("#list li")`
	first.until("the list names Bob", row)
	assert.Equal(t, "New: Bob "+hostile+" likes your post", first.text(row+`.querySelector("p").textContent`))
	assert.Equal(t, "Hello, "+hostile, first.text(row+`.querySelector(".about").textContent`))
	for _, page := range []*tab{first, second, e.open(window, "ann")} {
		page.until("the bell is empty", badge+`.hidden && document.title === "A live home"`)
	}

	require.NoError(t, bob.Unlike(t.Context(), post.ID))
	notified(t, ann, 0)
	first.run(chromedp.KeyEvent("\x1b"))
	first.until("the list is closed", `!document.querySelector(":popover-open")`)
	first.press(`#bell`, "\r")
	first.until("the list is empty", `document.querySelector(":popover-open") && !`+row)
	first.until("and says so", `document.querySelector("#none").checkVisibility()`)
	e.isClean(first, second, his)
	e.p.stop(t)
}

// TestABellThatScrollsShowsEachNotificationOnce scrolls a list of 25 notifications while new
// notifications arrive and old notifications move up.
func TestABellThatScrollsShowsEachNotificationOnce(t *testing.T) {
	t.Parallel()
	const before, more = 25, 3 // at most 9 are unread, because the number does not change from 10 on
	e := newExample(t)
	ann, bob, cara := signUp(t, reach(t, e.http), "ann"), signUp(t, reach(t, e.http), "bob"), signUp(t, reach(t, e.http), "cara")
	posts := make([]client.Post, before+more)
	for i := range posts {
		var err error
		posts[i], err = ann.CreatePost(t.Context(), client.PostInput{Text: fmt.Sprint("Post ", i)})
		require.NoError(t, err)
	}
	for _, post := range posts[:before] {
		require.NoError(t, bob.Like(t.Context(), post.ID))
	}
	notified(t, ann, before)
	// Workers tell likes side by side, so the list shows which notifications are at its end.
	old, err := ann.Notifications(t.Context(), "", before)
	require.NoError(t, err)
	fromEnd := make([]string, before)
	for i, n := range old.Items {
		fromEnd[before-1-i] = strings.TrimPrefix(n.ID, "like:")
	}

	page := e.open(newWindow(t), "ann")
	page.run(chromedp.Evaluate(`window.twice = []; window.watched = null;
		new MutationObserver(() => {
			const ids = [...document.querySelectorAll("#list li")].map(row => row.dataset.id);
			twice.push(...ids.filter((id, i) => ids.indexOf(id) !== i));
		}).observe(document.querySelector("#list"), { childList: true })`, nil))
	page.until("many are unread", `document.querySelector("#badge").textContent === "10+"`)
	page.run(chromedp.Click(`#bell`, chromedp.ByQuery))
	page.until("the first page is there, and marked as read", `document.querySelectorAll("#list li").length >= 10 && document.querySelector("#badge").hidden`)
	for i := range more {
		page.run(chromedp.Evaluate(fmt.Sprintf(`document.querySelector("#list").children[%d].scrollIntoView()`, 2+i), nil))
		// The first visible row does not move while further notifications arrive above it.
		const top = `(watched = [...document.querySelectorAll("#list li")].find(row => row.getBoundingClientRect().top >= document.querySelector("#scroller").getBoundingClientRect().top)).getBoundingClientRect().top`
		was := page.number(top)
		moved := []string{fromEnd[i], fromEnd[15+i]} // one on the last page, and one on the first page
		for _, post := range moved {
			require.NoError(t, cara.Like(t.Context(), post))
		}
		require.NoError(t, bob.Like(t.Context(), posts[before+i].ID))
		page.until("all three are in the list, which names who acted last", fmt.Sprintf(`[%q, %q, %q].every((post, i) =>
			document.querySelector('#list [data-id="like:' + post + '"] strong')?.textContent === (i < 2 ? "cara" : "bob"))`, moved[0], moved[1], posts[before+i].ID))
		assert.InDelta(t, was, page.number(`watched.getBoundingClientRect().top`), 1)
	}
	page.until("the bell counts what came", `document.querySelector("#badge").textContent === "9"`)
	page.until("the end comes by scrolling", fmt.Sprintf(`(document.querySelector("#more").scrollIntoView(), document.querySelectorAll("#list li").length === %d)`, before+more))

	list, err := ann.Notifications(t.Context(), "", 100)
	require.NoError(t, err)
	ids := make([]string, len(list.Items))
	for i, n := range list.Items {
		ids[i] = n.ID
	}
	assert.Equal(t, strings.Join(ids, " "), page.text(`[...document.querySelectorAll("#list li")].map(row => row.dataset.id).join(" ")`))
	assert.Empty(t, page.text(`twice.join(" ")`), "two rows of one notification")
	page.run(chromedp.Evaluate(`document.querySelector("#scroller").scrollTo(0, 0)`, nil))
	page.until("the top was seen, so all is read", `document.querySelector("#badge").hidden`)
	page.isOpenToAll("example-bell-full")
	e.isClean(page)
	e.p.stop(t)
}
