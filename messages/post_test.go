package messages_test

import (
	"bytes"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/messages"
)

func TestOptionalFieldsOfAPostAreRefusedWithTheirPlace(t *testing.T) {
	valid, err := messages.Encode(events()["post_created_custom"])
	require.NoError(t, err)
	users := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = strconv.Quote("u" + strconv.Itoa(i))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	const mentions, data, end = `["bob","auth0|5f7c"]`, `{"b":1e2,`, `"expires_at":"2026-11-22T09:30:00Z"`
	at, err := id.Time(postID)
	require.NoError(t, err)
	for name, row := range map[string]struct{ old, with, reason string }{
		"kind with a capital":     {`"photo-album.v2"`, `"Photo"`, "kind is not"},
		"kind of 33":              {`"photo-album.v2"`, strconv.Quote(strings.Repeat("k", 33)), "kind is not"},
		"kind begins with 1":      {`"photo-album.v2"`, `"1a"`, "kind is not"},
		"kind is no text":         {`"photo-album.v2"`, `7`, "kind: must not be a JSON number"},
		"mention is no id":        {mentions, `["bob","a b"]`, "mentions[1] is not a user id"},
		"mention twice":           {mentions, `["bob","cid","bob"]`, "mentions[2] occurs more than once"},
		"51 mentions":             {mentions, users(51), "mentions has 51 users"},
		"data is no object":       {data, `[{"b":1e2,`, "is not"},
		"data with a name twice":  {data, `{"a":1,"b":1e2,`, "a: occurs more than once"},
		"data with half a pair":   {data, `{"x":"\ud800","b":1e2,`, "invalid surrogate pair"},
		"data out of range":       {data, `{"x":{"y":-1e400},"b":1e2,`, "data.x.y has a number that is out of range"},
		"data of too many bytes":  {data, `{"x":"` + strings.Repeat("x", 4096) + `","b":1e2,`, "it may have 4096"},
		"data that is too deep":   {data, `{"x":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + `,"b":1e2,`, "is deeper than 16 levels"},
		"end at the post's time":  {end, `"expires_at":"` + at.Truncate(time.Second).Format(time.RFC3339) + `"`, "expires_at is not after the post"},
		"end is no time":          {end, `"expires_at":"tomorrow"`, "expires_at: is not a time"},
		"an end without a minute": {end, `"expires_at":"2026-11-22"`, "expires_at: is not a time"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, string(valid), row.old)
			_, err := messages.Decode(bytes.Replace(valid, []byte(row.old), []byte(row.with), 1))
			permanent, ok := errors.AsType[*messages.PermanentError](err)
			require.Truef(t, ok, "got %v, want a PermanentError", err)
			assert.Contains(t, permanent.Detail, row.reason)
		})
	}
	_, err = messages.Decode(bytes.Replace(valid, []byte(mentions), []byte(users(50)), 1))
	require.NoError(t, err)
}

func TestTheEndOfAPostIsAWholeSecond(t *testing.T) {
	e := &messages.PostCreated{}
	assert.True(t, e.End().IsZero())
	e.ExpiresAt = time.Date(2026, 11, 22, 10, 30, 0, 999_999_999, time.FixedZone("", 3600))
	assert.Equal(t, time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC), e.End())
}

// A repost has nothing of its own, so each field of a post but its end is refused. A new kind of field needs a value here.
func TestEachFieldOfAPostIsRefusedInARepost(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[messages.Content]()) {
		if field.Name == "ExpiresAt" {
			continue
		}
		repost := *events()["post_created_repost"].(*messages.PostCreated)
		of := reflect.ValueOf(&repost.Content).Elem().FieldByIndex(field.Index)
		switch value := of.Addr().Interface().(type) {
		case *messages.Data:
			*value = `{"a":1}`
		case *string:
			*value = "x"
		case *[]string:
			*value = []string{"bob"}
		case *[]messages.Image:
			*value = []messages.Image{{URL: "https://example.org/a.png"}}
		}
		require.Falsef(t, of.IsZero(), "no value for %s", field.Name)
		_, err := messages.Encode(&repost)
		assert.ErrorContainsf(t, err, "content of its own", "a repost with %s", field.Name)
	}
}
