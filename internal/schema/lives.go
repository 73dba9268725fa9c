package schema

import (
	"time"

	"fanfare/internal/table"
)

// A life of a user lasts from the creation of a profile to the removal of the profile
// (docs/decisions/0030).

// removalKept is the time for which the note of a removal is kept.
const removalKept = 365 * 24 * time.Hour

// Removal is the end of a life. While the user has no profile, the removal is a separate note. The
// transaction that deletes the profile writes the note, so a missing profile without a note is a
// finding. The transaction that makes the next profile moves the note's content into the profile.
type Removal struct {
	User string
	// Event is the newest event that requested the removal. At is the time at which the profile was
	// deleted.
	Event string
	At    time.Time
}

// Item encodes the note.
func (r Removal) Item() table.Item {
	return table.Item{Key: ForgottenKey(r.User), Attrs: append(r.fields(writer()).attrs, num(table.AttrTTL, r.At.Add(removalKept).Unix()))}
}

// NewItem encodes the note with an entry in the index of posts by time, where processes with streams
// of the user find the note. made is an id of the time at which the profile was deleted.
func (r Removal) NewItem(made string) table.Item {
	it, in := r.Item(), PostsMadePK(BucketOf(made), shardOf(r.User, PostShards))
	it.Attrs = append(it.Attrs, str(table.AttrGSI1PK, in), str(table.AttrGSI1SK, PostSK(made)+"#"+r.User))
	return it
}

// fields is also a part of the fields of a profile.
func (r *Removal) fields(c *codec) *codec {
	c.str(AttrEvent, &r.Event, always)
	c.millis(AttrAsOf, &r.At, always)
	return c
}

// removalOf reads a removal from a note.
func removalOf(user string, it table.Item) Removal {
	r := Removal{User: user}
	r.fields(reader(it))
	return r
}

// ParseRemoval decodes a note. ok reports whether the item is a note.
func ParseRemoval(it table.Item) (r Removal, ok bool) {
	user, ok := userOf(it.Key.PK, "")
	return removalOf(user, it), ok && it.Key.SK == SortForgotten
}

// NoteOf returns the note among the items of a user, nil if there is no note.
func NoteOf(user string, items []table.Item) *Removal {
	for _, it := range items {
		if it.Key == ForgottenKey(user) {
			note := removalOf(user, it)
			return &note
		}
	}
	return nil
}

// OfFormerLife reports whether a record of a user, with the given id or version, was made in a former
// life. note is the note of the user's removal, nil if there is no note.
func OfFormerLife(profile *Profile, note *Removal, version string) bool {
	if profile == nil {
		return note != nil
	}
	return version <= profile.After
}
