package httpapi

import (
	"context"
	"net/http"
	"time"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/page"
)

// registerOwn adds the calls for things that users keep for themselves.
func (a *API) registerOwn() {
	a.registerBookmarks()
	a.registerMarkers()
}

func toBookmark(b feed.Bookmarked) client.Bookmark {
	return client.Bookmark{PostID: b.PostID, BookmarkedAt: b.BookmarkedAt.UTC()}
}

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

// MarkerInput is a new position.
type MarkerInput struct {
	Position string `json:"position" minLength:"1" maxLength:"128" pattern:"^[!-~]*$" patternDescription:"visible ASCII" doc:"Such as the id of a post: positions are compared by their bytes." example:"01JZ0000000000000000000000"`
}

type markerOut struct{ Body client.Marker }

func toMarker(m feed.Marker) client.Marker {
	return client.Marker{Name: m.Name, Position: m.Position, UpdatedAt: m.UpdatedAt.UTC()}
}

func toMarkerOut(m feed.Marker) *markerOut { return &markerOut{toMarker(m)} }

func (a *API) registerMarkers() {
	const tag, path = "Markers", "/v1/me/markers/{name}"
	type nameIn struct {
		Name userID `path:"name" doc:"A name of your choice." example:"home"`
	}
	type putIn struct {
		Name userID `path:"name" doc:"A name of your choice." example:"home"`
		Body MarkerInput
	}
	put := operation(route{http.MethodPut, path, "put-marker", tag, "Move a read marker forward"}, http.StatusOK, http.StatusConflict)
	put.Description = "The answer is the marker as it is then. A position that is not above the stored one changes nothing, so devices and repeated calls in any order end at the highest position. " +
		"To go back, delete the marker first. Nobody else sees it. You may have 1,000 markers: one more is 409 of type marker-limit."
	register(a, put, func(ctx context.Context, in *putIn) (*markerOut, error) {
		return converted(toMarkerOut)(a.feed.SetMarker(ctx, userOf(ctx), string(in.Name), in.Body.Position))
	})
	register(a, operation(route{http.MethodGet, path, "get-marker", tag, "Get a read marker"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *nameIn) (*markerOut, error) {
			return converted(toMarkerOut)(a.feed.MarkerOf(ctx, userOf(ctx), string(in.Name)))
		})
	register(a, operation(route{http.MethodDelete, path, "delete-marker", tag, "Delete a read marker"}, http.StatusNoContent, http.StatusConflict),
		func(ctx context.Context, in *nameIn) (*empty, error) {
			return nil, a.feed.DeleteMarker(ctx, userOf(ctx), string(in.Name))
		})
	type listIn struct{ Page }
	register(a, operation(route{http.MethodGet, "/v1/me/markers", "list-markers", tag, "List your read markers, by name"}, http.StatusOK),
		func(ctx context.Context, in *listIn) (*listOut[client.Marker], error) {
			return listed(toMarker)(a.feed.Markers(ctx, userOf(ctx), in.request()))
		})
}
