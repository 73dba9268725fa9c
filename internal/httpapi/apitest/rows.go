package apitest

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

type object = map[string]any

// full returns a body of this size: a JSON object with spaces at its end.
func full(bytes int) string {
	const text = `{"text":"full"}`
	return text + strings.Repeat(" ", bytes-len(text))
}

func bad(name, as, method, path, body string, status int, problem string, fields ...string) row {
	return row{name: name, as: as, method: method, path: path, body: body, status: status, problem: problem, fields: fields}
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func hasHeader(name, want string) func(*testing.T, *response) {
	return func(t *testing.T, res *response) {
		t.Helper()
		if got := res.header.Get(name); got == "" || (want != "" && got != want) {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
}

// atLocation checks that the Location header names the new post or comment.
func atLocation(t *testing.T, res *response) {
	t.Helper()
	id, ok := res.body["id"].(string)
	want := "/v1/posts/"
	if post, isComment := res.body["post_id"].(string); isComment {
		want += post + "/comments/"
	}
	if got := res.header.Get("Location"); !ok || got != want+id {
		t.Errorf("Location is %q, not %q", got, want+id)
	}
}

// expiresSoon checks that a token is valid for a minute, and not for the default of a day.
func expiresSoon(t *testing.T, res *response) {
	t.Helper()
	text, ok := res.body["expires_at"].(string)
	at, err := time.Parse(time.RFC3339, text)
	if !ok || err != nil || time.Until(at) > time.Hour {
		t.Errorf("expires_at is %v, %v", res.body["expires_at"], err)
	}
}

// member returns a function that keeps the answer's member key as name.
func member(name, key string) func(object) (string, string) {
	return func(body object) (string, string) {
		text, ok := body[key].(string)
		if !ok {
			return name, ""
		}
		return name, text
	}
}

// createdDay returns a function that keeps the day of created_at as name.
func createdDay(name string) func(object) (string, string) {
	return func(body object) (string, string) {
		_, created := member(name, "created_at")(body)
		day, _, _ := strings.Cut(created, "T")
		return name, day
	}
}

func tokenRows(target Target) []row {
	if !target.DevTokens {
		return []row{
			bad("dev token, not there", "", "POST", "/v1/dev/token", `{"user_id":"{ann}"}`, 404, "not-found"),
			bad("being away, not there", "ann", "POST", "/v1/dev/away", "", 404, "not-found"),
		}
	}
	return []row{
		{name: "dev token", method: "POST", path: "/v1/dev/token", body: `{"user_id":"{ann}","ttl_s":60}`, status: 200, want: object{"token": "*", "expires_at": "*"}},
		{name: "dev token, ttl whole with a point", method: "POST", path: "/v1/dev/token", body: `{"user_id":"{ann}","ttl_s":60.0}`, status: 200, check: expiresSoon},
		{name: "dev token, ttl whole with an exponent", method: "POST", path: "/v1/dev/token", body: `{"user_id":"{ann}","ttl_s":6e1}`, status: 200, check: expiresSoon},
		bad("dev token, ttl of 0 with a point", "", "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":0.0}`, 422, "invalid", "ttl_s"),
		bad("dev token, ttl whole and too long", "", "POST", "/v1/dev/token", `{"user_id":"a b","ttl_s":2592001.0}`, 422, "invalid", "ttl_s", "user_id"),
		bad("dev token, no user", "", "POST", "/v1/dev/token", `{}`, 422, "invalid", "user_id"),
		bad("dev token, user id outside the grammar", "", "POST", "/v1/dev/token", `{"user_id":"a b"}`, 422, "invalid", "user_id"),
		bad("dev token, user id too long", "", "POST", "/v1/dev/token", `{"user_id":"`+strings.Repeat("u", 65)+`"}`, 422, "invalid", "user_id"),
		bad("dev token, ttl of 0", "", "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":0}`, 422, "invalid", "ttl_s"),
		bad("dev token, ttl too long", "", "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":1e15}`, 422, "invalid", "ttl_s"),
		bad("dev token, ttl beyond any number", "", "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":1e999}`, 422, "invalid", "ttl_s"),
		bad("dev token, ttl not whole", "", "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":1.5}`, 422, "invalid", "ttl_s"),
		bad("being away without a token", "", "POST", "/v1/dev/away", "", 401, "unauthenticated"),
		bad("being away without a profile", "ann", "POST", "/v1/dev/away", "", 409, "profile-missing"),
		bad("dev token, ttl a string", "", "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":"60"}`, 422, "invalid", "ttl_s"),
	}
}

func userRows() []row {
	profile := func(as, name string) row {
		return row{
			name: "make profile of " + as, as: as, method: "PUT", path: "/v1/me", body: `{"name":"` + name + `"}`, status: 200,
			want: object{"id": "{" + as + "}", "name": name, "bio": "", "image_url": "", "created_at": "*", "counts": object{"followers": 0, "following": 0, "posts": 0}},
		}
	}
	return []row{
		bad("own profile before the first", "ann", "GET", "/v1/me", "", 409, "profile-missing"),
		bad("live home without a profile", "ann", "GET", "/v1/home/stream", "", 409, "profile-missing"),
		profile("ann", "Ann"), profile("ben", "Ben"), profile("cat", "Cat"),
		{
			name: "change profile", as: "ann", method: "PUT", path: "/v1/me", body: `{"name":"Änn 🎺","bio":"b","image_url":"https://img.example/a.png"}`, status: 200,
			want: object{"name": "Änn 🎺", "bio": "b", "image_url": "https://img.example/a.png"},
		},
		{name: "own profile", as: "ann", method: "GET", path: "/v1/me", status: 200, want: object{"id": "{ann}", "name": "Änn 🎺"}},
		{name: "profile", as: "ben", method: "GET", path: "/v1/users/{ann}", status: 200, want: object{"id": "{ann}", "counts": object{"followers": 0, "following": 0, "posts": 0}}},
		bad("profile, null", "ann", "PUT", "/v1/me", `{"name":null,"bio":null}`, 422, "invalid", "bio", "name"),
		bad("profile, everything too long", "ann", "PUT", "/v1/me", `{"name":"`+strings.Repeat("ä", 101)+`","bio":"`+strings.Repeat("ä", 501)+`","image_url":"http://x/`+strings.Repeat("a", 2048)+`"}`, 422, "invalid", "bio", "image_url", "name"),
		bad("profile, wrong types", "ann", "PUT", "/v1/me", `{"name":1,"bio":[],"image_url":{}}`, 422, "invalid", "bio", "image_url", "name"),
		bad("profile, image not http", "ann", "PUT", "/v1/me", `{"name":"A","image_url":"ftp://x/y"}`, 422, "invalid", "image_url"),
		bad("profile, name that shows nothing", "ann", "PUT", "/v1/me", `{"name":"\u200b"}`, 422, "invalid", "name"),
		bad("profile, name that turns text", "ann", "PUT", "/v1/me", `{"name":"Ann\u202e","bio":"\u2067"}`, 422, "invalid", "bio", "name"),
		bad("profile, name of two lines", "ann", "PUT", "/v1/me", `{"name":"A\nnn"}`, 422, "invalid", "name"),
		bad("profile, name with NUL", "ann", "PUT", "/v1/me", `{"name":"A\u0000"}`, 422, "invalid", "name"),
		bad("profile, image of a host that turns text", "ann", "PUT", "/v1/me", `{"name":"A","image_url":"https://x\u202e/"}`, 422, "invalid", "image_url"),
		bad("profile, unknown field", "ann", "PUT", "/v1/me", `{"name":"A","admin":true}`, 422, "invalid", "admin"),
		bad("profile, other spelling", "ann", "PUT", "/v1/me", `{"Name":"A"}`, 422, "invalid", "Name", "name"),
		bad("unknown profile", "ann", "GET", "/v1/users/{absent}", "", 404, "not-found"),
		bad("profile, id outside the grammar", "ann", "GET", "/v1/users/.b", "", 422, "invalid", "id"),
		bad("profile, id with a slash", "ann", "GET", "/v1/users/a%2Fb", "", 422, "invalid", "id"),

		{name: "follow", as: "ben", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		{name: "follow again", as: "ben", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		{name: "follow back", as: "ann", method: "PUT", path: "/v1/me/following/{ben}", status: 204},
		{name: "third follows", as: "cat", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		bad("follow oneself", "ann", "PUT", "/v1/me/following/{ann}", "", 422, "invalid", "id"),
		bad("follow nobody", "ann", "PUT", "/v1/me/following/{absent}", "", 404, "not-found"),
		bad("follow outside the grammar", "ann", "PUT", "/v1/me/following/a%20b", "", 422, "invalid", "id"),
		bad("follow without a profile", "new", "PUT", "/v1/me/following/{ann}", "", 409, "profile-missing"),
		bad("unfollow oneself", "ann", "DELETE", "/v1/me/following/{ann}", "", 422, "invalid", "id"),
		bad("unfollow nobody", "ann", "DELETE", "/v1/me/following/{absent}", "", 404, "not-found"),
		bad("unfollow outside the grammar", "ann", "DELETE", "/v1/me/following/a%20b", "", 422, "invalid", "id"),
		bad("unfollow without a profile", "new", "DELETE", "/v1/me/following/{ann}", "", 409, "profile-missing"),
		{name: "unfollow a user who is not followed", as: "cat", method: "DELETE", path: "/v1/me/following/{ben}", status: 204},
		{name: "counts follow at once", as: "cat", method: "GET", path: "/v1/users/{ann}", status: 200, want: object{"counts": object{"followers": 2, "following": 1, "posts": 0}}},
		{name: "followers", as: "cat", method: "GET", path: "/v1/users/{ann}/followers", status: 200, want: object{"items": []any{object{"user_id": "{ben}", "since": "*"}, object{"user_id": "{cat}"}}, "next_cursor": nil}},
		{name: "following", as: "cat", method: "GET", path: "/v1/users/{ann}/following", status: 200, want: object{"items": []any{object{"user_id": "{ben}", "since": "*"}}}},
		{name: "friends", as: "cat", method: "GET", path: "/v1/users/{ann}/friends?limit=100", status: 200, want: object{"items": []any{object{"user_id": "{ben}", "since": "*"}}}},
		{name: "nobody follows", as: "ann", method: "GET", path: "/v1/users/{cat}/followers", status: 200, want: object{"items": []any{}}},
		{name: "relationship", as: "cat", method: "GET", path: "/v1/users/{cat}/relationships/{ann}", status: 200, want: object{"following": true, "followed_by": false, "friends": false}},
		{name: "relationship of friends", as: "cat", method: "GET", path: "/v1/users/{ann}/relationships/{ben}", status: 200, want: object{"following": true, "followed_by": true, "friends": true}},
		{name: "relationship with oneself", as: "cat", method: "GET", path: "/v1/users/{ann}/relationships/{ann}", status: 200, want: object{"following": false, "followed_by": false, "friends": false}},
		bad("relationship of nobody", "ann", "GET", "/v1/users/{absent}/relationships/{ann}", "", 404, "not-found"),
		bad("relationship with nobody", "ann", "GET", "/v1/users/{ann}/relationships/{absent}", "", 404, "not-found"),
		bad("relationship, ids outside the grammar", "ann", "GET", "/v1/users/.b/relationships/.d", "", 422, "invalid", "id", "other"),
		bad("list, limit not a number", "ann", "GET", "/v1/users/{ann}/followers?limit=ten", "", 422, "invalid", "limit"),
		bad("list, limit empty", "ann", "GET", "/v1/users/{ann}/followers?limit=", "", 422, "invalid", "limit"),
		bad("list, limit huge", "ann", "GET", "/v1/users/{ann}/followers?limit=99999999999999999999", "", 422, "invalid", "limit"),
		bad("list, parameter twice", "ann", "GET", "/v1/users/{ann}/followers?limit=1&limit=2", "", 422, "invalid", "limit"),
		bad("list, query not well-formed", "ann", "GET", "/v1/users/{ann}/followers?limit=%zz", "", 400, "malformed"),
		{name: "unfollow", as: "cat", method: "DELETE", path: "/v1/me/following/{ann}", status: 204},
		{name: "relationship ends at once", as: "cat", method: "GET", path: "/v1/users/{cat}/relationships/{ann}", status: 200, want: object{"following": false}},
		{name: "counts unfollow at once", as: "cat", method: "GET", path: "/v1/users/{ann}", status: 200, want: object{"counts": object{"followers": 1}}},
	}
}

func postRows() []row {
	day := time.Now().UTC()
	yesterday := day.AddDate(0, 0, -1).Format(time.DateOnly)
	hourAgo, inAnHour := day.Add(-time.Hour).Format(time.RFC3339), day.Add(time.Hour).Format(time.RFC3339)
	twice := []any{object{"url": "http://img.example/p", "alt": "A p", "width": 3, "height": 2}, object{"url": "http://img.example/p", "alt": nil, "width": nil, "height": nil}}
	weird := `n\u0000l \ufffe \uffff עברית \ud83d\ude00 🎺`
	return []row{
		{
			name: "post", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"hello","images":[{"url":"http://img.example/p","alt":"A p","width":3,"height":2},{"url":"http://img.example/p"}]}`, status: 201, save: "post",
			want:  object{"id": "*", "author_id": "{ann}", "text": "hello", "images": twice, "created_at": "*", "edited_at": nil},
			check: atLocation,
		},
		{name: "post is there", as: "ben", method: "GET", path: "/v1/posts/{post}", status: 200, want: object{"id": "{post}", "text": "hello", "author_id": "{ann}"}},
		{name: "post by HEAD", as: "ben", method: "HEAD", path: "/v1/posts/{post}", status: 200},
		{name: "post any Unicode", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"` + weird + `"}`, status: 201, save: "weird", want: object{"text": "n\x00l \ufffe \uffff עברית 😀 🎺"}},
		{name: "any Unicode comes back", as: "ben", method: "GET", path: "/v1/posts/{weird}", status: 200, want: object{"text": "n\x00l \ufffe \uffff עברית 😀 🎺"}},
		{name: "post of 5000 characters", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"` + strings.Repeat("ä", 5000) + `"}`, status: 201, save: "long"},
		{name: "body of 65536 bytes", as: "ben", method: "POST", path: "/v1/posts", body: full(65536), status: 201, save: "full", want: object{"text": "full"}},
		{name: "body of 65536 bytes, chunked", as: "ben", method: "POST", path: "/v1/posts", header: headers("Transfer-Encoding", "chunked"), body: full(65536), status: 201, save: "chunked"},
		bad("post, several faults", "ann", "POST", "/v1/posts", `{"text":null,"images":null,"id":"x"}`, 422, "invalid", "id", "images", "text"),
		bad("post a list", "ann", "POST", "/v1/posts", `[1]`, 422, "invalid", "body"),
		bad("post two bodies", "ann", "POST", "/v1/posts", `{"text":"a"}{"text":"b"}`, 400, "malformed"),
		bad("post, UTF-8 of a surrogate", "ann", "POST", "/v1/posts", "{\"text\":\"\xed\xa0\x80\"}", 400, "malformed"),
		bad("post, low surrogate alone", "ann", "POST", "/v1/posts", `{"text":"\ude00x"}`, 400, "malformed"),
		bad("post, surrogates the wrong way", "ann", "POST", "/v1/posts", `{"text":"\ude00\ud83d"}`, 400, "malformed"),
		{name: "post, another media type", as: "ann", method: "POST", path: "/v1/posts", header: headers("Content-Type", "text/plain"), body: `{"text":"a"}`, status: 415, problem: "unsupported-media-type"},
		{name: "post, media type with a charset", as: "ann", method: "POST", path: "/v1/posts", header: headers("Content-Type", "application/json; charset=utf-8"), body: `{"text":"charset"}`, status: 201, save: "gone"},
		bad("post without a profile", "new", "POST", "/v1/posts", `{"text":"a"}`, 409, "profile-missing"),

		{name: "post with a key", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-1"), body: `{"text":"once"}`, status: 201, save: "once"},
		{name: "post with the key again", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-1"), body: `{"text":"once"}`, status: 201, want: object{"id": "{once}"}},
		{name: "key with another body", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-1"), body: `{"text":"twice"}`, status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},
		{name: "the same key of another user", as: "ben", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-1"), body: `{"text":"mine"}`, status: 201, save: "mine", want: object{"author_id": "{ben}"}},
		{name: "a refused body does not bind the key", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-2"), body: `{"text":""}`, status: 422, problem: "invalid", fields: []string{"text"}},
		{name: "post of data alone", as: "ben", method: "POST", path: "/v1/posts", body: `{"data":{"n":1}}`, status: 201, save: "bare", want: object{"text": "", "data": object{"n": 1}}},
		bad("edit that leaves nothing", "ben", "PATCH", "/v1/posts/{bare}", `{"data":null}`, 422, "invalid", "text"),
		{name: "edit of data to a text", as: "ben", method: "PATCH", path: "/v1/posts/{bare}", body: `{"text":"a","data":null}`, status: 200, want: object{"text": "a", "data": nil}},
		{name: "edit of a text to an image", as: "ben", method: "PATCH", path: "/v1/posts/{bare}", body: `{"text":"","images":[{"url":"https://img.example/a.html"}]}`, status: 200, want: object{"text": "", "images": []any{object{"url": "https://img.example/a.html"}}}},
		{name: "edit to an image of a host that no console loads", as: "ben", method: "PATCH", path: "/v1/posts/{bare}", body: `{"images":[{"url":"https://stranger.example/a.png","alt":"A boat"}]}`, status: 200, want: object{"images": []any{object{"url": "https://stranger.example/a.png", "alt": "A boat"}}}},
		{name: "edit to an image whose address answers HTML", as: "ben", method: "PATCH", path: "/v1/posts/{bare}", body: `{"images":[{"url":"https://img.example/page.html","alt":"A page"}]}`, status: 200, want: object{"images": []any{object{"url": "https://img.example/page.html", "alt": "A page"}}}},
		bad("edit that removes the last image", "ben", "PATCH", "/v1/posts/{bare}", `{"images":[]}`, 422, "invalid", "text"),
		{name: "delete the bare post", as: "ben", method: "DELETE", path: "/v1/posts/{bare}", status: 204},
		{name: "so the key is free", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-2"), body: `{"text":"free"}`, status: 201, save: "free"},
		{name: "key too long", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", strings.Repeat("k", 256)), body: `{"text":"a"}`, status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},
		{name: "two keys", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-3", "Idempotency-Key", "k-4"), body: `{"text":"a"}`, status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},
		{name: "key empty", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", ""), body: `{"text":"a"}`, status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},
		{name: "key with a space", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "a b"), body: `{"text":"a"}`, status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},

		{name: "edit", as: "ann", method: "PATCH", path: "/v1/posts/{post}", body: `{"text":"edited"}`, status: 200, want: object{"text": "edited", "images": twice, "edited_at": "*"}},
		{name: "edit images alone", as: "ann", method: "PATCH", path: "/v1/posts/{post}", body: `{"images":[{"url":"https://img.example/a.png"}]}`, status: 200, want: object{"text": "edited", "images": []any{object{"url": "https://img.example/a.png", "alt": nil, "width": nil}}}},
		{name: "edit that removes the images", as: "ann", method: "PATCH", path: "/v1/posts/{post}", body: `{"images":[]}`, status: 200, want: object{"text": "edited", "images": nil}},
		bad("edit somebody else's", "ben", "PATCH", "/v1/posts/{post}", `{"text":"mine now"}`, 403, "forbidden"),
		bad("edit without a profile", "new", "PATCH", "/v1/posts/{post}", `{"text":"mine now"}`, 409, "profile-missing"),

		{name: "posts by user", as: "ben", method: "GET", path: "/v1/users/{ann}/posts", status: 200, want: object{"items": []any{object{"id": "{free}"}, object{"id": "{once}"}, object{"id": "{gone}"}, object{"id": "{long}"}, object{"id": "{weird}"}, object{"id": "{post}", "text": "edited"}}}},
		{name: "posts by user, a page", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?limit=2", status: 200, want: object{"items": []any{object{"id": "{free}"}, object{"id": "{once}"}}, "next_cursor": "*"}},
		{name: "posts since and until", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?since=" + hourAgo + "&until=" + inAnHour + "&limit=1", status: 200, want: object{"items": []any{object{"id": "{free}"}}}},
		{name: "posts until an hour ago", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?until=" + hourAgo, status: 200, want: object{"items": []any{}}},
		{name: "post's day", as: "ben", method: "GET", path: "/v1/posts/{free}", status: 200, keep: createdDay("day")},
		{name: "post's time", as: "ben", method: "GET", path: "/v1/posts/{free}", status: 200, keep: member("time", "created_at")},
		{name: "posts of a day", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?limit=1&day={day}", status: 200, want: object{"items": []any{object{"id": "{free}"}}}},
		{name: "posts since, included", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?since={time}", status: 200, want: object{"items": []any{object{"id": "{free}"}}}},
		{name: "posts until, excluded", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?limit=1&until={time}", status: 200, want: object{"items": []any{object{"id": "{once}"}}}},
		{name: "posts of yesterday", as: "ben", method: "GET", path: "/v1/users/{cat}/posts?day=" + yesterday, status: 200, want: object{"items": []any{}}},
		{name: "posts of the day before the first instant", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?day=0000-12-31", status: 200, want: object{"items": []any{}}},
		{name: "posts of the first day", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?day=0001-01-01", status: 200, want: object{"items": []any{}}},
		{name: "posts of the last day", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?day=9999-12-31", status: 200, want: object{"items": []any{}}},
		bad("posts of no day", "ben", "GET", "/v1/users/{ann}/posts?day=2026-02-30", "", 422, "invalid", "day"),
		bad("posts of a day in words", "ben", "GET", "/v1/users/{ann}/posts?day=today", "", 422, "invalid", "day"),
		bad("posts of a day and since", "ben", "GET", "/v1/users/{ann}/posts?day=2026-02-03&since="+hourAgo, "", 422, "invalid", "day"),
		bad("posts since the end", "ben", "GET", "/v1/users/{ann}/posts?since="+inAnHour+"&until="+hourAgo, "", 422, "invalid", "since"),
		bad("posts since and until the same", "ben", "GET", "/v1/users/{ann}/posts?since="+hourAgo+"&until="+hourAgo, "", 422, "invalid", "since"),
		{name: "posts since the first instant", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?limit=1&since=0001-01-01T00:00:00Z", status: 200, want: object{"items": []any{object{"id": "{free}"}}}},
		{name: "posts until the first instant", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?until=0001-01-01T00:00:00Z", status: 200, want: object{"items": []any{}}},
		bad("posts of a day and since the first instant", "ben", "GET", "/v1/users/{ann}/posts?day=2026-02-03&since=0001-01-01T00:00:00Z", "", 422, "invalid", "day"),
		bad("posts since, until the first instant", "ben", "GET", "/v1/users/{ann}/posts?since="+hourAgo+"&until=0001-01-01T00:00:00Z", "", 422, "invalid", "since"),
		{name: "posts since, in lower case", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?limit=1&since=2026-01-01t00:00:00z", status: 200, want: object{"items": []any{object{"id": "{free}"}}}},
		{name: "posts until a leap second", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?until=2016-12-31T23:59:60Z", status: 200, want: object{"items": []any{}}},
		{name: "posts since, with an offset and a fraction", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?limit=1&since=2026-01-01T00:00:00.123456789123%2B01:00", status: 200, want: object{"items": []any{object{"id": "{free}"}}}},
		bad("posts since an offset that is not escaped", "ben", "GET", "/v1/users/{ann}/posts?since=2026-01-01T00:00:00+01:00", "", 422, "invalid", "since"),
		bad("posts since a comma", "ben", "GET", "/v1/users/{ann}/posts?since=2026-01-01T00:00:00,5Z", "", 422, "invalid", "since"),
		bad("posts since and until an hour of one digit", "ben", "GET", "/v1/users/{ann}/posts?since=2026-11-25T1:00:00Z&until=2026-11-25T2:00:00Z", "", 422, "invalid", "since", "until"),
		bad("posts since second 60 in the middle of a day", "ben", "GET", "/v1/users/{ann}/posts?since=2026-11-25T12:00:60Z", "", 422, "invalid", "since"),
		bad("posts since an offset of a day", "ben", "GET", "/v1/users/{ann}/posts?since=2026-11-25T12:00:00%2B24:00", "", 422, "invalid", "since"),
		bad("posts since no time", "ben", "GET", "/v1/users/{ann}/posts?since=2026-02-03", "", 422, "invalid", "since"),

		{name: "delivery", as: "ann", method: "GET", path: "/v1/posts/{post}/delivery", status: 200, soon: true, want: object{"state": "complete", "planned": 2, "delivered": 2, "skipped": 0, "chunks_done": 1, "chunks_total": 1, "accepted_at": "*", "started_at": "*", "completed_at": "*", "attempts": "*"}},
		bad("delivery of somebody else's", "ben", "GET", "/v1/posts/{post}/delivery", "", 403, "forbidden"),

		bad("delete somebody else's", "ben", "DELETE", "/v1/posts/{gone}", "", 403, "forbidden"),
		bad("delete without a profile", "new", "DELETE", "/v1/posts/{gone}", "", 409, "profile-missing"),
		{name: "delete", as: "ann", method: "DELETE", path: "/v1/posts/{gone}", status: 204},
		bad("delete again", "ann", "DELETE", "/v1/posts/{gone}", "", 404, "not-found"),
		{name: "delivery of a deleted post", as: "ann", method: "GET", path: "/v1/posts/{gone}/delivery", status: 200, want: object{"state": "*", "accepted_at": "*"}},
		bad("post id in lower case", "ann", "GET", "/v1/posts/01arz3ndektsv4rrffq69g5fav", "", 422, "invalid", "id"),
		{name: "posts count at once", as: "ben", method: "GET", path: "/v1/users/{ann}", status: 200, want: object{"counts": object{"posts": 5}}},
	}
}

func commentRows() []row {
	return []row{
		{
			name: "comment", as: "ben", method: "POST", path: "/v1/posts/{post}/comments", body: `{"text":"first"}`, status: 201, save: "comment",
			want: object{"id": "*", "post_id": "{post}", "author_id": "{ben}", "text": "first", "created_at": "*"}, check: atLocation,
		},
		{name: "comment of 5000 characters, any Unicode", as: "ben", method: "POST", path: "/v1/posts/{weird}/comments", body: `{"text":"\ufffe\u0000` + strings.Repeat("🎺", 4998) + `"}`, status: 201, save: "trumpets", want: object{"text": "\ufffe\x00" + strings.Repeat("🎺", 4998)}},
		{name: "delete one's own comment", as: "ben", method: "DELETE", path: "/v1/posts/{weird}/comments/{trumpets}", status: 204},
		{name: "comment of the author", as: "ann", method: "POST", path: "/v1/posts/{post}/comments", body: `{"text":"second"}`, status: 201, save: "reply"},
		{name: "comments, oldest first", as: "cat", method: "GET", path: "/v1/posts/{post}/comments", status: 200, want: object{"items": []any{object{"id": "{comment}"}, object{"id": "{reply}"}}}},
		{name: "comments by user", as: "cat", method: "GET", path: "/v1/users/{ben}/comments", status: 200, soon: true, want: object{"items": []any{object{"id": "{comment}", "post_id": "{post}"}}}},
		bad("comment without a profile", "new", "POST", "/v1/posts/{post}/comments", `{"text":"c"}`, 409, "profile-missing"),
		bad("delete somebody else's comment", "cat", "DELETE", "/v1/posts/{post}/comments/{comment}", "", 403, "forbidden"),
		bad("delete a comment without a profile", "new", "DELETE", "/v1/posts/{post}/comments/{comment}", "", 409, "profile-missing"),
		{name: "post's author deletes a comment", as: "ann", method: "DELETE", path: "/v1/posts/{post}/comments/{comment}", status: 204},
		bad("delete a comment again", "ann", "DELETE", "/v1/posts/{post}/comments/{comment}", "", 404, "not-found"),
		bad("delete no comment", "ann", "DELETE", "/v1/posts/{post}/comments/{nopost}", "", 404, "not-found"),
		bad("comment id outside the grammar", "ann", "DELETE", "/v1/posts/{post}/comments/1", "", 422, "invalid", "comment"),
		{name: "deleted comment is gone", as: "cat", method: "GET", path: "/v1/posts/{post}/comments", status: 200, want: object{"items": []any{object{"id": "{reply}"}}}},
	}
}

func likeRows(target Target) []row {
	rows := []row{
		{name: "like", as: "ben", method: "PUT", path: "/v1/posts/{post}/like", status: 202},
		{name: "like again", as: "ben", method: "PUT", path: "/v1/posts/{post}/like", status: 202},
		{name: "another likes", as: "cat", method: "PUT", path: "/v1/posts/{post}/like", status: 202},
		{name: "count follows", as: "ann", method: "GET", path: "/v1/posts/{post}/likes/count", status: 200, soon: true, want: object{"count": 2, "as_of": "*"}},
		{name: "likers", as: "ann", method: "GET", path: "/v1/posts/{post}/likes", status: 200, soon: true, want: object{"items": []any{object{"user_id": "{ben}", "liked_at": "*"}, object{"user_id": "{cat}"}}}},
		{name: "like of one", as: "ann", method: "GET", path: "/v1/posts/{post}/likes/{ben}", status: 200, soon: true, want: object{"user_id": "{ben}", "liked_at": "*"}},
		bad("like of a user without one", "ann", "GET", "/v1/posts/{post}/likes/{ann}", "", 404, "not-found"),
		bad("like of an id outside the grammar", "ann", "GET", "/v1/posts/{post}/likes/.b", "", 422, "invalid", "user"),
		{name: "unlike", as: "cat", method: "DELETE", path: "/v1/posts/{post}/like", status: 202},
		{name: "count goes down", as: "ann", method: "GET", path: "/v1/posts/{post}/likes/count", status: 200, soon: true, want: object{"count": 1}},
		{name: "count of none", as: "ann", method: "GET", path: "/v1/posts/{weird}/likes/count", status: 200, want: object{"count": 0, "as_of": "*"}},
		bad("like without a profile", "new", "PUT", "/v1/posts/{post}/like", "", 409, "profile-missing"),
		bad("unlike without a profile", "new", "DELETE", "/v1/posts/{post}/like", "", 409, "profile-missing"),
		{name: "unlike what one does not like", as: "cat", method: "DELETE", path: "/v1/posts/{post}/like", status: 202},
		{name: "count stays", as: "ann", method: "GET", path: "/v1/posts/{post}/likes/count", status: 200, want: object{"count": 1}},
	}
	if !target.LikesByUser {
		return append(rows, bad("likes by user, index off", "ann", "GET", "/v1/users/{ben}/likes", "", 404, "index-off"))
	}
	return append(rows,
		row{name: "likes by user", as: "ann", method: "GET", path: "/v1/users/{ben}/likes", status: 200, soon: true, want: object{"items": []any{object{"post_id": "{post}", "liked_at": "*"}}}},
	)
}

// idRows send ids to every call that names one post or user. The ids are unknown, belong to a deleted
// post, or break the grammar.
func idRows() []row {
	var rows []row
	for _, call := range []string{
		"GET /v1/posts/%", "PATCH /v1/posts/%", "DELETE /v1/posts/%", "GET /v1/posts/%/delivery",
		"POST /v1/posts/%/comments", "DELETE /v1/posts/%/comments/{reply}", "PUT /v1/posts/%/like", "DELETE /v1/posts/%/like",
		"GET /v1/posts/%/likes/count", "GET /v1/posts/%/likes/{ben}",
		"PUT /v1/posts/%/reactions/like", "DELETE /v1/posts/%/reactions/like", "GET /v1/posts/%/reactions/count", "GET /v1/posts/%/reactions/by/{ben}",
	} {
		method, path, _ := strings.Cut(call, " ")
		body := ""
		if method == http.MethodPatch || method == http.MethodPost {
			body = `{"text":"a"}`
		}
		of := func(id string) string { return strings.ReplaceAll(path, "%", id) }
		name := strings.ReplaceAll(call, "/", ".")
		rows = append(rows,
			bad(name+" of nothing", "ann", method, of("{nopost}"), body, 404, "not-found"),
			bad(name+" outside the grammar", "ann", method, of("1"), body, 422, "invalid", "id"))
		if !strings.HasSuffix(path, "/delivery") {
			rows = append(rows, bad(name+" of a deleted post", "ann", method, of("{gone}"), body, 404, "not-found"))
		}
	}
	return rows
}

func homeRows() []row {
	ofAnn := []any{object{"post": object{"id": "{free}"}}, object{"post": object{"id": "{once}"}}, object{"post": object{"id": "{long}"}}, object{"post": object{"id": "{weird}"}},
		object{"post": object{"id": "{post}", "text": "edited"}, "author": object{"id": "{ann}", "name": "Änn 🎺", "image_url": "https://img.example/a.png"}, "like_count": 1, "liked": false}}
	return []row{
		{name: "cat follows again", as: "cat", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		{name: "home at once after a follow", as: "cat", method: "GET", path: "/v1/home", status: 200, want: object{"items": ofAnn, "next_cursor": nil}},
		{name: "home by pull", as: "cat", method: "GET", path: "/v1/home?source=pull", status: 200, want: object{"items": ofAnn}},
		{name: "home by push", as: "cat", method: "GET", path: "/v1/home?source=push&limit=3", status: 200, want: object{"items": ofAnn[:3], "next_cursor": "*"}},
		{name: "own posts in one's home", as: "ann", method: "GET", path: "/v1/home?limit=1", status: 200, want: object{"items": "*", "next_cursor": "*"}},
		{name: "a new post", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"news"}`, status: 201, save: "news"},
		{name: "is at once in its author's home", as: "ann", method: "GET", path: "/v1/home?limit=1", status: 200, want: object{"items": []any{object{"post": object{"id": "{news}"}}}}},
		{name: "and soon in a follower's", as: "cat", method: "GET", path: "/v1/home?limit=1", status: 200, soon: true, want: object{"items": []any{object{"post": object{"id": "{news}"}, "liked": false}}}},
		{name: "news by pull", as: "cat", method: "GET", path: "/v1/home?after={once}&source=pull", status: 200, want: object{"items": []any{object{"post": object{"id": "{news}"}}, object{"post": object{"id": "{free}"}}}, "next_cursor": nil, "unread": 2}},
		{name: "news, first page", as: "cat", method: "GET", path: "/v1/home?after={once}&limit=1", status: 200, want: object{"items": []any{object{"post": object{"id": "{news}"}}}, "next_cursor": "*", "unread": 2}, keep: member("cursor of news", "next_cursor")},
		{name: "news, second page", as: "cat", method: "GET", path: "/v1/home?after={once}&limit=1&cursor={cursor of news}", status: 200, want: object{"items": []any{object{"post": object{"id": "{free}"}}}, "next_cursor": nil, "unread": nil}},
		{name: "live home after an id that is none", as: "cat", method: "GET", path: "/v1/home/stream", header: headers("Last-Event-ID", "01h"), status: 400, problem: "malformed"},
		bad("cursor of news for a home", "cat", "GET", "/v1/home?cursor={cursor of news}", "", 400, "malformed"),
		bad("cursor of news after another post", "cat", "GET", "/v1/home?after={free}&cursor={cursor of news}", "", 400, "malformed"),
		{name: "no news", as: "cat", method: "GET", path: "/v1/home?after={news}", status: 200, want: object{"items": []any{}, "unread": 0}, check: hasHeader("ETag", "")},
		{name: "still no news", as: "cat", method: "GET", path: "/v1/home?after={news}", header: headers("If-None-Match", `"other", {etag}`), status: 304, check: hasHeader("ETag", "")},
		{name: "any answer is known", as: "cat", method: "GET", path: "/v1/home?after={news}", header: headers("If-None-Match", "*"), status: 304},
		{name: "known ETags on two lines", as: "cat", method: "GET", path: "/v1/home?after={news}", header: headers("If-None-Match", `"other"`, "If-None-Match", "{etag}"), status: 304},
		{name: "known ETags on two lines, the first one ours", as: "cat", method: "GET", path: "/v1/home?after={news}", header: headers("If-None-Match", `{etag},, "a,b"`, "If-None-Match", `W/"x"`), status: 304},
		{name: "no known ETag", as: "cat", method: "GET", path: "/v1/home?after={news}", header: headers("If-None-Match", "", "If-None-Match", " , "), status: 200},
		{name: "live home after two ids", as: "cat", method: "GET", path: "/v1/home/stream", header: headers("Last-Event-ID", "{news}", "Last-Event-ID", "{news}"), status: 422, problem: "invalid", fields: []string{"Last-Event-ID"}},
		{name: "news are no longer unchanged", as: "cat", method: "GET", path: "/v1/home?after={free}", header: headers("If-None-Match", "{etag}"), status: 200, want: object{"unread": 1}},
		{name: "a whole home has no ETag", as: "cat", method: "GET", path: "/v1/home", header: headers("If-None-Match", "*"), status: 200, want: object{"unread": nil}},
		bad("news after no post id", "cat", "GET", "/v1/home?after=news", "", 422, "invalid", "after"),
		bad("news after nothing", "cat", "GET", "/v1/home?after=", "", 422, "invalid", "after"),
		bad("home from elsewhere", "cat", "GET", "/v1/home?source=both", "", 422, "invalid", "source"),
	}
}

// aList is a list that listRows read.
type aList struct {
	name, as, path string
	// owner is the user or post of the list, other also has such a list, and unknown does not exist.
	owner, other, unknown string
	first, second         object
}

// listRows read every list page by page. A cursor leads to the next page of its list. All other lists
// refuse the cursor, and so does the same list of another user or with another filter.
func listRows(target Target) []row {
	ofUser := func(name, owner, other string, first, second object) aList {
		return aList{name, "ann", "/v1/users/%/" + name, owner, other, "{absent}", first, second}
	}
	ofPost := func(name string, first, second object) aList {
		return aList{name + " of a post", "ann", "/v1/posts/%/" + name, "{news}", "{free}", "{nopost}", first, second}
	}
	ben, cat := object{"user_id": "{ben}"}, object{"user_id": "{cat}"}
	lists := []aList{
		ofUser("followers", "{ann}", "{ben}", ben, cat),
		ofUser("following", "{ann}", "{ben}", ben, cat),
		ofUser("friends", "{ann}", "{ben}", ben, cat),
		ofUser("posts", "{ann}", "{ben}", object{"id": "{news}"}, object{"id": "{free}"}),
		ofUser("comments", "{ben}", "{cat}", object{"id": "{late}"}, object{"id": "{early}"}),
		ofPost("comments", object{"id": "{early}"}, object{"id": "{late}"}),
		ofPost("likes", ben, cat), ofPost("reactions", ben, cat),
		{"mutes", "ann", "/v1/me/mutes", "", "", "", ben, cat},
		{"home", "ann", "/v1/home", "", "", "", object{"post": object{"id": "{news}"}}, object{"post": object{"id": "{free}"}}},
	}
	own, rows := ownLists()
	lists = append(lists, own...)
	if target.LikesByUser {
		for _, name := range []string{"likes", "reactions"} {
			lists = append(lists, ofUser(name, "{ben}", "{cat}", object{"post_id": "{news}"}, object{"post_id": "{post}"}))
		}
	}
	rows = append(rows, []row{
		{name: "ann mutes ben", as: "ann", method: "PUT", path: "/v1/me/mutes/{ben}", status: 204},
		{name: "ann mutes cat", as: "ann", method: "PUT", path: "/v1/me/mutes/{cat}", status: 204},
		{name: "cat follows for good", as: "cat", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		{name: "and is followed", as: "ann", method: "PUT", path: "/v1/me/following/{cat}", status: 204},
		{name: "early comment", as: "ben", method: "POST", path: "/v1/posts/{news}/comments", body: `{"text":"early"}`, status: 201, save: "early"},
		{name: "late comment", as: "ben", method: "POST", path: "/v1/posts/{news}/comments", body: `{"text":"late"}`, status: 201, save: "late"},
		{name: "ben likes the news", as: "ben", method: "PUT", path: "/v1/posts/{news}/like", status: 202},
		{name: "cat likes the news", as: "cat", method: "PUT", path: "/v1/posts/{news}/like", status: 202},
	}...)
	for _, l := range lists {
		path := strings.ReplaceAll(l.path, "%", l.owner)
		rows = append(rows,
			row{name: l.name + ", all of the pages", as: l.as, method: "GET", path: path + "?limit=100", status: 200, soon: true, want: object{"next_cursor": nil}},
			row{name: l.name + ", first page", as: l.as, method: "GET", path: path + "?limit=1", status: 200, soon: true, want: object{"items": []any{l.first}, "next_cursor": "*"}, keep: member("cursor of "+l.name, "next_cursor")},
			row{name: l.name + ", second page", as: l.as, method: "GET", path: path + "?limit=1&cursor={cursor of " + l.name + "}", status: 200, soon: true, want: object{"items": []any{l.second}}},
			row{name: l.name + ", empty cursor", as: l.as, method: "GET", path: path + "?limit=1&cursor=", status: 200, want: object{"items": []any{l.first}}},
			bad(l.name+", cursor made up", l.as, "GET", path+"?cursor=AAAA", "", 400, "malformed"),
			bad(l.name+", cursor changed", l.as, "GET", path+"?cursor={cursor of "+l.name+"}A", "", 400, "malformed"),
			bad(l.name+", limit 0", l.as, "GET", path+"?limit=0", "", 422, "invalid", "limit"),
			bad(l.name+", limit 101", l.as, "GET", path+"?limit=101", "", 422, "invalid", "limit"),
			bad(l.name+", limit not a number", l.as, "GET", path+"?limit=1.5", "", 422, "invalid", "limit"),
			bad(l.name+", unknown parameter", l.as, "GET", path+"?page=2", "", 422, "invalid", "page"))
		elsewhere, as := strings.ReplaceAll(l.path, "%", l.other), "ben" // a home belongs to its reader
		if l.owner != "" {
			as = l.as
			rows = append(rows,
				bad(l.name+" of nobody", as, "GET", strings.ReplaceAll(l.path, "%", l.unknown), "", 404, "not-found"),
				bad(l.name+" outside the grammar", as, "GET", strings.ReplaceAll(l.path, "%", ".b"), "", 422, "invalid", "id"))
		}
		rows = append(rows, bad(l.name+", cursor of somebody else's", as, "GET", elsewhere+"?cursor={cursor of "+l.name+"}", "", 400, "malformed"))
	}
	for _, l := range lists { // by now the rows have kept all cursors
		for _, from := range lists {
			if l.name != from.name || l.path != from.path {
				rows = append(rows, bad(l.name+", cursor of "+from.name, l.as, "GET", strings.ReplaceAll(l.path, "%", l.owner)+"?cursor={cursor of "+from.name+"}", "", 400, "malformed"))
			}
		}
	}
	return append(rows,
		bad("posts of a day, cursor of all", "ann", "GET", "/v1/users/{ann}/posts?day={day}&cursor={cursor of posts}", "", 400, "malformed"),
		bad("posts since, cursor of all", "ann", "GET", "/v1/users/{ann}/posts?since={time}&cursor={cursor of posts}", "", 400, "malformed"),
		bad("posts until, cursor of all", "ann", "GET", "/v1/users/{ann}/posts?until={time}&cursor={cursor of posts}", "", 400, "malformed"),
		row{name: "home by pull goes on where push ended", as: "ann", method: "GET", path: "/v1/home?source=pull&limit=1&cursor={cursor of home}", status: 200, want: object{"items": []any{object{"post": object{"id": "{free}"}}}}},
		bad("likes of a deleted post", "ann", "GET", "/v1/posts/{gone}/likes", "", 404, "not-found"),
		bad("comments of a deleted post", "ann", "GET", "/v1/posts/{gone}/comments", "", 404, "not-found"),
	)
}

// bodyRows send each possible fault of a body to each of the other calls with a body.
func bodyRows(target Target) []row {
	type call struct {
		name, method, path string
		// required is the field that the body must have, "" for none.
		required string
		most     int
	}
	calls := []call{
		{"profile", "PUT", "/v1/me", "name", 100},
		{"post", "POST", "/v1/posts", "text", 5000}, // an image or data may stand in for the text
		{"edit", "PATCH", "/v1/posts/{free}", "", 5000},
		{"marker", "PUT", "/v1/me/markers/body", "position", 128},
		{"comment", "POST", "/v1/posts/{free}/comments", "text", 5000},
	}
	var rows []row
	for _, c := range calls {
		field, missing := c.required, c.required
		if field == "" {
			field, missing = "text", "body"
		}
		fault := func(name, body string, status int, problem string, fields ...string) {
			rows = append(rows, bad("body of "+c.name+", "+name, "ann", c.method, c.path, body, status, problem, fields...))
		}
		with := func(value string) string { return `{"` + field + `":` + value + `}` }
		fault("nothing in it", `{}`, 422, "invalid", missing)
		fault("empty", with(`""`), 422, "invalid", field)
		fault("null", with(`null`), 422, "invalid", field)
		fault("too long", with(`"`+strings.Repeat("ä", c.most+1)+`"`), 422, "invalid", field)
		fault("number", with(`1`), 422, "invalid", field)
		fault("number beyond any", with(`1e999`), 422, "invalid", field)
		fault("list", with(`["a"]`), 422, "invalid", field)
		fault("object", with(`{}`), 422, "invalid", field)
		fault("unknown field", `{"`+field+`":"a","id":"x"}`, 422, "invalid", "id")
		fault("field twice", `{"`+field+`":"a","`+field+`":"b"}`, 422, "invalid", field)
		fault("no object", `"a"`, 422, "invalid", "body")
		fault("half", `{"`+field+`":`, 400, "malformed")
		fault("none", "", 400, "malformed")
		fault("not UTF-8", "{\"text\":\"\xff\"}", 400, "malformed")
		fault("surrogate alone", with(`"\ud83d"`), 400, "malformed")
		fault("field twice below", `{"`+field+`":{"a":1,"a":2}}`, 422, "invalid", field+".a")
		fault("65537 bytes", full(65537), 413, "too-large")
		rows = append(rows, row{name: "body of " + c.name + ", 65537 bytes chunked", as: "ann", method: c.method, path: c.path, header: headers("Transfer-Encoding", "chunked"), body: full(65537), status: 413, problem: "too-large"})
		switch c.name {
		case "profile":
			image := func(url string) string { return `{"` + field + `":"a","image_url":"` + url + `"}` }
			fault("image not http", image("ftp://x/y"), 422, "invalid", "image_url")
			fault("image too long", image("https://x/"+strings.Repeat("a", 2039)), 422, "invalid", "image_url")
		case "post", "edit":
			for _, f := range imageFaults() {
				fault(f.name, `{"`+field+`":"a","images":`+f.images+`}`, 422, "invalid", f.field)
			}
		}
	}
	// A call without a request body ignores a body up to the limit.
	for _, c := range []call{
		{name: "like", method: "PUT", path: "/v1/posts/{free}/like"},
		{name: "unlike", method: "DELETE", path: "/v1/posts/{free}/like"},
		{name: "follow", method: "PUT", path: "/v1/me/following/{ben}"},
		{name: "unfollow", method: "DELETE", path: "/v1/me/following/{ben}"},
		{name: "delete", method: "DELETE", path: "/v1/posts/{free}"},
		{name: "home", method: "GET", path: "/v1/home"},
	} {
		chunked := headers("Transfer-Encoding", "chunked")
		rows = append(rows,
			bad("body of "+c.name+", 65537 bytes", "ann", c.method, c.path, full(65537), 413, "too-large"),
			row{name: "body of " + c.name + ", 65537 bytes chunked", as: "ann", method: c.method, path: c.path, header: chunked, body: full(65537), status: 413, problem: "too-large"})
	}
	rows = append(rows,
		row{name: "body of unlike, half an object", as: "ann", method: "DELETE", path: "/v1/posts/{free}/like", body: `{"a`, status: 202},
		row{name: "body of unlike, 65536 bytes", as: "ann", method: "DELETE", path: "/v1/posts/{free}/like", body: full(65536), status: 202},
		row{name: "body of unlike, 65536 bytes chunked", as: "ann", method: "DELETE", path: "/v1/posts/{free}/like", header: headers("Transfer-Encoding", "chunked"), body: full(65536), status: 202})
	if target.DevTokens {
		rows = append(rows, bad("body of dev token, 65537 bytes", "", "POST", "/v1/dev/token", full(65537), 413, "too-large"))
	}
	rows = append(rows,
		row{name: "make a user to delete", as: "zoe", method: "PUT", path: "/v1/me", body: `{"name":"Zoe"}`, status: 200},
		row{name: "delete yourself", as: "zoe", method: "DELETE", path: "/v1/me", status: 202},
		bad("own profile after that", "zoe", "GET", "/v1/me", "", 409, "profile-missing"),
		bad("profile of a deleted user", "ann", "GET", "/v1/users/{zoe}", "", 404, "not-found"),
		row{name: "delete yourself again", as: "zoe", method: "DELETE", path: "/v1/me", status: 202})
	// No refused request has changed anything.
	return append(rows,
		row{name: "own profile is as it was", as: "ann", method: "GET", path: "/v1/me", status: 200, want: object{"name": "Änn 🎺", "counts": object{"posts": 6}}},
		row{name: "the post is as it was", as: "ann", method: "GET", path: "/v1/posts/{free}", status: 200, want: object{"text": "free", "edited_at": nil}},
		row{name: "and has no comments", as: "ann", method: "GET", path: "/v1/posts/{free}/comments", status: 200, want: object{"items": []any{}}})
}

func protocolRows() []row {
	token := func(value string) http.Header { return headers("Authorization", value) }
	none := "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ."
	rows := []row{
		bad("no token", "", "GET", "/v1/me", "", 401, "unauthenticated"),
		{name: "refusal asks for a token", method: "GET", path: "/v1/home", status: 401, problem: "unauthenticated", check: hasHeader("WWW-Authenticate", "")},
		{name: "token of nonsense", method: "GET", path: "/v1/me", header: token("Bearer x.y.z"), status: 401, problem: "unauthenticated", check: hasHeader("WWW-Authenticate", "")},
		{name: "token unsigned", method: "GET", path: "/v1/me", header: token("Bearer " + none), status: 401, problem: "unauthenticated"},
		{name: "token in another scheme", method: "GET", path: "/v1/me", header: token("Basic YTpi"), status: 401, problem: "unauthenticated"},
		{name: "token in the query", method: "GET", path: "/v1/me?access_token=" + none, status: 401, problem: "unauthenticated"},
		bad("strangers learn nothing of bodies", "", "POST", "/v1/posts", `{`, 401, "unauthenticated"),
		bad("no such route", "ann", "GET", "/v1/nothing", "", 404, "not-found"),
		bad("no such route, no token", "", "GET", "/nothing", "", 404, "not-found"),
		bad("slash at the end", "ann", "GET", "/v1/me/", "", 404, "not-found"),
		bad("empty id", "ann", "GET", "/v1/users//posts", "", 404, "not-found"),
		bad("path with dots", "ann", "GET", "/v1/users/../me", "", 404, "not-found"),
		{name: "method", as: "ann", method: "POST", path: "/v1/me", body: "{}", status: 405, problem: "method-not-allowed", check: hasHeader("Allow", "DELETE, GET, HEAD, PUT")},
		{name: "method of a post", as: "ann", method: "PUT", path: "/v1/posts/{post}", status: 405, problem: "method-not-allowed", check: hasHeader("Allow", "DELETE, GET, HEAD, PATCH")},
		{name: "preflight without CORS", method: "OPTIONS", path: "/v1/me", header: headers("Origin", "https://a.example", "Access-Control-Request-Method", "GET"), status: 405, problem: "method-not-allowed"},
		{name: "request id comes back", as: "ann", method: "GET", path: "/v1/me", header: headers("X-Request-Id", "req-1"), status: 200, check: hasHeader("X-Request-Id", "req-1")},
		{name: "request id that is no id", as: "ann", method: "GET", path: "/v1/me", header: headers("X-Request-Id", "a b"), status: 200, check: func(t *testing.T, res *response) {
			t.Helper()
			assert.NotEqual(t, "a b", res.header.Get("X-Request-Id"), "the request id was taken over")
		}},
		{name: "alive", method: "GET", path: "/healthz", status: 200, want: object{"status": "ok"}},
		{name: "serving", method: "GET", path: "/servez", status: 200, want: object{"status": "serving"}},
		{name: "ready", method: "GET", path: "/readyz", status: 200, want: object{"status": "ready"}},
		{name: "openapi document", method: "GET", path: "/openapi.json", status: 200, want: object{"openapi": "3.1.0", "paths": "*"}},
		{name: "docs page", method: "GET", path: "/docs", status: 200},
	}
	return rows
}

// strangerRows send each call that has an answer without its token.
func strangerRows(rows []row) (all []row) {
	named, seen := regexp.MustCompile(`\{[^}]*\}`), map[string]bool{}
	for _, r := range append(rows, row{as: "ann", method: "GET", path: "/v1/home/stream"}) {
		path, _, _ := strings.Cut(r.path, "?")
		call := r.method + " " + named.ReplaceAllString(path, "{}")
		if r.as == "" || r.status >= 300 || r.method == "HEAD" || !strings.HasPrefix(path, "/v1/") || seen[call] {
			continue
		}
		seen[call] = true
		all = append(all, bad("stranger "+strings.ReplaceAll(call, "/", "."), "", r.method, r.path, "", 401, "unauthenticated"))
	}
	return all
}

// serviceRows are calls of a service that names a user in a header. ben's id is the id of an identity
// provider.
func serviceRows() []row {
	acting := func(name, as, user, method, path, body string, status int) row {
		return row{name: "acting, " + name, as: as, method: method, path: path, body: body, header: headers("Fanfare-User", user), status: status}
	}
	refused := func(name, as, user string, status int, problem string, fields ...string) row {
		r := acting(name, as, user, "GET", "/v1/me", "", status)
		r.problem, r.fields = problem, fields
		return r
	}
	read := acting("read", "service", "{ben}", "GET", "/v1/me", "", 200)
	read.want = object{"id": "{ben}"}
	post := acting("post", "service", "{ben}", "POST", "/v1/posts", `{"text":"for ben"}`, 201)
	post.want, post.save = object{"author_id": "{ben}"}, "acted"
	forbidden := acting("delete a user without the scope for it", "service", "{sam}", "DELETE", "/v1/me", "", 403)
	forbidden.problem = "forbidden"
	gone := acting("and the user is gone", "service", "{sam}", "GET", "/v1/me", "", 409)
	gone.problem = "profile-missing"
	return []row{
		read, post,
		acting("delete", "service", "{ben}", "DELETE", "/v1/posts/{acted}", "", 204),
		acting("make a user", "service", "{sam}", "PUT", "/v1/me", `{"name":"Sam"}`, 200),
		forbidden,
		acting("the user is still there", "service", "{sam}", "GET", "/v1/me", "", 200),
		acting("delete a user with the scope", "deleter", "{sam}", "DELETE", "/v1/me", "", 202),
		gone,
		refused("a user without a profile", "service", "{absent}", 409, "profile-missing"),
		refused("not a user id", "service", "a b", 422, "invalid", "Fanfare-User"),
		refused("without the scope", "ann", "{ben}", 403, "forbidden"),
		refused("without the scope for oneself", "ann", "{ann}", 403, "forbidden"),
		refused("without a token", "", "{ben}", 401, "unauthenticated"),
	}
}

// lastRows change the items that all other rows read.
func lastRows(target Target) []row {
	home := func(posts ...string) object {
		var items []any
		for _, post := range posts {
			items = append(items, object{"post": object{"id": "{" + post + "}"}})
		}
		return object{"items": items, "next_cursor": nil}
	}
	rows := []row{
		{name: "a follower's home before", as: "ben", method: "GET", path: "/v1/home", status: 200, soon: true, want: home("news", "free", "mine", "once", "chunked", "full", "long", "weird", "post")},
		{name: "delete a post with a key", as: "ann", method: "DELETE", path: "/v1/posts/{once}", status: 204},
		{name: "its key still answers", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-1"), body: `{"text":"once"}`, status: 201, want: object{"id": "{once}"}},
		bad("but it is gone", "ann", "GET", "/v1/posts/{once}", "", 404, "not-found"),
		{name: "delete a post with likes and comments", as: "ann", method: "DELETE", path: "/v1/posts/{post}", status: 204},
		{name: "deleted posts leave a follower's home at once", as: "ben", method: "GET", path: "/v1/home", status: 200, want: home("news", "free", "mine", "chunked", "full", "long", "weird")},
		{name: "and its home by pull", as: "ben", method: "GET", path: "/v1/home?source=pull", status: 200, want: home("news", "free", "mine", "chunked", "full", "long", "weird")},
		{name: "and their author's posts", as: "ben", method: "GET", path: "/v1/users/{ann}/posts", status: 200, want: object{"items": []any{object{"id": "{news}"}, object{"id": "{free}"}, object{"id": "{long}"}, object{"id": "{weird}"}}}},
		{name: "their comments leave comments by user", as: "ben", method: "GET", path: "/v1/users/{ann}/comments", status: 200, soon: true, want: object{"items": []any{}}},
	}
	if target.LikesByUser {
		rows = append(rows, row{name: "their likes leave likes by user", as: "ann", method: "GET", path: "/v1/users/{ben}/likes", status: 200, soon: true, want: object{"items": []any{object{"post_id": "{news}"}}, "next_cursor": nil}})
	}
	return rows
}
