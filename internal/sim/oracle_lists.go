package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
)

// reader reads whole lists through the product's service, in pages of drawn sizes.
type reader struct {
	w *World
	*domain
	r    *rand.Rand
	held map[string]bool // versions of likes that are dead letters
}

// reader returns a reader whose draws do not shift the draws of other parts.
func (w *World) reader(service *domain) *reader {
	held := map[string]bool{}
	for _, d := range w.queue(queue.TopicLikes).dead {
		held[d.ID] = true
	}
	return &reader{w, service, draws(w.seed, w.phase, 2), held}
}

// whole reads a list to its end. A page may be short or empty and still have a cursor.
func whole[T any](r *reader, read func(page.Request) (page.List[T], error)) ([]T, error) {
	var items []T
	page, met := page.Request{}, map[string]bool{}
	for {
		page.Limit = 1 + r.r.IntN(4)
		list, err := read(page)
		if err != nil {
			return nil, err
		}
		if len(list.Items) > page.Limit {
			return nil, fmt.Errorf("a page of %d items, %d were asked for", len(list.Items), page.Limit)
		}
		items = append(items, list.Items...)
		if list.NextCursor == "" {
			return items, nil
		}
		if met[list.NextCursor] {
			return nil, fmt.Errorf("a cursor leads back to the page after it")
		}
		met[list.NextCursor] = true
		page.Cursor = list.NextCursor
	}
}

// same fails an invariant unless a list shows exactly the wanted lines in order.
func (r *reader) same(invariant, list string, got []string, err error, want []string) {
	if err != nil || !slices.Equal(got, want) {
		r.w.load.fail(invariant, "%s: %v, want %v: %v", list, got, want, err)
	}
}

func lines[T any](items []T, line func(T) string) []string {
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = line(item)
	}
	return all
}

// at makes the line of an item of a list: an id with its time.
func at(id string, t time.Time) string {
	return fmt.Sprintf("%s@%d", id, t.UnixMilli())
}

// stamped returns the line of a like: its subject, with the time of the action.
func stamped(subject, version string) string {
	t, err := id.Time(version)
	if err != nil {
		return subject + " " + err.Error()
	}
	return at(subject, t)
}

// checkLists checks every list of the product once the world is quiet: likers, likes and
// comments by user, posts by user, followers, followees and friends.
func (w *World) checkLists(ctx context.Context, service *domain, living map[string]map[string]bool) {
	r := w.reader(service)
	byUser := map[string][]schema.Comment{}
	for _, author := range w.load.users {
		for _, post := range sorted(living[author]) {
			r.checkLikers(ctx, post)
			for _, it := range w.partition(schema.CommentsPK(post)) {
				if c, err := schema.ParseComment(it); err == nil {
					byUser[c.Author] = append(byUser[c.Author], c)
				}
			}
		}
	}
	for _, user := range w.load.users {
		r.checkLikesByUser(ctx, user, living)
		r.checkComments(ctx, user, byUser[user])
		r.checkPosts(ctx, user, sorted(living[user]))
		r.checkEdges(ctx, user)
	}
}

// checkLikers checks the users with a reaction to a post (I3), the users who like the post, and the
// reaction of each user who ever acted on the post and of one user who never did. It leaves out
// users whose latest action is a dead letter.
func (r *reader) checkLikers(ctx context.Context, post string) {
	l := r.w.load
	want := map[string][]string{} // likers by kind, "" for all kinds
	unsure := map[string]bool{}
	asked := append([]string{l.users[r.r.IntN(len(l.users))]}, l.likersOf(post)...)
	for i, user := range asked {
		p := l.likes[likeKey{post, user}]
		if unsure[user] = r.held[p.version]; unsure[user] {
			continue
		}
		if p.kind != "" && i > 0 {
			want[""] = append(want[""], p.kind+" "+stamped(user, p.version))
			want[p.kind] = append(want[p.kind], p.kind+" "+stamped(user, p.version))
		}
		got, err := r.ReactionOf(ctx, access.As(user), post, user)
		if failure, ok := errors.AsType[*fault.Error](err); ok && failure.Kind == fault.NotFound && p.kind == "" {
			continue
		}
		if err != nil || got.Kind != p.kind || at(got.UserID, got.LikedAt) != stamped(user, p.version) {
			l.fail("I3", "reaction of %s to %s: %+v, want %q by %s: %v", user, post, got, p.kind, p.version, err)
		}
	}
	for _, kind := range []string{"", schema.KindLike, kinds()[0]} {
		got, err := whole(r, func(page page.Request) (page.List[feed.Liker], error) {
			return r.Reactions(ctx, access.As(asked[0]), post, kind, page)
		})
		got = slices.DeleteFunc(got, func(l feed.Liker) bool { return unsure[l.UserID] })
		r.same("I3", "reactions to "+post+" of kind "+kind, lines(got, func(l feed.Liker) string { return l.Kind + " " + at(l.UserID, l.LikedAt) }), err, want[kind])
	}
}

// likersOf returns the users who ever acted on a post, in order.
func (l *workload) likersOf(post string) (users []string) {
	for k := range l.likes {
		if k.post == post {
			users = append(users, k.user)
		}
	}
	slices.Sort(users)
	return users
}

// checkLikesByUser checks the index of a user's likes (I3), if this world has the index.
func (r *reader) checkLikesByUser(ctx context.Context, user string, living map[string]map[string]bool) {
	if r.w.seed%2 != 0 {
		return
	}
	var want []string
	unsure := map[string]bool{}
	for _, author := range r.w.load.users {
		for post := range living[author] {
			p := r.w.load.likes[likeKey{post, user}]
			unsure[post] = r.held[p.version]
			if p.kind != "" && !unsure[post] {
				want = append(want, stamped(post, p.version)+" "+p.kind)
			}
		}
	}
	slices.Sort(want)
	slices.Reverse(want)
	line := func(l feed.LikedPost) string { return at(l.PostID, l.LikedAt) + " " + l.Kind }
	got, err := whole(r, func(page page.Request) (page.List[feed.LikedPost], error) {
		return r.ReactionsByUser(ctx, access.As(user), user, page)
	})
	got = slices.DeleteFunc(got, func(l feed.LikedPost) bool { return unsure[l.PostID] })
	r.same("I3", "reactions of "+user, lines(got, line), err, want)
	got, err = whole(r, func(page page.Request) (page.List[feed.LikedPost], error) {
		return r.LikesByUser(ctx, access.As(user), user, page)
	})
	got = slices.DeleteFunc(got, func(l feed.LikedPost) bool { return unsure[l.PostID] })
	want = slices.DeleteFunc(want, func(line string) bool { return !strings.HasSuffix(line, " "+schema.KindLike) })
	r.same("I3", "likes of "+user, lines(got, line), err, want)
}

// checkComments checks that a user's comments match the comments of the posts (I5).
func (r *reader) checkComments(ctx context.Context, user string, want []schema.Comment) {
	slices.SortFunc(want, func(a, b schema.Comment) int { return strings.Compare(b.ID, a.ID) })
	got, err := whole(r, func(page page.Request) (page.List[feed.Comment], error) {
		return r.CommentsByUser(ctx, access.As(user), user, page)
	})
	r.same("I5", "comments of "+user,
		lines(got, func(c feed.Comment) string { return c.ID + " of " + c.PostID + " " + c.AuthorID + ": " + c.Text }), err,
		lines(want, func(c schema.Comment) string { return c.ID + " of " + c.Post + " " + c.Author + ": " + c.Text }))
}

// checkPosts checks a user's list of posts (I5), first the whole list, and then the list between the moments
// of two posts.
func (r *reader) checkPosts(ctx context.Context, user string, posts []string) {
	slices.Reverse(posts)
	ranges := []feed.PostRange{{}}
	if len(posts) > 0 {
		drawn := func() time.Time {
			t, err := id.Time(posts[r.r.IntN(len(posts))])
			if err != nil {
				r.w.load.fail("oracle", "%v", err)
			}
			return t
		}
		ranges = append(ranges, feed.PostRange{Since: drawn(), Until: drawn()})
	}
	for _, in := range ranges {
		want := slices.DeleteFunc(slices.Clone(posts), func(post string) bool {
			t, err := id.Time(post)
			return err != nil || t.Before(in.Since) || !in.Until.IsZero() && !t.Before(in.Until)
		})
		got, err := whole(r, func(page page.Request) (page.List[feed.Post], error) {
			return r.PostsByUser(ctx, access.As(user), user, in, page)
		})
		r.same("I5", fmt.Sprintf("posts of %s from %v to %v", user, in.Since, in.Until), lines(got, func(p feed.Post) string { return p.ID }), err, want)
	}
}

// checkEdges checks followers, followees and friends of a user against the edges in the
// table (I4), and the relationship with one other user. The viewer is the user or the other user.
func (r *reader) checkEdges(ctx context.Context, user string) {
	other := r.w.load.other(r.r, user)
	viewer := []string{user, other}[r.r.IntN(2)]
	edges := func(pk, viewer string) map[string]time.Time {
		all := map[string]time.Time{}
		for _, it := range r.w.partition(pk) {
			if e, err := schema.ParseEdge(it); err == nil && (!e.Silent || viewer == user) {
				all[e.Other] = e.Since
			}
		}
		return all
	}
	followers, following, friends := edges(schema.FollowersPK(user), ""), edges(schema.FollowingPK(user), viewer), map[string]time.Time{}
	loud := edges(schema.FollowingPK(user), "")
	for other, since := range followers {
		if back, both := loud[other]; both && back.After(since) {
			since = back
		} else if !both {
			continue
		}
		friends[other] = since
	}
	for _, list := range []struct {
		name string
		read func(context.Context, string, page.Request) (page.List[feed.Edge], error)
		want map[string]time.Time
	}{{"followers", r.Followers, followers}, {"followees", func(ctx context.Context, user string, in page.Request) (page.List[feed.Edge], error) {
		return r.Following(ctx, viewer, user, in)
	}, following}, {"friends", r.Friends, friends}} {
		got, err := whole(r, func(page page.Request) (page.List[feed.Edge], error) { return list.read(ctx, user, page) })
		r.same("I4", list.name+" of "+user, lines(got, func(e feed.Edge) string { return at(e.UserID, e.Since) }), err,
			lines(sorted(list.want), func(other string) string { return at(other, list.want[other]) }))
	}
	follows, followed := r.w.shows(viewer, user, other), r.w.shows(viewer, other, user)
	want := feed.Relationship{Following: follows, FollowedBy: followed, Friends: follows && followed}
	if got, err := r.Relationship(ctx, viewer, user, other); err != nil || got != want {
		r.w.load.fail("I4", "relationship of %s and %s: %+v, want %+v: %v", user, other, got, want, err)
	}
}

// checkEntry checks the data that a home shows with a post: the present name of the author (I5),
// the count of the likes, the viewer's own like (I3) and bookmark (I5), and the number of comments (I4).
func (r *reader) checkEntry(viewer string, it feed.HomeItem) {
	l := r.w.load
	if it.Of != nil {
		r.checkEntry(viewer, *it.Of)
	}
	counts := map[string]int64{}
	unsure := false
	for _, user := range l.likersOf(it.Post.ID) {
		p := l.likes[likeKey{it.Post.ID, user}]
		unsure = unsure || r.held[p.version]
		if p.kind != "" {
			counts[p.kind]++
		}
	}
	mine := l.likes[likeKey{it.Post.ID, viewer}]
	if !unsure && (it.LikeCount != counts[schema.KindLike] || !maps.Equal(it.Reactions, counts)) {
		l.fail("I3", "home of %s shows %s with %d likes of %v, want %v", viewer, it.Post.ID, it.LikeCount, it.Reactions, counts)
	}
	if !r.held[mine.version] && (it.Reaction != mine.kind || it.Liked != (mine.kind == schema.KindLike)) {
		l.fail("I3", "home of %s shows %s with liked=%v and the reaction %q, want %q", viewer, it.Post.ID, it.Liked, it.Reaction, mine.kind)
	}
	of := l.original(it.Post.ID)
	if want := r.w.hasReposted(viewer, of); it.Reposted != want {
		l.fail("I16", "home of %s shows %s with reposted=%v, want %v", viewer, it.Post.ID, it.Reposted, want)
	}
	if kept := r.w.itemOf(schema.BookmarkOfKey(viewer, of)) != nil; it.Bookmarked != kept {
		l.fail("I5", "home of %s shows %s with bookmarked=%v, want %v", viewer, it.Post.ID, it.Bookmarked, kept)
	}
	reposts, lost := r.w.livingReposts()
	if it.RepostCount != reposts[it.Post.ID] && !lost[it.Post.ID] {
		l.fail("I3", "home of %s shows %s with %d reposts, %d live", viewer, it.Post.ID, it.RepostCount, reposts[it.Post.ID])
	}
	if t := l.texts[it.Post.ID]; t != nil && !t.may(it.Post.Content) {
		l.fail("I5", "home of %s shows %s with %q, want %q", viewer, it.Post.ID, shownBy(it.Post.Content), t.is)
	}
	if n := int64(len(r.w.partition(schema.CommentsPK(it.Post.ID)))); it.CommentCount != n {
		l.fail("I4", "home of %s shows %s with %d comments, want %d", viewer, it.Post.ID, it.CommentCount, n)
	}
	var name string
	if profile := r.w.items[schema.ProfileKey(it.Post.AuthorID)]; profile != nil {
		name = profile.Str(schema.AttrName)
	}
	if it.Author.ID != it.Post.AuthorID || it.Author.Name != name || name == "" {
		l.fail("I5", "home of %s shows %s by %s with the name %q, it is %q", viewer, it.Post.ID, it.Author.ID, it.Author.Name, name)
	}
}
