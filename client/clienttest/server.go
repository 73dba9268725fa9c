// Package clienttest is Fanfare's HTTP contract in memory, for tests of programs
// that call it and for the client's own examples. It has no comments, likes and reactions by user,
// live homes, notifications of comments and mentions, pull homes or ranges of time, and no times of deliveries. It refuses few values, and a
// method that a path does not allow is not found. The rest keeps the contract, with deliveries and like
// counts that are immediate: a test of the client runs the contract's rows against it.
// It must never be taken for the product, because its tokens are unsigned.
//
// A test plants faults by wrapping the handler, or by the Alter hooks.
package clienttest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"fanfare/client"
	"fanfare/internal/id"
)

// Server serves the contract. Set the hooks before the first request; they
// are called with the server's lock held.
type Server struct {
	// AlterHome changes the items of a viewer's home, newest first, before paging.
	AlterHome func(viewer string, items []client.HomeItem) []client.HomeItem
	// Reactions are the kinds of reaction besides like.
	Reactions []string
	// AlterCount changes a post's like count.
	AlterCount func(post string, count int64) int64
	// AlterUser changes a profile as it is read.
	AlterUser func(user client.User) client.User

	// AlterDelivery changes the delivery of a post as it is read.
	AlterDelivery func(post string, delivery client.Delivery) client.Delivery

	mux *http.ServeMux
	ids *id.Generator

	mu      sync.Mutex
	users   map[string]client.User
	follows map[string]map[string]time.Time // by follower, then author
	mutes   map[string]map[string]time.Time // by the user who mutes
	blocks  map[string]map[string]time.Time // by the user who blocks
	// bookmarks are by the user who keeps them, the oldest first.
	bookmarks map[string][]client.Bookmark
	markers   map[string]map[string]client.Marker // by their user, then by name
	posts     map[string]client.Post
	byUser    map[string][]string                  // post ids, ascending
	likes     map[string]map[string]client.Reactor // by post and user
	keys      map[[2]string]keyed
	read      map[string]time.Time // up to when a user has read its notifications
	left      map[string]bool      // readers that were away once
	away      map[string]bool
	made      map[string]client.Delivery // by post
}

type keyed struct {
	in   client.PostInput
	post client.Post
}

// New returns an empty service.
func New() *Server {
	s := &Server{
		mux: http.NewServeMux(), ids: id.NewGenerator(time.Now),
		users: map[string]client.User{}, follows: map[string]map[string]time.Time{}, mutes: map[string]map[string]time.Time{},
		blocks: map[string]map[string]time.Time{}, bookmarks: map[string][]client.Bookmark{}, markers: map[string]map[string]client.Marker{},
		posts: map[string]client.Post{}, byUser: map[string][]string{},
		likes: map[string]map[string]client.Reactor{}, keys: map[[2]string]keyed{},
		read: map[string]time.Time{}, left: map[string]bool{}, away: map[string]bool{}, made: map[string]client.Delivery{},
	}
	for pattern, answer := range map[string]func(string, *http.Request) (int, any){
		"GET /v1/me":                               s.me,
		"PUT /v1/me":                               s.putMe,
		"DELETE /v1/me":                            s.deleteMe,
		"GET /v1/users/{id}":                       s.user,
		"GET /v1/users/{id}/followers":             s.followers,
		"GET /v1/users/{id}/following":             s.following,
		"GET /v1/users/{id}/friends":               s.friends,
		"GET /v1/users/{id}/relationships/{other}": s.relationship,
		"PUT /v1/me/following/{id}":                s.follow,
		"DELETE /v1/me/following/{id}":             s.unfollow,
		"PUT /v1/me/mutes/{id}":                    s.hide(s.mutes, func(string, string) {}),
		"DELETE /v1/me/mutes/{id}":                 s.show(s.mutes),
		"GET /v1/me/mutes":                         s.hidden(s.mutes),
		"PUT /v1/me/blocks/{id}":                   s.hide(s.blocks, s.endFollows),
		"DELETE /v1/me/blocks/{id}":                s.show(s.blocks),
		"GET /v1/me/blocks":                        s.hidden(s.blocks),
		"PUT /v1/me/bookmarks/{post}":              s.bookmark,
		"DELETE /v1/me/bookmarks/{post}":           s.unbookmark,
		"GET /v1/me/bookmarks/{post}":              s.bookmarkOf,
		"GET /v1/me/bookmarks":                     s.listBookmarks,
		"PUT /v1/me/markers/{name}":                s.putMarker,
		"DELETE /v1/me/markers/{name}":             s.deleteMarker,
		"GET /v1/me/markers/{name}":                s.marker,
		"GET /v1/me/markers":                       s.listMarkers,
		"POST /v1/posts":                           s.createPost,
		"GET /v1/posts/{id}":                       s.post,
		"PATCH /v1/posts/{id}":                     s.editPost,
		"DELETE /v1/posts/{id}":                    s.deletePost,
		"GET /v1/users/{id}/posts":                 s.postsByUser,
		"PUT /v1/posts/{id}/like":                  s.like,
		"DELETE /v1/posts/{id}/like":               s.unlike,
		"GET /v1/posts/{id}/likes":                 s.likers,
		"GET /v1/posts/{id}/likes/count":           s.likeCount,
		"GET /v1/posts/{id}/likes/{user}":          s.likeOf,
		"PUT /v1/posts/{id}/reactions/{kind}":      s.react,
		"DELETE /v1/posts/{id}/reactions/{kind}":   s.unlike,
		"GET /v1/posts/{id}/reactions":             s.reactions,
		"GET /v1/posts/{id}/reactions/count":       s.reactionCount,
		"GET /v1/posts/{id}/reactions/by/{user}":   s.reactionOf,
		"GET /v1/posts/{id}/delivery":              s.delivery,
		"GET /v1/home":                             s.home,
		"GET /v1/me/notifications":                 s.notifications,
		"GET /v1/me/notifications/unread":          s.unread,
		"PUT /v1/me/notifications/read":            s.readNotifications,
		"POST /v1/dev/away":                        s.beAway,
		"GET /v1/users":                            s.usersByID,
		"GET /v1/posts":                            s.postsByID,
	} {
		s.mux.HandleFunc(pattern, s.authed(answer))
	}
	s.mux.HandleFunc("POST /v1/dev/token", s.devToken)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusNotFound, problem(http.StatusNotFound))
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := r.Header.Get("X-Request-Id")
	if requestID == "" || strings.Contains(requestID, " ") {
		requestID = "clienttest"
	}
	w.Header().Set("X-Request-Id", requestID)
	s.mux.ServeHTTP(w, r)
}

// An unsigned token is one of these and its user.
const (
	tokenPrefix   = "for-"
	servicePrefix = "service-" // with the scope to act for users
	deletePrefix  = "delete-"  // and a service's token that may delete them
)

func (s *Server) devToken(w http.ResponseWriter, r *http.Request) {
	var in struct {
		UserID string  `json:"user_id"`
		TTL    float64 `json:"ttl_s"`
		Scope  string  `json:"scope"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.UserID == "" {
		write(w, http.StatusUnprocessableEntity, problem(http.StatusUnprocessableEntity, "user_id"))
		return
	}
	prefix := tokenPrefix
	if in.Scope != "" {
		prefix = servicePrefix
	}
	if strings.Contains(in.Scope, "fanfare:delete") {
		prefix += deletePrefix
	}
	ttl := time.Duration(cmp.Or(in.TTL, 3600) * float64(time.Second))
	write(w, http.StatusOK, client.DevToken{Token: prefix + in.UserID, ExpiresAt: time.Now().Add(ttl).UTC()})
}

// authed runs answer under the lock, for the token's user.
func (s *Server) authed(answer func(string, *http.Request) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "+tokenPrefix)
		named := r.Header.Get("Fanfare-User")
		if service, acts := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "+servicePrefix); acts {
			service, deletes := strings.CutPrefix(service, deletePrefix)
			user, ok = cmp.Or(named, service), true
			if r.Method == http.MethodDelete && r.URL.Path == "/v1/me" && named != "" && !deletes {
				write(w, http.StatusForbidden, problem(http.StatusForbidden))
				return
			}
		} else if ok && named != "" {
			write(w, http.StatusForbidden, problem(http.StatusForbidden))
			return
		}
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			write(w, http.StatusUnauthorized, problem(http.StatusUnauthorized))
			return
		}
		if !id.ValidUser(user) {
			write(w, http.StatusUnprocessableEntity, problem(http.StatusUnprocessableEntity, "Fanfare-User"))
			return
		}
		s.mu.Lock()
		status, body := s.known(user, r)
		if status == 0 {
			status, body = answer(user, r)
		}
		s.mu.Unlock()
		if status == http.StatusCreated {
			if post, ok := body.(client.Post); ok {
				w.Header().Set("Location", "/v1/posts/"+post.ID)
			}
		}
		if tagged, ok := body.(tagged); ok {
			w.Header().Set("ETag", tagged.etag)
			body = tagged.body
		}
		write(w, status, body)
	}
}

// tagged is an answer with an ETag.
type tagged struct {
	etag string
	body any
}

// known refuses a write by a user without a profile, and a path that names an unknown
// user or post; its status is 0 for any other request.
func (s *Server) known(user string, r *http.Request) (int, any) {
	if _, ok := s.users[user]; !ok && r.Method != http.MethodGet && r.URL.Path != "/v1/me" {
		return fail(http.StatusConflict)
	}
	for _, name := range []string{"id", "other"} {
		named := r.PathValue(name)
		_, isUser := s.users[named]
		_, muted := s.mutes[user][named] // a mute or a block of a removed user stays
		_, blocked := s.blocks[user][named]
		if _, isPost := s.posts[named]; named != "" && !isUser && !isPost && !muted && !blocked {
			return fail(http.StatusNotFound)
		}
	}
	return 0, nil
}

func write(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	kind := "application/json"
	if status >= 400 {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler) // the caller is gone; net/http ends the request
	}
}

// kinds are the contract's types of problem (docs/openapi.json).
func kinds() map[int]string {
	return map[int]string{
		http.StatusBadRequest: "malformed", http.StatusUnauthorized: "unauthenticated", http.StatusForbidden: "forbidden",
		http.StatusNotFound: "not-found", http.StatusConflict: "profile-missing", http.StatusUnprocessableEntity: "invalid",
	}
}

func problem(status int, fields ...string) client.Problem {
	p := client.Problem{Type: kinds()[status], Title: http.StatusText(status), Status: status, Detail: "clienttest refuses the request"}
	for _, field := range fields {
		p.Errors = append(p.Errors, client.FieldError{Field: field, Detail: "is not valid"})
	}
	return p
}

func fail(status int, fields ...string) (int, any) { return status, problem(status, fields...) }

func failBlocked() (int, any) {
	p := problem(http.StatusForbidden)
	p.Type = "blocked"
	return http.StatusForbidden, p
}

type listed[T any] struct {
	Items  []T    `json:"items"`
	Next   string `json:"next_cursor,omitempty"`
	Unread *int   `json:"unread,omitempty"`
}

// page cuts one page of items that are sorted by key in the list's order.
func page[T any](r *http.Request, items []T, key func(T) string) (int, any) {
	limit := 20
	if given := r.URL.Query().Get("limit"); given != "" {
		var err error
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 || limit > 100 {
			return fail(http.StatusUnprocessableEntity, "limit")
		}
	}
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		at := slices.IndexFunc(items, func(item T) bool { return key(item) == cursor })
		if at < 0 {
			return fail(http.StatusBadRequest, "cursor")
		}
		items = items[at+1:]
	}
	out := listed[T]{Items: items[:min(limit, len(items))]}
	if len(items) > limit {
		out.Next = key(items[limit-1])
	}
	if out.Items == nil {
		out.Items = []T{}
	}
	return http.StatusOK, out
}

func decode(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// changed returns custom data after a call: none given leaves it, and null removes it.
func changed(data, given json.RawMessage) json.RawMessage {
	var compact bytes.Buffer
	switch {
	case given == nil || json.Compact(&compact, given) != nil:
		return data
	case compact.String() == "null":
		return nil
	}
	return compact.Bytes()
}

func badText(text string, least, most int) bool {
	n := utf8.RuneCountInString(text)
	return n < least || n > most
}

func (s *Server) readUser(user string) client.User {
	u := s.users[user]
	u.Counts.Following = int64(len(s.follows[user]))
	for _, authors := range s.follows {
		if _, ok := authors[user]; ok {
			u.Counts.Followers++
		}
	}
	u.Counts.Posts = int64(len(s.byUser[user]))
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

// blocked reports whether one of two users blocks the other one.
func (s *Server) blocked(user, other string) bool {
	_, blocks := s.blocks[user][other]
	_, by := s.blocks[other][user]
	return blocks || by
}

func (s *Server) createPost(user string, r *http.Request) (int, any) {
	var in client.PostInput
	if err := decode(r, &in); err != nil || badText(in.Text, 1, 5000) {
		return fail(http.StatusUnprocessableEntity, "text")
	}
	in.IdempotencyKey, in.Data = r.Header.Get("Idempotency-Key"), changed(nil, in.Data)
	key := [2]string{user, in.IdempotencyKey}
	if before, ok := s.keys[key]; ok && in.IdempotencyKey != "" {
		if !reflect.DeepEqual(before.in, in) {
			return fail(http.StatusUnprocessableEntity, "Idempotency-Key")
		}
		return http.StatusCreated, before.post
	}
	postID, err := s.ids.New()
	if err != nil {
		panic(fmt.Sprintf("clienttest: %v", err)) // crypto/rand never fails
	}
	post := client.Post{ID: postID, AuthorID: user, Text: in.Text, ImageURL: in.ImageURL, CreatedAt: time.Now().UTC(), Kind: in.Kind, Data: in.Data, Mentions: in.Mentions}
	s.posts[post.ID] = post
	s.byUser[user] = append(s.byUser[user], post.ID)
	s.keys[key] = keyed{in, post}
	s.deliver(post)
	return http.StatusCreated, post
}

func (s *Server) post(viewer string, r *http.Request) (int, any) {
	if expand(r) {
		return http.StatusOK, client.PostView{HomeItem: s.item(viewer, r.PathValue("id"))}
	}
	return http.StatusOK, s.posts[r.PathValue("id")]
}

func (s *Server) editPost(user string, r *http.Request) (int, any) {
	post := s.posts[r.PathValue("id")]
	var in client.PostEdit
	switch err := decode(r, &in); {
	case err != nil || in.Text != nil && badText(*in.Text, 1, 5000):
		return fail(http.StatusUnprocessableEntity, "text")
	case post.AuthorID != user:
		return fail(http.StatusForbidden)
	}
	if in.Text != nil {
		post.Text = *in.Text
	}
	if in.ImageURL != nil {
		post.ImageURL = *in.ImageURL
	}
	post.Data = changed(post.Data, in.Data)
	post.EditedAt = time.Now().UTC()
	s.posts[post.ID] = post
	return http.StatusOK, post
}

func (s *Server) deletePost(user string, r *http.Request) (int, any) {
	post := s.posts[r.PathValue("id")]
	if post.AuthorID != user {
		return fail(http.StatusForbidden)
	}
	delete(s.posts, post.ID)
	s.byUser[user] = slices.DeleteFunc(s.byUser[user], func(p string) bool { return p == post.ID })
	return http.StatusNoContent, nil
}

func (s *Server) postsByUser(viewer string, r *http.Request) (int, any) {
	var posts []client.Post
	var views []client.PostView
	for _, post := range slices.Backward(s.byUser[r.PathValue("id")]) {
		posts, views = append(posts, s.posts[post]), append(views, client.PostView{HomeItem: s.item(viewer, post)})
	}
	if expand(r) {
		return page(r, views, func(v client.PostView) string { return v.Post.ID })
	}
	return page(r, posts, func(p client.Post) string { return p.ID })
}

func (s *Server) home(user string, r *http.Request) (int, any) {
	delete(s.away, user)
	var items []client.HomeItem
	add := func(author string) {
		for _, postID := range s.byUser[author] {
			items = append(items, s.item(user, postID))
		}
	}
	add(user)
	for author := range s.follows[user] {
		if _, muted := s.mutes[user][author]; !muted {
			add(author)
		}
	}
	slices.SortFunc(items, func(a, b client.HomeItem) int { return cmp.Compare(b.Post.ID, a.Post.ID) })
	if s.AlterHome != nil {
		items = s.AlterHome(user, items)
	}
	postID := func(i client.HomeItem) string { return i.Post.ID }
	if !r.URL.Query().Has("after") {
		return page(r, items, postID)
	}
	after := r.URL.Query().Get("after")
	if len(after) != 26 {
		return fail(http.StatusUnprocessableEntity, "after")
	}
	items = slices.DeleteFunc(items, func(i client.HomeItem) bool { return i.Post.ID <= after })
	status, body := page(r, items, postID)
	news, ok := body.(listed[client.HomeItem])
	if !ok {
		return status, body
	}
	etag := `"`
	for _, item := range news.Items {
		etag += item.Post.ID
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

// Returned reports whether a reader was away and has read its home since. Only a hook may ask.
func (s *Server) Returned(user string) bool { return s.left[user] && !s.away[user] }

// deliver notes the delivery of a new post.
func (s *Server) deliver(post client.Post) {
	planned, skipped, none := int64(1), int64(0), int64(0)
	for follower := range s.followersOf(post.AuthorID) {
		planned++
		if s.away[follower] {
			skipped++
		}
	}
	delivered := planned - skipped
	s.made[post.ID] = client.Delivery{
		State: client.DeliveryComplete, Planned: &planned, Delivered: &delivered, Skipped: &skipped, ChunksDone: &none, ChunksTotal: &none,
	}
}

func (s *Server) delivery(user string, r *http.Request) (int, any) {
	post := s.posts[r.PathValue("id")]
	if post.AuthorID != user {
		return fail(http.StatusForbidden)
	}
	d := s.made[post.ID]
	if s.AlterDelivery != nil {
		d = s.AlterDelivery(post.ID, d)
	}
	return http.StatusOK, d
}
