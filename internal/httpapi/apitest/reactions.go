package apitest

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"fanfare/client"
)

// reactionRows act on ann's first post, which ben likes before and after the rows.
func reactionRows(target Target) []row {
	count := func(name string, counts object) row {
		return row{name: name, as: "ann", method: "GET", path: "/v1/posts/{post}/reactions/count", status: 200, soon: true, want: object{"counts": counts, "as_of": "*"}}
	}
	act := func(name, as, method, kind string) row {
		return row{name: name, as: as, method: method, path: "/v1/posts/{post}/reactions/" + kind, status: 202}
	}
	rows := []row{
		count("a like is a reaction", object{"like": 1}),
		{name: "reaction of one", as: "cat", method: "GET", path: "/v1/posts/{post}/reactions/by/{ben}", status: 200, soon: true, want: object{"user_id": "{ben}", "kind": "like", "at": "*"}},
		bad("reaction of a user without one", "ann", "GET", "/v1/posts/{post}/reactions/by/{ann}", "", 404, "not-found"),
		bad("reaction of an id outside the grammar", "ann", "GET", "/v1/posts/{post}/reactions/by/.b", "", 422, "invalid", "user"),
		bad("an unknown kind", "cat", "PUT", "/v1/posts/{post}/reactions/shrug", "", 422, "invalid", "kind"),
		bad("a kind outside the grammar", "cat", "PUT", "/v1/posts/{post}/reactions/Love", "", 422, "invalid", "kind"),
		bad("a list of a kind outside the grammar", "cat", "GET", "/v1/posts/{post}/reactions?kind=Love", "", 422, "invalid", "kind"),
		bad("react without a profile", "new", "PUT", "/v1/posts/{post}/reactions/like", "", 409, "profile-missing"),
		act("like by kind", "cat", "PUT", "like"),
		{name: "a like of either call is one", as: "ann", method: "GET", path: "/v1/posts/{post}/likes/count", status: 200, soon: true, want: object{"count": 2}},
		act("take back by an unknown kind", "cat", "DELETE", "no%20kind"),
		count("is taken back", object{"like": 1, "love": nil}),
	}
	if target.Reactions {
		rows = append(rows, kindRows(act, count)...)
	} else {
		rows = append(rows,
			bad("a kind that is not configured", "cat", "PUT", "/v1/posts/{post}/reactions/love", "", 422, "invalid", "kind"),
			row{name: "a view without kinds", as: "ben", method: "GET", path: "/v1/posts/{post}?expand=view", status: 200, soon: true, want: object{"like_count": 1, "liked": true, "reactions": nil, "reaction": nil}})
	}
	if !target.LikesByUser {
		return append(rows, bad("reactions by user, index off", "ann", "GET", "/v1/users/{ben}/reactions", "", 404, "index-off"))
	}
	return append(rows, row{name: "reactions by user", as: "ann", method: "GET", path: "/v1/users/{ben}/reactions", status: 200, soon: true, want: object{"items": []any{object{"post_id": "{post}", "kind": "like", "at": "*"}}}})
}

// kindRows change the kind of a reaction. The kinds love and wow are configured.
func kindRows(act func(name, as, method, kind string) row, count func(name string, counts object) row) []row {
	return []row{
		act("ben loves", "ben", "PUT", "love"),
		count("love replaces the like", object{"love": 1, "like": nil}),
		act("cat loves", "cat", "PUT", "love"),
		count("two love", object{"love": 2}),
		act("cat is amazed", "cat", "PUT", "wow"),
		count("each has one", object{"love": 1, "wow": 1, "like": nil}),
		{name: "a view with kinds", as: "ben", method: "GET", path: "/v1/posts/{post}?expand=view", status: 200, soon: true, want: object{"like_count": 0, "liked": false, "reactions": object{"love": 1, "wow": 1, "like": nil}, "reaction": "love"}},
		{name: "a view of a user without a reaction", as: "ann", method: "GET", path: "/v1/posts/{post}?expand=view", status: 200, want: object{"liked": false, "reactions": object{"love": 1}, "reaction": nil}},
		{name: "a view of a post without any", as: "ann", method: "GET", path: "/v1/posts/{weird}?expand=view", status: 200, want: object{"like_count": 0, "reactions": object{}}},
		{name: "reactions", as: "ann", method: "GET", path: "/v1/posts/{post}/reactions", status: 200, want: object{"items": []any{object{"user_id": "{ben}", "kind": "love", "at": "*"}, object{"user_id": "{cat}", "kind": "wow"}}}},
		{name: "reactions of a kind", as: "ann", method: "GET", path: "/v1/posts/{post}/reactions?kind=wow", status: 200, want: object{"items": []any{object{"user_id": "{cat}", "kind": "wow"}}}},
		{name: "likers have the kind like", as: "ann", method: "GET", path: "/v1/posts/{post}/likes", status: 200, want: object{"items": []any{}}},
		bad("who loves does not like", "ann", "GET", "/v1/posts/{post}/likes/{ben}", "", 404, "not-found"),
		{name: "an unlike takes back any kind", as: "cat", method: "DELETE", path: "/v1/posts/{post}/like", status: 202},
		count("the kind is taken back", object{"love": 1, "wow": nil}),
		{name: "a like replaces a kind", as: "ben", method: "PUT", path: "/v1/posts/{post}/like", status: 202},
		count("and is counted", object{"like": 1, "love": nil}),
	}
}

// reactionMethods remove ben's reaction to the first post at the end.
func reactionMethods(kinds bool) []methodRow {
	kind := "like"
	if kinds {
		kind = "love"
	}
	reactor := func(r client.Reactor) string { return r.UserID + " " + r.Kind }
	return []methodRow{
		{method: "React", path: "/v1/posts/p/reactions/k", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ben.React(ctx, s.first.ID, kind), refused(s.ben.React(ctx, s.first.ID, "shrug"), http.StatusUnprocessableEntity))
		}},
		{method: "ReactionCount", path: "/v1/posts/p/reactions/count", soon: true, call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.ReactionCount(ctx, s.first.ID))(func(c client.ReactionCount) bool { return maps.Equal(c.Counts, map[string]int64{kind: 1}) })
		}},
		// The count may be of the like before this reaction, so these rows wait, too.
		{method: "Reactions", path: "/v1/posts/p/reactions", soon: true, call: func(ctx context.Context, s *callers) error {
			return errors.Join(listed(ctx, s.ann.Reactions(s.first.ID, ""), reactor, s.benID+" "+kind), listed(ctx, s.ann.Reactions(s.first.ID, kind), reactor, s.benID+" "+kind),
				listed(ctx, s.ann.Reactions(s.first.ID, "other"), reactor))
		}},
		{method: "ReactionOf", path: "/v1/posts/p/reactions/by/u", soon: true, call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.ReactionOf(ctx, s.first.ID, s.benID))(func(r client.Reactor) bool { return reactor(r) == s.benID+" "+kind && !r.At.IsZero() })
		}},
		{method: "ReactionsByUser", path: "/v1/users/u/reactions", soon: true, call: func(ctx context.Context, s *callers) error {
			return listed(ctx, s.ann.ReactionsByUser(s.benID), func(p client.PostReaction) string { return p.PostID + " " + p.Kind }, s.second.ID+" like", s.first.ID+" "+kind)
		}},
		{method: "Unreact", path: "/v1/posts/p/reactions/k", call: func(ctx context.Context, s *callers) error {
			return s.ben.Unreact(ctx, s.first.ID)
		}},
		{method: "ReactionOf", path: "/v1/posts/p/reactions/by/u", soon: true, call: func(ctx context.Context, s *callers) error {
			_, err := s.ann.ReactionOf(ctx, s.first.ID, s.benID)
			return refused(err, http.StatusNotFound)
		}},
	}
}
