package httpapi

import (
	"context"
	"net/http"

	"fanfare/internal/feed"
)

// registerMutes adds the calls by which users keep others out of their homes.
func (a *API) registerMutes() {
	const tag = "Users"
	mute := operation(http.MethodPut, "/v1/me/mutes/{id}", "mute", tag, "Mute a user", http.StatusNoContent, http.StatusNotFound, http.StatusConflict)
	mute.Description = "Your home shows nothing of the user from now on, whether you follow the user or not. Nobody else sees a mute. " +
		"You may mute 1,000 users: one more is 409 of type mute-limit."
	register(a, mute, func(ctx context.Context, in *UserPath) (*empty, error) {
		return nil, a.feed.Mute(ctx, userOf(ctx), in.ID)
	})
	unmute := operation(http.MethodDelete, "/v1/me/mutes/{id}", "unmute", tag, "Unmute a user", http.StatusNoContent, http.StatusNotFound, http.StatusConflict)
	unmute.Description = "Your home shows the posts of a user that you follow again at once, those from the time of the mute, too."
	register(a, unmute, func(ctx context.Context, in *UserPath) (*empty, error) {
		return nil, a.feed.Unmute(ctx, userOf(ctx), in.ID)
	})
	a.registerOwnList("mutes", "List the users that you mute, by user id", a.feed.Mutes, a.feed.MuteViews)
}

// registerOwnList adds a list of users that nobody but its owner may read.
func (a *API) registerOwnList(
	name, summary string,
	read func(context.Context, string, feed.PageRequest) (feed.List[feed.Edge], error),
	views func(context.Context, string, feed.PageRequest) (feed.List[feed.WithUser[feed.Edge]], error),
) {
	type in struct {
		Page
		Views
	}
	register(a, operation(http.MethodGet, "/v1/me/"+name, "list-"+name, "Users", summary, http.StatusOK),
		func(ctx context.Context, in *in) (*listOut[Edge], error) {
			if in.wanted() {
				return listed(toEdgeWithUser)(views(ctx, userOf(ctx), in.request()))
			}
			return listed(toEdge)(read(ctx, userOf(ctx), in.request()))
		})
}
