package httpapi

import (
	"context"
	"net/http"
)

func (a *API) registerReposts() {
	const tag, path = "Posts", "/v1/posts/{id}/repost"
	repost := operation(route{http.MethodPut, path, "repost", tag, "Repost a post to all your followers"}, http.StatusOK, http.StatusNotFound, http.StatusConflict)
	repost.Description = "The answer is your repost: a post without text that refers to its original. You have one repost of a post: a repeated call returns it. A repost of a repost is one of the original. " +
		"Likes, comments and bookmarks belong to the original: for a repost they are 409 of type is-repost. " + refusesBlocked + " " + usesHour
	register(a, repost, func(ctx context.Context, in *PostPath) (*postOut, error) {
		return converted(toPostOut)(a.feed.Repost(ctx, userOf(ctx), string(in.ID)))
	})
	register(a, operation(route{http.MethodDelete, path, "end-repost", tag, "End your repost of a post, also of a deleted post"}, http.StatusNoContent, http.StatusConflict),
		func(ctx context.Context, in *PostPath) (*empty, error) {
			return nil, a.feed.EndRepost(ctx, userOf(ctx), string(in.ID))
		})
}
