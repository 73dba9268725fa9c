package transfer

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/backoff"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// countTries is the maximum number of comparisons of a count, because concurrent calls may change the count.
const countTries = 8

// settled compares a count with its items until both are equal, but at most countTries
// times. Users may change the count and the items between the two reads.
func (v *verifier) settled(ctx context.Context, what string, count func(context.Context) (counted, items string, err error)) error {
	waits := backoff.Exponential{First: 100 * time.Millisecond, Most: 5 * time.Second}
	for try := 1; ; try++ {
		counted, items, err := count(ctx)
		if err != nil || counted == items {
			return err
		}
		if try == countTries {
			v.miss("%s: the count is %s, and there are %s", what, counted, items)
			return nil
		}
		if err := backoff.Wait(ctx, waits.Bound(try)); err != nil {
			return err
		}
	}
}

// users compares the counts of the users in the files with the items (I4).
func (v *verifier) users(ctx context.Context) error {
	ph := newPhase(v.im.cfg.Progress, "verify counts of users", len(v.im.index.users))
	defer ph.finish()
	return v.side(ctx, func(_ context.Context, do func(func(context.Context) error)) error {
		for _, user := range slices.Sorted(maps.Keys(v.im.index.users)) {
			do(func(ctx context.Context) error {
				defer ph.add(1)
				for _, c := range []struct {
					what, pk, has string // only items with the attribute has, if not ""
					of            func(schema.Counts) int64
				}{
					{"posts of ", schema.PostsPK(user), "", func(c schema.Counts) int64 { return c.Posts }},
					{"followers of ", schema.FollowersPK(user), "", func(c schema.Counts) int64 { return c.Followers }},
					{"silent followers of ", schema.FollowersPK(user), schema.AttrSilent, func(c schema.Counts) int64 { return c.Silent }},
					{"users that follow from ", schema.FollowingPK(user), "", func(c schema.Counts) int64 { return c.Following }},
				} {
					err := v.settled(ctx, c.what+user, func(ctx context.Context) (counted, listed string, err error) {
						items, _, err := table.Collect(v.store.Query(ctx, table.Query{PK: schema.UserPK(user), Consistent: true}), 0)
						if err != nil {
							return "", "", err
						}
						_, counts, err := schema.ParseUser(items)
						if err != nil {
							return "", "", err
						}
						there := 0
						err = each(ctx, v.store, table.Query{PK: c.pk, Project: []string{table.AttrTTL, schema.AttrSilent}}, func(it table.Item) error {
							if !it.Has(table.AttrTTL) && (c.has == "" || it.Has(c.has)) { // a post with an end is never counted (I15)
								there++
							}
							return nil
						})
						return fmt.Sprint(c.of(counts)), fmt.Sprint(there), err
					})
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		return nil
	})
}

// likeCounts compares the counts of reactions to the posts in the files with the reactions, by kind (I3).
func (v *verifier) likeCounts(ctx context.Context) error {
	ph := newPhase(v.im.cfg.Progress, "verify counts of likes", len(v.im.index.posts))
	defer ph.finish()
	return v.side(ctx, func(_ context.Context, do func(func(context.Context) error)) error {
		byID := func(a, b filed) int { return bytes.Compare(a.made[:], b.made[:]) }
		for _, filed := range slices.SortedFunc(maps.Values(v.im.index.posts), byID) {
			post := id.Unpack(filed.made[:])
			do(func(ctx context.Context) error {
				defer ph.add(1)
				it, err := v.store.Get(ctx, table.GetInput{Key: schema.PostByIDKey(post), Consistent: true})
				if err != nil || it.Item == nil { // records has already reported the missing post
					return err
				}
				ref, err := schema.ParsePostRef(*it.Item)
				if err != nil || ref.Gone(v.im.cfg.Now()) {
					return err
				}
				return v.settled(ctx, "likes of post "+post, func(ctx context.Context) (counted, stored string, err error) {
					likes := schema.LikeCount{Kinds: map[string]int64{}}
					for shard := range ref.LikeShards {
						q := table.Query{PK: schema.LikesPK(post, shard, ref.LikeShards), Project: []string{schema.AttrState, schema.AttrReaction, schema.AttrFlush}}
						err := each(ctx, v.store, q, func(it table.Item) error {
							like, err := schema.ParseLike(it)
							likes.Kinds[like.Kind]++
							return err
						})
						if err != nil {
							return "", "", err
						}
					}
					it, err := v.store.Get(ctx, table.GetInput{Key: schema.LikeCountKey(post), Consistent: true})
					return kindsText(schema.ParseLikeCount(it.Item)), kindsText(likes), err
				})
			})
		}
		return nil
	})
}

// kindsText formats counts by kind. It omits kinds with the count 0.
func kindsText(count schema.LikeCount) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(count.Kinds)) {
		if n := count.Kinds[kind]; kind != "" && n != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", kind, n))
		}
	}
	return cmp.Or(strings.Join(parts, " "), "0")
}
