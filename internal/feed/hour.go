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

// These constants are the units of a call: the units of its own table calls, as in
// docs/ACCESS_PATTERNS.md, and the units of the work that follows the answer.
const (
	// A pushed post also counts one unit for each follower that receives the post.
	unitsOfPost = 11
	// A follow also counts unitsOfCopy for each post that its backfill copies: for the entry, and for the
	// removal of the entry after an unfollow. The read of each post counts one unit more.
	unitsOfFollow, unitsOfCopy = 18, 3
	unitsOfUnfollow            = 15
	// A comment always counts the units of the largest comment without data. A text of 5,000 characters is in
	// the table and in the index. The comment also rewrites its post, which may be as long and have data.
	unitsOfComment = 120
	// Each KB of data and mentions counts in addition: in a transaction, and for a comment also in the
	// index.
	unitsOfPostKB, unitsOfCommentKB = 2, 3
	// A rename also counts one unit for each post that the rename rewrites, and one for each KB of these
	// posts.
	unitsOfRename = 6
	// unitsOfNotice is the maximum number of units of one notification. The rate limit counts these units.
	unitsOfNotice = 8
)

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
func (s *Service) useOf(user string, at time.Time, units int64, counts *table.Item) use {
	if s.cfg.UserUnits == 0 {
		return use{}
	}
	u := use{user: user, hour: schema.HourOf(at), units: units}
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

// customKB returns the size of data and mentions in an item, in KB.
func customKB(data string, mentions []string) int64 {
	size := len(data)
	for _, user := range mentions {
		size += len(user) + 1
	}
	return int64(size+1023) / 1024
}

// unitsOfNotices returns the units that n mentions cause.
func (s *Service) unitsOfNotices(n int) int64 {
	if s.cfg.Notices == nil {
		return 0
	}
	return int64(unitsOfNotice * n)
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

// mostUnwritten bounds the memory for unwritten posts (I9).
const mostUnwritten = 10_000

// unwritten has, by author, the large posts whose transaction may not have happened, as far as this
// process knows. A worker makes that transaction. Until then no counts include the post, so the
// author's next large post has to wait. Without this wait, each process could accept as many posts as
// the whole limit allows.
type unwritten struct {
	mu    sync.Mutex
	posts map[string][]string
	size  int
}

func (u *unwritten) add(author, post string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.size < mostUnwritten {
		u.posts[author] = append(u.posts[author], post)
		u.size++
	}
}

// of returns the posts of an author.
func (u *unwritten) of(author string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.posts[author])
}

// keep replaces the posts of an author.
func (u *unwritten) keep(author string, posts []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.size += len(posts) - len(u.posts[author])
	if u.posts[author] = posts; len(posts) == 0 {
		delete(u.posts, author)
	}
}

// formerWritten returns an error while a former large post of the author is not in the table.
func (s *Service) formerWritten(ctx context.Context, author string) error {
	posts := s.unwritten.of(author)
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
	posts = slices.DeleteFunc(posts, func(post string) bool { _, there := found[schema.PostByIDKey(post)]; return there })
	if s.unwritten.keep(author, posts); len(posts) > 0 {
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
