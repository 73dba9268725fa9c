package sim

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
)

// Users watch their live homes (docs/decisions/0023). An operation opens a stream at some API where
// the user's previous stream ended, looks at the home several times, and is cut. A user who got
// posts but not the position after these posts resumes at the last position and drops the repeated
// posts, as the product's client does. Some users unfollow an author after the first posts of a
// look, and receive the next posts when the references that the look has read are old.

// mostWatched is the number of later posts after which a stream may leave out a late post.
const mostWatched = 20

// watch is the live home of a user, over all streams of the user.
type watch struct {
	last  string          // the position at which the client resumes
	had   map[string]bool // the posts that arrived
	since map[string]bool // the posts that arrived after last
	floor string          // the look began after this post
	old   map[string]bool // posts that may have been in the home when the look began
}

// look is one stream: the posts and like counts that were sent, and the position if the user got it.
type look struct {
	items    []feed.HomeItem
	likes    []home.PostLikes
	position string
}

// turn is an unfollow by the user of a stream, between two parts of a look.
type turn struct {
	author string
	*operation
	made bool
	// at is the number of posts that had arrived when the unfollow was answered.
	at int
}

// make unfollows the author once, and waits until the references that a look has read are too old.
func (t *turn) make(ctx context.Context, s *domain, came int) error {
	if t == nil || t.made {
		return nil
	}
	t.made, t.at = true, came
	t.err = t.do(ctx, s)
	return sleep(ctx, 2*time.Second)
}

// turned handles the unfollow of a stream: after the answer no post and no like count of the author arrives (I2).
func (l *workload) turned(user string, t *turn, got look, api *Proc) {
	if t == nil || !t.made {
		return
	}
	t.settle(t.err)
	if t.err != nil || l.unsure(pair{user, t.author}) || time.Since(api.back) < time.Minute {
		return
	}
	for _, item := range got.items[t.at:] {
		if item.Post.AuthorID == t.author {
			l.fail("I2", "the live home of %s shows %s of %s, who was unfollowed during the look", user, item.Post.ID, t.author)
		}
	}
	for _, count := range got.likes {
		if l.owner[count.PostID] == t.author {
			l.fail("I2", "the live home of %s shows the likes of %s of %s, who was unfollowed during the look", user, count.PostID, t.author)
		}
	}
}

// stream looks at user's live home. No post arrives twice or in a wrong order (I7), and no post is
// deleted or by an unfollowed author (I2). After a whole look no post is missing (I1).
func (l *workload) stream(r *rand.Rand, user string) *operation {
	w := l.watches[user]
	from, newest := "", ""
	if w != nil {
		from, newest = w.last, slices.Max(append(slices.Collect(maps.Keys(w.had)), ""))
	}
	switch byID := r.IntN(6) == 0; {
	case w == nil || byID && newest != "":
		w = &watch{had: map[string]bool{}, since: map[string]bool{}, old: map[string]bool{}}
		if from, w.floor = newest, newest; newest == "" && len(l.posts) > 0 && r.IntN(2) == 0 {
			from = l.choose(r, l.posts)
			w.floor = from
		}
	default:
		w = &watch{w.last, maps.Clone(w.had), maps.Clone(w.since), w.floor, w.old}
	}
	deleted := clone2(l.deleted)
	unfollowed, followed := l.certain(user)
	must := l.owed(user, followed)
	looks, whole := 1+r.IntN(3), r.IntN(3) > 0
	var unfollow *turn
	if whole && r.IntN(3) == 0 {
		unfollow = &turn{author: l.other(r, user)}
		unfollow.operation = l.followOf(user, unfollow.author, false, 1)
	}
	var got look
	var late map[string]bool
	var ahead bool
	var op *operation
	op = &operation{
		name: "stream", user: user,
		do: func(ctx context.Context, s *domain) (err error) {
			ahead, late = l.farAhead(op.api), l.w.late(op.api, user, false)
			got, err = watchHome(ctx, s, user, from, looks, whole, unfollow)
			return err
		},
		settle: func(err error) {
			select {
			case <-op.done:
			default: // the API sleeps
				if unfollow != nil {
					unfollow.settle(err)
				}
				return
			}
			l.turned(user, unfollow, got, op.api)
			whole := whole && err == nil
			l.came(user, w, got, whole, deleted, unfollowed)
			if !whole {
				return
			}
			if from == "" {
				for post := range l.w.listed {
					w.old[post] = true
				}
			}
			w.last, l.watches[user] = got.position, w
			if !ahead {
				maps.DeleteFunc(must, func(post, author string) bool { return late[post] || unfollow != nil && author == unfollow.author })
				l.uncontested(user, must)
				l.missed(user, w, slices.Sorted(maps.Keys(must)))
			}
		},
	}
	return op
}

// watchHome reads a live home after last. A whole read ends by itself. Any other read is cut during
// its first look.
func watchHome(ctx context.Context, s *domain, user, last string, looks int, whole bool, unfollow *turn) (got look, err error) {
	seen, err := s.HomeStreamed(ctx, user, last)
	for i := 0; i < looks || seen.Behind(); i++ {
		if i > 0 && err == nil {
			err = sleep(ctx, time.Second)
		}
		if err != nil {
			return got, err
		}
		for items, err := range s.Arrivals(ctx, user, seen) {
			if err != nil {
				return got, err
			}
			if got.items = append(got.items, items...); !whole {
				return got, nil
			}
			if err := unfollow.make(ctx, s, len(got.items)); err != nil {
				return got, err
			}
		}
	}
	got.position = seen.Position(user)
	got.likes, err = s.LikeChanges(ctx, user, seen)
	return got, err
}

// sleep returns after d, or returns an error when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// came checks the posts of a stream. If the stream was whole, its position covers the repeated
// posts.
func (l *workload) came(user string, w *watch, got look, whole bool, deleted map[string]bool, unfollowed []string) {
	now := map[string]bool{}
	for _, item := range got.items {
		post := item.Post.ID
		switch {
		case now[post] || w.had[post] && !w.since[post]:
			l.fail("I7", "the live home of %s shows %s twice", user, post)
		case deleted[post]:
			l.fail("I2", "the live home of %s shows %s, whose delete was answered before", user, post)
		case slices.Contains(unfollowed, item.Post.AuthorID):
			l.fail("I2", "the live home of %s shows %s of %s, an unfollowed author", user, post, item.Post.AuthorID)
		}
		now[post] = true
	}
	for _, count := range got.likes {
		if deleted[count.PostID] {
			l.fail("I2", "the live home of %s shows likes of %s, whose delete was answered before", user, count.PostID)
		}
	}
	maps.Copy(w.had, now)
	if whole {
		maps.DeleteFunc(w.since, func(post string, _ bool) bool { return now[post] })
	} else {
		maps.Copy(w.since, now)
	}
	if w.last != "" || w.floor != "" {
		w.last = cmp.Or(w.last, w.floor)
		l.watches[user] = w
	}
}

// checkStreams resumes the live home of user once the world is quiet: the stream lacks no post that
// the home shows.
func (l *workload) checkStreams(ctx context.Context, service *domain, user string, home []string) {
	w := l.watches[user]
	if w == nil {
		return
	}
	got, err := watchHome(ctx, service, user, w.last, 1, true, nil)
	if err != nil {
		l.fail("I7", "live home of %s: %v", user, err)
		return
	}
	l.came(user, w, got, true, l.deleted, nil)
	w.last = got.position
	l.missed(user, w, home)
}

// missed reports posts of a home that never arrived on the home's stream.
func (l *workload) missed(user string, w *watch, posts []string) {
	for _, post := range posts {
		later := 0
		for other := range l.w.listed {
			if other > post {
				later++
			}
		}
		if l.mutes[pair{user, l.w.load.created[post]}] != nil || l.mayLack(user, post, nil) {
			continue // the window may have moved while the posts were hidden
		}
		if !w.had[post] && !w.old[post] && post > w.floor && later < mostWatched && !l.w.mayHaveExpired(post) && !l.doubtful[post] {
			l.fail("I7", "the live home of %s never showed %s", user, post)
		}
	}
}
