package messages

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/strictjson"
)

// MaxText is the limit of a text, in Unicode code points.
const MaxText = 5000

// Content is the part of a post that its author writes. The event, the item, the domain's types and the
// record of an import embed Content, so they have each of its fields.
type Content struct {
	Text string `json:"text,omitempty"`
	// The fields below are optional: Check bounds them.
	Images   []Image  `json:"images,omitempty" jsonschema:"maxItems=10"`
	Kind     string   `json:"kind,omitempty" jsonschema:"pattern=^[a-z][a-z0-9_.-]{0\\,31}$"`
	Data     Data     `json:"data,omitempty" jsonschema:"type=object"`
	Mentions []string `json:"mentions,omitempty" jsonschema:"maxItems=50,uniqueItems=true" id:"user"`
	// ExpiresAt is the end of the post, zero for a post without an end.
	ExpiresAt time.Time `json:"expires_at,omitempty,omitzero"` //nolint:modernize // the generator of the schemas reads omitempty
}

// Reference names the post to which a post refers: a repost its original, and a quote the post that it quotes.
type Reference struct {
	RepostOf string `json:"repost_of,omitempty" id:"ulid"`
	QuoteOf  string `json:"quote_of,omitempty" id:"ulid"`
	// OfAuthor and OfShards are the author of that post and its number of like shards.
	OfAuthor string `json:"of_author,omitempty" id:"user"`
	OfShards int    `json:"of_shards,omitempty" jsonschema:"minimum=0,maximum=100"`
}

// Of returns the id of the post to which a post refers, "" for none.
func (r Reference) Of() string { return cmp.Or(r.RepostOf, r.QuoteOf) }

// check reports the faults of a reference. A repost has nothing of its own.
func (r Reference) check(c Content, refuse func(field, detail string)) {
	if r.RepostOf != "" && r.QuoteOf != "" {
		refuse("quote_of", "is of a repost: a post refers to one post")
	}
	if (r.Of() == "") != (r.OfAuthor == "") || r.Of() == "" && r.OfShards != 0 {
		refuse("of_author", "must name the author of repost_of or quote_of, and nobody else")
	}
	if r.OfShards < 0 || r.OfShards > MaxLikeShards {
		refuse("of_shards", fmt.Sprintf("is not between 0 and %d", MaxLikeShards))
	}
	if r.RepostOf != "" && (c.Text != "" || len(c.Images) > 0 || c.Kind != "" || c.Data != "" || len(c.Mentions) > 0) {
		refuse("repost_of", "is of a post with content of its own: quote the post instead")
	}
}

// Data is the text of a JSON object, "" for none.
type Data string

// MarshalJSON implements json.Marshaler.
func (d Data) MarshalJSON() ([]byte, error) { return []byte(d), nil }

// UnmarshalJSON implements json.Unmarshaler. As in other optional fields, null means that the field is absent: producers
// in other languages write null for the fields that they do not use.
func (d *Data) UnmarshalJSON(text []byte) error {
	if *d = Data(text); *d == "null" {
		*d = ""
	}
	return nil
}

// CheckShown reports the fault of a post that shows nothing.
func (c *Content) CheckShown(refuse func(field, detail string)) {
	if c.Text == "" && len(c.Images) == 0 && c.Data == "" {
		refuse("text", "is empty, and there is no image and no data: give at least one")
	}
}

// Check reports the faults of the optional fields, with their places, and returns the compact form of Data.
func (c *Content) Check(refuse func(field, detail string)) Data {
	if c.Kind != "" && !ValidKind(c.Kind) {
		refuse("kind", fmt.Sprintf(`is not a lower-case letter and up to %d lower-case letters, digits, or characters of "_.-"`, MaxKind-1))
	}
	CheckImages(c.Images, refuse)
	CheckMentions(c.Mentions, refuse)
	return CheckData(c.Data, MaxPostData, refuse)
}

// CheckMentions reports the faults of a list of mentioned users.
func CheckMentions(users []string, refuse func(field, detail string)) {
	if len(users) > MaxMentions {
		refuse("mentions", fmt.Sprintf("has %d users: it may have %d", len(users), MaxMentions))
		return
	}
	for place, detail := range mentionFaults(users) {
		refuse(fmt.Sprintf("mentions[%d]", place), detail)
	}
}

// CheckData reports the fault of custom data, bounded by most bytes, and returns the compact form.
func CheckData(data Data, most int, refuse func(field, detail string)) Data {
	if data == "" {
		return ""
	}
	compact, place, fault := CompactData([]byte(data), most)
	if fault != "" {
		refuse(strictjson.In("data", place), fault)
	}
	return Data(compact)
}

// The limits of the optional fields of a post, and of a comment and a profile. MaxPostData and
// MaxSmallData are bytes of the compact form of data.
const (
	MaxKind      = 32
	MaxMentions  = 50
	MaxPostData  = 4096
	MaxSmallData = 1024
	MaxDataDepth = 16
)

// ValidKind reports whether s is the kind of a post: a lower-case letter, then at most 31 lower-case
// letters, digits, and characters of "_.-".
func ValidKind(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter, other := c >= 'a' && c <= 'z', c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return s != "" && len(s) <= MaxKind
}

// mentionFaults returns the faults of a list of mentioned users, with their places in the list.
// It does not look at the length of the list.
func mentionFaults(users []string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i, user := range users {
			fault := ""
			switch {
			case !id.ValidUser(user):
				fault = "is not a user id"
			case slices.Contains(users[:i], user):
				fault = "occurs more than once"
			}
			if fault != "" && !yield(i, fault) {
				return
			}
		}
	}
}

// CompactData returns the compact form of custom data, bounded by most bytes. If it refuses
// the data, it returns the fault, and the path of the faulty member.
func CompactData(data []byte, most int) (compact, place, fault string) {
	compact, err := strictjson.Object(data, most, MaxDataDepth)
	if refused, ok := errors.AsType[*strictjson.Error](err); ok {
		return "", refused.Field, refused.Detail
	}
	return compact, "", ""
}
