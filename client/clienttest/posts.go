package clienttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"fanfare/client"
	"fanfare/internal/display"
	"fanfare/messages"
)

type keyed struct {
	in   client.PostInput
	post client.Post
}

// showsNothing reports whether a post would have neither a text nor an image nor data, which the service refuses.
func showsNothing(text string, images []client.Image, data json.RawMessage) bool {
	return text == "" && len(images) == 0 && data == nil
}

func (s *Server) createPost(user string, r *http.Request) (int, any) {
	var in client.PostInput
	if err := decode(r, &in); err != nil || badText(in.Text, 0, 5000) {
		return fail(http.StatusUnprocessableEntity, "text")
	}
	in.IdempotencyKey, in.Data = r.Header.Get("Idempotency-Key"), changed(nil, in.Data)
	if showsNothing(in.Text, in.Images, in.Data) {
		return fail(http.StatusUnprocessableEntity, "text")
	}
	key := [2]string{user, in.IdempotencyKey}
	if before, ok := s.keys[key]; ok && in.IdempotencyKey != "" {
		if !reflect.DeepEqual(before.in, in) {
			return fail(http.StatusUnprocessableEntity, "Idempotency-Key")
		}
		return http.StatusCreated, before.post
	}
	if ahead := time.Until(in.ExpiresAt); !in.ExpiresAt.IsZero() && (ahead < time.Minute-time.Second || ahead > 366*24*time.Hour) {
		return fail(http.StatusUnprocessableEntity, "expires_at")
	}
	quoted := s.feed.Original(in.QuoteOf)
	if in.QuoteOf != "" {
		if refusal := s.feed.Open(user, quoted); refusal != 0 {
			return answer(refusal, 0)
		}
	}
	post := client.Post{ID: s.newID(), QuoteOf: quoted, OfAuthorID: s.feed.Posts[quoted].AuthorID, AuthorID: user, Text: in.Text, Images: in.Images, CreatedAt: time.Now().UTC(), Kind: in.Kind, Data: in.Data, Mentions: in.Mentions, ExpiresAt: in.ExpiresAt.UTC().Truncate(time.Second)}
	s.feed.Posts[post.ID] = post
	s.keys[key] = keyed{in, post}
	s.deliver(post)
	return http.StatusCreated, post
}

func (s *Server) newID() string {
	made, err := s.ids.New()
	if err != nil {
		panic(fmt.Sprintf("clienttest: %v", err)) // crypto/rand never fails
	}
	return made
}

func (s *Server) repost(user string, r *http.Request) (int, any) {
	of := s.feed.Original(r.PathValue("post"))
	if refusal := s.feed.Open(user, of); refusal != 0 {
		return answer(refusal, 0)
	}
	post := s.feed.Posts[s.feed.RepostBy(user, of)]
	if post.ID == "" {
		post = client.Post{ID: s.newID(), AuthorID: user, CreatedAt: time.Now().UTC(), ExpiresAt: s.feed.Posts[of].ExpiresAt, RepostOf: of, OfAuthorID: s.feed.Posts[of].AuthorID}
		s.feed.Posts[post.ID] = post
		s.deliver(post)
	}
	return http.StatusOK, post
}

func (s *Server) endRepost(user string, r *http.Request) (int, any) {
	s.feed.Drop(s.feed.RepostBy(user, s.feed.Original(r.PathValue("post"))))
	return http.StatusNoContent, nil
}

// endPosts removes the posts that have ended.
func (s *Server) endPosts() {
	for id, post := range s.feed.Posts {
		if !post.ExpiresAt.IsZero() && !post.ExpiresAt.After(time.Now()) {
			s.feed.Drop(id)
		}
	}
}

func (s *Server) post(viewer string, r *http.Request) (int, any) {
	if expand(r) && !s.feed.Shows(viewer, r.PathValue("id")) {
		return fail(http.StatusNotFound)
	}
	if expand(r) {
		return http.StatusOK, s.view(viewer, r.PathValue("id"))
	}
	return http.StatusOK, s.feed.Posts[r.PathValue("id")]
}

func (s *Server) editPost(user string, r *http.Request) (int, any) {
	post := s.feed.Posts[r.PathValue("id")]
	var in client.PostEdit
	if err := decode(r, &in); err != nil || in.Text != nil && badText(*in.Text, 0, 5000) {
		return fail(http.StatusUnprocessableEntity, "text")
	}
	if refusal := cmp.Or(s.feed.ByAuthor(user, post.ID), s.feed.Own(post.ID)); refusal != 0 {
		return answer(refusal, 0)
	}
	if in.Text != nil {
		post.Text = *in.Text
	}
	if in.Images != nil {
		post.Images = in.Images
	}
	post.Data = changed(post.Data, in.Data)
	if showsNothing(post.Text, post.Images, post.Data) {
		return fail(http.StatusUnprocessableEntity, "text")
	}
	post.EditedAt = time.Now().UTC()
	s.feed.Posts[post.ID] = post
	return http.StatusOK, post
}

func (s *Server) deletePost(user string, r *http.Request) (int, any) {
	refusal := s.feed.ByAuthor(user, r.PathValue("id"))
	if refusal == 0 {
		s.feed.Drop(r.PathValue("id"))
	}
	return answer(refusal, http.StatusNoContent)
}

// takenDown is a post that a service deleted.
type takenDown struct {
	post client.Post
	down client.TakenDown
}

// takeDown deletes a post. The caller is a service that may delete users, and acts for no user.
func (s *Server) takeDown(w http.ResponseWriter, r *http.Request) {
	token, authed := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	service, may := strings.CutPrefix(token, servicePrefix+deletePrefix)
	var in struct {
		Reason string `json:"reason"`
	}
	err := decode(r, &in)
	field, unknown := unknownField(err)
	id := r.PathValue("id")
	s.mu.Lock()
	defer s.mu.Unlock()
	post, there := s.feed.Posts[id]
	before, again := s.taken[id]
	switch {
	case !authed:
		w.Header().Set("WWW-Authenticate", "Bearer")
		write(w, http.StatusUnauthorized, problem(http.StatusUnauthorized))
	case !may:
		write(w, http.StatusForbidden, problem(http.StatusForbidden))
	case unknown:
		write(w, http.StatusUnprocessableEntity, problem(http.StatusUnprocessableEntity, field))
	case err != nil, badText(in.Reason, 1, 500), display.NameFault(in.Reason) != "":
		write(w, http.StatusUnprocessableEntity, problem(http.StatusUnprocessableEntity, "reason"))
	case again:
		write(w, http.StatusOK, before.down)
	case !there:
		write(w, http.StatusNotFound, problem(http.StatusNotFound))
	default:
		s.feed.Drop(id)
		s.taken[id] = takenDown{post, client.TakenDown{Reason: in.Reason, By: service, At: time.Now().UTC()}}
		write(w, http.StatusOK, s.taken[id].down)
	}
}

func (s *Server) postsByUser(viewer string, r *http.Request) (int, any) {
	var posts []client.Post
	var views []client.PostView
	for _, post := range s.feed.PostsOf(r.PathValue("id")) {
		posts = append(posts, s.feed.Posts[post])
		if s.feed.Shows(viewer, post) {
			views = append(views, s.view(viewer, post))
		}
	}
	if expand(r) {
		return page(r, views, func(v client.PostView) string { return v.Post.ID })
	}
	return page(r, posts, func(p client.Post) string { return p.ID })
}

// deliver records the delivery of a new post.
func (s *Server) deliver(post client.Post) {
	planned, skipped, none := int64(1), int64(0), int64(0)
	for _, follow := range s.feed.Follows.To(post.AuthorID) {
		planned++
		if s.away[follow.UserID] {
			skipped++
		}
	}
	delivered := planned - skipped
	s.made[post.ID] = client.Delivery{
		State: client.DeliveryComplete, Planned: &planned, Delivered: &delivered, Skipped: &skipped, ChunksDone: &none, ChunksTotal: &none,
	}
	_ = s.emit(&messages.PostDelivered{ // the ids of the post and its author are valid, so the event is, too
		Header: messages.Header{EventID: post.ID, Time: time.Now().UTC()}, PostID: post.ID, AuthorID: post.AuthorID, Delivered: delivered - 1, Skipped: skipped,
	})
}

func (s *Server) delivery(user string, r *http.Request) (int, any) {
	post, there := s.feed.Posts[r.PathValue("id")]
	taken := s.taken[r.PathValue("id")]
	if !there {
		post = taken.post
	}
	if post.AuthorID != user {
		return fail(http.StatusForbidden)
	}
	d := s.made[post.ID]
	if !there {
		d.TakenDown = &taken.down
	}
	if s.AlterDelivery != nil {
		d = s.AlterDelivery(post.ID, d)
	}
	return http.StatusOK, d
}
