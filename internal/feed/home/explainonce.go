package home

import (
	"cmp"
	"context"
	"slices"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// explainOnce explains the posts that do not show although the home has their references: a repost whose original is gone
// or hidden, and a post that shows at a newer reference (I16). The newer reference is among the next lookPosts references
// after the oldest of the explained posts.
func (h *Homes) explainOnce(ctx context.Context, user string, all []Explanation) error {
	low := ""
	for i := range all {
		e := &all[i]
		if !e.Reason.Shown() {
			continue
		}
		shows, err := h.shows(ctx, user, access.Ref{Post: e.Post, Author: e.Author})
		if err != nil {
			return err
		}
		if !shows && e.RepostOf != "" {
			e.Reason = ReasonOriginal
		} else if low == "" || e.Post < low {
			low = e.Post
		}
	}
	if low == "" {
		return nil
	}
	refs, err := h.homeRefs(ctx, user, access.Span{Low: low + access.Behind, Up: true}, lookPosts)
	if err != nil {
		return err
	}
	posts, err := h.access.Posts(ctx, access.OfHome(user), access.PostKeys(refs.Items))
	if err != nil {
		return err
	}
	slices.Reverse(refs.Items)
	for i := range all {
		if e := &all[i]; e.Reason.Shown() {
			if err := e.repeats(refs.Items, posts); err != nil {
				return err
			}
		}
	}
	return nil
}

// repeats finds the newest living repost of the post of e among newer references, newest first. The post of e shows, so
// its original is visible.
func (e *Explanation) repeats(newer []access.Ref, posts access.Readables) error {
	for _, r := range newer {
		if r.Post <= e.Post {
			continue
		}
		p, _, err := posts.Of(schema.PostKey(r.Author, r.Post))
		if err != nil {
			return err
		}
		if p.Post().RepostOf == cmp.Or(e.RepostOf, e.Post) {
			e.Reason, e.Newer = ReasonRepeat, r.Post
			return nil
		}
	}
	return nil
}

// shows reports whether user sees a post to which the home has a reference.
func (h *Homes) shows(ctx context.Context, user string, ref access.Ref) (bool, error) {
	items, err := h.items.Hydrate(ctx, &page.Budget{}, feed.Viewer{By: access.OfHome(user)}, []access.Ref{ref}, nil)
	return len(items) > 0, err
}
