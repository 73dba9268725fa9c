package console_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// place is a file of the console, and the words of a call in the file.
type place struct{ file, words string }

// places returns the place in the console of each call of the API, by the call's operation id.
func places() map[string]place {
	return map[string]place{
		"issue-dev-token": {"assets/session.js", `call("POST", "/v1/dev/token"`},
		"get-me":          {"assets/session.js", `call("GET", "/v1/me"`},
		"put-me":          {"account.templ", `hx-put="/v1/me"`},
		"delete-me":       {"account.templ", `hx-delete="/v1/me"`},
		"export-me":       {"assets/session.js", `request("GET", "/v1/me/export"`},

		"get-home":    {"home.templ", `hx-get="/v1/home?limit=20&expand=view"`},
		"stream-home": {"account.templ", `hx-sse:connect="/v1/home/stream"`},
		"create-post": {"home.templ", `hx-post="/v1/posts"`},

		"get-post":               {"post.templ", `hx-get=/v1/posts/{id}?expand=view`},
		"edit-post":              {"post.templ", `hx-patch=/v1/posts/{id}`},
		"delete-post":            {"post.templ", `hx-delete=/v1/posts/{id}`},
		"get-delivery":           {"post.templ", `hx-get=/v1/posts/{id}/delivery`},
		"list-comments":          {"assets/feed.js", `ofPost("Comments", "comments?`},
		"create-comment":         {"post.templ", `hx-post=/v1/posts/{id}/comments`},
		"delete-comment":         {"items.templ", `hx-delete=/v1/posts/{post_id}/comments/{id}`},
		"list-likers":            {"assets/feed.js", `ofPost("Likes", "likes?`},
		"list-reactions":         {"assets/feed.js", `ofPost("Reactions", "reactions?`},
		"like":                   {"items.templ", `hx-put=/v1/posts/{post.id}/like`},
		"unlike":                 {"assets/wires.js", `request.method = "DELETE"`},
		"react":                  {"items.templ", `hx-put=/v1/posts/{post}/reactions/{kind}`},
		"unreact":                {"assets/wires.js", `request.method = "DELETE"`},
		"count-reactions":        {"assets/posts.js", `/reactions/count`},
		"bookmark":               {"items.templ", `hx-put=/v1/me/bookmarks/{post.id}`},
		"unbookmark":             {"assets/wires.js", `request.method = "DELETE"`},
		"get-posts":              {"assets/people.js", `"/v1/posts?ids="`},
		"get-users":              {"assets/people.js", `"/v1/users?ids="`},
		"get-user":               {"user.templ", `hx-get=/v1/users/{id}?expand=view`},
		"list-posts":             {"assets/feed.js", `ofUser("Posts", "posts?`},
		"list-liked-posts":       {"assets/feed.js", `ofUser("Likes", "likes?`},
		"list-friends":           {"assets/feed.js", `ofUser("Friends", "friends?`},
		"list-followers":         {"assets/feed.js", `ofUser("Followers", "followers?`},
		"list-following":         {"assets/feed.js", `ofUser("Following", "following?`},
		"list-bookmarks":         {"assets/feed.js", `mine("Bookmarks", "bookmarks?`},
		"list-mutes":             {"assets/feed.js", `mine("Muted users", "mutes?`},
		"list-blocks":            {"assets/feed.js", `mine("Blocked users", "blocks?`},
		"follow":                 {"assets/people.js", `follow: { path: "/v1/me/following/"`},
		"unfollow":               {"assets/people.js", `follow: { path: "/v1/me/following/"`},
		"mute":                   {"assets/people.js", `mute: { path: "/v1/me/mutes/"`},
		"unmute":                 {"assets/people.js", `mute: { path: "/v1/me/mutes/"`},
		"block":                  {"assets/people.js", `block: { path: "/v1/me/blocks/"`},
		"unblock":                {"assets/people.js", `block: { path: "/v1/me/blocks/"`},
		"count-unread":           {"assets/feed.js", `"/v1/me/notifications/unread?`},
		"read-notifications":     {"assets/people.js", `call("PUT", "/v1/me/notifications/read"`},
		"list-notifications":     {"assets/feed.js", `mine("Notifications", "notifications?`},
		"list-user-comments":     {"assets/feed.js", `ofUser("Comments", "comments?`},
		"list-reactions-by-user": {"assets/feed.js", `ofUser("Reactions", "reactions?`},
	}
}

// leftOut returns the calls that the console does not need, with the reasons.
func leftOut() map[string]string {
	return map[string]string{
		"be-away":          "it sets a test's scene: a reader who was away",
		"take-down-post":   "only the token of a service may, and the console has a user's",
		"list-events":      "only the token of a service may, and the console has a user's",
		"get-bookmark":     "a post's view has bookmarked_at",
		"get-like":         "a post's view has the reader's like",
		"get-reaction":     "a post's view has the reader's reaction",
		"count-likes":      "count-reactions has the likes, too",
		"get-relationship": "a user's view has both follows",
		"repost":           "the console shows reposts and makes none",
		"end-repost":       "the console shows reposts and makes none",
		"list-markers":     "markers belong to the programs that name them",
		"get-marker":       "markers belong to the programs that name them",
		"put-marker":       "markers belong to the programs that name them",
		"delete-marker":    "markers belong to the programs that name them",
	}
}

// TestTheConsoleHasEveryCall fails if a call of the API is neither in the console nor left out.
func TestTheConsoleHasEveryCall(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "openapi.json"))
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	require.NoError(t, json.Unmarshal(text, &document))
	has, out := places(), leftOut()
	for path, methods := range document.Paths {
		for method, call := range methods {
			at, found := has[call.OperationID]
			reason, left := out[call.OperationID]
			assert.NotEqualf(t, found, left, "%s (%s %s) must be either in the console or left out", call.OperationID, strings.ToUpper(method), path)
			if found {
				assert.Contains(t, read(t, at.file), at.words, "%s in %s", call.OperationID, at.file)
			} else {
				assert.NotEmpty(t, reason, call.OperationID)
			}
			delete(has, call.OperationID)
			delete(out, call.OperationID)
		}
	}
	assert.Empty(t, has, "no call has these names")
	assert.Empty(t, out, "no call has these names")
}
