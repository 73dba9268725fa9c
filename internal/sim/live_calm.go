package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/live"
)

// calm opens all streams at one API and makes another API accept posts. There is no fault. Then
// each stream has all posts of its home, and gets each later post in time.
func (s *liveStorm) calm(ctx context.Context) {
	w, l := s.w, s.w.load
	w.faults, w.tight = Rates{}, nil
	here, there := l.apis[0], l.apis[1]
	if slices.ContainsFunc(w.procs, func(p *Proc) bool { return !p.up() }) {
		return // the API sleeps for hours
	}
	s.start()
	apart := l.farAhead(here) || l.farAhead(there)
	for _, p := range w.procs { // a post of a slow clock may wait for the next long tick
		p.skew.Store(0)
		p.back = time.Now()
	}
	for _, c := range s.clients {
		s.run(s.open(c, here), here)
	}
	s.pass(5*time.Second, "")
	for _, c := range s.clients {
		s.missed(ctx, c)
	}
	reader, author := l.users[0], l.users[1]
	follow := l.followOf(reader, author, true, 0)
	s.run(follow, here) // the streams use the same list of authors
	s.pass(10*time.Second, "")
	if follow.err == nil && !apart && !l.unsure(pair{reader, author}) && l.mutes[pair{reader, author}] == nil {
		// The index gives no hint, so only a slow look finds the post.
		s.noIndex = true
		s.event(there, author, "", live.DefaultSlowLook+2*time.Second)
		s.noIndex = false
		// The hint arrives long before the entry.
		s.event(there, author, "timeline", 8*time.Second)
	}
	if !apart {
		if follow.err == nil && !l.unsure(pair{reader, author}) && l.mutes[pair{reader, author}] == nil {
			if !oneWriter(w.seed) { // else no process writes the log of changes
				s.changes(there, author, 6*time.Second, 0)
				s.changes(there, author, 6*time.Second, tailAway)
				s.strangersChanges(there, author, 6*time.Second, 0)
				s.strangersChanges(there, author, 6*time.Second, tailAway)
			}
			s.changes(here, author, 2*time.Second, 0)
			s.strangersChanges(here, author, 2*time.Second, 0)
		}
		s.checkPages(ctx)
		s.removal(here, there)
	}
	s.stop()
	w.quieten(ctx)
}

// event makes author post at an API. Writes whose class ends with held wait for three seconds. The
// first client must get the post within the time within.
func (s *liveStorm) event(api *Proc, author, held string, within time.Duration) {
	if !s.post(api, author, held, within) {
		return
	}
	c := s.clients[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.had[s.posted] {
		s.w.load.fail("I7", "the stream of %s has not got %s of %s within %s", c.user, s.posted, author, within)
	}
}

// post makes author post at an API, and reports whether the post was made. Then a time passes, as in event.
func (s *liveStorm) post(api *Proc, author, held string, within time.Duration) bool {
	l := s.w.load
	before := len(l.posts)
	s.run(&operation{
		name: "post for streams", user: author,
		do: func(ctx context.Context, d *domain) error {
			post, err := d.CreatePost(ctx, author, feed.PostInput{Content: feed.Content{Text: "for streams"}})
			if err == nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.posted = post.ID
			}
			return err
		},
		settle: func(err error) {
			if refusedByHour(err) && s.w.shape.Units > 0 {
				return
			}
			if err != nil {
				l.fail("I7", "a post without a fault: %v", err)
				return
			}
			l.posts, l.number[s.posted] = append(l.posts, s.posted), liveNumber
			l.texts[s.posted], l.owner[s.posted], l.accepted[s.posted] = newText(feed.Content{Text: "for streams"}), author, true
		},
	}, api)
	s.pass(3*time.Second, held)
	s.pass(within-3*time.Second, "")
	return len(l.posts) > before
}

// tailAway is longer than the time that a tail reads back, so no tail reads a change that was made before it.
const tailAway = 70 * time.Second

// changes makes author edit and delete a post at an API. After each change the tails are away for a time. Then the page of
// the first client must follow within a time.
func (s *liveStorm) changes(api *Proc, author string, within, away time.Duration) {
	before := s.posted
	s.event(api, author, "", 8*time.Second)
	if s.posted != before {
		s.changesOf(api, author, within, away, func(page *livePage, post string) string { return page.page[post] })
	}
}

// strangersChanges is changes for a post that the first client sees only in a repost by author.
func (s *liveStorm) strangersChanges(api *Proc, author string, within, away time.Duration) {
	l, c := s.w.load, s.clients[0]
	unfollowed, _ := l.certain(c.user)
	i := slices.IndexFunc(unfollowed, func(user string) bool { return user != author && l.mutes[pair{c.user, user}] == nil })
	if i < 0 || !s.post(api, unfollowed[i], "", 3*time.Second) {
		return
	}
	s.run(l.repostOf(likeKey{s.posted, author}), api)
	s.pass(8*time.Second, "")
	c.mu.Lock()
	_, shown := c.texts[s.posted]
	c.mu.Unlock()
	if shown { // without a block
		s.changesOf(api, unfollowed[i], within, away, func(page *livePage, post string) string { return page.texts[post] })
	}
}

// changesOf makes author edit and delete the last post, and compares the text that the page of the first client shows.
func (s *liveStorm) changesOf(api *Proc, author string, within, away time.Duration, shows func(page *livePage, post string) string) {
	l, post, c := s.w.load, s.posted, s.clients[0]
	said := "edited for streams"
	changed := feed.PostEdit{Text: &said, Images: &[]feed.Image{{URL: "https://img.example/edited.png"}}}
	want := feed.Content{Text: said, Images: *changed.Images}
	l.texts[post].sent(changed)
	edit := &operation{name: "edit " + post, user: author, settle: func(err error) {
		if err == nil {
			l.texts[post].edited(changed, true)
		}
	}}
	edit.do = func(ctx context.Context, d *domain) error {
		_, err := d.EditPost(ctx, author, post, changed)
		return err
	}
	for _, change := range []struct {
		op   *operation
		want string
	}{{edit, pageText(feed.Post{Content: want})}, {l.deleteOf(author, post), ""}} {
		s.w.settle() // a tick of this moment comes before
		s.noTail.Store(away > 0)
		s.run(change.op, api)
		s.pass(away, "")
		s.w.settle()
		s.noTail.Store(false)
		s.pass(within, "")
		c.mu.Lock()
		got := shows(&c.livePage, post)
		c.mu.Unlock()
		if change.op.err == nil && got != change.want {
			l.fail("I2", "the page of %s shows %q instead of %q, %s after %q with the tails away for %s", c.user, got, change.want, within, change.op.name, away)
		}
	}
}

// missed reports the posts of a client's home that the client's stream has never received.
func (s *liveStorm) missed(ctx context.Context, c *liveClient) {
	l := s.w.load
	service := s.w.direct()
	items, _, err := wholeHome(ctx, service, c.user, 10, false)
	if err != nil {
		l.fail("I7", "home of %s: %v", c.user, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	posts := make([]string, len(items))
	for i, item := range items {
		posts[i] = item.Post.ID
	}
	l.missed(c.user, &c.watch, posts)
}

// pass runs the world without faults for a time. Writes whose class contains held wait.
func (s *liveStorm) pass(lasts time.Duration, held string) {
	w := s.w
	for end := time.Now().Add(lasts); time.Now().Before(end) && w.steps < mostSteps; {
		w.steps++
		w.since++
		w.settle()
		w.collect()
		w.wake()
		w.finishStops()
		w.reboot()
		w.load.settled()
		s.learn()
		s.reads()
		ready := slices.DeleteFunc(w.ready(), func(c *call) bool {
			return held != "" && strings.HasSuffix(c.class, held) && !strings.HasPrefix(c.class, "query")
		})
		switch {
		case len(ready) > 0:
			w.answer(ready[0], ready[0].effect(1), "done")
		case w.handOut():
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
}
