package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// This file has the operations on bookmarks, and their part of the oracle. The oracle learns a
// bookmark from the answers of the API, as it learns a mute.

// bookmark makes or ends a bookmark of one of a few posts. Half of the calls read the list after
// the answer.
func (l *workload) bookmark(r *rand.Rand, user string, on bool) *operation {
	if len(l.posts) == 0 {
		return nil
	}
	post := l.choose(r, l.posts[:min(len(l.posts), 4)])
	k := likeKey{post, user}
	if l.kept[k] == nil {
		l.kept[k] = &hidden{}
	}
	h, deleted := l.kept[k], clone2(l.deleted)
	before, looks := h.doubtful, r.IntN(2) == 0
	h.doubtful = true // the call's effect may happen before its answer
	var list page.List[feed.Bookmarked]
	var unread error
	return &operation{
		name: map[bool]string{true: "bookmark ", false: "unbookmark "}[on] + post, user: user,
		do: func(ctx context.Context, s *domain) error {
			do := s.Unbookmark
			if on {
				do = s.Bookmark
			}
			err := do(ctx, user, post)
			if err != nil {
				return err
			}
			if looks { // a failed read is not checked
				list, unread = s.Bookmarks(ctx, user, page.Request{Limit: page.MaxLimit})
			}
			return nil
		},
		settle: func(err error) {
			if refused, ok := errors.AsType[*fault.Error](err); ok && (refused.Kind == fault.NotFound || refused.Kind == fault.Blocked) {
				h.doubtful = before
			}
			if err != nil {
				return
			}
			h.on, h.doubtful, h.at = on, before, time.Now()
			l.checkBookmarked(k, list.Items, deleted, looks && !before && unread == nil)
		},
	}
}

// checkBookmarked checks a list that was read after an answer about a bookmark. The list shows no
// post whose deletion was answered earlier (I2), and it shows the bookmark of the answer (I5).
// certain means that no other call may have changed this bookmark.
func (l *workload) checkBookmarked(k likeKey, list []feed.Bookmarked, deleted map[string]bool, certain bool) {
	for _, b := range list {
		if deleted[b.PostID] {
			l.fail("I2", "the bookmarks of %s show %s, whose delete was answered before", k.user, b.PostID)
		}
	}
	there := slices.ContainsFunc(list, func(b feed.Bookmarked) bool { return b.PostID == k.post })
	author := l.owner[k.post]
	hidden := l.deleted[k.post] || l.doubtful[k.post] || l.blocks[pair{k.user, author}] != nil || l.blocks[pair{author, k.user}] != nil
	if on := l.kept[k].on; certain && there != on && (there || !hidden) {
		l.fail("I5", "the bookmarks of %s after an answer have %s: %v, want %v", k.user, k.post, there, on)
	}
}

// checkKeptHalves checks at any moment that both halves of each bookmark exist and agree.
func (w *World) checkKeptHalves(user string) {
	listed, byPost := map[string]string{}, map[string]string{}
	for _, it := range w.partition(schema.BookmarksPK(user)) {
		b, err := schema.ParseBookmark(it)
		half := listed
		if _, ok := schema.PostOfSK(it.Key.SK); ok {
			half = byPost
		}
		if _, twice := half[b.Post]; twice || err != nil {
			w.load.fail("I4", "%s has two bookmarks of %s: %v", user, b.Post, err)
		}
		half[b.Post] = b.V
	}
	for _, post := range sorted(listed) {
		if listed[post] != byPost[post] {
			w.load.fail("I4", "the halves of the bookmark of %s by %s are %q and %q", post, user, listed[post], byPost[post])
		}
	}
	if len(listed) != len(byPost) {
		w.load.fail("I4", "%s has %d bookmarks in the list, and %d by their posts", user, len(listed), len(byPost))
	}
}

// checkBookmarks checks that bookmarks agree with their answers (I5), and that the list shows the
// bookmarks, the newest first, except bookmarks of deleted posts and of posts over a block (I2).
func (w *World) checkBookmarks(ctx context.Context, service *domain, living map[string]map[string]bool) {
	r := w.reader(service)
	for _, user := range w.load.users {
		want, there := []string{}, map[string]bool{}
		for _, it := range slices.Backward(w.partition(schema.BookmarksPK(user))) {
			b, err := schema.ParseBookmark(it)
			if _, listed := schema.BookmarkOfSK(it.Key.SK); err != nil || !listed {
				continue
			}
			there[b.Post] = true
			if author := w.load.created[b.Post]; living[author][b.Post] && w.itemOf(schema.BlockKey(user, author)) == nil {
				want = append(want, b.Post)
			}
		}
		got, err := whole(r, func(page page.Request) (page.List[feed.Bookmarked], error) { return service.Bookmarks(ctx, user, page) })
		r.same("I2", "bookmarks of "+user, lines(got, func(b feed.Bookmarked) string { return b.PostID }), err, want)
		for _, post := range w.load.posts {
			if h := w.load.kept[likeKey{post, user}]; h != nil && !h.doubtful && h.on != there[post] {
				w.load.fail("I5", "%s was answered of %s: bookmarked=%v, the table has %v", user, post, h.on, there[post])
			}
		}
	}
}
