//go:build e2e

package e2e

import (
	"fmt"
	"net/url"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// here opens a page in the same tab, as a link does.
func (b *tab) here(path, ready string) {
	b.t.Helper()
	at, err := url.Parse(b.url)
	require.NoError(b.t, err)
	b.run(chromedp.Navigate(at.Scheme + "://" + at.Host + path))
	b.until(path+" is there", ready)
}

// focus focuses an element in one step of the page: chromedp.Focus finds a node first, and the page may draw another one
// before the second step.
func (b *tab) focus(selector string) {
	b.t.Helper()
	b.until("focus on "+selector, fmt.Sprintf(`(e => (e?.focus(), e && document.activeElement === e))(document.querySelector(%q))`, selector))
}

// press presses a key on an element.
func (b *tab) press(selector, key string) {
	b.t.Helper()
	b.focus(selector)
	b.run(chromedp.KeyEvent(key))
}

// toggle presses a button until it has another word. A page that draws itself again between the focus and the key loses the key.
func (b *tab) toggle(selector, word string) {
	b.t.Helper()
	state := fmt.Sprintf(`(e => !e || e.closest(".htmx-request") ? "busy" : e.textContent)(document.querySelector(%q))`, selector)
	await(b.t, word+" is next", func() bool {
		now := b.text(state)
		if now != word && now != "busy" {
			b.press(selector, "\r")
		}
		return now == word
	})
}

// accept accepts the questions of the page.
func (b *tab) accept() {
	chromedp.ListenTarget(b.ctx, func(event any) {
		if _, asked := event.(*page.EventJavascriptDialogOpening); asked {
			go func() { _ = chromedp.Run(b.ctx, page.HandleJavaScriptDialog(true)) }() // the page waits, and run would fail with the page
		}
	})
}
