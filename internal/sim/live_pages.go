package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
)

// Each client of a live home shows a page: the client reads the home when its stream opens, and after
// each event stale, and applies the other events in their order (docs/decisions/0023, C1 to C7). At the
// end no page shows a deleted post, or an old text, also inside reposts and quotes.

const (
	// quickChange is the time within which a deletion or an edit has its answer, if the oracle expects it
	// on the pages of other processes: the tail reads the log of changes 30 seconds back.
	quickChange = 10 * time.Second
	// mostApart is the largest difference of two clocks for which a tail reads each change.
	mostApart = 15 * time.Second
	// pagesTime is longer than the wait after failed looks at edited posts.
	pagesTime = 45 * time.Second
)

// livePage is the page of a client.
type livePage struct {
	api *Proc
	// page has what the shown posts show. gone has the posts whose deletion the connection has told.
	page map[string]string
	// inside has the referred post of each repost and quote, and texts has the text of each such post on the page. renew has
	// the shown posts that the client has to read again.
	inside, texts map[string]string
	renew         map[string]bool
	gone          map[string]bool
	// stale is set while the client has to read its page. While it reads, held collects the events.
	stale, reading bool
	// retry is the time at which the client repeats a read that failed. Without a wait the repeats would never let time pass.
	retry time.Time
	held  [][2]string
	// strange has the authors whom the user has followed or unmuted since the opening, perhaps at another
	// process, whose list of authors lacks them.
	strange map[string]bool
}

// itemFrame returns an event with an item: the text of the post on a page, and the text of the post to which it refers.
func itemFrame(kind string, item feed.HomeItem) []byte {
	frame := kind + " " + item.Post.ID + " " + pageText(item.Post)
	if item.Of != nil {
		frame += "\t" + item.Of.Post.ID + " " + pageText(item.Of.Post)
	}
	return []byte(frame + "\n")
}

// pageText returns what a page shows of a post, as one line.
func pageText(p feed.Post) string { return fmt.Sprintf("%q", shownBy(p.Content)) }

// opened begins the page of a new connection. The caller holds the client's lock.
func (c *liveClient) opened(api *Proc) {
	c.livePage = livePage{api: api, page: c.page, inside: c.inside, texts: c.texts, renew: map[string]bool{}, gone: map[string]bool{}, stale: true, strange: map[string]bool{}}
	if c.page == nil {
		c.empty()
	}
}

func (c *livePage) empty() {
	c.page, c.inside, c.texts, c.renew = map[string]string{}, map[string]string{}, map[string]string{}, map[string]bool{}
}

// take handles an event about the page. The caller holds the client's lock.
func (c *liveClient) take(kind, value string) {
	post, _, _ := strings.Cut(value, " ")
	switch {
	case kind == "deleted":
		c.gone[post] = true
	case kind != "stale" && c.gone[post]:
		c.storm.violates("I7", "the stream of %s has %s of %s after its deletion", c.user, kind, post)
	case kind == "entry" && c.gone[c.storm.original(post)]:
		c.storm.violates("I7", "the stream of %s has the repost %s after the deletion of its original", c.user, post)
	}
	if c.reading {
		c.held = append(c.held, [2]string{kind, value})
		return
	}
	c.apply(kind, value)
}

// original returns the original of a repost that a look has found, or the post.
func (s *liveStorm) original(post string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.originals[post], post)
}

func (c *liveClient) apply(kind, value string) {
	value, other, refers := strings.Cut(value, "\t") // no text has a tab
	post, text, _ := strings.Cut(value, " ")
	of, ofText, _ := strings.Cut(other, " ")
	_, shown := c.page[post]
	_, shownInside := c.texts[post]
	switch kind {
	case "stale":
		c.stale = true
	case "deleted":
		delete(c.page, post)
		delete(c.texts, post)
	case "changed":
		if shown || shownInside {
			c.renew[post] = true
		}
	default:
		if kind == "entry" || shown {
			c.page[post] = text
		}
		if shownInside {
			c.texts[post] = text
		}
		if kind == "entry" && refers {
			c.inside[post], c.texts[of] = of, ofText
		}
	}
}

func (s *liveStorm) violates(invariant, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, invariant+": "+fmt.Sprintf(format, args...))
}

// reads begins the read of a page, if a client has to read its page.
func (s *liveStorm) reads() bool {
	for _, c := range s.clients {
		post := c.mustRenew()
		if !c.mustRead() && post == "" || s.w.load.busy[c.user] != nil || !c.api.up() {
			continue
		}
		op := s.renew
		if c.mustRead() {
			op = s.read
		}
		s.run(op(c, post), c.api)
		return true
	}
	return false
}

func (c *liveClient) mustRead() bool {
	open := c.open()
	c.mu.Lock()
	defer c.mu.Unlock()
	return open && c.stale && !c.reading && !time.Now().Before(c.retry)
}

// mustRenew returns a post that a client has to read again, "" for none.
func (c *liveClient) mustRenew() string {
	open := c.open()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !open || c.stale || c.reading || len(c.renew) == 0 || time.Now().Before(c.retry) {
		return ""
	}
	return slices.Min(slices.Collect(maps.Keys(c.renew)))
}

// renew reads a post of a client's page again.
func (s *liveStorm) renew(c *liveClient, post string) *operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, text := c.stream, ""
	c.reading, c.held = true, nil
	delete(c.renew, post)
	return &operation{
		name: "read a post again", user: c.user,
		do: func(ctx context.Context, d *domain) error {
			p, err := d.Post(ctx, access.As(c.user), post)
			text = pageText(p)
			return err
		},
		settle: func(err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.stream != of {
				return
			}
			switch c.reading = false; {
			case err == nil:
				c.apply("edited", post+" "+text)
			case isNotFound(err):
				c.apply("deleted", post)
			default:
				c.renew[post], c.retry = true, time.Now().Add(time.Second)
			}
			c.applyHeld()
		},
	}
}

// applyHeld applies the events that came during a read. The caller holds the client's lock.
func (c *liveClient) applyHeld() {
	for _, e := range c.held {
		c.apply(e[0], e[1])
	}
	c.held = nil
}

// read reads the page of a client.
func (s *liveStorm) read(c *liveClient, _ string) *operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.stream
	c.reading, c.stale, c.held = true, false, nil
	var items []feed.HomeItem
	return &operation{
		name: "read a page", user: c.user,
		do: func(ctx context.Context, d *domain) (err error) {
			items, _, err = wholeHome(ctx, d, c.user, 20, false)
			return err
		},
		settle: func(err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.stream != of { // the next stream reads the page again
				return
			}
			if err != nil {
				c.retry = time.Now().Add(time.Second)
			}
			if c.reading, c.stale = false, c.stale || err != nil; err == nil {
				c.empty()
				for _, item := range items {
					frame, _ := strings.CutPrefix(strings.TrimSpace(string(itemFrame("entry", item))), "entry ")
					c.apply("entry", frame)
				}
			}
			c.applyHeld()
		},
	}
}

// watchChange notes the deletions and edits that have no quick answer, and the new authors of homes.
func (s *liveStorm) watchChange(op *operation) {
	kind, of, _ := strings.Cut(op.name, " ")
	switch kind {
	case "follow", "unmute", "mute", "unfollow":
		for _, c := range s.clients {
			if c.user == op.user {
				c.mu.Lock()
				if c.strange != nil {
					c.strange[of] = true
				}
				c.mu.Unlock()
			}
		}
	case "delete", "edit", "take":
		post := of[strings.LastIndex(of, " ")+1:]
		settle, began, late := op.settle, time.Now(), s.late[post]
		s.late[post] = true // until the quick answer
		op.settle = func(err error) {
			settle(err)
			s.late[post] = late || err != nil && !isNotFound(err) || time.Since(began) > quickChange
		}
	}
}

// clocksApart reports whether the clocks of two processes differ too much.
func (s *liveStorm) clocksApart() bool {
	var skews []int64
	for _, p := range s.w.procs {
		skews = append(skews, p.skew.Load())
	}
	return time.Duration(slices.Max(skews)-slices.Min(skews)) > mostApart
}

// settlePages lets the world pass without faults, and then compares the pages of the open streams with
// the table.
func (s *liveStorm) settlePages(ctx context.Context) {
	w := s.w
	w.faults, w.heldBack = Rates{}, false
	clear(w.armed)
	for _, p := range w.procs {
		if !p.asleep {
			p.paused = time.Time{} // a pause may be longer than pagesTime
		}
	}
	w.mature(true)
	s.pass(pagesTime, "")
	s.checkPages(ctx)
}

// checkPages compares the pages with the table. Without a log of changes, a page lacks the changes by other
// processes.
func (s *liveStorm) checkPages(ctx context.Context) {
	if s.learn(); oneWriter(s.w.seed) {
		return
	}
	service := s.w.direct()
	for _, c := range s.clients {
		if s.apart || !c.open() || c.mustRead() || c.mustRenew() != "" {
			continue
		}
		c.mu.Lock()
		page, strange := maps.Clone(c.page), c.strange
		inside, texts := maps.Clone(c.inside), maps.Clone(c.texts)
		gone := slices.Sorted(maps.Keys(c.gone))
		c.mu.Unlock()
		for _, post := range gone {
			if _, err := service.Post(ctx, access.As(c.user), post); err == nil {
				s.violates("I2", "the stream of %s has the deletion of %s, which lives", c.user, post)
			}
		}
		for _, post := range slices.Sorted(maps.Keys(page)) {
			got, err := service.Post(ctx, access.As(c.user), post)
			switch {
			case s.late[post] || strange[s.w.load.owner[post]] || s.original(post) != post: // ends of reposts have no quick answer
			case isNotFound(err) && !s.w.mayHaveExpired(post):
				s.violates("I2", "the page of %s shows %s, which was deleted", c.user, post)
			case err == nil && pageText(got) != page[post]:
				s.violates("I2", "the page of %s shows %s with %s, which is %s now", c.user, post, page[post], pageText(got))
			}
		}
		s.checkInside(ctx, c.user, page, inside, texts)
	}
	s.learn()
}

// checkInside compares the posts inside the reposts and quotes of a page with the table. The page hears of them whether or not
// the home lists their authors (C7).
func (s *liveStorm) checkInside(ctx context.Context, user string, page, inside, texts map[string]string) {
	service := s.w.direct()
	for _, post := range slices.Sorted(maps.Keys(page)) {
		of := inside[post]
		text, shown := texts[of]
		if !shown || s.late[of] {
			continue
		}
		switch got, err := service.Post(ctx, access.As(user), of); {
		case isNotFound(err) && !s.w.mayHaveExpired(of):
			s.violates("I2", "the page of %s shows %s inside %s, which was deleted", user, of, post)
		case err == nil && pageText(got) != text:
			s.violates("I2", "the page of %s shows %s inside %s with %s, which is %s now", user, of, post, text, pageText(got))
		}
	}
}
