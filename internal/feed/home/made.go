package home

import (
	"context"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// This file reads what tells a process with live homes that a look at one may find a post: new posts
// of all authors, and whose posts a home shows. Nothing of it is shown to anybody, so the reads need
// not be consistent.

// madeAtOnce is the number of posts of a shard that one PostsMade reads at most (I11).
const madeAtOnce = 5000

// Made is a post, of which the index of posts by time knows the author.
type Made struct{ Post, Author string }

// PostsMade returns the posts by all authors that were made from low on, as far as the index of posts by
// time has them: also posts of clocks that are ahead, up to messages.MaxAhead.
func (h *Homes) PostsMade(ctx context.Context, low time.Time) ([]Made, error) {
	first, last := id.Floor(low), schema.BucketOf(id.Floor(h.access.Now().Add(messages.MaxAhead)))
	var ranges []access.MadeRange
	for bucket := schema.BucketOf(first); bucket <= last; {
		for shard := range schema.PostShards {
			ranges = append(ranges, access.MadeRange{Bucket: bucket, Shard: shard, Low: first})
		}
		next, err := access.BucketAfter(bucket)
		if err != nil {
			return nil, fault.Wrap("home", err)
		}
		bucket = next
	}
	parts := make([][]Made, len(ranges))
	reads := make([]func(context.Context) error, len(ranges))
	for i, of := range ranges {
		reads[i] = func(ctx context.Context) (err error) { parts[i], err = h.madeIn(ctx, of); return err }
	}
	if err := h.access.All(ctx, reads...); err != nil {
		return nil, err
	}
	var all []Made
	for _, part := range parts {
		all = append(all, part...)
	}
	return all, nil
}

// madeIn returns the posts of a range.
func (h *Homes) madeIn(ctx context.Context, of access.MadeRange) (found []Made, err error) {
	for more := true; more && len(found) < madeAtOnce; {
		var refs []schema.PostRef
		if refs, more, err = h.access.Made(ctx, of, 1000); err != nil {
			return nil, err
		}
		for _, ref := range refs {
			found, of.After = append(found, Made{ref.ID, ref.Author}), ref.ID
		}
	}
	return found, nil
}

// Heard returns the authors whose posts viewer's home shows: viewer, and whom it follows and does not
// mute. whole is false if there are more than most.
func (h *Homes) Heard(ctx context.Context, viewer string, most int) (authors []string, whole bool, err error) {
	var followees page.Stretch[string]
	muted := map[string]bool{}
	err = h.access.All(ctx,
		func(ctx context.Context) (err error) {
			followees, err = h.named(ctx, table.Query{PK: schema.FollowingPK(viewer)}, schema.UserOfSK, most)
			return err
		},
		func(ctx context.Context) error {
			mutes, err := h.named(ctx, table.Query{PK: schema.MarksPK(viewer), Low: schema.SortMute, High: schema.SortMuteEnd}, schema.MutedOfSK, feed.MaxMutes)
			for _, author := range mutes.Items {
				muted[author] = true
			}
			return err
		},
	)
	if err != nil {
		return nil, false, err
	}
	authors = append(authors, viewer)
	for _, author := range followees.Items {
		if !muted[author] {
			authors = append(authors, author)
		}
	}
	return authors, !followees.More, nil
}

// named returns the users whom the sort keys of a range name, most at most.
func (h *Homes) named(ctx context.Context, q table.Query, userOf func(sk string) (string, bool), most int) (page.Stretch[string], error) {
	q.Project = []string{}
	return page.Collect(ctx, h.access.Store, q, most, page.Refill{}, page.Each(func(it table.Item) (string, bool, error) {
		user, ok := userOf(it.Key.SK)
		return user, ok, nil
	}))
}
