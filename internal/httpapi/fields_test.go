package httpapi_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// full fails unless each field of a value has a value, except the fields with these names.
func full(t *testing.T, value any, except ...string) {
	t.Helper()
	for field, of := range reflect.ValueOf(value).Fields() {
		if of.IsZero() {
			assert.Containsf(t, except, field.Name, "%T has no %s", value, field.Name)
		}
	}
}

// same fails unless an answer has each field of the input, except the fields with these names.
func same(t *testing.T, input, answer any, except ...string) {
	t.Helper()
	full(t, input)
	for field, of := range reflect.ValueOf(input).Fields() {
		if got := reflect.ValueOf(answer).FieldByName(field.Name); got.IsValid() {
			assert.Equalf(t, of.Interface(), got.Interface(), "%s of %T", field.Name, answer)
		} else {
			assert.Containsf(t, except, field.Name, "%T has no such field", answer)
		}
	}
}

// ask sends a value and returns the answer.
func ask[T any](t *testing.T, w *world, method, path string, in any, header ...string) (out T) {
	t.Helper()
	var body []byte
	if in != nil {
		var err error
		body, err = json.Marshal(in)
		require.NoError(t, err)
	}
	res := w.call(t, "ann", method, path, string(body), header...)
	require.Lessf(t, res.Code, 300, "%s %s: %s", method, path, res.Body)
	if res.Body.Len() > 0 {
		require.NoError(t, json.Unmarshal(res.Body.Bytes(), &out))
	}
	return out
}

// The API answers each field of a post as the post's author sent it, also if a worker stored the post.
func TestEachFieldOfAPostIsAnsweredAsItWasSent(t *testing.T) {
	w := newWorld(t)
	w.profile(t, "ann")
	quoted := ask[client.Post](t, w, "POST", "/v1/posts", client.PostInput{Text: "x"})
	in := client.PostInput{
		Text: "x", Images: []client.Image{{URL: "https://img.example/a.png", Alt: "A", Width: 3, Height: 2}}, Kind: "album", Data: json.RawMessage(`{"a":1}`), Mentions: []string{"bob"},
		ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Second), IdempotencyKey: "k", QuoteOf: quoted.ID,
	}
	made := ask[client.Post](t, w, "POST", "/v1/posts", in, "Idempotency-Key", in.IdempotencyKey)
	same(t, in, made, "IdempotencyKey")
	full(t, made, "EditedAt", "RepostOf")
	assert.Equal(t, made, ask[client.Post](t, w, "GET", "/v1/posts/"+made.ID, nil))

	event, err := messages.Decode(w.published.messages[len(w.published.messages)-1].Payload)
	require.NoError(t, err)
	for _, key := range []table.Key{schema.PostKey("ann", made.ID), schema.PostByIDKey(made.ID)} {
		_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: key})
		require.NoError(t, err)
	}
	_, err = w.cfg.Feed.EnsurePost(t.Context(), event.(*messages.PostCreated))
	require.NoError(t, err)
	assert.Equal(t, made, ask[client.Post](t, w, "GET", "/v1/posts/"+made.ID, nil))

	edit := client.PostEdit{Text: new("y"), Images: []client.Image{{URL: "https://img.example/b.png"}}, Data: json.RawMessage(`{"b":1}`)}
	full(t, edit)
	edited := ask[client.Post](t, w, "PATCH", "/v1/posts/"+made.ID, edit)
	full(t, edited, "RepostOf")
	assert.Equal(t, client.PostEdit{Text: &edited.Text, Images: edited.Images, Data: edited.Data}, edit)
}

// The API answers each field of a comment, of a profile and of a user's own things as the caller sent it.
func TestEachFieldOfTheRestIsAnsweredAsItWasSent(t *testing.T) {
	w := newWorld(t)
	user := client.ProfileInput{Name: "Ann", Bio: "x", ImageURL: "https://img.example/a.png", Data: json.RawMessage(`{"a":1}`)}
	ask[any](t, w, "PUT", "/v1/me", user)
	w.profile(t, "bob")
	w.profile(t, "cid")
	answered := ask[client.User](t, w, "GET", "/v1/users/ann", nil)
	same(t, user, answered)
	full(t, answered, "Counts", "Following", "FollowedBy")

	post := ask[client.Post](t, w, "POST", "/v1/posts", client.PostInput{Text: "x"})
	comment := client.CommentInput{Text: "x", Data: json.RawMessage(`{"a":1}`), Mentions: []string{"bob"}}
	made := ask[client.Comment](t, w, "POST", "/v1/posts/"+post.ID+"/comments", comment)
	same(t, comment, made)
	full(t, made, "Author", "Post")
	type list[T any] struct{ Items []T }
	assert.Equal(t, list[client.Comment]{[]client.Comment{made}}, ask[list[client.Comment]](t, w, "GET", "/v1/posts/"+post.ID+"/comments", nil))

	for put, path := range map[string]string{
		"/v1/me/following/bob": "/v1/users/ann/following", "/v1/me/mutes/bob": "/v1/me/mutes", "/v1/me/blocks/cid": "/v1/me/blocks",
	} {
		ask[any](t, w, "PUT", put, nil)
		edges := ask[list[client.Edge]](t, w, "GET", path, nil).Items
		require.Len(t, edges, 1, path)
		full(t, edges[0], "User")
	}
	ask[any](t, w, "PUT", "/v1/me/bookmarks/"+post.ID, nil)
	bookmarks := ask[list[client.Bookmark]](t, w, "GET", "/v1/me/bookmarks", nil).Items
	require.Len(t, bookmarks, 1)
	full(t, bookmarks[0])
	marker := ask[client.Marker](t, w, "PUT", "/v1/me/markers/home", map[string]string{"position": "p"})
	full(t, marker)
	assert.Equal(t, marker, ask[client.Marker](t, w, "GET", "/v1/me/markers/home", nil))
}
