package home

import (
	"context"
	"slices"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
)

// followee is an author whose post list a home reads. from is the author's lowest post id that the
// home shows, "" for all posts.
type followee struct {
	author, from string
	// pulled means that all homes of the author's followers read this list.
	pulled bool
	// muted means that the home shows no post of the author.
	muted bool
}

// heard returns the followees that are not muted.
func heard(followees []followee) []followee {
	return slices.DeleteFunc(slices.Clone(followees), func(f followee) bool { return f.muted })
}

// wantedPosts describes a read: the first want posts of a span, within a budget.
type wantedPosts struct {
	calls *page.Budget
	of    access.Span
	want  int
}

// mergedPosts merges the followees' posts into top and returns top, with want references at most. Once
// top is full, or the budget has cut top, mergedPosts reads only the posts before the end of top.
// mergedPosts reads 100 lists at a time, so its memory does not grow with the number of followees
// (I9).
func (h *Homes) mergedPosts(ctx context.Context, w wantedPosts, followees []followee, top page.Stretch[access.Ref]) (page.Stretch[access.Ref], error) {
	of, begins := w.of, w.of.High == ""
	merge := page.Merge[access.Ref]{
		All: h.access.All, Budget: w.calls, Want: w.want, Compare: of.Compare, Position: func(r access.Ref) string { return r.Post },
	}
	for part := range slices.Chunk(followees, homeReaders) {
		of = of.UpTo(top.Cut)
		if len(top.Items) == w.want {
			of = of.UpTo(top.Items[w.want-1].Post)
		}
		lists := make([]page.MergedList[access.Ref], len(part))
		for i, f := range part {
			own := of.From(f.from)
			lists[i] = func(ctx context.Context, last string, want, size int) (page.Stretch[access.Ref], error) {
				if f.pulled && h.cfg.HeadAge > 0 && begins && last == "" {
					return h.headOf(ctx, f.author, own, want, size)
				}
				return h.access.PostsBy(ctx, &page.Budget{}, f.author, own.After(last), want, size)
			}
		}
		var err error
		if top, err = merge.Lists(ctx, top, lists); err != nil {
			return page.Stretch[access.Ref]{}, err
		}
	}
	return top, nil
}

// headOf returns posts as PostsBy does, for a span without an upper bound. Requests share the newest
// posts.
func (h *Homes) headOf(ctx context.Context, author string, of access.Span, want, size int) (page.Stretch[access.Ref], error) {
	if !of.Up {
		return h.heads.get(ctx, author, of.Low, want)
	}
	head, err := h.heads.get(ctx, author, of.Low, page.MaxLimit)
	if err == nil && (head.Cut != "" || len(head.Items) == page.MaxLimit) { // the oldest posts may be below the head
		return h.access.PostsBy(ctx, &page.Budget{}, author, of, want, size)
	}
	slices.Reverse(head.Items)
	return head, err
}

// newerThan returns the span of a home after the post after. If after is "", the span contains all
// posts that the home still shows.
func (h *Homes) newerThan(ctx context.Context, after string) (access.Span, error) {
	oldest, err := h.access.OldestShown(ctx)
	if after == "" {
		return access.Span{Low: oldest}, err
	}
	return access.Span{Low: max(oldest, after+access.Behind)}, err
}

// homeReaders is the number of post lists that one home read reads concurrently.
const homeReaders = 100

// Query selects how a home is computed: from the timeline (push), or only from the followees' post
// lists (pull). Push and pull return the same list and share their cursors. A non-empty After leaves
// out that post and all older posts; such a list has separate cursors. With View, the items have
// the viewer's bookmarks.
type Query struct {
	Pull  bool
	After string
	View  bool
	// once is the memory of the paging.
	once *feed.Once
}

func (q Query) viewer(id string) feed.Viewer {
	return feed.Viewer{By: access.OfHome(id), Kept: q.View, Once: q.once}
}

// calls returns the number of table calls for the viewer's bookmarks, apart from the posts that are read
// by key.
func (q Query) calls() int {
	if q.View {
		return feed.CallsOfKept
	}
	return 0
}
