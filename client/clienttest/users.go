package clienttest

import (
	"net/http"
	"strings"
	"time"

	"fanfare/client"
)

func (s *Server) readUser(user string) client.User {
	u := s.users[user]
	u.Counts.Following = int64(len(s.follows[user]))
	for _, authors := range s.follows {
		if _, ok := authors[user]; ok {
			u.Counts.Followers++
		}
	}
	for _, post := range s.byUser[user] {
		if s.posts[post].ExpiresAt.IsZero() {
			u.Counts.Posts++
		}
	}
	if s.AlterUser != nil {
		u = s.AlterUser(u)
	}
	return u
}

func (s *Server) me(user string, _ *http.Request) (int, any) {
	if _, ok := s.users[user]; !ok {
		return fail(http.StatusConflict)
	}
	return http.StatusOK, s.readUser(user)
}

func (s *Server) putMe(user string, r *http.Request) (int, any) {
	var in client.ProfileInput
	if err := decode(r, &in); err != nil || badText(in.Name, 1, 100) {
		return fail(http.StatusUnprocessableEntity, "name")
	}
	u, ok := s.users[user]
	if !ok {
		u = client.User{ID: user, CreatedAt: time.Now().UTC()}
	}
	u.Name, u.Bio, u.ImageURL = in.Name, in.Bio, in.ImageURL
	u.Data = changed(u.Data, in.Data)
	s.users[user] = u
	return http.StatusOK, s.readUser(user)
}

func (s *Server) deleteMe(user string, _ *http.Request) (int, any) {
	for _, post := range s.byUser[user] {
		delete(s.posts, post)
	}
	delete(s.users, user)
	delete(s.byUser, user)
	delete(s.follows, user)
	delete(s.mutes, user)
	delete(s.blocks, user)
	delete(s.bookmarks, user)
	delete(s.markers, user)
	for _, authors := range s.follows { // mutes and blocks of the user stay
		delete(authors, user)
	}
	for _, likers := range s.likes {
		delete(likers, user)
	}
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
	if _, ok := s.users[user]; !ok && r.Method != http.MethodGet && r.URL.Path != "/v1/me" {
		return fail(http.StatusConflict)
	}
	for _, name := range []string{"id", "other"} {
		named := r.PathValue(name)
		_, isUser := s.users[named]
		_, muted := s.mutes[user][named] // a mute or a block of a removed user stays
		_, blocked := s.blocks[user][named]
		_, taken := s.taken[named]
		taken = taken && strings.HasSuffix(r.URL.Path, "/delivery")
		if _, isPost := s.posts[named]; named != "" && !taken && !isUser && !isPost && !muted && !blocked {
			return fail(http.StatusNotFound)
		}
	}
	return 0, nil
}
