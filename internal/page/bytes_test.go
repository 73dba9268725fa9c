package page

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

type text string

func (t text) JSONBytes() int { return FieldBytes + JSONBytes(string(t)) }

// A page holds items up to its bytes, and at least one item.
func TestAPageHoldsItsBytes(t *testing.T) {
	const half = MaxBytes / 2
	for _, tt := range []struct {
		want  int
		bytes []int
	}{
		{2, []int{half, half}}, {1, []int{half, half + 1}}, {1, []int{MaxBytes + 1}}, {1, []int{MaxBytes + 1, FieldBytes}},
	} {
		texts := make([]text, len(tt.bytes))
		for i, n := range tt.bytes {
			texts[i] = text(strings.Repeat("x", n-FieldBytes))
		}
		assert.Equalf(t, tt.want, Fitting(texts), "items of %d bytes", tt.bytes)
	}
}

// Each character that JSON escapes counts as its longest escape.
func TestTheBytesOfATextAreThoseOfItsJSON(t *testing.T) {
	for text, escaped := range map[string]string{
		"":                         "",
		"plain text":               "plain text",
		"\x00\n\x1f":               `\u0000\u0000\u001f`,
		`"`:                        `\"`,
		`\`:                        `\\`,
		"a\u2028":                  `a\u2028`,
		"\u2029\u2029":             `\u2029\u2029`,
		"\u2028 é \u2029\t\"end\"": `\u2028 é \u2029\u0009\"end\"`,
	} {
		assert.Equalf(t, len(escaped), JSONBytes(text), "%q", text)
	}
}

func TestItemsWithoutTextsAlwaysFit(t *testing.T) {
	assert.Equal(t, 3*MaxBytes, Fitting(make([]struct{}, 3*MaxBytes)))
	assert.Zero(t, Fitting([]text{}))
}
