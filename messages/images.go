package messages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"fanfare/internal/display"
)

// The limits of the images of a post. MaxImageURL and MaxAlt are in Unicode code points, MaxSide is in
// pixels, and MaxImageBytes is the size of ImagesText.
const (
	MaxImages     = 10
	MaxImageURL   = 2048
	MaxAlt        = 1500
	MaxSide       = 65535
	MaxImageBytes = 16384
)

// Image is an image of a post.
type Image struct {
	URL string `json:"url" jsonschema:"minLength=1,maxLength=2048"`
	// Alt describes the image for people who cannot see it.
	Alt string `json:"alt,omitempty" jsonschema:"maxLength=1500"`
	// Width and Height are in pixels. Both are nil if the size is unknown.
	Width  *int `json:"width,omitempty" jsonschema:"minimum=1,maximum=65535"`
	Height *int `json:"height,omitempty" jsonschema:"minimum=1,maximum=65535"`
}

// CheckImages reports the faults of the images of a post.
func CheckImages(images []Image, refuse func(field, detail string)) {
	if len(images) > MaxImages {
		refuse("images", fmt.Sprintf("has %d images: it may have %d", len(images), MaxImages))
		return
	}
	for i := range images {
		images[i].check(func(field, detail string) { refuse(fmt.Sprintf("images[%d].%s", i, field), detail) })
	}
	if size := len(ImagesText(images)); size > MaxImageBytes {
		refuse("images", fmt.Sprintf("have %d bytes as JSON: they may have %d", size, MaxImageBytes))
	}
}

func (m *Image) check(refuse func(field, detail string)) {
	if m.URL == "" {
		refuse("url", "is missing")
	} else if fault := display.ImageURLFault(m.URL, MaxImageURL); fault != "" {
		refuse("url", fault)
	}
	if n := utf8.RuneCountInString(m.Alt); !utf8.ValidString(m.Alt) {
		refuse("alt", "is not valid UTF-8")
	} else if n > MaxAlt {
		refuse("alt", fmt.Sprintf("has %d characters: it must have 0 to %d", n, MaxAlt))
	} else if fault := display.LinesFault(m.Alt); fault != "" {
		refuse("alt", fault)
	}
	checkSide("width", m.Width, m.Height, refuse)
	checkSide("height", m.Height, m.Width, refuse)
}

func checkSide(name string, side, other *int, refuse func(field, detail string)) {
	switch {
	case side == nil && other != nil:
		refuse(name, "is missing: width and height come together")
	case side != nil && (*side < 1 || *side > MaxSide):
		refuse(name, fmt.Sprintf("is %d: it must be 1 to %d", *side, MaxSide))
	}
}

// ImagesText returns the stored form of images: compact JSON, "" if there is no image.
func ImagesText(images []Image) string {
	if len(images) == 0 {
		return ""
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(images) // strings and numbers never fail
	return string(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}
