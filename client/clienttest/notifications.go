package clienttest

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/client"
)

// notificationsOf returns the likes and the reposts of user's posts, and the follows of user, the newest first.
func (s *Server) notificationsOf(user string, views bool) (all []client.Notification) {
	add := func(kind, target string, acts []client.Reactor) {
		n := client.Notification{ID: kind + ":" + target, Kind: kind, Target: target, Actors: []client.Actor{}}
		others := int64(0)
		for _, act := range acts {
			if act.UserID == user {
				continue
			}
			others++
			if !s.feed.Mutes.Has(user, act.UserID) && s.feed.Blocked(user, act.UserID) == 0 {
				n.Actors = append(n.Actors, client.Actor{UserID: act.UserID, Reaction: act.Kind, At: act.At, User: s.viewIf(views, user, act.UserID)})
			}
		}
		if len(n.Actors) == 0 {
			return
		}
		slices.SortFunc(n.Actors, func(a, b client.Actor) int { return b.At.Compare(a.At) })
		n.Actors = n.Actors[:min(3, len(n.Actors))]
		n.At = n.Actors[0].At
		if kind != "repost" {
			n.Count = &others
		}
		n.Unread = n.At.After(s.read[user])
		if views && target != "" {
			n.Post = new(s.view(user, target))
		}
		all = append(all, n)
	}
	for _, post := range s.feed.PostsOf(user) {
		add("like", post, s.feed.Reactors(post, ""))
		var reposts []client.Reactor
		for _, by := range s.feed.Posts {
			if by.RepostOf == post {
				reposts = append(reposts, client.Reactor{UserID: by.AuthorID, At: by.CreatedAt})
			}
		}
		add("repost", post, reposts)
	}
	var follows []client.Reactor
	for _, follow := range s.followers(user) {
		follows = append(follows, client.Reactor{UserID: follow.UserID, At: follow.Since})
	}
	add("follow", "", follows)
	slices.SortFunc(all, func(a, b client.Notification) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	return all
}

type notifications struct {
	listed[client.Notification]

	ReadTo string `json:"read_to"`
}

func (s *Server) notifications(user string, r *http.Request) (int, any) {
	all := s.notificationsOf(user, expand(r))
	status, body := page(r, all, func(n client.Notification) string { return n.ID })
	list, ok := body.(listed[client.Notification])
	if !ok {
		return status, body
	}
	readTo := s.read[user]
	if len(list.Items) > 0 {
		readTo = list.Items[0].At
	}
	if r.URL.Query().Get("cursor") == "" {
		unread := s.unreadOf(user, 10)
		list.Unread = &unread
	}
	return status, notifications{list, user + " " + readTo.Format(time.RFC3339Nano)}
}

func (s *Server) unreadOf(user string, most int) (unread int) {
	for _, n := range s.notificationsOf(user, false) {
		if n.Unread {
			unread++
		}
	}
	return min(unread, most)
}

func (s *Server) unread(user string, r *http.Request) (int, any) {
	most := 10
	if given := r.URL.Query(); given.Has("most") {
		var err error
		if most, err = strconv.Atoi(given.Get("most")); err != nil || most < 1 || most > 100 {
			return fail(http.StatusUnprocessableEntity, "most")
		}
	}
	return http.StatusOK, map[string]int{"unread": s.unreadOf(user, most), "most": most}
}

func (s *Server) readNotifications(user string, r *http.Request) (int, any) {
	var in struct {
		ReadTo string `json:"read_to"`
	}
	if err := decode(r, &in); err != nil || in.ReadTo == "" {
		return fail(http.StatusUnprocessableEntity, "read_to")
	}
	of, at, _ := strings.Cut(in.ReadTo, " ")
	readTo, err := time.Parse(time.RFC3339Nano, at)
	if err != nil || of != user {
		return fail(http.StatusBadRequest)
	}
	if readTo.After(s.read[user]) {
		s.read[user] = readTo
	}
	return http.StatusOK, map[string]int{"unread": s.unreadOf(user, 10)}
}
