package apitest

// bookmarkRows let cat bookmark posts of ann, the older post last. Then a block and a deletion hide the
// bookmarks.
func bookmarkRows() []row {
	do := func(name, as, method, path string) row {
		return row{name: name, as: as, method: method, path: path, status: 204}
	}
	list := func(name, as, query string, items ...any) row {
		return row{name: name, as: as, method: "GET", path: "/v1/me/bookmarks" + query, status: 200, want: object{"items": append([]any{}, items...), "next_cursor": nil}}
	}
	of := func(post string) object {
		return object{"post_id": "{" + post + "}", "bookmarked_at": "*", "post": nil}
	}
	view := func(post string) object {
		return object{"post": object{"id": "{" + post + "}", "text": "*"}, "author": object{"id": "{ann}"}, "like_count": "*", "liked": "*", "bookmarked_at": "*", "liked_at": nil}
	}
	const path = "/v1/me/bookmarks/"
	return []row{
		list("no bookmarks", "cat", ""),
		do("bookmark", "cat", "PUT", path+"{free}"),
		do("bookmark an older post", "cat", "PUT", path+"{weird}"),
		do("bookmark again", "cat", "PUT", path+"{free}"),
		list("bookmarks, the newest bookmark first", "cat", "", of("weird"), of("free")),
		list("bookmarks as posts", "cat", "?expand=view", view("weird"), view("free")),
		{name: "one page of bookmarks", as: "cat", method: "GET", path: "/v1/me/bookmarks?limit=1&expand=view", status: 200, want: object{"items": []any{view("weird")}, "next_cursor": "*"}, keep: member("cursor of cat's bookmarks", "next_cursor")},
		list("and the next one", "cat", "?limit=1&cursor={cursor of cat's bookmarks}", of("free")),
		list("bookmarks are their user's alone", "ann", ""),
		bad("bookmarks, cursor of somebody else's", "ann", "GET", "/v1/me/bookmarks?cursor={cursor of cat's bookmarks}", "", 400, "malformed"),
		{name: "bookmark of a post", as: "cat", method: "GET", path: path + "{free}", status: 200, want: of("free")},
		bad("no bookmark of a post", "ann", "GET", path+"{free}", "", 404, "not-found"),
		do("ann blocks for the bookmarks", "ann", "PUT", "/v1/me/blocks/{cat}"),
		list("a block hides bookmarks", "cat", ""),
		bad("and each of them", "cat", "GET", path+"{free}", "", 404, "not-found"),
		bad("bookmark over a block", "cat", "PUT", path+"{free}", "", 403, "blocked"),
		do("end a bookmark over a block", "cat", "DELETE", path+"{weird}"),
		do("ann unblocks for the bookmarks", "ann", "DELETE", "/v1/me/blocks/{cat}"),
		list("and its end shows them", "cat", "", of("free")),
		{name: "a post to bookmark and delete", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"short"}`, status: 201, save: "short"},
		do("bookmark a post that goes", "cat", "PUT", path+"{short}"),
		do("which goes", "ann", "DELETE", "/v1/posts/{short}"),
		list("a deletion hides the bookmark", "cat", "", of("free")),
		bad("of which there is nothing", "cat", "GET", path+"{short}", "", 404, "not-found"),
		bad("bookmark a deleted post", "cat", "PUT", path+"{short}", "", 404, "not-found"),
		do("end a bookmark of a deleted post", "cat", "DELETE", path+"{short}"),
		do("end a bookmark", "cat", "DELETE", path+"{free}"),
		do("end a bookmark again", "cat", "DELETE", path+"{free}"),
		do("end a bookmark of nothing", "cat", "DELETE", path+"{nopost}"),
		list("no bookmarks any more", "cat", ""),
		bad("bookmark nothing", "cat", "PUT", path+"{nopost}", "", 404, "not-found"),
		bad("bookmark outside the grammar", "cat", "PUT", path+"1", "", 422, "invalid", "id"),
		bad("bookmark without a profile", "new", "PUT", path+"{free}", "", 409, "profile-missing"),
		bad("end a bookmark without a profile", "new", "DELETE", path+"{free}", "", 409, "profile-missing"),
		bad("bookmarks into anything else", "cat", "GET", "/v1/me/bookmarks?expand=author", "", 422, "invalid", "expand"),
	}
}
