package clienttest

import (
	"net/http"
	"slices"
	"time"

	"fanfare/client"
	"fanfare/internal/id"
)

func (s *Server) bookmarkOf(user string, r *http.Request) (int, any) {
	for _, b := range s.feed.BookmarksOf(user) {
		if b.PostID == r.PathValue("post") {
			return http.StatusOK, b
		}
	}
	return fail(http.StatusNotFound)
}

func (s *Server) listBookmarks(user string, r *http.Request) (int, any) {
	shown := s.feed.BookmarksOf(user)
	if !expand(r) {
		return page(r, shown, func(b client.Bookmark) string { return b.PostID })
	}
	views := make([]client.PostView, len(shown))
	for i, b := range shown {
		views[i] = s.view(user, b.PostID)
		views[i].BookmarkedAt = b.BookmarkedAt
	}
	return page(r, views, func(v client.PostView) string { return v.Post.ID })
}

func (s *Server) putMarker(user string, r *http.Request) (int, any) {
	name := r.PathValue("name")
	var in struct {
		Position string `json:"position"`
	}
	err := decode(r, &in)
	field, unknown := unknownField(err)
	switch {
	case !id.ValidUser(name):
		return fail(http.StatusUnprocessableEntity, "name")
	case unknown:
		return fail(http.StatusUnprocessableEntity, field)
	case err != nil, in.Position == "", len(in.Position) > 128, slices.ContainsFunc([]byte(in.Position), func(c byte) bool { return c < '!' || c > '~' }):
		return fail(http.StatusUnprocessableEntity, "position")
	}
	return http.StatusOK, s.feed.Mark(user, name, in.Position, time.Now().UTC())
}

func (s *Server) marker(user string, r *http.Request) (int, any) {
	m, ok := s.feed.Markers[user][r.PathValue("name")]
	if !ok {
		return fail(http.StatusNotFound)
	}
	return http.StatusOK, m
}

func (s *Server) deleteMarker(user string, r *http.Request) (int, any) {
	delete(s.feed.Markers[user], r.PathValue("name"))
	return http.StatusNoContent, nil
}

func (s *Server) listMarkers(user string, r *http.Request) (int, any) {
	return page(r, s.feed.MarkersOf(user), func(m client.Marker) string { return m.Name })
}
