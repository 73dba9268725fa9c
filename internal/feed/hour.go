package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file bounds the capacity units that the calls of one user cause in an hour, over all processes
// (docs/decisions/0044). The counts of the user include the sum.

const (
	// alwaysPosts is the number of posts in an hour that no limit refuses, so that an author with very
	// many followers may post, too.
	alwaysPosts = 4
	// largePart defines large calls: a call is large if it uses more than one in largePart of the limit. A
	// process runs one large call at a time for each user, so each process exceeds a limit by at most one
	// large call.
	largePart = 1000
)

// use is the part of a user's hour that one call uses. Calls of imports, calls of other producers, and
// all calls without a limit have the zero value, which uses no units.
type use struct {
	user  string
	hour  schema.Hour
	units int64
	post  bool
	// counts are the counts of the user at the time of the read.
	counts table.Item
	// late is the refusal of a large call while the counts do not yet include an earlier large call.
	late error
}

// useOf returns the use of a call, or zero if no limit is set. at is the time of the id that the call
// makes, so a repetition of the call counts in the same hour.
func (s *Service) useOf(user string, at time.Time, of cost, counts *table.Item) use {
	if s.cfg.UserUnits == 0 {
		return use{}
	}
	u := use{user: user, hour: schema.HourOf(at), units: of.own + of.later}
	if counts != nil {
		u.counts = *counts
	}
	return u
}

// countTo adds u to an update of the user's counts. The update is a part of the call's transaction, so
// each effect is counted once, even if a call is repeated.
func (u use) countTo(update *table.UpdateInput) {
	if u.user == "" {
		return
	}
	update.Add = append(update.Add, table.Attr{Name: u.hour.AttrUnits(), Value: table.N(u.units)})
	if u.post {
		update.Add = append(update.Add, table.Attr{Name: u.hour.AttrMade(), Value: table.N(1)})
	}
	update.Remove = append(update.Remove, u.hour.Former(u.counts)...)
}

// refused returns the refusal of a call in a used-up hour, or nil.
func (s *Service) refused(u use) error {
	if u.late != nil {
		return u.late
	}
	if u.user == "" || u.post && u.counts.Int(u.hour.AttrMade()) < alwaysPosts {
		return nil
	}
	if u.counts.Int(u.hour.AttrUnits()) < s.cfg.UserUnits {
		return nil
	}
	return s.usedUp(u)
}

// usedUp returns the refusal of a call. The refusal contains the time from which the user may call
// again.
func (s *Service) usedUp(u use) error {
	end := u.hour.End()
	return &fault.Error{
		Kind: fault.TooSoon, RetryAfter: max(time.Second, end.Sub(s.access.Now())),
		Detail: fmt.Sprintf("your calls of this hour have caused %d units of work, the most that the limit allows: try again after %s", s.cfg.UserUnits, end.Format(time.RFC3339)),
	}
}

// large reports whether a use exceeds a thousandth of the limit.
func (s *Service) large(u use) bool { return u.user != "" && u.units > s.cfg.UserUnits/largePart }

// inTurn calls do with u. If u is large, inTurn waits until no other large call of the user runs in
// this process. Then inTurn reads the counts again, because those other calls have changed the counts.
func (s *Service) inTurn(ctx context.Context, u use, do func(use) error) error {
	if !s.large(u) {
		return do(u)
	}
	return s.access.InTurn(ctx, access.Lane{Author: u.user, Number: access.HourLane}, u.user, func() error {
		u.late = s.formerWritten(ctx, u.user) // first, so that the counts include the earlier call
		counts, err := s.access.Get(ctx, schema.CountsKey(u.user), true)
		if err != nil {
			return err
		}
		if u.counts = (table.Item{}); counts != nil {
			u.counts = *counts
		}
		return do(u)
	})
}

// countAlone counts u by a separate write, unless the hour is used up. countAlone is for a call that
// writes no counts. The count comes before the effect, so u stays counted if the effect fails.
func (s *Service) countAlone(ctx context.Context, u use) error {
	if u.user == "" {
		return nil
	}
	update := table.UpdateInput{Key: schema.CountsKey(u.user), ReturnNew: true, If: table.Any{
		table.AttrAbsent{Name: u.hour.AttrUnits()}, table.Less{Name: u.hour.AttrUnits(), Value: table.N(s.cfg.UserUnits)},
	}}
	u.countTo(&update)
	res, err := s.access.Store.Update(ctx, update)
	if _, full := errors.AsType[*table.ConditionError](err); full {
		return s.usedUp(u)
	}
	if err != nil {
		return fault.Wrap("table", err)
	}
	if former := u.hour.Former(*res.Item); len(former) > 0 { // true at most once an hour
		_, err = s.access.Store.Update(ctx, table.UpdateInput{Key: update.Key, Remove: former})
	}
	return fault.Wrap("table", err)
}

const (
	// mostUnwritten bounds the memory for unwritten posts (I9).
	mostUnwritten = 10_000
	// unwrittenFor bounds the time for which an author waits for a post: by then a worker has made the post,
	// or the queues are away.
	unwrittenFor = 5 * time.Minute
)

// unwritten has, by author, the large posts whose transaction may not have happened, as far as this
// process knows. A worker makes that transaction. Until then no counts include the post, so the
// author's next large post has to wait. Without this wait, each process could accept as many posts as
// the whole limit allows.
//
// Some transactions never happen: a worker writes no post that has ended, or whose author was removed,
// and a message may become a dead letter. So the author waits for a post until the post's end, and for
// unwrittenFor at most.
type unwritten struct {
	mu    sync.Mutex
	posts map[string][]unwrittenPost
	size  int
}

// unwrittenPost is a post for which its author waits until a time.
type unwrittenPost struct {
	id    string
	until time.Time
}

func (u *unwritten) add(post schema.Post, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.size >= mostUnwritten {
		for author := range u.posts {
			u.expire(author, now)
		}
	}
	if u.size < mostUnwritten {
		until := now.Add(unwrittenFor)
		if !post.ExpiresAt.IsZero() && post.ExpiresAt.Before(until) {
			until = post.ExpiresAt
		}
		u.posts[post.Author] = append(u.posts[post.Author], unwrittenPost{post.ID, until})
		u.size++
	}
}

// of returns the posts for which an author waits.
func (u *unwritten) of(author string, now time.Time) (posts []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.expire(author, now)
	for _, post := range u.posts[author] {
		posts = append(posts, post.id)
	}
	return posts
}

// expire removes the posts of an author whose time is over. The time is also over if the clock was set
// back.
func (u *unwritten) expire(author string, now time.Time) {
	u.remove(author, func(post unwrittenPost) bool { return !now.Before(post.until) || post.until.Sub(now) > unwrittenFor })
}

// written removes the posts of an author that are in the table.
func (u *unwritten) written(author string, found map[table.Key]table.Item) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.remove(author, func(post unwrittenPost) bool { _, there := found[schema.PostByIDKey(post.id)]; return there })
}

func (u *unwritten) remove(author string, over func(unwrittenPost) bool) {
	left := slices.DeleteFunc(u.posts[author], over)
	u.size += len(left) - len(u.posts[author])
	if u.posts[author] = left; len(left) == 0 {
		delete(u.posts, author)
	}
}

// formerWritten returns an error while a former large post of the author is not in the table.
func (s *Service) formerWritten(ctx context.Context, author string) error {
	posts := s.unwritten.of(author, s.access.Now())
	if len(posts) == 0 {
		return nil
	}
	keys := make([]table.Key, 0, len(posts)) // the table also has a deleted post, as a tombstone
	for _, post := range posts {
		keys = append(keys, schema.PostByIDKey(post))
	}
	found, err := s.access.BatchGet(ctx, keys, true)
	if err != nil {
		return err
	}
	if s.unwritten.written(author, found); len(found) < len(posts) {
		return &fault.Error{Kind: fault.Unavailable, RetryAfter: fault.RetryAfter, Detail: "your post before this one is not written yet: try again"}
	}
	return nil
}

// countsItem returns the user's counts from items, nil if items has no counts.
func countsItem(user string, items []table.Item) *table.Item {
	for i := range items {
		if items[i].Key == schema.CountsKey(user) {
			return &items[i]
		}
	}
	return nil
}
