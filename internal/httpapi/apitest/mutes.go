package apitest

// muteRows hide ann's posts from cat's home for a while. cat follows ann, and has no posts.
func muteRows() []row {
	shown := object{"items": []any{object{"post": object{"id": "{news}"}}}, "next_cursor": "*"}
	hidden := object{"items": []any{}, "next_cursor": nil}
	get := func(name, path string, want object) row {
		return row{name: name, as: "cat", method: "GET", path: path, status: 200, want: want}
	}
	return []row{
		get("nobody is muted", "/v1/me/mutes", object{"items": []any{}, "next_cursor": nil}),
		{name: "mute", as: "cat", method: "PUT", path: "/v1/me/mutes/{ann}", status: 204},
		{name: "mute again", as: "cat", method: "PUT", path: "/v1/me/mutes/{ann}", status: 204},
		get("a mute hides at once", "/v1/home?limit=1", hidden),
		get("and by pull", "/v1/home?limit=1&source=pull", hidden),
		get("and news", "/v1/home?after={once}", object{"items": []any{}, "unread": 0}),
		get("and ends no follow", "/v1/users/{cat}/relationships/{ann}", object{"following": true}),
		get("mutes", "/v1/me/mutes", object{"items": []any{object{"user_id": "{ann}", "since": "*", "user": nil}}, "next_cursor": nil}),
		get("mutes as users", "/v1/me/mutes?expand=view", object{"items": []any{object{"user_id": "{ann}", "user": object{"id": "{ann}", "name": "*", "following": true}}}}),
		{name: "mutes are their user's alone", as: "ann", method: "GET", path: "/v1/me/mutes", status: 200, want: object{"items": []any{}}},
		{name: "unmute", as: "cat", method: "DELETE", path: "/v1/me/mutes/{ann}", status: 204},
		{name: "unmute again", as: "cat", method: "DELETE", path: "/v1/me/mutes/{ann}", status: 204},
		get("an unmute shows at once", "/v1/home?limit=1", shown),
		get("and by pull, too", "/v1/home?limit=1&source=pull", shown),
		{name: "unfollow before the home", as: "cat", method: "DELETE", path: "/v1/me/following/{ann}", status: 204},
		{name: "unfollowed author gone from the home", as: "cat", method: "GET", path: "/v1/home", status: 200, want: object{"items": []any{}}},
		bad("mute oneself", "ann", "PUT", "/v1/me/mutes/{ann}", "", 422, "invalid", "id"),
		bad("mute nobody", "ann", "PUT", "/v1/me/mutes/{absent}", "", 404, "not-found"),
		bad("mute outside the grammar", "ann", "PUT", "/v1/me/mutes/a%20b", "", 422, "invalid", "id"),
		bad("mute without a profile", "new", "PUT", "/v1/me/mutes/{ann}", "", 409, "profile-missing"),
		bad("unmute oneself", "ann", "DELETE", "/v1/me/mutes/{ann}", "", 422, "invalid", "id"),
		bad("unmute nobody", "ann", "DELETE", "/v1/me/mutes/{absent}", "", 404, "not-found"),
		bad("unmute without a profile", "new", "DELETE", "/v1/me/mutes/{ann}", "", 409, "profile-missing"),
	}
}
