package client

import (
	"context"
	"net/http"
	"time"
)

// Bookmark is a post that the caller keeps.
type Bookmark struct {
	PostID       string    `json:"post_id"`
	BookmarkedAt time.Time `json:"bookmarked_at"`
}

// Marker is the position up to which the caller has read a list. The caller chooses the name of the list.
type Marker struct {
	Name      string    `json:"name"`
	Position  string    `json:"position"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Bookmark adds a post to the caller's own list of bookmarks. The call is idempotent.
func (c *Client) Bookmark(ctx context.Context, post string) error {
	return c.do(ctx, call{method: http.MethodPut, path: path("v1", "me", "bookmarks", post)}, nil)
}

// Unbookmark ends a bookmark. The call is idempotent.
func (c *Client) Unbookmark(ctx context.Context, post string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("v1", "me", "bookmarks", post)}, nil)
}

// BookmarkOf reads the caller's bookmark of a post. It fails with ErrNotFound if there is no bookmark.
func (c *Client) BookmarkOf(ctx context.Context, post string) (Bookmark, error) {
	return get[Bookmark](ctx, c, path("v1", "me", "bookmarks", post))
}

// Bookmarks lists the caller's bookmarks, the newest bookmark first.
func (c *Client) Bookmarks() List[Bookmark] { return list[Bookmark](c, nil, "v1", "me", "bookmarks") }

// BookmarkViews lists the caller's bookmarks as Bookmarks does, with all values of the posts that a page
// shows.
func (c *Client) BookmarkViews() List[PostView] {
	return list[PostView](c, view(), "v1", "me", "bookmarks")
}

// SetMarker moves the caller's read marker with this name forward, and returns the marker. A position
// that is not above the stored position changes nothing. The call may be repeated.
func (c *Client) SetMarker(ctx context.Context, name, position string) (Marker, error) {
	body := struct {
		Position string `json:"position"`
	}{position}
	var marker Marker
	err := c.do(ctx, call{method: http.MethodPut, path: path("v1", "me", "markers", name), body: body}, &marker)
	return marker, err
}

// Marker reads a read marker. It fails with ErrNotFound if there is no such marker.
func (c *Client) Marker(ctx context.Context, name string) (Marker, error) {
	return get[Marker](ctx, c, path("v1", "me", "markers", name))
}

// Markers lists the caller's read markers, by name.
func (c *Client) Markers() List[Marker] { return list[Marker](c, nil, "v1", "me", "markers") }

// DeleteMarker deletes a read marker. The call is idempotent.
func (c *Client) DeleteMarker(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("v1", "me", "markers", name)}, nil)
}
