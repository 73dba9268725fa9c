package messages_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/messages"
)

// Each fault of an image names its place, its value and the limit.
func TestTheFaultsOfImages(t *testing.T) {
	t.Parallel()
	const url = "https://img.example/a.png"
	repeat := func(n int, image messages.Image) []messages.Image { return slices.Repeat([]messages.Image{image}, n) }
	last := func(image messages.Image) []messages.Image { return append(repeat(2, messages.Image{URL: url}), image) }
	large := messages.Image{URL: url, Alt: strings.Repeat("ä", 1500)}
	for want, images := range map[string][]messages.Image{
		"":                                      append(repeat(9, messages.Image{URL: url, Alt: strings.Repeat("a", 1500)}), messages.Image{URL: url, Width: new(1), Height: new(65535)}),
		"images: has 11 images: it may have 10": repeat(11, messages.Image{}),
		fmt.Sprintf("images: have %d bytes as JSON: they may have 16384", 10*(len(url)+3000+len(`{"url":"","alt":""},`))+1): repeat(10, large),
		"images[2].url: is missing":                                                                  last(messages.Image{}),
		"images[2].url: is not an http or https URL":                                                 last(messages.Image{URL: "data:image/png;base64,AA=="}),
		"images[2].url: has a user name: every reader would send it":                                 last(messages.Image{URL: "https://a:b@x.example/"}),
		"images[2].url: has 2049 characters: it must be UTF-8 of at most 2048":                       last(messages.Image{URL: "https://x/" + strings.Repeat("a", 2039)}),
		"images[2].alt: has 1501 characters: it must have 0 to 1500":                                 last(messages.Image{URL: url, Alt: strings.Repeat("ä", 1501)}),
		"images[2].alt: is not valid UTF-8":                                                          last(messages.Image{URL: url, Alt: "\xff"}),
		"images[2].alt: has U+202E, which changes the direction of the text around it: leave it out": last(messages.Image{URL: url, Alt: "\u202e"}),
		"images[2].width: is 0: it must be 1 to 65535":                                               last(messages.Image{URL: url, Width: new(0), Height: new(1)}),
		"images[2].height: is 65536: it must be 1 to 65535":                                          last(messages.Image{URL: url, Width: new(1), Height: new(65536)}),
		"images[2].height: is missing: width and height come together":                               last(messages.Image{URL: url, Width: new(1)}),
		"images[2].width: is missing: width and height come together":                                last(messages.Image{URL: url, Height: new(1)}),
	} {
		var got []string
		messages.CheckImages(images, func(field, detail string) { got = append(got, field+": "+detail) })
		assert.Equal(t, want, strings.Join(got, "\n"))
	}
}
