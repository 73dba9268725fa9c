package sim

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// history adds to each ledger the entries that aggregators leave in weeks. Most of these
// aggregators noted their end, so their entries may be pruned.
func (w *World) history() bool {
	if w.aged || len(w.load.created) == 0 || w.histories > 0 {
		return false
	}
	w.histories++
	var names [70]string
	for i := range names {
		names[i] = fmt.Sprintf("old%08s", strconv.FormatInt(int64(w.rng.IntN(1<<30)), 36))
		if w.rng.IntN(8) > 0 {
			w.write(schema.LikeEnd{Inc: names[i], Lost: map[string]bool{}}.Item())
		}
	}
	for _, post := range sorted(w.load.created) {
		if w.tombs[post] > 0 {
			continue // the count of the post may be purged
		}
		in := table.UpdateInput{Key: schema.LikeCountKey(post)}
		for _, name := range names {
			if w.rng.IntN(10) > 0 {
				in.Set = append(in.Set, table.Attr{Name: schema.AttrFlushed(name), Value: table.N(1 + w.rng.Int64N(9000))})
			}
		}
		w.lostWindow(post, &in)
		_, err := w.store.Update(context.Background(), in)
		w.did(err, in.Key)
	}
	if w.rng.IntN(2) == 0 { // so notes that are read now are settled afterwards
		w.leapAt = w.steps + 30 + w.rng.IntN(300)
	}
	w.note("ledgers of weeks")
	return true
}

// lostWindow adds to a post's count and ledger the like of a user that an incarnation
// counted before it lost a window of that post. The incarnation noted its end with the
// post as an exception, so the ledger's entries stay for good.
func (w *World) lostWindow(post string, count *table.UpdateInput) {
	l := w.load
	user := l.users[w.rng.IntN(len(l.users))]
	version, err := id.NewSeededGenerator(time.Now, entropy(w.rng.Uint64())).New()
	if err != nil {
		l.fail("oracle", "%v", err)
		return
	}
	inc := fmt.Sprintf("old%08s", strconv.FormatInt(int64(1<<30+w.rng.IntN(1<<30)), 36))
	stored, err := w.store.Get(context.Background(), table.GetInput{Key: schema.PostByIDKey(post), Consistent: true})
	if err != nil {
		l.fail("oracle", "%v", err)
		return
	}
	key := likeKey{post, user}
	if _, acted := l.likes[key]; acted || stored.Item == nil || w.tombs[post] > 0 {
		return
	}
	ref, err := schema.ParsePostRef(*stored.Item)
	if err != nil {
		l.fail("oracle", "%v", err)
		return
	}
	if ref.RepostOf != "" {
		return // nobody likes a repost
	}
	w.write(schema.LikeEnd{Inc: inc, Lost: map[string]bool{post: true}}.Item())
	w.write(schema.Like{
		Post: post, User: user, Kind: schema.KindLike, Version: version, Flush: schema.Flush{Inc: inc, Seq: 3}, LikeShards: ref.LikeShards, Indexed: w.seed%2 == 0,
	}.Item())
	count.Set = append(count.Set,
		table.Attr{Name: schema.AttrFlushed(inc), Value: table.N(5)}, table.Attr{Name: schema.AttrFenced(inc), Value: table.N(1)})
	count.Add = []table.Attr{{Name: schema.AttrLikes, Value: table.N(1)}}
	l.likes[key] = published{version, schema.KindLike, 1}
	w.past[version] = true
}
