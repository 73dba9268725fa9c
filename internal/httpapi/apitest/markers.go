package apitest

import "strings"

// markerRows let cat set read markers.
func markerRows() []row {
	const path = "/v1/me/markers/"
	put := func(name, marker, position string, want string) row {
		return row{name: name, as: "cat", method: "PUT", path: path + marker, body: `{"position":"` + position + `"}`, status: 200, want: object{"name": marker, "position": want, "updated_at": "*"}}
	}
	list := func(name, as string, items ...any) row {
		return row{name: name, as: as, method: "GET", path: "/v1/me/markers", status: 200, want: object{"items": append([]any{}, items...), "next_cursor": nil}}
	}
	fault := func(name, marker, body string, fields ...string) row {
		return bad("marker, "+name, "cat", "PUT", path+marker, body, 422, "invalid", fields...)
	}
	return []row{
		list("no markers", "cat"),
		put("marker", "home", "{free}", "{free}"),
		put("marker forward", "home", "{news}", "{news}"),
		put("marker back changes nothing", "home", "{weird}", "{news}"),
		put("marker again", "home", "{news}", "{news}"),
		put("marker of another name", "Album:7|a@b", "page-0012", "page-0012"),
		{name: "a marker", as: "cat", method: "GET", path: path + "home", status: 200, want: object{"name": "home", "position": "{news}", "updated_at": "*"}},
		list("markers, by name", "cat", object{"name": "Album:7|a@b"}, object{"name": "home", "position": "{news}"}),
		{name: "a page of markers", as: "cat", method: "GET", path: "/v1/me/markers?limit=1", status: 200, want: object{"items": []any{object{"name": "Album:7|a@b"}}, "next_cursor": "*"}, keep: member("cursor of cat's markers", "next_cursor")},
		{name: "and the next one", as: "cat", method: "GET", path: "/v1/me/markers?limit=1&cursor={cursor of cat's markers}", status: 200, want: object{"items": []any{object{"name": "home"}}, "next_cursor": nil}},
		list("markers are their user's alone", "ann"),
		bad("markers, cursor of somebody else's", "ann", "GET", "/v1/me/markers?cursor={cursor of cat's markers}", "", 400, "malformed"),
		bad("marker of somebody else's", "ann", "GET", path+"home", "", 404, "not-found"),
		{name: "delete a marker", as: "cat", method: "DELETE", path: path + "home", status: 204},
		{name: "delete a marker again", as: "cat", method: "DELETE", path: path + "home", status: 204},
		bad("no marker any more", "cat", "GET", path+"home", "", 404, "not-found"),
		put("marker back after that", "home", "{weird}", "{weird}"),
		fault("no position", "home", `{}`, "position"),
		fault("position empty", "home", `{"position":""}`, "position"),
		fault("position null", "home", `{"position":null}`, "position"),
		fault("position a number", "home", `{"position":12}`, "position"),
		fault("position too long", "home", `{"position":"`+strings.Repeat("x", 129)+`"}`, "position"),
		fault("position with a space", "home", `{"position":"a b"}`, "position"),
		fault("position not ASCII", "home", `{"position":"ä"}`, "position"),
		fault("unknown field", "home", `{"position":"a","version":1}`, "version"),
		fault("name outside the grammar", "a%20b", `{"position":"a"}`, "name"),
		fault("name too long", strings.Repeat("n", 65), `{"position":"a"}`, "name"),
		bad("marker, no body", "cat", "PUT", path+"home", "", 400, "malformed"),
		bad("marker without a profile", "new", "PUT", path+"home", `{"position":"a"}`, 409, "profile-missing"),
		bad("delete a marker without a profile", "new", "DELETE", path+"home", "", 409, "profile-missing"),
	}
}
