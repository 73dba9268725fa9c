// Package transfer imports and exports a network as JSON lines: users, follows, mutes, blocks,
// posts, reposts, comments, likes, bookmarks and read markers, each with its time. Package transfer decides
// the format of the lines, the ids of new records, the order of an import's writes, and the check
// at the end of an import. docs/IMPORT.md is the page for users.
//
// # How an import stays exact
//
// The product makes each write of an import in any case, by the same code and under the same
// conditions. Package feed makes users, follows, mutes, blocks, posts, reposts, comments, bookmarks
// and markers. Package fanout delivers the posts that homes still show, and copies them to followers.
// Package likeagg counts likes. So an import may run beside the daemons, twice at the same time, or
// again after kill -9. The ids of posts and comments, and the versions of likes, follow only from
// the lines, so a repeated line finds its record in the table (I1, I3, I4).
//
// Package transfer must never write before all lines are checked, keep progress outside of
// the table, or make a queue's message wait for the import.
package transfer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/strictjson"
	"fanfare/internal/terminal"
	"fanfare/messages"
)

// record is one line. The kind decides which fields a record has. The tag `names` of a field is the kind of object that the field names:
// the record itself, a user or post that must exist, or another user, who may have been removed.
type record struct {
	Type       kind   `json:"type"`
	ID         string `json:"id,omitempty" names:"itself"`
	PostID     string `json:"post_id,omitempty" names:"post"`
	QuoteOf    string `json:"quote_of,omitempty" names:"post"`
	AuthorID   string `json:"author_id,omitempty" names:"user"`
	FollowerID string `json:"follower_id,omitempty" names:"user"`
	UserID     string `json:"user_id,omitempty" names:"user"`
	OtherID    string `json:"other_id,omitempty" names:"other"`
	Name       string `json:"name,omitempty"`
	Bio        string `json:"bio,omitempty"`
	ImageURL   string `json:"image_url,omitempty"`
	// Content has the text of a comment, the data of a user, and the kind of a like, too.
	messages.Content
	From     string     `json:"from,omitempty"`
	Silent   bool       `json:"silent,omitempty"`
	Position string     `json:"position,omitempty"`
	Time     time.Time  `json:"time"`
	EditedAt *time.Time `json:"edited_at,omitempty"`
}

// profile returns the profile of a user record.
func (r *record) profile() feed.ProfileInput {
	return feed.ProfileInput{Name: r.Name, Bio: r.Bio, ImageURL: r.ImageURL, Data: new(string(r.Data))}
}

// comment returns the comment of a comment record.
func (r *record) comment() feed.CommentInput {
	return feed.CommentInput{Text: r.Text, Data: string(r.Data), Mentions: r.Mentions}
}

func (r *record) itself() string { return r.ID }

func (r *record) user() string { return r.UserID }

// value returns the field of r with a name. ok is false if no kind has such a field.
func (r *record) value(name string) (v reflect.Value, ok bool) {
	f, ok := fields[name]
	if !ok {
		return v, false
	}
	return reflect.ValueOf(r).Elem().FieldByIndex(f.index), true
}

// defect is the reason why a field of a line cannot be imported. If field is "", the reason
// concerns the whole line.
type defect struct{ field, detail string }

// maxOwnID is the maximum length of an id in the author's own form, in bytes.
const maxOwnID = 256

// parse reads one line and returns all its faults.
func parse(line []byte, now time.Time) (r record, faults []defect) {
	c := checks{now: now}
	if other := otherFormat(line); other != "" {
		c.refuse("", "%s", other)
		return r, c.faults
	}
	members, err := strictjson.Members(line)
	if err != nil {
		return r, append(c.faults, defectOf(err))
	}
	present, wrong := map[string]bool{}, map[string]bool{}
	for _, m := range members {
		present[m.Name] = true
		v, known := r.value(m.Name)
		place, null := strictjson.Null(m.Value)
		switch {
		case !known: // present reports the field below
		case null && (place == "" || m.Name != "data"):
			wrong[m.Name] = true
			c.refuse(strictjson.In(m.Name, place), "is null: leave it out instead")
		default:
			if err := strictjson.UnmarshalKnown(m.Value, v.Addr().Interface()); err != nil {
				bad := defectOf(err)
				wrong[m.Name] = true
				c.refuse(strictjson.In(m.Name, bad.field), "%s", bad.detail)
			} else if m.Name == "expires_at" && r.ExpiresAt.IsZero() { // in the domain this means no end
				c.refuse(m.Name, "is not after time, in whole seconds")
			}
		}
	}
	if wrong["type"] {
		return r, c.faults
	}
	spec := r.Type.spec()
	if spec == nil {
		c.refuse("type", "is %q: it must be %s", r.Type, list("or", func(k kind) string { return string(k) }))
		return r, c.faults
	}
	for _, name := range spec.required {
		if !present[name] {
			c.refuse(name, "is missing")
		}
	}
	known := append(slices.Concat(spec.required, spec.optional), "type")
	for _, name := range slices.Sorted(maps.Keys(present)) {
		if !slices.Contains(known, name) {
			c.refuse(name, "is not a field of a %s", r.Type)
		}
	}
	for _, bad := range r.check(spec, now) { // a required field that is missing, or a field that cannot be read, has its fault already
		if name, _, _ := strings.Cut(strings.Replace(bad.field, "[", ".", 1), "."); !wrong[name] && (present[name] || !slices.Contains(spec.required, name)) {
			c.faults = append(c.faults, bad)
		}
	}
	return r, c.faults
}

// otherFormat returns the fault of a line that is no JSON object, "" for none.
func otherFormat(line []byte) string {
	text := bytes.TrimSpace(line)
	switch {
	case bytes.HasPrefix(line, []byte("\xef\xbb\xbf")):
		return "begins with a byte order mark: save the file without it"
	case bytes.HasPrefix(line, []byte("\x1f\x8b")):
		return "is compressed: unpack the file first"
	case len(text) > 0 && text[0] != '{':
		return "is not a JSON object: write one record a line, as docs/IMPORT.md shows"
	}
	return ""
}

// defectOf returns the fault of a line that cannot be decoded.
func defectOf(err error) defect {
	fault, ok := errors.AsType[*strictjson.Error](err)
	if !ok {
		return defect{"", err.Error()}
	}
	return defect{fault.Field, fault.Detail}
}

// checks has the faults of a record.
type checks struct {
	now    time.Time
	faults []defect
}

func (c *checks) refuse(field, format string, args ...any) {
	c.faults = append(c.faults, defect{field, fmt.Sprintf(format, args...)})
}

// check returns the faults of the values. The index checks that other records exist.
func (r *record) check(spec *kindSpec, now time.Time) []defect {
	c := checks{now: now}
	r.Time = r.Time.UTC().Truncate(time.Millisecond)
	c.time("time", r.Time)
	for _, name := range spec.required {
		if what := fields[name].names; what != "" {
			v, _ := r.value(name)
			c.name(name, what == "post" || what == "itself" && spec.name != kindUser, v.String())
		}
	}
	if spec.check != nil {
		spec.check(&c, r)
	}
	return c.faults
}

// name checks the id of a user, or an id in the author's own form.
func (c *checks) name(field string, own bool, value string) {
	if own && (value == "" || len(value) > maxOwnID) {
		c.refuse(field, "has %d bytes: it must have 1 to %d", len(value), maxOwnID)
	}
	if !own && !id.ValidUser(value) {
		c.refuse(field, "%q is not a user id: use %s", value, id.UserGrammar)
	}
}

func (c *checks) time(field string, t time.Time) {
	switch {
	case t.UnixMilli() < 0:
		c.refuse(field, "%s is before 1970", t.Format(time.RFC3339))
	case t.After(c.now):
		c.refuse(field, "%s is in the future", t.Format(time.RFC3339))
	}
}

// values adds faults of the domain.
func (c *checks) values(found []fault.FieldError) {
	for _, f := range found {
		c.refuse(f.Field, "%s", f.Detail)
	}
}

func (c *checks) follow(r *record) {
	if r.FollowerID == r.AuthorID {
		c.refuse("author_id", "is the follower's own id")
	}
	if r.From != "" && !id.Valid(r.From) {
		c.refuse("from", "%q is not the id of a post", r.From)
	}
}

// other checks a mute or a block.
func (c *checks) other(r *record) {
	if r.UserID == r.OtherID {
		c.refuse("other_id", "is the user's own id")
	}
}

func (c *checks) post(r *record) {
	c.values(feed.PostInput{Content: r.Content}.Check())
	if r.EditedAt != nil {
		c.time("edited_at", *r.EditedAt)
	}
	if !r.ExpiresAt.IsZero() && !r.ExpiresAt.Truncate(time.Second).After(r.Time) {
		c.refuse("expires_at", "is not after time, in whole seconds")
	}
}

func (c *checks) like(r *record) {
	if !messages.ValidReaction(r.reaction()) {
		c.refuse("kind", "%q is not a kind of reaction: use 1 to %d of a-z 0-9, a letter first", r.Kind, messages.MaxReaction)
	}
}

// madeID returns the new id of a post or a comment. If the id in the file is an id of the
// product with the record's time, as in an export, madeID returns the same id. Otherwise
// madeID makes an id from the record's time and a hash.
func (r *record) madeID() (string, error) {
	if at, err := id.Time(r.ID); err == nil && at.Equal(r.Time) {
		return r.ID, nil
	}
	return id.Named(r.Time, string(r.Type)+"\x00"+r.ID)
}

// reaction returns the kind of a like.
func (r *record) reaction() string { return cmp.Or(r.Kind, messages.KindLike) }

// version returns the version of a like. If a user has two kinds at the same time, the same
// kind wins in each import.
func (r *record) version(post string) (string, error) {
	name := post + "\x00" + r.UserID
	if kind := r.reaction(); kind != messages.KindLike {
		name += "\x00" + kind
	}
	return id.Named(r.Time, name)
}

// writeRecord writes a record as one line.
func writeRecord(w io.Writer, r record) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return err
	}
	_, err := w.Write(terminal.JSON(line.Bytes())) // an export may be written to a terminal
	return err
}
