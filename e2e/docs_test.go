//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browser is a tab of a real browser, with the tab's requests and problems.
type browser struct {
	mu       sync.Mutex
	requests []string
	problems []string
}

// listen records requests, and every problem that the console of the browser shows.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *network.EventWebSocketCreated:
		b.requests = append(b.requests, e.URL)
	case *network.EventLoadingFailed:
		b.problems = append(b.problems, "loading failed: "+e.ErrorText)
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			b.problems = append(b.problems, fmt.Sprint("console: ", e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			b.problems = append(b.problems, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// browse opens a page in a new browser with a new profile and runs actions on the page. A browser
// searches for updates whatever its flags are. So a proxy stops all requests of the browser itself, and
// b.requests has only the page's requests.
func browse(t *testing.T, page string, actions ...chromedp.Action) *browser {
	t.Helper()
	tab, endTab := chromedp.NewContext(allocator(t))
	defer endTab()
	b := &browser{}
	chromedp.ListenTarget(tab, b.listen)
	// A page that has no focus receives no keys.
	err := chromedp.Run(tab, network.Enable(), log.Enable(), runtime.Enable(), emulation.SetFocusEmulationEnabled(true), chromedp.Navigate(page))
	require.NoErrorf(t, err, "open %s", page)
	if err := chromedp.Run(tab, actions...); err != nil {
		t.Fatalf("on %s: %v\nproblems: %s", page, err, strings.Join(b.problems, "\n"))
	}
	assert.NoError(t, chromedp.Cancel(tab), "close the browser")
	return b
}

// allocator returns a context in which a browser starts. The context ends with the test.
func allocator(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.CommandContext(t.Context(), "../scripts/chromium.sh", "path").Output()
	require.NoErrorf(t, err, "scripts/chromium.sh path: %v (make test installs it)", err)
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(strings.TrimSpace(string(path))), chromedp.UserDataDir(leftovers(t)), chromedp.Headless,
		chromedp.WindowSize(1280, 1000), chromedp.WSURLReadTimeout(patience),
		chromedp.ProxyServer(newOutsiders(t).url), chromedp.Flag("proxy-bypass-list", "127.0.0.1"),
		chromedp.Env("HOME=" + leftovers(t)), // the browser also writes outside its profile
	}
	for _, flag := range []string{
		"no-sandbox", "disable-gpu", "disable-dev-shm-usage", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "disable-default-apps", "disable-domain-reliability", "disable-extensions",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	return allocator
}

// leftovers returns a directory for a browser. The helper processes of a browser write to the directory
// for a short time after the browser's end. So the removal of a t.TempDir could fail, and would fail the
// test.
func leftovers(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fanfare-browser-") //nolint:usetesting // a t.TempDir could not be removed
	require.NoError(t, err)
	t.Cleanup(func() {
		for range 100 {
			if os.RemoveAll(dir) == nil {
				return
			}
		}
		t.Logf("%s is left", dir)
	})
	return dir
}

// drawn is an operation that the docs page shows.
type drawn struct {
	ID, Method, Path string
	Text             string
	Open             bool
}

// TestTheDocsPageShowsEveryOperation opens /docs in a real browser.
func TestTheDocsPageShowsEveryOperation(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	var title string
	var operations []drawn
	var width, content int
	b := browse(t, "http://"+u.http+"/docs#create-post",
		chromedp.WaitVisible("#create-post pre", chromedp.ByQuery),
		chromedp.Title(&title),
		chromedp.Evaluate(`[...document.querySelectorAll("details")].map(d => ({
			ID: d.id, Open: d.open, Method: d.querySelector("summary .method").textContent,
			Path: d.querySelector("summary code:not(.method)").textContent, Text: d.textContent }))`, &operations),
		chromedp.Click("#open-all", chromedp.ByQuery),
		chromedp.WaitVisible("#get-home .curl", chromedp.ByQuery),
		chromedp.Evaluate(`document.documentElement.clientWidth`, &width),
		chromedp.Evaluate(`document.documentElement.scrollWidth`, &content),
		screenshot(t),
	)
	assert.Equal(t, "Fanfare API", title)
	assert.LessOrEqualf(t, content, width, "the page is %d pixels wide in a window of %d", content, width)
	shown := map[string]drawn{}
	for _, op := range operations {
		shown[op.Method+" "+op.Path] = op
		assert.Equalf(t, op.ID == "create-post", op.Open, "%s is open", op.ID) // the address names create-post
		if strings.Contains(op.Text, "undefined") || strings.Contains(op.Text, "[object") || !strings.Contains(op.Text, "Problems: ") {
			t.Errorf("%s is drawn as %s", op.ID, op.Text)
		}
	}
	wanted := 0
	for path, methods := range u.document(t).Paths {
		for method, op := range methods {
			wanted++
			assert.Equalf(t, op.OperationID, shown[strings.ToUpper(method)+" "+path].ID,
				"%s (%s %s) is not shown", op.OperationID, method, path)
		}
	}
	assert.Len(t, operations, wanted)
	for _, problem := range b.problems {
		t.Errorf("problem in the browser: %s", problem)
	}
	for _, request := range b.requests {
		if at, err := url.Parse(request); err != nil || at.Host != u.http {
			t.Errorf("the page asked for %s (%v)", request, err)
		}
	}
	assert.Contains(t, b.requests, "http://"+u.http+"/openapi.json", "the page did not ask for its document, but for")
	p.stop(t)
}

// TestCallsAreSentFromTheDocsPage requests a dev token, sends calls from the forms of the page, and runs
// the commands that the page shows.
func TestCallsAreSentFromTheDocsPage(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	send := func(id, status string) chromedp.Action {
		answer := "#" + id + " pre.answer"
		return chromedp.Tasks{
			chromedp.Evaluate(fmt.Sprintf(`document.getElementById(%q).open = true`, id), nil),
			chromedp.WaitVisible("#"+id+" button[type=submit]", chromedp.ByQuery),
			chromedp.Click("#"+id+" button[type=submit]", chromedp.ByQuery),
			chromedp.Poll(fmt.Sprintf(`document.querySelector(%q).textContent.startsWith(%q)`, answer, status), nil, chromedp.WithPollingTimeout(patience)),
		}
	}
	var created, read, command string
	b := browse(t, "http://"+u.http+"/docs",
		chromedp.Click("#dev-form button", chromedp.ByQuery),
		chromedp.Poll(`document.getElementById("token").value !== ""`, nil, chromedp.WithPollingTimeout(patience)),
		send("put-me", "200"),
		send("create-post", "201"),
		chromedp.Text("#create-post pre.answer", &created, chromedp.ByQuery),
		send("get-post", "200"), // the form has the id from the previous answer
		chromedp.Text("#get-post pre.answer", &read, chromedp.ByQuery),
		chromedp.SetValue("#create-post textarea", `{"text":"it's from a shell"}`, chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("#create-post form").dispatchEvent(new Event("input"))`, nil),
		chromedp.Text("#create-post .curl", &command, chromedp.ByQuery),
		chromedp.Evaluate(`document.getElementById("create-post").scrollIntoView()`, nil),
		screenshot(t),
	)
	assert.Contains(t, created, "location: /v1/posts/")
	assert.Contains(t, read, `"text": "Hello"`)
	assert.Empty(t, b.problems)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(command, "curl", "curl -sS", 1)).CombinedOutput()
	require.NoErrorf(t, err, "%s\n%s", command, out)
	assert.Contains(t, string(out), `"text":"it's from a shell"`)
	p.stop(t)
}

// screenshot stores a picture of the page with the test's artifacts (go test -artifacts).
func screenshot(t *testing.T) chromedp.Action {
	t.Helper()
	var picture []byte
	return chromedp.Tasks{
		chromedp.CaptureScreenshot(&picture),
		chromedp.ActionFunc(func(context.Context) error {
			return os.WriteFile(filepath.Join(t.ArtifactDir(), "docs.png"), picture, 0o600)
		}),
	}
}
