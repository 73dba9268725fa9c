//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/queue/embedded"
	"fanfare/messages"
)

// hostile is a text that runs code if a page inserts the text as markup.
const hostile = `<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"'><b hx-get=/hacked>`

// tab is a tab of one browser. Each tab has its own user, because the console keeps the token in the tab.
type tab struct {
	*browser
	t   *testing.T
	ctx context.Context // chromedp's handle of the tab
	url string
}

// newWindow starts a browser and returns its first tab.
func newWindow(t *testing.T) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(allocator(t))
	t.Cleanup(end)
	require.NoError(t, chromedp.Run(ctx)) // a tab ends with the context of its first run
	return &tab{&browser{}, t, ctx, "about:blank"}
}

// open opens a page in a new tab of the same window.
func (b *tab) open(url string) *tab {
	b.t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	b.t.Cleanup(end)
	opened := &tab{&browser{}, b.t, ctx, url}
	chromedp.ListenTarget(ctx, opened.listen)
	require.NoError(b.t, chromedp.Run(ctx))
	// A tab in the background would receive no keys.
	opened.run(network.Enable(), log.Enable(), runtime.Enable(), emulation.SetFocusEmulationEnabled(true),
		chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url))
	return opened
}

// seen returns the requests and the problems so far. The page continues to run.
func (b *tab) seen() (requests, problems []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests), slices.Clone(b.problems)
}

// run performs actions in the tab.
func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		_, problems := b.seen()
		b.t.Fatalf("on %s: %v\nproblems: %s", b.url, err, strings.Join(problems, "\n"))
	}
}

// until waits until an expression is true. chromedp.Poll would need eval, and the page's policy forbids
// eval.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	await(b.t, what, func() bool {
		holds := false
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		err := chromedp.Run(ctx, chromedp.Evaluate("Boolean("+expression+")", &holds))
		return err == nil && holds // an error means that the page, or a part of the page, is not loaded yet
	})
}

// text returns the value of an expression.
func (b *tab) text(expression string) string {
	b.t.Helper()
	var value string
	b.run(chromedp.Evaluate(expression, &value))
	return value
}

// signIn signs a user in by the form on the page for people.
func (b *tab) signIn(user, name string) *tab {
	b.t.Helper()
	b.run(chromedp.SendKeys(`[name=user]`, user, chromedp.ByQuery), chromedp.SendKeys(`[name=name]`, name, chromedp.ByQuery),
		chromedp.Click(`form .primary`, chromedp.ByQuery))
	b.until(user+" is live", `document.querySelector("#live.on") && document.querySelector(".counts")`)
	return b
}

// write writes a post with the keyboard only.
func (b *tab) write(text string) {
	b.t.Helper()
	b.press(`#text`, text)
	b.press(`#write .primary`, "\r")
}

// isClean checks that the page had no error, that the page sent requests only to these hosts, and that no
// text of a user ran as code.
func (b *tab) isClean(hosts ...string) {
	b.t.Helper()
	requests, problems := b.seen()
	for _, request := range requests {
		at, err := url.Parse(request)
		if err != nil || at.Scheme != "data" && !slices.Contains(hosts, at.Host) || strings.Contains(request, "hacked") {
			b.t.Errorf("%s asked for %s (%v)", b.url, request, err)
		}
	}
	assert.Equal(b.t, "undefined", b.text(`typeof window.hacked`), "a text of a user ran")
	for _, problem := range problems {
		b.t.Errorf("%s: problem in the browser: %s", b.url, problem)
	}
}

// standard has the rules that a page has to meet, as axe names them.
const standard = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`

// isOpenToAll checks the page at each width, in light and in dark mode: axe finds no serious barrier, and
// the page is not wider than the window. It stores a picture of each in bin/screenshots.
func (b *tab) isOpenToAll(name string) {
	b.t.Helper()
	path, err := exec.CommandContext(b.t.Context(), "../scripts/axe.sh", "path").Output()
	require.NoErrorf(b.t, err, "scripts/axe.sh path: %v (make test installs it)", err)
	axe, err := os.ReadFile(strings.TrimSpace(string(path)))
	require.NoError(b.t, err)
	type violation struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML string }
	}
	wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	b.run(page.BringToFront(), chromedp.Evaluate(string(axe)+";0", nil)) // a tab in the background may draw nothing
	for _, width := range []int64{320, 375, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			var found []violation
			b.run(chromedp.EmulateViewport(width, 900), colours(scheme), chromedp.Evaluate(`scrollTo(0, 0)`, nil),
				chromedp.Evaluate(`axe.run({ resultTypes: ["violations"], runOnly: `+standard+` }).then(r => r.violations)`, &found, wait))
			for _, v := range found {
				if v.Impact == "serious" || v.Impact == "critical" {
					b.t.Errorf("%s, %d pixels, %s: axe finds %s (%s): %v", name, width, scheme, v.ID, v.Help, v.Nodes)
				}
			}
			b.picture(fmt.Sprintf("%s-%d-%s", name, width, scheme))
		}
	}
	b.run(chromedp.EmulateViewport(1280, 900))
}

func colours(scheme string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	})
}

// picture stores a picture of the page, and checks that the page is not wider than the window.
func (b *tab) picture(name string) {
	b.t.Helper()
	const folder = "../bin/screenshots"
	require.NoError(b.t, os.MkdirAll(folder, 0o750))
	var picture []byte
	var wide bool
	b.run(chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &wide),
		chromedp.ActionFunc(func(ctx context.Context) (err error) {
			picture, err = page.CaptureScreenshot().Do(ctx)
			return err
		}))
	assert.Falsef(b.t, wide, "%s is wider than its window", name)
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600))
}

// as returns a client of a user.
func (u *upright) as(t *testing.T, user string) *client.Client {
	t.Helper()
	c, err := client.New("http://" + u.http)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	token, err := c.DevToken(t.Context(), user, time.Hour)
	require.NoError(t, err)
	return c.AsToken(token.Token)
}

// newDemo starts a demo network and waits until its users act.
func newDemo(t *testing.T, vars ...string) (*upright, *process) {
	t.Helper()
	u := newUp(t)
	u.env = append(u.env, vars...)
	p := start(t, u.env, "fanfare", "up", "--demo", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
	p.ready(t, u.admin)
	ada := u.as(t, "ada")
	await(t, "the demo lives", func() bool {
		home, err := ada.Home(client.Push).Page(t.Context(), "", 20)
		return err == nil && len(home.Items) == 20
	})
	return u, p
}

// TestPeopleUseTheConsole signs in as several people in tabs of a real browser.
func TestPeopleUseTheConsole(t *testing.T) {
	t.Parallel()
	u, p := newDemo(t)
	site := "http://" + u.http
	fans := make([]*client.Client, 4)
	for i := range fans {
		fans[i] = u.as(t, fmt.Sprint("fan-", i))
	}
	_, err := u.as(t, "bob").PutMe(t.Context(), client.ProfileInput{Name: hostile, Bio: hostile, ImageURL: "https://other.example/bob.png"})
	require.NoError(t, err)

	window := newWindow(t)
	ann := window.open(site).signIn("ann", "Ann")
	bob := window.open(site).signIn("bob", "")
	ada := window.open(site)
	ada.run(chromedp.Click(`[data-user=ada]`, chromedp.ByQuery))

	// Ann finds Bob and follows him, with the keyboard.
	ann.run(chromedp.SendKeys(`#whom`, "bob\r", chromedp.ByQuery))
	ann.until("Bob's page is there", `location.pathname === "/users/bob" && document.querySelector("[data-toggle=follow]")`)
	ann.press(`[data-toggle=follow]`, "\r")
	ann.until("Ann follows Bob", `document.querySelector("[data-toggle=follow]").textContent === "Unfollow"`)
	ann.run(chromedp.NavigateBack())
	ann.until("Ann is live again", `document.querySelector("#live.on") && document.querySelector(".counts")`)
	ann.run(chromedp.Evaluate(`window.sameDocument = true`, nil))

	// Bob's post arrives on Ann's open page, as text.
	bob.write("Hello, " + hostile)
	const post = `[...document.querySelectorAll("#home > li")].find(e => e.dataset.author === "bob")`
	ann.until("the post is in the open page", post)
	assert.Equal(t, "Hello, "+hostile, ann.text(post+`.querySelector(".text").textContent`))
	assert.Equal(t, hostile, ann.text(post+`.querySelector(".name").textContent`))
	assert.Equal(t, "true", ann.text(`String(window.sameDocument)`), "the page was not loaded again")
	assert.Equal(t, hostile+hostile, bob.text(`document.querySelector("#me .name").textContent + document.querySelector("#me .bio").textContent`))

	// Likes change the count, and the final count is exact.
	id := strings.TrimPrefix(ann.text(post+`.id`), "p-")
	count := fmt.Sprintf(`document.querySelector("#p-%s .count").textContent`, id)
	ann.press(fmt.Sprintf(`#p-%s .like`, id), " ")
	// The count comes by the stream, maybe before the answer to the like.
	ann.until("her like is counted", fmt.Sprintf(`%s === "1" && document.querySelector("#p-%s .like").ariaPressed === "true"`, count, id))
	for i, fan := range fans {
		_, err := fan.PutMe(t.Context(), client.ProfileInput{Name: fmt.Sprint("Fan ", i)})
		require.NoError(t, err)
		require.NoError(t, fan.Like(t.Context(), id))
	}
	ann.until("all likes are counted", count+` === "5"`)
	bob.until("he sees them, too", count+` === "5"`)
	ann.press(fmt.Sprintf(`#p-%s .like`, id), " ")
	ann.until("she took hers back", count+` === "4"`)
	exact, err := fans[0].LikeCount(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, int64(4), exact.Count)

	// An edit changes the open page, and a deletion takes the post away.
	other, err := u.as(t, "bob").CreatePost(t.Context(), client.PostInput{Text: "first"})
	require.NoError(t, err)
	text := fmt.Sprintf(`document.querySelector("#p-%s .text")?.textContent`, other.ID)
	ann.until("the post comes", text+` === "first"`)
	second := "second"
	_, err = u.as(t, "bob").EditPost(t.Context(), other.ID, client.PostEdit{Text: &second})
	require.NoError(t, err)
	ann.until("she sees the edit", text+` === "second"`)
	require.NoError(t, u.as(t, "bob").DeletePost(t.Context(), other.ID))
	ann.until("the post is gone", text+` === undefined`)
	assert.Equal(t, "true", ann.text(`String(window.sameDocument)`), "the page was not loaded again")

	// A post of the large author reaches all its homes, chunk by chunk.
	ada.until("Ada is live", `document.querySelector("#live.on") && document.querySelectorAll("#home > li").length >= 20`)
	ada.write("To everybody")
	ada.until("the delivery ends", `document.querySelector("#deliveries > li:first-child .text").textContent === "To everybody" &&
		document.querySelector("#deliveries > li:first-child .complete [aria-valuenow='100']")`)
	delivered := ada.text(`document.querySelector("#deliveries > li:first-child .delivery p").textContent`)
	assert.Regexp(t, `^100 % (30\d) of (30\d) homes · (\d\d) of \d\d chunks · [\d,]+ ms$`, delivered)
	assert.Equal(t, "done", ada.text(`[...new Set([...document.querySelectorAll("#deliveries > li:first-child .bar i")].map(e => e.className))].join()`))

	// After the unfollow, Bob is gone.
	ann.run(chromedp.Click("#p-"+id+" .name", chromedp.ByQuery))
	ann.until("the name leads to Bob", `location.pathname === "/users/bob" && document.querySelector("[data-toggle=follow]")`)
	ann.run(chromedp.Click(`[data-toggle=follow]`, chromedp.ByQuery))
	ann.until("Ann has unfollowed Bob", `document.querySelector("[data-toggle=follow]").textContent === "Follow"`)
	ann.run(chromedp.NavigateBack())
	ann.until("Bob is gone", `document.querySelector("#live.on") && !document.querySelector("#home.loading, [data-author=bob]")`)

	signedOut := window.open(site)
	signedOut.until("the form is there", `document.querySelector(".signin")`)
	for _, b := range []*tab{signedOut, ann, bob, ada} {
		b.isClean(u.http)
	}
	ada.isOpenToAll("demo")
	require.NoError(t, chromedp.Cancel(window.ctx), "close the browser")
	p.stop(t)
}

// deadLetters puts dead letters into the queues of a stopped server.
func (u *upright) deadLetters(t *testing.T, letters map[string]*message.Message) {
	t.Helper()
	broker, err := embedded.Create(filepath.Join(u.data, "queue"), embedded.Options{})
	require.NoError(t, err)
	for topic, letter := range letters {
		require.NoError(t, broker.DeadLetter(t.Context(), topic, letter, "of no use: "+hostile))
	}
	require.NoError(t, broker.Close())
}

// TestAnOperatorRedrivesADeadLetter redrives a like from the dead letters. The like then counts.
func TestAnOperatorRedrivesADeadLetter(t *testing.T) {
	t.Parallel()
	u, p := newDemo(t)
	ada := u.as(t, "ada")
	post, err := ada.CreatePost(t.Context(), client.PostInput{Text: "Who likes this?"})
	require.NoError(t, err)
	p.stop(t)
	now := time.Now().UTC()
	event, err := id.NewGenerator(time.Now).New()
	require.NoError(t, err)
	like, err := queue.Message(t.Context(), &messages.Liked{Like: messages.Like{
		Header: messages.Header{EventID: event, Time: now}, PostID: post.ID, UserID: "grace",
	}})
	require.NoError(t, err)
	u.deadLetters(t, map[string]*message.Message{
		queue.TopicLikes: like, queue.TopicPosts: message.NewMessage("poison "+hostile, []byte(hostile)),
	})
	p = start(t, u.env, "fanfare", "up", "--demo", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
	p.ready(t, u.admin)
	likes := func() int64 {
		count, err := ada.LikeCount(t.Context(), post.ID)
		require.NoError(t, err)
		return count.Count
	}
	assert.Zero(t, likes())

	window := newWindow(t)
	own := window.open("http://" + u.admin + "/")
	within := window.open("http://" + u.http + "/operator")
	const count = `document.querySelector("[data-tile=dead]").textContent`
	for _, b := range []*tab{own, within} {
		b.until("both dead letters are there", count+` === "2" && document.querySelectorAll("td.reason").length === 2`)
		assert.Equal(t, "of no use: "+hostile, b.text(`document.querySelector("[data-topic=likes] .reason").textContent`))
		assert.Equal(t, hostile, b.text(`document.querySelector("[data-topic=posts] pre").textContent`))
	}
	within.press(`[data-topic=likes] button`, "\r")
	within.until("it is sent again", `document.getElementById("toast").textContent === "1 sent again"`)
	await(t, "the like is counted", func() bool { return likes() == 1 })
	for _, b := range []*tab{own, within} {
		b.until("it is a dead letter no more", count+` === "1" && document.querySelector("[data-topic=likes] button") === null`)
	}
	// The other dead letter fails again, for a reason in the product.
	own.run(chromedp.Click(`[data-topic=posts] button`, chromedp.ByQuery))
	own.until("it has failed again", `document.querySelector("[data-topic=posts] .reason")?.textContent.startsWith("of no use") === false`)
	assert.Equal(t, hostile, own.text(`document.querySelector("[data-topic=posts] pre").textContent`))

	// The filter hides all letters with another reason, and a dropped letter is gone.
	own.accept()
	own.run(chromedp.SendKeys(`#filter input`, "no such reason", chromedp.ByQuery))
	own.until("nothing matches", `document.querySelectorAll("td.reason").length === 0`)
	own.run(chromedp.Evaluate(`(e => { e.value = ""; e.dispatchEvent(new Event("input")); })(document.querySelector("#filter input"))`, nil))
	own.until("the letter is there again", `document.querySelector("[data-topic=posts] .danger")`)
	own.press(`[data-topic=posts] .danger`, "\r")
	own.until("it is dropped", `document.getElementById("toast").textContent === "1 dropped" && document.querySelectorAll("td.reason").length === 0`)

	// The charts show new values.
	for _, b := range []*tab{own, within} {
		b.until("there are charts", `document.querySelectorAll(".plot canvas").length >= 4 &&
			["posts", "deliveries", "likes"].every(t => parseFloat(document.querySelector("[data-tile=" + t + "]").textContent) >= 0)`)
	}
	own.isClean(u.admin)
	within.isClean(u.http)
	within.isOpenToAll("operator-letters")
	require.NoError(t, chromedp.Cancel(window.ctx), "close the browser")
	p.stop(t)
}
