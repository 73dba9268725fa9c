package httpapi

import (
	"context"
	"net/http"
	"time"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/page"
)

func (a *API) registerLikes() {
	const tag = "Likes"
	for _, l := range []struct {
		method, name, summary, description string
		do                                 func(ctx context.Context, user, post string) error
	}{
		{http.MethodPut, "like", "Like a post (the count follows soon)", refusesBlocked + " That holds within a few seconds of the block.", a.feed.Like},
		{http.MethodDelete, "unlike", "Take your like back (the count follows soon)", "It takes back a reaction of another kind, too.", a.feed.Unlike},
	} {
		op := operation(route{l.method, "/v1/posts/{id}/like", l.name, tag, l.summary}, http.StatusAccepted, http.StatusNotFound, http.StatusConflict)
		op.Description = l.description
		register(a, op,
			func(ctx context.Context, in *PostPath) (*empty, error) {
				return a.act(ctx, func() error { return l.do(ctx, userOf(ctx), string(in.ID)) })
			})
	}

	type ofPostIn struct {
		PostPath
		Page
		Views
	}
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/likes", "list-likers", tag, "List the users who like a post, by user id"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *ofPostIn) (*listOut[client.Liker], error) {
			list, err := a.feed.Likers(ctx, viewerOf(ctx), string(in.ID), in.request())
			if err != nil || !in.wanted() {
				return listed(toLiker)(list, err)
			}
			return listed(toLikerWithUser)(a.views.LikerViews(ctx, userOf(ctx), list))
		})

	type countOut struct{ Body client.LikeCount }
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/likes/count", "count-likes", tag, "Count the likes of a post"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *PostPath) (*countOut, error) {
			c, err := a.feed.LikeCount(ctx, viewerOf(ctx), string(in.ID))
			if err != nil {
				return nil, err
			}
			return &countOut{client.LikeCount{Count: c.Count, AsOf: c.AsOf.UTC()}}, nil
		})

	type likeOfIn struct {
		PostPath
		User userID `path:"user" doc:"A user id." example:"alice"`
	}
	type likerOut struct{ Body client.Liker }
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/likes/{user}", "get-like", tag, "Get the like of a user on a post"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *likeOfIn) (*likerOut, error) {
			l, err := a.feed.LikeOf(ctx, viewerOf(ctx), string(in.ID), string(in.User))
			if err != nil {
				return nil, err
			}
			return &likerOut{toLiker(l)}, nil
		})

	type byUserIn struct {
		UserPath
		Page
		Views
	}
	register(a, either[List[client.LikedPost], List[client.PostView]](a, operation(route{http.MethodGet, "/v1/users/{id}/likes", "list-liked-posts", tag, "List the posts that a user likes, newest first"}, http.StatusOK, http.StatusNotFound)),
		func(ctx context.Context, in *byUserIn) (*anyOut, error) {
			if in.wanted() {
				page, err := a.views.LikedPostViews(ctx, viewerOf(ctx), string(in.ID), in.request())
				return anyOf(toPostViewsAt(func(v *client.PostView, at time.Time) { v.LikedAt = at }), page, err)
			}
			list, err := a.feed.LikesByUser(ctx, viewerOf(ctx), string(in.ID), in.request())
			return anyOf(func(l page.List[feed.LikedPost]) List[client.LikedPost] { return toList(toLikedPost, l) }, list, err)
		})
}

// act makes a call that changes the caller's reaction.
func (a *API) act(ctx context.Context, do func() error) (*empty, error) {
	a.chargeLike(callerOf(ctx))
	if err := do(); err != nil {
		return nil, err
	}
	a.counters.Like()
	return nil, nil // the answer has no body
}

func toLikedPost(p feed.LikedPost) client.LikedPost {
	return client.LikedPost{PostID: p.PostID, LikedAt: p.LikedAt.UTC()}
}

func toLiker(l feed.Liker) client.Liker {
	return client.Liker{UserID: l.UserID, LikedAt: l.LikedAt.UTC()}
}
