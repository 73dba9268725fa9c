package audit

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"fanfare/internal/backoff"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// decisions is the maximum number of attempts to judge a count that traffic changes.
const decisions = 3

// list is the result of a read of a partition: the number of items, and a hash of their
// names and versions. If two reads are equal, the list did not change between them: an edge
// that was made again has another time, and a deleted post is never made again.
type list struct{ n, silent, hash int64 }

// of returns the number that the count in an attribute must have.
func (l list) of(attr string) int64 {
	if attr == schema.AttrSilent {
		return l.silent
	}
	return l.n
}

func (r *run) list(ctx context.Context, pk string, consistent bool) (list, error) {
	var l list
	h := fnv.New64a()
	err := r.each(ctx, table.Query{PK: pk, Consistent: consistent, Project: []string{schema.AttrSince, schema.AttrSilent, table.AttrTTL}}, func(it table.Item) error {
		if _, post := schema.PostOfSK(it.Key.SK); post && it.Has(table.AttrTTL) {
			return nil // a post with an end is never counted (I15)
		}
		l.n++
		l.silent += it.Int(schema.AttrSilent)
		_, _ = fmt.Fprintf(h, "%s %d %d\n", it.Key.SK, it.Int(schema.AttrSince), it.Int(schema.AttrSilent)) // Write of a hash never fails
		return nil
	})
	l.hash = int64(h.Sum64())
	return l, err
}

// counted is a count, together with the list that it counts.
type counted struct {
	kind     Kind
	what, pk string
	// count is the sum of the numbers in the items of keys.
	count int64
	// keys are the keys of the items that hold the number, in the attribute attr. A repair
	// adds the difference to the first item.
	keys []table.Key
	attr string
	// items has the existing items of keys, and possibly other items.
	items map[table.Key]table.Item
}

// userItem checks a user's counts and profile, once for all items of the user's partition.
func (r *run) userItem(ctx context.Context, user string) error {
	if user == r.user {
		return nil
	}
	r.user = user
	items, err := r.userItems(ctx, user)
	if err != nil {
		return err
	}
	if err := r.profile(ctx, user, items); err != nil {
		return err
	}
	var l list
	read := "" // the partition of l
	for _, c := range countsOf(user, items) {
		if r.cfg.Most > 0 && c.count > int64(r.cfg.Most) {
			continue
		}
		if c.pk != read {
			if l, err = r.list(ctx, c.pk, false); err != nil {
				return err
			}
			read = c.pk
		}
		if l.of(c.attr) == c.count {
			continue
		}
		err := r.suspect(ctx, suspect{read: func(ctx context.Context) (counted, error) {
			items, err := r.userItems(ctx, user)
			all := countsOf(user, items)
			return all[slices.IndexFunc(all, func(again counted) bool { return again.what == c.what })], err
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) userItems(ctx context.Context, user string) (map[table.Key]table.Item, error) {
	items := map[table.Key]table.Item{}
	err := r.each(ctx, table.Query{PK: schema.UserPK(user), Consistent: true}, func(it table.Item) error { items[it.Key] = it; return nil })
	return items, err
}

// The names of a user's counts.
const (
	countPosts, countFollowing, countFollowers, countSilent = "posts", "followees", "followers", "silent followers"
)

func countsOf(user string, items map[table.Key]table.Item) []counted {
	own := schema.CountsKey(user)
	followers := func(what, attr string) counted {
		c := counted{UserCount, what, schema.FollowersPK(user), 0, schema.FollowerCountKeys(user), attr, items}
		for _, key := range c.keys {
			c.count += items[key].Int(attr)
		}
		return c
	}
	return []counted{
		{UserCount, countPosts, schema.PostsPK(user), items[own].Int(schema.AttrPosts), []table.Key{own}, schema.AttrPosts, items},
		{UserCount, countFollowing, schema.FollowingPK(user), items[own].Int(schema.AttrFollowing), []table.Key{own}, schema.AttrFollowing, items},
		followers(countFollowers, schema.AttrN),
		followers(countSilent, schema.AttrSilent),
	}
}

// suspect is a count that differed from its list when both were read.
type suspect struct {
	// read returns the count. A count without keys means that there is nothing to compare.
	read    func(context.Context) (counted, error)
	counted counted
	before  list
	at      time.Time
	tries   int
	// again reports whether the first of two checks found the difference.
	again bool
}

// mostSuspects is the maximum number of waiting suspects.
const mostSuspects = 1000

// suspect reads a count and its list, and keeps both for judge if they differ. DynamoDB shows the items of a
// transaction one by one, so a difference counts only if it lasts until the last item must be visible. The
// walk continues during this time.
func (r *run) suspect(ctx context.Context, s suspect) (err error) {
	if s.counted, err = s.read(ctx); err != nil || len(s.counted.keys) == 0 {
		return err
	}
	if s.before, err = r.list(ctx, s.counted.pk, true); err != nil || s.before.of(s.counted.attr) == s.counted.count {
		return err
	}
	s.at, s.again = time.Now(), false // the audit's clock may be set, so its time is not used
	r.suspects = append(r.suspects, s)
	return nil
}

// judge decides about the suspects that are old enough. If all is true or too many suspects wait, judge also
// waits for younger suspects.
func (r *run) judge(ctx context.Context, all bool) error {
	for len(r.suspects) > 0 {
		s := r.suspects[0]
		if wait := table.VisibleWithin - time.Since(s.at); !r.cfg.Local && wait > 0 {
			if !all && len(r.suspects) < mostSuspects {
				return nil
			}
			if err := backoff.Wait(ctx, wait); err != nil {
				return err
			}
		}
		r.suspects = r.suspects[1:]
		decided, err := r.decide(ctx, s)
		if err != nil {
			return err
		}
		if decided {
			continue
		}
		if s.tries++; s.tries == decisions {
			r.sum.Undecided++
		} else if err := r.suspect(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// decide reports whether the suspect needs no further attempt. decide checks the count in a transaction, and then reads the list again. If both reads of the list are
// equal, the list was the same at the moment of the transaction. But a count may return to its former value in a
// transaction whose edge is not visible yet. So the difference must outlast a second check.
func (r *run) decide(ctx context.Context, s suspect) (bool, error) {
	c := s.counted
	checks := make([]table.TransactOp, len(c.keys))
	for i, key := range c.keys {
		checks[i] = check(key, unchangedIn(c.items, key, c.attr))
	}
	still, err := r.transact(ctx, checks...)
	if err != nil {
		return false, err
	}
	after, err := r.list(ctx, c.pk, true)
	if err != nil || !still || s.before != after {
		return false, err
	}
	if !s.again && !r.cfg.Local {
		s.at, s.again = time.Now(), true
		r.suspects = append(r.suspects, s)
		return true, nil
	}
	return true, r.found(ctx, c.kind, c.keys[0], fmt.Sprintf("the count of %s is %d, and the list has %d", c.what, c.count, after.of(c.attr)), func() (bool, error) {
		return r.add(ctx, c.items, c.keys[0], nil, table.Attr{Name: c.attr, Value: table.N(after.of(c.attr) - c.count)})
	})
}

// unchangedIn returns a condition that holds while an attribute is unchanged since the item
// was read, or while the item is still absent.
func unchangedIn(items map[table.Key]table.Item, key table.Key, attr string) table.Cond {
	if it, ok := items[key]; ok {
		return same(it, attr)
	}
	return table.Absent{}
}

// add adds differences to the counts in one item, once. Traffic changes a count and its list by
// the same number, so a difference stays right until the repair is written. Each repair writes its
// name into the item. A repair is written only if the item still has the name of the repair that
// preceded the decision. add also sets attributes, because it may make the item.
func (r *run) add(ctx context.Context, items map[table.Key]table.Item, key table.Key, set []table.Attr, by ...table.Attr) (bool, error) {
	name, err := r.cfg.IDs.New()
	if err != nil {
		return false, err
	}
	var former table.Cond = table.AttrAbsent{Name: schema.AttrFixed}
	if it, ok := items[key]; ok { // the item may be absent: a deleted post has no count
		former = same(it, schema.AttrFixed)
	}
	return r.transact(ctx, table.TransactOp{Update: &table.UpdateInput{
		Key: key, If: former,
		Add: by, Set: append(set, table.Attr{Name: schema.AttrFixed, Value: table.S(name)}),
	}})
}

// profile checks that a user with followers or followees has a profile. Each follow needs the
// profiles of both users, and the transaction that deletes a profile leaves a note. A count of
// posts proves nothing, because other producers may post for users without a profile.
func (r *run) profile(ctx context.Context, user string, items map[table.Key]table.Item) error {
	key, note := schema.ProfileKey(user), schema.ForgottenKey(user)
	if _, there := items[key]; there {
		return nil
	}
	if _, removed := items[note]; removed {
		return nil
	}
	for _, c := range countsOf(user, items) {
		if c.what == countPosts || c.count <= 0 {
			continue
		}
		held := c.keys[slices.IndexFunc(c.keys, func(key table.Key) bool { return items[key].Int(c.attr) > 0 })]
		broken, err := r.transact(ctx, check(key, table.Absent{}), check(note, table.Absent{}), check(held, same(items[held], c.attr)))
		if err != nil || !broken {
			return err
		}
		// No repair makes a profile, because only a call of the user can make it.
		return r.found(ctx, ProfileMissing, key, "the user has "+c.what, nil)
	}
	return nil
}

// commentCount checks the number of comments of a living post. A transaction that makes or
// deletes a comment also changes this number.
func (r *run) commentCount(ctx context.Context, seen schema.Post) error {
	key, pk := schema.PostKey(seen.Author, seen.ID), schema.CommentsPK(seen.ID)
	if r.cfg.Most > 0 && seen.Comments > int64(r.cfg.Most) || seen.Ref(0).Gone(r.cfg.Now().Add(clocksApart)) {
		return nil // the table deletes an ended post and its comments one by one
	}
	if l, err := r.list(ctx, pk, false); err != nil || l.n == seen.Comments {
		return err
	}
	return r.suspect(ctx, suspect{read: func(ctx context.Context) (counted, error) {
		found, err := r.get(ctx, true, key)
		if _, there := found[key]; err != nil || !there { // the comments of this post are being removed
			return counted{}, err
		}
		return counted{CommentCount, "comments", pk, found[key].Int(schema.AttrComments), []table.Key{key}, schema.AttrComments, found}, nil
	}})
}
