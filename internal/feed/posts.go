package feed

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// Post returns a living post.
func (s *Service) Post(ctx context.Context, by access.Viewer, post string) (Post, error) {
	seen, err := s.access.LivingPost(ctx, by, post)
	if err != nil {
		return Post{}, err
	}
	key := schema.PostKey(seen.Ref().Author, post)
	found, err := s.access.Posts(ctx, by, []table.Key{key})
	if err != nil {
		return Post{}, err
	}
	read, there, err := found.Of(key)
	if err == nil && !there { // deleted after LivingPost read it
		err = fault.NotFoundf("post %s was deleted", post)
	}
	if err != nil {
		return Post{}, err
	}
	return postOf(read), nil
}

// ownPost returns user's living post. If the error is NotFound, the post is the stored post, if any.
func (s *Service) ownPost(ctx context.Context, user, post string) (schema.PostRef, error) {
	seen, err := s.access.LivingPost(ctx, access.As(user), post)
	byID := seen.Ref()
	if err != nil {
		return byID, err
	}
	if byID.Author != user {
		return schema.PostRef{}, s.access.Refuse(ctx, user, "the post belongs to another user")
	}
	return byID, nil
}

// DeletePost permanently deletes a post by user. One transaction removes the post from its author's
// list, replaces the post by id by a tombstone, and lowers the author's count (I4). Fan-outs read the
// tombstone before each page of followers. Home reads leave out deleted posts, so DeletePost need not
// find timeline entries (I2).
//
// The call whose transaction made the tombstone publishes PostDeleted, so each deletion has one event.
// If the process crashes or the queue fails before the publish, the tombstone has no purge, and the
// auditor finds the tombstone. A failing queue does not delay the deletion.
//
// No message restores the post: writePost requires that the post by id is absent, and the tombstone
// outlives every message that could restore the post (I2). That also holds for a post whose event is in a
// queue, and which the table does not have yet: DeletePost makes its tombstone, and returns NotFound.
func (s *Service) DeletePost(ctx context.Context, user, post string) error {
	return s.access.RetryChanged(func() (changed bool, err error) { return s.deleteOwn(ctx, user, post) })
}

// deleteOwn makes one attempt of DeletePost. changed reports that the post was made after the read.
func (s *Service) deleteOwn(ctx context.Context, user, post string) (changed bool, err error) {
	var byID schema.PostRef
	var counts *table.Item
	var missing error
	err = s.access.All(ctx,
		func(ctx context.Context) (err error) {
			byID, missing = s.ownPost(ctx, user, post)
			return access.Failure(missing)
		},
		func(ctx context.Context) (err error) {
			counts, err = s.access.Get(ctx, schema.CountsKey(user), true)
			return err
		},
	)
	if err = cmp.Or(err, missing); err == nil {
		return s.deletePost(ctx, byID, counts)
	}
	foreign := byID.Unmade && byID.Author != user
	if notFound, _ := errors.AsType[*fault.Error](err); notFound == nil || notFound.Kind != fault.NotFound || byID.ID != "" && !foreign {
		return false, err
	}
	switch comes, failed := s.mayBeMade(ctx, user, post); {
	case failed != nil:
		return false, failed
	case comes && foreign: // that tombstone keeps no post of this user away
		return false, &fault.Error{Kind: fault.Unavailable, RetryAfter: fault.RetryAfter, Detail: "your post may not be written yet: try again"}
	case comes:
		if changed, failed := s.buryUnmade(ctx, user, post); failed != nil {
			return changed, failed
		}
	}
	return false, err
}

// mayBeMade reports whether a message may still make a post of a user that the table does not have.
func (s *Service) mayBeMade(ctx context.Context, user, post string) (bool, error) {
	// While the clock is in doubt, any message may be young enough, and a tombstone that nobody needs is harmless.
	if _, never := errors.AsType[*messages.PermanentError](s.access.Clock.CheckAge("id", post, s.access.Now())); never {
		return false, nil
	}
	err := s.access.RequireWriter(ctx, user) // only a user with a profile makes posts
	return err == nil, access.Failure(err)
}

// buryUnmade makes the tombstone of a post that the table does not have, so that the answer of the deletion stays true: there
// is no such post. changed reports that another call has made the post, or the tombstone.
func (s *Service) buryUnmade(ctx context.Context, user, post string) (changed bool, err error) {
	lives, err := s.access.Lives(ctx)
	if err != nil {
		return false, err
	}
	tombstone := schema.PostRef{
		ID: post, Author: user, LikeShards: 1, Deleted: true, Purged: true, Unmade: true, TTL: s.tombstoneUntil(lives),
	}
	_, err = s.access.Store.Put(ctx, table.PutInput{Item: tombstone.Item(), If: table.Absent{}})
	return access.ConditionFailed(err), fault.Wrap("table", err)
}

// tombstoneUntil returns the expiry of a tombstone that is made now.
func (s *Service) tombstoneUntil(lives schema.Lifetimes) time.Time {
	return s.access.Now().Add(lives.Longest() + schema.DeliveryKept)
}

// deletePost deletes a living post. counts is the author's count item, nil for none. changed reports that a call has flagged
// the post as referred to after the read.
func (s *Service) deletePost(ctx context.Context, byID schema.PostRef, counts *table.Item) (changed bool, err error) {
	user, post := byID.Author, byID.ID
	lives, err := s.access.Lives(ctx)
	if err != nil {
		return false, err
	}
	var last schema.Post
	if byID.Mentions || byID.RepostOf != "" { // after the deletion the post cannot be read
		if last, err = s.lastOf(ctx, user, post); err != nil {
			return false, err
		}
	}
	if last.RepostOf != "" {
		s.takeBack(ctx, reposted(last, true))
	}
	byID.Deleted = true
	byID.TTL = s.tombstoneUntil(lives)
	goes := table.TransactOp{Delete: &table.DeleteInput{Key: schema.PostKey(user, post), If: table.Exists{}}}
	lower := &table.UpdateInput{Key: schema.CountsKey(user)}
	if byID.End.IsZero() { // a post with an end was never counted
		lower = access.AddTo(lower.Key, schema.AttrPosts, -1)
	}
	if counts == nil || counts.Str(schema.AttrLastDel) < post {
		raise := *lower
		raise.Set = []table.Attr{{Name: schema.AttrLastDel, Value: table.S(post)}}
		raise.If = table.Any{table.AttrAbsent{Name: schema.AttrLastDel}, table.Less{Name: schema.AttrLastDel, Value: table.S(post)}}
		if err = s.bury(ctx, byID, last, goes, table.TransactOp{Update: &raise}); !access.ConditionFailed(err) {
			return false, fault.Wrap("table", err)
		}
		// The post is gone, or referred to, or a newer post was deleted after the read.
	}
	ops := []table.TransactOp{goes}
	if len(lower.Add) > 0 {
		ops = append(ops, table.TransactOp{Update: lower})
	}
	if err = s.bury(ctx, byID, last, ops...); access.ConditionFailed(err) {
		now, failed := s.access.PostOfAnyAudience(ctx, access.Author, post)
		if failed != nil || !now.Deleted && now.Referred != byID.Referred {
			return failed == nil, failed
		}
		return false, fault.NotFoundf("post %s was deleted", post)
	}
	return false, fault.Wrap("table", err)
}

// askForPurge is the maximum time for which a deletion waits for the queue.
const askForPurge = time.Second

// AskToPurge publishes PostDeleted for a post whose purge is overdue. The event names no mentions,
// because the ids that the post mentioned are no longer known.
func (s *Service) AskToPurge(ctx context.Context, user, post string) {
	s.askToPurge(ctx, &messages.PostDeleted{PostID: post, AuthorID: user})
}

// askToPurge publishes e, even if the caller has left. If publishing fails, an auditor publishes the
// event again.
func (s *Service) askToPurge(ctx context.Context, e *messages.PostDeleted) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askForPurge)
	defer cancel()
	if err := s.access.Publish(ctx, queue.TopicBackfills, e); err != nil {
		s.access.Log.Warn("the comments and likes of a deleted post stay until an auditor finds them", zap.String("request_id", s.access.RequestID(ctx)), trace.ID(ctx),
			zap.String("post", e.PostID), zap.Error(err))
	}
}

// bury makes the transaction of a deletion: the tombstone, and ops. Every deletion uses bury. bury
// requests the purge if the transaction made the tombstone, or may have made the tombstone. last is the post as it was,
// with its mentions and its reference, empty if it is lost.
func (s *Service) bury(ctx context.Context, tombstone schema.PostRef, last schema.Post, ops ...table.TransactOp) error {
	living := table.All{table.Exists{}, table.AttrAbsent{Name: schema.AttrDeleted}}
	if !tombstone.Referred { // the homes that show a repost of the post would not hear of the deletion
		living = append(living, table.AttrAbsent{Name: schema.AttrReferred})
	}
	ops, err := s.noted(ops, tombstone)
	if err != nil {
		return fault.Wrap("id", err)
	}
	err = s.access.Transact(ctx, append(ops, table.TransactOp{Put: &table.PutInput{Item: tombstone.Item(), If: living}})...)
	if _, cancelled := errors.AsType[*table.CancelledError](err); !cancelled {
		access.Cause(ctx, costOfPurge(len(last.Mentions)))
		s.askToPurge(ctx, &messages.PostDeleted{PostID: tombstone.ID, AuthorID: tombstone.Author, Mentions: last.Mentions})
	}
	if err == nil && last.RepostOf != "" {
		s.endCount(ctx, last)
	}
	return err
}

// endCount takes an ended repost out of the count of its original, as soon as possible. The purge of the repost does the same
// minutes later.
func (s *Service) endCount(ctx context.Context, repost schema.Post) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askForPurge)
	defer cancel()
	access.Cause(ctx, unitsOfCounted)
	if err := s.access.PublishAbove(ctx, queue.TopicLikes, reposted(repost, true), repost.ID); err != nil {
		s.access.Log.Warn("a repost counts until its purge", zap.String("request_id", s.access.RequestID(ctx)), trace.ID(ctx), zap.String("post", repost.ID), zap.Error(err))
	}
}

// AskToCount publishes Reposted for a repost that does not count, unless the repost is too old for its event: the aggregator
// would refuse the event for good, at each walk of an auditor.
func (s *Service) AskToCount(ctx context.Context, repost schema.Post) {
	if s.access.Clock.CheckAge("id", repost.ID, s.access.Now()) != nil {
		return
	}
	if err := s.access.PublishAs(ctx, queue.TopicLikes, reposted(repost, false), repost.ID); err != nil {
		s.access.Log.Warn("a repost does not count until an auditor finds it", zap.String("post", repost.ID), zap.Error(err))
	}
}

// reposted returns the event of a repost, or of its end.
func reposted(p schema.Post, ended bool) *messages.Reposted {
	return &messages.Reposted{PostID: p.RepostOf, AuthorID: p.OfAuthor, RepostID: p.ID, UserID: p.Author, Deleted: ended}
}

// lastOf returns a post before its deletion. It fails if the post was deleted in the meantime, or if its transaction is not wholly
// visible yet: a deletion that does not know the post would take nothing back.
func (s *Service) lastOf(ctx context.Context, author, post string) (schema.Post, error) {
	p, err := s.access.StoredPost(ctx, access.Author, author, post)
	if err != nil {
		return schema.Post{}, err
	}
	if p == nil {
		return schema.Post{}, &fault.Error{Kind: fault.Unavailable, RetryAfter: fault.RetryAfter, Detail: "another call writes or deletes your post: try again"}
	}
	return *p, nil
}

// PostsByUser lists user's living posts in a range of time, newest first. Ids begin
// with their time, so the range of time is a range of keys.
func (s *Service) PostsByUser(ctx context.Context, by access.Viewer, user string, in PostRange, req page.Request) (page.List[Post], error) {
	list, _, err := s.PostsWithItems(ctx, by, user, in, req)
	return list, err
}

// PostsWithItems returns the list of PostsByUser, and the stored posts by key.
func (s *Service) PostsWithItems(ctx context.Context, by access.Viewer, user string, in PostRange, req page.Request) (page.List[Post], access.Readables, error) {
	low, high := id.Min, ""
	if !in.Since.IsZero() {
		low = id.Floor(ceilMilli(in.Since))
	}
	if !in.Until.IsZero() {
		high = id.Floor(ceilMilli(in.Until))
	}
	scope := page.ListByID("posts", user, low+"-"+high)
	before, err := scope.Position(req.Cursor)
	if err != nil {
		return page.List[Post]{}, access.Readables{}, err
	}
	if high != "" && high <= low {
		return page.List[Post]{}, access.Readables{}, s.access.RequireUser(ctx, user)
	}
	stored, read, err := s.access.PostsOf(ctx, by, user, access.Span{Low: low, High: cmp.Or(before, high)}, req.Size()+1)
	if err != nil {
		return page.List[Post]{}, access.Readables{}, err
	}
	posts := page.Stretch[Post]{Items: make([]Post, len(stored.Items)), Cut: stored.Cut}
	for i, p := range stored.Items {
		posts.Items[i] = postOf(p)
	}
	list, err := access.UserPage(ctx, s.access, posts, req, scope, func(p Post) string { return p.ID })
	return list, read, err
}

// ceilMilli rounds up to a millisecond, the precision of ids, because a range that begins half a
// millisecond after a post must leave out that post.
func ceilMilli(t time.Time) time.Time {
	if down := t.Truncate(time.Millisecond); down.Before(t) {
		return down.Add(time.Millisecond)
	}
	return t
}

// lookForPost reads a post. If the post is not in its author's list, lookForPost reads the post's
// tombstone. lookForPost repeats both reads until it finds the post or the tombstone, or until lookFor
// is over; then it returns nil. A living post by id alone does not count, because the items of a
// transaction may become visible one by one.
func (s *Service) lookForPost(ctx context.Context, why access.Reason, author, post string) (*schema.Post, error) {
	waits := backoff.Exponential{First: lookAgain, Most: lookFor}
	if s.access.Local {
		waits.First = lookAgainLocal
	}
	waited := time.Duration(0)
	for try := 1; ; try++ {
		found, err := s.access.StoredPost(ctx, why, author, post)
		if err != nil || found != nil {
			return found, err
		}
		it, err := s.access.Get(ctx, schema.PostByIDKey(post), true)
		if err != nil {
			return nil, err
		}
		if it != nil {
			ref, err := schema.ParsePostRef(*it) //nolint:forbidigo // for why, as the post
			if err != nil {
				return nil, fault.Wrap("table", err)
			}
			if ref.Gone(s.access.Now()) && ref.Author == author {
				return &schema.Post{ID: post, Author: author, LikeShards: ref.LikeShards, Content: schema.Content{ExpiresAt: ref.End}, Deleted: true}, nil
			}
		}
		if waited >= lookFor {
			return nil, nil
		}
		wait := min(waits.Bound(try), lookFor-waited)
		if err := backoff.Wait(ctx, wait); err != nil {
			return nil, fault.Wrap("table", err)
		}
		waited += wait
	}
}

// lookFor is the time for which a worker, or a repeated call, waits for the post to appear before it
// writes the post itself. lookFor is longer than the API's own transaction, so that the two
// transactions do not conflict.
const lookFor = 200 * time.Millisecond

// lookAgain is the wait before the second look on DynamoDB, and lookAgainLocal in the same process.
// The wait is about as long as the API's transaction. Each later wait is twice as long as the wait
// before it.
const lookAgain, lookAgainLocal = 12500 * time.Microsecond, time.Millisecond
