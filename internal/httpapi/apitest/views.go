package apitest

import "strings"

// viewRows request posts and users with all values that a page shows. ann and ben follow each other. cat
// follows ann for a while. ben likes the post, and ann has commented on it.
func viewRows(target Target) []row {
	user := func(name string, following, followedBy bool) object {
		return object{"id": "{" + name + "}", "name": "*", "image_url": "*", "following": following, "followed_by": followedBy}
	}
	view := object{
		"post": object{"id": "{post}", "author_id": "{ann}", "text": "*", "created_at": "*"}, "author": object{"id": "{ann}", "name": "Änn 🎺", "image_url": "https://img.example/a.png"},
		"like_count": 1, "liked": true, "comment_count": "*", "bookmarked": false, "liked_at": nil,
	}
	counted := func(post string, comments int) object {
		return object{"post": object{"id": "{" + post + "}"}, "comment_count": comments}
	}
	list := func(items ...any) object { return object{"items": items, "next_cursor": nil} }
	ids := func(id string, n int) string { return strings.Repeat(","+id, n)[1:] }
	get := func(name, as, path string, want object) row {
		return row{name: name, as: as, method: "GET", path: path, status: 200, want: want}
	}
	soon := func(r row) row { r.soon = true; return r }
	rows := []row{
		{name: "cat follows for the views", as: "cat", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		soon(get("view of a post", "ben", "/v1/posts/{post}?expand=view", view)),
		get("views of posts by user", "ben", "/v1/users/{ann}/posts?expand=view&since=2020-01-01T00:00:00Z",
			list(counted("free", 0), counted("once", 0), counted("long", 0), counted("weird", 0), counted("post", 1))),
		get("page of views", "ben", "/v1/users/{ann}/posts?expand=view&limit=1", object{"items": []any{object{"post": object{"id": "{free}"}}}, "next_cursor": "*"}),
		get("views of posts by id", "ben", "/v1/posts?ids={nopost},{post},{gone},{post}", object{"items": []any{view}, "missing": []any{"{nopost}", "{gone}"}, "rest": nil}),
		get("100 ids", "ben", "/v1/posts?ids="+ids("{post}", 100), object{"items": []any{view}, "missing": []any{}}),
		get("users by id", "cat", "/v1/users?ids={ben},{absent},{ann},{ben}", object{"items": []any{user("ben", false, false), user("ann", true, false)}, "missing": []any{"{absent}"}}),
		get("profile with follows", "cat", "/v1/users/{ann}?expand=view", object{"id": "{ann}", "counts": object{"followers": 2}, "following": true, "followed_by": false}),
		get("profile without", "cat", "/v1/users/{ann}", object{"following": nil, "followed_by": nil}),
		get("followers as users", "ann", "/v1/users/{ann}/followers?expand=view",
			list(object{"user_id": "{ben}", "since": "*", "user": user("ben", true, true)}, object{"user_id": "{cat}", "user": user("cat", false, true)})),
		get("followers without", "ann", "/v1/users/{ann}/followers", list(object{"user": nil}, object{"user": nil})),
		get("following as users", "cat", "/v1/users/{ann}/following?expand=view", list(object{"user_id": "{ben}", "user": user("ben", false, false)})),
		get("friends as users", "ben", "/v1/users/{ann}/friends?expand=view", list(object{"user_id": "{ben}", "user": user("ben", false, false)})),
		get("likers as users", "ann", "/v1/posts/{post}/likes?expand=view", list(object{"user_id": "{ben}", "liked_at": "*", "user": user("ben", true, true)})),
		get("comments with authors", "cat", "/v1/posts/{post}/comments?expand=view", list(object{"id": "{reply}", "author_id": "{ann}", "author": user("ann", true, false)})),
		soon(get("comments of a user with posts", "ben", "/v1/users/{ann}/comments?expand=view", list(object{
			"id": "{reply}", "post_id": "{post}", "author": nil, "post": object{"post": object{"id": "{post}"}, "author": object{"id": "{ann}"}, "liked": true, "comment_count": 1},
		}))),
		get("comments without", "cat", "/v1/posts/{post}/comments", list(object{"id": "{reply}", "author": nil})),
		{name: "cat unfollows after the views", as: "cat", method: "DELETE", path: "/v1/me/following/{ann}", status: 204},
		get("unfollow shows at once", "cat", "/v1/users?ids={ann}", object{"items": []any{user("ann", false, false)}}),
		bad("101 posts", "ann", "GET", "/v1/posts?ids="+ids("{post}", 101), "", 422, "invalid", "ids"),
		bad("101 users", "ann", "GET", "/v1/users?ids="+ids("{ann}", 101), "", 422, "invalid", "ids"),
		bad("posts without ids", "ann", "GET", "/v1/posts", "", 422, "invalid", "ids"),
		bad("users without ids", "ann", "GET", "/v1/users?ids=", "", 422, "invalid", "ids"),
		bad("posts, an id outside the grammar", "ann", "GET", "/v1/posts?ids={post},1", "", 422, "invalid", "ids[1]"),
		bad("users, an id outside the grammar", "ann", "GET", "/v1/users?ids=.b,{ann},", "", 422, "invalid", "ids[0]", "ids[2]"),
		bad("ids twice", "ann", "GET", "/v1/users?ids={ann}&ids={ben}", "", 422, "invalid", "ids"),
		bad("expand into anything else", "ann", "GET", "/v1/posts/{post}?expand=author", "", 422, "invalid", "expand"),
		bad("expand a home into anything else", "ann", "GET", "/v1/home?expand=author", "", 422, "invalid", "expand"),
		bad("view of nothing", "ann", "GET", "/v1/posts/{nopost}?expand=view", "", 404, "not-found"),
		bad("view of a deleted post", "ann", "GET", "/v1/posts/{gone}?expand=view", "", 404, "not-found"),
		bad("followers of nobody as users", "ann", "GET", "/v1/users/{absent}/followers?expand=view", "", 404, "not-found"),
		bad("posts of nobody as views", "ann", "GET", "/v1/users/{absent}/posts?expand=view", "", 404, "not-found"),
		bad("comments of nobody with posts", "ann", "GET", "/v1/users/{absent}/comments?expand=view", "", 404, "not-found"),
		bad("nobody with follows", "ann", "GET", "/v1/users/{absent}?expand=view", "", 404, "not-found"),
	}
	if !target.LikesByUser {
		return append(rows, bad("views of liked posts, index off", "ann", "GET", "/v1/users/{ben}/likes?expand=view", "", 404, "index-off"))
	}
	liked := object{"post": object{"id": "{post}"}, "author": object{"id": "{ann}"}, "like_count": 1, "liked": false, "comment_count": 1, "liked_at": "*", "post_id": nil}
	return append(rows,
		soon(get("views of liked posts", "cat", "/v1/users/{ben}/likes?expand=view", list(liked))),
		get("liked posts without", "cat", "/v1/users/{ben}/likes", list(object{"post_id": "{post}", "post": nil})))
}
