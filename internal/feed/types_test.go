package feed

import (
	"reflect"
	"strings"
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

// A page ends before it is too large, so each field of a post but its times counts. A new kind of field needs a value here.
func TestEachFieldOfAPostCountsInItsBytes(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Content]()) {
		if field.Name == "ExpiresAt" {
			continue
		}
		var p Post
		of := reflect.ValueOf(&p.Content).Elem().FieldByIndex(field.Index)
		switch value := of.Addr().Interface().(type) {
		case *string:
			*value = long
		case *Data:
			*value = Data(long)
		case *[]string:
			*value = []string{long}
		case *[]Image:
			*value = []Image{{URL: long}}
		}
		assert.GreaterOrEqualf(t, p.JSONBytes(), page.FieldBytes+len(long), "a post with a long %s", field.Name)
	}
}
