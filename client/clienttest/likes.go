package clienttest

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"time"

	"fanfare/client"
)

const kindLike = "like"

var reactionKind = regexp.MustCompile("^[a-z][a-z0-9]{0,11}$")

func (s *Server) like(user string, r *http.Request) (int, any) {
	return s.reacts(user, r.PathValue("id"), kindLike)
}

func (s *Server) react(user string, r *http.Request) (int, any) {
	kind := r.PathValue("kind")
	if kind != kindLike && !slices.Contains(s.Reactions, kind) {
		return fail(http.StatusUnprocessableEntity, "kind")
	}
	return s.reacts(user, r.PathValue("id"), kind)
}

// reacts makes a kind the reaction of a user to a post.
func (s *Server) reacts(user, post, kind string) (int, any) {
	if s.blocked(user, s.posts[post].AuthorID) {
		return failBlocked()
	}
	if s.likes[post] == nil {
		s.likes[post] = map[string]client.Reactor{}
	}
	if s.likes[post][user].Kind != kind {
		s.likes[post][user] = client.Reactor{UserID: user, Kind: kind, At: time.Now().UTC()}
	}
	return http.StatusAccepted, nil
}

func (s *Server) unlike(user string, r *http.Request) (int, any) {
	delete(s.likes[r.PathValue("id")], user)
	return http.StatusAccepted, nil
}

// reactors returns the users with a reaction of a kind to a post; "" means any kind.
func (s *Server) reactors(post, kind string) []client.Reactor {
	var out []client.Reactor
	for _, reaction := range s.likes[post] {
		if kind == "" || reaction.Kind == kind {
			out = append(out, reaction)
		}
	}
	slices.SortFunc(out, func(a, b client.Reactor) int { return cmp.Compare(a.UserID, b.UserID) })
	return out
}

func (s *Server) likers(viewer string, r *http.Request) (int, any) {
	var out []client.Liker
	for _, like := range s.reactors(r.PathValue("id"), kindLike) {
		out = append(out, client.Liker{UserID: like.UserID, LikedAt: like.At, User: s.viewIf(expand(r), viewer, like.UserID)})
	}
	return page(r, out, func(l client.Liker) string { return l.UserID })
}

func (s *Server) reactions(_ string, r *http.Request) (int, any) {
	kind := r.URL.Query().Get("kind")
	if kind != "" && !reactionKind.MatchString(kind) {
		return fail(http.StatusUnprocessableEntity, "kind")
	}
	return page(r, s.reactors(r.PathValue("id"), kind), func(l client.Reactor) string { return l.UserID })
}

func (s *Server) count(post string) int64 {
	n := int64(len(s.reactors(post, kindLike)))
	if s.AlterCount != nil {
		n = s.AlterCount(post, n)
	}
	return n
}

// counts returns the counts of a post by kind.
func (s *Server) counts(post string) map[string]int64 {
	counts := map[string]int64{}
	for _, reaction := range s.likes[post] {
		counts[reaction.Kind]++
	}
	return counts
}

func (s *Server) likeCount(_ string, r *http.Request) (int, any) {
	return http.StatusOK, client.LikeCount{Count: s.count(r.PathValue("id")), AsOf: time.Now().UTC()}
}

func (s *Server) reactionCount(_ string, r *http.Request) (int, any) {
	return http.StatusOK, client.ReactionCount{Counts: s.counts(r.PathValue("id")), AsOf: time.Now().UTC()}
}

func (s *Server) likeOf(_ string, r *http.Request) (int, any) {
	like, ok := s.likes[r.PathValue("id")][r.PathValue("user")]
	if !ok || like.Kind != kindLike {
		return fail(http.StatusNotFound)
	}
	return http.StatusOK, client.Liker{UserID: like.UserID, LikedAt: like.At}
}

func (s *Server) reactionOf(_ string, r *http.Request) (int, any) {
	reaction, ok := s.likes[r.PathValue("id")][r.PathValue("user")]
	if !ok {
		return fail(http.StatusNotFound)
	}
	return http.StatusOK, reaction
}
