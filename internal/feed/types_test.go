package feed

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/page"
)

func TestTheBytesOfAnItemAreThoseOfAllItsTexts(t *testing.T) {
	assert.Equal(t, page.FieldBytes+5+len(`[{"url":"1234567"}]`), Post{Content: Content{Text: "12345", Images: []Image{{URL: "1234567"}}}}.JSONBytes())
	assert.Equal(t, page.FieldBytes+5, Comment{Text: "12345"}.JSONBytes())
	item := HomeItem{Post: Post{Content: Content{Text: "12345", Images: []Image{{URL: "1234567"}}}}, Author: HomeAuthor{Name: "123", ImageURL: "12345678901"}}
	assert.Equal(t, page.FieldBytes+5+len(`[{"url":"1234567"}]`)+3+11, item.JSONBytes())
}
