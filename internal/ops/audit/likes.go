package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/likeagg"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

const (
	// restoreMargin is the maximum time by which the clocks of a restored system may have
	// been ahead of the operator's time.
	restoreMargin = 10 * time.Minute
	// countedAtOnce is the maximum number of concurrent requests of a repair that counts likes.
	countedAtOnce = 8
)

// likesOf has the sums of a post's likes, by the ledger of the post.
type likesOf struct {
	// counted is the number of likes that the counts must have, by kind of reaction.
	counted map[string]int64
	// uncounted is the number of actions that nobody will count. unliked is the part of
	// uncounted that takes a like back.
	uncounted, unliked int
}

// differences returns, by kind, the numbers that counts lacks.
func (l likesOf) differences(counts map[string]int64) map[string]int64 {
	lack := maps.Clone(l.counted)
	for kind, n := range counts {
		lack[kind] -= n
	}
	maps.DeleteFunc(lack, func(_ string, n int64) bool { return n == 0 })
	return lack
}

// likeCount checks the like count of a living post. The likes are read between two equal
// reads of the count with its ledger, so no flush happened between these reads. Only a
// flush changes the part of a like in the count (docs/LIKES.md).
func (r *run) likeCount(ctx context.Context, ref schema.PostRef) error {
	key := schema.LikeCountKey(ref.ID)
	for range decisions {
		found, err := r.get(ctx, true, key)
		if err != nil {
			return err
		}
		before := found[key]
		count := schema.ParseLikeCount(&before)
		all := int64(0)
		for _, n := range count.Kinds {
			all += n
		}
		if r.cfg.Most > 0 && all > int64(r.cfg.Most) {
			return nil
		}
		sum, err := r.likes(ctx, ref, count, nil)
		if err != nil || sum.uncounted == 0 && len(sum.differences(count.Kinds)) == 0 {
			return err
		}
		found, err = r.get(ctx, true, key, schema.PostByIDKey(ref.ID))
		if err != nil {
			return err
		}
		if now, err := schema.ParsePostRef(found[schema.PostByIDKey(ref.ID)]); err != nil || now.Gone(r.cfg.Now()) {
			return nil //nolint:nilerr // the likes of this post are being removed
		}
		if !sameItem(before, found[key]) {
			continue
		}
		return r.likesFound(ctx, ref, count, sum, found)
	}
	r.sum.Undecided++
	return nil
}

// likesFound reports the findings about a count and the likes that were read with an unchanged ledger.
func (r *run) likesFound(ctx context.Context, ref schema.PostRef, count schema.LikeCount, sum likesOf, items map[table.Key]table.Item) error {
	key := schema.LikeCountKey(ref.ID)
	if lack := sum.differences(count.Kinds); len(lack) > 0 {
		var details []string
		var by []table.Attr
		for _, kind := range slices.Sorted(maps.Keys(lack)) {
			details = append(details, fmt.Sprintf("the count of kind %s is %d, and the reactions by its ledger are %d", kind, count.Kinds[kind], sum.counted[kind]))
			by = append(by, table.Attr{Name: schema.AttrCount(kind), Value: table.N(lack[kind])})
		}
		var set []table.Attr
		if expiry := likeagg.Expiry(ref); !expiry.IsZero() { // the item of the count may be lost
			set = []table.Attr{{Name: table.AttrTTL, Value: table.N(expiry.Unix())}}
		}
		err := r.found(ctx, LikeCount, key, strings.Join(details, "; "), func() (bool, error) { return r.add(ctx, items, key, set, by...) })
		if err != nil {
			return err
		}
	}
	if sum.uncounted == 0 {
		return nil
	}
	detail := fmt.Sprintf("%d actions are stored and not counted, %d of them likes that were taken back", sum.uncounted, sum.unliked)
	return r.found(ctx, LikeUncounted, key, detail, func() (bool, error) { return true, r.countAgain(ctx, ref, count) })
}

// countAgain runs an aggregator on the stored actions that no other aggregator will count. This aggregator
// fences the incarnations that stamped the actions, puts its own stamp on each like, and flushes. So a
// flush that is still in flight counts no like twice.
func (r *run) countAgain(ctx context.Context, ref schema.PostRef, ledger schema.LikeCount) error {
	random := func() uint64 { return uint64(r.cfg.Random()*(1<<32))<<32 | uint64(r.cfg.Random()*(1<<32)) }
	cfg := likeagg.Config{
		Store: r.cfg.Store, Now: r.cfg.Now, Clock: r.cfg.Clock, PutConcurrency: countedAtOnce, IndexLikes: r.cfg.LikesByUser,
		Random: random, Log: r.cfg.Log,
	}
	return likeagg.Direct(ctx, cfg, nil, func(ctx context.Context, add func(likeagg.UserAction) error) error {
		_, err := r.likes(ctx, ref, ledger, func(l schema.Like) error {
			return add(likeagg.UserAction{Post: l.Post, User: l.User, Kind: l.Kind, Version: l.Version})
		})
		return err
	})
}

func sameItem(a, b table.Item) bool {
	return len(a.Attrs) == len(b.Attrs) && !slices.ContainsFunc(a.Attrs, func(attr table.Attr) bool { return b.Get(attr.Name) != attr.Value })
}

// likes sums a post's likes by a ledger. It reads the ends of incarnations after the ledger.
// If uncounted is not nil, it is called with each like that nobody will count.
func (r *run) likes(ctx context.Context, ref schema.PostRef, ledger schema.LikeCount, uncounted func(schema.Like) error) (sum likesOf, err error) {
	sum.counted = map[string]int64{}
	ended := map[string]bool{}
	one := func(it table.Item) error {
		like, err := schema.ParseLike(it)
		if err != nil {
			return nil //nolint:nilerr // an item that cannot be read is skipped
		}
		inc := like.Flush.Inc
		if _, known := ended[inc]; !known && ledger.Done[inc] < like.Flush.Seq {
			if ended[inc], err = r.endedOn(ctx, inc, ref.ID); err != nil {
				return err
			}
		}
		counted := likeagg.Counted(like.Flush, ledger, ended[inc])
		kind := like.Base
		if counted {
			kind = like.Kind
		}
		if kind != "" {
			sum.counted[kind]++
		}
		if counted || like.Kind == like.Base || !r.abandoned(like) {
			return nil
		}
		if sum.uncounted++; like.Kind == "" {
			sum.unliked++
		}
		if uncounted == nil {
			return nil
		}
		return uncounted(like)
	}
	for shard := range ref.LikeShards {
		q := table.Query{PK: schema.LikesPK(ref.ID, shard, ref.LikeShards), Consistent: true}
		if err := r.each(ctx, q, one); err != nil {
			return likesOf{}, err
		}
	}
	return sum, nil
}

// abandoned reports whether no aggregator will count a like that the ledger lacks. The like and its
// stamp must be from before a restore, or older than every message that is still applied. Both
// times are necessary, because an import now stamps likes of years ago, and a window may stamp its
// likes after midnight. A wrong result costs an aggregator a window, but makes no count wrong.
func (r *run) abandoned(like schema.Like) bool {
	last := r.cfg.Now().Add(-likeagg.Outlived)
	if restored := r.walk.RestoredTo.Add(restoreMargin); !r.walk.RestoredTo.IsZero() && restored.After(last) {
		last = restored
	}
	made, err := id.Time(like.Version)
	began, ok := likeagg.Began(like.Flush.Inc)
	return err == nil && ok && !made.After(last) && !began.After(last)
}

// endedOn reports whether an incarnation has an end, and had flushed all its stamps on a post.
func (r *run) endedOn(ctx context.Context, inc, post string) (bool, error) {
	key := schema.LikeEndKey(inc)
	found, err := r.get(ctx, true, key)
	if err != nil {
		return false, err
	}
	it, ok := found[key]
	if !ok {
		return false, nil
	}
	end, err := schema.ParseLikeEnd(it)
	return err == nil && !end.Lost[post], nil
}
