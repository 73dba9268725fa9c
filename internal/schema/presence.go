package schema

import (
	"time"

	"fanfare/internal/table"
)

// Day is a day in UTC, counted from 1970. Presences and edges have the last day whose posts are pushed
// (docs/HYBRID.md).
type Day int64

const dayLength = 24 * time.Hour

// DayOf returns the day of a time.
func DayOf(t time.Time) Day { return Day(t.Unix() / int64(dayLength/time.Second)) }

// Start returns the first moment of the day.
func (d Day) Start() time.Time { return time.Unix(int64(d)*int64(dayLength/time.Second), 0).UTC() }

// Length returns the length of a number of days.
func (d Day) Length() time.Duration { return time.Duration(d) * dayLength }

// offDays is the number of days by which a process dates the edges of an enrolled reader ahead if the
// feature is off.
const offDays = 90

// DaysAhead returns the number of days by which a process with this number of active days dates the
// edges of enrolled readers ahead.
func DaysAhead(activeDays int) Day {
	if activeDays == 0 {
		return offDays
	}
	return Day(activeDays)
}

// PresenceState is the way in which the home of an enrolled reader is read.
type PresenceState string

// These constants are the states of a presence.
const (
	// PresenceHere means that the home is read by push. The timeline lacks the posts of the gap.
	PresenceHere PresenceState = "here"
	// PresenceReturning means that the home is read by pull, until its entries are rebuilt.
	PresenceReturning PresenceState = "returning"
)

// Presence is the state of a reader whose edges have days. A reader without a presence has no edge
// with a day, and fan-out skips no edge of such a reader.
type Presence struct {
	User  string
	State PresenceState
	// Until is a lower bound: no dated edge of the reader has a day before Until.
	Until Day
	// V grows by one with each return.
	V int64
	// At is the time at which the last return ended, zero if no return has ended.
	At time.Time
	// Lo and Hi bound the gap, the ids of posts that may not have been pushed: from Lo on, below Hi. Lo
	// and Hi are "" if there is no gap, and Hi is "" while the reader returns.
	Lo, Hi string
}

// Item encodes p.
func (p Presence) Item() table.Item {
	attrs := []table.Attr{str(AttrPresence, string(p.State)), num(AttrUntil, int64(p.Until)), num(AttrModeV, p.V)}
	if !p.At.IsZero() {
		attrs = append(attrs, millis(AttrAsOf, p.At))
	}
	if p.Lo != "" {
		attrs = append(attrs, str(AttrGapLow, p.Lo))
	}
	if p.Hi != "" {
		attrs = append(attrs, str(AttrGapHigh, p.Hi))
	}
	return table.Item{Key: PresenceKey(p.User), Attrs: attrs}
}

// ParsePresence decodes a presence.
func ParsePresence(it table.Item) (Presence, error) {
	user, ok := userOf(it.Key.PK, "#home")
	p := Presence{
		User: user, State: PresenceState(it.Str(AttrPresence)), Until: Day(it.Int(AttrUntil)), V: it.Int(AttrModeV),
		At: timeOf(&it, AttrAsOf), Lo: it.Str(AttrGapLow), Hi: it.Str(AttrGapHigh),
	}
	if !ok || it.Key.SK != SortPresence || p.State != PresenceHere && p.State != PresenceReturning {
		return Presence{}, &ParseError{it.Key, "not a presence"}
	}
	return p, nil
}
