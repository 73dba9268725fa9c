//go:build e2e && slow

package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// openPage is a page that axe looks at.
type openPage struct {
	name, url string
	// ready is an expression that is true when the page is drawn.
	ready string
	// act, if not nil, is what a person does on the page first.
	act func(*tab)
}

// world is a system that has every page: a pair, whose primary has the console and the pages for operators and moderators, and the
// sites of both examples.
type world struct {
	*upright

	standby        *upright
	browser, react *example
	// post is a post of ann with pictures, and comments, reactions and a bookmark.
	post string
}

// newWorld starts the system, and stops it at the end of the test.
func newWorld(t *testing.T) *world {
	t.Helper()
	one, two := twins(t)
	folder, err := react()
	require.NoError(t, err)
	browser, reacts := httptest.NewServer(browserExample(t)), httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(browser.Close)
	t.Cleanup(reacts.Close)
	one.env = append(one.env, "FANFARE_ARCHIVE=file://"+t.TempDir(), "FANFARE_REACTIONS=love,wow", "FANFARE_CORS_ORIGINS="+browser.URL+","+reacts.URL)
	p := one.start(t)
	s := two.standby(t)
	t.Cleanup(func() { s.stop(t); p.stop(t) })
	one.paired(t, "primary")
	two.paired(t, "standby")
	w := &world{upright: one, standby: two}
	w.browser = &example{one, t, p, browser, browser.URL + "/examples/browser/"}
	w.react = &example{one, t, p, reacts, reacts.URL + "/"}
	w.people(t)
	return w
}

// people fills the lists of the console.
func (w *world) people(t *testing.T) {
	t.Helper()
	ann, grace := w.as(t, "ann"), w.as(t, "grace")
	_, err := ann.PutMe(t.Context(), client.ProfileInput{Name: "Ann שלום", ImageURL: w.picture("margaret")})
	require.NoError(t, err)
	_, err = grace.PutMe(t.Context(), client.ProfileInput{Name: "Grace", Bio: "See https://example.com/me", ImageURL: "https://other.example/grace.png"})
	require.NoError(t, err)
	_, err = w.as(t, "zoe").PutMe(t.Context(), client.ProfileInput{Name: "Zoe"})
	require.NoError(t, err)
	require.NoError(t, grace.Follow(t.Context(), "ann"))
	require.NoError(t, ann.Follow(t.Context(), "grace"))
	_, err = ann.CreatePost(t.Context(), client.PostInput{Text: dressed + strings.Repeat("ж", 4750)})
	require.NoError(t, err)
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: dressed, Images: w.images()})
	require.NoError(t, err)
	w.post = post.ID
	_, err = ann.CreatePost(t.Context(), client.PostInput{Images: w.images()[:1]})
	require.NoError(t, err)
	_, err = grace.CreatePost(t.Context(), client.PostInput{Text: "Hello @ann", Images: w.images()[1:4], Mentions: []string{"ann"}})
	require.NoError(t, err)
	_, err = grace.AddComment(t.Context(), post.ID, client.CommentInput{Text: "مرحبا بالعالم " + dressed})
	require.NoError(t, err)
	require.NoError(t, grace.React(t.Context(), post.ID, "love"))
	require.NoError(t, ann.Like(t.Context(), post.ID))
	require.NoError(t, ann.Bookmark(t.Context(), post.ID))
	require.NoError(t, ann.Mute(t.Context(), "zoe"))
	await(t, "the reactions are listed", func() bool {
		reactions, err := grace.Reactions(post.ID, "").Page(t.Context(), "", 10)
		return err == nil && len(reactions.Items) == 2
	})
	notified(t, ann, 4) // a follow, a mention, a comment and the reactions
}

// images returns pictures that a page shows, one that it may not load, and one that is a page.
func (w *world) images() []client.Image {
	return []client.Image{
		{URL: w.picture("kingfisher"), Alt: "A kingfisher on a branch above the water", Width: 640, Height: 480},
		{URL: w.picture("sail"), Alt: "A boat with a red sail", Width: 640, Height: 480},
		{URL: w.picture("tomato"), Width: 640, Height: 480},
		{URL: "https://other.example/a.png", Alt: "A picture of another host " + hostile},
		{URL: "http://" + w.http + "/docs", Alt: "A page, which is no picture"},
		{URL: w.picture("cat"), Alt: "A cat asleep on a router"},
	}
}

// pages returns every page of the product, in the order in which one tab visits the pages: the tab signs in at the second page.
func (w *world) pages() []openPage {
	const item, loaded = `document.querySelector("#list > li:not(.loader)")`, `document.querySelector("#list:not(.loading)")`
	site, admin, at := "http://"+w.http, "http://"+w.admin, "http://"+w.http+"/posts/"+w.post
	home := `document.querySelector("#home .pictures img")`
	ask := func(b *tab) {
		b.run(chromedp.SendKeys(`#ask [name=post]`, w.post+"\r", chromedp.ByQuery))
		b.until("the answer is there", `document.querySelector("#answer a")`)
	}
	open := func(selector string) func(*tab) {
		return func(b *tab) { b.run(chromedp.Click(selector, chromedp.ByQuery)) }
	}
	pages := []openPage{
		{"sign-in", site + "/", `document.querySelector(".signin form")`, nil},
		{"home", site + "/", `document.querySelector(".signin form")`, func(b *tab) {
			b.signIn("ann", "")
			b.until("the pictures are there", home+`?.complete`)
		}},
		{"home-write", site + "/", home, open("#write summary")},
		{"nobody", site + "/users/nobody", `document.querySelector(".signin h1")`, nil},
		{"user", site + "/users/ann", item, nil},
		{"other", site + "/users/grace", item + ` && document.querySelectorAll(".tools button").length === 3`, nil},
		{"comments", site + "/users/grace/comments", item, nil},
		{"reacted", site + "/users/grace/reactions", item, nil},
		{"liked", site + "/users/ann/likes", item, nil},
		{"followers", site + "/users/ann/followers", item, nil},
		{"following", site + "/users/ann/following", item, nil},
		{"friends", site + "/users/ann/friends", item, nil},
		{"post", at, item + ` && document.querySelector(".own .complete")`, nil},
		{"post-edit", at, item + ` && document.querySelector(".own .complete")`, open(".own summary")},
		{"reactors", at + "/reactions", item, nil},
		{"likers", at + "/likes", item, nil},
		{"notifications", site + "/notifications", item, nil},
		{"bookmarks", site + "/bookmarks", item, nil},
		{"mutes", site + "/mutes", item, nil},
		{"menu", site + "/blocks", loaded, open(".menu summary")},
		{"blocks", site + "/blocks", loaded, nil},
		{"profile", site + "/profile", `document.querySelector("[name=bio]")`, nil},
		{"docs", site + "/docs#list-posts", `document.querySelector("#list-posts .code.curl")`, nil},

		{"operator", admin + "/", `document.querySelector("#pair:not([hidden]) [data-fact=mode].yes") && !document.querySelector("[data-if-metric]").hidden && document.querySelector(".plot canvas")`, nil},
		{"operator-ask", admin + "/", `document.querySelector("#ask [name=post]")`, ask},
		{"operator-within", site + "/operator", `document.querySelector(".plot canvas")`, nil},
		{"moderator", admin + "/moderate", `document.querySelector("#open")`, nil},
		{"moderator-post", admin + "/moderate?post=" + w.post, `document.querySelector("#seen .text")`, nil},
		{"moderator-user", admin + "/moderate?user=ann", `document.querySelector("#seen .entry")`, nil},
		{"standby-admin", "http://" + w.standby.admin + "/", `document.querySelector("#pair:not([hidden]) [data-fact=mode].yes")`, nil},
		{"standby-api", "http://" + w.standby.http + "/users/ada", `document.querySelector("h1")?.textContent === "This machine is a standby"`, nil},
	}
	for name, e := range map[string]*example{"example": w.browser, "react": w.react} {
		form := `document.querySelector("#connect button")`
		connect := func(b *tab) { e.signIn(b, "ann") }
		bell := func(b *tab) {
			connect(b)
			b.press("#bell", "\r")
			b.until("the notifications are there", `document.querySelector("#list li")`)
		}
		pages = append(pages, openPage{name + "-start", e.page, form, nil}, openPage{name + "-home", e.page, form, connect}, openPage{name + "-bell", e.page, form, bell})
	}
	return pages
}

// TestEveryPageIsOpenToAll looks at each page of the product as axe does, on a phone and on a desk, in light and in dark.
func TestEveryPageIsOpenToAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newWindow(t).open("about:blank")
	pages := w.pages()
	for _, at := range pages {
		b.run(chromedp.Navigate("about:blank"), chromedp.Navigate(at.url)) // the second page may have the address of the first one
		b.until(at.name+" is there", at.ready)
		if at.act != nil {
			at.act(b)
		}
		b.isOpenToAll(at.name)
	}
	// Each page of the console is in the table.
	script, err := os.ReadFile("../internal/console/assets/feed.js")
	require.NoError(t, err)
	patterns := regexp.MustCompile(`\n  "(/[^"]*)": `).FindAllStringSubmatch(string(script), -1)
	require.Greater(t, len(patterns), 10)
	for _, pattern := range patterns {
		path := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern[1]), `\{id\}`, "[^/]+") + "$")
		assert.Truef(t, slices.ContainsFunc(pages, func(page openPage) bool {
			at, err := url.Parse(page.url)
			return err == nil && at.Host == w.http && path.MatchString(at.Path)
		}), "no row of the table has a page %s", pattern[1])
	}
}
