package apitest

// silentRows let cat follow ann silently for a while. ben follows ann, and ann follows ben.
func silentRows() []row {
	get := func(name, as, path string, want object) row {
		return row{name: name, as: as, method: "GET", path: path, status: 200, want: want}
	}
	nobody, ann := object{"items": []any{}, "next_cursor": nil}, object{"items": []any{object{"user_id": "{ann}", "since": "*"}}, "next_cursor": nil}
	return []row{
		bad("follow with a silence that is no boolean", "cat", "PUT", "/v1/me/following/{ann}?silent=yes", "", 422, "invalid", "silent"),
		{name: "follow silently", as: "cat", method: "PUT", path: "/v1/me/following/{ann}?silent=true", status: 204},
		{name: "a later follow changes no silence", as: "cat", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		get("a silent follow does not count", "cat", "/v1/users/{ann}", object{"counts": object{"followers": 1}}),
		get("nor is it among the followers", "cat", "/v1/users/{ann}/followers", object{"items": []any{object{"user_id": "{ben}"}}, "next_cursor": nil}),
		get("nor for the author", "ann", "/v1/users/{ann}/followers", object{"items": []any{object{"user_id": "{ben}"}}, "next_cursor": nil}),
		get("others do not see it among the followed users", "ann", "/v1/users/{cat}/following", nobody),
		get("its user does", "cat", "/v1/users/{cat}/following", ann),
		get("its user sees the relationship", "cat", "/v1/users/{ann}/relationships/{cat}", object{"following": false, "followed_by": true}),
		get("the author does not", "ann", "/v1/users/{ann}/relationships/{cat}", object{"following": false, "followed_by": false}),
		get("its user has it in a profile", "cat", "/v1/users/{ann}?expand=view", object{"following": true}),
		get("the author has not", "ann", "/v1/users/{cat}?expand=view", object{"followed_by": false}),
		{name: "follow one's silent follower", as: "ann", method: "PUT", path: "/v1/me/following/{cat}", status: 204},
		get("a silent follow makes no friends", "cat", "/v1/users/{cat}/friends", nobody),
		get("both sides of it", "cat", "/v1/users/{cat}/relationships/{ann}", object{"following": true, "followed_by": true}),
		{name: "unfollow one's silent follower", as: "ann", method: "DELETE", path: "/v1/me/following/{cat}", status: 204},
		{name: "end of a silent follow", as: "cat", method: "DELETE", path: "/v1/me/following/{ann}", status: 204},
		get("its end does not count", "cat", "/v1/users/{ann}", object{"counts": object{"followers": 1}}),
	}
}
