package httpapi

import (
	"context"
	"net/http"

	"fanfare/client"
	"fanfare/internal/feed"
)

func (a *API) registerReactions() {
	const tag = "Likes"
	type reactIn struct {
		PostPath
		Kind string `path:"kind" pattern:"^[a-z][a-z0-9]{0,11}$" patternDescription:"a kind of reaction: 1 to 12 of a-z 0-9, a letter first" doc:"like, or a kind of FANFARE_REACTIONS." example:"love"`
	}
	op := operation(route{http.MethodPut, "/v1/posts/{id}/reactions/{kind}", "react", tag, "React to a post (the counts follow soon)"}, http.StatusAccepted, http.StatusNotFound, http.StatusConflict)
	op.Description = "You have one reaction to a post: a new one replaces the former one, a like too. " + refusesBlocked + " That holds within a few seconds of the block."
	register(a, op, func(ctx context.Context, in *reactIn) (*empty, error) {
		return a.act(ctx, func() error { return a.feed.React(ctx, userOf(ctx), string(in.ID), in.Kind) })
	})
	type unreactIn struct {
		PostPath
		Kind string `path:"kind" maxLength:"64" doc:"Any name: you have one reaction." example:"love"`
	}
	op = operation(route{http.MethodDelete, "/v1/posts/{id}/reactions/{kind}", "unreact", tag, "Take your reaction back, of whatever kind it is (the counts follow soon)"}, http.StatusAccepted, http.StatusNotFound, http.StatusConflict)
	register(a, op, func(ctx context.Context, in *unreactIn) (*empty, error) {
		return a.act(ctx, func() error { return a.feed.Unlike(ctx, userOf(ctx), string(in.ID)) })
	})
	a.registerReactionReads(tag)
}

func (a *API) registerReactionReads(tag string) {
	type ofPostIn struct {
		PostPath
		Page
		Kind string `query:"kind" pattern:"^[a-z][a-z0-9]{0,11}$" patternDescription:"a kind of reaction: 1 to 12 of a-z 0-9, a letter first" doc:"List this kind only. A page may then be short."`
	}
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/reactions", "list-reactions", tag, "List the users with a reaction to a post, by user id"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *ofPostIn) (*listOut[client.Reactor], error) {
			return listed(toReactor)(a.feed.Reactions(ctx, viewerOf(ctx), string(in.ID), in.Kind, in.request()))
		})

	type countOut struct{ Body client.ReactionCount }
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/reactions/count", "count-reactions", tag, "Count the reactions to a post, by kind"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *PostPath) (*countOut, error) {
			c, err := a.feed.LikeCount(ctx, viewerOf(ctx), string(in.ID))
			if err != nil {
				return nil, err
			}
			return &countOut{client.ReactionCount{Counts: c.Kinds, AsOf: c.AsOf.UTC()}}, nil
		})

	type byIn struct {
		PostPath
		User userID `path:"user" doc:"A user id." example:"alice"`
	}
	type reactorOut struct{ Body client.Reactor }
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/reactions/by/{user}", "get-reaction", tag, "Get the reaction of a user to a post"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *byIn) (*reactorOut, error) {
			l, err := a.feed.ReactionOf(ctx, viewerOf(ctx), string(in.ID), string(in.User))
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
		func(ctx context.Context, in *byUserIn) (*listOut[client.PostReaction], error) {
			return listed(toPostReaction)(a.feed.ReactionsByUser(ctx, viewerOf(ctx), string(in.ID), in.request()))
		})
}

func toReactor(l feed.Liker) client.Reactor {
	return client.Reactor{UserID: l.UserID, Kind: l.Kind, At: l.LikedAt.UTC()}
}

func toPostReaction(p feed.LikedPost) client.PostReaction {
	return client.PostReaction{PostID: p.PostID, Kind: p.Kind, At: p.LikedAt.UTC()}
}
