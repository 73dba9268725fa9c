package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"fanfare/internal/feed"
	"fanfare/internal/feed/view"
	"fanfare/internal/page"
)

// PostView is a post with all values that a page shows.
type PostView struct {
	HomeItem
	CommentCount int64      `json:"comment_count" doc:"The number of comments at the time of the read. The like count follows soon, this one is exact at once."`
	LikedAt      *time.Time `json:"liked_at,omitempty" doc:"In a list of liked posts: when the user of the list liked the post."`
	BookmarkedAt *time.Time `json:"bookmarked_at,omitempty" doc:"In your list of bookmarks: when you made the bookmark."`
}

// UserView is a user with the values that a list shows.
type UserView struct {
	ID         string `json:"id"`
	Name       string `json:"name" doc:"It may be a minute old, and so may image_url."`
	ImageURL   string `json:"image_url"`
	Following  bool   `json:"following" doc:"True if you follow the user."`
	FollowedBy bool   `json:"followed_by" doc:"True if the user follows you."`
}

// Found is the answer to a call that asks for several ids.
type Found[T any] struct {
	Items   []T      `json:"items" nullable:"false" doc:"In the order of ids, each once."`
	Missing []string `json:"missing" nullable:"false" doc:"The ids that are unknown or were deleted."`
	Rest    []string `json:"rest,omitempty" doc:"Ids whose items would exceed 256 KiB of JSON: ask for them once more. Absent if all fit."`
}

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
		Description: "OK; with expand=view the second form.",
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{AnyOf: []*huma.Schema{
			schemas.Schema(reflect.TypeFor[A](), true, ""), schemas.Schema(reflect.TypeFor[B](), true, ""),
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

func toPostView(v view.Post) PostView {
	out := PostView{HomeItem: toHomeItem(v.HomeItem), CommentCount: v.CommentCount}
	if !v.LikedAt.IsZero() {
		liked := v.LikedAt.UTC()
		out.LikedAt = &liked
	}
	if !v.BookmarkedAt.IsZero() {
		kept := v.BookmarkedAt.UTC()
		out.BookmarkedAt = &kept
	}
	return out
}

func toPostViews(in page.List[view.Post]) List[PostView] { return toList(toPostView, in) }

func toUserView(v view.User) UserView {
	return UserView{v.ID, v.Name, v.ImageURL, v.Following, v.FollowedBy}
}

func toFound[F, T any](item func(F) T) func(view.Found[F], error) (*foundOut[T], error) {
	return converted(func(in view.Found[F]) *foundOut[T] {
		return &foundOut[T]{Found[T]{
			Items: toList(item, page.List[F]{Items: in.Items}).Items, Missing: append([]string{}, in.Missing...), Rest: in.Rest,
		}}
	})
}

type foundOut[T any] struct{ Body Found[T] }

// withUser converts an item by item, and adds the view of the item's user by set.
func withUser[F, T any](item func(F) T, set func(*T, *UserView)) func(view.WithUser[F]) T {
	return func(w view.WithUser[F]) T {
		out, user := item(w.Item), toUserView(w.User)
		set(&out, &user)
		return out
	}
}

func toEdgeWithUser(w view.WithUser[feed.Edge]) Edge {
	return withUser(toEdge, func(e *Edge, u *UserView) { e.User = u })(w)
}

func toLikerWithUser(w view.WithUser[feed.Liker]) Liker {
	return withUser(toLiker, func(l *Liker, u *UserView) { l.User = u })(w)
}

func toCommentWithAuthor(w view.WithUser[feed.Comment]) Comment {
	return withUser(toComment, func(c *Comment, u *UserView) { c.Author = u })(w)
}

// registerFound adds the calls that return the objects of several ids at once.
func (a *API) registerFound() {
	type usersIn struct {
		IDs []string `query:"ids" required:"true" nullable:"false" minItems:"1" maxItems:"100" pattern:"^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0,63}$" patternDescription:"a user id" doc:"User ids, separated by commas." example:"alice"`
	}
	register(a, operation(route{http.MethodGet, "/v1/users", "get-users", "Users", "Get up to 100 users by their ids, with the follows between them and you"}, http.StatusOK),
		func(ctx context.Context, in *usersIn) (*foundOut[UserView], error) {
			return toFound(toUserView)(a.views.UserViews(ctx, userOf(ctx), in.IDs))
		})
	type postsIn struct {
		IDs []string `query:"ids" required:"true" nullable:"false" minItems:"1" maxItems:"100" pattern:"^[0-7][0-9A-HJKMNP-TV-Z]{25}$" patternDescription:"a ULID" doc:"Post ids, separated by commas." example:"01JZ0000000000000000000000"`
	}
	register(a, operation(route{http.MethodGet, "/v1/posts", "get-posts", "Posts", "Get up to 100 posts by their ids, with their authors, counts and your likes"}, http.StatusOK),
		func(ctx context.Context, in *postsIn) (*foundOut[PostView], error) {
			return toFound(toPostView)(a.views.PostViews(ctx, userOf(ctx), in.IDs))
		})
}
