//go:build e2e && slow

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// TestAnAnswerUndoesNoEvent lets a post arrive, a deletion, and an edit of a post that the page shows only in a repost, while the
// page waits for the answer of its home, which lacks all of them.
func TestAnAnswerUndoesNoEvent(t *testing.T) {
	t.Parallel()
	p, u, _, grace := newTown(t)
	me := u.as(t, "ann")
	_, err := u.as(t, "bob").PutMe(t.Context(), client.ProfileInput{Name: "Bob"})
	require.NoError(t, err)
	require.NoError(t, me.Follow(t.Context(), "grace"))
	carol := u.as(t, "carol")
	_, err = carol.PutMe(t.Context(), client.ProfileInput{Name: "Carol"})
	require.NoError(t, err)
	original, err := carol.CreatePost(t.Context(), client.PostInput{Text: "first"})
	require.NoError(t, err)
	var holds atomic.Bool
	asked, arrived := make(chan struct{}, 100), make(chan struct{})
	addr := u.through(t, nil, func(resp *http.Response) error {
		if strings.HasSuffix(resp.Request.URL.Path, "/v1/home") && holds.Load() {
			asked <- struct{}{}
			<-arrived
		}
		return nil
	})
	release := sync.OnceFunc(func() { close(arrived) })
	t.Cleanup(release) // the proxy waits for its requests
	ann := newWindow(t).open("http://"+addr).signIn("ann", "Ann")
	ann.until("the page is live", `document.querySelector("#live.on")`)
	old, err := grace.CreatePost(t.Context(), client.PostInput{Text: "old"})
	require.NoError(t, err)
	_, err = grace.Repost(t.Context(), original.ID)
	require.NoError(t, err)
	const texts = `[...document.querySelectorAll("#home > .entry .text")].map(e => e.textContent).join()`
	ann.until("the posts are there", texts+` === "first,old"`)
	require.NoError(t, me.Follow(t.Context(), "bob"))
	holds.Store(true)
	require.NoError(t, me.Unfollow(t.Context(), "bob")) // the page reads its home again
	await(t, "the home is read", func() bool { return len(asked) > 0 })
	post, err := grace.CreatePost(t.Context(), client.PostInput{Text: "arrives"})
	require.NoError(t, err)
	card := fmt.Sprintf(`document.querySelector("#p-%s")`, post.ID)
	ann.until("the post arrives", card)
	edited := "second"
	_, err = carol.EditPost(t.Context(), original.ID, client.PostEdit{Text: &edited})
	require.NoError(t, err)
	require.NoError(t, grace.DeletePost(t.Context(), old.ID))
	ann.until("the edit and the deletion arrive", texts+` === "arrives,second"`)
	ann.run(chromedp.Evaluate(`document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => { if (ctx.sourceElement.id === "home") window.filled = true; })`, nil))
	holds.Store(false)
	release()
	ann.until("the page has the answer", `window.filled`)
	ann.until("the page asks for the posts that the answer lacks", fmt.Sprintf(`performance.getEntriesByType("resource").some(e => e.name.includes("/v1/posts?ids=") && e.name.includes(%q) && e.name.includes(%q) && e.responseEnd > 0)`, post.ID, original.ID))
	ann.until("the post and the edit are still there", texts+` === "arrives,second"`)
	p.stop(t)
}
