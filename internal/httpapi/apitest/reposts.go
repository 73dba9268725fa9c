package apitest

import (
	"context"
	"errors"

	"fanfare/client"
)

// repostRows let ben repost and quote posts of ann. ann and ben follow each other, and cat follows ann.
func repostRows() []row {
	do := func(name, as, method, path string) row {
		return row{name: name, as: as, method: method, path: path, status: 204}
	}
	repost := func(name, as, post string) row {
		return row{name: name, as: as, method: "PUT", path: "/v1/posts/{" + post + "}/repost", status: 200, want: object{"id": "{r}", "author_id": "{ben}", "text": "", "repost_of": "{worth}", "of_author_id": "{ann}", "quote_of": nil}}
	}
	shows := func(name, as, query string, items ...any) row {
		return row{name: name, as: as, method: "GET", path: "/v1/home?limit=2" + query, status: 200, soon: true, want: object{"items": append([]any{}, items...)}}
	}
	view := func(name, as, post string, want object) row {
		return row{name: name, as: as, method: "GET", path: "/v1/posts/{" + post + "}?expand=view", status: 200, soon: true, want: want}
	}
	original := object{"post": object{"id": "{worth}", "text": "worth it"}, "author": object{"id": "{ann}"}, "like_count": "*", "comment_count": "*", "repost": nil}
	line := object{"post": object{"id": "*", "repost_of": "{worth}"}, "author": object{"id": "{ben}"}, "like_count": "*", "comment_count": "*", "repost": original}
	own := object{"post": object{"id": "{worth}"}, "author": object{"id": "{ann}"}, "like_count": "*", "comment_count": "*"}
	older := object{"post": object{"id": "{before}"}}
	first := repost("repost", "ben", "worth")
	first.want["id"], first.save = "*", "r"
	again := repost("repost after the end", "ben", "worth")
	again.want["id"], again.save = "*", "r2"
	quote := object{"text": "so true", "quote_of": "{worth}", "of_author_id": "{ann}", "repost_of": nil}
	return []row{
		{name: "a post before the reposts", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"before"}`, status: 201, save: "before"},
		{name: "a post worth a repost", as: "ann", method: "POST", path: "/v1/posts", body: `{"text":"worth it"}`, status: 201, save: "worth"},
		do("end a repost before the first", "ben", "DELETE", "/v1/posts/{worth}/repost"),
		first,
		repost("repost again", "ben", "worth"),
		repost("repost of a repost", "ben", "r"),
		shows("a repost in a home, and no second line", "ann", "", line, older),
		shows("a repost by pull", "ann", "&source=pull", line, older),
		{name: "a repost by its id", as: "ann", method: "GET", path: "/v1/posts/{r}", status: 200, want: object{"repost_of": "{worth}", "text": ""}},
		{name: "a repost as a view", as: "ann", method: "GET", path: "/v1/posts/{r}?expand=view", status: 200, want: object{"repost": original}},
		view("the count of reposts", "ben", "worth", object{"repost_count": 1, "reposted": true, "bookmarked": false}),
		view("a count is of all users, and a mark of one", "ann", "worth", object{"repost_count": 1, "reposted": false}),
		do("ben bookmarks the post worth a repost", "ben", "PUT", "/v1/me/bookmarks/{worth}"),
		view("a repost has the marks of its original", "ben", "r", object{"reposted": true, "bookmarked": true, "repost": object{"post": object{"id": "{worth}"}, "author": "*", "like_count": 0, "repost_count": 1}}),
		view("also for another user", "ann", "r", object{"reposted": false, "bookmarked": false}),
		shows("the marks of a repost in a home", "ben", "&expand=view", object{"post": object{"id": "{r}"}, "author": "*", "like_count": "*", "reposted": true, "bookmarked": true, "repost": original}, older),
		bad("like of a repost", "ann", "PUT", "/v1/posts/{r}/like", "", 409, "is-repost"),
		bad("bookmark of a repost", "ann", "PUT", "/v1/me/bookmarks/{r}", "", 409, "is-repost"),
		bad("edit of a repost", "ben", "PATCH", "/v1/posts/{r}", `{"text":"x"}`, 409, "is-repost"),
		do("ben ends the repost by its id", "ben", "DELETE", "/v1/posts/{r}/repost"),
		do("and again", "ben", "DELETE", "/v1/posts/{worth}/repost"),
		shows("the post at its own place again", "ann", "", own, older),
		view("no repost counts after its end", "ben", "worth", object{"repost_count": 0, "reposted": false, "bookmarked": true}),
		again,
		{name: "quote", as: "ben", method: "POST", path: "/v1/posts", body: `{"text":"so true","quote_of":"{r2}"}`, status: 201, want: quote, save: "quote"},
		shows("a quote in a home", "ann", "", object{"post": quote, "author": object{"id": "{ben}"}, "like_count": "*", "comment_count": "*", "quote": original}, line),
		view("a quote has its own marks", "ben", "quote", object{"reposted": false, "bookmarked": false, "repost_count": 0, "quote": object{"post": object{"id": "{worth}"}, "author": "*", "like_count": 0, "repost_count": 1}}),
		do("ben ends the bookmark of the post worth a repost", "ben", "DELETE", "/v1/me/bookmarks/{worth}"),
		bad("quote without a text", "ben", "POST", "/v1/posts", `{"quote_of":"{worth}"}`, 422, "invalid", "text"),
		bad("quote outside the grammar", "ben", "POST", "/v1/posts", `{"text":"x","quote_of":"1"}`, 422, "invalid", "quote_of"),
		bad("quote of nothing", "ben", "POST", "/v1/posts", `{"text":"x","quote_of":"{nopost}"}`, 404, "not-found"),
		do("ann blocks for the reposts", "ann", "PUT", "/v1/me/blocks/{cat}"),
		bad("repost over a block", "cat", "PUT", "/v1/posts/{worth}/repost", "", 403, "blocked"),
		bad("repost of a repost over a block", "cat", "PUT", "/v1/posts/{r2}/repost", "", 403, "blocked"),
		bad("quote over a block", "cat", "POST", "/v1/posts", `{"text":"x","quote_of":"{worth}"}`, 403, "blocked"),
		bad("a view of a repost over a block", "cat", "GET", "/v1/posts/{r2}?expand=view", "", 404, "not-found"),
		{name: "a view of a quote over a block", as: "cat", method: "GET", path: "/v1/posts/{quote}?expand=view", status: 200, want: object{"post": quote, "quote": nil}},
		do("ann unblocks for the reposts", "ann", "DELETE", "/v1/me/blocks/{cat}"),
		{name: "cat follows ann after the reposts", as: "cat", method: "PUT", path: "/v1/me/following/{ann}", status: 204},
		do("ann deletes the post worth a repost", "ann", "DELETE", "/v1/posts/{worth}"),
		shows("a quote without the quoted post", "ann", "", object{"post": quote, "quote": nil}, older),
		do("ben deletes the quote", "ben", "DELETE", "/v1/posts/{quote}"),
		{name: "no repost without its original", as: "ann", method: "GET", path: "/v1/posts?ids={r2}", status: 200, want: object{"items": []any{}, "missing": []any{"{r2}"}}},
		bad("repost of a deleted post", "ben", "PUT", "/v1/posts/{worth}/repost", "", 404, "not-found"),
		bad("repost of a repost of a deleted post", "ann", "PUT", "/v1/posts/{r2}/repost", "", 404, "not-found"),
		do("ben ends the repost of a deleted post", "ben", "DELETE", "/v1/posts/{worth}/repost"),
		do("ann deletes the post before the reposts", "ann", "DELETE", "/v1/posts/{before}"),
		bad("repost nothing", "ben", "PUT", "/v1/posts/{nopost}/repost", "", 404, "not-found"),
		do("end a repost of nothing", "ben", "DELETE", "/v1/posts/{nopost}/repost"),
		bad("repost outside the grammar", "ben", "PUT", "/v1/posts/1/repost", "", 422, "invalid", "id"),
		bad("repost without a profile", "new", "PUT", "/v1/posts/{nopost}/repost", "", 409, "profile-missing"),
		bad("end a repost without a profile", "new", "DELETE", "/v1/posts/{nopost}/repost", "", 409, "profile-missing"),
	}
}

// repostMethods let ben repost the first post of ann.
func repostMethods() []methodRow {
	return []methodRow{
		{method: "Repost", path: "/v1/posts/p/repost", call: func(ctx context.Context, s *callers) error {
			return answer(s.ben.Repost(ctx, s.first.ID))(func(p client.Post) bool { return p.RepostOf == s.first.ID && p.OfAuthorID == s.annID && p.Text == "" })
		}},
		{method: "EndRepost", path: "/v1/posts/p/repost", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ben.EndRepost(ctx, s.first.ID), s.ben.EndRepost(ctx, s.first.ID))
		}},
	}
}
