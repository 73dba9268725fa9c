package feed

import (
	"context"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// unfollowedSlack is how much longer than a timeline entry the mark of an unfollow
// lives. What was in flight at the unfollow, a backfill above all, may still write
// entries of posts made later; but no consumer handles a message older than MaxAge,
// so no such entry is of a post made later than that, and none outlives the mark.
const unfollowedSlack = messages.MaxAge

// Follow makes follower follow author. It may be repeated: a follow that is there
// already changes nothing.
//
// Why a new follower misses nothing (I1): the edge and the home mark are written in
// one transaction, and the mark makes home reads merge the author's own post list
// in, from `from` on, until the backfill has copied it. A post's fan-out makes sure
// that the post is in the table before it reads followers. So for each post either
// the fan-out's consistent read of the follower page comes after this transaction
// and sees the edge, or the post was in the table before the page was read, hence
// before this transaction, and the backfill, which begins after it and reads post
// lists consistently, sees the post. Until then the merge does, for the same reason.
//
// `from` is read before the transaction, so no post made after the follow is below
// it, and merge, backfill and pull all use the same.
func (s *Service) Follow(ctx context.Context, follower, author string) error {
	if err := notSelf(follower, author); err != nil {
		return err
	}
	return s.decided(func() (bool, error) { return s.follow(ctx, follower, author) })
}

// follow tries once. again tells that what it had read has changed since.
func (s *Service) follow(ctx context.Context, follower, author string) (again bool, err error) {
	now, err := s.readFollow(ctx, follower, author)
	if err != nil || now.edge != nil {
		return false, err
	}
	from, pulled, err := s.followFrom(ctx, author)
	if err != nil {
		return false, err
	}
	version, err := s.ids.New()
	if err != nil {
		return false, err
	}
	mark := schema.Mark{User: follower, Author: author, Kind: schema.MarkBackfill, From: from, Version: version}
	if pulled {
		mark.Kind = schema.MarkPulled
	}
	since := s.now()
	err = s.transact(ctx,
		table.TransactOp{Put: &table.PutInput{Item: schema.FollowerItem(author, follower, since), If: table.Absent{}}},
		table.TransactOp{Put: &table.PutInput{Item: schema.FollowingItem(follower, author, since, from), If: table.Absent{}}},
		table.TransactOp{Update: addTo(schema.CountsKey(follower), schema.AttrFollowing, 1)},
		table.TransactOp{Update: addTo(schema.FollowerCountKey(author, follower), schema.AttrN, 1)},
		table.TransactOp{Put: &table.PutInput{Item: mark.Item(), If: s.unchanged(now.mark)}},
	)
	if conditionFailed(err) {
		return true, err
	}
	if err != nil {
		return false, unavailable("table", err)
	}
	if pulled {
		return false, nil
	}
	// The follow is durable and its home is right by the mark. An event that is
	// lost here is published again by a home read that meets the old mark.
	err = s.publish(ctx, queue.TopicPosts, &messages.Followed{FollowerID: follower, AuthorID: author, From: from, MarkVersion: version})
	if err != nil {
		s.log.Warn("backfill not asked for, a home read will", zap.String("request_id", s.requestID(ctx)),
			zap.String("follower", follower), zap.String("author", author), zap.Error(err))
	}
	return false, nil
}

// Unfollow is the reverse of Follow, and may be repeated too.
//
// It takes effect at once, whatever is in flight (I2): its mark is written in the
// transaction that removes the edges, every home read begins with a consistent read
// of the marks, and the mark outlives every entry that chunks and backfills in
// flight may still write. A backfill of before cannot end the mark: its version is
// another. So nothing has to be purged; entries age out by their ttl.
func (s *Service) Unfollow(ctx context.Context, follower, author string) error {
	if err := notSelf(follower, author); err != nil {
		return err
	}
	return s.decided(func() (bool, error) { return s.unfollow(ctx, follower, author) })
}

// unfollow tries once. again tells that what it had read has changed since.
func (s *Service) unfollow(ctx context.Context, follower, author string) (again bool, err error) {
	now, err := s.readFollow(ctx, follower, author)
	if err != nil || now.edge == nil {
		return false, err
	}
	version, err := s.ids.New()
	if err != nil {
		return false, err
	}
	mark := schema.Mark{
		User: follower, Author: author, Kind: schema.MarkUnfollowed, Version: version,
		TTL: s.now().Add(s.timelineTTL + unfollowedSlack),
	}
	same := table.Equal{Name: schema.AttrSince, Value: now.edge.Get(schema.AttrSince)}
	err = s.transact(ctx,
		table.TransactOp{Delete: &table.DeleteInput{Key: schema.FollowerKey(author, follower), If: table.Exists{}}},
		table.TransactOp{Delete: &table.DeleteInput{Key: schema.FollowingKey(follower, author), If: same}},
		table.TransactOp{Update: addTo(schema.CountsKey(follower), schema.AttrFollowing, -1)},
		table.TransactOp{Update: addTo(schema.FollowerCountKey(author, follower), schema.AttrN, -1)},
		table.TransactOp{Put: &table.PutInput{Item: mark.Item(), If: s.unchanged(now.mark)}},
	)
	if conditionFailed(err) {
		return true, err
	}
	return false, unavailable("table", err)
}

// maxChanges is how often a follow or unfollow begins anew because another one of
// the same two users came between its read and its transaction.
const maxChanges = 3

// decided tries until nothing comes between.
func (s *Service) decided(try func() (again bool, err error)) error {
	for n := 1; ; n++ {
		again, err := try()
		if !again || n == maxChanges {
			return unavailable("table", err)
		}
	}
}

// unchanged holds while the home mark is the one that was read, nil for none. A
// transaction that timed out may still reach the table after later ones were
// answered: it then meets another mark, and fails instead of undoing them (I2).
func (s *Service) unchanged(mark *table.Item) table.Cond {
	if mark == nil { // absent, or expired and not deleted yet
		return table.Any{table.Absent{}, table.Less{Name: table.AttrTTL, Value: table.N(s.now().Unix() + 1)}}
	}
	return table.Equal{Name: schema.AttrVersion, Value: mark.Get(schema.AttrVersion)}
}

func addTo(key table.Key, attr string, n int64) *table.UpdateInput {
	return &table.UpdateInput{Key: key, Add: []table.Attr{{Name: attr, Value: table.N(n)}}}
}

func notSelf(user, other string) error {
	if user == other {
		return &Error{Kind: Invalid, Detail: "one cannot follow oneself", Fields: []FieldError{{"id", "is your own"}}}
	}
	return nil
}

// following is what the table says of two users before a change: the edge under the
// follower and the home mark, nil for none.
type following struct{ edge, mark *table.Item }

// readFollow reads it consistently, together with both profiles, which must exist.
func (s *Service) readFollow(ctx context.Context, follower, author string) (following, error) {
	edge, mark := schema.FollowingKey(follower, author), schema.MarkKey(follower, author)
	found, err := s.batchGet(ctx, []table.Key{edge, mark, schema.ProfileKey(follower), schema.ProfileKey(author)}, true)
	if err != nil {
		return following{}, err
	}
	if _, ok := found[schema.ProfileKey(follower)]; !ok {
		return following{}, profileMissing(follower)
	}
	if _, ok := found[schema.ProfileKey(author)]; !ok {
		return following{}, notFound("there is no user %s", author)
	}
	var now following
	if it, ok := found[edge]; ok {
		now.edge = &it
	}
	if it, ok := found[mark]; ok {
		now.mark = &it
	}
	return now, nil
}

// followFrom returns the lowest post id that a new follow of author shows: the
// RecentPosts-th newest living post's, or the lowest of all if there are fewer.
// Posts that left homes by their age already need not be looked at. It also tells
// whether the follower's home pulls the author.
func (s *Service) followFrom(ctx context.Context, author string) (from string, pulled bool, err error) {
	var recent []ref
	reads := []func(context.Context) error{func(ctx context.Context) (err error) {
		recent, err = s.recentPosts(ctx, author, s.oldestShown(), "", RecentPosts)
		return err
	}}
	if s.pushLimit > 0 {
		reads = append(reads, func(ctx context.Context) error {
			_, counts, err := s.readUser(ctx, author)
			pulled = counts.Followers >= s.pushLimit
			return err
		})
	}
	if err := all(ctx, reads...); err != nil {
		return "", false, err
	}
	if len(recent) < RecentPosts {
		return id.Min, pulled, nil
	}
	return recent[RecentPosts-1].post, pulled, nil
}

// Followers lists who follows user, by user id.
func (s *Service) Followers(ctx context.Context, user string, in PageRequest) (List[Edge], error) {
	return s.edges(ctx, user, schema.FollowersPK(user), byUser("followers", user), in)
}

// Following lists whom user follows, by user id.
func (s *Service) Following(ctx context.Context, user string, in PageRequest) (List[Edge], error) {
	return s.edges(ctx, user, schema.FollowingPK(user), byUser("following", user), in)
}

func (s *Service) edges(ctx context.Context, user, pk string, scope scope, in PageRequest) (List[Edge], error) {
	position, err := scope.position(in.Cursor)
	if err != nil {
		return List[Edge]{}, err
	}
	q := table.Query{PK: pk, PageSize: in.limit() + 1, Consistent: true}
	if position != "" {
		q.After = schema.UserSK(position)
	}
	edges, _, err := collect(s.store.Query(ctx, q), in.limit()+1, each(func(it table.Item) (Edge, bool, error) {
		edge, err := schema.ParseEdge(it)
		return Edge{edge.Other, edge.Since}, true, err
	}))
	if err != nil {
		return List[Edge]{}, err
	}
	if len(edges) == 0 && position == "" {
		if err := s.knownUser(ctx, user); err != nil {
			return List[Edge]{}, err
		}
	}
	return page(edges, in.limit(), scope, edgeUser), nil
}

func edgeUser(e Edge) string { return e.UserID }

// Relationship says how user and other are connected: the two edges by their keys.
func (s *Service) Relationship(ctx context.Context, user, other string) (Relationship, error) {
	there, back := schema.FollowingKey(user, other), schema.FollowingKey(other, user)
	keys := []table.Key{there}
	if user != other {
		keys = append(keys, back)
	}
	found, err := s.batchGet(ctx, keys, true)
	if err != nil {
		return Relationship{}, err
	}
	_, following := found[there]
	_, followedBy := found[back]
	if !following && !followedBy { // an edge has two users, no edge may have none
		unknown := func(user string) func(context.Context) error {
			return func(ctx context.Context) error { return s.knownUser(ctx, user) }
		}
		if err := all(ctx, unknown(user), unknown(other)); err != nil {
			return Relationship{}, err
		}
	}
	return Relationship{following, followedBy, following && followedBy}, nil
}

// oldestShown is the lowest post id that homes still show. A timeline entry expires
// in the second of its post's time and the timeline's TTL; merged and pulled posts
// must leave at the same moment.
func (s *Service) oldestShown() string {
	return id.Floor(time.Unix(s.now().Unix()+1, 0).Add(-s.timelineTTL))
}
