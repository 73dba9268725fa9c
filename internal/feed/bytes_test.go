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
		assert.Equalf(t, len(escaped), jsonBytes(text), "%q", text)
	}
}

func TestTheBytesOfAnItemAreThoseOfAllItsTexts(t *testing.T) {
	assert.Equal(t, fieldBytes+5+7, Post{Text: "12345", ImageURL: "1234567"}.jsonBytes())
	assert.Equal(t, fieldBytes+5, Comment{Text: "12345"}.jsonBytes())
	item := HomeItem{Post: Post{Text: "12345", ImageURL: "1234567"}, Author: HomeAuthor{Name: "123", ImageURL: "12345678901"}}
	assert.Equal(t, fieldBytes+5+7+3+11, item.jsonBytes())
}

func TestItemsWithoutTextsAlwaysFit(t *testing.T) {
	assert.Equal(t, 3*pageBytes, fitting(make([]struct{}, 3*pageBytes)))
	assert.Zero(t, fitting([]Post{}))
}
