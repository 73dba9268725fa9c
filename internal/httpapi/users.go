package httpapi

import (
	"context"
	"errors"
	"net/http"

	"fanfare/client"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/page"
)

// User is a profile. Its follows are pointers, because they are absent without expand=view.
type User struct {
	client.User
	Following  *bool `json:"following,omitempty" doc:"True if you follow the user. Only with expand=view."`
	FollowedBy *bool `json:"followed_by,omitempty" doc:"True if the user follows you. Only with expand=view."`
}

// ProfileInput holds the values of a profile that its user sets.
type ProfileInput struct {
	Name     string        `json:"name" minLength:"1" maxLength:"100" example:"Alice" doc:"One line that shows something, without characters that cannot be seen or change the direction of text, but where a language or an emoji needs them."`
	Bio      string        `json:"bio,omitempty" maxLength:"500"`
	ImageURL string        `json:"image_url,omitempty" maxLength:"2048" pattern:"^([hH][tT][tT][pP][sS]?://.*)?$" patternDescription:"an http(s) URL"`
	Data     RemovableData `json:"data,omitempty"` //nolint:modernize // huma reads omitempty as optional
}

// UserPath names a user in the path. It is exported because huma ignores embedded types
// that are not exported.
type UserPath struct {
	ID userID `path:"id" doc:"A user id." example:"alice"`
}

type userOut struct{ Body User }

func toUser(u feed.User) *userOut {
	return &userOut{User{User: client.User{
		ID: u.ID, Name: u.Name, Bio: u.Bio, ImageURL: u.ImageURL, CreatedAt: u.CreatedAt.UTC(), Data: []byte(u.Data),
		Counts: client.Counts(u.Counts),
	}}}
}

// edges returns a page of users, with the view of each user if the caller asked for views.
func (a *API) edges(ctx context.Context, in Views, list page.List[feed.Edge], err error) (*listOut[client.Edge], error) {
	if err != nil || !in.wanted() {
		return listed(toEdge)(list, err)
	}
	return listed(toEdgeWithUser)(a.views.EdgeViews(ctx, userOf(ctx), list))
}

func toEdge(e feed.Edge) client.Edge { return client.Edge{UserID: e.UserID, Since: e.Since.UTC()} }

func (a *API) registerUsers() {
	const tag = "Users"
	register(a, operation(route{http.MethodGet, "/v1/me", "get-me", tag, "Get your profile"}, http.StatusOK, http.StatusConflict),
		func(ctx context.Context, _ *struct{}) (*userOut, error) {
			u, err := a.feed.User(ctx, userOf(ctx))
			if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.NotFound {
				err = &fault.Error{Kind: fault.ProfileMissing, Detail: "you have no profile yet: make one first (PUT /v1/me)"}
			}
			return converted(toUser)(u, err)
		})

	del := operation(route{http.MethodDelete, "/v1/me", "delete-me", tag, "Delete yourself with your posts, follows, mutes, blocks, bookmarks, read markers, comments and likes (the profile goes at once, the rest soon, such as your name in your posts; after a return at most once a minute)"}, http.StatusAccepted)
	del.Description = "A token of a service needs the scope fanfare:delete besides, unless the service names another one: else it is 403. " +
		"Mutes and blocks of you, by other users, stay for when you return."
	del.Metadata = map[string]any{deletesUser: true}
	register(a, del, func(ctx context.Context, _ *struct{}) (*empty, error) {
		return nil, a.removals.DeleteProfile(ctx, userOf(ctx))
	})

	type profileIn struct{ Body ProfileInput }
	put := operation(route{http.MethodPut, "/v1/me", "put-me", tag, "Create or change your profile"}, http.StatusOK)
	put.Description = "A change of the name or the image counts in the hour of its user, as a post does."
	register(a, put,
		func(ctx context.Context, in *profileIn) (*userOut, error) {
			return converted(toUser)(a.feed.PutProfile(ctx, userOf(ctx), feed.ProfileInput{Name: in.Body.Name, Bio: in.Body.Bio, ImageURL: in.Body.ImageURL, Data: in.Body.Data.change()}))
		})

	type userIn struct {
		UserPath
		Views
	}
	register(a, operation(route{http.MethodGet, "/v1/users/{id}", "get-user", tag, "Get a profile"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *userIn) (*userOut, error) {
			out, err := converted(toUser)(a.feed.User(ctx, string(in.ID)))
			if err != nil || !in.wanted() {
				return out, err
			}
			follows, err := a.views.Relations(ctx, userOf(ctx), string(in.ID))
			out.Body.Following, out.Body.FollowedBy = &follows.Following, &follows.FollowedBy
			return out, err
		})
}

// forAnyone gives a list that is the same for each viewer the form of a list that is not.
func forAnyone(read func(ctx context.Context, user string, in page.Request) (page.List[feed.Edge], error)) func(ctx context.Context, viewer, user string, in page.Request) (page.List[feed.Edge], error) {
	return func(ctx context.Context, _, user string, in page.Request) (page.List[feed.Edge], error) {
		return read(ctx, user, in)
	}
}

func (a *API) registerFollows() {
	const tag = "Users"
	type edgesIn struct {
		UserPath
		Page
		Views
	}
	for _, l := range []struct {
		name, summary string
		read          func(ctx context.Context, viewer, user string, in page.Request) (page.List[feed.Edge], error)
	}{
		{"followers", "List the followers of a user, by user id", forAnyone(a.feed.Followers)},
		{"following", "List the users that a user follows, by user id; silent follows only if you are the user", a.feed.Following},
		{"friends", "List the friends of a user, by user id: both follow each other", forAnyone(a.feed.Friends)},
	} {
		register(a, operation(route{http.MethodGet, "/v1/users/{id}/" + l.name, "list-" + l.name, tag, l.summary}, http.StatusOK, http.StatusNotFound),
			func(ctx context.Context, in *edgesIn) (*listOut[client.Edge], error) {
				list, err := l.read(ctx, userOf(ctx), string(in.ID), in.request())
				return a.edges(ctx, in.Views, list, err)
			})
	}

	follow := operation(route{http.MethodPut, "/v1/me/following/{id}", "follow", tag, "Follow a user"}, http.StatusNoContent, http.StatusNotFound, http.StatusConflict)
	follow.Description = "An existing follow does not change. " + refusesBlocked + " " + usesHour
	type followIn struct {
		UserPath
		Silent bool `query:"silent" doc:"Only you see the follow: it has no notification, is in no list of another user, and is not in the number of followers. For a list of users."`
	}
	register(a, follow,
		func(ctx context.Context, in *followIn) (*empty, error) {
			if in.Silent {
				return nil, a.feed.FollowSilently(ctx, userOf(ctx), string(in.ID))
			}
			return nil, a.feed.Follow(ctx, userOf(ctx), string(in.ID))
		})
	unfollow := operation(route{http.MethodDelete, "/v1/me/following/{id}", "unfollow", tag, "Unfollow a user"}, http.StatusNoContent, http.StatusNotFound, http.StatusConflict)
	unfollow.Description = usesHour
	register(a, unfollow,
		func(ctx context.Context, in *UserPath) (*empty, error) {
			return nil, a.feed.Unfollow(ctx, userOf(ctx), string(in.ID))
		})

	type pairIn struct {
		UserPath
		Other userID `path:"other" doc:"Another user id." example:"bob"`
	}
	type pairOut struct{ Body client.Relationship }
	register(a, operation(route{http.MethodGet, "/v1/users/{id}/relationships/{other}", "get-relationship", tag, "Get the follows between two users"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *pairIn) (*pairOut, error) {
			r, err := a.feed.Relationship(ctx, userOf(ctx), string(in.ID), string(in.Other))
			if err != nil {
				return nil, err
			}
			return &pairOut{client.Relationship(r)}, nil
		})
}
