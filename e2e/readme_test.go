//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"flag"
	"image"
	"image/png"
	"os"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

var updateScreenshots = flag.Bool("update-screenshots", false, "write the pictures of README.md")

// picture returns the address of a picture of the demo.
func (u *upright) picture(name string) string {
	return "http://" + u.http + "/console/pictures/" + name + ".svg"
}

// town fills the homes of a few people of the demo.
func (u *upright) town(t *testing.T) {
	t.Helper()
	names := map[string]string{"ada": "Ada Lovelace", "grace": "Grace Hopper", "katherine": "Katherine Johnson", "margaret": "Margaret Hamilton"}
	for id, name := range names {
		_, err := u.as(t, id).PutMe(t.Context(), client.ProfileInput{Name: name, Bio: "Notes on the Analytical Engine.", ImageURL: u.picture(id)})
		require.NoError(t, err)
	}
	for id := range names {
		require.NoError(t, u.as(t, id).Follow(t.Context(), map[bool]string{true: "grace", false: "ada"}[id == "ada"]))
	}
	ada := u.as(t, "ada")
	require.NoError(t, ada.Follow(t.Context(), "katherine"))
	require.NoError(t, ada.Follow(t.Context(), "margaret"))
	picture := func(name, alt string) client.Image {
		return client.Image{URL: u.picture(name), Alt: alt, Width: 640, Height: 480}
	}
	for _, post := range []struct {
		by   string
		in   client.PostInput
		fans []string
	}{
		{"grace", client.PostInput{Text: "Saw a kingfisher on the way to work.", Images: []client.Image{picture("kingfisher", "A kingfisher on a branch")}}, []string{"ada", "katherine"}},
		{"ada", client.PostInput{Text: "Note G is done. It computes Bernoulli numbers."}, []string{"grace", "margaret"}},
		{"katherine", client.PostInput{Text: "The computer's numbers agree with mine. You can go.", Images: []client.Image{picture("orbit", "The path of a capsule")}}, []string{"ada", "grace", "margaret"}},
		{"margaret", client.PostInput{Text: "Harbour and market, before breakfast.", Images: []client.Image{picture("sail", "A boat"), picture("tomato", "A red tomato")}}, []string{"ada", "grace"}},
	} {
		made, err := u.as(t, post.by).CreatePost(t.Context(), post.in)
		require.NoError(t, err)
		for _, fan := range post.fans {
			require.NoError(t, u.as(t, fan).Like(t.Context(), made.ID))
		}
		await(t, "the likes are counted", func() bool {
			count, err := ada.LikeCount(t.Context(), made.ID)
			return err == nil && count.Count == int64(len(post.fans))
		})
	}
}

// TestTheReadmeShowsTheConsoleOfToday compares the pictures in README.md with the page that a browser draws now.
func TestTheReadmeShowsTheConsoleOfToday(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	u.town(t)
	ada := newWindow(t).open("http://"+u.http).signIn("ada", "")
	ada.run(chromedp.EmulateViewport(1040, 900))
	ada.until("the pictures and the delivery are there", `document.querySelectorAll("#home > li").length === 4 && document.querySelector("#deliveries .complete") &&
		[...document.querySelectorAll("img")].filter(e => e.getBoundingClientRect().top < innerHeight).every(e => e.naturalWidth > 0)`)
	for _, scheme := range []string{"light", "dark"} {
		file := "../docs/console-" + scheme + ".png"
		var now []byte
		ada.run(colours(scheme), chromedp.ActionFunc(func(ctx context.Context) (err error) {
			now, err = page.CaptureScreenshot().Do(ctx)
			return err
		}))
		if *updateScreenshots {
			require.NoError(t, os.WriteFile(file, now, 0o600))
		}
		committed, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Less(t, len(committed), 150_000, file)
		assert.Less(t, different(t, committed, now), 0.05, "%s does not show the console of today: run this test with -update-screenshots, and look at the file", file)
	}
	ada.isClean(u.http)
	p.stop(t)
}

// different returns the share of two pictures that differs. It compares the mean colours of squares, because the times on the
// page and the edges of letters differ from run to run.
func different(t *testing.T, a, b []byte) float64 {
	t.Helper()
	const side, most = 20, 24 // pixels, and steps of a colour from 0 to 255
	one, err := png.Decode(bytes.NewReader(a))
	require.NoError(t, err)
	two, err := png.Decode(bytes.NewReader(b))
	require.NoError(t, err)
	require.Equal(t, one.Bounds(), two.Bounds())
	squares, differ := 0, 0
	for y := 0; y+side <= one.Bounds().Dy(); y += side {
		for x := 0; x+side <= one.Bounds().Dx(); x += side {
			at := image.Rect(x, y, x+side, y+side)
			c, d := mean(one, at), mean(two, at)
			squares++
			for i := range c {
				if max(c[i]-d[i], d[i]-c[i]) > most {
					differ++
					break
				}
			}
		}
	}
	return float64(differ) / float64(squares)
}

// mean returns the mean of red, green and blue in a part of a picture.
func mean(of image.Image, at image.Rectangle) (c [3]float64) {
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			r, g, b, _ := of.At(x, y).RGBA()
			for i, v := range []uint32{r, g, b} {
				c[i] += float64(v>>8) / float64(at.Dx()*at.Dy())
			}
		}
	}
	return c
}
