//go:build e2e && slow

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// dressed is a text that tries to look like another text: code, a turning character, a link whose end
// looks like its host, and a word without an end.
const dressed = hostile + "\u202egnp.exe\u202c https://good.example\u202emoc.live javascript:alert(1) https://user@good.example "

// newTown starts a server with reactions, and signs two users in: ann in a tab, and grace by a client.
func newTown(t *testing.T) (p *process, u *upright, ann *tab, grace *client.Client) {
	t.Helper()
	u = newUp(t)
	u.env = append(u.env, "FANFARE_REACTIONS=love,wow")
	p = u.start(t)
	grace = u.as(t, "grace")
	_, err := grace.PutMe(t.Context(), client.ProfileInput{Name: "Grace", Bio: "See https://example.com/me"})
	require.NoError(t, err)
	ann = newWindow(t).open("http://"+u.http).signIn("ann", "Ann שלום")
	ann.accept()
	return p, u, ann, grace
}

// TestAHostileTextIsOnlyText shows a text with code, with characters that turn the text around, and with
// links to nowhere on each page that shows texts.
func TestAHostileTextIsOnlyText(t *testing.T) {
	t.Parallel()
	p, u, ann, grace := newTown(t)
	post, err := u.as(t, "ann").CreatePost(t.Context(), client.PostInput{Text: dressed, Images: []client.Image{{URL: "https://other.example/a.png"}}})
	require.NoError(t, err)
	_, err = grace.AddComment(t.Context(), post.ID, client.CommentInput{Text: dressed})
	require.NoError(t, err)
	links := `[...document.querySelectorAll(".text a, .pictures a")].map(a => [a.getAttribute("href"), a.target, a.rel, a.dir].join(" ")).join("\n")`
	const outside, picture = " _blank noopener noreferrer nofollow ltr", "https://other.example/a.png _blank noopener noreferrer nofollow auto"
	for path, want := range map[string]string{
		"/posts/" + post.ID:     "https://good.example/" + outside + "\n" + picture + "\nhttps://good.example/" + outside,
		"/users/ann":            "https://good.example/" + outside + "\n" + picture,
		"/users/grace/comments": "https://good.example/" + outside,
	} {
		ann.here(path, `document.querySelector("#list > li .text")`)
		assert.Equal(t, want, ann.text(links), path)
		assert.Equal(t, dressed, ann.text(`[...document.querySelectorAll(".text")].at(-1).textContent`), path)
		// A text that turns ends with its own line, and does not turn the page.
		assert.Equal(t, "isolate auto", ann.text(`(e => getComputedStyle(e).unicodeBidi.replace("plaintext", "isolate") + " " + e.dir)(document.querySelector(".text"))`), path)
	}
	ann.here("/users/grace", `document.querySelector(".bio a")`)
	assert.Equal(t, "https://example.com/me", ann.text(`document.querySelector(".bio a").href`))
	ann.isClean(u.http)
	p.stop(t)
}

// TestTheConsoleIsUsedWithTheKeyboard writes, comments, reacts, edits and deletes with keys only, and walks
// back.
func TestTheConsoleIsUsedWithTheKeyboard(t *testing.T) {
	t.Parallel()
	p, u, ann, grace := newTown(t)
	ann.write("Hello @grace")
	ann.until("the post is there", `document.querySelector("#home > [data-author=ann]")`)
	ann.press(`#home .when`, "\r")
	ann.until("the time leads to the post", `location.pathname.startsWith("/posts/") && document.querySelector("#post .text a")`)
	post := strings.TrimPrefix(ann.text(`location.pathname`), "/posts/")
	assert.Equal(t, "/users/grace", ann.text(`document.querySelector("#post .text a").getAttribute("href")`))

	ann.press(`#say`, "First")
	ann.press(`form:has(#say) .primary`, "\r")
	ann.until("the comment is there", `document.querySelector("#list .text")?.textContent === "First"`)
	ann.press(`.react summary`, "\r")
	ann.press(`.kind`, " ")
	ann.until("the reaction is counted", `document.querySelector(".kinds").textContent.trim() === "love 1"`)
	ann.press(`#post .like`, " ")
	ann.until("a like replaces the reaction", `document.querySelector(".count").textContent === "1" && document.querySelector(".kinds").textContent.trim() === ""`)
	ann.press(`#post .again`, " ")
	ann.until("the post is reposted", `document.querySelector(".again").ariaPressed === "true" && document.querySelector(".reposts").textContent === "1"`)
	await(t, "the repost is counted", func() bool {
		found, err := u.as(t, "ann").PostViews(t.Context(), post)
		return err == nil && found.Items[0].RepostCount == 1 && found.Items[0].Reposted
	})
	_, err := grace.Repost(t.Context(), post)
	require.NoError(t, err)
	await(t, "the repost of another user is counted", func() bool {
		found, err := u.as(t, "ann").PostViews(t.Context(), post)
		return err == nil && found.Items[0].RepostCount == 2
	})
	ann.run(chromedp.Reload())
	ann.until("a reload shows the repost", `document.querySelector(".again")?.ariaPressed === "true" && document.querySelector(".reposts").textContent === "2"`)
	ann.text(`(b => (b.click(), b.click(), ""))(document.querySelector("#post .again"))`)
	ann.until("two quick presses end the repost, and make another one", `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/repost") && e.responseEnd > 0).length === 2 && document.querySelector(".again").ariaPressed === "true" && document.querySelector(".reposts").textContent === "2"`)
	ann.press(`#post .again`, " ")
	ann.until("the repost is ended", `document.querySelector(".again").ariaPressed === "false" && document.querySelector(".reposts").textContent === "1"`)
	ann.press(`.cite summary`, "\r")
	ann.run(chromedp.SendKeys(`.cite textarea`, "So true"))
	ann.press(`.cite .primary`, "\r")
	ann.until("the post is quoted", `document.getElementById("toast").textContent === "Posted" && !document.querySelector(".cite").open`)
	ann.press(`.mark`, " ")
	ann.until("the post is bookmarked", `document.querySelector(".mark").ariaPressed === "true"`)
	ann.press(`.own summary`, "\r")
	ann.press(`.own textarea`, kb.End)
	ann.run(chromedp.KeyEvent(", edited"))
	ann.press(`.own .primary`, "\r")
	ann.until("the post is edited", `document.querySelector("#post .text").textContent === "Hello @grace, edited" && document.querySelector(".facts").textContent.includes("edited")`)

	// A number leads to its list, and back.
	ann.press(`#post .number`, "\r")
	ann.until("the number leads to the likers", `location.pathname.endsWith("/likes") && document.querySelector("#list .person")`)
	ann.run(chromedp.NavigateBack())
	ann.until("back is the post", `location.pathname === "/posts/`+post+`" && document.querySelector("#list .remove")`)
	ann.run(chromedp.Reload())
	ann.until("a reload is the same page", `location.pathname === "/posts/`+post+`" && document.querySelector("#list .remove")`)
	ann.press(`#list .remove`, "\r")
	ann.until("the comment is gone", `!document.querySelector("#list li")`)

	// Grace gets the mention, in her bell.
	await(t, "the mention is in the bell", func() bool {
		page, err := grace.Notifications(t.Context(), "", 10)
		return err == nil && len(page.Items) == 1 && page.Items[0].Kind == "mention"
	})

	// Mutes, blocks and follows are one button each.
	ann.here("/users/grace", `document.querySelectorAll(".tools button").length === 3`)
	for _, toggle := range [][3]string{{"follow", "Follow", "Unfollow"}, {"mute", "Mute", "Unmute"}, {"block", "Block", "Unblock"}} {
		button := `[data-toggle=` + toggle[0] + `]`
		for _, want := range []string{toggle[2], toggle[1]} {
			ann.until("the page is drawn", `document.querySelectorAll(".tools button").length === 3`)
			ann.toggle(button, want)
		}
	}
	// The theme stays.
	ann.run(chromedp.Focus(`#theme`, chromedp.ByQuery), chromedp.SendKeys(`#theme`, "dark", chromedp.ByQuery))
	ann.until("the page is dark", `getComputedStyle(document.documentElement).colorScheme === "dark"`)
	ann.here("/profile", `document.querySelector("[name=bio]")`)
	ann.until("the next page is dark", `getComputedStyle(document.documentElement).colorScheme === "dark"`)
	ann.run(chromedp.SendKeys(`[name=bio]`, "Here", chromedp.ByQuery))
	ann.press(`form .primary`, "\r")
	ann.until("the profile is saved", `document.getElementById("toast").textContent === "Saved"`)

	ann.here("/posts/"+post, `document.querySelector(".own .danger")`)
	ann.press(`.own .danger`, "\r")
	ann.until("the post is deleted", `location.pathname === "/users/ann" && document.querySelector(".bio")?.textContent === "Here"`)
	_, err = grace.Post(t.Context(), post)
	require.ErrorIs(t, err, client.ErrNotFound)
	ann.here("/profile", `document.querySelector("[name=bio]")`)
	ann.press(`.danger`, "\r")
	ann.until("Ann is gone", `location.pathname === "/" && document.querySelector("[name=user]")`)
	ann.isClean(u.http)
	p.stop(t)
}

// TestTheLastPictureOfAPostIsRemoved clears the address of a post's only picture in the form of an edit.
func TestTheLastPictureOfAPostIsRemoved(t *testing.T) {
	t.Parallel()
	p, u, ann, _ := newTown(t)
	me := u.as(t, "ann")
	post, err := me.CreatePost(t.Context(), client.PostInput{Text: "look", Images: []client.Image{{URL: "https://pictures.example/a.png"}}})
	require.NoError(t, err)
	ann.here("/posts/"+post.ID, `document.querySelector(".own [data-picture] [name=url]")`)
	ann.press(`.own summary`, "\r")
	ann.run(chromedp.Evaluate(`document.querySelector(".own [data-picture] [name=url]").value = ""`, nil))
	ann.press(`.own .primary`, "\r")
	ann.until("the post is edited", `document.querySelector(".facts").textContent.includes("edited")`)
	post, err = me.Post(t.Context(), post.ID)
	require.NoError(t, err)
	assert.Empty(t, post.Images)
	assert.Equal(t, "look", post.Text)
	p.stop(t)
}

// TestNewPostsAreAnnounced checks the words for a reader who hears the page, and the bell.
func TestNewPostsAreAnnounced(t *testing.T) {
	t.Parallel()
	p, u, ann, grace := newTown(t)
	me := u.as(t, "ann")
	require.NoError(t, me.Follow(t.Context(), "grace"))
	for _, author := range []*client.Client{me, grace} { // nobody needs to hear of the own post
		_, err := author.CreatePost(t.Context(), client.PostInput{Text: "Hello"})
		require.NoError(t, err)
	}
	ann.until("the post is announced", `document.getElementById("news").textContent === "1 new post by Grace" && document.querySelector("#home time")`)
	assert.Equal(t, "polite", ann.text(`document.getElementById("news").ariaLive`))
	assert.Regexp(t, `^\w+, \w+ \d+, \d{4} at \d+:\d\d:\d\d`, ann.text(`document.querySelector("#home time").title`), "the exact time")

	require.NoError(t, grace.Follow(t.Context(), "ann"))
	ann.until("the bell has a number", `document.querySelector("#bell .badge")?.textContent === "1 unread"`)
	ann.press(`#bell`, "\r")
	ann.until("the follow is in the list", `document.querySelector(".notification.unread .by span")?.textContent === "Grace followed you"`)
	await(t, "the page has marked it as read", func() bool { // a reload would end the request of the page
		page, err := me.Notifications(t.Context(), "", 10)
		return err == nil && page.Unread != nil && *page.Unread == 0
	})
	ann.run(chromedp.Reload())
	ann.until("it is read now", `document.querySelector(".notification") && !document.querySelector(".unread, .badge")`)
	ann.isClean(u.http)
	p.stop(t)
}

// TestTheBellKeepsNoOlderNumber opens the list of notifications while the page's first question for their number waits
// for its answer, which is the number from before the list was marked as read.
func TestTheBellKeepsNoOlderNumber(t *testing.T) {
	t.Parallel()
	p, u, _, grace := newTown(t)
	me := u.as(t, "ann")
	require.NoError(t, grace.Follow(t.Context(), "ann"))
	await(t, "the follow is unread", func() bool {
		page, err := me.Notifications(t.Context(), "", 10)
		return err == nil && page.Unread != nil && *page.Unread == 1
	})
	drawn := make(chan struct{})
	addr := u.through(t, nil, func(resp *http.Response) error {
		if strings.HasSuffix(resp.Request.URL.Path, "/notifications/unread") {
			<-drawn
		}
		return nil
	})
	ann := newWindow(t).open("http://"+addr).signIn("ann", "Ann")
	ann.run(chromedp.Navigate("http://" + addr + "/notifications"))
	ann.until("the list is there", `document.querySelector(".notification")`)
	close(drawn)
	ann.until("the number is answered", `performance.getEntriesByType("resource").some(e => e.name.includes("/unread?") && e.responseEnd > 0)`)
	await(t, "the page has marked the list as read", func() bool {
		page, err := me.Notifications(t.Context(), "", 10)
		return err == nil && page.Unread != nil && *page.Unread == 0
	})
	ann.until("the bell is empty", `!document.querySelector("#bell .badge")`)
	p.stop(t)
}

// TestAPageThatWasAwayShowsTheNewestEdit stops the server of an open page after an edit, and lets the page connect again
// after a second edit and a deletion, of which the new process sends no event. The first edit in the page's memory does not hide
// the second one. The newest posts leave the page, too.
func TestAPageThatWasAwayShowsTheNewestEdit(t *testing.T) {
	t.Parallel()
	p, u, _, grace := newTown(t)
	require.NoError(t, u.as(t, "ann").Follow(t.Context(), "grace"))
	var away atomic.Bool
	back, asked := make(chan struct{}), make(chan struct{}, 100)
	addr := u.through(t, func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/home/stream") && away.Load() {
			asked <- struct{}{}
			<-back
		}
	}, nil)
	comeBack := sync.OnceFunc(func() { close(back) })
	t.Cleanup(comeBack) // the proxy waits for its requests
	var older []string
	for i := range 25 {
		post, err := grace.CreatePost(t.Context(), client.PostInput{Text: fmt.Sprint("older ", i)})
		require.NoError(t, err)
		older = append(older, post.ID)
	}
	ann := newWindow(t).open("http://"+addr).signIn("ann", "Ann")
	ann.until("the first page is there", `document.querySelectorAll("#home > .entry").length === 20`)
	ann.press(`#more-home button`, "\r")
	ann.until("the second page is there", `document.querySelectorAll("#home > .entry").length === 25`)
	post, err := grace.CreatePost(t.Context(), client.PostInput{Text: "first"})
	require.NoError(t, err)
	edit := func(text string) {
		_, err := grace.EditPost(t.Context(), post.ID, client.PostEdit{Text: &text})
		require.NoError(t, err)
	}
	shows := func(text string) {
		ann.until("the post is "+text, fmt.Sprintf(`document.querySelector("#p-%s .text")?.textContent === %q`, post.ID, text))
	}
	shows("first")
	edit("second")
	shows("second")
	newest, err := grace.CreatePost(t.Context(), client.PostInput{Text: "newest"})
	require.NoError(t, err)
	ann.until("the newest post is there", fmt.Sprintf(`document.querySelector("#p-%s")`, newest.ID))
	away.Store(true)
	p.stop(t)
	p = u.start(t)
	await(t, "the page asks again for its stream", func() bool { return len(asked) > 0 })
	edit("third")
	require.NoError(t, grace.DeletePost(t.Context(), newest.ID))
	require.NoError(t, grace.DeletePost(t.Context(), older[1]))
	oldest := "the oldest, edited"
	_, err = grace.EditPost(t.Context(), older[0], client.PostEdit{Text: &oldest})
	require.NoError(t, err)
	comeBack()
	shows("third")
	ann.until("the second page is renewed, too", fmt.Sprintf(`[...document.querySelectorAll("#home > .entry .text")].slice(-2).map(e => e.textContent).join() === "older 2,%s"`, oldest))
	assert.Equal(t, "25", ann.text(`String(document.querySelectorAll("#home > .entry").length)`))
	ann.until("the newest post has left", fmt.Sprintf(`!document.querySelector("#p-%s")`, newest.ID))
	ann.here("/", `document.querySelector("#live.on")`)
	shows("third")
	require.NoError(t, u.as(t, "ann").Unfollow(t.Context(), "grace"))
	ann.until("the posts of an unfollowed author have left", `!document.querySelector("#home > .entry")`)
	p.stop(t)
}

// TestAPostLeavesAtItsEnd sets the clock of a page forward, so that a post of the page has ended, which sends no event.
func TestAPostLeavesAtItsEnd(t *testing.T) {
	t.Parallel()
	p, u, ann, _ := newTown(t)
	me := u.as(t, "ann")
	ends, err := me.CreatePost(t.Context(), client.PostInput{Text: "ends", ExpiresAt: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	_, err = me.CreatePost(t.Context(), client.PostInput{Text: "ends later", ExpiresAt: time.Now().Add(3 * time.Hour)})
	require.NoError(t, err)
	_, err = me.CreatePost(t.Context(), client.PostInput{Text: "stays"})
	require.NoError(t, err)
	const texts = `[...document.querySelectorAll("#home > .entry .text")].map(e => e.textContent).join()`
	ann.until("the posts are there", texts+` === "stays,ends later,ends"`)
	assert.Contains(t, ann.text(fmt.Sprintf(`document.querySelector("#p-%s .facts").textContent`, ends.ID)), "ends ")
	ann.run(chromedp.Evaluate(`{ const real = Date; window.Date = class extends real {
		constructor(...at) { super(...(at.length ? at : [real.now() + 2 * 3600e3])); }
		static now() { return real.now() + 2 * 3600e3; }
	}; }`, nil))
	ann.until("the post has left", texts+` === "stays,ends later"`)
	p.stop(t)
}

// TestChangesOfAPostReachTheCardOfItsRepost edits and deletes posts that a home shows at the places of their reposts, and ends
// a repost. The home of the page lists the author of some of the posts, too.
func TestChangesOfAPostReachTheCardOfItsRepost(t *testing.T) {
	t.Parallel()
	p, u, ann, grace := newTown(t)
	bob := u.as(t, "bob")
	_, err := bob.PutMe(t.Context(), client.ProfileInput{Name: "Bob"})
	require.NoError(t, err)
	for _, author := range []string{"grace", "bob"} {
		require.NoError(t, u.as(t, "ann").Follow(t.Context(), author))
	}
	cards := func(what, want string) {
		ann.until(what, fmt.Sprintf(`[...document.querySelectorAll("#home > .entry:not([hidden])")].map(e => e.querySelector(".text").textContent + (e.querySelector(".facts").textContent.includes("reposted by Bob") ? " by Bob" : "")).join() === %q`, want))
	}
	post := func(author *client.Client, text string) string {
		post, err := author.CreatePost(t.Context(), client.PostInput{Text: text})
		require.NoError(t, err)
		return post.ID
	}
	repost := func(post string) {
		_, err := bob.Repost(t.Context(), post)
		require.NoError(t, err)
	}
	one, two := post(grace, "one"), post(grace, "two")
	cards("the posts are there", "two,one")
	mark := fmt.Sprintf(`document.querySelector("#p-%s .mark").ariaPressed`, two)
	ann.press("#p-"+two+" .mark", " ")
	ann.until("the post is bookmarked", mark+` === "true"`)
	blur := func() { ann.run(chromedp.Evaluate(`document.activeElement.blur()`, nil)) } // a card with the focus is not drawn again
	blur()
	edited := "two!"
	_, err = grace.EditPost(t.Context(), two, client.PostEdit{Text: &edited})
	require.NoError(t, err)
	cards("the edit comes", "two!,one")
	assert.Equal(t, "true", ann.text(mark), "an edit keeps the bookmark")
	ann.press("#p-"+two+" .mark", " ")
	ann.until("the bookmark is removed", mark+` === "false"`)
	blur()
	bookmarks, err := u.as(t, "ann").Bookmarks().Collect(t.Context())
	require.NoError(t, err)
	assert.Empty(t, bookmarks)
	edited = "two"
	_, err = grace.EditPost(t.Context(), two, client.PostEdit{Text: &edited})
	require.NoError(t, err)
	cards("the second edit comes", "two,one")
	repost(one)
	cards("the repost hides the post below it", "one by Bob,two")
	edited = "One"
	_, err = grace.EditPost(t.Context(), one, client.PostEdit{Text: &edited})
	require.NoError(t, err)
	cards("the edit keeps the name of the reposter", "One by Bob,two")
	counted := func(what string, n int64) { // a page that reads an earlier count has no event of the later one
		await(t, what, func() bool {
			view, err := bob.PostView(t.Context(), one)
			return err == nil && view.RepostCount == n
		})
	}
	counted("the repost is counted", 1)
	require.NoError(t, bob.EndRepost(t.Context(), one))
	cards("the end of the repost shows the post at its place", "two,One")
	counted("the end of the repost is counted", 0)
	repost(two)
	ann.here("/", `document.querySelector("#live.on")`)
	cards("the page is read", "two by Bob,One")
	require.NoError(t, grace.DeletePost(t.Context(), two))
	cards("the deletion reaches the repost", "One")
	carol := u.as(t, "carol")
	_, err = carol.PutMe(t.Context(), client.ProfileInput{Name: "Carol"})
	require.NoError(t, err)
	three := post(carol, "three")
	repost(three)
	cards("the repost of a stranger's post comes", "three by Bob,One")
	edited = "Three"
	_, err = carol.EditPost(t.Context(), three, client.PostEdit{Text: &edited})
	require.NoError(t, err)
	cards("the stranger's edit reaches the repost", "Three by Bob,One")
	require.NoError(t, carol.DeletePost(t.Context(), three))
	cards("the stranger's deletion reaches the repost", "One")

	// The stream does not know the marks of the page's user: the card of the own repost and an edit have them all the same.
	marks := func(what, want string) {
		ann.until(what, fmt.Sprintf(`[...document.querySelectorAll("#home > .entry:not([hidden])")].map(e => [e.querySelector(".text").textContent, e.querySelector(".again").ariaPressed, e.querySelector(".mark").ariaPressed].join("/")).join() === %q`, want))
	}
	own := fmt.Sprintf(`document.querySelectorAll('#home > [data-post="%s"]').length`, one)
	marks("no mark yet", "One/false/false")
	ann.press(`#home .mark`, " ")
	ann.press(`#home .again`, " ")
	ann.until("the own repost comes", own+" === 2")
	ann.until("the own repost comes before its count", `document.querySelector("#home > .entry:not([hidden]) .reposts").textContent === "1"`)
	marks("the own repost has the marks of its post", "One/true/true")
	edited = "ONE"
	_, err = grace.EditPost(t.Context(), one, client.PostEdit{Text: &edited})
	require.NoError(t, err)
	marks("an edit keeps the marks", "ONE/true/true")
	ann.press(`#home .entry:not([hidden]) .mark`, " ")
	ann.press(`#home .entry:not([hidden]) .again`, " ")
	ann.until("the own repost goes", own+" === 1")
	marks("the card below has the marks of now", "ONE/false/false")
	ann.isClean(u.http)
	p.stop(t)
}
