package httpapi

import (
	"context"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/view"
	"fanfare/internal/page"
)

// Shown reads posts and users in the form of the API's answers, for the operators of a process.
type Shown struct {
	feed  *feed.Service
	views *view.Views
}

// NewShown returns a Shown.
func NewShown(posts *feed.Service, views *view.Views) Shown { return Shown{posts, views} }

// operator is the viewer of an operator, who has no likes, follows and blocks.
func operator() access.Viewer { return access.AnyAudience(access.Operator) }

// Post returns the answer of GET /v1/posts/{id}?expand=view.
func (s Shown) Post(ctx context.Context, post string) (client.PostView, error) {
	seen, err := s.views.PostView(ctx, operator(), post)
	return toPostView(seen), err
}

// User returns the answer of GET /v1/users/{id}.
func (s Shown) User(ctx context.Context, user string) (client.User, error) {
	seen, err := s.feed.User(ctx, user)
	return toUser(seen).Body.User, err
}

// Posts returns a page of the answer of GET /v1/users/{id}/posts?expand=view.
func (s Shown) Posts(ctx context.Context, user, cursor string) (posts []client.PostView, next string, err error) {
	list, err := s.views.PostViewsByUser(ctx, operator(), user, feed.PostRange{}, page.Request{Cursor: cursor, Limit: page.DefaultLimit})
	seen := toPostViews(list)
	return seen.Items, seen.NextCursor, err
}
