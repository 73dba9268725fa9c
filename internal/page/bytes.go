package page

import "strings"

const (
	// MaxBytes is the maximum size in bytes of a page's items in JSON. Because of MaxBytes, the size of
	// an answer does not grow with the length of the texts (I11).
	MaxBytes = 256 << 10
	// FieldBytes is above the size of an item in JSON without the item's texts and URLs.
	FieldBytes = 512
)

// JSONBytes returns an upper bound of the size of s in JSON, close to the exact size.
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

// Fitting returns the number of leading items that fit on a page, at least 1. Items without texts
// always fit.
func Fitting[T any](items []T) int {
	size := 0
	for i := range items {
		withText, ok := any(&items[i]).(interface{ JSONBytes() int })
		if !ok {
			break
		}
		if size += withText.JSONBytes(); size > MaxBytes && i > 0 {
			return i
		}
	}
	return len(items)
}
