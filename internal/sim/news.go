package sim

import (
	"context"
	"maps"
	"slices"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
)

// news is a read of the part of a home that is newer than a given post, and the posts that the read
// must show.
type news struct {
	limit      int
	unfollowed []string
	must       map[string]string // post -> author
	late       map[string]bool
	ahead      bool
	got        home.News
}

// poll is a user's request for news, with its last answer. The user repeats the request with the
// tag of the last answer.
type poll struct {
	after  string
	limit  int
	answer home.News
}

// expectNews notes, before the read, the posts that the read must show, and must not show.
func (of *read) expectNews() {
	l := of.w.load
	n := &of.news
	n.limit = []int{1, 2, page.MaxLimit}[of.r.IntN(3)]
	// A user repeats only the user's own request, because the user makes no other call beside the read.
	if last, again := of.w.polls[of.user]; again && of.r.IntN(3) > 0 {
		of.post, n.limit = last.after, last.limit
	}
	var followed []string
	n.unfollowed, followed = l.certain(of.user)
	n.must = l.owed(of.user, followed)
	maps.DeleteFunc(n.must, func(post, _ string) bool { return post <= of.post })
}

func readNews(ctx context.Context, s *domain, of *read) (_ string, err error) {
	of.news.ahead, of.news.late = of.w.load.farAhead(of.op.api), of.w.late(of.op.api, of.user, false)
	of.news.got, err = s.HomeNews(ctx, of.user, home.Query{After: of.post}, page.Request{Limit: of.news.limit})
	for _, item := range of.news.got.Items {
		of.show(item.Post.ID)
	}
	return "", err
}

// polled returns the news that a client shows after an answer. If the answer has the tag of the
// client's news, the client keeps its news, because the API then answers 304 without a body. The
// tag always depends on the whole answer.
func (w *World) polled(user, after string, limit int, got home.News) home.News {
	last := w.polls[user]
	w.polls[user] = poll{after, limit, got}
	if last.after != after || last.limit != limit {
		return got
	}
	id := func(item feed.HomeItem) string { return item.Post.ID }
	same := slices.Equal(lines(last.answer.Items, id), lines(got.Items, id))
	kept := last.answer.Tag() == got.Tag()
	w.see(event{kind: eventPolled, kept: kept, moved: !same && len(last.answer.Items) == len(got.Items)})
	if kept {
		w.performed.called("home.News.Tag")
		return last.answer
	}
	return got
}

// checkNews checks that the news are newer posts of the home, in order and each once, and that
// their number is right: a whole page has all newer posts, and a partial page does not count more
// posts than exist.
func (of *read) checkNews() {
	l, n := of.w.load, of.news
	n.got = of.w.polled(of.user, of.post, n.limit, n.got)
	seen, last := map[string]string{}, "~"
	for _, item := range n.got.Items {
		post := item.Post.ID
		if post <= of.post || post >= last {
			l.fail("I7", "news of %s after %s show %s after %s", of.user, of.post, post, last)
		}
		if of.deleted[post] {
			l.fail("I2", "news of %s after %s are not modified and keep %s, whose delete was answered before", of.user, of.post, post)
		}
		if slices.Contains(n.unfollowed, item.Post.AuthorID) {
			l.fail("I2", "news of %s show %s of %s, an unfollowed or muted author", of.user, post, item.Post.AuthorID)
		}
		seen[post], last = item.Post.AuthorID, post
	}
	newer := 0
	for post := range l.created {
		if post > of.post {
			newer++
		}
	}
	whole := n.got.NextCursor == ""
	if unread := n.got.Unread; unread < len(seen) || unread > newer || whole && unread != len(seen) {
		l.fail("I7", "news of %s after %s count %d posts and show %d (all: %v), and %d are newer", of.user, of.post, unread, len(seen), whole, newer)
	}
	if whole && !n.ahead {
		maps.DeleteFunc(n.must, func(post, _ string) bool { return n.late[post] })
		l.uncontested(of.user, n.must)
		l.lacks(of.user, false, n.must, seen)
	}
}
