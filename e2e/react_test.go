//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// react builds examples/react in a copy, beside the built client, and returns the folder. The build also
// checks the types of the example.
var react = sync.OnceValues(func() (string, error) {
	built, err := typescript()
	if err != nil {
		return "", err
	}
	modules, err := exec.Command("../scripts/node-tools.sh", "path", "examples/react").Output()
	if err != nil {
		return "", fmt.Errorf("scripts/node-tools.sh path examples/react: %w (make test installs it)", err)
	}
	examples := filepath.Join(built, "..", "..", "examples")
	for _, example := range []string{"browser", "react"} { // the two examples share the style
		if err := os.CopyFS(filepath.Join(examples, example), os.DirFS("../examples/"+example)); err != nil {
			return "", err
		}
	}
	folder := filepath.Join(examples, "react")
	for _, own := range []string{"node_modules", "dist"} { // a developer may have built the example here
		if err := os.RemoveAll(filepath.Join(folder, own)); err != nil {
			return "", err
		}
	}
	if err := os.Symlink(strings.TrimSpace(string(modules)), filepath.Join(folder, "node_modules")); err != nil {
		return "", err
	}
	build := exec.Command("npm", "run", "build")
	build.Dir, build.Env = folder, append(os.Environ(), "NPM_CONFIG_UPDATE_NOTIFIER=false")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build examples/react: %w: %s", err, out)
	}
	return folder, nil
})

// TestTheReactExampleShowsALiveHomeAndABell opens examples/react in a real browser.
func TestTheReactExampleShowsALiveHomeAndABell(t *testing.T) {
	t.Parallel()
	folder, err := react()
	require.NoError(t, err)
	e := newExampleAt(t, "/", http.FileServer(http.Dir(folder)))
	ann, bob := signUp(t, reach(t, e.http), "ann"), signUp(t, reach(t, e.http), "bob")
	require.NoError(t, bob.Follow(t.Context(), "ann"))
	notified(t, ann, 1) // of the follow, which is below the like's notification then
	before, err := ann.CreatePost(t.Context(), client.PostInput{Text: "Before"})
	require.NoError(t, err)

	window := newWindow(t)
	his, hers := e.open(window, "bob"), e.open(window, "ann")
	his.until("the earlier post is shown", fmt.Sprintf(`document.getElementById(%q)`, before.ID))
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: hostile})
	require.NoError(t, err)
	shown := fmt.Sprintf(`document.getElementById(%q)`, post.ID)
	his.until("the post is shown", shown)
	assert.Equal(t, "ann"+hostile+"0 likes", his.text(shown+`.textContent`))
	assert.Equal(t, post.ID+" "+before.ID, his.text(`[...document.querySelectorAll("#home li")].map(item => item.id).join(" ")`), "the newest is on top")

	his.toggleLike(post.ID)
	his.until("the like is shown", shown+`.textContent.endsWith("1 like") && `+shown+`.querySelector(".like").ariaPressed === "true"`)
	const badge = `document.querySelector("#badge")`
	hers.until("the bell is at 2: a follow and a like", badge+`?.textContent === "2"`)
	hers.press(`#bell`, "\r")
	const row = `document.querySelector("#list li")`
	hers.until("the list names Bob", row)
	assert.Equal(t, "New: bob liked your post", hers.text(row+`.querySelector("p").textContent`))
	assert.Equal(t, hostile, hers.text(row+`.querySelector(".about").textContent`))
	hers.until("what was seen is read", `!`+badge+` && document.querySelector("#list .unread")`)

	his.toggleLike(post.ID)
	notified(t, ann, 1)
	hers.run(chromedp.KeyEvent("\x1b"))
	hers.until("the list is closed", `!document.querySelector(":popover-open") && !document.querySelector("#list li")`)
	hers.press(`#bell`, "\r")
	hers.until("the like and its notification are gone", `document.querySelectorAll("#list li").length === 1 && !document.querySelector("#list .unread")`)
	his.until("the count follows", shown+`.textContent.endsWith("0 likes")`)

	// A user who signs in on the same page sees no data of the previous user.
	e.connect(his, "no token")
	his.until("it is refused", `document.querySelector("#state").value === "refused" && !document.querySelector("#home li") && document.querySelector("#problem").textContent`)
	e.isClean(hers)
	e.p.stop(t)
}
