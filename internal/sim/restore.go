package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/ops/audit"
	"fanfare/internal/table"
)

// In the calm part of some lives the likes of a post are set back to a copy, as after a restore of
// the table: messages that were acked after the copy are gone. Then the walk of an audit counts the
// likes that are open in the copy.

// likeCopy copies the likes of a post, their count and all notes of ends, after a drawn number of writes to
// these items.
type likeCopy struct {
	post   string
	writes int
	at     time.Time
	items  []table.Item
}

// saw takes the copy after the drawn number of writes.
func (c *likeCopy) saw(w *World, key table.Key) {
	if post, list, count := postOfLikes(key.PK); c == nil || post != c.post || !list && !count {
		return
	}
	if c.writes--; c.writes == 0 {
		c.at, c.items = time.Now(), w.likeItems(c.post)
	}
}

// likeItems returns the likes of a post, their count, and all notes of ends.
func (w *World) likeItems(post string) []table.Item {
	page, err := w.store.Scan(context.Background(), table.ScanInput{PageSize: 1 << 20})
	if err != nil {
		w.load.fail("oracle", "%v", err)
	}
	return slices.DeleteFunc(page.Items, func(it table.Item) bool {
		of, list, count := postOfLikes(it.Key.PK)
		return !strings.HasPrefix(it.Key.PK, "inc#") && (of != post || !list && !count)
	})
}

// putBack replaces the items of the table by the items of a copy. The oracle does not see these
// writes.
func (w *World) putBack(c *likeCopy) {
	w.traced.restored()
	write := func(key table.Key, it *table.Item) {
		err := w.replace(key, it)
		if err == nil {
			w.replaced(key, it)
			w.items[key] = it
			_, err = w.book.note(key, it)
		}
		if err != nil {
			w.load.fail("oracle", "%v", err)
		}
	}
	for _, it := range w.likeItems(c.post) {
		if !slices.ContainsFunc(c.items, func(old table.Item) bool { return old.Key == it.Key }) {
			delete(w.book.ends, strings.TrimPrefix(it.Key.PK, "inc#"))
			write(it.Key, nil)
		}
	}
	for _, it := range c.items {
		write(it.Key, &it)
	}
}

// measureRestore restores the likes of a post from a copy that was taken in the middle of a window.
func (w *World) measureRestore(ctx context.Context) {
	r := draws(w.seed, w.steps, 7)
	var post string
	w.measured(w.call("post", func(ctx context.Context, s *domain) error {
		made, err := s.CreatePost(ctx, damaged(0), feed.PostInput{Content: feed.Content{Text: "calm"}})
		post = made.ID
		return err
	}))
	w.damagedLike(post, map[int]bool{1: true, 2: true})
	w.copied = &likeCopy{post: post, writes: 1 + r.IntN(5)}
	w.damagedLike(post, map[int]bool{1: false, 2: true, 3: true, 7: true})
	c := w.copied
	w.copied = nil
	if c.items == nil {
		return // the window wrote fewer times
	}
	w.restart(w.probe.limit) // no process continues after a restore
	w.putBack(c)
	store, service := w.operated()
	w.auditAll(ctx, store, service, audit.Walk{Repair: true, RestoredTo: c.at})
	w.wantLikers(post, "after a restore")
	w.work(time.Hour)
	w.damagedLike(post, map[int]bool{1: true, 3: false})
	w.wantLikers(post, "after the actions that followed a restore")
}

// damagedLike makes damaged users like a post or take their likes back, and waits until the count
// includes these actions.
func (w *World) damagedLike(post string, liked map[int]bool) {
	w.measured(w.call("likes", func(ctx context.Context, s *domain) error {
		for user := range 8 {
			likes, acts := liked[user]
			if !acts {
				continue
			}
			do := s.Like
			if !likes {
				do = s.Unlike
			}
			if err := do(ctx, damaged(user), post); err != nil {
				return err
			}
		}
		return nil
	}))
}

// wantLikers compares the count of a post with the stored likes (I3).
func (w *World) wantLikers(post, when string) {
	users := map[string]int64{}
	for _, like := range w.book.likes[post] {
		if like.Kind != "" {
			users[like.Kind]++
		}
	}
	if counts := some(w.book.counts[post].Kinds); !maps.Equal(counts, users) {
		w.load.fail("I3", "%s post %s counts %v, and users have %v", when, post, counts, users)
	}
}
