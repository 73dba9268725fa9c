package page

import "strings"

const (
	// pageBytes is the most bytes of JSON for the items of a page. So an answer in memory
	// has a bound that does not grow with the texts (I11).
	pageBytes = 256 << 10
	// FieldBytes is more than the size of an item in JSON without its texts and URLs.
	FieldBytes = 512
)

// JSONBytes returns the size of s in JSON, or a little more.
func JSONBytes(s string) int {
	n := len(s) + 3*(strings.Count(s, "\u2028")+strings.Count(s, "\u2029"))
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ':
			n += len(`\u0000`) - 1
		case c == '"', c == '\\':
			n++
		}
	}
	return n
}

// Fitting returns the number of leading items that fit on a page, 1 at least. Items
// without texts always fit.
func Fitting[T any](items []T) int {
	size := 0
	for i := range items {
		withText, ok := any(&items[i]).(interface{ JSONBytes() int })
		if !ok {
			break
		}
		if size += withText.JSONBytes(); size > pageBytes && i > 0 {
			return i
		}
	}
	return len(items)
}
