package access

import (
	"strings"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Span is a range of post ids, and the direction in which its posts are read.
type Span struct {
	// Low is the lowest id of the range. high is the first id above it, "" for no bound.
	Low, High string
	// Up reads the oldest post first.
	Up bool
}

// Behind after an id is above every key of that post, and below the keys of later posts.
const Behind = "~"

// Compare orders two ids in the direction of s.
func (s Span) Compare(a, b string) int {
	if s.Up {
		return strings.Compare(a, b)
	}
	return strings.Compare(b, a)
}

// After returns the part of s that follows post in its direction, all of s for "".
func (s Span) After(post string) Span {
	switch {
	case post == "":
	case s.Up:
		s.Low = max(s.Low, post+Behind)
	case s.High == "" || post < s.High:
		s.High = post
	}
	return s
}

// UpTo returns the part of s that ends with post, all of s for "".
func (s Span) UpTo(post string) Span {
	switch {
	case post == "":
	case !s.Up:
		s.Low = max(s.Low, post)
	case s.High == "" || post < s.High:
		s.High = post + Behind
	}
	return s
}

// From returns the part of s whose ids are low or above.
func (s Span) From(low string) Span {
	s.Low = max(s.Low, low)
	return s
}

// Empty reports whether no id is in s.
func (s Span) Empty() bool { return s.High != "" && s.High <= s.Low }

// Query returns the consistent query of a list of posts, or of entries, for a span that is not
// empty.
func (s Span) Query(pk string) table.Query {
	q := table.Query{PK: pk, Low: schema.PostSK(s.Low), Descending: !s.Up, Consistent: true}
	switch {
	case s.High == "":
	case s.Up:
		q.High = schema.PostSK(s.High)
	default:
		q.After = schema.PostSK(s.High) // which sorts below each entry of that post
	}
	return q
}

// Ref is a reference to a post. A home collects references before it reads any post, so
// that many post lists fit in memory.
type Ref struct {
	Post, Author string
	LikeShards   int
}

// TimeOf returns the time of an id that the table holds, the zero time if it is not
// a ULID.
func TimeOf(ulid string) time.Time {
	at, err := id.Time(ulid)
	if err != nil {
		return time.Time{} // keys hold parsed ids only; a reader has no better answer
	}
	return at
}
