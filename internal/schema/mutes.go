package schema

import (
	"time"

	"fanfare/internal/table"
)

// Mute hides the posts of Author from the home of User.
type Mute struct {
	User, Author string
	Since        time.Time
}

// Items encodes m: the mute in the partition of the home, and the second item under the author.
func (m Mute) Items() (mute, muter table.Item) {
	since := []table.Attr{millis(AttrSince, m.Since)}
	return table.Item{Key: MuteKey(m.User, m.Author), Attrs: since}, table.Item{Key: MuterKey(m.Author, m.User), Attrs: since}
}

// MuteSince returns the time in either item of a mute.
func MuteSince(it table.Item) time.Time { return timeOf(&it, AttrSince) }

// ParseMute decodes either item of a mute.
func ParseMute(it table.Item) (Mute, error) {
	m := Mute{Since: MuteSince(it)}
	var home, other bool
	if m.User, home = userOf(it.Key.PK, "#home"); home {
		m.Author, other = MutedOfSK(it.Key.SK)
	} else if m.Author, home = userOf(it.Key.PK, "#muter"); home {
		m.User, other = UserOfSK(it.Key.SK)
	}
	if !home || !other || m.User == "" || m.Author == "" {
		return Mute{}, &ParseError{it.Key, "not a mute"}
	}
	return m, nil
}
