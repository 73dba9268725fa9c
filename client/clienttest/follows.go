package clienttest

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"fanfare/client"
)

func (s *Server) edges(viewer string, r *http.Request, of map[string]time.Time) (int, any) {
	out := make([]client.Edge, 0, len(of))
	for user, since := range of {
		out = append(out, client.Edge{UserID: user, Since: since, User: s.viewIf(expand(r), viewer, user)})
	}
	slices.SortFunc(out, func(a, b client.Edge) int { return cmp.Compare(a.UserID, b.UserID) })
	return page(r, out, func(e client.Edge) string { return e.UserID })
}

func (s *Server) followersOf(author string) map[string]time.Time {
	out := map[string]time.Time{}
	for follower, authors := range s.follows {
		if since, ok := authors[author]; ok {
			out[follower] = since
		}
	}
	return out
}

func (s *Server) followers(viewer string, r *http.Request) (int, any) {
	return s.edges(viewer, r, s.followersOf(r.PathValue("id")))
}

func (s *Server) following(viewer string, r *http.Request) (int, any) {
	return s.edges(viewer, r, s.follows[r.PathValue("id")])
}

func (s *Server) friends(viewer string, r *http.Request) (int, any) {
	out := map[string]time.Time{}
	followers := s.followersOf(r.PathValue("id"))
	for author, since := range s.follows[r.PathValue("id")] {
		if back, ok := followers[author]; ok {
			if back.After(since) {
				since = back
			}
			out[author] = since
		}
	}
	return s.edges(viewer, r, out)
}

func (s *Server) relationship(_ string, r *http.Request) (int, any) {
	a, b := r.PathValue("id"), r.PathValue("other")
	_, following := s.follows[a][b]
	_, followedBy := s.follows[b][a]
	return http.StatusOK, client.Relationship{Following: following, FollowedBy: followedBy, Friends: following && followedBy}
}

func (s *Server) follow(user string, r *http.Request) (int, any) {
	author := r.PathValue("id")
	if author == user {
		return fail(http.StatusUnprocessableEntity, "id")
	}
	if s.blocked(user, author) {
		return failBlocked()
	}
	if s.follows[user] == nil {
		s.follows[user] = map[string]time.Time{}
	}
	if _, ok := s.follows[user][author]; !ok {
		s.follows[user][author] = time.Now().UTC()
	}
	return http.StatusNoContent, nil
}

func (s *Server) unfollow(user string, r *http.Request) (int, any) {
	if r.PathValue("id") == user {
		return fail(http.StatusUnprocessableEntity, "id")
	}
	delete(s.follows[user], r.PathValue("id"))
	return http.StatusNoContent, nil
}

// hide makes a mute or a block.
func (s *Server) hide(all map[string]map[string]time.Time, then func(user, other string)) func(string, *http.Request) (int, any) {
	return func(user string, r *http.Request) (int, any) {
		other := r.PathValue("id")
		if other == user {
			return fail(http.StatusUnprocessableEntity, "id")
		}
		if all[user] == nil {
			all[user] = map[string]time.Time{}
		}
		if _, ok := all[user][other]; !ok {
			all[user][other] = time.Now().UTC()
		}
		then(user, other)
		return http.StatusNoContent, nil
	}
}

// show ends a mute or a block.
func (s *Server) show(all map[string]map[string]time.Time) func(string, *http.Request) (int, any) {
	return func(user string, r *http.Request) (int, any) {
		if r.PathValue("id") == user {
			return fail(http.StatusUnprocessableEntity, "id")
		}
		delete(all[user], r.PathValue("id"))
		return http.StatusNoContent, nil
	}
}

func (s *Server) hidden(all map[string]map[string]time.Time) func(string, *http.Request) (int, any) {
	return func(user string, r *http.Request) (int, any) { return s.edges(user, r, all[user]) }
}

func (s *Server) endFollows(user, other string) {
	delete(s.follows[user], other)
	delete(s.follows[other], user)
}

// blocked reports whether two users have a block between them.
func (s *Server) blocked(user, other string) bool {
	_, blocks := s.blocks[user][other]
	_, by := s.blocks[other][user]
	return blocks || by
}
