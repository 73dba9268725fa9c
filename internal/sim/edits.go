package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
)

// parts has the parts of a post that an edit may change: the text, the data and the images.
type parts [3]string

func shownBy(c feed.Content) parts { return parts{c.Text, string(c.Data), imagesText(c.Images)} }

// imagesText returns images as a text that differs if any part of them differs.
func imagesText(images []feed.Image) string {
	if len(images) == 0 {
		return ""
	}
	return fmt.Sprintf("%+v", movedImages(images))
}

// text is what a post shows.
type text struct {
	is parts // in the last answer
	// maybe has the edits without an answer, which may still have an effect.
	maybe [len(parts{})][]string
	// was has all values that the author has ever sent.
	was [len(parts{})][]string
}

func newText(c feed.Content) *text {
	t := &text{is: shownBy(c)}
	for i, part := range t.is {
		t.was[i] = []string{part}
	}
	return t
}

// partsOf returns the changed parts, nil for no change.
func partsOf(e feed.PostEdit) (to [len(parts{})]*string) {
	to[0], to[1] = e.Text, e.Data
	if e.Images != nil {
		to[2] = new(imagesText(*e.Images))
	}
	return to
}

// sent notes an edit whose effect a read may see from now on.
func (t *text) sent(e feed.PostEdit) {
	for i, to := range partsOf(e) {
		if to != nil {
			t.was[i] = append(t.was[i], *to)
		}
	}
}

// edited is what an edit answers or may have done.
func (t *text) edited(e feed.PostEdit, answered bool) {
	for i, to := range partsOf(e) {
		switch {
		case to == nil:
		case answered:
			t.is[i] = *to
		default:
			t.maybe[i] = append(t.maybe[i], *to)
		}
	}
}

// possible reports whether a part may have a value after all answers.
func (t *text) possible(i int, value string) bool {
	return t.is[i] == value || slices.Contains(t.maybe[i], value)
}

// may reports whether a post may show this after all answers.
func (t *text) may(c feed.Content) bool {
	for i, part := range shownBy(c) {
		if !t.possible(i, part) {
			return false
		}
	}
	return true
}

// empties reports whether an edit may leave nothing to show.
func (t *text) empties(e feed.PostEdit) bool {
	for i, to := range partsOf(e) {
		if to != nil && *to != "" || to == nil && !t.possible(i, "") {
			return false
		}
	}
	return true
}

// sees checks a post that a read shows: each part is a value that the author has sent (I5).
func (l *workload) sees(p feed.Post) {
	t := l.texts[p.ID]
	if t == nil {
		return
	}
	for i, part := range shownBy(p.Content) {
		if !slices.Contains(t.was[i], part) {
			l.fail("I5", "post %s shows %q, which its author never sent", p.ID, part)
		}
	}
}

// drawnImages are the images of the post or edit with a number. Some have a size, and some a description.
func drawnImages(r *rand.Rand, number int) []feed.Image {
	images := make([]feed.Image, 1+r.IntN(2))
	for i := range images {
		images[i] = feed.Image{URL: fmt.Sprintf("https://img.example/%d-%d.png?a=1&b=2", number, i)}
		if r.IntN(2) == 0 {
			images[i].Alt, images[i].Width, images[i].Height = "Ein \u00fc <b>", new(1+number%1000), new(i+1)
		}
	}
	return images
}

// drawEdit draws an edit that changes or removes one or two parts.
func drawEdit(r *rand.Rand, number int) feed.PostEdit {
	said, data, none := fmt.Sprintf("edited %d", number), fmt.Sprintf(`{"n":%d}`, number), ""
	images, removed := drawnImages(r, number), []feed.Image{}
	return []feed.PostEdit{
		{Text: &said}, {Text: &said}, {Text: &said, Data: &data}, {Data: &data}, {Text: &none}, {Text: &none, Data: &data}, {Data: &none},
		{Images: &images}, {Images: &removed}, {Text: &none, Images: &images}, {Text: &none, Images: &removed}, {Data: &none, Images: &removed},
	}[r.IntN(12)]
}

func (l *workload) edit(r *rand.Rand, p planned) *operation {
	var own []string
	for _, post := range l.posts {
		if l.owner[post] == p.user && !l.deleted[post] {
			own = append(own, post)
		}
	}
	if len(own) == 0 {
		return nil
	}
	post := l.choose(r, own)
	t, e := l.texts[post], drawEdit(r, p.number)
	t.sent(e)
	var edited feed.Post
	return &operation{
		name: "edit " + post, user: p.user,
		do: func(ctx context.Context, s *domain) (err error) {
			edited, err = s.EditPost(ctx, p.user, post, e)
			return err
		},
		settle: func(err error) {
			refused, ok := errors.AsType[*fault.Error](err)
			switch {
			case !ok || refused.Kind != fault.Invalid:
				t.edited(e, err == nil)
			case !t.empties(e):
				l.fail("I5", "an edit of %s that leaves something of %q was refused: %v", post, t.is, err)
			}
			if err == nil {
				l.sees(edited)
			}
		},
	}
}
