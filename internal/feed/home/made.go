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

// This file reads facts for a process with live homes: the new posts of all authors, and the authors
// whose posts a home shows. These facts tell the process when a look at a home may find a post. Users
// do not see the facts, so the reads need not be consistent.

// madeAtOnce is the number of posts of a shard that one PostsMade reads at most (I11).
const madeAtOnce = 5000

// changesAtOnce is the number of changes of a bucket of time that one PostsMade reads at most (I11): the partition takes 1,000 writes a second, and
// a tick of the tail looks back 30 seconds. With a lower number a busy network would make all open pages read again at each such tick.
const changesAtOnce = 30_000

// Made has the events of a span of time in the table: new posts, removals, and changes of posts. More reports
// that there are further changes.
type Made = access.MadePage

// PostsMade returns the posts by all authors that were made at or after low, and the removals of
// users, from the index of posts by time. PostsMade includes posts by clocks that are up to
// messages.MaxAhead ahead. The changes of posts come from the log of changes.
func (h *Homes) PostsMade(ctx context.Context, low time.Time) (all Made, err error) {
	first, last := id.Floor(low), schema.BucketOf(id.Floor(h.access.Now().Add(messages.MaxAhead)))
	var ranges []access.MadeRange
	var buckets []string
	for bucket := schema.BucketOf(first); bucket <= last; {
		buckets = append(buckets, bucket)
		for shard := range schema.PostShards {
			ranges = append(ranges, access.MadeRange{Bucket: bucket, Shard: shard, Low: first})
		}
		next, err := access.BucketAfter(bucket)
		if err != nil {
			return Made{}, fault.Wrap("home", err)
		}
		bucket = next
	}
	parts, changes := make([]Made, len(ranges)), make([]page.Stretch[schema.Change], len(buckets))
	var reads []func(context.Context) error
	for i, of := range ranges {
		reads = append(reads, func(ctx context.Context) (err error) { parts[i], err = h.madeIn(ctx, of); return err })
	}
	for i, bucket := range buckets {
		reads = append(reads, func(ctx context.Context) (err error) {
			changes[i], err = h.access.Changes(ctx, bucket, first, changesAtOnce)
			return err
		})
	}
	if err := h.access.All(ctx, reads...); err != nil {
		return Made{}, err
	}
	for _, part := range parts {
		all.Posts, all.Removals = append(all.Posts, part.Posts...), append(all.Removals, part.Removals...)
	}
	for _, log := range changes {
		all.Changes, all.More = append(all.Changes, log.Items...), all.More || log.More
	}
	return all, nil
}

// madeIn returns the posts of a range, and the removals between them.
func (h *Homes) madeIn(ctx context.Context, of access.MadeRange) (found Made, err error) {
	for found.More = true; found.More && len(found.Posts) < madeAtOnce; {
		page, err := h.access.Made(ctx, of, 1000)
		if err != nil {
			return Made{}, err
		}
		found.Posts, found.Removals, found.More = append(found.Posts, page.Posts...), append(found.Removals, page.Removals...), page.More
		if n := len(page.Posts); n > 0 {
			of.After = page.Posts[n-1].ID
		}
	}
	return found, nil
}

// Heard returns the authors whose posts viewer's home shows: viewer, and the followees that viewer
// does not mute. whole is false if viewer has more than most followees.
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

// named returns the users that the sort keys of a range name, up to the number most.
func (h *Homes) named(ctx context.Context, q table.Query, userOf func(sk string) (string, bool), most int) (page.Stretch[string], error) {
	q.Project = []string{}
	return page.Collect(ctx, h.access.Store, q, most, page.Refill{}, page.Each(func(it table.Item) (string, bool, error) {
		user, ok := userOf(it.Key.SK)
		return user, ok, nil
	}))
}
