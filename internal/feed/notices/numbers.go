package notices

import (
	"context"
	"maps"
	"slices"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file computes the numbers of notifications: the stored counts, minus the reader's own actions.

const (
	// ownComments is the number of the reader's newest comments that a page reads.
	ownComments = 100
	// clockSkew is the maximum time by which the id of a comment may be below the id of its post.
	clockSkew = 10 * time.Minute
)

// numbered adds the posts and the numbers. numbered leaves out a notification without actors if the
// number includes no action that may be shown.
func (r *reader) numbered(ctx context.Context, all []Notice) ([]Notice, error) {
	var refs []access.Ref
	var commented []string
	follow := false
	for _, of := range all {
		if of.Kind == schema.NoticeFollow {
			follow = true
			continue
		}
		if of.Kind == schema.NoticeComment {
			commented = append(commented, of.Target)
		}
		if ref := r.refs[of.Target]; !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	var items []feed.HomeItem
	var own map[string]int64
	var user feed.User
	var reads []func(context.Context) error
	if len(refs) > 0 {
		reads = append(reads, func(ctx context.Context) (err error) {
			items, err = r.n.feed.Hydrate(ctx, &page.Budget{}, feed.Viewer{By: access.As(r.user)}, refs, &r.posts)
			return err
		})
	}
	if len(commented) > 0 {
		reads = append(reads, func(ctx context.Context) (err error) { own, err = r.ownComments(ctx, commented); return err })
	}
	if follow {
		reads = append(reads, func(ctx context.Context) (err error) { user, err = r.n.feed.User(ctx, r.user); return err })
	}
	if err := r.n.access.All(ctx, reads...); err != nil {
		return nil, err
	}
	for i := range all {
		of := &all[i]
		if at := slices.IndexFunc(items, func(item feed.HomeItem) bool { return item.Post.ID == of.Target }); at >= 0 {
			of.On = &items[at]
		}
		of.Count = of.number(own, user)
	}
	return slices.DeleteFunc(all, func(of Notice) bool {
		return len(of.Actors) == 0 && (of.Count == nil || *of.Count <= int64(of.hidden))
	}), nil
}

// number returns the number that a notification shows. own has the number of the reader's comments by
// post.
func (of *Notice) number(own map[string]int64, user feed.User) *int64 {
	switch of.Kind {
	case schema.NoticeLike:
		return new(max(0, of.reactions()))
	case schema.NoticeComment:
		mine, known := own[of.Target]
		n := max(0, of.On.CommentCount-mine)
		if known {
			return &n
		}
	case schema.NoticeFollow:
		return new(user.Counts.Followers)
	case schema.NoticeMention, schema.NoticeRepost:
	}
	return nil
}

// reactions returns the number of all reactions of shown kinds to the post, except the reader's
// reaction. The kind of the reader's reaction may be switched off, and then no count includes it.
func (of *Notice) reactions() (n int64) {
	counts := maps.Clone(of.On.Reactions)
	if counts == nil {
		counts = map[string]int64{}
	}
	counts[schema.KindLike] = of.On.LikeCount
	own := of.On.Reaction
	if of.On.Liked {
		own = schema.KindLike
	}
	for kind, count := range counts {
		if n += count; kind == own {
			n--
		}
	}
	return n
}

// ownComments returns the number of the reader's comments on each of posts. ownComments reads the
// newest comments, and returns no number for a post that is older than these comments.
func (r *reader) ownComments(ctx context.Context, posts []string) (map[string]int64, error) {
	since := id.Floor(access.TimeOf(slices.Min(posts)).Add(-clockSkew))
	pk := schema.UserCommentsPK(r.user) //nolint:forbidigo // the own comments
	q := table.Query{Index: true, PK: pk, Low: schema.CommentSK(since), Descending: true, PageSize: ownComments, Project: []string{}}
	own := map[string]int64{}
	for read, err := range r.n.access.Store.Query(ctx, q) {
		if err != nil {
			return nil, fault.Wrap("table", err)
		}
		for _, it := range read.Items {
			comment, err := schema.ParseComment(it)
			if err != nil {
				return nil, fault.Wrap("table", err)
			}
			own[comment.Post]++
			since = comment.ID
		}
		if !read.More {
			since = ""
		}
		if len(read.Items) > 0 {
			break
		}
	}
	known := map[string]int64{}
	for _, post := range posts {
		if since == "" || access.TimeOf(post).Add(-clockSkew).After(access.TimeOf(since)) {
			known[post] = own[post]
		}
	}
	return known, nil
}
