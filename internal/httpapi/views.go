package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/feed/view"
	"fanfare/internal/page"
)

// Views is the parameter of calls that return views on demand. The type is exported because huma ignores
// embedded types that are not exported.
type Views struct {
	Expand string `query:"expand" enum:"view" doc:"view: answer with all that a page shows, in this one call."`
}

func (v Views) wanted() bool { return v.Expand != "" }

// anyOut is an answer whose body has one of two types. The document of the operation names both types.
type anyOut struct{ Body any }

// either describes an operation that returns an A, or a B with ?expand=view.
func either[A, B any](a *API, op huma.Operation) huma.Operation {
	schemas := a.huma.OpenAPI().Components.Schemas
	op.Responses = map[string]*huma.Response{"200": {
		Description: "OK; with expand=view the first form.",
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{AnyOf: []*huma.Schema{
			// A generated client takes the first form that fits, and an answer with views fits the other form, too.
			schemas.Schema(reflect.TypeFor[B](), true, ""), schemas.Schema(reflect.TypeFor[A](), true, ""),
		}}}},
	}}
	return op
}

func anyOf[F, T any](to func(F) T, in F, err error) (*anyOut, error) {
	if err != nil {
		return nil, err
	}
	return &anyOut{to(in)}, nil
}

func toPostView(v view.Post) client.PostView {
	return toHomeView(v.HomeItem)
}

func toPostViews(in page.List[view.Post]) List[client.PostView] { return toList(toPostView, in) }

// toPostViewsAt converts a list whose items have a time of their own, which set adds.
func toPostViewsAt(set func(*client.PostView, time.Time)) func(page.List[view.Post]) List[client.PostView] {
	return func(in page.List[view.Post]) List[client.PostView] {
		return toList(func(v view.Post) client.PostView {
			out := toPostView(v)
			set(&out, v.At.UTC())
			return out
		}, in)
	}
}

func toUserView(v view.User) client.UserView {
	return client.UserView{ID: v.ID, Name: v.Name, ImageURL: v.ImageURL, Following: v.Following, FollowedBy: v.FollowedBy}
}

func toFound[F, T any](item func(F) T) func(view.Found[F], error) (*foundOut[T], error) {
	return converted(func(in view.Found[F]) *foundOut[T] {
		return &foundOut[T]{client.Found[T]{
			Items: toList(item, page.List[F]{Items: in.Items}).Items, Missing: append([]string{}, in.Missing...), Rest: in.Rest,
		}}
	})
}

type foundOut[T any] struct{ Body client.Found[T] }

// withUser converts an item by item, and adds the view of the item's user by set.
func withUser[F, T any](item func(F) T, set func(*T, *client.UserView)) func(view.WithUser[F]) T {
	return func(w view.WithUser[F]) T {
		out, user := item(w.Item), toUserView(w.User)
		set(&out, &user)
		return out
	}
}

func toEdgeWithUser(w view.WithUser[feed.Edge]) client.Edge {
	return withUser(toEdge, func(e *client.Edge, u *client.UserView) { e.User = u })(w)
}

func toLikerWithUser(w view.WithUser[feed.Liker]) client.Liker {
	return withUser(toLiker, func(l *client.Liker, u *client.UserView) { l.User = u })(w)
}

func toCommentWithAuthor(w view.WithUser[feed.Comment]) client.Comment {
	return withUser(toComment, func(c *client.Comment, u *client.UserView) { c.Author = u })(w)
}

// registerFound adds the calls that return the objects of several ids at once.
func (a *API) registerFound() {
	type usersIn struct {
		IDs []listedUser `query:"ids" required:"true" nullable:"false" minItems:"1" maxItems:"100" doc:"User ids, separated by commas." example:"alice"`
	}
	register(a, operation(route{http.MethodGet, "/v1/users", "get-users", "Users", "Get up to 100 users by their ids, with the follows between them and you"}, http.StatusOK),
		func(ctx context.Context, in *usersIn) (*foundOut[client.UserView], error) {
			return toFound(toUserView)(a.views.UserViews(ctx, userOf(ctx), texts(in.IDs)))
		})
	type postsIn struct {
		IDs []ulid `query:"ids" required:"true" nullable:"false" minItems:"1" maxItems:"100" doc:"Post ids, separated by commas." example:"01JZ0000000000000000000000"`
	}
	register(a, operation(route{http.MethodGet, "/v1/posts", "get-posts", "Posts", "Get up to 100 posts by their ids, with their authors, counts and your likes"}, http.StatusOK),
		func(ctx context.Context, in *postsIn) (*foundOut[client.PostView], error) {
			return toFound(toPostView)(a.views.PostViews(ctx, viewerOf(ctx), texts(in.IDs)))
		})
}
