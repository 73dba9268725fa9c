package clienttest

import (
	"net/http"
	"slices"
	"time"

	"fanfare/client"
)

func (s *Server) bookmark(user string, r *http.Request) (int, any) {
	post := r.PathValue("post")
	p, ok := s.posts[post]
	switch {
	case !ok:
		return fail(http.StatusNotFound)
	case s.blocked(user, p.AuthorID):
		return failBlocked()
	}
	if s.kept(user, post) < 0 {
		s.bookmarks[user] = append(s.bookmarks[user], client.Bookmark{PostID: post, BookmarkedAt: time.Now().UTC()})
	}
	return http.StatusNoContent, nil
}

// kept returns the index of a post among the bookmarks of user, or a negative number if there is no
// bookmark.
func (s *Server) kept(user, post string) int {
	return slices.IndexFunc(s.bookmarks[user], func(b client.Bookmark) bool { return b.PostID == post })
}

func (s *Server) unbookmark(user string, r *http.Request) (int, any) {
	if at := s.kept(user, r.PathValue("post")); at >= 0 {
		s.bookmarks[user] = slices.Delete(s.bookmarks[user], at, at+1)
	}
	return http.StatusNoContent, nil
}

// shownBookmarks returns the bookmarks that the list of user shows.
func (s *Server) shownBookmarks(user string) []client.Bookmark {
	var shown []client.Bookmark
	for _, b := range slices.Backward(s.bookmarks[user]) {
		if post, living := s.posts[b.PostID]; living && !s.blocked(user, post.AuthorID) {
			shown = append(shown, b)
		}
	}
	return shown
}

func (s *Server) bookmarkOf(user string, r *http.Request) (int, any) {
	for _, b := range s.shownBookmarks(user) {
		if b.PostID == r.PathValue("post") {
			return http.StatusOK, b
		}
	}
	return fail(http.StatusNotFound)
}

func (s *Server) listBookmarks(user string, r *http.Request) (int, any) {
	shown := s.shownBookmarks(user)
	if !expand(r) {
		return page(r, shown, func(b client.Bookmark) string { return b.PostID })
	}
	views := make([]client.PostView, len(shown))
	for i, b := range shown {
		views[i] = client.PostView{HomeItem: s.item(user, b.PostID), BookmarkedAt: b.BookmarkedAt}
	}
	return page(r, views, func(v client.PostView) string { return v.Post.ID })
}
