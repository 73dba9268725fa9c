package apitest

// returnRows delete the user rex, who then returns. vic blocks rex, cat mutes rex, and rex blocks eve.
func returnRows() []row {
	const comment = `{"text":"me again"}`
	put := func(name, as, path string) row {
		return row{name: name, as: as, method: "PUT", path: path, status: 204}
	}
	profile := func(as string) row {
		return row{name: "profile of " + as, as: as, method: "PUT", path: "/v1/me", body: `{"name":"` + as + `"}`, status: 200}
	}
	lists := func(when string) []row {
		list := func(name, as, path string, items ...any) row {
			return row{name: name + " " + when, as: as, method: "GET", path: path, status: 200, want: object{"items": append([]any{}, items...), "next_cursor": nil}}
		}
		return []row{
			list("the block of a removed user", "vic", "/v1/me/blocks", object{"user_id": "{rex}", "since": "*"}),
			list("the mute of a removed user", "cat", "/v1/me/mutes", object{"user_id": "{rex}", "since": "*"}),
		}
	}
	rows := []row{
		profile("vic"), profile("eve"), profile("rex"),
		{name: "a post of who blocks", as: "vic", method: "POST", path: "/v1/posts", body: `{"text":"mine"}`, status: 201, save: "vics"},
		put("block before the removal", "vic", "/v1/me/blocks/{rex}"),
		put("mute before the removal", "cat", "/v1/me/mutes/{rex}"),
		put("block by who is removed", "rex", "/v1/me/blocks/{eve}"),
		{name: "the removal of a blocked user", as: "rex", method: "DELETE", path: "/v1/me", status: 202},
	}
	rows = append(rows, lists("while it is away")...)
	rows = append(rows,
		row{name: "it has no name", as: "vic", method: "GET", path: "/v1/me/blocks?expand=view", status: 200, soon: true, want: object{"items": []any{object{"user_id": "{rex}", "user": object{"name": ""}}}}},
		put("block again while it is away", "vic", "/v1/me/blocks/{rex}"),
		profile("rex"),
		put("the blocks by a removed user are gone", "rex", "/v1/me/following/{eve}"))
	rows[len(rows)-1].soon = true // a worker has to run first
	for _, when := range []string{"at once", "a second time"} {
		rows = append(rows,
			bad("follow after a return, "+when, "rex", "PUT", "/v1/me/following/{vic}", "", 403, "blocked"),
			bad("follow of one who returned, "+when, "vic", "PUT", "/v1/me/following/{rex}", "", 403, "blocked"),
			bad("comment after a return, "+when, "rex", "POST", "/v1/posts/{vics}/comments", comment, 403, "blocked"),
			row{name: "like after a return, " + when, as: "rex", method: "PUT", path: "/v1/posts/{vics}/like", status: 403, problem: "blocked", soon: true})
	}
	rows = append(rows, lists("after its return")...)
	return append(rows,
		row{name: "unblock one who returned", as: "vic", method: "DELETE", path: "/v1/me/blocks/{rex}", status: 204},
		row{name: "unmute one who returned", as: "cat", method: "DELETE", path: "/v1/me/mutes/{rex}", status: 204},
		put("follow after the end of a kept block", "rex", "/v1/me/following/{vic}"))
}
