package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// In the calm part of some lives an operator damages the table, at least once for each kind of
// finding. The next walk of an audit finds each damage. Walks that repair the damages leave none,
// and send no events.

// operator accesses the table without the ports: no call waits or fails.
type operator struct {
	table.Store
	w *World
}

// alone lets only the caller write until the caller calls done, because the goroutines of an
// aggregator may write at the same time.
func (s operator) alone() (done func()) {
	s.w.hand.Lock()
	return s.w.hand.Unlock
}

func (s operator) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	defer s.alone()()
	res, err := s.Store.Transact(ctx, in)
	for _, op := range in.Ops {
		if err == nil && op.Check == nil {
			err = s.w.wrote(op.Key())
		}
	}
	return res, err
}

func (s operator) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	defer s.alone()()
	res, err := s.Store.Put(ctx, in)
	if err == nil {
		err = s.w.wrote(in.Item.Key)
	}
	return res, err
}

func (s operator) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	defer s.alone()()
	res, err := s.Store.Update(ctx, in)
	if err == nil {
		err = s.w.wrote(in.Key)
	}
	return res, err
}

// Publish implements message.Publisher.
func (s operator) Publish(topic string, msgs ...*message.Message) error {
	defer s.alone()()
	for _, m := range msgs {
		s.w.put(topic, m.UUID, "operator "+m.UUID, m.Payload)
	}
	return nil
}

func (operator) Close() error { return nil }

// damaged names a user of the damaged town. User 0 is the author, users 1 to 6 follow the author, and user 7
// follows nobody.
func damaged(i int) string { return fmt.Sprintf("damaged%d", i) }

// town makes users with posts, comments and likes, and returns the posts.
func (w *World) town() (posts []string) {
	w.measured(w.call("town", func(ctx context.Context, s *domain) error {
		for i := range 8 {
			if _, err := s.PutProfile(ctx, damaged(i), feed.ProfileInput{Name: damaged(i)}); err != nil {
				return err
			}
		}
		for i := range 6 {
			if err := s.Follow(ctx, damaged(i+1), damaged(0)); err != nil {
				return err
			}
		}
		return nil
	}))
	for range 5 {
		w.measured(w.call("post", func(ctx context.Context, s *domain) error {
			post, err := s.CreatePost(ctx, damaged(0), feed.PostInput{Content: feed.Content{Text: "calm"}})
			posts = append(posts, post.ID)
			return err
		}))
	}
	w.measured(w.call("discussion", func(ctx context.Context, s *domain) error {
		for _, post := range posts {
			if _, err := s.CreateComment(ctx, damaged(1), post, "calm"); err != nil {
				return err
			}
			if err := s.Like(ctx, damaged(1), post); err != nil {
				return err
			}
		}
		// These users get a damaged follow beside a block, and half a block.
		if err := s.Block(ctx, damaged(6), damaged(0)); err != nil {
			return err
		}
		return s.Block(ctx, damaged(7), damaged(1))
	}))
	return posts
}

func (w *World) drop(key table.Key) table.Key {
	_, err := w.store.Delete(context.Background(), table.DeleteInput{Key: key, If: table.Exists{}})
	w.did(err, key)
	return key
}

func (w *World) change(in table.UpdateInput) table.Key {
	in.If = table.Exists{}
	_, err := w.store.Update(context.Background(), in)
	w.did(err, in.Key)
	return in.Key
}

// miscount makes a like count wrong. It bypasses the oracle of the ledger, which would report the
// wrong count at once.
func (w *World) miscount(key table.Key) table.Key {
	in := table.UpdateInput{Key: key, If: table.Exists{}, Add: []table.Attr{
		{Name: schema.AttrLikes, Value: table.N(40)}, {Name: schema.AttrCount(kinds()[1]), Value: table.N(3)},
	}}
	if _, err := w.store.Update(context.Background(), in); err != nil {
		w.load.fail("oracle", "%v", err)
	}
	return key
}

// damage damages the town, and returns the keys of the expected findings by kind.
func (w *World) damage(posts []string) map[audit.Kind][]table.Key {
	author, n := damaged(0), func(name string, n int64) []table.Attr { return []table.Attr{{Name: name, Value: table.N(n)}} }
	entry := func(user, post string) table.Key {
		return table.Key{PK: schema.TimelinePK(user), SK: schema.EntrySK(post, author)}
	}
	put := func(it table.Item) table.Key { w.write(it); return it.Key }
	long := time.Now().Add(-40 * 24 * time.Hour)
	lost := schema.Like{
		Post: posts[4], User: damaged(2), LikeShards: w.refOf(posts[4]).LikeShards, Kind: kinds()[0], Version: id.Floor(long), Indexed: w.seed%2 == 0,
		Flush: schema.Flush{Inc: strconv.FormatInt(long.Unix()/(24*60*60), 36) + "00000000", Seq: 1},
	}
	put(lost.Item()) // the like's aggregator died before it counted the like
	elsewhere := []table.Attr{{Name: table.AttrGSI1PK, Value: table.S("nowhere")}}
	comments, attrs := w.partition(schema.CommentsPK(posts[3])), schema.EntryAttrs(time.Now().Add(time.Hour), 1)
	ref := w.refOf(posts[3])
	w.drop(schema.MarkKey(damaged(6), author)) // an unfollow's mark, so a repair need not look at the block
	w.write(schema.FollowerItem(author, damaged(6), time.Now()))
	return map[audit.Kind][]table.Key{
		audit.FollowHalf: {
			w.drop(schema.FollowerKey(author, damaged(1))), w.drop(schema.FollowingKey(damaged(4), author)), schema.FollowingKey(damaged(6), author),
		},
		audit.HomeMark: {put(schema.Mark{
			User: damaged(2), Author: author, Kind: schema.MarkUnfollowed, Version: id.Min, TTL: time.Now().Add(timelineTTL),
		}.Item())},
		audit.BlockHalf:      {w.drop(schema.BlockKey(damaged(7), damaged(1)))},
		audit.UserCount:      {w.change(table.UpdateInput{Key: schema.CountsKey(damaged(3)), Add: n(schema.AttrFollowing, 2)})},
		audit.ProfileMissing: {w.drop(schema.ProfileKey(damaged(4)))},
		audit.PostID:         {w.drop(schema.PostByIDKey(posts[0]))},
		audit.PostMissing:    {w.drop(schema.PostKey(author, posts[1]))},
		audit.EntryMissing:   {w.drop(entry(damaged(5), posts[2])), w.drop(entry(author, posts[2]))},
		audit.EntryOrphan:    {put(table.Item{Key: entry(damaged(5), id.Floor(time.Now().Add(-time.Hour))), Attrs: attrs})},
		audit.EntryUnfollowed: {
			put(table.Item{Key: entry(damaged(7), posts[2]), Attrs: attrs}),
		},
		audit.LikeCount:     {w.miscount(schema.LikeCountKey(posts[2]))},
		audit.LikeUncounted: {schema.LikeCountKey(posts[4])},
		audit.LikeIndex:     {w.change(table.UpdateInput{Key: schema.LikeKey(posts[3], damaged(1), ref.LikeShards), Set: elsewhere})},
		audit.CommentIndex:  {w.change(table.UpdateInput{Key: comments[0].Key, Set: elsewhere})},
		audit.NoticeIndex:   {put(w.misplaced(posts[2]))},
		audit.CommentCount:  {w.change(table.UpdateInput{Key: schema.PostKey(author, posts[4]), Add: n(schema.AttrComments, 7)})},
	}
}

// misplaced returns a notification whose place differs from the place of its action.
func (w *World) misplaced(post string) table.Item {
	n := schema.Notice{User: damaged(1), Kind: schema.NoticeFollow, Revision: 1, Acts: []schema.Act{{Version: post, Place: post, State: schema.ActHolds, User: damaged(0)}}}
	it := n.Item()
	for i := range it.Attrs {
		if it.Attrs[i].Name == table.AttrGSI1SK {
			it.Attrs[i].Value = table.S(id.Max)
		}
	}
	return it
}

// mostWalks is the number of walks after which no damage is left. One repair may uncover another damage: a
// repair that deletes a post, for example, uncovers a wrong count.
const mostWalks = 5

// measureDamages damages a town, and makes an audit repair the town.
func (w *World) measureDamages(ctx context.Context) {
	posts := w.town()
	store, service := w.operated()
	w.checkAudit(ctx)
	told, damages := len(w.told.follows), w.damage(posts)
	found, _ := w.auditAll(ctx, store, service, audit.Walk{Repair: true})
	for _, kind := range audit.Kinds() {
		if len(damages[kind]) == 0 {
			w.load.fail("oracle", "nothing is damaged for findings of the kind %s", kind)
		}
		for _, key := range damages[kind] {
			if !slices.ContainsFunc(found, func(f audit.Finding) bool { return f.Kind == kind && f.PK == key.PK && f.SK == key.SK }) {
				w.load.fail("audit", "a walk misses the damage %s of %v", kind, key)
			}
		}
	}
	if w.items[schema.ProfileKey(damaged(4))] != nil || w.items[schema.FollowingKey(damaged(4), damaged(0))] != nil {
		w.load.fail("audit", "a repair made something of a user without a profile")
	}
	w.measured(w.call("profile", func(ctx context.Context, s *domain) error {
		_, err := s.PutProfile(ctx, damaged(4), feed.ProfileInput{Name: damaged(4)})
		return err
	}))
	for walks := 0; len(found) > 0 && walks < mostWalks; walks++ {
		w.work(time.Hour)
		found, _ = w.auditAll(ctx, store, service, audit.Walk{Repair: true})
	}
	w.work(time.Hour)
	w.load.findings(found)
	w.checkMended(posts, told)
	if _, err := service.AskToForget(ctx, damaged(5)); err != nil {
		w.load.fail("I6", "in the calm part a removal failed: %v", err)
	}
	w.checkAudit(ctx) // the profile is lost, but not the user's other items
	w.work(3 * time.Hour)
	w.checkAudit(ctx)
}

// checkMended checks that the town equals its former state, except for the lost post.
func (w *World) checkMended(posts []string, told int) {
	author := damaged(0)
	for i := range 8 {
		follows := i > 0 && i < 6
		for _, key := range []table.Key{schema.FollowerKey(author, damaged(i)), schema.FollowingKey(damaged(i), author)} {
			if there := w.items[key] != nil; there != follows {
				w.load.fail("audit", "after repairs %v is there: %v, want %v", key, there, follows)
			}
		}
		entry := table.Key{PK: schema.TimelinePK(damaged(i)), SK: schema.EntrySK(posts[2], author)}
		if want := i < 6; (w.items[entry] != nil) != want {
			w.load.fail("audit", "after repairs %v is there: %v, want %v", entry, !want, want)
		}
	}
	for _, post := range posts {
		if ref := w.refOf(post); ref == nil || ref.Deleted != (post == posts[1]) {
			w.load.fail("audit", "after repairs the post by id of %s is %+v", post, ref)
		}
	}
	if count := w.book.counts[posts[4]]; count.Likes() != 1 || count.Kinds[kinds()[0]] != 1 {
		w.load.fail("I3", "after repairs post %s counts %v, want a user who likes it and one who loves it", posts[4], count.Kinds)
	}
	if count := schema.ParseLikeCount(w.items[schema.LikeCountKey(posts[2])]); !maps.Equal(some(count.Kinds), w.book.sum(posts[2])) {
		w.load.fail("I3", "after repairs post %s counts %v, want %v", posts[2], count.Kinds, w.book.sum(posts[2]))
	}
	if now := len(w.told.follows); now != told {
		w.load.fail("I6", "repairs told others of %d follows", now-told)
	}
}
