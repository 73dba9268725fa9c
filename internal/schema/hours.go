package schema

import (
	"strconv"
	"strings"
	"time"

	"fanfare/internal/table"
)

// Hour is an hour, counted from 1970. The counts of a user keep the cost of the user's calls in an
// hour (docs/decisions/0044).
type Hour int64

// HourOf returns the hour of a time.
func HourOf(at time.Time) Hour { return Hour(at.Unix() / int64(time.Hour/time.Second)) }

// End returns the first moment after the hour.
func (h Hour) End() time.Time { return time.Unix(int64(h+1)*int64(time.Hour/time.Second), 0).UTC() }

// These constants are the prefixes of the names of an hour's attributes. No other attribute of the
// counts begins with hourUnits.
const (
	hourUnits = "h"
	hourPosts = "hp"
)

// AttrUnits returns the name of the attribute for the units that the user's calls cause in the hour.
func (h Hour) AttrUnits() string { return hourUnits + strconv.FormatInt(int64(h), 10) }

// AttrMade returns the name of the attribute for the number of posts among the user's calls in the
// hour.
func (h Hour) AttrMade() string { return hourPosts + strconv.FormatInt(int64(h), 10) }

// Former returns the attributes of counts that belong to past hours. Former excludes the hour before
// h, because the clock of another process may still be in that hour, and the calls of that process
// must not find the hour empty.
func (h Hour) Former(counts table.Item) (names []string) {
	for _, attr := range counts.Attrs {
		digits, ok := strings.CutPrefix(attr.Name, hourPosts)
		if !ok {
			digits, ok = strings.CutPrefix(attr.Name, hourUnits)
		}
		of, err := strconv.ParseInt(digits, 10, 64)
		if ok && err == nil && Hour(of) < h-1 {
			names = append(names, attr.Name)
		}
	}
	return names
}
