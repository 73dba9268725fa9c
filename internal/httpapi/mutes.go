package httpapi

import (
	"context"
	"net/http"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/page"
)

// usesHour describes the refusal of a call because the hour of its user is used up.
const usesHour = "It counts in the hour of its user: where FANFARE_USER_UNITS is used up, it is 429 with Retry-After until the next hour begins, and had no effect."

// refusesBlocked describes the refusal of a call because of a block.
const refusesBlocked = "A block between you and that user, by either of you, refuses it: 403 of type blocked."

// registerMutes adds the calls by which users mute and block others.
func (a *API) registerMutes() {
	for _, c := range []struct {
		method, list, name, summary, description string
		do                                       func(ctx context.Context, user, other string) error
	}{
		{
			http.MethodPut, "mutes", "mute", "Mute a user", "Your home shows nothing of the user from now on, whether you follow the user or not. Nobody else sees a mute. " +
				"You may mute 1,000 users: one more is 409 of type mute-limit.", a.feed.Mute,
		},
		{
			http.MethodDelete, "mutes", "unmute", "Unmute a user",
			"Your home shows the posts of a user that you follow again at once, those from the time of the mute, too.", a.feed.Unmute,
		},
		{
			http.MethodPut, "blocks", "block", "Block a user", "It ends the follows between the two of you at once. While one of you blocks the other, follows, comments and likes between you are " +
				"403 of type blocked; likes are within a few seconds. What was there before stays.", a.feed.Block,
		},
		{
			http.MethodDelete, "blocks", "unblock", "Unblock a user",
			"A block by the other user stays, and follows do not come back.", a.feed.Unblock,
		},
	} {
		op := operation(route{c.method, "/v1/me/" + c.list + "/{id}", c.name, "Users", c.summary}, http.StatusNoContent, http.StatusNotFound, http.StatusConflict)
		op.Description = c.description
		register(a, op, func(ctx context.Context, in *UserPath) (*empty, error) {
			return nil, c.do(ctx, userOf(ctx), string(in.ID))
		})
	}
	type in struct {
		Page
		Views
	}
	for _, l := range []struct {
		name, summary string
		read          func(context.Context, string, page.Request) (page.List[feed.Edge], error)
	}{
		{"mutes", "List the users that you mute, by user id", a.feed.Mutes},
		{"blocks", "List the users that you block, by user id", a.feed.Blocks},
	} {
		register(a, operation(route{http.MethodGet, "/v1/me/" + l.name, "list-" + l.name, "Users", l.summary}, http.StatusOK),
			func(ctx context.Context, in *in) (*listOut[client.Edge], error) {
				list, err := l.read(ctx, userOf(ctx), in.request())
				return a.edges(ctx, in.Views, list, err)
			})
	}
}
