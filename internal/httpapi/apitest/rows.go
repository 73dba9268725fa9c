package apitest

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

type object = map[string]any

// full is a body of exactly the largest size, whose padding is behind the object.
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

func tokenRows(target Target) []row {
	if !target.DevTokens {
		return []row{bad("dev token, not there", "", "POST", "/v1/dev/token", `{"user_id":"{ann}"}`, 404, "not-found")}
	}
	return []row{
		{name: "dev token", method: "POST", path: "/v1/dev/token", body: `{"user_id":"{ann}","ttl_s":60}`, status: 200, want: object{"token": "*", "expires_at": "*"}},
		bad("dev token, no user", "", "POST", "/v1/dev/token", `{}`, 422, "invalid", "user_id"),
		bad("dev token, user id outside the grammar", "", "POST", "/v1/dev/token", `{"user_id":"a b"}`, 422, "invalid", "user_id"),
		bad("dev token, user id too long", "", "POST", "/v1/dev/token", `{"user_id":"`+strings.Repeat("u", 65)+`"}`, 422, "invalid", "user_id"),
		bad("dev token, ttl of 0", "", "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":0}`, 422, "invalid", "ttl_s"),
		bad("dev token, ttl too long", "", "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":1e15}`, 422, "invalid", "ttl_s"),
		bad("dev token, ttl beyond any number", "", "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":1e999}`, 422, "invalid", "ttl_s"),
		bad("dev token, ttl not whole", "", "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":1.5}`, 422, "invalid", "ttl_s"),
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
		profile("ann", "Ann"), profile("ben", "Ben"), profile("cat", "Cat"),
		{
			name: "change profile", as: "ann", method: "PUT", path: "/v1/me", body: `{"name":"Änn 🎺","bio":"b","image_url":"https://img.example/a.png"}`, status: 200,
			want: object{"name": "Änn 🎺", "bio": "b", "image_url": "https://img.example/a.png"},
		},
		{name: "own profile", as: "ann", method: "GET", path: "/v1/me", status: 200, want: object{"id": "{ann}", "name": "Änn 🎺"}},
		{name: "profile", as: "ben", method: "GET", path: "/v1/users/{ann}", status: 200, want: object{"id": "{ann}", "counts": object{"followers": 0, "following": 0, "posts": 0}}},
		bad("profile without name", "ann", "PUT", "/v1/me", `{}`, 422, "invalid", "name"),
		bad("profile, empty name", "ann", "PUT", "/v1/me", `{"name":""}`, 422, "invalid", "name"),
		bad("profile, null", "ann", "PUT", "/v1/me", `{"name":null,"bio":null}`, 422, "invalid", "bio", "name"),
		bad("profile, everything too long", "ann", "PUT", "/v1/me", `{"name":"`+strings.Repeat("ä", 101)+`","bio":"`+strings.Repeat("ä", 501)+`","image_url":"http://x/`+strings.Repeat("a", 2048)+`"}`, 422, "invalid", "bio", "image_url", "name"),
		bad("profile, wrong types", "ann", "PUT", "/v1/me", `{"name":1,"bio":[],"image_url":{}}`, 422, "invalid", "bio", "image_url", "name"),
		bad("profile, image not http", "ann", "PUT", "/v1/me", `{"name":"A","image_url":"ftp://x/y"}`, 422, "invalid", "image_url"),
		bad("profile, unknown field", "ann", "PUT", "/v1/me", `{"name":"A","admin":true}`, 422, "invalid", "admin"),
		bad("profile, other spelling", "ann", "PUT", "/v1/me", `{"Name":"A"}`, 422, "invalid", "Name", "name"),
		bad("profile, field twice", "ann", "PUT", "/v1/me", `{"name":"A","name":"B"}`, 422, "invalid", "name"),
		bad("unknown profile", "ann", "GET", "/v1/users/{absent}", "", 404, "not-found"),
		bad("profile, id outside the grammar", "ann", "GET", "/v1/users/a.b", "", 422, "invalid", "id"),
		bad("profile, id with a slash", "ann", "GET", "/v1/users/a%2Fb", "", 422, "invalid", "id"),

		{name: "follow", as: "ben", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		{name: "follow again", as: "ben", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		{name: "follow back", as: "ann", method: "PUT", path: "/v1/me/following/{ben}", status: 204},
		{name: "third follows", as: "cat", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		bad("follow oneself", "ann", "PUT", "/v1/me/following/{ann}", "", 422, "invalid", "id"),
		bad("follow nobody", "ann", "PUT", "/v1/me/following/{absent}", "", 404, "not-found"),
		bad("follow outside the grammar", "ann", "PUT", "/v1/me/following/a%20b", "", 422, "invalid", "id"),
		bad("follow without a profile", "new", "PUT", "/v1/me/following/{ann}", "", 409, "profile-missing"),
		{name: "unfollow who is not followed", as: "cat", method: "DELETE", path: "/v1/me/following/{ben}", status: 204},
		{name: "counts follow at once", as: "cat", method: "GET", path: "/v1/users/{ann}", status: 200, want: object{"counts": object{"followers": 2, "following": 1, "posts": 0}}},
		{name: "followers", as: "cat", method: "GET", path: "/v1/users/{ann}/followers", status: 200, want: object{"items": []any{object{"user_id": "{ben}", "since": "*"}, object{"user_id": "{cat}"}}, "next_cursor": nil}},
		{name: "following", as: "cat", method: "GET", path: "/v1/users/{ann}/following", status: 200, want: object{"items": []any{object{"user_id": "{ben}", "since": "*"}}}},
		{name: "friends", as: "cat", method: "GET", path: "/v1/users/{ann}/friends?limit=100", status: 200, want: object{"items": []any{object{"user_id": "{ben}", "since": "*"}}}},
		{name: "nobody follows", as: "ann", method: "GET", path: "/v1/users/{cat}/followers", status: 200, want: object{"items": []any{}}},
		{name: "relationship", as: "cat", method: "GET", path: "/v1/users/{cat}/relationships/{ann}", status: 200, want: object{"following": true, "followed_by": false, "friends": false}},
		{name: "relationship of friends", as: "cat", method: "GET", path: "/v1/users/{ann}/relationships/{ben}", status: 200, want: object{"following": true, "followed_by": true, "friends": true}},
		bad("relationship, id outside the grammar", "ann", "GET", "/v1/users/{ann}/relationships/a.b", "", 422, "invalid", "other"),
		bad("followers of nobody", "ann", "GET", "/v1/users/{absent}/followers", "", 404, "not-found"),
		bad("list, limit 0", "ann", "GET", "/v1/users/{ann}/followers?limit=0", "", 422, "invalid", "limit"),
		bad("list, limit 101", "ann", "GET", "/v1/users/{ann}/followers?limit=101", "", 422, "invalid", "limit"),
		bad("list, limit not a number", "ann", "GET", "/v1/users/{ann}/followers?limit=ten", "", 422, "invalid", "limit"),
		bad("list, limit empty", "ann", "GET", "/v1/users/{ann}/followers?limit=", "", 422, "invalid", "limit"),
		bad("list, limit huge", "ann", "GET", "/v1/users/{ann}/followers?limit=99999999999999999999", "", 422, "invalid", "limit"),
		bad("list, unknown parameter", "ann", "GET", "/v1/users/{ann}/followers?page=2", "", 422, "invalid", "page"),
		bad("list, parameter twice", "ann", "GET", "/v1/users/{ann}/followers?limit=1&limit=2", "", 422, "invalid", "limit"),
		bad("list, cursor made up", "ann", "GET", "/v1/users/{ann}/followers?cursor=abc", "", 400, "malformed"),
		bad("list, query not well-formed", "ann", "GET", "/v1/users/{ann}/followers?limit=%zz", "", 400, "malformed"),
		{name: "unfollow", as: "cat", method: "DELETE", path: "/v1/me/following/{ann}", status: 204},
		{name: "counts unfollow at once", as: "cat", method: "GET", path: "/v1/users/{ann}", status: 200, want: object{"counts": object{"followers": 1}}},
	}
}

func postRows() []row {
	day := time.Now().UTC()
	yesterday := day.AddDate(0, 0, -1).Format(time.DateOnly)
	hourAgo, inAnHour := day.Add(-time.Hour).Format(time.RFC3339), day.Add(time.Hour).Format(time.RFC3339)
	weird := `n\u0000l \ufffe \uffff עברית \ud83d\ude00 🎺`
	return []row{
		{
			name: "post", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"hello","image_url":"http://img.example/p"}`, status: 201, save: "post",
			want:  object{"id": "*", "author_id": "{ann}", "text": "hello", "image_url": "http://img.example/p", "created_at": "*", "edited_at": nil},
			check: hasHeader("Location", ""),
		},
		{name: "post is there", as: "ben", method: "GET", path: "/v1/posts/{post}", status: 200, want: object{"id": "{post}", "text": "hello", "author_id": "{ann}"}},
		{name: "post by HEAD", as: "ben", method: "HEAD", path: "/v1/posts/{post}", status: 200},
		{name: "post any Unicode", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"` + weird + `"}`, status: 201, save: "weird", want: object{"text": "n\x00l \ufffe \uffff עברית 😀 🎺"}},
		{name: "any Unicode comes back", as: "ben", method: "GET", path: "/v1/posts/{weird}", status: 200, want: object{"text": "n\x00l \ufffe \uffff עברית 😀 🎺"}},
		{name: "post of 5000 characters", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"` + strings.Repeat("ä", 5000) + `"}`, status: 201, save: "long"},
		{name: "body of 65536 bytes", as: "ben", method: "POST", path: "/v1/posts", body: full(65536), status: 201, want: object{"text": "full"}},
		{name: "body of 65536 bytes, chunked", as: "ben", method: "POST", path: "/v1/posts", header: headers("Transfer-Encoding", "chunked"), body: full(65536), status: 201},
		bad("body of 65537 bytes", "ben", "POST", "/v1/posts", full(65537), 413, "too-large"),
		{name: "body of 65537 bytes, chunked", as: "ben", method: "POST", path: "/v1/posts", header: headers("Transfer-Encoding", "chunked"), body: full(65537), status: 413, problem: "too-large"},
		bad("post without text", "ann", "POST", "/v1/posts", `{}`, 422, "invalid", "text"),
		bad("post of nothing", "ann", "POST", "/v1/posts", `{"text":""}`, 422, "invalid", "text"),
		bad("post of 5001 characters", "ann", "POST", "/v1/posts", `{"text":"`+strings.Repeat("ä", 5001)+`"}`, 422, "invalid", "text"),
		bad("post, several faults", "ann", "POST", "/v1/posts", `{"text":null,"image_url":"javascript:x","id":"x"}`, 422, "invalid", "id", "image_url", "text"),
		bad("post a list", "ann", "POST", "/v1/posts", `[1]`, 422, "invalid", "body"),
		bad("post half a body", "ann", "POST", "/v1/posts", `{"text":`, 400, "malformed"),
		bad("post two bodies", "ann", "POST", "/v1/posts", `{"text":"a"}{"text":"b"}`, 400, "malformed"),
		bad("post without a body", "ann", "POST", "/v1/posts", "", 400, "malformed"),
		bad("post, not UTF-8", "ann", "POST", "/v1/posts", "{\"text\":\"\xff\xfe\"}", 400, "malformed"),
		bad("post, UTF-8 of a surrogate", "ann", "POST", "/v1/posts", "{\"text\":\"\xed\xa0\x80\"}", 400, "malformed"),
		bad("post, high surrogate alone", "ann", "POST", "/v1/posts", `{"text":"\ud83d"}`, 400, "malformed"),
		bad("post, low surrogate alone", "ann", "POST", "/v1/posts", `{"text":"\ude00x"}`, 400, "malformed"),
		bad("post, surrogates the wrong way", "ann", "POST", "/v1/posts", `{"text":"\ude00\ud83d"}`, 400, "malformed"),
		{name: "post, another media type", as: "ann", method: "POST", path: "/v1/posts", header: headers("Content-Type", "text/plain"), body: `{"text":"a"}`, status: 415, problem: "unsupported-media-type"},
		{name: "post, media type with a charset", as: "ann", method: "POST", path: "/v1/posts", header: headers("Content-Type", "application/json; charset=utf-8"), body: `{"text":"charset"}`, status: 201, save: "gone"},
		bad("post without a profile", "new", "POST", "/v1/posts", `{"text":"a"}`, 409, "profile-missing"),

		{name: "post with a key", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-1"), body: `{"text":"once"}`, status: 201, save: "once"},
		{name: "post with the key again", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-1"), body: `{"text":"once"}`, status: 201, want: object{"id": "{once}"}},
		{name: "key with another body", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-1"), body: `{"text":"twice"}`, status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},
		{name: "the same key of another user", as: "ben", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-1"), body: `{"text":"mine"}`, status: 201, want: object{"author_id": "{ben}"}},
		{name: "a refused body does not bind the key", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-2"), body: `{"text":""}`, status: 422, problem: "invalid", fields: []string{"text"}},
		{name: "so the key is free", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-2"), body: `{"text":"free"}`, status: 201, save: "free"},
		{name: "key too long", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", strings.Repeat("k", 256)), body: `{"text":"a"}`, status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},
		{name: "key empty", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", ""), body: `{"text":"a"}`, status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},
		{name: "key with a space", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "a b"), body: `{"text":"a"}`, status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},

		{name: "edit", as: "ann", method: "PATCH", path: "/v1/posts/{post}", body: `{"text":"edited"}`, status: 200, want: object{"text": "edited", "image_url": "http://img.example/p", "edited_at": "*"}},
		{name: "edit image alone", as: "ann", method: "PATCH", path: "/v1/posts/{post}", body: `{"image_url":""}`, status: 200, want: object{"text": "edited", "image_url": ""}},
		bad("edit nothing", "ann", "PATCH", "/v1/posts/{post}", `{}`, 422, "invalid", "body"),
		bad("edit to nothing", "ann", "PATCH", "/v1/posts/{post}", `{"text":""}`, 422, "invalid", "text"),
		bad("edit with null", "ann", "PATCH", "/v1/posts/{post}", `{"text":null}`, 422, "invalid", "text"),
		bad("edit somebody else's", "ben", "PATCH", "/v1/posts/{post}", `{"text":"mine now"}`, 403, "forbidden"),
		bad("edit without a profile", "new", "PATCH", "/v1/posts/{post}", `{"text":"mine now"}`, 409, "profile-missing"),
		bad("edit what is not there", "ann", "PATCH", "/v1/posts/{nopost}", `{"text":"a"}`, 404, "not-found"),

		{name: "posts by user", as: "ben", method: "GET", path: "/v1/users/{ann}/posts", status: 200, want: object{"items": []any{object{"id": "{free}"}, object{"id": "{once}"}, object{"id": "{gone}"}, object{"id": "{long}"}, object{"id": "{weird}"}, object{"id": "{post}", "text": "edited"}}}},
		{name: "posts by user, a page", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?limit=2", status: 200, want: object{"items": []any{object{"id": "{free}"}, object{"id": "{once}"}}, "next_cursor": "*"}},
		{name: "posts since and until", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?since=" + hourAgo + "&until=" + inAnHour + "&limit=1", status: 200, want: object{"items": []any{object{"id": "{free}"}}}},
		{name: "posts until an hour ago", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?until=" + hourAgo, status: 200, want: object{"items": []any{}}},
		{name: "posts of yesterday", as: "ben", method: "GET", path: "/v1/users/{cat}/posts?day=" + yesterday, status: 200, want: object{"items": []any{}}},
		bad("posts of no day", "ben", "GET", "/v1/users/{ann}/posts?day=2026-02-30", "", 422, "invalid", "day"),
		bad("posts of a day in words", "ben", "GET", "/v1/users/{ann}/posts?day=today", "", 422, "invalid", "day"),
		bad("posts of a day and since", "ben", "GET", "/v1/users/{ann}/posts?day=2026-02-03&since="+hourAgo, "", 422, "invalid", "day"),
		bad("posts since the end", "ben", "GET", "/v1/users/{ann}/posts?since="+inAnHour+"&until="+hourAgo, "", 422, "invalid", "since"),
		bad("posts since and until the same", "ben", "GET", "/v1/users/{ann}/posts?since="+hourAgo+"&until="+hourAgo, "", 422, "invalid", "since"),
		{name: "posts since the first instant", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?limit=1&since=0001-01-01T00:00:00Z", status: 200, want: object{"items": []any{object{"id": "{free}"}}}},
		{name: "posts until the first instant", as: "ben", method: "GET", path: "/v1/users/{ann}/posts?until=0001-01-01T00:00:00Z", status: 200, want: object{"items": []any{}}},
		bad("posts of a day and since the first instant", "ben", "GET", "/v1/users/{ann}/posts?day=2026-02-03&since=0001-01-01T00:00:00Z", "", 422, "invalid", "day"),
		bad("posts since, until the first instant", "ben", "GET", "/v1/users/{ann}/posts?since="+hourAgo+"&until=0001-01-01T00:00:00Z", "", 422, "invalid", "since"),
		bad("posts since no time", "ben", "GET", "/v1/users/{ann}/posts?since=2026-02-03", "", 422, "invalid", "since"),
		bad("posts of nobody", "ben", "GET", "/v1/users/{absent}/posts", "", 404, "not-found"),

		{name: "delivery", as: "ann", method: "GET", path: "/v1/posts/{post}/delivery", status: 200, soon: true, want: object{"state": "complete", "planned": 2, "delivered": 2, "chunks_done": 1, "chunks_total": 1, "accepted_at": "*", "started_at": "*", "completed_at": "*", "attempts": "*"}},
		bad("delivery of somebody else's", "ben", "GET", "/v1/posts/{post}/delivery", "", 403, "forbidden"),
		bad("delivery of nothing", "ann", "GET", "/v1/posts/{nopost}/delivery", "", 404, "not-found"),

		bad("delete somebody else's", "ben", "DELETE", "/v1/posts/{gone}", "", 403, "forbidden"),
		bad("delete without a profile", "new", "DELETE", "/v1/posts/{gone}", "", 409, "profile-missing"),
		{name: "delete", as: "ann", method: "DELETE", path: "/v1/posts/{gone}", status: 204},
		bad("delete again", "ann", "DELETE", "/v1/posts/{gone}", "", 404, "not-found"),
		bad("deleted post", "ann", "GET", "/v1/posts/{gone}", "", 404, "not-found"),
		{name: "delivery of a deleted post", as: "ann", method: "GET", path: "/v1/posts/{gone}/delivery", status: 200, want: object{"state": "*", "accepted_at": "*"}},
		bad("edit a deleted post", "ann", "PATCH", "/v1/posts/{gone}", `{"text":"a"}`, 404, "not-found"),
		bad("post that never was", "ann", "GET", "/v1/posts/{nopost}", "", 404, "not-found"),
		bad("post id outside the grammar", "ann", "GET", "/v1/posts/1", "", 422, "invalid", "id"),
		bad("post id in lower case", "ann", "GET", "/v1/posts/01arz3ndektsv4rrffq69g5fav", "", 422, "invalid", "id"),
		{name: "posts count at once", as: "ben", method: "GET", path: "/v1/users/{ann}", status: 200, want: object{"counts": object{"posts": 5}}},
	}
}

func commentRows() []row {
	return []row{
		{
			name: "comment", as: "ben", method: "POST", path: "/v1/posts/{post}/comments", body: `{"text":"first"}`, status: 201, save: "comment",
			want: object{"id": "*", "post_id": "{post}", "author_id": "{ben}", "text": "first", "created_at": "*"}, check: hasHeader("Location", ""),
		},
		{name: "comment of the author", as: "ann", method: "POST", path: "/v1/posts/{post}/comments", body: `{"text":"second"}`, status: 201, save: "reply"},
		{name: "comments, oldest first", as: "cat", method: "GET", path: "/v1/posts/{post}/comments", status: 200, want: object{"items": []any{object{"id": "{comment}"}, object{"id": "{reply}"}}}},
		{name: "comments by user", as: "cat", method: "GET", path: "/v1/users/{ben}/comments", status: 200, soon: true, want: object{"items": []any{object{"id": "{comment}", "post_id": "{post}"}}}},
		bad("comment of nothing", "ben", "POST", "/v1/posts/{post}/comments", `{"text":""}`, 422, "invalid", "text"),
		bad("comment too long", "ben", "POST", "/v1/posts/{post}/comments", `{"text":"`+strings.Repeat("c", 5001)+`"}`, 422, "invalid", "text"),
		bad("comment on a deleted post", "ben", "POST", "/v1/posts/{gone}/comments", `{"text":"c"}`, 404, "not-found"),
		bad("comment on nothing", "ben", "POST", "/v1/posts/{nopost}/comments", `{"text":"c"}`, 404, "not-found"),
		bad("comment without a profile", "new", "POST", "/v1/posts/{post}/comments", `{"text":"c"}`, 409, "profile-missing"),
		bad("comments of a deleted post", "ben", "GET", "/v1/posts/{gone}/comments", "", 404, "not-found"),
		bad("comments, cursor made up", "ben", "GET", "/v1/posts/{post}/comments?cursor=AAAA", "", 400, "malformed"),
		bad("comments of nobody", "ben", "GET", "/v1/users/{absent}/comments", "", 404, "not-found"),
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
		bad("like of who does not", "ann", "GET", "/v1/posts/{post}/likes/{ann}", "", 404, "not-found"),
		bad("like of an id outside the grammar", "ann", "GET", "/v1/posts/{post}/likes/a.b", "", 422, "invalid", "user"),
		{name: "unlike", as: "cat", method: "DELETE", path: "/v1/posts/{post}/like", status: 202},
		{name: "count goes down", as: "ann", method: "GET", path: "/v1/posts/{post}/likes/count", status: 200, soon: true, want: object{"count": 1}},
		{name: "count of none", as: "ann", method: "GET", path: "/v1/posts/{weird}/likes/count", status: 200, want: object{"count": 0, "as_of": "*"}},
		bad("like a deleted post", "ben", "PUT", "/v1/posts/{gone}/like", "", 404, "not-found"),
		bad("like nothing", "ben", "PUT", "/v1/posts/{nopost}/like", "", 404, "not-found"),
		bad("like an id outside the grammar", "ben", "PUT", "/v1/posts/x/like", "", 422, "invalid", "id"),
		bad("like without a profile", "new", "PUT", "/v1/posts/{post}/like", "", 409, "profile-missing"),
		bad("likers of a deleted post", "ben", "GET", "/v1/posts/{gone}/likes", "", 404, "not-found"),
		bad("count of a deleted post", "ben", "GET", "/v1/posts/{gone}/likes/count", "", 404, "not-found"),
	}
	if !target.LikesByUser {
		return append(rows, bad("likes by user, index off", "ann", "GET", "/v1/users/{ben}/likes", "", 404, "index-off"))
	}
	return append(rows,
		row{name: "likes by user", as: "ann", method: "GET", path: "/v1/users/{ben}/likes", status: 200, soon: true, want: object{"items": []any{object{"post_id": "{post}", "liked_at": "*"}}}},
		bad("likes of nobody", "ann", "GET", "/v1/users/{absent}/likes", "", 404, "not-found"),
	)
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
		{name: "unfollow before the home", as: "cat", method: "DELETE", path: "/v1/me/following/{ann}", status: 204},
		{name: "unfollowed author gone from the home", as: "cat", method: "GET", path: "/v1/home", status: 200, want: object{"items": []any{}}},
		bad("home from elsewhere", "cat", "GET", "/v1/home?source=both", "", 422, "invalid", "source"),
		bad("home, limit 0", "cat", "GET", "/v1/home?limit=0", "", 422, "invalid", "limit"),
		bad("home, cursor made up", "cat", "GET", "/v1/home?cursor=x", "", 400, "malformed"),
	}
}

func protocolRows() []row {
	token := func(value string) http.Header { return headers("Authorization", value) }
	none := "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ."
	rows := []row{
		bad("no token", "", "GET", "/v1/me", "", 401, "unauthenticated"),
		{name: "token says who may try", method: "GET", path: "/v1/home", status: 401, problem: "unauthenticated", check: hasHeader("WWW-Authenticate", "")},
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
		{name: "method", as: "ann", method: "POST", path: "/v1/me", body: "{}", status: 405, problem: "method-not-allowed", check: hasHeader("Allow", "GET, HEAD, PUT")},
		{name: "method of a post", as: "ann", method: "PUT", path: "/v1/posts/{post}", status: 405, problem: "method-not-allowed", check: hasHeader("Allow", "DELETE, GET, HEAD, PATCH")},
		{name: "preflight without CORS", method: "OPTIONS", path: "/v1/me", header: headers("Origin", "https://a.example", "Access-Control-Request-Method", "GET"), status: 405, problem: "method-not-allowed"},
		{name: "request id comes back", as: "ann", method: "GET", path: "/v1/me", header: headers("X-Request-Id", "req-1"), status: 200, check: hasHeader("X-Request-Id", "req-1")},
		{name: "request id that is no id", as: "ann", method: "GET", path: "/v1/me", header: headers("X-Request-Id", "a b"), status: 200, check: func(t *testing.T, res *response) {
			t.Helper()
			if res.header.Get("X-Request-Id") == "a b" {
				t.Error("the request id was taken over")
			}
		}},
		{name: "alive", method: "GET", path: "/healthz", status: 200, want: object{"status": "ok"}},
		{name: "ready", method: "GET", path: "/readyz", status: 200, want: object{"status": "ready"}},
		{name: "openapi document", method: "GET", path: "/openapi.json", status: 200, want: object{"openapi": "3.1.0", "paths": "*"}},
		{name: "docs page", method: "GET", path: "/docs", status: 200},
	}
	// Every call but those that need none refuses a stranger.
	for _, call := range []string{
		"GET /v1/me", "PUT /v1/me", "GET /v1/users/u", "GET /v1/users/u/followers", "GET /v1/users/u/following", "GET /v1/users/u/friends",
		"PUT /v1/me/following/u", "DELETE /v1/me/following/u", "GET /v1/users/u/relationships/v", "POST /v1/posts",
		"GET /v1/posts/{post}", "PATCH /v1/posts/{post}", "DELETE /v1/posts/{post}", "GET /v1/users/u/posts",
		"POST /v1/posts/{post}/comments", "GET /v1/posts/{post}/comments", "DELETE /v1/posts/{post}/comments/{post}", "GET /v1/users/u/comments",
		"PUT /v1/posts/{post}/like", "DELETE /v1/posts/{post}/like", "GET /v1/posts/{post}/likes", "GET /v1/posts/{post}/likes/count",
		"GET /v1/posts/{post}/likes/u", "GET /v1/users/u/likes", "GET /v1/home", "GET /v1/posts/{post}/delivery",
	} {
		method, path, _ := strings.Cut(call, " ")
		rows = append(rows, bad("stranger "+strings.ReplaceAll(call, "/", "."), "", method, path, "", 401, "unauthenticated"))
	}
	return rows
}

// lastRows change what the others look at.
func lastRows() []row {
	return []row{
		{name: "delete what has a key", as: "ann", method: "DELETE", path: "/v1/posts/{once}", status: 204},
		{name: "its key still answers", as: "ann", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "k-1"), body: `{"text":"once"}`, status: 201, want: object{"id": "{once}"}},
		bad("but it is gone", "ann", "GET", "/v1/posts/{once}", "", 404, "not-found"),
		{name: "delete a post with likes and comments", as: "ann", method: "DELETE", path: "/v1/posts/{post}", status: 204},
		{name: "deleted posts leave a follower's home at once", as: "ben", method: "GET", path: "/v1/users/{ann}/posts", status: 200, want: object{"items": []any{object{"id": "{news}"}, object{"id": "{free}"}, object{"id": "{long}"}, object{"id": "{weird}"}}}},
		{name: "their comments leave comments by user", as: "ben", method: "GET", path: "/v1/users/{ann}/comments", status: 200, soon: true, want: object{"items": []any{}}},
	}
}
