package home

import (
	"context"
	"maps"
	"slices"
	"time"

	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// LikeChanges returns the counts of the newest posts of viewer's home that differ from the counts in seen, and
// stores the new counts in seen. A post without a count in seen has the count 0. LikeChanges reads the follows of the changed
// posts' authors again, except for the first counts after a look whose references are younger than refsAge (I2).
func (h *Homes) LikeChanges(ctx context.Context, viewer string, seen *Streamed) ([]PostLikes, error) {
	shownAt := seen.shownAt
	seen.shownAt = time.Time{}
	changes, of, err := h.changedLikes(ctx, seen)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	posts := make([]string, len(of))
	for i, r := range of {
		posts[i] = r.Post
	}
	var stored map[string]access.Seen
	reads := []func(context.Context) error{func(ctx context.Context) (err error) {
		if stored, err = h.access.PostRefs(ctx, access.OfHome(viewer), posts); stored != nil {
			err = nil // a damaged post has no count
		}
		return err
	}}
	if h.access.Now().Sub(shownAt) > refsAge { // after the read of the counts, which may take any time
		reads = append(reads, func(ctx context.Context) (err error) { of, err = h.stillFollowed(ctx, viewer, of); return err })
	}
	if err := h.access.All(ctx, reads...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(changes, func(c PostLikes) bool {
		isOf := func(r access.Ref) bool { return r.Post == c.PostID }
		if !slices.ContainsFunc(of, isOf) { // the next look shows the post again if its author is followed again
			seen.shown = slices.DeleteFunc(seen.shown, isOf)
			return true
		}
		post, there := stored[c.PostID]
		if !there {
			return true
		}
		seen.likes[c.PostID] = c // a post that is gone gets a count too, so that it is not read again
		return post.Ref().Gone(h.access.Now())
	}), nil
}

// changedLikes returns the counts that differ from the counts in seen, and references to their posts.
func (h *Homes) changedLikes(ctx context.Context, seen *Streamed) (changes []PostLikes, of []access.Ref, err error) {
	keys := make([]table.Key, len(seen.shown))
	for i, r := range seen.shown {
		keys[i] = schema.LikeCountKey(r.Post) //nolint:forbidigo // the posts of changed counts are read afterwards
	}
	found, err := h.access.Recent.Get(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	for i, r := range seen.shown {
		var count schema.LikeCount
		if it, ok := found[keys[i]]; ok {
			count = schema.ParseLikeCount(&it)
		}
		now := PostLikes{r.Post, count.Shown(), nil}
		if len(h.access.Reactions) > 0 {
			now.Reactions = h.access.ShownReactions(count)
		}
		if known := seen.likes[r.Post]; now.Count != known.Count || !maps.Equal(now.Reactions, known.Reactions) {
			changes, of = append(changes, now), append(of, r)
		}
	}
	return changes, of, nil
}
