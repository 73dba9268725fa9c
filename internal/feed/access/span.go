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
	// Low is the lowest id of the range. High is the first id above the range, "" for no bound.
	Low, High string
	// Up means that the oldest post is read first.
	Up bool
}

// Behind is a suffix of an id: the id with the suffix is above every key of that post and below the keys of later posts.
const Behind = "~"

// Compare orders two ids in the direction of s.
func (s Span) Compare(a, b string) int {
	if s.Up {
		return strings.Compare(a, b)
	}
	return strings.Compare(b, a)
}

// After returns the part of s that follows post in the direction of s, or all of s if post is "".
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

// UpTo returns the part of s that ends with post, or all of s if post is "".
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

// From returns the part of s whose ids are at least low.
func (s Span) From(low string) Span {
	s.Low = max(s.Low, low)
	return s
}

// Empty reports whether no id is in s.
func (s Span) Empty() bool { return s.High != "" && s.High <= s.Low }

// Query returns the consistent query of a list of posts, or of entries, for a non-empty span.
func (s Span) Query(pk string) table.Query {
	q := table.Query{PK: pk, Low: schema.PostSK(s.Low), Descending: !s.Up, Consistent: true}
	switch {
	case s.High == "":
	case s.Up:
		q.High = schema.PostSK(s.High)
	default:
		q.After = schema.PostSK(s.High) // the key of High sorts below each entry of that post
	}
	return q
}

// Ref is a reference to a post. A home collects references before it reads posts, because references
// of many lists fit in memory.
type Ref struct {
	Post, Author string
	LikeShards   int
}

// TimeOf returns the time of an id in the table, or the zero time if the id is not a ULID.
func TimeOf(ulid string) time.Time {
	at, err := id.Time(ulid)
	if err != nil {
		return time.Time{} // unreachable: keys hold parsed ids only
	}
	return at
}
