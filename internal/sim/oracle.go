package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// The oracle reads the table without the simulation's ports, and does not know how the product
// computes a home or a count.

func (w *World) partition(pk string) []table.Item {
	var items []table.Item
	for page, err := range w.store.Query(context.Background(), table.Query{PK: pk, Consistent: true}) {
		if err != nil {
			w.load.fail("oracle", "read %s: %v", pk, err)
			return nil
		}
		items = append(items, page.Items...)
	}
	return items
}

// edge reports whether follower follows author according to the table, and returns the first post
// that the follow shows.
func (w *World) edge(follower, author string) (followed bool, from string) {
	res, err := w.store.Get(context.Background(), table.GetInput{Key: schema.FollowingKey(follower, author), Consistent: true})
	if err != nil || res.Item == nil {
		return false, ""
	}
	return true, res.Item.Str("from")
}

// shows reports whether a viewer sees that follower follows author. Only the follower sees a silent follow.
func (w *World) shows(viewer, follower, author string) bool {
	edge := w.items[schema.FollowingKey(follower, author)]
	return edge != nil && (viewer == follower || !edge.Has(schema.AttrSilent))
}

// shownIn returns the users of a partition of edges, in order, without silent follows.
func (w *World) shownIn(pk string) []string {
	all := []string{}
	for _, it := range w.partition(pk) {
		if user, ok := schema.UserOfSK(it.Key.SK); ok && !it.Has(schema.AttrSilent) {
			all = append(all, user)
		}
	}
	return all
}

// checkCounts checks I4, which always holds: counts and items change in one transaction, and an
// edge has both directions or none.
func (w *World) checkCounts() {
	l := w.load
	for _, user := range l.users {
		_, counts, err := schema.ParseUser(w.partition(schema.UserPK(user)))
		if err != nil {
			l.fail("I4", "counts of %s: %v", user, err)
			continue
		}
		followers, following := w.partition(schema.FollowersPK(user)), w.partition(schema.FollowingPK(user))
		posts := 0
		for _, it := range w.partition(schema.PostsPK(user)) {
			posts++
			w.checkCommentCount(it)
		}
		if counts.Followers != int64(len(followers)) || counts.Following != int64(len(following)) || counts.Posts != int64(posts) {
			l.fail("I4", "%s has counts %+v, and %d followers, %d following, %d posts", user, counts, len(followers), len(following), posts)
		}
		if silent := len(followers) - len(w.shownIn(schema.FollowersPK(user))); counts.Silent != int64(silent) {
			l.fail("I4", "%s has %d silent followers, the count is %d", user, silent, counts.Silent)
		}
		for _, it := range following {
			author, _ := schema.UserOfSK(it.Key.SK)
			res, err := w.store.Get(context.Background(), table.GetInput{Key: schema.FollowerKey(author, user), Consistent: true})
			if err != nil || res.Item == nil {
				l.fail("I4", "%s follows %s in one direction only", user, author)
			} else if res.Item.Has(schema.AttrSilent) != it.Has(schema.AttrSilent) {
				l.fail("I4", "%s follows %s silently in one direction only", user, author)
			}
		}
		w.checkHidden(user)
		w.checkReposts(user)
		w.checkKeptHalves(user)
	}
}

// checkCommentCount checks I4 for the comments of one post.
func (w *World) checkCommentCount(it table.Item) {
	p, err := schema.ParsePost(it)
	if comments := len(w.partition(schema.CommentsPK(p.ID))); err != nil || p.Comments != int64(comments) {
		w.load.fail("I4", "post %s counts %d comments, there are %d: %v", p.ID, p.Comments, comments, err)
	}
}

// checkByline checks that a young post has the byline of its author's profile. checkByline reads
// the stored post, so it also checks posts that no home shows.
func (w *World) checkByline(author string, p schema.Post) {
	if p.Byline.V == 0 || p.ID < id.Floor(time.Now().Add(-schema.BylineShown)) {
		return
	}
	it := w.items[schema.ProfileKey(author)]
	if it == nil {
		w.load.fail("I5", "post %s of %s has a byline, and its author has no profile", p.ID, author)
		return
	}
	profile, err := schema.ParseProfile(*it)
	if want := profile.Byline(); err != nil || p.Byline != want {
		w.load.fail("I5", "post %s of %s has the byline %+v, the profile %+v: %v", p.ID, author, p.Byline, want, err)
	}
}

// checkQuiet checks the invariants that hold once the world is quiet. service reads
// without faults.
func (w *World) checkQuiet(ctx context.Context, service *domain) {
	l := w.load
	w.checkCounts()
	w.checkAnswered(ctx, service)
	w.checkMessages()
	w.checkModes()
	w.checkHours()
	living := map[string]map[string]bool{} // author -> posts
	for _, user := range l.users {
		living[user] = map[string]bool{}
		for _, it := range w.partition(schema.PostsPK(user)) {
			if post, err := schema.ParsePost(it); err == nil {
				living[user][post.ID] = true
				w.checkByline(user, post)
			}
		}
	}
	for _, post := range sorted(l.created) {
		author := l.created[post]
		switch is := living[author][post]; {
		case l.deleted[post] && is:
			l.fail("I2", "post %s lives, its delete was answered", post)
		case !l.deleted[post] && !l.doubtful[post] && l.accepted[post] && !is:
			l.fail("I5", "post %s was answered, and is gone", post)
		}
	}
	for _, user := range l.users {
		for _, post := range sorted(living[user]) {
			if _, durable := l.created[post]; !durable {
				l.fail("I5", "post %s of %s is in the table, its event never was durable", post, user)
			}
		}
	}
	for _, p := range l.pairs() {
		if followed, _ := w.edge(p.follower, p.author); !l.unsure(p) && followed != l.follows[p] {
			l.fail("I5", "%s was answered about %s: following=%v, the table says %v", p.follower, p.author, l.follows[p], followed)
		}
	}
	for _, user := range l.users {
		push, pull := w.checkHome(ctx, service, user, false, living), w.checkHome(ctx, service, user, true, living)
		if !slices.Equal(push, pull) {
			l.fail("I1", "home of %s shows %v by push, %v by pull", user, push, pull)
		}
		l.checkStreams(ctx, service, user, push)
	}
	w.checkLikes(ctx, service, living)
	w.checkLists(ctx, service, living)
	w.checkBookmarks(ctx, service, living)
	w.checkMarkers(ctx, service)
	w.checkExplanations(ctx, service, living)
	w.checkDeleted(ctx, service)
	w.checkTaken()
	w.checkTexts(ctx, service, living)
	w.checkDeliveries(ctx, service, living)
	w.checkMarks()
	w.checkPurged()
	w.checkDeletions()
	w.checkTold(living)
	w.engine.checkLog()
	w.checkNotices(ctx, service, living)
	w.checkLives()
	w.checkEndedReposts(living)
}

// checkDeleted checks that reads by id do not find a deleted post, either (I2).
func (w *World) checkDeleted(ctx context.Context, service *domain) {
	for _, post := range w.load.posts {
		if !w.load.deleted[post] {
			continue
		}
		_, byID := service.Post(ctx, access.As(w.load.owner[post]), post)
		_, likes := service.LikeCount(ctx, access.As(w.load.owner[post]), post)
		for _, err := range []error{byID, likes} {
			if failure, ok := errors.AsType[*fault.Error](err); !ok || failure.Kind != fault.NotFound {
				w.load.fail("I2", "post %s, whose delete was answered, is still there: %v", post, err)
			}
		}
	}
}

// checkDeliveries checks that each delivery of a living post is complete and counts no follower
// twice.
func (w *World) checkDeliveries(ctx context.Context, service *domain, living map[string]map[string]bool) {
	for _, author := range w.load.users {
		for _, post := range sorted(living[author]) {
			if w.mayHaveExpired(post) {
				continue // a late fan-out wrote no entry, and the record expires in parts
			}
			w.checkRecord(author, post)
			d, err := service.Delivery(ctx, author, post)
			switch {
			case err != nil:
				w.load.fail("I6", "delivery of %s: %v", post, err)
			case d.State == delivery.Pulled && w.shape.Limit > 0:
			case d.State != delivery.Complete:
				w.load.fail("I6", "delivery of %s by %s is %s, want complete", post, author, d.State)
			case d.Delivered == nil: // the record has expired
				if !w.aged {
					w.load.fail("I6", "delivery of %s has no count", post)
				}
			case *d.Delivered > int64(len(w.load.users)):
				w.load.fail("I6", "delivery of %s counts more than all %d users", post, len(w.load.users))
			}
		}
	}
}

func (l *workload) pairs() []pair {
	var all []pair
	for _, a := range l.users {
		for _, b := range l.users {
			if a != b {
				all = append(all, pair{a, b})
			}
		}
	}
	return all
}

// checkHome checks I1. A home shows the user's own posts, and each living, unexpired post of a
// followed author from the first post of the follow on. It shows each post once, and no other
// posts. checkHome returns the shown posts, except posts that expire soon.
func (w *World) checkHome(ctx context.Context, service *domain, user string, pull bool, living map[string]map[string]bool) (posts []string) {
	l := w.load
	r := w.reader(service)
	items, err := whole(r, func(page page.Request) (page.List[feed.HomeItem], error) {
		return service.Home(ctx, user, home.Query{Pull: pull, View: true}, page)
	})
	if err != nil {
		l.fail("I1", "home of %s (pull %v): %v", user, pull, err)
		return nil
	}
	shown, muted := map[string]int{}, w.mutedBy(user)
	newest, may := w.newest(user, muted, living)
	l.checkOnce(user, items, nil, nil)
	for _, it := range items {
		if newest[it.Post.ID] { // an entry may be deleted earlier than its post
			posts = append(posts, it.Post.ID)
		}
		shown[it.Post.ID]++
		r.checkEntry(user, it)
		author := it.Post.AuthorID
		if w.hasLeft(it.Post.ID) {
			l.fail("I1", "home of %s (pull %v) shows %s, which is older than a TTL since", user, pull, it.Post.ID)
		}
		if !living[author][it.Post.ID] {
			l.fail("I2", "home of %s (pull %v) shows %s, which was deleted", user, pull, it.Post.ID)
		}
		if followed, _ := w.edge(user, author); !followed && author != user {
			l.fail("I1", "home of %s (pull %v) shows %s of %s, who is not followed", user, pull, it.Post.ID, author)
		}
		if slices.Contains(muted, author) {
			l.fail("I1", "home of %s (pull %v) shows %s of %s, a muted author", user, pull, it.Post.ID, author)
		}
	}
	for _, author := range l.users {
		followed, from := w.edge(user, author)
		if !followed && author != user || slices.Contains(muted, author) {
			continue
		}
		for _, post := range sorted(living[author]) {
			must := author == user || post >= from
			switch n := shown[post]; {
			case n > 0 && must && !may[post]:
				l.fail("I16", "home of %s (pull %v) shows %s of %s, and a newer reference, or its original is hidden", user, pull, post, author)
			case n > 0 && !must:
				l.fail("I1", "home of %s (pull %v) shows %s of %s, below from %s", user, pull, post, author, from)
			case n > 1:
				l.fail("I1", "home of %s (pull %v) shows %s %d times", user, pull, post, n)
			case n == 0 && newest[post]:
				l.fail("I1", "home of %s (pull %v) lacks %s of %s (from %s)", user, pull, post, author, from)
			}
		}
	}
	return posts
}

// checkLikes checks I3: the count of each kind is the number of users whose latest durable action
// has that kind, and the count of reposts is the number of the reposts that live. It leaves out posts for which the latest action of a user is a dead letter.
func (w *World) checkLikes(ctx context.Context, service *domain, living map[string]map[string]bool) {
	l := w.load
	held := map[string]bool{}
	for _, d := range w.queue("likes").dead {
		held[d.ID] = true
	}
	reposts, lost := w.livingReposts()
	want := map[string]map[string]int64{}
	unsure := map[string]bool{}
	for k, p := range l.likes {
		if want[k.post] == nil {
			want[k.post] = map[string]int64{}
		}
		if p.kind != "" {
			want[k.post][p.kind]++
		}
		unsure[k.post] = unsure[k.post] || held[p.version]
	}
	var posts []string
	for _, own := range living {
		for post := range own {
			posts = append(posts, post)
		}
	}
	slices.Sort(posts)
	for _, post := range posts {
		if unsure[post] {
			continue
		}
		got, err := service.LikeCount(ctx, access.As(l.owner[post]), post)
		if err != nil {
			l.fail("I3", "like count of %s: %v", post, err)
		} else if got.Count != want[post][schema.KindLike] || !maps.Equal(got.Kinds, want[post]) {
			l.fail("I3", "post %s has %d likes of %v, want %v", post, got.Count, got.Kinds, want[post])
		}
		stored, err := w.store.Get(ctx, table.GetInput{Key: schema.LikeCountKey(post), Consistent: true})
		count := schema.ParseLikeCount(stored.Item)
		if n := count.Kinds[messages.KindRepost]; n != reposts[post] && !lost[post] {
			l.fail("I3", "post %s has %d reposts stored, %d live", post, n, reposts[post])
		}
		delete(count.Kinds, messages.KindRepost)
		if err != nil || !maps.Equal(some(count.Kinds), want[post]) {
			l.fail("I3", "post %s has %v stored, want %v: %v", post, count.Kinds, want[post], err)
		}
	}
}

// checkMessages checks I6: no message is left in a queue, and each message that no worker could process is a
// dead letter with its reason.
func (w *World) checkMessages() {
	l := w.load
	dead := map[string]string{}
	for _, topic := range queue.Topics() {
		q := w.queue(topic)
		if len(q.messages) > 0 {
			l.fail("I6", "%d messages are left on %s, the first %s received %d times", len(q.messages), topic, q.messages[0].id, q.messages[0].receives)
		}
		for _, d := range q.dead {
			dead[d.ID] = d.Reason
			if !slices.ContainsFunc(messages.Reasons(), d.Has) {
				l.fail("I6", "dead letter %s has no reason of package messages: %q", d.ID, d.Reason)
			}
		}
	}
	for _, id := range l.bad {
		if _, ok := dead[id]; !ok {
			l.fail("I6", "message %s can never be processed and is no dead letter", id)
		}
		delete(dead, id)
	}
	for _, letter := range sorted(dead) {
		made, err := id.Time(letter) // a worker that slept repeatedly may have held the letter for too long
		if outlived := err == nil && time.Since(made) > messages.MaxAge; !w.aged && !w.set[letter] && !outlived {
			l.fail("I6", "message %s became a dead letter: %s", letter, dead[letter])
		}
	}
}

// sorted returns the keys of a map in order, so that violations are in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Result is the result of a run.
type Result struct {
	Seed       uint64
	Violations []string
	Fired      Counters
	Met        Counters
	Operations int
	Steps      int
	// Reached counts the rare states that the run reached.
	Reached Counters
	Shape   Shape
	// Calls has the histories, if the run asked for histories.
	Calls []Call
	// Traces has a TLA+ record for each model, "" for a model without a record.
	Traces map[string]string
	// Performed counts the performed operations of the storms, by Operation.By, if Options.Watch asked for it.
	Performed Counters
	// Lived is the virtual time of the world.
	Lived time.Duration
	// Trace is the hash of the run's trace. Lines is the text of the trace, if it was kept.
	Trace uint64
	Lines []string
}

// Fails returns the names of the violated invariants, in the order of their first violations.
func (r Result) Fails() []string {
	var names []string
	for _, v := range r.Violations {
		if name, _, _ := strings.Cut(v, ":"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (r Result) String() string {
	return fmt.Sprintf("seed %d: %d operations, %d steps, trace %016x, %d violations", r.Seed, r.Operations, r.Steps, r.Trace, len(r.Violations))
}
