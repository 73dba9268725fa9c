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

// react serves the calls for likes, too: their paths have no kind.
func (s *Server) react(user string, r *http.Request) (int, any) {
	kind := cmp.Or(r.PathValue("kind"), kindLike)
	if kind != kindLike && !slices.Contains(s.Reactions, kind) {
		return fail(http.StatusUnprocessableEntity, "kind")
	}
	return answer(s.feed.React(user, r.PathValue("id"), kind, time.Now().UTC()), http.StatusAccepted)
}

func (s *Server) unreact(user string, r *http.Request) (int, any) {
	return answer(s.feed.React(user, r.PathValue("id"), "", time.Now().UTC()), http.StatusAccepted)
}

func (s *Server) likers(viewer string, r *http.Request) (int, any) {
	var out []client.Liker
	for _, like := range s.feed.Reactors(r.PathValue("id"), kindLike) {
		out = append(out, client.Liker{UserID: like.UserID, LikedAt: like.At, User: s.viewIf(expand(r), viewer, like.UserID)})
	}
	return page(r, out, func(l client.Liker) string { return l.UserID })
}

func (s *Server) reactions(_ string, r *http.Request) (int, any) {
	kind := r.URL.Query().Get("kind")
	if kind != "" && !reactionKind.MatchString(kind) {
		return fail(http.StatusUnprocessableEntity, "kind")
	}
	return page(r, s.feed.Reactors(r.PathValue("id"), kind), func(l client.Reactor) string { return l.UserID })
}

func (s *Server) count(post string) int64 {
	n := s.feed.ReactionCounts(post)[kindLike]
	if s.AlterCount != nil {
		n = s.AlterCount(post, n)
	}
	return n
}

func (s *Server) likeCount(_ string, r *http.Request) (int, any) {
	return http.StatusOK, client.LikeCount{Count: s.count(r.PathValue("id")), AsOf: time.Now().UTC()}
}

func (s *Server) reactionCount(_ string, r *http.Request) (int, any) {
	return http.StatusOK, client.ReactionCount{Counts: s.feed.ReactionCounts(r.PathValue("id")), AsOf: time.Now().UTC()}
}

func (s *Server) likeOf(_ string, r *http.Request) (int, any) {
	like, ok := s.feed.Reactions[r.PathValue("id")][r.PathValue("user")]
	if !ok || like.Kind != kindLike {
		return fail(http.StatusNotFound)
	}
	return http.StatusOK, client.Liker{UserID: like.UserID, LikedAt: like.At}
}

func (s *Server) reactionOf(_ string, r *http.Request) (int, any) {
	reaction, ok := s.feed.Reactions[r.PathValue("id")][r.PathValue("user")]
	if !ok {
		return fail(http.StatusNotFound)
	}
	return http.StatusOK, reaction
}
