//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// gallery is a host of pictures that counts its requests. It answers a request for /slow.svg when slow is closed.
type gallery struct {
	*httptest.Server

	slow  chan struct{}
	asked atomic.Int64
}

func newGallery(t *testing.T) *gallery {
	t.Helper()
	g := &gallery{slow: make(chan struct{})}
	picture, err := os.ReadFile("../internal/console/pictures/sail.svg")
	require.NoError(t, err)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.asked.Add(1)
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, "<!doctype html><title>No picture</title>") // a failed write means that the browser is gone
			return
		case "/gone.svg":
			http.NotFound(w, r)
			return
		case "/slow.svg":
			select {
			case <-g.slow:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write(picture) // a failed write means that the browser is gone
	}))
	t.Cleanup(g.Close)
	return g
}

// TestAPictureIsShownOrDescribed shows a post with pictures of hosts that the console knows or not, and of addresses without a
// picture, on each page with posts.
func TestAPictureIsShownOrDescribed(t *testing.T) {
	t.Parallel()
	known, stranger := newGallery(t), newGallery(t)
	u := newUp(t)
	u.env = append(u.env, "FANFARE_CONSOLE_IMAGES=https://cdn.example,"+known.URL)
	p := u.start(t)
	ann := u.as(t, "ann")
	_, err := ann.PutMe(t.Context(), client.ProfileInput{Name: "Ann", ImageURL: known.URL + "/ann.svg"})
	require.NoError(t, err)
	_, err = u.as(t, "bob").PutMe(t.Context(), client.ProfileInput{Name: "Bob", ImageURL: stranger.URL + "/bob.svg"})
	require.NoError(t, err)
	at := strings.TrimPrefix(known.URL, "http://")
	rows := []struct {
		name  string
		image client.Image
		want  string // an image with its description, or a text
	}{
		{"of the own origin", client.Image{URL: "http://" + u.http + "/console/pictures/cat.svg", Alt: "A cat", Width: 640, Height: 480}, "img A cat"},
		{"of the demo, by another name of this machine", client.Image{URL: "http://localhost:1/console/pictures/cat.svg", Alt: "A cat"}, "img A cat"},
		{"of a known host", client.Image{URL: known.URL + "/a.svg", Alt: hostile}, "img " + hostile},
		{"without a description", client.Image{URL: known.URL + "/b.svg"}, "img Image at " + at},
		{"of an address that answers HTML", client.Image{URL: known.URL + "/page", Alt: "A page", Width: 640, Height: 480}, "A page"},
		{"of an address without an answer, without a description", client.Image{URL: known.URL + "/gone.svg"}, "Image at " + at},
		{"of a host outside the list", client.Image{URL: stranger.URL + "/c.svg", Alt: "A boat " + hostile}, "Image at " + strings.TrimPrefix(stranger.URL, "http://") + ": A boat " + hostile},
		{"of a host outside the list, without a description", client.Image{URL: stranger.URL + "/c.svg"}, "Image at " + strings.TrimPrefix(stranger.URL, "http://")},
	}
	in := client.PostInput{}
	var want []string
	for _, row := range rows {
		in.Images = append(in.Images, row.image)
		want = append(want, row.name+": "+row.want)
	}
	post, err := ann.CreatePost(t.Context(), in)
	require.NoError(t, err)
	late, err := ann.CreatePost(t.Context(), client.PostInput{Images: []client.Image{{URL: known.URL + "/slow.svg", Width: 640, Height: 480}}})
	require.NoError(t, err)

	window := newWindow(t)
	reader, moderator := window.open("http://"+u.http).signIn("bob", ""), window.open("http://"+u.admin+"/moderate?post="+post.ID)
	reader.here("/posts/"+post.ID, `document.querySelector("#post .pictures")`)
	const links = `[...document.querySelectorAll(".pictures a")]`
	for _, b := range []*tab{reader, moderator} {
		b.until("the post is there", `document.querySelector(".pictures")`)
		b.run(chromedp.EmulateViewport(1280, 5000)) // a page loads the visible pictures
		b.until("all pictures are there, or described", links+`.every(a => !a.firstElementChild?.src || a.firstElementChild.naturalWidth > 0) && `+
			links+`.filter(a => !a.querySelector("img")).length === 4`)
		var shown []string
		b.run(chromedp.Evaluate(links+`.map(a => a.querySelector("img") ? "img " + (a.ariaLabel ?? a.querySelector("img").alt) : a.textContent)`, &shown))
		for i, row := range rows {
			if i < len(shown) {
				shown[i] = row.name + ": " + shown[i]
			}
		}
		assert.Equal(t, want, shown, b.url)
		assert.Equal(t, "undefined", b.text(`typeof window.hacked`), "a description ran")
	}
	reader.here("/users/ann", fmt.Sprintf(`document.querySelector("#p-%s .pictures")`, post.ID))
	assert.Equal(t, "4 pictures grid Show the whole post", reader.text(fmt.Sprintf(`(e => [e.querySelectorAll(".pictures a").length, e.querySelector(".pictures").className, e.querySelector("p > a[href='/posts/%[1]s']:not(.when)").textContent].join(" "))(document.querySelector("#p-%[1]s"))`, post.ID)), "a list shows some pictures")
	reader.here("/posts/"+post.ID, `document.querySelector("#post .pictures img")`)
	assert.Equal(t, "lazy A cat 512 384", reader.text(`["loading", "alt", "width", "height"].map(name => document.querySelector(".pictures img").getAttribute(name)).join(" ")`))
	assert.Equal(t, "1 B", reader.text(`document.querySelectorAll("#post .avatar img").length + " " + document.querySelector(".menu .avatar").textContent`), "avatars")
	// The page keeps the place of a picture that is not there yet.
	const slow = `document.querySelector(".pictures img")`
	reader.here("/posts/"+late.ID, slow)
	place := slow + `.getBoundingClientRect().height`
	before := reader.number(place)
	close(known.slow)
	reader.until("the picture is there", slow+`.naturalWidth > 0`)
	assert.InDelta(t, before, reader.number(place), 1, "the text below the picture has moved")
	assert.Zero(t, stranger.asked.Load(), "requests to a host outside the list")
	assert.NotZero(t, known.asked.Load())
	require.NoError(t, chromedp.Cancel(window.ctx), "close the browser")
	p.stop(t)
}

// measures checks that the size of a picture is the size of the picture whose address the form has when the picture is there.
func measures(page *tab, g *gallery) {
	page.t.Helper()
	const url, size = `document.querySelector("#write [name=url]")`, `["width", "height"].map(name => document.querySelector("#write [name=" + name + "]").value).join("x")`
	slow := g.URL + "/slow.svg"
	address := func(address string) {
		page.run(chromedp.Evaluate(url+`.value = ""`, nil))
		page.press(`#write [name=url]`, address)
		page.focus(`#write [name=alt]`)
	}
	address(slow)
	address("https://other.example/b.png") // the page does not load it
	close(g.slow)
	page.until("the slow picture is there", fmt.Sprintf(`(window.probe ??= Object.assign(new Image(), { src: %q })).naturalWidth > 0 && performance.getEntriesByType("resource").some(e => e.name === probe.src && e.responseEnd > 0)`, slow))
	page.run(chromedp.Evaluate(`new Promise(done => setTimeout(done))`, nil)) // the events of both pictures come first
	assert.Equal(page.t, "x", page.text(size), "the size of an earlier address")
	address(slow)
	page.until("the size is known", size+` === "640x480"`)
	address("https://other.example/b.png")
	assert.Equal(page.t, "x", page.text(size), "the address has changed")
	page.run(chromedp.Evaluate(url+`.value = ""`, nil))
}

// TestAPostIsWrittenWithPictures writes a post with two pictures, and edits them, with the keyboard only.
func TestAPostIsWrittenWithPictures(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	u := newUp(t)
	u.env = append(u.env, "FANFARE_CONSOLE_IMAGES="+g.URL)
	p := u.start(t)
	own, other := "http://"+u.http+"/console/pictures/cat.svg", "https://other.example/b.png"
	ann := newWindow(t).open("http://"+u.http).signIn("ann", "Ann")
	ann.press(`#write summary`, "\r")
	measures(ann, g)
	ann.press(`#write [name=url]`, own)
	ann.press(`#write [name=alt]`, "A cat")
	ann.until("the size is known", `document.querySelector("#write [name=width]").value === "640"`)
	ann.press(`#write [data-click=another]`, "\r")
	ann.run(chromedp.KeyEvent(other)) // the new field has the focus
	ann.press(`#write .primary`, "\r")
	ann.until("the post is there", `document.querySelector("#home .pictures")`)
	want := []client.Image{{URL: own, Alt: "A cat", Width: 640, Height: 480}, {URL: other}}
	id := strings.TrimPrefix(ann.text(`document.querySelector("#home > li").id`), "p-")
	written, err := u.as(t, "ann").Post(t.Context(), id)
	require.NoError(t, err)
	assert.True(t, slices.Equal(want, written.Images), "%+v", written)
	assert.Equal(t, "img Image at other.example", ann.text(`[...document.querySelectorAll("#home .pictures a")].map(a => a.querySelector("img") ? "img" : a.textContent).join(" ")`))
	assert.Empty(t, ann.text(`document.querySelector("#write [name=url]").value`), "the form is empty")

	ann.here("/posts/"+id, `document.querySelectorAll(".own [data-picture]").length === 3`)
	ann.press(`.own summary`, "\r")
	ann.run(chromedp.Evaluate(`document.querySelector(".own [name=url]").value = ""`, nil))
	ann.press(`.own [data-picture]:nth-of-type(2) [name=alt]`, "Another")
	ann.press(`.own .primary`, "\r")
	ann.until("the post is edited", `document.querySelector("#post .pictures a")?.textContent === "Image at other.example: Another"`)
	written, err = u.as(t, "ann").Post(t.Context(), id)
	require.NoError(t, err)
	assert.True(t, slices.Equal([]client.Image{{URL: other, Alt: "Another"}}, written.Images), "%+v", written)
	ann.here("/posts/"+id, `document.querySelectorAll(".own [data-picture]").length === 2`)
	ann.press(`.own summary`, "\r")
	for i := 3; i <= 10; i++ {
		require.Equal(t, "false", ann.text(`String(document.querySelector(".own [data-click=another]").hidden)`), "picture %d may follow", i)
		ann.press(`.own [data-click=another]`, "\r")
	}
	assert.Equal(t, "10 true", ann.text(`document.querySelectorAll(".own [data-picture]").length + " " + document.querySelector(".own [data-click=another]").hidden`), "a post has ten pictures at most")
	ann.isClean(u.http, strings.TrimPrefix(g.URL, "http://"))
	p.stop(t)
}
