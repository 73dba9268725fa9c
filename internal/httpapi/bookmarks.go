package httpapi

import (
	"context"
	"net/http"
	"time"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/page"
)

func toBookmark(b feed.Bookmarked) client.Bookmark {
	return client.Bookmark{PostID: b.PostID, BookmarkedAt: b.BookmarkedAt.UTC()}
}

// registerBookmarks adds the calls for posts that users keep for themselves.
func (a *API) registerBookmarks() {
	const tag, path = "Bookmarks", "/v1/me/bookmarks/{id}"
	put := operation(route{http.MethodPut, path, "bookmark", tag, "Bookmark a post"}, http.StatusNoContent, http.StatusNotFound, http.StatusConflict)
	put.Description = "Nobody else sees a bookmark. A post that has one keeps its place in the list. You may have 1,000 bookmarks: one more is 409 of type bookmark-limit. " + refusesBlocked
	register(a, put, func(ctx context.Context, in *PostPath) (*empty, error) {
		return nil, a.feed.Bookmark(ctx, userOf(ctx), string(in.ID))
	})

	register(a, operation(route{http.MethodDelete, path, "unbookmark", tag, "End a bookmark, also of a deleted post"}, http.StatusNoContent, http.StatusConflict),
		func(ctx context.Context, in *PostPath) (*empty, error) {
			return nil, a.feed.Unbookmark(ctx, userOf(ctx), string(in.ID))
		})

	type bookmarkOut struct{ Body client.Bookmark }
	register(a, operation(route{http.MethodGet, path, "get-bookmark", tag, "Get your bookmark of a post"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *PostPath) (*bookmarkOut, error) {
			return converted(func(b feed.Bookmarked) *bookmarkOut { return &bookmarkOut{toBookmark(b)} })(a.feed.BookmarkOf(ctx, userOf(ctx), string(in.ID)))
		})

	type listIn struct {
		Page
		Views
	}
	list := either[List[client.Bookmark], List[client.PostView]](a, operation(route{http.MethodGet, "/v1/me/bookmarks", "list-bookmarks", tag, "List your bookmarks, the newest bookmark first"}, http.StatusOK))
	list.Description = "It leaves out deleted posts, and posts of a user while there is a block between the two of you."
	register(a, list, func(ctx context.Context, in *listIn) (*anyOut, error) {
		if in.wanted() {
			views, err := a.views.BookmarkViews(ctx, userOf(ctx), in.request())
			return anyOf(toPostViewsAt(func(v *client.PostView, at time.Time) { v.BookmarkedAt = at }), views, err)
		}
		bookmarks, err := a.feed.Bookmarks(ctx, userOf(ctx), in.request())
		return anyOf(func(l page.List[feed.Bookmarked]) List[client.Bookmark] { return toList(toBookmark, l) }, bookmarks, err)
	})
}
