package schema

import (
	"time"

	"fanfare/internal/table"
)

// Marker is the position up to which a user has read a list that the user has named.
type Marker struct {
	User, Name, Position string
	At                   time.Time
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
