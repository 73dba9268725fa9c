package apitest

import (
	_ "embed" // the posts of adopters
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These are posts in the form in which adopters send them. docs/GETTING_STARTED.md shows them to readers.
var (
	//go:embed posts/album.json
	album string
	//go:embed posts/question.json
	question string
	//go:embed posts/job.json
	job string
	//go:embed posts/listing.json
	listing string
	//go:embed posts/story.json
	story string
)

// adopterRows send the posts of adopters, and read each post unchanged.
func adopterRows() []row {
	var rows []row
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	ending := strings.Replace(story, "2026-01-01T18:00:00Z", tomorrow, 1)
	for _, post := range []struct{ name, body string }{{"album", album}, {"question", question}, {"job", job}, {"listing", listing}, {"story", ending}} {
		same := func(t *testing.T, res *response) {
			t.Helper()
			var sent, got object
			require.NoError(t, json.Unmarshal([]byte(post.body), &sent))
			require.NoError(t, json.Unmarshal(res.raw, &got))
			for member, value := range sent {
				assert.Equal(t, value, got[member], member)
			}
		}
		rows = append(rows,
			row{name: "post of kind " + post.name, as: "dot", method: "POST", path: "/v1/posts", body: post.body, status: 201, save: post.name, check: same},
			row{name: "read the post of kind " + post.name, as: "ben", method: "GET", path: "/v1/posts/{" + post.name + "}", status: 200, check: same})
	}
	return rows
}

// because adds a check to the row: the answer must have the reason.
func because(r row, reason string) row {
	r.check = func(t *testing.T, res *response) {
		t.Helper()
		assert.Contains(t, string(res.raw), reason)
	}
	return r
}

// exactly checks that the answer's data has exactly the given bytes.
func exactly(data string) func(*testing.T, *response) {
	return func(t *testing.T, res *response) {
		t.Helper()
		assert.Contains(t, string(res.raw), `"data":`+data)
	}
}

// dataRows give posts, comments and a profile custom data, kinds and mentions.
func dataRows() []row {
	const none, levels16 = `{"text":"plain"}`, `{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{}}}}}}}}}}}}}}}}`
	with := func(field, value string) string { return `{"text":"a","` + field + `":` + value + `}` }
	sized := func(bytes int) string { return `{"a" : "` + strings.Repeat("x", bytes-8) + `"}` }
	users := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = strconv.Quote("u" + strconv.Itoa(i))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	post := func(name, body string) row {
		return row{name: name, as: "dot", method: "POST", path: "/v1/posts", body: body, status: 201, save: "custom"}
	}
	keyed := func(name, body string) row {
		r := post(name, body)
		r.header, r.save = headers("Idempotency-Key", "d-1"), ""
		return r
	}
	get := func(name, path string, want object, check func(*testing.T, *response)) row {
		return row{name: name, as: "ben", method: "GET", path: path, status: 200, want: want, check: check}
	}
	patch := func(name, body string, want object, check func(*testing.T, *response)) row {
		return row{name: name, as: "dot", method: "PATCH", path: "/v1/posts/{custom}", body: body, status: 200, want: want, check: check}
	}
	me := func(name, body string, want object, check func(*testing.T, *response)) row {
		return row{name: name, as: "dot", method: http.MethodPut, path: "/v1/me", body: body, status: 200, want: want, check: check}
	}
	const order = `{"z":1.50,"a":[-0,1e2,12345678901234567890],"ä":"é"}`
	rows := []row{
		me("profile with data", `{"name":"Dot","data":{"b":1.0,"a": 2}}`, nil, exactly(`{"b":1.0,"a":2}`)),
		me("a profile keeps its data", `{"name":"Dot."}`, nil, exactly(`{"b":1.0,"a":2}`)),
		get("data of a profile", "/v1/users/{dot}", nil, exactly(`{"b":1.0,"a":2}`)),
		me("null removes data of a profile", `{"name":"Dot","data":null}`, object{"data": nil}, nil),
		get("a profile without data", "/v1/users/{dot}", object{"data": nil}, nil),
		bad("profile, data too large", "dot", "PUT", "/v1/me", `{"name":"Dot","data":`+sized(1025)+`}`, 422, "invalid", "data"),
		bad("profile, data a list", "dot", "PUT", "/v1/me", `{"name":"Dot","data":[]}`, 422, "invalid", "data"),

		post("post with spaces in its data", `{"text":"a","kind":"a.b-c_9","data":{ "z" : 1.50,`+"\n"+`"a":[-0, 1e2, 12345678901234567890], "ä":"é"} ,"mentions":["{ben}","nobody"]}`),
		get("data as it was sent", "/v1/posts/{custom}", object{"kind": "a.b-c_9", "mentions": []any{"{ben}", "nobody"}}, exactly(order)),
		get("data in a view", "/v1/posts/{custom}?expand=view", object{"post": object{"kind": "a.b-c_9", "mentions": []any{"{ben}", "nobody"}}}, exactly(order)),
		get("data in a list", "/v1/users/{dot}/posts?limit=1", object{"items": []any{object{"id": "{custom}", "kind": "a.b-c_9"}}}, exactly(order)),
		patch("an edit keeps data", `{"text":"b"}`, object{"text": "b", "kind": "a.b-c_9"}, exactly(order)),
		patch("an edit replaces data", `{"data":{"n":[]}}`, object{"text": "b", "mentions": []any{"{ben}", "nobody"}}, exactly(`{"n":[]}`)),
		patch("null removes data", `{"data":null}`, object{"data": nil, "kind": "a.b-c_9"}, nil),
		get("data is gone", "/v1/posts/{custom}", object{"data": nil, "kind": "a.b-c_9"}, nil),
		bad("edit, kind", "dot", "PATCH", "/v1/posts/{custom}", `{"text":"c","kind":"x"}`, 422, "invalid", "kind"),
		bad("edit, mentions", "dot", "PATCH", "/v1/posts/{custom}", `{"mentions":[]}`, 422, "invalid", "mentions"),
		bad("edit, data a text", "dot", "PATCH", "/v1/posts/{custom}", `{"data":"{}"}`, 422, "invalid", "data"),
		because(bad("edit, name twice", "dot", "PATCH", "/v1/posts/{custom}", `{"data":{"a":{"b":1,"b":2}}}`, 422, "invalid", "data.a.b"), "occurs more than once"),

		post("data of 4096 bytes", with("data", sized(4096))), post("data of 16 levels", with("data", levels16)),
		post("50 mentions", with("mentions", users(50))), post("kind of 32", with("kind", strconv.Quote(strings.Repeat("k", 32)))),
		bad("data of 4097 bytes", "dot", "POST", "/v1/posts", with("data", sized(4097)), 422, "invalid", "data"),
		bad("data of 17 levels", "dot", "POST", "/v1/posts", with("data", `{"b":`+levels16+`}`), 422, "invalid", "data.b"+strings.Repeat(".a", 15)),
		bad("data null", "dot", "POST", "/v1/posts", with("data", "null"), 422, "invalid", "data"),
		bad("data a number", "dot", "POST", "/v1/posts", with("data", "7"), 422, "invalid", "data"),
		because(bad("data, name twice", "dot", "POST", "/v1/posts", with("data", `{"a":1,"\u0061":2}`), 422, "invalid", "data.a"), "occurs more than once"),
		bad("data, a number that no double has", "dot", "POST", "/v1/posts", with("data", `{"a":[0,1e400]}`), 422, "invalid", "data.a[1]"),
		because(bad("data, half a surrogate", "dot", "POST", "/v1/posts", with("data", `{"a":"\ud800"}`), 422, "invalid", "data.a"), "half a surrogate"),
		bad("data, UTF-8 of a surrogate", "dot", "POST", "/v1/posts", with("data", "{\"a\":\"\xed\xa0\x80\"}"), 400, "malformed"),
		bad("data, not closed", "dot", "POST", "/v1/posts", with("data", `{"a":1`), 400, "malformed"),
		bad("kind of 33", "dot", "POST", "/v1/posts", with("kind", strconv.Quote(strings.Repeat("k", 33))), 422, "invalid", "kind"),
		bad("kind with a capital", "dot", "POST", "/v1/posts", with("kind", `"Album"`), 422, "invalid", "kind"),
		bad("kind with a new line", "dot", "POST", "/v1/posts", with("kind", `"a\n"`), 422, "invalid", "kind"),
		bad("51 mentions", "dot", "POST", "/v1/posts", with("mentions", users(51)), 422, "invalid", "mentions"),
		bad("mentions, two bad ids", "dot", "POST", "/v1/posts", with("mentions", `["a","b c","d",""]`), 422, "invalid", "mentions[1]", "mentions[3]"),
		bad("mentions, one twice", "dot", "POST", "/v1/posts", with("mentions", `["a","b","c","a"]`), 422, "invalid", "mentions[3]"),
		bad("mentions null", "dot", "POST", "/v1/posts", with("mentions", `null`), 422, "invalid", "mentions"),

		keyed("data with a key", with("data", `{"a":1}`)), keyed("data with spaces and the key again", with("data", `{ "a": 1 }`)),
		{name: "key with other data", as: "dot", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "d-1"), body: with("data", `{"a":1.0}`), status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},
		{name: "key with mentions", as: "dot", method: "POST", path: "/v1/posts", header: headers("Idempotency-Key", "d-1"), body: `{"text":"a","data":{"a":1},"mentions":["a"]}`, status: 422, problem: "invalid", fields: []string{"Idempotency-Key"}},

		{name: "post for a plain answer", as: "dot", method: "POST", path: "/v1/posts", body: none, status: 201, save: "custom", want: object{"kind": nil, "data": nil, "mentions": nil}},
		{name: "comment with data", as: "ben", method: "POST", path: "/v1/posts/{custom}/comments", body: `{"text":"c","data":{"at" : 12.50},"mentions":["{dot}"]}`, status: 201, want: object{"mentions": []any{"{dot}"}}, check: exactly(`{"at":12.50}`)},
		get("data of a comment", "/v1/posts/{custom}/comments", object{"items": []any{object{"text": "c", "mentions": []any{"{dot}"}}}}, exactly(`{"at":12.50}`)),
		{name: "data of a user's comment", as: "ben", method: "GET", path: "/v1/users/{ben}/comments?limit=1", status: 200, soon: true, want: object{"items": []any{object{"text": "c", "data": object{"at": 12.5}}}}},
		bad("comment, data too large", "ben", "POST", "/v1/posts/{custom}/comments", with("data", sized(1025)), 422, "invalid", "data"),
		bad("comment, kind", "ben", "POST", "/v1/posts/{custom}/comments", with("kind", `"a"`), 422, "invalid", "kind"),
		bad("comment, mention of no user id", "ben", "POST", "/v1/posts/{custom}/comments", with("mentions", `["a","b c"]`), 422, "invalid", "mentions[1]"),
	}
	ends := func(ahead time.Duration) string { return strconv.Quote(time.Now().Add(ahead).Format(time.RFC3339Nano)) }
	rows = append(rows,
		row{name: "post with an end", as: "dot", method: "POST", path: "/v1/posts", body: with("expires_at", ends(time.Hour)), status: 201, save: "custom", want: object{"expires_at": "*"}},
		get("end of a post", "/v1/posts/{custom}", object{"expires_at": "*"}, nil),
		bad("edit, end", "dot", "PATCH", "/v1/posts/{custom}", `{"expires_at":"2030-01-01T00:00:00Z"}`, 422, "invalid", "expires_at"),
		bad("end too near", "dot", "POST", "/v1/posts", with("expires_at", ends(50*time.Second)), 422, "invalid", "expires_at"),
		bad("end too far", "dot", "POST", "/v1/posts", with("expires_at", ends(367*24*time.Hour)), 422, "invalid", "expires_at"),
		bad("end in the past", "dot", "POST", "/v1/posts", with("expires_at", ends(-time.Hour)), 422, "invalid", "expires_at"),
		bad("end in the first second of the calendar", "dot", "POST", "/v1/posts", with("expires_at", `"0001-01-01T00:00:00.5Z"`), 422, "invalid", "expires_at"),
		bad("end empty", "dot", "POST", "/v1/posts", with("expires_at", `""`), 422, "invalid", "expires_at"),
		bad("end null", "dot", "POST", "/v1/posts", with("expires_at", `null`), 422, "invalid", "expires_at"),
		bad("end without a zone", "dot", "POST", "/v1/posts", with("expires_at", `"2030-01-01T00:00:00"`), 422, "invalid", "expires_at"),
		bad("end of a comment", "ben", "POST", "/v1/posts/{custom}/comments", with("expires_at", ends(time.Hour)), 422, "invalid", "expires_at"),
		bad("end no time", "dot", "POST", "/v1/posts", with("expires_at", `"tomorrow"`), 422, "invalid", "expires_at"),
		bad("end a number", "dot", "POST", "/v1/posts", with("expires_at", `1764000000`), 422, "invalid", "expires_at"))
	return append(rows, adopterRows()...)
}
