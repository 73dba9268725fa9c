// Package clienttest is Fanfare's HTTP contract in memory, for tests of programs that call the API and
// for the client's own examples. It lacks comments, likes and reactions by user, live homes, exports,
// notifications of comments and mentions, pull homes, ranges of time, and times of deliveries. It refuses
// few values, and answers 404 for a method that a path does not allow. Its only events are the deliveries of posts, and the
// events of Emit. In all other respects it keeps the
// contract, with immediate deliveries and like counts: a test of the client runs the contract's rows
// against this package. It must never be used as the product, because its tokens are unsigned.
//
// A test plants faults by wrapping the handler, or by the Alter hooks.
package clienttest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"fanfare/client"
	"fanfare/internal/id"
	"fanfare/internal/oracle"
)

// Server serves the contract. Set the hooks before the first request. The server calls the hooks while it
// holds its lock.
type Server struct {
	// AlterHome changes the items of a viewer's home, newest first, before paging.
	AlterHome func(viewer string, items []client.HomeItem) []client.HomeItem
	// Reactions are the kinds of reaction besides like.
	Reactions []string
	// AlterCount changes a post's like count.
	AlterCount func(post string, count int64) int64
	// AlterUser changes a profile when a call reads it.
	AlterUser func(user client.User) client.User

	// AlterDelivery changes the delivery of a post when a call reads it.
	AlterDelivery func(post string, delivery client.Delivery) client.Delivery

	mux *http.ServeMux
	ids *id.Generator

	mu    sync.Mutex
	feed  *oracle.Feed
	taken map[string]takenDown // by post
	keys  map[[2]string]keyed
	read  map[string]time.Time // the time up to which a user has read the notifications
	left  map[string]bool      // readers who were away once
	away  map[string]bool
	made  map[string]client.Delivery // by post

	events []client.Event
	grew   chan struct{} // closed when events gets longer
}

// New returns an empty service.
func New() *Server {
	s := &Server{
		mux: http.NewServeMux(), ids: id.NewGenerator(time.Now), feed: oracle.New(), taken: map[string]takenDown{}, keys: map[[2]string]keyed{},
		read: map[string]time.Time{}, left: map[string]bool{}, away: map[string]bool{}, made: map[string]client.Delivery{}, grew: make(chan struct{}),
	}
	for pattern, answer := range map[string]func(string, *http.Request) (int, any){
		"GET /v1/me":                               s.me,
		"PUT /v1/me":                               s.putMe,
		"DELETE /v1/me":                            s.deleteMe,
		"GET /v1/users/{id}":                       s.user,
		"GET /v1/users/{id}/followers":             s.edges(s.followers),
		"GET /v1/users/{id}/following":             s.following,
		"GET /v1/users/{id}/friends":               s.edges(s.feed.Friends),
		"GET /v1/users/{id}/relationships/{other}": s.relationship,
		"PUT /v1/me/following/{id}":                s.follow,
		"DELETE /v1/me/following/{id}":             s.act(s.feed.Follows.End),
		"PUT /v1/me/mutes/{id}":                    s.act(s.feed.Mutes.Put),
		"DELETE /v1/me/mutes/{id}":                 s.act(s.feed.Mutes.End),
		"GET /v1/me/mutes":                         s.edges(s.feed.Mutes.From),
		"PUT /v1/me/blocks/{id}":                   s.act(s.feed.Block),
		"DELETE /v1/me/blocks/{id}":                s.act(s.feed.Blocks.End),
		"GET /v1/me/blocks":                        s.edges(s.feed.Blocks.From),
		"PUT /v1/me/bookmarks/{post}":              s.act(s.feed.Bookmark),
		"DELETE /v1/me/bookmarks/{post}":           s.act(s.feed.Bookmarks.End),
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
		"PUT /v1/posts/{post}/repost":              s.repost,
		"DELETE /v1/posts/{post}/repost":           s.endRepost,
		"PUT /v1/posts/{id}/like":                  s.react,
		"DELETE /v1/posts/{id}/like":               s.unreact,
		"GET /v1/posts/{id}/likes":                 s.likers,
		"GET /v1/posts/{id}/likes/count":           s.likeCount,
		"GET /v1/posts/{id}/likes/{user}":          s.likeOf,
		"PUT /v1/posts/{id}/reactions/{kind}":      s.react,
		"DELETE /v1/posts/{id}/reactions/{kind}":   s.unreact,
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
	s.mux.HandleFunc("PUT /v1/posts/{id}/takedown", s.takeDown)
	s.mux.HandleFunc("GET /v1/events", s.readEvents)
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

// An unsigned token is one of these prefixes and a user id.
const (
	tokenPrefix   = "for-"
	servicePrefix = "service-" // with the scope to act for users
	deletePrefix  = "delete-"  // for a service that may also delete users
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

// authed calls answer with the token's user while it holds the lock.
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
		s.endPosts()
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
