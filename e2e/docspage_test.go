//go:build e2e && slow

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// awaits waits until an expression is true.
func awaits(expression string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		if err := chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(patience)).Do(ctx); err != nil {
			return fmt.Errorf("%s: %w", expression, err)
		}
		return nil
	})
}

// shown waits until an element is visible or hidden.
func shown(selector string, is bool) chromedp.Action {
	return awaits(fmt.Sprintf(`(document.querySelector(%q)?.checkVisibility() ?? false) === %t`, selector, is))
}

// barriers appends the serious barriers that axe finds on the page. The function axe has to be loaded.
func barriers(into *[]string, state string) chromedp.Action {
	var found []string
	return chromedp.Tasks{
		chromedp.Evaluate(`axe.run({ runOnly: `+standard+` }).then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical").map(v => v.id + ": " + v.nodes.map(n => n.html)))`,
			&found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
		chromedp.ActionFunc(func(context.Context) error {
			for _, barrier := range found {
				*into = append(*into, state+": "+barrier)
			}
			return nil
		}),
	}
}

// TestTheDocsPageFitsEveryScreen opens a call and the list of calls on three screens in both colours.
func TestTheDocsPageFitsEveryScreen(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	path, err := exec.CommandContext(t.Context(), "../scripts/axe.sh", "path").Output()
	require.NoErrorf(t, err, "scripts/axe.sh path: %v (make test installs it)", err)
	axe, err := os.ReadFile(strings.TrimSpace(string(path)))
	require.NoError(t, err)
	var found []string
	wide := make(map[string]*bool)
	actions := []chromedp.Action{shown("#list-posts .code.curl", true), chromedp.Evaluate(string(axe)+";0", nil)}
	for _, width := range []int64{320, 375, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			state := fmt.Sprint(width, " ", scheme)
			wide[state] = new(bool)
			actions = append(actions, chromedp.EmulateViewport(width, 900), colours(scheme), barriers(&found, state),
				chromedp.Evaluate(`document.documentElement.scrollWidth > document.documentElement.clientWidth`, wide[state]))
			if width < 1280 {
				actions = append(actions, chromedp.Click("#menu", chromedp.ByQuery), shown("#search", true),
					barriers(&found, state+" list"), chromedp.Click("#menu", chromedp.ByQuery), shown("#search", false))
			}
		}
	}
	b := browse(t, "http://"+u.http+"/docs#list-posts", actions...)
	assert.Empty(t, found)
	assert.Empty(t, b.problems)
	for state, is := range wide {
		assert.Falsef(t, *is, "%s: the page is wider than the window", state)
	}
	p.stop(t)
}

// TestTheDocsPageFindsACallOnAPhone searches for a call in the list of a phone, and opens it.
func TestTheDocsPageFindsACallOnAPhone(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	var found string
	var links []string
	b := browse(t, "http://"+u.http+"/docs",
		chromedp.EmulateViewport(390, 844), chromedp.WaitReady("#create-post", chromedp.ByQuery), chromedp.Click("#menu", chromedp.ByQuery),
		chromedp.SendKeys("#search", "bookmark", chromedp.ByQuery), chromedp.Text("#found", &found, chromedp.ByQuery),
		chromedp.Evaluate(`[...document.querySelectorAll("#list a:not([hidden])")].map(a => a.hash)`, &links),
		chromedp.SendKeys("#search", kb.Enter, chromedp.ByQuery),
		shown("#bookmark .code.curl", true), // the id that equals the search, not the first call
		awaits(`document.activeElement === document.querySelector("#bookmark summary")`),
		shown("#search", false),
		chromedp.Click("#menu", chromedp.ByQuery), chromedp.SendKeys("#search", kb.Escape, chromedp.ByQuery),
		awaits(`document.querySelectorAll("#list a[hidden]").length === 0 && document.getElementById("calls").matches(".open")`),
		chromedp.SendKeys("#search", kb.Escape, chromedp.ByQuery), awaits(`document.activeElement.id === "menu"`),
		chromedp.Click("header a[aria-label='Fanfare, home']", chromedp.ByQuery), chromedp.WaitNotPresent("#open-all", chromedp.ByQuery),
	)
	assert.ElementsMatch(t, []string{"#list-bookmarks", "#bookmark", "#unbookmark", "#get-bookmark", "#delete-me"}, links)
	assert.Equal(t, "5 calls", found)
	assert.Empty(t, b.problems)
	p.stop(t)
}

// TestTheCodeOfTheDocsPageRuns takes the code of create-post with the values of the form, and runs it.
func TestTheCodeOfTheDocsPageRuns(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	code := map[string]*string{"curl": new(string), "go": new(string), "python": new(string), "typescript": new(string)}
	actions := []chromedp.Action{
		chromedp.Click("#dev-form button", chromedp.ByQuery), awaits(`document.getElementById("token").value !== ""`),
		chromedp.Evaluate(`location.hash = "#put-me"`, nil), chromedp.Click("#put-me button[type=submit]", chromedp.ByQuery),
		awaits(`document.querySelector("#put-me pre.answer").textContent.startsWith("200")`),
		chromedp.Evaluate(`location.hash = "#create-post"`, nil), shown("#create-post textarea", true),
		chromedp.SetValue("#create-post textarea", `{"text":"it's a \"feed\" – true"}`, chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("#create-post form").dispatchEvent(new Event("input"))`, nil),
	}
	for name, text := range code {
		actions = append(actions, chromedp.Click("#create-post-"+name+"-tab", chromedp.ByQuery),
			shown("#create-post-"+name, true), chromedp.TextContent("#create-post-"+name, text, chromedp.ByQuery))
	}
	b := browse(t, "http://"+u.http+"/docs", actions...)
	assert.Empty(t, b.problems)
	runs(t, "sh", "-c", strings.Replace(*code["curl"], "curl", "curl -sS --fail", 1))
	file := filepath.Join(t.TempDir(), "call.py")
	require.NoError(t, os.WriteFile(file, []byte(*code["python"]), 0o600))
	runs(t, "../scripts/python-tools.sh", "run", "schemathesis", "python", file)
	posts, err := u.as(t, "alice").PostsByUser("alice", client.PostRange{}).Page(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, posts.Items, 2)
	for _, post := range posts.Items {
		assert.Equal(t, `it's a "feed" – true`, post.Text)
	}
	token, _, _ := strings.Cut((*code["go"])[strings.Index(*code["go"], "WithToken(")+len("WithToken("):], ")")
	for _, name := range []string{"curl", "python", "typescript"} {
		assert.Contains(t, *code[name], strings.Trim(token, `"`), name)
	}
	assert.Contains(t, *code["typescript"], `await fanfare.post("/v1/posts", { body: { text: "it's a \"feed\" – true" } });`)
	p.stop(t)
}

// TestTheTypeScriptOfTheDocsPageHasTheTypesOfTheClient compiles the TypeScript code of every call with the client.
func TestTheTypeScriptOfTheDocsPageHasTheTypesOfTheClient(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	var code []string
	b := browse(t, "http://"+u.http+"/docs",
		chromedp.WaitReady("#create-post", chromedp.ByQuery), chromedp.Click("#open-all", chromedp.ByQuery),
		chromedp.WaitReady("#count-unread .typescript", chromedp.ByQuery), awaits(`document.querySelectorAll(".typescript").length === document.querySelectorAll("details").length`),
		chromedp.Evaluate(`[...document.querySelectorAll(".typescript")].map(code => code.textContent)`, &code),
	)
	assert.Empty(t, b.problems)
	p.stop(t)
	require.Greater(t, len(code), 50)
	client, err := typescript()
	require.NoError(t, err)
	folder := filepath.Join(t.TempDir(), "page")
	require.NoError(t, os.Mkdir(folder, 0o750))
	require.NoError(t, os.Symlink(filepath.Join(client, "node_modules"), filepath.Join(folder, "node_modules")))
	for i, text := range code {
		text = strings.Replace(text, `"fanfare-client"`, fmt.Sprintf("%q", filepath.Join(client, "dist/src/index.js")), 1)
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("call%d.ts", i)), []byte(text+"\nexport {};\n"), 0o600))
	}
	options := `{"compilerOptions": {"strict": true, "noEmit": true, "skipLibCheck": true, "target": "ES2022", "module": "NodeNext", "lib": ["ES2022", "DOM"], "types": ["node"]}}`
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tsconfig.json"), []byte(options), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"type": "module"}`), 0o600))
	runs(t, filepath.Join(client, "node_modules/.bin/tsc"), "--project", folder)
}

// runs starts a program, which has to succeed.
func runs(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
}
