package apitest

import "strings"

// takeDownRows let a service take a post of ann's down.
func takeDownRows() []row {
	const path, body = "/v1/posts/{taken}/takedown", `{"reason":"Forged <shoes> & more"}`
	down := func(by string) object { return object{"reason": "Forged <shoes> & more", "by": by, "at": "*"} }
	refused := func(name, body string) row {
		return bad("take-down, "+name, "deleter", "PUT", path, body, 422, "invalid", "reason")
	}
	return []row{
		{name: "a post to take down", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"forged shoes"}`, status: 201, save: "taken"},
		{name: "which ben likes", as: "ben", method: "PUT", path: "/v1/posts/{taken}/like", status: 202},
		bad("take-down by a user", "ben", "PUT", path, body, 403, "forbidden"),
		bad("take-down by its author", "ann", "PUT", path, body, 403, "forbidden"),
		bad("take-down by a service without the scope", "service", "PUT", path, body, 403, "forbidden"),
		bad("take-down without a token", "", "PUT", path, body, 401, "unauthenticated"),
		refused("no reason", `{}`),
		refused("reason empty", `{"reason":""}`),
		refused("reason null", `{"reason":null}`),
		refused("reason a number", `{"reason":12}`),
		refused("reason that shows nothing", `{"reason":" "}`),
		refused("reason of two lines", `{"reason":"a\nb"}`),
		refused("reason that turns the text", `{"reason":"a\u202eb"}`),
		refused("reason too long", `{"reason":"`+strings.Repeat("ä", 501)+`"}`),
		bad("take-down, unknown field", "deleter", "PUT", path, `{"reason":"a","by":"b"}`, 422, "invalid", "by"),
		bad("take-down, no body", "deleter", "PUT", path, "", 400, "malformed"),
		bad("take-down of no post", "deleter", "PUT", "/v1/posts/{nopost}/takedown", body, 404, "not-found"),
		{name: "still there", as: "ben", method: "GET", path: "/v1/posts/{taken}", status: 200},
		{name: "take-down", as: "deleter", method: "PUT", path: path, body: body, status: 200, want: down("*"), keep: member("by", "by")}, // an issuer may lengthen the subject of the token
		{name: "take-down again keeps the reason", as: "deleter", method: "PUT", path: path, body: `{"reason":"another"}`, header: headers("Fanfare-User", "{ben}"), status: 200, want: down("{by}")},
		bad("gone for its author", "ann", "GET", "/v1/posts/{taken}", "", 404, "not-found"),
		bad("gone for others", "ben", "GET", "/v1/posts/{taken}", "", 404, "not-found"),
		bad("its author cannot delete it", "ann", "DELETE", "/v1/posts/{taken}", "", 404, "not-found"),
		{name: "its author reads the reason", as: "ann", method: "GET", path: "/v1/posts/{taken}/delivery", status: 200, want: object{"taken_down": down("{by}")}},
		bad("nobody else does", "ben", "GET", "/v1/posts/{taken}/delivery", "", 403, "forbidden"),
		{name: "a post that its author deletes", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"mine"}`, status: 201, save: "own"},
		{name: "as its author does", as: "ann", method: "DELETE", path: "/v1/posts/{own}", status: 204},
		bad("is gone for a take-down", "deleter", "PUT", "/v1/posts/{own}/takedown", body, 404, "not-found"),
	}
}
