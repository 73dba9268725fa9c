package feed

import (
	"context"
	"maps"
	"slices"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file contains blocks (docs/decisions/0034). A block between two users, made by either user,
// ends the follows between the two users. The block refuses new follows, comments and likes in both
// directions.

// Block makes user block other. A call may be repeated.
//
// One transaction writes both sides of the block and ends both follows, so counts stay exact (I4). No
// follow outlasts the block: the transaction of a follow checks that no block exists, and the
// transaction of a block checks that no follow was made after the read.
func (s *Service) Block(ctx context.Context, user, other string) error {
	if err := notSelfBlocked(user, other); err != nil {
		return err
	}
	return s.access.RetryChanged(func() (bool, error) {
		now, err := s.readBlocks(ctx, user, other)
		if err != nil {
			return false, err
		}
		own, _, err := now.times(user, other)
		if err != nil {
			return false, err
		}
		if err := now.mayBlock(user, other, own); err != nil {
			return false, err
		}
		return s.block(ctx, schema.Block{User: user, Other: other, Since: s.access.Now()}, now)
	})
}

// block makes b.User block b.Other since b.Since, unless that block exists. The transaction also
// includes the operations in also. changed reports that another call has changed the blocks or the
// follows after the read of now.
func (s *Service) block(ctx context.Context, b schema.Block, now pair, also ...table.TransactOp) (changed bool, err error) {
	user, other := b.User, b.Other
	own, back, err := now.times(user, other)
	if err != nil {
		return false, err
	}
	if after := afterOf(now, user, other); own.IsZero() || isFormer(own, after) {
		own = above(after, b.Since)
	}
	ops := append(now.set(user, other, own, back), also...)
	for _, u := range []string{user, other} {
		if _, there := now[schema.HasBlocksKey(u)]; !there {
			ops = append(ops, table.TransactOp{Put: &table.PutInput{Item: schema.BlocksItem(u, b.Since)}})
		}
	}
	follows := 0
	for _, f := range [][2]string{{user, other}, {other, user}} {
		follow := now.follow(f[0], f[1])
		if follow.edge == nil {
			ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: schema.FollowingKey(f[0], f[1]), If: table.Absent{}}})
			continue
		}
		end, err := s.endOf(ctx, f[0], f[1], follow)
		if err != nil {
			return false, err
		}
		follows++
		ops = append(ops, end...)
	}
	if len(ops) == 2 && follows == 0 { // only the checks of the follows remain
		return false, nil
	}
	err = s.access.TransactFollow(ctx, user, other, ops...)
	if access.ConditionFailed(err) {
		return true, err
	}
	return false, fault.Wrap("table", err)
}

// Unblock ends user's block of other. A call may be repeated. A block by other stays, and the ended
// follows do not return.
func (s *Service) Unblock(ctx context.Context, user, other string) error {
	if err := notSelfBlocked(user, other); err != nil {
		return err
	}
	return s.access.RetryChanged(func() (bool, error) {
		now, err := s.readBlocks(ctx, user, other)
		if err != nil {
			return false, err
		}
		own, _, err := now.times(user, other)
		if err != nil {
			return false, err
		}
		if err := now.mayBlock(user, other, own); err != nil || own.IsZero() {
			return false, err
		}
		return s.endBlock(ctx, user, other, now)
	})
}

// EndBlock ends a block if no call has changed the block after the read, and reports whether EndBlock
// ended the block: another call may have ended or renewed the block. The profiles may be removed.
func (s *Service) EndBlock(ctx context.Context, b schema.Block) (ended bool, err error) {
	err = s.access.RetryChanged(func() (bool, error) {
		now, err := s.readBlocks(ctx, b.User, b.Other)
		if err != nil {
			return false, err
		}
		own, _, err := now.times(b.User, b.Other)
		if err != nil || !own.Equal(b.Since) {
			return false, err
		}
		changed, err := s.endBlock(ctx, b.User, b.Other, now)
		ended = err == nil
		return changed, err
	})
	return ended, err
}

// endBlock ends user's block of other. changed reports that another call has changed the blocks
// between the two users after the read of now.
func (s *Service) endBlock(ctx context.Context, user, other string, now pair) (changed bool, err error) {
	_, back, err := now.times(user, other)
	if err != nil {
		return false, err
	}
	ops := now.set(user, other, time.Time{}, back)
	if len(ops) == 0 {
		return false, nil
	}
	err = s.access.Transact(ctx, ops...)
	if access.ConditionFailed(err) {
		return true, err
	}
	return false, fault.Wrap("table", err)
}

// MendBlock makes both sides of the blocks between two users agree, and reports whether it wrote an
// item. Each side names the block by the side's own user. MendBlock restores a lost side from the
// remaining side, unless mayStand refuses the repair. A block by a removed user ends. If a concurrent
// call of another process changes the blocks, MendBlock writes nothing.
func (s *Service) MendBlock(ctx context.Context, user, other string) (mended bool, err error) {
	now, err := s.readBlocks(ctx, user, other)
	if err != nil {
		return false, err
	}
	if err := s.addNotes(ctx, now, user, other); err != nil {
		return false, err
	}
	own, back, err := now.times(user, other)
	if err != nil {
		return false, err
	}
	side, there := now[schema.BlockKey(user, other)]
	if otherSide, ok := now[schema.BlockKey(other, user)]; !there && ok {
		own = schema.BlockedSince(otherSide)
	} else if there && !ok {
		back = schema.BlockedSince(side)
	}
	if removed(now, user) {
		own = time.Time{}
	}
	if removed(now, other) {
		back = time.Time{}
	}
	ops := now.set(user, other, own, back)
	if len(ops) == 0 {
		return false, nil
	}
	if !own.IsZero() || !back.IsZero() {
		ops = append(ops, mayStand(now, user, own), mayStand(now, other, back))
	}
	return s.transactIfUnchanged(ctx, ops)
}

// mayStand makes a repair of the blocks between two users fail if user has no profile. The exception
// is a removed user who made no block (own is zero): the note of the removal may keep the other user's
// block.
func mayStand(found map[table.Key]table.Item, user string, own time.Time) table.TransactOp {
	if note := schema.ForgottenKey(user); own.IsZero() && found[note].Has(schema.AttrEvent) {
		return table.TransactOp{Check: &table.CheckInput{Key: note, If: table.Exists{}}}
	}
	return hasProfile(user)
}

// addNotes adds the notes of users' removals to the items in found.
func (s *Service) addNotes(ctx context.Context, found map[table.Key]table.Item, users ...string) error {
	keys := make([]table.Key, len(users))
	for i, user := range users {
		keys[i] = schema.ForgottenKey(user)
	}
	notes, err := s.access.BatchGet(ctx, keys, true)
	maps.Copy(found, notes)
	return err
}

// pair is the stored state between two users: blocks and follows in both directions, and both
// profiles.
type pair map[table.Key]table.Item

// readBlocks reads the state between two users, consistently.
func (s *Service) readBlocks(ctx context.Context, user, other string) (pair, error) {
	var keys []table.Key
	for _, of := range [][2]string{{user, other}, {other, user}} {
		keys = append(keys, schema.BlockKey(of[0], of[1]), schema.FollowingKey(of[0], of[1]), schema.MarkKey(of[0], of[1]),
			schema.ProfileKey(of[0]), schema.HasBlocksKey(of[0]))
	}
	return s.access.BatchGet(ctx, keys, true)
}

// mayBlock refuses a call if user or other has no profile. If user has blocked other at own, other may
// be a removed user.
func (p pair) mayBlock(user, other string, own time.Time) error {
	if _, ok := p[schema.ProfileKey(user)]; !ok {
		return fault.NoProfile(user)
	}
	if _, ok := p[schema.ProfileKey(other)]; !ok && own.IsZero() {
		return fault.NotFoundf("there is no user %s", other)
	}
	return nil
}

// times returns the time at which user blocked other, and the time at which other blocked user, each
// from the blocker's side. A zero time means no block.
func (p pair) times(user, other string) (own, back time.Time, err error) {
	for _, of := range []struct {
		key  table.Key
		time *time.Time
	}{{schema.BlockKey(user, other), &own}, {schema.BlockKey(other, user), &back}} {
		it, ok := p[of.key]
		if !ok {
			continue
		}
		b, err := schema.ParseBlock(it)
		if err != nil {
			return own, back, fault.Wrap("table", err)
		}
		*of.time = b.Since
	}
	return own, back, nil
}

// follow returns the stored state of follower's follow of author.
func (p pair) follow(follower, author string) (f following) {
	if it, ok := p[schema.FollowingKey(follower, author)]; ok {
		f.edge = &it
	}
	if it, ok := p[schema.MarkKey(follower, author)]; ok {
		f.mark = &it
	}
	return f
}

// set returns the operations that store user's block of other since own, and other's block of user
// since back, on both sides. set returns no operation if both sides already have both blocks. Each
// side has the condition that the side is unchanged since the read. An unchanged side has the
// condition too: while another call runs, the read may have returned one side with the change and one
// side without it (decision 52).
func (p pair) set(user, other string, own, back time.Time) (ops []table.TransactOp) {
	var stay []table.TransactOp
	for _, next := range []schema.Block{{User: user, Other: other, Since: own, By: back}, {User: other, Other: user, Since: back, By: own}} {
		key := schema.BlockKey(next.User, next.Other)
		old, there := p[key]
		var same table.Cond = table.Absent{}
		if there {
			same = table.All{unchangedAttr(old, schema.AttrSince), unchangedAttr(old, schema.AttrBlockedBy)}
		}
		want := next.Item()
		switch {
		case len(want.Attrs) == 0 && there:
			ops = append(ops, table.TransactOp{Delete: &table.DeleteInput{Key: key, If: same}})
		case len(want.Attrs) > 0 && (!there || want.Get(schema.AttrSince) != old.Get(schema.AttrSince) || want.Get(schema.AttrBlockedBy) != old.Get(schema.AttrBlockedBy)):
			ops = append(ops, table.TransactOp{Put: &table.PutInput{Item: want, If: same}})
		default:
			stay = append(stay, table.TransactOp{Check: &table.CheckInput{Key: key, If: same}})
		}
	}
	if len(ops) > 0 {
		ops = append(ops, stay...)
	}
	return ops
}

func notSelfBlocked(user, other string) error {
	if user == other {
		return &fault.Error{Kind: fault.Invalid, Detail: "you cannot block yourself", Fields: []fault.FieldError{{Field: "id", Detail: "is your own id"}}}
	}
	return nil
}

// notBlocked refuses a comment by user on a thing of author's if a block exists between user and
// author. The read is consistent, because a block holds as soon as its call is answered.
func (s *Service) notBlocked(ctx context.Context, user, author string) error {
	if user == author {
		return nil
	}
	it, err := s.access.Get(ctx, schema.BlockKey(user, author), true)
	if err == nil && it != nil {
		err = fault.BlockedBy(author)
	}
	return err
}

// notBlockedSoon refuses a like by user on a post of author's if a block exists. It reads a block only
// if the author ever had a block; requests share that fact for keptBlocks. A consistent read confirms
// a refusal, because the block may have ended.
func (s *Service) notBlockedSoon(ctx context.Context, user, author string) error {
	if user == author {
		return nil
	}
	noted, err := s.access.Recent.One(ctx, schema.HasBlocksKey(author))
	if err != nil || noted == nil {
		return err
	}
	it, err := s.access.Get(ctx, schema.BlockKey(user, author), false)
	if err != nil || it == nil {
		return err
	}
	return s.notBlocked(ctx, user, author)
}

// callsOfBlocks is the number of table calls that blockedAmong makes for the authors of a page.
const callsOfBlocks = 1

// blockedAmong returns the authors with a block between the author and user, by consistent reads. A
// user without a note of blocks needs no call.
func (s *Service) blockedAmong(ctx context.Context, user string, authors []string) (map[string]bool, error) {
	keys := make([]table.Key, 0, len(authors))
	for _, author := range authors {
		if key := schema.BlockKey(user, author); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	found, err := s.access.BatchGet(ctx, keys, true)
	blocked := make(map[string]bool, len(found))
	for key := range found {
		if author, ok := schema.UserOfSK(key.SK); ok {
			blocked[author] = true
		}
	}
	return blocked, err
}

// Blocks lists the users whom user blocks, by user id.
func (s *Service) Blocks(ctx context.Context, user string, in page.Request) (page.List[Edge], error) {
	return listing[Edge]{
		scope: page.ListByUser("blocks", user), query: table.Query{PK: schema.BlocksPK(user), Consistent: true}, sortKey: schema.UserSK, position: edgeUser,
		// Blocks by other users may lie between the user's own blocks, and the number of blocks by other users
		// has no bound.
		fill: page.Refill{Budget: page.BudgetAfter(1), Calls: 1, Most: page.MostRefill},
		read: page.Each(func(it table.Item) (Edge, bool, error) {
			b, err := schema.ParseBlock(it)
			return Edge{b.Other, b.Since}, !b.Since.IsZero(), err
		}),
	}.page(ctx, s, in)
}
