package apitest

// notificationRows let oli follow nia and like a post of nia's. Then nia reads the notifications of the
// follow and of the like.
func notificationRows(target Target) []row {
	get := func(name, as, path string, want object) row {
		return row{name: name, as: as, method: "GET", path: path, status: 200, want: want}
	}
	if !target.Notifications {
		off := func(name, method, path, body string) row {
			return bad(name, "ann", method, path, body, 404, "notifications-off")
		}
		return []row{
			off("notifications, switched off", "GET", "/v1/me/notifications", ""),
			off("unread, switched off", "GET", "/v1/me/notifications/unread", ""),
			off("read, switched off", "PUT", "/v1/me/notifications/read", `{"read_to":"AQ"}`),
		}
	}
	read := func(name, as, body string, want object) row {
		return row{name: name, as: as, method: "PUT", path: "/v1/me/notifications/read", body: body, status: 200, want: want}
	}
	put := func(name, as, path string) row {
		return row{name: name, as: as, method: "PUT", path: path, status: 204}
	}
	soon := func(r row) row { r.soon = true; return r }
	list := func(items ...any) object {
		return object{"items": append([]any{}, items...), "next_cursor": nil, "read_to": "*"}
	}
	like := object{
		"id": "like:{noted}", "kind": "like", "target": "{noted}", "actors": []any{object{"user_id": "{oli}", "reaction": "like", "at": "*", "user": nil}},
		"count": 1, "at": "*", "unread": true, "post": nil,
	}
	follow := object{"id": "follow:", "kind": "follow", "target": nil, "actors": []any{object{"user_id": "{oli}", "reaction": nil}}, "count": 1}
	liker := object{"user_id": "{oli}", "user": object{"id": "{oli}", "name": "Oli", "following": false, "followed_by": true}}
	rows := []row{
		{name: "profile of a reader", as: "nia", method: "PUT", path: "/v1/me", body: `{"name":"Nia"}`, status: 200},
		{name: "profile of a liker", as: "oli", method: "PUT", path: "/v1/me", body: `{"name":"Oli"}`, status: 200},
		get("no notifications", "nia", "/v1/me/notifications", object{"items": []any{}, "next_cursor": nil, "read_to": "*", "unread": 0}),
		get("none of a user without a profile", "new", "/v1/me/notifications", list()),
		{name: "a post to be noticed", as: "nia", method: "POST", path: "/v1/posts", body: `{"text":"noted"}`, status: 201, save: "noted"},
		put("a follow that notifies", "oli", "/v1/me/following/{nia}"),
		soon(get("the follow is in the list", "nia", "/v1/me/notifications", list(follow))),
		{name: "a like that notifies", as: "oli", method: "PUT", path: "/v1/posts/{noted}/like", status: 202},
		soon(get("the like is above it", "nia", "/v1/me/notifications", list(like, follow))),
		get("both are unread", "nia", "/v1/me/notifications/unread", object{"unread": 2, "most": 10}),
		get("unread up to 1", "nia", "/v1/me/notifications/unread?most=1", object{"unread": 1, "most": 1}),
		{name: "a page of notifications", as: "nia", method: "GET", path: "/v1/me/notifications?limit=1", status: 200, want: object{"items": []any{like}, "unread": 2}, keep: member("next_noted", "next_cursor")},
		get("the next page", "nia", "/v1/me/notifications?limit=1&cursor={next_noted}", object{"items": []any{follow}, "next_cursor": nil, "unread": nil, "read_to": "*"}),
		soon(get("notifications with posts and users", "nia", "/v1/me/notifications?expand=view", list(object{
			"id": "like:{noted}", "actors": []any{liker}, "post": object{"post": object{"id": "{noted}"}, "author": object{"id": "{nia}"}, "like_count": 1, "liked": false},
		}, object{"id": "follow:", "actors": []any{liker}, "post": nil}))),
		{name: "a page to be read", as: "nia", method: "GET", path: "/v1/me/notifications", status: 200, keep: member("read_to", "read_to")},
		read("the page is read", "nia", `{"read_to":"{read_to}"}`, object{"unread": 0}),
		read("and once more", "nia", `{"read_to":"{read_to}"}`, object{"unread": 0}),
		get("nothing is unread", "nia", "/v1/me/notifications/unread", object{"unread": 0}),
		get("the list stays", "nia", "/v1/me/notifications?limit=1", object{"items": []any{object{"id": "like:{noted}", "unread": false}}, "unread": 0}),
		put("mute a liker", "nia", "/v1/me/mutes/{oli}"),
		get("a mute hides at once", "nia", "/v1/me/notifications", list()),
		{name: "unmute a liker", as: "nia", method: "DELETE", path: "/v1/me/mutes/{oli}", status: 204},
		get("an unmute shows at once", "nia", "/v1/me/notifications?limit=1", object{"items": []any{object{"id": "like:{noted}"}}}),
		{name: "the like is taken back", as: "oli", method: "DELETE", path: "/v1/posts/{noted}/like", status: 202},
		soon(get("and so is its notification", "nia", "/v1/me/notifications", list(follow))),
		{name: "the follow ends", as: "oli", method: "DELETE", path: "/v1/me/following/{nia}", status: 204},
		get("and its notification, at once", "nia", "/v1/me/notifications", list()),
		get("notifications are their user's alone", "oli", "/v1/me/notifications", list()),
		bad("read without a profile", "new", "PUT", "/v1/me/notifications/read", `{"read_to":"{read_to}"}`, 400, "malformed"),
		bad("read with a foreign read_to", "oli", "PUT", "/v1/me/notifications/read", `{"read_to":"{read_to}"}`, 400, "malformed"),
		bad("read with a changed read_to", "nia", "PUT", "/v1/me/notifications/read", `{"read_to":"{read_to}A"}`, 400, "malformed"),
		bad("read without a read_to", "nia", "PUT", "/v1/me/notifications/read", `{}`, 422, "invalid", "read_to"),
		bad("read with an empty read_to", "nia", "PUT", "/v1/me/notifications/read", `{"read_to":""}`, 422, "invalid", "read_to"),
		bad("read with a number", "nia", "PUT", "/v1/me/notifications/read", `{"read_to":1}`, 422, "invalid", "read_to"),
		bad("read with an unknown field", "nia", "PUT", "/v1/me/notifications/read", `{"read_to":"{read_to}","all":true}`, 422, "invalid", "all"),
		bad("notifications, a read_to as cursor", "nia", "GET", "/v1/me/notifications?cursor={read_to}", "", 400, "malformed"),
		bad("notifications, a foreign cursor", "nia", "GET", "/v1/me/notifications?cursor=AQAB", "", 400, "malformed"),
		bad("notifications, limit of 0", "nia", "GET", "/v1/me/notifications?limit=0", "", 422, "invalid", "limit"),
		bad("notifications, limit of 101", "nia", "GET", "/v1/me/notifications?limit=101", "", 422, "invalid", "limit"),
		bad("notifications, most unknown", "nia", "GET", "/v1/me/notifications?most=1", "", 422, "invalid", "most"),
		bad("unread up to 0", "nia", "GET", "/v1/me/notifications/unread?most=0", "", 422, "invalid", "most"),
		bad("unread up to 101", "nia", "GET", "/v1/me/notifications/unread?most=101", "", 422, "invalid", "most"),
		bad("unread, most no number", "nia", "GET", "/v1/me/notifications/unread?most=many", "", 422, "invalid", "most"),
		bad("notifications without a token", "", "GET", "/v1/me/notifications", "", 401, "unauthenticated"),
		bad("unread without a token", "", "GET", "/v1/me/notifications/unread", "", 401, "unauthenticated"),
		bad("read without a token", "", "PUT", "/v1/me/notifications/read", `{"read_to":"{read_to}"}`, 401, "unauthenticated"),
		bad("read with another media type", "nia", "PUT", "/v1/me/notifications/read", `{"read_to":"{read_to}"}`, 415, "unsupported-media-type"),
	}
	rows[len(rows)-1].header = headers("Content-Type", "text/plain")
	return rows
}
