package clienttest

import (
	"net/http"
	"slices"
	"strings"

	"fanfare/client"
)

// expand reports whether a request asks for views.
func expand(r *http.Request) bool { return r.URL.Query().Get("expand") == "view" }

// profile is a user whose follows are always in the JSON, even if they are false.
type profile struct {
	client.User
	Following  bool `json:"following"`
	FollowedBy bool `json:"followed_by"`
}

// item returns a post as viewer's home shows it.
func (s *Server) item(viewer, post string) client.HomeItem {
	u := s.feed.Users[s.feed.Posts[post].AuthorID]
	own := s.feed.Reactions[post][viewer].Kind
	item := client.HomeItem{
		Post: s.feed.Posts[post], Author: client.Author{ID: u.ID, Name: u.Name, ImageURL: u.ImageURL}, LikeCount: s.count(post), RepostCount: s.feed.Reposts(post), Liked: own == kindLike,
	}
	of := s.feed.Refers(viewer, post)
	if of != "" && item.Post.RepostOf != "" {
		item.Repost = new(s.item(viewer, of))
	} else if of != "" {
		item.Quote = new(s.item(viewer, of))
	}
	if len(s.Reactions) > 0 {
		item.Reactions, item.Reaction = s.feed.ReactionCounts(post), own
	}
	return item
}

// view returns a post with all values that a page shows.
func (s *Server) view(viewer, post string) client.PostView {
	return s.viewOf(viewer, s.item(viewer, post))
}

func (s *Server) viewOf(viewer string, item client.HomeItem) client.PostView {
	of := s.feed.Original(item.Post.ID)
	return client.PostView{HomeItem: item, Kept: client.Kept{Bookmarked: s.feed.Bookmarks.Has(viewer, of), Reposted: s.feed.RepostBy(viewer, of) != ""}}
}

func (s *Server) userView(viewer, user string) client.UserView {
	u := s.feed.Users[user]
	return client.UserView{ID: user, Name: u.Name, ImageURL: u.ImageURL, Following: s.feed.Follows.Has(viewer, user), FollowedBy: s.feed.Seen(viewer).Has(user, viewer)}
}

// viewIf returns the view of a user if wanted, else nil.
func (s *Server) viewIf(wanted bool, viewer, user string) *client.UserView {
	if !wanted {
		return nil
	}
	view := s.userView(viewer, user)
	return &view
}

func (s *Server) usersByID(viewer string, r *http.Request) (int, any) {
	return found(r, func(id string) (client.UserView, bool) { _, ok := s.feed.Users[id]; return s.userView(viewer, id), ok })
}

func (s *Server) postsByID(viewer string, r *http.Request) (int, any) {
	return found(r, func(id string) (client.PostView, bool) {
		if !s.feed.Shows(viewer, id) {
			return client.PostView{}, false
		}
		return s.view(viewer, id), true
	})
}

func found[T any](r *http.Request, read func(id string) (T, bool)) (int, any) {
	ids := strings.Split(r.URL.Query().Get("ids"), ",")
	if len(ids) > 100 || ids[0] == "" {
		return fail(http.StatusUnprocessableEntity, "ids")
	}
	out := client.Found[T]{Items: []T{}, Missing: []string{}}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			continue
		}
		if item, ok := read(id); ok {
			out.Items = append(out.Items, item)
		} else {
			out.Missing = append(out.Missing, id)
		}
	}
	return http.StatusOK, out
}
