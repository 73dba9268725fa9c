package httpapi

import (
	"context"
	"net/http"

	"fanfare/internal/feed"
)

// HomeItem is one post in a home.
type HomeItem struct {
	Post      Post       `json:"post"`
	Author    HomeAuthor `json:"author"`
	LikeCount int64      `json:"like_count"`
	Liked     bool       `json:"liked" doc:"True if you like the post."`
}

// HomeAuthor holds the values of an author that a home shows.
type HomeAuthor struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	ImageURL string `json:"image_url"`
}

func toHomeItem(it feed.HomeItem) HomeItem {
	return HomeItem{Post: toPost(it.Post), Author: HomeAuthor(it.Author), LikeCount: it.LikeCount, Liked: it.Liked}
}

func (a *API) registerHome() {
	type homeIn struct {
		Page
		Source string `query:"source" enum:"push,pull" default:"push" doc:"pull computes the same list from the posts of the users you follow, without the timeline. It counts several times against the rate limit, about once for each 100 of them. If you follow more than 1,000 users, pages are empty, with a next_cursor, until the posts of all of them were read, ten users a request."`
	}
	register(a, operation(http.MethodGet, "/v1/home", "get-home", "Home", "List your posts and those of the users you follow, newest first", http.StatusOK),
		func(ctx context.Context, in *homeIn) (*listOut[HomeItem], error) {
			return listed(toHomeItem)(a.feed.Home(ctx, userOf(ctx), feed.HomeQuery{Pull: in.Source == "pull"}, in.request()))
		})
}
