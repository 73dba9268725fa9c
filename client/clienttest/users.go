package clienttest

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"fanfare/client"
	"fanfare/internal/oracle"
)

func (s *Server) readUser(user string) client.User {
	u := s.feed.Users[user]
	u.Counts = s.feed.Counts(user)
	if s.AlterUser != nil {
		u = s.AlterUser(u)
	}
	return u
}

func (s *Server) me(user string, _ *http.Request) (int, any) {
	if _, ok := s.feed.Users[user]; !ok {
		return fail(http.StatusConflict)
	}
	return http.StatusOK, s.readUser(user)
}

func (s *Server) putMe(user string, r *http.Request) (int, any) {
	var in client.ProfileInput
	if err := decode(r, &in); err != nil || badText(in.Name, 1, 100) {
		return fail(http.StatusUnprocessableEntity, "name")
	}
	u, ok := s.feed.Users[user]
	if !ok {
		u = client.User{ID: user, CreatedAt: time.Now().UTC()}
	}
	u.Name, u.Bio, u.ImageURL = in.Name, in.Bio, in.ImageURL
	u.Data = changed(u.Data, in.Data)
	s.feed.Users[user] = u
	return http.StatusOK, s.readUser(user)
}

func (s *Server) deleteMe(user string, _ *http.Request) (int, any) {
	s.feed.Remove(user)
	return http.StatusAccepted, nil
}

func (s *Server) user(viewer string, r *http.Request) (int, any) {
	u := s.readUser(r.PathValue("id"))
	if !expand(r) {
		return http.StatusOK, u
	}
	view := s.userView(viewer, u.ID)
	return http.StatusOK, profile{u, view.Following, view.FollowedBy}
}

// known refuses a write by a user without a profile, and a path with an unknown user or
// post; its status is 0 for any other request.
func (s *Server) known(user string, r *http.Request) (int, any) {
	if _, ok := s.feed.Users[user]; !ok && r.Method != http.MethodGet && r.URL.Path != "/v1/me" {
		return fail(http.StatusConflict)
	}
	for _, name := range []string{"id", "other"} {
		named := r.PathValue(name)
		_, isUser := s.feed.Users[named]
		hidden := s.feed.Mutes.Has(user, named) || s.feed.Blocks.Has(user, named) // which stays if the named user is removed
		_, taken := s.taken[named]
		taken = taken && strings.HasSuffix(r.URL.Path, "/delivery")
		if named != "" && !taken && !isUser && !hidden && s.feed.Living(named) != 0 {
			return fail(http.StatusNotFound)
		}
	}
	return 0, nil
}

// edges lists edges of the user in the path, or else of the caller.
func (s *Server) edges(of func(user string) []client.Edge) func(string, *http.Request) (int, any) {
	return func(viewer string, r *http.Request) (int, any) {
		all := of(cmp.Or(r.PathValue("id"), viewer))
		for i := range all {
			all[i].User = s.viewIf(expand(r), viewer, all[i].UserID)
		}
		return page(r, all, func(e client.Edge) string { return e.UserID })
	}
}

// act makes or ends an edge from the caller to the user or the post in the path.
func (s *Server) act(act func(user, other string, at time.Time) oracle.Refusal) func(string, *http.Request) (int, any) {
	return func(user string, r *http.Request) (int, any) {
		return answer(act(user, cmp.Or(r.PathValue("id"), r.PathValue("post")), time.Now().UTC()), http.StatusNoContent)
	}
}

func (s *Server) follow(user string, r *http.Request) (int, any) {
	switch r.URL.Query().Get("silent") {
	case "true":
		return s.act(s.feed.FollowSilently)(user, r)
	case "", "false":
		return s.act(s.feed.Follow)(user, r)
	default:
		return fail(http.StatusUnprocessableEntity, "silent")
	}
}

func (s *Server) followers(user string) []client.Edge { return s.feed.Seen("").To(user) }

func (s *Server) following(viewer string, r *http.Request) (int, any) {
	return s.edges(s.feed.Seen(viewer).From)(viewer, r)
}

func (s *Server) relationship(viewer string, r *http.Request) (int, any) {
	return http.StatusOK, s.feed.Relationship(viewer, r.PathValue("id"), r.PathValue("other"))
}
