package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
)

func toHomeItem(it feed.HomeItem) client.HomeItem {
	out := client.HomeItem{
		Post: toPost(it.Post), Author: client.Author(it.Author), LikeCount: it.LikeCount, RepostCount: it.RepostCount, Liked: it.Liked, Reactions: it.Reactions, Reaction: it.Reaction, CommentCount: it.CommentCount,
	}
	if of := it.Of; of != nil && it.Post.RepostOf != "" {
		out.Repost = new(toHomeItem(*of))
	} else if of != nil {
		out.Quote = new(toHomeItem(*of))
	}
	return out
}

func toHomeView(it feed.HomeItem) client.PostView {
	return client.PostView{HomeItem: toHomeItem(it), Kept: client.Kept(it.Kept)}
}

type (
	// HomePage is a page of a home.
	HomePage struct {
		List[client.HomeItem]
		Newer
	}
	// HomeViews is a page of a home with expand=view.
	HomeViews struct {
		List[client.PostView]
		Newer
	}
)

// Newer has the number of newer posts. The type is exported because huma ignores embedded types that are not
// exported.
type Newer struct {
	Unread *int `json:"unread,omitempty" minimum:"0" maximum:"100" doc:"The number of posts newer than after; 100 is 100 or more. Only the first page of a request with after has it."`
}

// homeBody returns the body of a page of a home.
func homeBody(expanded bool, list page.List[feed.HomeItem], unread *int) any {
	if expanded {
		return HomeViews{toList(toHomeView, list), Newer{unread}}
	}
	return HomePage{toList(toHomeItem, list), Newer{unread}}
}

// homeOut is a page of a home, or 304 without a body.
type homeOut struct {
	Status int
	ETag   string `header:"ETag" doc:"It changes with the ids of the answer and with unread. Only requests with after get it."` //nolint:tagliatelle // the name in RFC 9110
	Body   any
}

func (a *API) registerHome() {
	type homeIn struct {
		Page
		Views
		Source      string `query:"source" enum:"push,pull" default:"push" doc:"pull computes the same list from the posts of the users you follow, without the timeline. It counts several times against the rate limit, about once for each 100 of them. If you follow more than 1,000 users, the first page counts for all of them and the next ones show the posts that it found, up to 100. If you follow more than 5,000, the first pages are empty, with a next_cursor, until the posts of all were read, 5,000 users a request."`
		After       ulid   `query:"after" doc:"A post id: list only newer posts, and count them."`
		IfNoneMatch string `header:"If-None-Match" doc:"An ETag of an earlier answer to the same request with after: the answer is 304 if no id has changed."`
	}
	op := operation(route{http.MethodGet, "/v1/home", "get-home", "Home", "List your posts and those of the users you follow, newest first"}, http.StatusOK)
	op.Description = "The first page may be a second late with the newest posts of large authors, which are merged in when a home is read. For that second two processes may differ. " +
		"Your own posts are there at once, deleted posts and the posts of users you unfollowed or mute are gone at once, and pages with a cursor are never late."
	op = either[HomePage, HomeViews](a, op)
	op.Responses["304"] = &huma.Response{Description: "No id has changed since If-None-Match."}
	// encoding/json writes the page: an encoder of our own saved 0 to 15 % of a page, which is less than its code is worth.
	register(a, op, func(ctx context.Context, in *homeIn) (*homeOut, error) {
		query := home.Query{Pull: in.Source == "pull", After: string(in.After), View: in.wanted()}
		if in.After == "" {
			list, err := a.homes.Home(ctx, userOf(ctx), query, in.request())
			if err != nil {
				return nil, err
			}
			return &homeOut{Status: http.StatusOK, Body: homeBody(in.wanted(), list, nil)}, nil
		}
		news, err := a.homes.HomeNews(ctx, userOf(ctx), query, in.request())
		if err != nil {
			return nil, err
		}
		unread := &news.Unread
		if in.Cursor != "" {
			unread = nil
		}
		out := &homeOut{Status: http.StatusOK, Body: homeBody(in.wanted(), news.List, unread)}
		if len(news.Items) == 0 && news.NextCursor != "" { // the page has no news yet, but a further page may have some
			return out, nil
		}
		if out.ETag = `W/"` + news.Tag() + `"`; names(in.IfNoneMatch, out.ETag) { // weak: names and like counts may change
			return &homeOut{Status: http.StatusNotModified, ETag: out.ETag}, nil
		}
		return out, nil
	})
}

// names reports whether an If-None-Match header contains an ETag, by RFC 9110's weak comparison. It stops
// at the first element that is not an ETag, because an opaque tag may contain commas.
func names(header, etag string) bool {
	if header == "*" {
		return true
	}
	for rest := header; ; {
		rest = strings.TrimPrefix(strings.TrimLeft(rest, ", \t"), "W/")
		if !strings.HasPrefix(rest, `"`) {
			return false
		}
		opaque, after, closed := strings.Cut(rest[1:], `"`)
		if !closed {
			return false
		}
		if `"`+opaque+`"` == strings.TrimPrefix(etag, "W/") {
			return true
		}
		rest = after
	}
}
