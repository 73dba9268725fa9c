package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"fanfare/client"
	"fanfare/internal/backoff"
)

// Check verifies the service with a journal. A call without an answer may have had its effect or not.
func Check(ctx context.Context, journal string, s Service) (Report, error) {
	began := time.Now()
	calls, err := readJournal(journal)
	if err != nil {
		return Report{}, err
	}
	o, err := newObserver(ctx, s)
	if err != nil {
		return Report{}, err
	}
	defer o.close()
	if err := o.reach(ctx); err != nil {
		return Report{}, err
	}
	o.awaitQuiet(ctx)
	report, err := o.verify(ctx, factsOf(calls))
	if err != nil {
		return Report{}, err
	}
	report.Seconds = seconds(time.Since(began))
	return report, nil
}

// maxExamples is the maximum number of faults that are reported in detail.
const maxExamples = 20

// recheck is the time between two readings of a unit with faults.
const recheck = 250 * time.Millisecond

// unit names one value that is compared with the truth.
type unit struct {
	kind unitKind
	name string
}

type unitKind int

const (
	homeOf unitKind = iota
	countsOf
	likesOf
	deliveryOf
)

// patience decides when the readings no longer improve.
type patience struct {
	settle time.Duration
	least  int
	since  time.Time
}

// over reports whether no unit is left for another reading, or whether the number of faults
// in the remaining units has not fallen for the time settle.
func (p *patience) over(open []int, findings []finding) bool {
	off := 0
	for _, i := range open {
		off += findings[i].missing + findings[i].wrong + findings[i].unexpected
	}
	if p.since.IsZero() || off < p.least {
		p.least, p.since = off, time.Now()
	}
	return len(open) == 0 || time.Since(p.since) > p.settle
}

// verify compares the state of the service with the facts. Deliveries and like counts
// arrive soon, but not at once. So verify repeats the reads of units with missing posts or
// wrong counts while the results improve. A post that must never show remains a fault, even
// if later reads do not have the post.
func (o *observer) verify(ctx context.Context, f *facts) (Report, error) {
	maybes := f.maybes()
	if maybes == nil {
		t := f.settle(&answers{})
		return o.verifySure(ctx, t, f.absencesSure() && (len(t.away) > 0 || t.hasLarge(o.PushLimit)))
	}
	var (
		known *answers
		c     *comparison
	)
	wait := patience{settle: o.Settle}
	for {
		a, err := o.ask(ctx, maybes)
		if err != nil {
			return Report{}, fmt.Errorf("read back: %w", err)
		}
		if known == nil || !reflect.DeepEqual(a, known) {
			t := f.settle(a)
			known, c = a, newComparison(t, t.units())
			wait = patience{settle: o.Settle}
		}
		if err := o.compare(ctx, c, true); err != nil {
			return Report{}, fmt.Errorf("read back: %w", err)
		}
		if wait.over(c.open, c.findings) {
			return o.report(c.truth, c.findings), nil
		}
		if err := backoff.Wait(ctx, recheck); err != nil {
			return Report{}, fmt.Errorf("read back: %w", err)
		}
	}
}

// units returns the units that are compared with the truth, in a fixed order.
func (t *truth) units() []unit {
	var all []unit
	for _, user := range t.users {
		all = append(all, unit{homeOf, user}, unit{countsOf, user})
	}
	for _, post := range t.postIDs() {
		all = append(all, unit{likesOf, post})
	}
	return all
}

// comparison compares units with the truth, and has a finding for each unit.
type comparison struct {
	truth    *truth
	units    []unit
	findings []finding
	// open has the indexes of the units that are read again.
	open []int
}

func newComparison(t *truth, units []unit) *comparison {
	c := &comparison{truth: t, units: units, findings: make([]finding, len(units)), open: make([]int, len(units))}
	for i := range c.open {
		c.open[i] = i
	}
	return c
}

// compare reads the open units. It stores the findings, and the units for the next reading. If there are open
// questions, an unexpected post may be right later, so its unit is read again. The first read of an away
// reader's home must be complete.
func (o *observer) compare(ctx context.Context, c *comparison, questions bool) error {
	var mu sync.Mutex
	var again []int
	err := o.each(ctx, "reading back", len(c.open), func(ctx context.Context, i int) error {
		at := c.open[i]
		u := c.units[at]
		now, err := o.read(ctx, c.truth, u)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if now.missing+now.wrong > 0 || questions && now.unexpected > 0 {
			again = append(again, at)
		}
		before := c.findings[at]
		if before.unexpected+before.duplicated > 0 {
			now.unexpected = max(now.unexpected, before.unexpected)
			now.duplicated = max(now.duplicated, before.duplicated)
			now.example = before.example
		}
		if !questions && u.kind == homeOf && c.truth.away[u.name] && before.missing > now.missing {
			now.missing, now.example = before.missing, before.example // the first read was incomplete
		}
		c.findings[at] = now
		return nil
	})
	slices.Sort(again)
	c.open = again
	return err
}

// read compares one unit with the truth. If the unit does not exist, read returns a finding and no error.
func (o *observer) read(ctx context.Context, t *truth, u unit) (finding, error) {
	switch u.kind {
	case homeOf:
		var home []shown
		for item, err := range o.sessions.of(u.name).Home(client.Push).All(ctx) {
			if gone(err) {
				return t.checkHome(u.name, nil), nil
			}
			if err != nil {
				return finding{}, err
			}
			home = append(home, shown{item.Post.ID, item.LikeCount, item.Liked, item.Reactions, item.Reaction})
		}
		return t.checkHome(u.name, home), nil
	case deliveryOf:
		d, err := o.delivery(ctx, t.authors[u.name], u.name)
		if gone(err) {
			return finding{wrong: 1, example: "post " + u.name + " is gone"}, nil
		}
		if err != nil {
			return finding{}, err
		}
		return t.checkDelivery(u.name, d, o.PushLimit), nil
	case countsOf:
		user, err := o.sessions.of(u.name).User(ctx, u.name)
		if gone(err) {
			return finding{wrong: 1, example: "user " + u.name + " is gone"}, nil
		}
		if err != nil {
			return finding{}, err
		}
		return t.checkCounts(u.name, user.Counts.Followers, user.Counts.Following, user.Counts.Posts), nil
	default:
		count, err := o.sessions.of(t.users[0]).LikeCount(ctx, u.name)
		if gone(err) {
			return finding{wrong: 1, example: "post " + u.name + " is gone"}, nil
		}
		if err != nil {
			return finding{}, err
		}
		by, err := o.sessions.of(t.users[0]).ReactionCount(ctx, u.name)
		if err != nil {
			return finding{}, err
		}
		return t.checkLikes(u.name, count.Count, by.Counts), nil
	}
}

// gone reports whether err is an answer of the service that something does not exist.
func gone(err error) bool {
	p, ok := errors.AsType[*client.Problem](err)
	return ok && (p.Status == http.StatusNotFound || p.Status == http.StatusConflict)
}

func (o *observer) report(t *truth, findings []finding) Report {
	sum := finding{duplicated: t.repeated}
	told := 0
	if t.repeated > 0 {
		o.progress.say(fmt.Sprintf("%d posts were created twice by one call", t.repeated))
	}
	for _, f := range findings {
		sum.add(f)
		if f.clean() {
			continue
		}
		if told++; told <= maxExamples {
			o.progress.say(f.example)
		}
	}
	if told > maxExamples {
		o.progress.say(fmt.Sprintf("and %d more with faults", told-maxExamples))
	}
	return Report{
		Users: len(t.users), Edges: t.edges, Posts: len(t.likers), Likes: t.likes(), Reactions: t.reactions(),
		ExpectedDeliveries: t.deliveries(), Delivered: sum.delivered, Away: len(t.away), Pulled: sum.pulled,
		Missing: sum.missing, Unexpected: sum.unexpected, Duplicated: sum.duplicated, WrongCounts: sum.wrong,
	}
}

// maybes are the open questions of the facts, in sorted order.
type maybes struct {
	users     []string
	followers []string // users with a follow that has no answer
	authors   []string // users with a post that has no answer
	likes     [][2]string
}

// maybes returns the open questions, nil if there are none.
func (f *facts) maybes() *maybes {
	m := &maybes{}
	for user, sure := range f.users {
		if !sure {
			m.users = append(m.users, user)
		}
	}
	for follower, authors := range f.follows {
		for _, sure := range authors {
			if !sure {
				m.followers = append(m.followers, follower)
			}
		}
	}
	for _, post := range f.posts {
		if post.id == "" {
			m.authors = append(m.authors, post.author)
		}
	}
	for post, users := range f.likes {
		for user, of := range users {
			if !of.sure {
				m.likes = append(m.likes, [2]string{post, user})
			}
		}
	}
	if len(m.users)+len(m.followers)+len(m.authors)+len(m.likes) == 0 {
		return nil
	}
	slices.Sort(m.users)
	slices.Sort(m.followers)
	slices.Sort(m.authors)
	m.followers, m.authors = slices.Compact(m.followers), slices.Compact(m.authors)
	slices.SortFunc(m.likes, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return m
}

// ask reads the answers to the maybes from the service.
func (o *observer) ask(ctx context.Context, m *maybes) (*answers, error) {
	a := &answers{
		users: map[string]bool{}, follows: map[string]map[string]bool{},
		posts: map[string][]string{}, likes: map[string]map[string]bool{},
	}
	if m == nil {
		return a, nil
	}
	var mu sync.Mutex
	asks := make([]func(ctx context.Context) error, 0, len(m.users)+len(m.followers)+len(m.authors)+len(m.likes))
	for _, user := range m.users {
		asks = append(asks, func(ctx context.Context) error {
			_, err := o.sessions.of(user).User(ctx, user)
			mu.Lock()
			defer mu.Unlock()
			a.users[user] = err == nil
			return unlessGone(err)
		})
	}
	for _, follower := range m.followers {
		asks = append(asks, func(ctx context.Context) error {
			edges, err := o.sessions.of(follower).Following(follower).Collect(ctx)
			mu.Lock()
			defer mu.Unlock()
			a.follows[follower] = map[string]bool{}
			for _, edge := range edges {
				a.follows[follower][edge.UserID] = true
			}
			return unlessGone(err)
		})
	}
	for _, author := range m.authors {
		asks = append(asks, func(ctx context.Context) error {
			posts, err := o.sessions.of(author).PostsByUser(author, client.PostRange{}).Collect(ctx)
			mu.Lock()
			defer mu.Unlock()
			for _, post := range posts {
				a.posts[post.Text] = append(a.posts[post.Text], post.ID)
			}
			return unlessGone(err)
		})
	}
	for _, like := range m.likes {
		asks = append(asks, func(ctx context.Context) error {
			_, err := o.sessions.of(like[1]).ReactionOf(ctx, like[0], like[1])
			mu.Lock()
			defer mu.Unlock()
			if a.likes[like[0]] == nil {
				a.likes[like[0]] = map[string]bool{}
			}
			a.likes[like[0]][like[1]] = err == nil
			return unlessGone(err)
		})
	}
	err := o.each(ctx, "settling calls without an answer", len(asks), func(ctx context.Context, i int) error { return asks[i](ctx) })
	return a, err
}

func unlessGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}
