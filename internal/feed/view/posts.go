package view

import (
	"context"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// Post is a post with all data that a page shows about the post: the item of a home.
type Post struct {
	feed.HomeItem
	// At is the time at which the list's user liked or bookmarked the post. Only lists of liked posts and of
	// bookmarks have At.
	At time.Time
}

// PostView returns the view of a living post.
func (v *Views) PostView(ctx context.Context, by access.Viewer, post string) (Post, error) {
	seen, err := v.access.LivingPost(ctx, by, post)
	if err != nil {
		return Post{}, err
	}
	ref := seen.Ref()
	views, err := v.posts(ctx, by, []access.Ref{refTo(seen)}, nil)
	if err != nil {
		return Post{}, err
	}
	if len(views) == 0 && ref.RepostOf != "" {
		return Post{}, fault.NotFoundf("post %s, which post %s reposts, is gone, or hidden from you", ref.RepostOf, post)
	}
	if len(views) == 0 { // the post was deleted after LivingPost read it
		return Post{}, fault.NotFoundf("post %s was deleted", post)
	}
	return views[0], nil
}

// PostViews returns the views of the living posts among posts, MaxLimit at most.
func (v *Views) PostViews(ctx context.Context, by access.Viewer, posts []string) (Found[Post], error) {
	living, err := v.access.LivingPosts(ctx, by, posts)
	if err != nil {
		return Found[Post]{}, err
	}
	var refs []access.Ref
	for _, post := range once(posts) {
		if ref, ok := living[post]; ok {
			refs = append(refs, refTo(ref))
		}
	}
	views, err := v.posts(ctx, by, refs, nil)
	return found(posts, views, func(p Post) string { return p.Post.ID }), err
}

// PostViewsByUser returns the list of PostsByUser with the views of the posts.
func (v *Views) PostViewsByUser(ctx context.Context, by access.Viewer, user string, in feed.PostRange, req page.Request) (page.List[Post], error) {
	list, read, err := v.feed.PostsWithItems(ctx, by, user, in, req)
	if err != nil {
		return page.List[Post]{}, err
	}
	refs := make([]access.Ref, len(list.Items))
	for i, p := range list.Items {
		stored, _, err := read.Of(schema.PostKey(user, p.ID))
		if err != nil {
			return page.List[Post]{}, err
		}
		refs[i] = access.Ref{Post: p.ID, Author: user, LikeShards: stored.Post().LikeShards}
	}
	views, err := v.posts(ctx, by, refs, &read)
	return page.With(list, views, func(p Post) feed.Post { return p.Post }), err
}

// LikedPostViews returns the list of LikesByUser with the views of the posts.
func (v *Views) LikedPostViews(ctx context.Context, by access.Viewer, user string, in page.Request) (page.List[Post], error) {
	list, living, err := v.feed.LikesWithPosts(ctx, by, user, in)
	if err != nil {
		return page.List[Post]{}, err
	}
	return inList(ctx, v, by, list, living, func(l feed.LikedPost) (string, time.Time) { return l.PostID, l.LikedAt })
}

// BookmarkViews returns the list of Bookmarks with the views of the posts.
func (v *Views) BookmarkViews(ctx context.Context, user string, in page.Request) (page.List[Post], error) {
	list, living, err := v.feed.BookmarksWithPosts(ctx, user, in)
	if err != nil {
		return page.List[Post]{}, err
	}
	views, err := inList(ctx, v, access.As(user), list, living, func(b feed.Bookmarked) (string, time.Time) { return b.PostID, b.BookmarkedAt })
	for i := range views.Items {
		views.Items[i].Bookmarked = true // the list is consistent, the read of bookmarks by post is not
	}
	return views, err
}

// inList returns the views of the posts of a list. of returns the post of an item, and the time at which
// the list's user made the item.
func inList[T any](ctx context.Context, v *Views, by access.Viewer, list page.List[T], living map[string]access.Seen, of func(T) (post string, at time.Time)) (page.List[Post], error) {
	refs, items := make([]access.Ref, len(list.Items)), map[string]T{}
	for i, item := range list.Items {
		post, _ := of(item)
		refs[i], items[post] = refTo(living[post]), item
	}
	views, err := v.posts(ctx, by, refs, nil)
	for i := range views {
		_, views[i].At = of(items[views[i].Post.ID])
	}
	return page.With(list, views, func(p Post) T { return items[p.Post.ID] }), err
}

// CommentOnPost is a comment with the view of its post.
type CommentOnPost struct {
	feed.Comment
	On Post
}

// JSONBytes returns an upper bound of the size of the comment and its post in JSON.
func (c CommentOnPost) JSONBytes() int { return c.Comment.JSONBytes() + c.On.JSONBytes() }

// CommentViewsByUser returns the list of CommentsByUser with the views of the posts.
func (v *Views) CommentViewsByUser(ctx context.Context, by access.Viewer, user string, in page.Request) (page.List[CommentOnPost], error) {
	list, living, err := v.feed.CommentsWithPosts(ctx, by, user, in)
	if err != nil {
		return page.List[CommentOnPost]{}, err
	}
	posts := make([]string, len(list.Items))
	for i, c := range list.Items {
		posts[i] = c.PostID
	}
	var refs []access.Ref
	for _, post := range once(posts) {
		refs = append(refs, refTo(living[post]))
	}
	views, err := v.posts(ctx, by, refs, nil)
	if err != nil {
		return page.List[CommentOnPost]{}, err
	}
	on := map[string]Post{}
	for _, p := range views {
		on[p.Post.ID] = p
	}
	var items []CommentOnPost
	for _, c := range list.Items {
		if post, ok := on[c.PostID]; ok { // otherwise the post was deleted after the list was read
			items = append(items, CommentOnPost{c, post})
		}
	}
	return page.With(list, items, func(c CommentOnPost) feed.Comment { return c.Comment }), nil
}

func refTo(seen access.Seen) access.Ref {
	post := seen.Ref()
	return access.Ref{Post: post.ID, Author: post.Author, LikeShards: post.LikeShards}
}

// posts returns the views of the living posts among refs. read contains posts that the caller has
// already read. posts takes one round trip and 8 table calls at most. Authors of posts without a
// byline take one round trip and one call more.
func (v *Views) posts(ctx context.Context, by access.Viewer, refs []access.Ref, read *access.Readables) ([]Post, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	items, err := v.feed.Hydrate(ctx, &page.Budget{}, feed.Viewer{By: by, Kept: true}, refs, read)
	if err != nil {
		return nil, err
	}
	views := make([]Post, len(items))
	for i, item := range items {
		views[i].HomeItem = item
	}
	return views, nil
}
