package feed

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Like accepts user's reaction of the kind like to a post.
func (s *Service) Like(ctx context.Context, user, post string) error {
	return s.React(ctx, user, post, schema.KindLike)
}

// React accepts user's reaction to a post. The new reaction replaces the user's former reaction. When
// React returns nil, the event is durable (I5); the counts follow later (I3). The event's id is the
// version of the action, so the later of two actions wins, in whatever order the actions arrive. The
// id is above the version of the stored action. Another process may have made the stored action with a
// clock that is ahead, so React reads the stored action consistently (I3).
func (s *Service) React(ctx context.Context, user, post, kind string) error {
	if kind != schema.KindLike && !slices.Contains(s.access.Reactions, kind) {
		var bad checks
		bad.refuse("kind", "%q is no kind of reaction here: use %s", kind, strings.Join(append([]string{schema.KindLike}, s.access.Reactions...), ", "))
		return bad.err()
	}
	like, floor, err := s.likeEvent(ctx, access.As(user), user, post)
	if err != nil {
		return err
	}
	if err := s.notBlockedSoon(ctx, user, like.AuthorID); err != nil {
		return err
	}
	return s.access.PublishAbove(ctx, queue.TopicLikes, messages.Action(like, kind), floor)
}

// Unlike removes user's reaction to a post, whatever its kind.
func (s *Service) Unlike(ctx context.Context, user, post string) error {
	like, floor, err := s.likeEvent(ctx, access.AnyAudience(access.OwnUndo), user, post)
	if err != nil {
		return err
	}
	return s.access.PublishAbove(ctx, queue.TopicLikes, &messages.Unliked{Like: like}, floor)
}

// likeEvent returns the content of an action, and an id floor that the action's id must be above:
// floor is at least the version of the stored action, and at least each id of the user's former lives.
// Most posts have one like shard, so likeEvent reads that shard before it knows the number of shards.
func (s *Service) likeEvent(ctx context.Context, by access.Viewer, user, post string) (like messages.Like, floor string, err error) {
	var byID schema.PostRef
	var after, stored string // the version of the stored action
	read := func(ctx context.Context, shards int) error {
		it, err := s.access.Get(ctx, schema.LikeKey(post, user, shards), true) // consistent: the new version must be higher
		if it != nil {
			stored = it.Str(schema.AttrVersion)
		}
		return err
	}
	err = s.access.All(ctx,
		func(ctx context.Context) (err error) {
			after, byID, err = s.access.WriterAndPost(ctx, by, user, post)
			return err
		},
		func(ctx context.Context) error { return read(ctx, 1) },
	)
	if err == nil && byID.LikeShards > 1 {
		err = read(ctx, byID.LikeShards)
	}
	return messages.Like{PostID: post, UserID: user, AuthorID: byID.Author, LikeShards: byID.LikeShards, Stored: stored != ""}, max(after, stored), err
}

// Likers lists the users who like a post, by user id.
func (s *Service) Likers(ctx context.Context, by access.Viewer, post string, in page.Request) (page.List[Liker], error) {
	return s.Reactions(ctx, by, post, schema.KindLike, in)
}

// Reactions lists the users with a reaction to a post, by user id. kind selects one kind, and "" selects all
// kinds. If the like list has many shards, Reactions reads a page of each shard and merges the pages.
func (s *Service) Reactions(ctx context.Context, by access.Viewer, post, kind string, in page.Request) (page.List[Liker], error) {
	scope := page.ListByUser("likers", post)
	scope.Filter = kind
	position, err := scope.Position(in.Cursor)
	if err != nil {
		return page.List[Liker]{}, err
	}
	seen, err := s.access.LivingPost(ctx, by, post)
	if err != nil {
		return page.List[Liker]{}, err
	}
	want := in.Size() + 1
	shards := make([]int, seen.Ref().LikeShards)
	for i := range shards {
		shards[i] = i
	}
	calls := page.BudgetAfter(2) // the post, and the first shard
	userID := func(l Liker) string { return l.UserID }
	merge := page.Merge[Liker]{All: s.access.All, Budget: calls, Want: want, Compare: strings.Compare, Position: userID}
	var likers page.Stretch[Liker]
	for part := range slices.Chunk(shards, access.Readers) {
		lists := make([]page.MergedList[Liker], len(part))
		for i, shard := range part {
			lists[i] = func(ctx context.Context, after string, want, size int) (page.Stretch[Liker], error) {
				return s.reactionsOfShard(ctx, seen.LikesPK(shard), kind, cmp.Or(after, position), want, size)
			}
		}
		if likers, err = merge.Lists(ctx, likers, lists); err != nil {
			return page.List[Liker]{}, err
		}
	}
	return page.Of(likers, in.Size(), scope, userID), nil
}

func (s *Service) reactionsOfShard(ctx context.Context, pk, kind, position string, want, size int) (page.Stretch[Liker], error) {
	q := table.Query{PK: pk, High: schema.LikersEnd(), PageSize: size}
	if position != "" {
		q.After = schema.UserSK(position)
	}
	return page.Collect(ctx, s.access.Store, q, want, page.Refill{Budget: &page.Budget{}, Calls: 1}, page.Each(func(it table.Item) (Liker, bool, error) {
		like, err := schema.ParseLike(it)
		return likerOf(like), like.Kind != "" && (kind == "" || like.Kind == kind), err
	}))
}

func likerOf(like schema.Like) Liker { return Liker{like.User, access.TimeOf(like.Version), like.Kind} }

// LikeOf returns user's like of a post.
func (s *Service) LikeOf(ctx context.Context, by access.Viewer, post, user string) (Liker, error) {
	reaction, err := s.ReactionOf(ctx, by, post, user)
	if err == nil && reaction.Kind != schema.KindLike {
		return Liker{}, fault.NotFoundf("user %s does not like post %s", user, post)
	}
	return reaction, err
}

// ReactionOf returns user's reaction to a post.
func (s *Service) ReactionOf(ctx context.Context, by access.Viewer, post, user string) (Liker, error) {
	seen, err := s.access.LivingPost(ctx, by, post)
	if err != nil {
		return Liker{}, err
	}
	it, err := s.access.Get(ctx, schema.LikeKey(post, user, seen.Ref().LikeShards), false)
	if err != nil {
		return Liker{}, err
	}
	var like schema.Like
	if it != nil {
		if like, err = schema.ParseLike(*it); err != nil {
			return Liker{}, fault.Wrap("table", err)
		}
	}
	if like.Kind == "" {
		return Liker{}, fault.NotFoundf("user %s has no reaction to post %s", user, post)
	}
	return likerOf(like), nil
}

// LikeCount returns a post's counts of reactions. A post that was never liked has the count 0, as of
// the post's creation.
func (s *Service) LikeCount(ctx context.Context, by access.Viewer, post string) (LikeCount, error) {
	var it *table.Item
	err := s.access.All(ctx,
		func(ctx context.Context) error { _, err := s.access.LivingPost(ctx, by, post); return err },
		func(ctx context.Context) (err error) {
			it, err = s.access.Recent.One(ctx, schema.LikeCountKey(post)) //nolint:forbidigo // the check of the post runs beside the read
			return err
		},
	)
	if err != nil {
		return LikeCount{}, err
	}
	count := schema.ParseLikeCount(it)
	if count.AsOf.IsZero() {
		count.AsOf = access.TimeOf(post)
	}
	return LikeCount{count.Shown(), s.access.ShownReactions(count), count.AsOf}, nil
}

// LikesByUser lists the living posts that user likes, newest post first, from the index.
func (s *Service) LikesByUser(ctx context.Context, by access.Viewer, user string, in page.Request) (page.List[LikedPost], error) {
	list, _, err := s.LikesWithPosts(ctx, by, user, in)
	return list, err
}

// LikesWithPosts returns the list of LikesByUser, and the posts by id.
func (s *Service) LikesWithPosts(ctx context.Context, by access.Viewer, user string, in page.Request) (page.List[LikedPost], map[string]access.Seen, error) {
	return s.reactionsWithPosts(ctx, by, user, schema.KindLike, in)
}

// ReactionsByUser lists the living posts to which user has a reaction of any kind, newest post first.
func (s *Service) ReactionsByUser(ctx context.Context, by access.Viewer, user string, in page.Request) (page.List[LikedPost], error) {
	list, _, err := s.reactionsWithPosts(ctx, by, user, "", in)
	return list, err
}

func (s *Service) reactionsWithPosts(ctx context.Context, by access.Viewer, user, kind string, in page.Request) (page.List[LikedPost], map[string]access.Seen, error) {
	if !s.cfg.LikesByUser {
		return page.List[LikedPost]{}, nil, &fault.Error{Kind: fault.IndexOff, Detail: "likes by user are switched off here"}
	}
	parse := page.Each(func(it table.Item) (LikedPost, bool, error) {
		like, err := schema.ParseLike(it)
		return LikedPost{like.Post, access.TimeOf(like.Version), like.Kind}, like.Kind != "" && (kind == "" || like.Kind == kind), err
	})
	living := s.access.LivingFor(by)
	postID := func(l LikedPost) string { return l.PostID }
	byUser := table.Query{Index: true, PK: schema.UserLikesPK(user), Descending: true} //nolint:forbidigo // OfLivingPosts reads the posts
	list, err := listing[LikedPost]{
		scope: page.ListByID("likes-by-user", user, kind), query: byUser, sortKey: schema.PostSK,
		position: postID, fill: access.RefillOfLivingPosts(), read: access.OfLivingPosts(ctx, living, parse, postID),
	}.userPage(ctx, s, in)
	return list, living.Posts, err
}
