package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// In some worlds a last storm is about stories: posts with an end (docs/decisions/0047). The author
// of the stories and the author's followers are not users of the workload, so no other oracle knows
// these users.

const (
	teller = "teller"
	// endsEvery and endsAt choose the worlds. These worlds have no calm part.
	endsEvery, endsAt = 3, 2
	storyOperations   = 70
	// likesKept is the time for which the likes of a story outlive the story.
	likesKept = day
)

func listeners() []string { return []string{"la", "lb", "lc", "ld", "le"} }

// stories is the oracle's knowledge of the storm.
type stories struct {
	w *World
	// ends has the end of each post of the teller whose event is durable, according to the event;
	// zero means no end.
	ends map[string]time.Time
	// made has the answered posts. gone has the posts that may have been deleted.
	made []string
	gone map[string]bool
}

// endsStorm runs the storm about stories, and checks the reads before and after the last end.
func (w *World) endsStorm(ctx context.Context, o Options) {
	if o.Calm || o.Plain || o.Fans > 0 || w.seed%endsEvery != endsAt || len(w.load.violations) > 0 {
		return
	}
	s := &stories{w: w, ends: map[string]time.Time{}, gone: map[string]bool{}}
	w.stories = s
	for _, user := range append(listeners(), teller) {
		w.write(schema.Profile{User: user, Name: user, CreatedAt: time.Now()}.Item())
	}
	w.begin(40)
	w.faults = w.shape.rates()
	due := s.plan()
	for len(due) > 0 && w.steps < mostSteps {
		s.passAnEnd()
		w.step(func() bool { return s.next(&due) })
		w.load.settled()
		if w.steps%50 == 0 {
			s.checkCount()
		}
	}
	w.heldBack = false
	clear(w.armed)
	w.quieten(ctx)
	if len(w.load.violations) == 0 {
		s.checkEnds(ctx)
	}
}

// plan returns the kinds of the operations, in order. The follows are first.
func (s *stories) plan() (due []string) {
	for range listeners() {
		due = append(due, "listen")
	}
	mix := []share{
		{"story", 24}, {"plain post", 6}, {"like", 14}, {"unlike", 6}, {"comment", 12}, {"bookmark", 4}, {"delete", 4}, {"listen", 5}, {"stop", 3}, {"look", 22},
	}
	for range storyOperations {
		x := s.w.rng.IntN(100)
		for _, of := range mix {
			if x -= of.percent; x < 0 {
				due = append(due, of.kind)
				break
			}
		}
	}
	return due
}

// next starts the next operation at an API that is up. The client is a user without an open
// operation.
func (s *stories) next(due *[]string) bool {
	w, l := s.w, s.w.load
	client := slices.IndexFunc(l.users, func(user string) bool { return l.busy[user] == nil })
	api := l.apis[w.rng.IntN(len(l.apis))]
	if len(*due) == 0 || client < 0 || !api.up() {
		return false
	}
	kind := (*due)[0]
	*due = (*due)[1:]
	if op := s.operation(kind, l.users[client], api); op != nil {
		l.run(op, api)
	}
	return true
}

func (s *stories) operation(kind, client string, api *Proc) *operation {
	r := s.w.rng
	fan := listeners()[r.IntN(len(listeners()))]
	post := ""
	if n := len(s.made); n > 0 {
		post = s.made[n-1-r.IntN(min(n, 3))]
	}
	op := &operation{name: kind, user: client, settle: func(error) {}}
	switch {
	case kind == "story" || kind == "plain post":
		s.tell(op, api)
	case kind == "listen":
		op.do = func(ctx context.Context, d *domain) error { return d.Follow(ctx, fan, teller) }
	case kind == "stop":
		op.do = func(ctx context.Context, d *domain) error { return d.Unfollow(ctx, fan, teller) }
	case post == "":
		return nil
	case kind == "like":
		op.do = func(ctx context.Context, d *domain) error { return d.Like(ctx, fan, post) }
	case kind == "unlike":
		op.do = func(ctx context.Context, d *domain) error { return d.Unlike(ctx, fan, post) }
	case kind == "comment":
		op.do = func(ctx context.Context, d *domain) error { _, err := d.CreateComment(ctx, fan, post, "!"); return err }
	case kind == "bookmark":
		op.do = func(ctx context.Context, d *domain) error { return d.Bookmark(ctx, fan, post) }
	case kind == "delete":
		s.gone[post] = true
		op.do = func(ctx context.Context, d *domain) error { return d.DeletePost(ctx, teller, post) }
	default:
		s.look(op, r, api, fan, post)
	}
	return op
}

// tell makes a post. A story ends soon, or after the end of the storm.
func (s *stories) tell(op *operation, api *Proc) {
	in := feed.PostInput{Content: feed.Content{Text: op.name}}
	if op.name == "story" {
		in.ExpiresAt = api.Now().Add(time.Minute + time.Duration(s.w.rng.IntN(60_000))*time.Millisecond)
		if s.w.rng.IntN(4) == 0 {
			in.ExpiresAt = api.Now().Add(7 * day)
		}
	}
	var post feed.Post
	op.do = func(ctx context.Context, d *domain) (err error) {
		post, err = d.CreatePost(ctx, teller, in)
		return err
	}
	op.settle = func(err error) {
		if err == nil {
			s.made = append(s.made, post.ID)
		}
	}
}

// look makes a read of a drawn kind. The read shows no story whose end had passed, by the clock of
// the API, when the read began (I15).
func (s *stories) look(op *operation, r *rand.Rand, api *Proc, fan, post string) {
	reads := storyReads()
	name := sorted(reads)[r.IntN(len(reads))]
	began, clock := time.Now(), api.Now()
	op.name = name + " by " + fan
	var shown []string
	op.do = func(ctx context.Context, d *domain) (err error) {
		shown, err = reads[name].do(ctx, d, fan, post)
		return err
	}
	op.settle = func(err error) {
		if err != nil || !api.back.Before(began) { // both times may be equal
			return
		}
		for _, post := range shown {
			s.checkShown(op.name, post, clock)
		}
	}
}

func (s *stories) checkShown(read, post string, now time.Time) {
	if end := s.ends[post]; !end.IsZero() && !now.Before(end) {
		s.w.load.fail("I15", "%s shows %s at %v, and it ended at %v", read, post, now, end)
	}
}

// storyRead is a read by a fan that returns the shown posts. If one is true, the read is about a
// single given post.
type storyRead struct {
	one, home bool
	do        func(ctx context.Context, d *domain, fan, post string) ([]string, error)
}

// ofTeller is the read of the teller's list of posts.
const ofTeller = "posts of the teller"

func storyReads() map[string]storyRead {
	all := page.Request{Limit: page.MaxLimit}
	homeBy := func(pull bool) storyRead {
		return storyRead{home: true, do: func(ctx context.Context, d *domain, fan, _ string) ([]string, error) {
			list, err := d.Home(ctx, fan, home.Query{Pull: pull}, all)
			return lines(list.Items, func(i feed.HomeItem) string { return i.Post.ID }), err
		}}
	}
	one := func(read func(ctx context.Context, d *domain, fan, post string) error) storyRead {
		return storyRead{one: true, do: func(ctx context.Context, d *domain, fan, post string) ([]string, error) {
			return []string{post}, read(ctx, d, fan, post)
		}}
	}
	return map[string]storyRead{
		"home": homeBy(false), "home by pull": homeBy(true),
		"post": one(func(ctx context.Context, d *domain, fan, post string) error {
			_, err := d.Post(ctx, access.As(fan), post)
			return err
		}),
		"view": one(func(ctx context.Context, d *domain, fan, post string) error {
			_, err := d.PostView(ctx, access.As(fan), post)
			return err
		}),
		"like count": one(func(ctx context.Context, d *domain, fan, post string) error {
			_, err := d.LikeCount(ctx, access.As(fan), post)
			return err
		}),
		"likers": one(func(ctx context.Context, d *domain, fan, post string) error {
			_, err := d.Likers(ctx, access.As(fan), post, all)
			return err
		}),
		"comments": one(func(ctx context.Context, d *domain, fan, post string) error {
			_, err := d.Comments(ctx, access.As(fan), post, all)
			return err
		}),
		ofTeller: {do: func(ctx context.Context, d *domain, fan, _ string) ([]string, error) {
			list, err := d.PostsByUser(ctx, access.As(fan), teller, feed.PostRange{}, all)
			return lines(list.Items, func(p feed.Post) string { return p.ID }), err
		}},
		"notifications of the teller": {do: func(ctx context.Context, d *domain, _, _ string) (posts []string, err error) {
			list, err := d.notices.List(ctx, teller, all)
			for _, n := range list.Items {
				if n.On != nil {
					posts = append(posts, n.Target)
				}
			}
			return posts, err
		}},
		"comments of the fan": {do: func(ctx context.Context, d *domain, fan, _ string) ([]string, error) {
			list, err := d.CommentsByUser(ctx, access.As(fan), fan, all)
			return lines(list.Items, func(c feed.Comment) string { return c.PostID }), err
		}},
		"likes of the fan": {do: func(ctx context.Context, d *domain, fan, _ string) ([]string, error) {
			list, err := d.ReactionsByUser(ctx, access.As(fan), fan, all)
			return lines(list.Items, func(p feed.LikedPost) string { return p.PostID }), err
		}},
		"bookmarks": {do: func(ctx context.Context, d *domain, fan, _ string) ([]string, error) {
			list, err := d.Bookmarks(ctx, fan, all)
			return lines(list.Items, func(b feed.Bookmarked) string { return b.PostID }), err
		}},
	}
}

// passAnEnd lets time pass until about the end of a story, most often of a story whose delivery is
// running.
func (s *stories) passAnEnd() {
	odds, soon := 200, time.Time{}
	for _, post := range sorted(s.ends) {
		end := s.ends[post]
		if left := time.Until(end); left <= 0 || left > 5*time.Minute {
			continue
		}
		if s.w.reach.halfDone(post) {
			odds, soon = 4, end
			break
		}
		if soon.IsZero() || end.Before(soon) {
			soon = end
		}
	}
	if !soon.IsZero() && s.w.rng.IntN(odds) == 0 {
		s.w.pause(max(0, time.Until(soon)+time.Duration(s.w.rng.IntN(2500)-500)*time.Millisecond))
	}
}

// sawEvent records the durable event of a post.
func (s *stories) sawEvent(e *messages.PostCreated) {
	if s != nil && e.AuthorID == teller {
		s.ends[e.PostID] = e.End()
	}
}

// checkCount checks two rules that always hold: counts.posts is the number of posts without an end
// (I4, I15), and a post that does not end soon has the right number of comments.
func (s *stories) checkCount() {
	posts := 0
	for _, it := range s.w.partition(schema.PostsPK(teller)) {
		post, _ := schema.PostOfSK(it.Key.SK)
		if end := s.ends[post]; end.IsZero() {
			posts++
		} else if time.Until(end) < clocksMost {
			continue
		}
		s.w.checkCommentCount(it)
	}
	counted := int64(0)
	if counts := s.w.items[schema.CountsKey(teller)]; counts != nil {
		counted = counts.Int(schema.AttrPosts)
	}
	if counted != int64(posts) {
		s.w.load.fail("I4", "%s has %d posts without an end, and counts %d", teller, posts, counted)
	}
}

// checkEnds checks the quiet world three times: now, after the last end, and after the table has deleted all
// expired items.
func (s *stories) checkEnds(ctx context.Context) {
	s.check(ctx)
	last := time.Now()
	for _, end := range s.ends {
		if end.After(last) {
			last = end
		}
	}
	s.w.pause(time.Until(last))
	s.check(ctx)
	s.w.pause(likesKept + time.Second)
	for _, key := range s.w.expired() {
		if err := s.w.sweep(key); err != nil {
			s.w.load.fail("oracle", "%v", err)
		}
	}
	s.check(ctx)
	s.w.checkAudit(ctx)
	for post, end := range s.ends {
		if count := s.w.items[schema.LikeCountKey(post)]; count != nil && !end.IsZero() && !s.gone[post] {
			s.w.load.fail("I15", "the like count of %s stays after its end at %v", post, end)
		}
	}
}

// check checks that each read shows exactly the posts that have not ended.
func (s *stories) check(ctx context.Context) {
	s.checkCount()
	service, now := s.w.direct(), time.Now()
	living := map[string]bool{}
	for _, post := range s.made {
		if end := s.ends[post]; !s.gone[post] && (end.IsZero() || end.Sub(now) > clocksMost) {
			living[post] = true
		}
	}
	s.w.checkLikes(ctx, service, map[string]map[string]bool{teller: living})
	reads := storyReads()
	for _, name := range sorted(reads) {
		for _, fan := range listeners() {
			s.checkRead(ctx, service, name, reads[name], fan, living)
		}
	}
}

// checkRead checks a read. If the read is about one post, checkRead repeats it for each post.
func (s *stories) checkRead(ctx context.Context, service *domain, name string, read storyRead, fan string, living map[string]bool) {
	asked, shown, now := sorted(s.ends), map[string]bool{}, time.Now()
	if !read.one {
		asked = asked[:min(1, len(asked))]
	}
	for _, post := range asked {
		posts, err := read.do(ctx, service, fan, post)
		for _, post := range posts {
			if err == nil {
				s.checkShown(name+" by "+fan, post, now)
				shown[post] = true
			}
		}
	}
	for _, post := range sorted(living) {
		followed, from := s.w.edge(fan, teller)
		if owed := read.one || name == ofTeller || read.home && followed && post >= from && !s.w.mayHaveExpired(post); owed && !shown[post] {
			s.w.load.fail("I5", "%s by %s lacks %s, which ends at %v", name, fan, post, s.ends[post])
		}
	}
}

// endOf returns the end of a post by its event, zero if it has no end.
func (w *World) endOf(post string) time.Time {
	if w.moves != nil {
		return w.moves.ends[w.load.original(post)] // a repost ends with its original
	}
	if w.stories == nil {
		return time.Time{}
	}
	return w.stories.ends[post]
}

// likesExpire reports whether the table may delete the likes of a story and their count one by one.
func (w *World) likesExpire(post string) bool {
	end := w.endOf(post)
	return !end.IsZero() && w.pastTTL(end.Add(likesKept))
}

// checkEndingItem checks that an item of a story expires with the story, and that an item of another post has
// its usual life.
func (w *World) checkEndingItem(post string, now table.Item, after time.Duration) {
	end := w.endOf(post)
	if end.IsZero() {
		return
	}
	if want := end.Add(after).Unix(); now.Int(table.AttrTTL) != want {
		w.load.fail("I15", "%v expires at %d, its post ends at %v", now.Key, now.Int(table.AttrTTL), end)
	}
}

// storyLife returns the time at which a post's entry expires: the earlier of the time of the
// timeline and the end of the post.
func (w *World) storyLife(post string, timeline time.Time) time.Time {
	if end := w.endOf(post); !end.IsZero() && end.Before(timeline) {
		return end
	}
	return timeline
}
