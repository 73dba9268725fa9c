package feed

import (
	"strings"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// span is a range of post ids, and the direction in which its posts are read.
type span struct {
	// low is the lowest id of the range. high is the first id above it, "" for no bound.
	low, high string
	// up reads the oldest post first.
	up bool
}

// behind after an id is above every key of that post, and below those of later posts.
const behind = "~"

// compare orders two ids in the direction of s.
func (s span) compare(a, b string) int {
	if s.up {
		return strings.Compare(a, b)
	}
	return strings.Compare(b, a)
}

// after returns the part of s that follows post in its direction, all of s for "".
func (s span) after(post string) span {
	switch {
	case post == "":
	case s.up:
		s.low = max(s.low, post+behind)
	case s.high == "" || post < s.high:
		s.high = post
	}
	return s
}

// upTo returns the part of s that ends with post, all of s for "".
func (s span) upTo(post string) span {
	switch {
	case post == "":
	case !s.up:
		s.low = max(s.low, post)
	case s.high == "" || post < s.high:
		s.high = post + behind
	}
	return s
}

// from returns the part of s whose ids are low or above.
func (s span) from(low string) span {
	s.low = max(s.low, low)
	return s
}

func (s span) empty() bool { return s.high != "" && s.high <= s.low }

// query returns the consistent query of a list of posts, or of entries, for a span that is not
// empty.
func (s span) query(pk string) table.Query {
	q := table.Query{PK: pk, Low: schema.PostSK(s.low), Descending: !s.up, Consistent: true}
	switch {
	case s.high == "":
	case s.up:
		q.High = schema.PostSK(s.high)
	default:
		q.After = schema.PostSK(s.high) // which sorts below each entry of that post
	}
	return q
}
