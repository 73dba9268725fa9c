// Package transfer imports and exports a network as JSON lines: users, follows, mutes, blocks,
// posts, comments, likes, bookmarks and read markers, each with its time. Package transfer decides
// the format of the lines, the ids of new records, the order of an import's writes, and the check
// at the end of an import. docs/IMPORT.md is the page for users.
//
// # How an import stays exact
//
// The product makes each write of an import in any case, by the same code and under the same
// conditions. Package feed makes users, follows, mutes, blocks, posts, comments, bookmarks and
// markers. Package fanout delivers the posts that homes still show, and copies them to followers.
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
	"slices"
	"time"

	"fanfare/internal/fault"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/strictjson"
	"fanfare/internal/terminal"
	"fanfare/messages"
)

// kind is the type of a record.
type kind string

// The kinds in the order of their import. Each kind needs only the kinds before it.
const (
	kindUser     kind = "user"
	kindFollow   kind = "follow"
	kindMute     kind = "mute"
	kindBlock    kind = "block"
	kindPost     kind = "post"
	kindComment  kind = "comment"
	kindLike     kind = "like"
	kindBookmark kind = "bookmark"
	kindMarker   kind = "marker"
)

func kinds() []kind {
	return []kind{kindUser, kindFollow, kindMute, kindBlock, kindPost, kindComment, kindLike, kindBookmark, kindMarker}
}

// fields returns the names of the required and of the optional fields of a kind.
func (k kind) fields() (required, optional []string) {
	switch k {
	case kindUser:
		return []string{"id", "name", "time"}, []string{"bio", "image_url", "data"}
	case kindFollow:
		return []string{"follower_id", "author_id", "time"}, []string{"from"}
	case kindMute, kindBlock:
		return []string{"user_id", "other_id", "time"}, nil
	case kindPost:
		return []string{"id", "author_id", "text", "time"}, []string{"image_url", "edited_at", "kind", "data", "mentions", "expires_at"}
	case kindComment:
		return []string{"id", "post_id", "author_id", "text", "time"}, []string{"data", "mentions"}
	case kindLike:
		return []string{"post_id", "user_id", "time"}, []string{"kind"}
	case kindBookmark:
		return []string{"post_id", "user_id", "time"}, nil
	case kindMarker:
		return []string{"user_id", "name", "position", "time"}, nil
	}
	return nil, nil
}

// record is one line. The kind decides which fields a record has.
type record struct {
	Type       kind       `json:"type"`
	ID         string     `json:"id,omitempty"`
	PostID     string     `json:"post_id,omitempty"`
	AuthorID   string     `json:"author_id,omitempty"`
	FollowerID string     `json:"follower_id,omitempty"`
	UserID     string     `json:"user_id,omitempty"`
	OtherID    string     `json:"other_id,omitempty"`
	Name       string     `json:"name,omitempty"`
	Bio        string     `json:"bio,omitempty"`
	Text       string     `json:"text,omitempty"`
	ImageURL   string     `json:"image_url,omitempty"`
	From       string     `json:"from,omitempty"`
	Kind       string     `json:"kind,omitempty"`
	Position   string     `json:"position,omitempty"`
	Time       time.Time  `json:"time"`
	EditedAt   *time.Time `json:"edited_at,omitempty"`
	// Data is a JSON object, nil for none.
	Data     json.RawMessage `json:"data,omitempty"`
	Mentions []string        `json:"mentions,omitempty"`
	// ExpiresAt is the end of a post, nil for a post without an end.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// end returns the end of a post, zero for a post without an end.
func (r *record) end() time.Time {
	if r.ExpiresAt == nil {
		return time.Time{}
	}
	return *r.ExpiresAt
}

// profile returns the profile of a user record.
func (r *record) profile() feed.ProfileInput {
	return feed.ProfileInput{Name: r.Name, Bio: r.Bio, ImageURL: r.ImageURL, Data: new(string(r.Data))}
}

// rawData returns stored data in the form of a line.
func rawData(data string) json.RawMessage {
	if data == "" {
		return nil
	}
	return json.RawMessage(data)
}

// defect is the reason why a field of a line cannot be imported. If field is "", the reason
// concerns the whole line.
type defect struct{ field, detail string }

// maxOwnID is the maximum length of an id in the author's own form, in bytes.
const maxOwnID = 256

// parse reads one line and returns all its faults.
func parse(line []byte, now time.Time) (r record, faults []defect) {
	refuse := func(field, format string, args ...any) {
		faults = append(faults, defect{field, fmt.Sprintf(format, args...)})
	}
	switch {
	case bytes.HasPrefix(line, []byte("\xef\xbb\xbf")):
		refuse("", "begins with a byte order mark: save the file without it")
		return r, faults
	case bytes.HasPrefix(line, []byte("\x1f\x8b")):
		refuse("", "is compressed: unpack the file first")
		return r, faults
	}
	members, err := strictjson.Members(line)
	if err != nil {
		return r, append(faults, defectOf(err))
	}
	present := map[string]bool{}
	for _, m := range members {
		present[m.Name] = true
		field := r.field(m.Name)
		switch {
		case field == nil: // no kind has this field, so present reports it below
		case m.Value.Kind() == 'n':
			refuse(m.Name, "is null: leave it out instead")
		default:
			if err := strictjson.Unmarshal(m.Value, field); err != nil {
				refuse(m.Name, "%s", defectOf(err).detail)
			}
		}
	}
	if len(faults) > 0 {
		return r, faults
	}
	required, optional := r.Type.fields()
	if required == nil {
		refuse("type", "is %q: it must be user, follow, mute, block, post, comment, like, bookmark or marker", r.Type)
		return r, faults
	}
	for _, name := range required {
		if !present[name] {
			refuse(name, "is missing")
		}
		delete(present, name)
	}
	for _, name := range append(optional, "type") {
		delete(present, name)
	}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		refuse(name, "is not a field of a %s", r.Type)
	}
	if len(faults) > 0 {
		return r, faults
	}
	return r, r.check(now)
}

// defectOf returns the fault of a line that cannot be decoded.
func defectOf(err error) defect {
	fault, ok := errors.AsType[*strictjson.Error](err)
	if !ok {
		return defect{"", err.Error()}
	}
	return defect{fault.Field, fault.Detail}
}

// field returns a pointer to the field of r with a name, nil if no kind has such a field.
func (r *record) field(name string) any {
	switch name {
	case "type":
		return &r.Type
	case "id":
		return &r.ID
	case "post_id":
		return &r.PostID
	case "author_id":
		return &r.AuthorID
	case "follower_id":
		return &r.FollowerID
	case "user_id":
		return &r.UserID
	case "other_id":
		return &r.OtherID
	case "name":
		return &r.Name
	case "bio":
		return &r.Bio
	case "text":
		return &r.Text
	case "image_url":
		return &r.ImageURL
	case "position":
		return &r.Position
	case "from":
		return &r.From
	case "kind":
		return &r.Kind
	case "time":
		return &r.Time
	case "edited_at":
		return &r.EditedAt
	case "data":
		return &r.Data
	case "mentions":
		return &r.Mentions
	case "expires_at":
		return &r.ExpiresAt
	}
	return nil
}

// check returns the faults of the values. The index checks that other records exist.
func (r *record) check(now time.Time) (faults []defect) {
	refuse := func(field, format string, args ...any) {
		faults = append(faults, defect{field, fmt.Sprintf(format, args...)})
	}
	user := func(field, value string) {
		if !id.ValidUser(value) {
			refuse(field, "%q is not a user id: use %s", value, id.UserGrammar)
		}
	}
	at := func(field string, t time.Time) {
		switch {
		case t.UnixMilli() < 0:
			refuse(field, "%s is before 1970", t.Format(time.RFC3339))
		case t.After(now):
			refuse(field, "%s is in the future", t.Format(time.RFC3339))
		}
	}
	own := func(field, value string) {
		if value == "" || len(value) > maxOwnID {
			refuse(field, "has %d bytes: it must have 1 to %d", len(value), maxOwnID)
		}
	}
	values := func(found []fault.FieldError) {
		for _, f := range found {
			refuse(f.Field, "%s", f.Detail)
		}
	}
	r.Time = r.Time.UTC().Truncate(time.Millisecond)
	at("time", r.Time)
	switch r.Type {
	case kindUser:
		user("id", r.ID)
		values(r.profile().Check())
	case kindFollow:
		user("follower_id", r.FollowerID)
		user("author_id", r.AuthorID)
		if r.FollowerID == r.AuthorID {
			refuse("author_id", "is the follower's own id")
		}
		if r.From != "" && !id.Valid(r.From) {
			refuse("from", "%q is not the id of a post", r.From)
		}
	case kindMute, kindBlock:
		user("user_id", r.UserID)
		user("other_id", r.OtherID)
		if r.UserID == r.OtherID {
			refuse("other_id", "is the user's own id")
		}
	case kindPost:
		own("id", r.ID)
		user("author_id", r.AuthorID)
		values(feed.PostInput{Text: r.Text, ImageURL: r.ImageURL, Kind: r.Kind, Data: string(r.Data), Mentions: r.Mentions}.Check())
		if r.EditedAt != nil {
			at("edited_at", *r.EditedAt)
		}
		if r.ExpiresAt != nil && !r.ExpiresAt.Truncate(time.Second).After(r.Time) {
			refuse("expires_at", "is not after time, in whole seconds")
		}
	case kindComment:
		own("id", r.ID)
		own("post_id", r.PostID)
		user("author_id", r.AuthorID)
		values(feed.CommentInput{Text: r.Text, Data: string(r.Data), Mentions: r.Mentions}.Check())
	case kindMarker:
		user("user_id", r.UserID)
		values(feed.CheckMarker(r.Name, r.Position))
	case kindLike, kindBookmark:
		own("post_id", r.PostID)
		user("user_id", r.UserID)
		if !messages.ValidReaction(r.reaction()) {
			refuse("kind", "%q is not a kind of reaction: use 1 to %d of a-z 0-9, a letter first", r.Kind, messages.MaxReaction)
		}
	}
	return faults
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
