package feed

import "strings"

const (
	// pageBytes is the most JSON that the items of a page make. So an answer in memory has
	// a bound that does not grow with the texts (I11).
	pageBytes = 256 << 10
	// fieldBytes is more than the JSON of an item without its texts and URLs.
	fieldBytes = 512
)

// jsonBytes returns the size of s in JSON, or a little more.
func jsonBytes(s string) int {
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

// fitting returns the number of the first items that fit on a page, 1 at least. Items
// without texts always fit.
func fitting[T any](items []T) int {
	size := 0
	for i := range items {
		withText, ok := any(&items[i]).(interface{ jsonBytes() int })
		if !ok {
			break
		}
		if size += withText.jsonBytes(); size > pageBytes && i > 0 {
			return i
		}
	}
	return len(items)
}
