package schema

import (
	"strings"
	"time"

	"fanfare/internal/table"
)

// Marker is the position up to which a user has read a list that the user has named.
type Marker struct {
	User, Name, Position string
	At                   time.Time
}

// MarkersPK returns the partition of user's read markers. The sort keys of the partition are MarkerSK.
func MarkersPK(user string) string { return "u#" + user + "#marker" }

// MarkerSK returns the sort key of the marker with a name.
func MarkerSK(name string) string { return "m#" + name }

// MarkerOfSK is the reverse of MarkerSK.
func MarkerOfSK(sk string) (name string, ok bool) { return strings.CutPrefix(sk, "m#") }

// MarkerKey returns the key of user's marker with a name.
func MarkerKey(user, name string) table.Key {
	return table.Key{PK: MarkersPK(user), SK: MarkerSK(name)}
}

// Item encodes m.
func (m Marker) Item() table.Item {
	return table.Item{Key: MarkerKey(m.User, m.Name), Attrs: []table.Attr{str(AttrPosition, m.Position), millis(AttrAsOf, m.At)}}
}

// ParseMarker decodes a marker.
func ParseMarker(it table.Item) (Marker, error) {
	user, ok := userOf(it.Key.PK, "#marker")
	name, ok2 := MarkerOfSK(it.Key.SK)
	if !ok || !ok2 || it.Str(AttrPosition) == "" {
		return Marker{}, &ParseError{it.Key, "not a marker"}
	}
	return Marker{user, name, it.Str(AttrPosition), timeOf(&it, AttrAsOf)}, nil
}
