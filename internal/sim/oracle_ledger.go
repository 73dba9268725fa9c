package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// likeBook is the oracle's own copy of every like, like count and note of an incarnation's end. It
// checks I3 at all times, not only when the world is quiet (docs/LIKES.md). The count of a kind is
// the number of likes of that kind. A like has the kind st if the ledger has the flush of the
// like's stamp, and the kind base otherwise.
type likeBook struct {
	likes  map[string]map[string]schema.Like // likes by post and user
	counts map[string]schema.LikeCount       // counts by post
	ends   map[string]schema.LikeEnd         // ends by incarnation
	broken map[string]bool                   // posts that were reported
}

func newLikeBook() likeBook {
	return likeBook{map[string]map[string]schema.Like{}, map[string]schema.LikeCount{}, map[string]schema.LikeEnd{}, map[string]bool{}}
}

// postOfLikes returns the post of a like or of a like count, by its partition.
func postOfLikes(pk string) (post string, list, count bool) {
	rest, ok := strings.CutPrefix(pk, "p#")
	if !ok {
		return "", false, false
	}
	if post, _, list = strings.Cut(rest, "#likelist"); list {
		return post, true, false
	}
	post, count = strings.CutSuffix(rest, "#likecount")
	return post, false, count
}

// counted reports whether the flush that counts a like is in the ledger, or the ledger's entry was
// pruned because its incarnation noted its end.
func (b *likeBook) counted(like schema.Like) bool {
	if b.counts[like.Post].Done[like.Flush.Inc] >= like.Flush.Seq {
		return true
	}
	end, noted := b.ends[like.Flush.Inc]
	return noted && !end.Lost[like.Post]
}

// sum returns the number of a post's likes by kind.
func (b *likeBook) sum(post string) map[string]int64 {
	sum := map[string]int64{}
	for _, like := range b.likes[post] {
		if b.counted(like) {
			sum[like.Kind]++
		} else {
			sum[like.Base]++
		}
	}
	delete(sum, "")
	return sum
}

// some returns the counts that are not 0.
func some(counts map[string]int64) map[string]int64 {
	kinds := maps.Clone(counts)
	maps.DeleteFunc(kinds, func(_ string, n int64) bool { return n == 0 })
	return kinds
}

// abandoned reports whether a like of the post will never be counted, because all messages of the
// like are too old now.
func (b *likeBook) abandoned(countPK string) bool {
	post, _, _ := postOfLikes(countPK)
	for _, like := range b.likes[post] {
		made, err := id.Time(like.Version)
		if err == nil && !b.counted(like) && like.Kind != like.Base && time.Since(made) > messages.MaxAge {
			return true
		}
	}
	return false
}

// note copies a write, and returns the posts whose counts it may change.
func (b *likeBook) note(key table.Key, it *table.Item) (posts []string, err error) {
	if inc, ok := strings.CutPrefix(key.PK, "inc#"); ok && it != nil {
		b.ends[inc], err = schema.ParseLikeEnd(*it)
		return slices.Sorted(maps.Keys(b.likes)), err
	}
	post, list, count := postOfLikes(key.PK)
	switch {
	case count:
		b.counts[post] = schema.ParseLikeCount(it)
	case list && it == nil:
		user, _ := schema.UserOfSK(key.SK)
		delete(b.likes[post], user)
	case list:
		like, err := schema.ParseLike(*it)
		if err != nil {
			return nil, err
		}
		if b.likes[post] == nil {
			b.likes[post] = map[string]schema.Like{}
		}
		b.likes[post][like.User] = like
	default:
		return nil, nil
	}
	return []string{post}, nil
}

// checkLedger checks I3 after a write, except for deleted posts: a purge may remove their likes,
// and nobody reads their counts.
func (w *World) checkLedger(key table.Key, it *table.Item) {
	b := &w.book
	posts, err := b.note(key, it)
	if err != nil {
		w.load.fail("I3", "%v", err)
	}
	for _, post := range posts {
		if sum, is := b.sum(post), some(b.counts[post].Kinds); !maps.Equal(sum, is) && w.tombs[post] == 0 && !w.likesExpire(post) && !b.broken[post] {
			b.broken[post] = true
			w.load.fail("I3", "after a write of %s / %s post %s counts %v, by its likes and its ledger it has %v", key.PK, key.SK, post, is, sum)
		}
	}
}
