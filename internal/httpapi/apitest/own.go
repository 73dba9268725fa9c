package apitest

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"fanfare/client"
)

// This file has the contract of the things that users keep for themselves.

func ownRows() []row { return append(bookmarkRows(), markerRows()...) }

// ownLists returns the lists for listRows, and the rows that fill the lists.
func ownLists() ([]aList, []row) {
	return []aList{
			{"bookmarks", "ann", "/v1/me/bookmarks", "", "", "", object{"post_id": "{news}"}, object{"post_id": "{free}"}},
			{"markers", "ann", "/v1/me/markers", "", "", "", object{"name": "a"}, object{"name": "b"}},
		}, []row{
			{name: "ann bookmarks a post", as: "ann", method: "PUT", path: "/v1/me/bookmarks/{free}", status: 204},
			{name: "ann bookmarks the news", as: "ann", method: "PUT", path: "/v1/me/bookmarks/{news}", status: 204},
			{name: "ann marks one list", as: "ann", method: "PUT", path: "/v1/me/markers/b", body: `{"position":"1"}`, status: 200},
			{name: "ann marks another list", as: "ann", method: "PUT", path: "/v1/me/markers/a", body: `{"position":"1"}`, status: 200},
		}
}

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
		return object{"post": object{"id": "{" + post + "}", "text": "*"}, "author": object{"id": "{ann}"}, "like_count": "*", "liked": "*", "bookmarked": true, "bookmarked_at": "*", "liked_at": nil}
	}
	marked := func(name, as, path string, free, weird bool) row {
		items := []any{object{"post": object{"id": "{free}"}, "bookmarked": free}, object{"post": object{"id": "{weird}"}, "bookmarked": weird}}
		return row{name: name, as: as, method: "GET", path: path, status: 200, soon: true, want: object{"items": items}}
	}
	const path, both = "/v1/me/bookmarks/", "/v1/posts?ids={free},{weird}"
	return []row{
		list("no bookmarks", "cat", ""),
		do("bookmark", "cat", "PUT", path+"{free}"),
		do("bookmark an older post", "cat", "PUT", path+"{weird}"),
		do("bookmark again", "cat", "PUT", path+"{free}"),
		list("bookmarks, the newest bookmark first", "cat", "", of("weird"), of("free")),
		list("bookmarks as posts", "cat", "?expand=view", view("weird"), view("free")),
		{name: "one page of bookmarks", as: "cat", method: "GET", path: "/v1/me/bookmarks?limit=1&expand=view", status: 200, want: object{"items": []any{view("weird")}, "next_cursor": "*"}, keep: member("cursor of cat's bookmarks", "next_cursor")},
		list("and the next one", "cat", "?limit=1&cursor={cursor of cat's bookmarks}", of("free")),
		marked("bookmarks in views", "cat", both, true, true),
		marked("no bookmarks of another user in views", "ann", both, false, false),
		do("ann bookmarks her own post", "ann", "PUT", path+"{news}"),
		{name: "a bookmark in a home as views", as: "ann", method: "GET", path: "/v1/home?expand=view&limit=1", status: 200, soon: true, want: object{"items": []any{
			object{"post": object{"id": "{news}"}, "author": object{"id": "{ann}"}, "comment_count": "*", "bookmarked": true},
		}}},
		{name: "news as views", as: "ann", method: "GET", path: "/v1/home?expand=view&after={free}", status: 200, soon: true, want: object{"items": []any{object{"post": object{"id": "{news}"}, "bookmarked": true}}, "unread": 1}},
		{name: "a home without views", as: "ann", method: "GET", path: "/v1/home?limit=1", status: 200, want: object{"items": []any{object{"post": object{"id": "{news}"}, "comment_count": "*", "bookmarked": nil}}}},
		do("ann ends her bookmark", "ann", "DELETE", path+"{news}"),
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
		marked("views after the end of a bookmark", "cat", both, true, false),
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

// ownMethods bookmark posts and set a read marker.
func ownMethods() []methodRow {
	bookmark := func(b client.Bookmark) string { return b.PostID }
	return []methodRow{
		{method: "Bookmark", path: "/v1/me/bookmarks/p", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ben.Bookmark(ctx, s.second.ID), s.ben.Bookmark(ctx, s.first.ID), s.ben.Bookmark(ctx, s.second.ID))
		}},
		{method: "BookmarkOf", path: "/v1/me/bookmarks/p", call: func(ctx context.Context, s *callers) error {
			_, none := s.ann.BookmarkOf(ctx, s.first.ID)
			return errors.Join(refused(none, http.StatusNotFound), answer(s.ben.BookmarkOf(ctx, s.first.ID))(func(b client.Bookmark) bool { return b.PostID == s.first.ID && !b.BookmarkedAt.IsZero() }))
		}},
		{method: "Bookmarks", path: "/v1/me/bookmarks", call: func(ctx context.Context, s *callers) error {
			return errors.Join(listed(ctx, s.ben.Bookmarks(), bookmark, s.first.ID, s.second.ID), listed(ctx, s.ann.Bookmarks(), bookmark))
		}},
		{method: "BookmarkViews", path: "/v1/me/bookmarks?expand=view", call: func(ctx context.Context, s *callers) error {
			return listed(ctx, s.ben.BookmarkViews(), postView, s.first.ID, s.second.ID)
		}},
		{method: "Unbookmark", path: "/v1/me/bookmarks/p", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ben.Unbookmark(ctx, s.second.ID), listed(ctx, s.ben.Bookmarks(), bookmark, s.first.ID))
		}},
		{method: "SetMarker", path: "/v1/me/markers/n", call: func(ctx context.Context, s *callers) error {
			at := func(position string) func(client.Marker) bool {
				return func(m client.Marker) bool { return m.Name == "home" && m.Position == position && !m.UpdatedAt.IsZero() }
			}
			return errors.Join(answer(s.ben.SetMarker(ctx, "home", s.second.ID))(at(s.second.ID)), answer(s.ben.SetMarker(ctx, "home", s.first.ID))(at(s.second.ID)))
		}},
		{method: "Marker", path: "/v1/me/markers/n", call: func(ctx context.Context, s *callers) error {
			return answer(s.ben.Marker(ctx, "home"))(func(m client.Marker) bool { return m.Position == s.second.ID })
		}},
		{method: "Markers", path: "/v1/me/markers", call: func(ctx context.Context, s *callers) error {
			name := func(m client.Marker) string { return m.Name }
			return errors.Join(listed(ctx, s.ben.Markers(), name, "home"), listed(ctx, s.ann.Markers(), name))
		}},
		{method: "DeleteMarker", path: "/v1/me/markers/n", call: func(ctx context.Context, s *callers) error {
			err := s.ben.DeleteMarker(ctx, "home")
			_, gone := s.ben.Marker(ctx, "home")
			return errors.Join(err, refused(gone, http.StatusNotFound))
		}},
	}
}
