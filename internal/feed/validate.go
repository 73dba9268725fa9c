package feed

import (
	"fmt"
	"time"
	"unicode/utf8"

	"fanfare/internal/display"
	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// These constants limit the values. The unit is a Unicode code point, but maxKeyBytes is in bytes.
const (
	maxName     = 100
	maxBio      = 500
	maxText     = messages.MaxText
	maxImageURL = messages.MaxImageURL
	maxKeyBytes = 255
)

// checks collects the faults of all fields of one call, so that users see all faults at once. A check
// changes only data: text is stored as the caller sent it.
type checks []fault.FieldError

func (c *checks) refuse(field, format string, args ...any) {
	*c = append(*c, fault.FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
}

// add is refuse for a detail without arguments.
func (c *checks) add(field, detail string) { c.refuse(field, "%s", detail) }

func (c *checks) text(field, value string, least, most int) {
	if !utf8.ValidString(value) {
		c.refuse(field, "is not valid UTF-8")
		return
	}
	if n := utf8.RuneCountInString(value); n < least || n > most {
		c.refuse(field, "has %d characters: it must have %d to %d", n, least, most)
	}
}

// shown checks the length and the characters of a text that people see.
func (c *checks) shown(field, value string, least, most int, faultOf func(string) string) {
	before := len(*c)
	if c.text(field, value, least, most); len(*c) > before {
		return
	}
	if fault := faultOf(value); fault != "" {
		c.refuse(field, "%s", fault)
	}
}

func (c *checks) imageURL(value string) {
	if fault := display.ImageURLFault(value, maxImageURL); fault != "" {
		c.refuse("image_url", "%s", fault)
	}
}

// data checks custom data, and returns its compact form.
func (c *checks) data(text string, most int) string {
	return string(messages.CheckData(messages.Data(text), most, c.add))
}

// These constants bound the life of a post when the API accepts the post.
const (
	leastLife = time.Minute
	mostLife  = 366 * 24 * time.Hour
)

// endFault refuses a post that would end too soon or too late. A repeated call has no such fault. The
// id of the post may be ahead of the clock, and a post must end after the time of its id.
func (s *Service) endFault(p schema.Post) error {
	now := s.access.Now()
	soonest := now.Add(leastLife - time.Second) // an end in whole seconds is rounded down
	if at := access.TimeOf(p.ID); at.After(soonest) {
		soonest = at
	}
	if p.ExpiresAt.IsZero() || p.ExpiresAt.After(soonest) && p.ExpiresAt.Sub(now) <= mostLife {
		return nil
	}
	var c checks
	c.refuse("expires_at", "is %s: it must be 60 seconds to 366 days ahead", p.ExpiresAt.Format(time.RFC3339))
	return c.err()
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

// validate returns the faults of a profile, and compacts the profile's data.
func (in *ProfileInput) validate() error {
	var c checks
	c.shown("name", in.Name, 1, maxName, display.NameFault)
	c.shown("bio", in.Bio, 0, maxBio, display.LinesFault)
	c.imageURL(in.ImageURL)
	if in.Data != nil {
		in.Data = new(c.data(*in.Data, messages.MaxSmallData))
	}
	return c.err()
}

// validate returns the faults of a post, and compacts the post's data.
func (in *PostInput) validate() error { return in.validateWith(Reference{}) }

// validateWith checks a post with a reference. A repost shows its original, so the repost itself may be empty.
func (in *PostInput) validateWith(of Reference) error {
	var c checks
	c.text("text", in.Text, 0, maxText)
	if of.RepostOf == "" {
		in.CheckShown(c.add)
	}
	c.idempotencyKey(in.IdempotencyKey)
	in.ExpiresAt = in.ExpiresAt.UTC().Truncate(time.Second)
	in.Data = in.Content.Check(c.add)
	return c.err()
}

// validate returns the faults of an edit, and compacts the edit's data.
func (e *PostEdit) validate() error {
	var c checks
	if *e == (PostEdit{}) {
		c.refuse("text", "is missing, and so are images and data: give at least one")
	}
	if e.Data != nil {
		e.Data = new(c.data(*e.Data, messages.MaxPostData))
	}
	if e.Text != nil {
		c.text("text", *e.Text, 0, maxText)
	}
	if e.Images != nil {
		messages.CheckImages(*e.Images, c.add)
	}
	return c.err()
}

// validate returns the faults of a comment, and compacts the comment's data.
func (in *CommentInput) validate() error {
	var c checks
	c.text("text", in.Text, 1, maxText)
	in.Data = c.data(in.Data, messages.MaxSmallData)
	messages.CheckMentions(in.Mentions, c.add)
	return c.err()
}
