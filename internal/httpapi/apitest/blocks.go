package apitest

// blockRows let cat block ann for a while. cat follows ann.
func blockRows() []row {
	do := func(name, as, method, path string) row {
		return row{name: name, as: as, method: method, path: path, status: 204}
	}
	get := func(name, as, path string, want object) row {
		return row{name: name, as: as, method: "GET", path: path, status: 200, want: want}
	}
	return []row{
		get("nobody is blocked", "cat", "/v1/me/blocks", object{"items": []any{}, "next_cursor": nil}),
		do("cat follows before the block", "cat", "PUT", "/v1/me/following/{ann}"),
		do("block", "cat", "PUT", "/v1/me/blocks/{ann}"),
		do("block again", "cat", "PUT", "/v1/me/blocks/{ann}"),
		get("a block ends the follow", "cat", "/v1/users/{cat}/relationships/{ann}", object{"following": false, "followed_by": false}),
		get("and hides the posts", "cat", "/v1/home", object{"items": []any{}}),
		bad("follow over a block", "cat", "PUT", "/v1/me/following/{ann}", "", 403, "blocked"),
		bad("follow of one who blocks", "ann", "PUT", "/v1/me/following/{cat}", "", 403, "blocked"),
		bad("comment over a block", "cat", "POST", "/v1/posts/{news}/comments", `{"text":"a"}`, 403, "blocked"),
		{name: "like over a block", as: "cat", method: "PUT", path: "/v1/posts/{news}/like", status: 403, problem: "blocked", soon: true},
		{name: "unlike over a block", as: "cat", method: "DELETE", path: "/v1/posts/{news}/like", status: 202},
		get("blocks", "cat", "/v1/me/blocks", object{"items": []any{object{"user_id": "{ann}", "since": "*", "user": nil}}, "next_cursor": nil}),
		get("blocks as users", "cat", "/v1/me/blocks?expand=view", object{"items": []any{object{"user_id": "{ann}", "user": object{"id": "{ann}", "name": "*", "following": false}}}}),
		get("blocks are their user's alone", "ann", "/v1/me/blocks", object{"items": []any{}}),
		do("unblock", "cat", "DELETE", "/v1/me/blocks/{ann}"),
		do("unblock again", "cat", "DELETE", "/v1/me/blocks/{ann}"),
		get("follows do not come back", "cat", "/v1/users/{cat}/relationships/{ann}", object{"following": false}),
		do("follow after a block", "cat", "PUT", "/v1/me/following/{ann}"),
		do("unfollow after the blocks", "cat", "DELETE", "/v1/me/following/{ann}"),
		bad("block oneself", "ann", "PUT", "/v1/me/blocks/{ann}", "", 422, "invalid", "id"),
		bad("block nobody", "ann", "PUT", "/v1/me/blocks/{absent}", "", 404, "not-found"),
		bad("block outside the grammar", "ann", "PUT", "/v1/me/blocks/a%20b", "", 422, "invalid", "id"),
		bad("block without a profile", "new", "PUT", "/v1/me/blocks/{ann}", "", 409, "profile-missing"),
		bad("unblock oneself", "ann", "DELETE", "/v1/me/blocks/{ann}", "", 422, "invalid", "id"),
		bad("unblock nobody", "ann", "DELETE", "/v1/me/blocks/{absent}", "", 404, "not-found"),
		bad("unblock without a profile", "new", "DELETE", "/v1/me/blocks/{ann}", "", 409, "profile-missing"),
	}
}
