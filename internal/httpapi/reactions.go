package httpapi

import (
	"context"
	"net/http"
	"time"

	"fanfare/internal/feed"
)

// Reactions are counts by kind of reaction.
type Reactions map[string]int64

// Reactor is a user with a reaction to a post.
type Reactor struct {
	UserID string    `json:"user_id"`
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`
}

// ReactionCount has the numbers of users with a reaction to a post, by kind.
type ReactionCount struct {
	Counts Reactions `json:"counts" nullable:"false" doc:"Of each configured kind that somebody has."`
	AsOf   time.Time `json:"as_of"`
}

// PostReaction is a post to which a user has a reaction.
type PostReaction struct {
	PostID string    `json:"post_id"`
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`
}

func (a *API) registerReactions() {
	const tag = "Likes"
	type reactIn struct {
		PostPath
		Kind string `path:"kind" pattern:"^[a-z][a-z0-9]{0,11}$" patternDescription:"the name of a kind of reaction" doc:"like, or a kind of FANFARE_REACTIONS." example:"love"`
	}
	op := operation(route{http.MethodPut, "/v1/posts/{id}/reactions/{kind}", "react", tag, "React to a post (the counts follow soon)"}, http.StatusAccepted, http.StatusNotFound, http.StatusConflict)
	op.Description = "You have one reaction to a post: a new one replaces the former one, a like too. " + refusesBlocked + " That holds within a few seconds of the block."
	register(a, op, func(ctx context.Context, in *reactIn) (*empty, error) {
		return a.act(ctx, func() error { return a.feed.React(ctx, userOf(ctx), in.ID, in.Kind) })
	})
	type unreactIn struct {
		PostPath
		Kind string `path:"kind" maxLength:"64" doc:"Any name: you have one reaction." example:"love"`
	}
	op = operation(route{http.MethodDelete, "/v1/posts/{id}/reactions/{kind}", "unreact", tag, "Take your reaction back, of whatever kind it is (the counts follow soon)"}, http.StatusAccepted, http.StatusNotFound, http.StatusConflict)
	register(a, op, func(ctx context.Context, in *unreactIn) (*empty, error) {
		return a.act(ctx, func() error { return a.feed.Unlike(ctx, userOf(ctx), in.ID) })
	})
	a.registerReactionReads(tag)
}

func (a *API) registerReactionReads(tag string) {
	type ofPostIn struct {
		PostPath
		Page
		Kind string `query:"kind" pattern:"^[a-z][a-z0-9]{0,11}$" patternDescription:"the name of a kind of reaction" doc:"List this kind only. A page may then be short."`
	}
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/reactions", "list-reactions", tag, "List the users with a reaction to a post, by user id"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *ofPostIn) (*listOut[Reactor], error) {
			return listed(toReactor)(a.feed.Reactions(ctx, in.ID, in.Kind, in.request()))
		})

	type countOut struct{ Body ReactionCount }
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/reactions/count", "count-reactions", tag, "Count the reactions to a post, by kind"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *PostPath) (*countOut, error) {
			c, err := a.feed.LikeCount(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return &countOut{ReactionCount{c.Kinds, c.AsOf.UTC()}}, nil
		})

	type byIn struct {
		PostPath
		User string `path:"user" pattern:"^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0,63}$" doc:"A user id." example:"alice"`
	}
	type reactorOut struct{ Body Reactor }
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/reactions/by/{user}", "get-reaction", tag, "Get the reaction of a user to a post"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *byIn) (*reactorOut, error) {
			l, err := a.feed.ReactionOf(ctx, in.ID, in.User)
			if err != nil {
				return nil, err
			}
			return &reactorOut{toReactor(l)}, nil
		})

	type byUserIn struct {
		UserPath
		Page
	}
	register(a, operation(route{http.MethodGet, "/v1/users/{id}/reactions", "list-reactions-by-user", tag, "List the posts to which a user has a reaction, newest first"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *byUserIn) (*listOut[PostReaction], error) {
			return listed(toPostReaction)(a.feed.ReactionsByUser(ctx, in.ID, in.request()))
		})
}

func toReactor(l feed.Liker) Reactor { return Reactor{l.UserID, l.Kind, l.LikedAt.UTC()} }

func toPostReaction(p feed.LikedPost) PostReaction {
	return PostReaction{p.PostID, p.Kind, p.LikedAt.UTC()}
}
