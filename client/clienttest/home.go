package clienttest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"fanfare/client"
)

func (s *Server) home(user string, r *http.Request) (int, any) {
	delete(s.away, user)
	var items []client.HomeItem
	for _, post := range s.feed.Home(user) {
		items = append(items, s.item(user, post))
	}
	if s.AlterHome != nil {
		items = s.AlterHome(user, items)
	}
	if !expand(r) {
		return newer(r, items, func(i client.HomeItem) string { return i.Post.ID })
	}
	views := make([]client.PostView, len(items))
	for i, item := range items {
		views[i] = s.viewOf(user, item)
	}
	return newer(r, views, func(v client.PostView) string { return v.Post.ID })
}

// newer answers with a page of a home, and with the number of newer posts if the request asks for posts after
// a post.
func newer[T any](r *http.Request, items []T, postID func(T) string) (int, any) {
	if !r.URL.Query().Has("after") {
		return page(r, items, postID)
	}
	after := r.URL.Query().Get("after")
	if len(after) != 26 {
		return fail(http.StatusUnprocessableEntity, "after")
	}
	items = slices.DeleteFunc(items, func(i T) bool { return postID(i) <= after })
	status, body := page(r, items, postID)
	news, ok := body.(listed[T])
	if !ok {
		return status, body
	}
	etag := `"`
	for _, item := range news.Items {
		etag += postID(item)
	}
	unread := min(len(items), 100)
	etag += strconv.Itoa(unread) + `"`
	if known := strings.Join(r.Header.Values("If-None-Match"), ", "); known == "*" || strings.Contains(known, etag) {
		return http.StatusNotModified, tagged{etag, nil}
	}
	if r.URL.Query().Get("cursor") == "" {
		news.Unread = &unread
	}
	return status, tagged{etag, news}
}

func (s *Server) beAway(user string, _ *http.Request) (int, any) {
	s.left[user], s.away[user] = true, true
	return http.StatusNoContent, nil
}

// Returned reports whether a reader was away and has read the home since then. Only a hook may call
// Returned.
func (s *Server) Returned(user string) bool { return s.left[user] && !s.away[user] }
