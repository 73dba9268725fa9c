package feed

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A page holds items up to its bytes, and one item in any case.
func TestAPageHoldsItsBytes(t *testing.T) {
	const half = pageBytes / 2
	for _, tt := range []struct {
		want  int
		bytes []int
	}{
		{2, []int{half, half}}, {1, []int{half, half + 1}}, {1, []int{pageBytes + 1}}, {1, []int{pageBytes + 1, fieldBytes}},
	} {
		posts := make([]Post, len(tt.bytes))
		for i, n := range tt.bytes {
			posts[i].Text = strings.Repeat("x", n-fieldBytes)
		}
		assert.Equalf(t, tt.want, fitting(posts), "items of %d bytes", tt.bytes)
	}
}
