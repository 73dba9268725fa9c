//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// watchLabels is a script. For each chart it records the labels of the last drawing, and the labels that
// do not fit the chart.
const watchLabels = `(() => {
	const drawing = CanvasRenderingContext2D.prototype, { fillText, clearRect } = drawing;
	window.labels = new Map();
	drawing.clearRect = function (...box) { labels.set(this.canvas, []); return clearRect.apply(this, box); };
	drawing.fillText = function (text, x, y) {
		const wide = this.measureText(text).width, at = this.getTransform().transformPoint({ x, y }).x;
		const left = at - (this.textAlign === "center" ? wide / 2 : this.textAlign === "right" ? wide : 0);
		labels.get(this.canvas)?.push({ text, cut: left < 0 || left + wide > this.canvas.width });
		return fillText.apply(this, arguments);
	};
	window.drawn = () => [...labels.values()].filter(l => l.length > 0);
	window.wrong = () => drawn().flatMap(l => l.filter((label, i) => label.cut || l.some((other, j) => j < i && other.text === label.text)).map(label => label.text)).join();
})()`

// TestTheOperatorsPageShowsAYoungDemo checks the page in the first minute of a process whose deletions
// are waiting.
func TestTheOperatorsPageShowsAYoungDemo(t *testing.T) {
	t.Parallel()
	u, p := newDemo(t, "FANFARE_CANARY=on")
	ada := u.as(t, "ada")
	var deleted string
	for range 37 {
		post, err := ada.CreatePost(t.Context(), client.PostInput{Text: "Soon deleted"})
		require.NoError(t, err)
		deleted = post.ID
		require.NoError(t, ada.DeletePost(t.Context(), post.ID))
	}
	window := newWindow(t)
	page := window.open("http://" + u.http + "/operator")
	page.run(chromedp.Evaluate(watchLabels, nil))
	page.until("deletions wait, and are no backlog", `parseFloat(document.querySelector("[data-tile=delayed]").textContent) >= 37 &&
		document.querySelector("[data-tile=waiting]").textContent === "0"`)
	page.until("six charts are drawn", `drawn().length === 6 && drawn().every(l => l.length >= 3)`)
	assert.Empty(t, page.text(`wrong()`), "labels that are cut off or repeated, of a wide page")

	// Times of any size fit as the first value of a chart, and also beside the largest value.
	for _, time := range []struct{ ms, want string }{
		{"2482", "2.5 s"}, {"999", "999 ms"}, {"1785000", "30 min"}, {"0.25", "0.3 ms"}, {"86400000000", "1,440,000 min"},
	} {
		page.run(chromedp.Evaluate(`import("/console/charts.js").then(({ plot }) => {
			window.late?.remove();
			const figure = document.querySelector("[data-chart=lag]").cloneNode(true);
			figure.querySelectorAll(".keys, .plot").forEach(e => e.replaceChildren());
			document.querySelector(".charts").append(figure);
			window.late = figure;
			window.addLate = plot(figure, [["late"]]);
		})`, nil, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		for _, before := range []string{"", "86400000000"} {
			if before != "" {
				page.run(chromedp.Evaluate(`addLate(Date.now() / 1000, [`+before+`])`, nil))
			}
			page.run(chromedp.Evaluate(`labels.delete(late.querySelector("canvas")); addLate(Date.now() / 1000, [`+time.ms+`])`, nil))
			assert.Equal(t, time.want, page.text(`late.querySelector(".keys b").textContent`))
			page.until(time.ms+" is drawn", `labels.get(late.querySelector("canvas"))?.length >= 3`)
			assert.Empty(t, page.text(`wrong()`), "labels that are cut off or repeated, with %s", time.ms)
		}
	}
	page.run(chromedp.EmulateViewport(390, 900))
	page.until("the charts are narrow", `[...labels.keys()].filter(c => c.isConnected).every(c => c.clientWidth < 390)`)
	page.run(chromedp.Evaluate(`labels.clear(); addLate(Date.now() / 1000, [1785000])`, nil))
	page.until("the charts are drawn again", `drawn().length === 7`)
	assert.Empty(t, page.text(`wrong()`), "labels that are cut off or repeated, of a narrow page")

	assert.Equal(t, "fanfare api, fanout, likeagg", page.text(`document.querySelector("h1").textContent`))
	assert.NotContains(t, page.text(`document.querySelector("main").textContent`), "of this process alone")
	// A disk that is nearly full is a warning beside "ready".
	page.until("the process is well", `document.getElementById("health").textContent.startsWith("ready") && document.getElementById("canary").textContent.startsWith("passes")`)
	assert.Equal(t, "on", page.text(`[...document.querySelectorAll(".settings div")].find(e => e.firstChild.textContent === "FANFARE_CANARY").lastChild.textContent`))

	// The page explains a post in a home, and a delivery.
	post, err := ada.CreatePost(t.Context(), client.PostInput{Text: "Where am I?"})
	require.NoError(t, err)
	await(t, "the post is delivered", func() bool {
		d, err := ada.Delivery(t.Context(), post.ID)
		return err == nil && d.State == "complete"
	})
	page.run(chromedp.SendKeys(`#ask [name=post]`, post.ID+"\r", chromedp.ByQuery))
	page.until("the delivery is shown, with the post", `/there complete: 30\d of 30\d homes.*Where am I\?/s.test(document.getElementById("answer").textContent)`)
	page.run(chromedp.SendKeys(`#ask [name=user]`, "grace\r", chromedp.ByQuery))
	page.until("the reason is shown", `document.querySelectorAll("#answer li").length === 1 && /in home chunk.*pushed it.*Where am I\?.*`+post.ID+` by ada/s.test(document.getElementById("answer").textContent)`)
	assert.Equal(t, "yes /posts/"+post.ID+" /users/ada", page.text(`document.querySelector("#answer .sign").className.replace("sign ", "") + " " + [...document.querySelectorAll("#answer a")].map(a => new URL(a.href).pathname).join(" ")`))
	ask := func(user, post string) {
		page.run(chromedp.Evaluate(fmt.Sprintf(`{ const { user, post } = document.getElementById("ask").elements; [user.value, post.value] = [%q, %q]; }`, user, post), nil))
	}
	ask("grace", deleted)
	page.press(`#ask [name=user]`, "\r")
	page.until("a deleted post is in no home", `document.querySelectorAll("#answer .sign.no").length === 1 && document.querySelector("#answer .sign").textContent === "not in home"`)
	ask("", deleted)
	page.press(`#ask [name=post]`, "\r")
	page.until("a deleted post is gone", `document.querySelectorAll("#answer .sign.no").length === 1 && document.querySelector("#answer .sign").textContent === "gone"`)
	ask("grace", post.ID)
	page.run(chromedp.SendKeys(`#ask [name=user]`, "-unknown\r", chromedp.ByQuery))
	page.until("a refusal has no sign", `document.querySelector("#answer").textContent.includes("no user grace-unknown") && !document.querySelector("#answer .sign")`)

	// The process keeps the charts, so they survive a reload. The page shows memory, and nothing of a pair or an archive.
	assert.Regexp(t, `^[\d.]+ (MB|GB)$`, page.text(`document.querySelector("[data-tile=memory]").textContent`))
	assert.Equal(t, "true,true", page.text(`document.getElementById("pair").hidden + "," + document.querySelector("[data-if-metric]").hidden`))
	// A rate needs two looks of the process, which may still be younger than that.
	await(t, "the charts begin before the page", func() bool {
		page.run(chromedp.Reload())
		page.until("the rates are drawn", `document.querySelector("[data-chart=rates] .plot")?.dataset.since`)
		return page.text(`String(Number(document.querySelector("[data-chart=rates] .plot").dataset.since) * 1000 < performance.timeOrigin)`) == "true"
	})
	_, problems := page.seen()
	for _, problem := range problems { // the browser logs the answer that refuses
		assert.Contains(t, problem, "410", "problem in the browser")
	}
	require.NoError(t, chromedp.Cancel(window.ctx), "close the browser")
	p.stop(t)
}
