package feed

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"fanfare/internal/fault"
	"fanfare/messages"
)

// Limits of the values, in Unicode code points.
const (
	maxName     = 100
	maxBio      = 500
	maxText     = messages.MaxText
	maxImageURL = messages.MaxImageURL
	maxKeyBytes = 255
)

// checks collects the faults of all fields of one call, so that users see them
// together. No check changes a value: text is stored as it was sent.
type checks []fault.FieldError

func (c *checks) refuse(field, format string, args ...any) {
	*c = append(*c, fault.FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
}

func (c *checks) text(field, value string, least, most int) {
	if !utf8.ValidString(value) {
		c.refuse(field, "is not valid UTF-8")
		return
	}
	if n := utf8.RuneCountInString(value); n < least || n > most {
		c.refuse(field, "has %d characters: it must have %d to %d", n, least, most)
	}
}

func (c *checks) imageURL(value string) {
	const field = "image_url"
	if value == "" {
		return
	}
	before := len(*c)
	if c.text(field, value, 0, maxImageURL); len(*c) > before {
		return
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		c.refuse(field, "is not an http or https URL")
	case u.User != nil:
		c.refuse(field, "has a user name: every reader would send it")
	case strings.ContainsFunc(value, endsURL):
		c.refuse(field, "has a space, a quote, an angle bracket or a control character: percent-encode it")
	}
}

// endsURL reports whether a page that shows a URL may take r for its end. So a URL with r
// could add code to a careless page.
func endsURL(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("\"'`<>", r)
}

func (c *checks) idempotencyKey(value string) {
	const field = "Idempotency-Key"
	if len(value) > maxKeyBytes {
		c.refuse(field, "has %d characters: it must have 1 to %d", len(value), maxKeyBytes)
		return
	}
	for i := range len(value) {
		if value[i] <= ' ' || value[i] > '~' {
			c.refuse(field, "has a character that is not visible ASCII")
			return
		}
	}
}

func (c *checks) err() error {
	if len(*c) == 0 {
		return nil
	}
	return &fault.Error{Kind: fault.Invalid, Detail: "some values are not valid", Fields: *c}
}

func (in ProfileInput) validate() error {
	var c checks
	c.text("name", in.Name, 1, maxName)
	c.text("bio", in.Bio, 0, maxBio)
	c.imageURL(in.ImageURL)
	return c.err()
}

func (in PostInput) validate() error {
	var c checks
	c.text("text", in.Text, 1, maxText)
	c.imageURL(in.ImageURL)
	c.idempotencyKey(in.IdempotencyKey)
	return c.err()
}

func (e PostEdit) validate() error {
	var c checks
	if e.Text == nil && e.ImageURL == nil {
		c.refuse("text", "is missing, and so is image_url: give at least one")
	}
	if e.Text != nil {
		c.text("text", *e.Text, 1, maxText)
	}
	if e.ImageURL != nil {
		c.imageURL(*e.ImageURL)
	}
	return c.err()
}

func validateComment(text string) error {
	var c checks
	c.text("text", text, 1, maxText)
	return c.err()
}
