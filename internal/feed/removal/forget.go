package removal

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// endsBy reports whether the removal that an event requests ends the life of the profile.
func endsBy(now feed.Standing, event string) bool {
	p := now.Profile
	if p == nil || p.After != "" {
		return p != nil && p.After < event
	}
	return !p.CreatedAt.After(access.TimeOf(event))
}

// beginForget ends the life that an event asks to end, if the sender of the event could not end that
// life. beginForget returns the removal of the event. overtaken reports that a newer removal exists.
func (r *Removals) beginForget(ctx context.Context, user, event string) (removal schema.Removal, overtaken bool, err error) {
	err = r.access.RetryChanged(func() (changed bool, err error) {
		now, err := r.feed.Standing(ctx, user)
		if err != nil {
			return false, err
		}
		removal = now.Removal()
		overtaken = event < removal.Event
		if overtaken || !endsBy(now, event) && (now.Profile != nil || removal.Event == event) {
			return false, nil
		}
		removal, err = r.feed.EndLife(ctx, user, event, now)
		return access.ConditionFailed(err), err
	})
	return removal, overtaken, err
}

// Forget removes up to most records of a user whose removal the event with this id began: the profile,
// the posts, the follows in both directions, comments, likes, bookmarks, read markers, notifications,
// and the user's own mutes and blocks. Other users' mutes and blocks of the user are kept
// (feed/kept.go). Forget removes posts and follows in the same transactions as their users' own calls,
// so homes leave them out at once (I2) and counts stay exact (I4). Forget takes a like back by an
// event; the like is removed once the event is counted (I3). If Forget removes no record, no record is
// left. Forget may be repeated at any time.
//
// Messages in flight may still add records of the user, so Forget is repeated later. If the user has a
// new profile by then, Forget removes only records of former lives.
func (r *Removals) Forget(ctx context.Context, user, event string, most int) (done Forgotten, err error) {
	if err := r.access.Clock.Doubt(); err != nil {
		return done, fault.Wrap("clock", err)
	}
	removal, overtaken, err := r.beginForget(ctx, user, event)
	if err != nil {
		return done, err
	}
	done.Left, done.Overtaken = removal.At, overtaken
	if overtaken {
		return done, nil
	}
	sw := &sweep{r: r, user: user, event: event, most: most, done: &done}
	for _, walk := range []func(context.Context) error{
		sw.posts, sw.own(sw.r.feed.OwnReposts), sw.follows, sw.own(sw.r.feed.OwnMutes), sw.own(sw.r.feed.OwnBookmarks), sw.own(sw.r.feed.OwnMarkers),
		sw.comments, sw.likes, sw.notices,
		sw.blocks, // sw.blocks comes last, because each call reads all kept blocks of the user again
	} {
		err := walk(ctx)
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (sw *sweep) posts(ctx context.Context) error {
	q := table.Query{PK: schema.PostsPK(sw.user), Consistent: true, Project: []string{}}
	return sw.each(ctx, q, func(it table.Item, former string) error {
		post, err := schema.ParsePost(it)
		if err != nil {
			return fault.Wrap("table", err)
		}
		if post.ID > former {
			return errBehind
		}
		err = sw.r.feed.DeletePost(ctx, sw.user, post.ID)
		if foundNothing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return sw.took(&sw.done.Posts, true)
	})
}

func (sw *sweep) follows(ctx context.Context) error {
	for _, pk := range []string{schema.FollowingPK(sw.user), schema.FollowersPK(sw.user)} {
		err := sw.each(ctx, table.Query{PK: pk, Consistent: true}, func(it table.Item, former string) error {
			edge, err := schema.ParseEdge(it)
			if err != nil || edge.Version().After(access.TimeOf(former)) {
				return fault.Wrap("table", err)
			}
			end := sw.r.feed.EndFollow
			if pk == schema.FollowersPK(sw.user) {
				end = sw.r.feed.EndFollower
			}
			ended, err := end(ctx, sw.user, edge.Other, func(now schema.Edge) (bool, error) { return sw.isFormer(ctx, now, edge) })
			if err != nil {
				return err
			}
			return sw.took(&sw.done.Follows, ended)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isFormer reports whether a stored follow is of a former life. read is the edge that the sweep has
// read, under the follower or under the author.
func (sw *sweep) isFormer(ctx context.Context, now, read schema.Edge) (bool, error) {
	if !now.Since.Equal(read.Since) { // another call has renewed the follow
		return false, nil
	}
	if now.Version().Equal(read.Version()) {
		return true, nil
	}
	former, err := sw.former(ctx) // an imported follow: the edge under the author does not have the version
	return err == nil && !now.Version().After(access.TimeOf(former)), err
}

// own removes a sort of things that the user keeps. Other users' mutes of the user are kept
// (feed/kept.go).
func (sw *sweep) own(sort func(user string) feed.Own) func(context.Context) error {
	return func(ctx context.Context) error {
		own := sort(sw.user)
		return sw.each(ctx, own.All, func(it table.Item, former string) error {
			ended, err := own.End(ctx, it, former)
			if err != nil {
				return err
			}
			return sw.took(&sw.done.Own, ended)
		})
	}
}

// notices deletes the user's notifications and their mark. A notification about an own post belongs
// to the life of the post. A mark, and a notification of follows or mentions, belongs to the life of its
// place: notify.writer and notices.MarkRead make all places of a life above the life's after.
func (sw *sweep) notices(ctx context.Context) error {
	return sw.each(ctx, table.Query{PK: schema.NoticesPK(sw.user), Consistent: true}, func(it table.Item, former string) error {
		newest := schema.NoticeMark(&it)
		same := table.Equal{Name: schema.AttrReadTo, Value: table.S(newest)}
		if newest == "" {
			n, err := schema.ParseNotice(it)
			if err != nil {
				return fault.Wrap("table", err)
			}
			newest = n.Highest()
			if n.Kind.OnOwnPost() {
				newest = n.Target
			}
			same = table.Equal{Name: schema.AttrRevision, Value: table.N(n.Revision)}
		}
		if newest > former {
			return nil
		}
		_, err := sw.r.access.Store.Delete(ctx, table.DeleteInput{Key: it.Key, If: same})
		if _, changed := errors.AsType[*table.ConditionError](err); changed {
			return nil // the next sweep finds this item again
		}
		if err != nil {
			return fault.Wrap("table", err)
		}
		return sw.took(&sw.done.Notices, true)
	})
}

// blocks ends the user's own blocks. Other users' blocks of the user are kept (feed/kept.go).
func (sw *sweep) blocks(ctx context.Context) error {
	return sw.each(ctx, table.Query{PK: schema.BlocksPK(sw.user), Consistent: true}, func(it table.Item, former string) error {
		b, err := schema.ParseBlock(it)
		if err != nil || b.Since.IsZero() || b.Since.After(access.TimeOf(former)) {
			return fault.Wrap("table", err)
		}
		ended, err := sw.r.feed.EndBlock(ctx, b)
		if err != nil {
			return err
		}
		return sw.took(&sw.done.Blocks, ended)
	})
}

// foundNothing reports whether a call failed because the record did not exist.
func foundNothing(err error) bool {
	failed, ok := errors.AsType[*fault.Error](err)
	return ok && failed.Kind == fault.NotFound
}

func (sw *sweep) comments(ctx context.Context) error {
	q := table.Query{Index: true, PK: schema.UserCommentsPK(sw.user)}
	return sw.each(ctx, q, func(it table.Item, former string) error {
		c, err := schema.ParseComment(it)
		if err != nil {
			return fault.Wrap("table", err)
		}
		if c.ID > former {
			return errBehind
		}
		err = sw.r.feed.DeleteComment(ctx, sw.user, c.Post, c.ID) // also lowers the post's number of comments (I4)
		if foundNothing(err) {                                    // the index is behind, or the post's purge has missed the comment
			return sw.drop(ctx, it.Key)
		}
		if err != nil {
			return err
		}
		return sw.took(&sw.done.Comments, true)
	})
}

// likes takes back the user's likes. An aggregator that is behind leaves each like in the index, so the
// next walk sends the same messages again; the walks of a removal come at longer and longer intervals
// until one finds other likes.
func (sw *sweep) likes(ctx context.Context) error {
	now, first := sw.r.access.Now(), ""
	if sw.done.Wait = sw.r.takenBack.rest(sw.event, now); sw.done.Wait > 0 {
		return nil
	}
	err := sw.each(ctx, table.Query{Index: true, PK: schema.UserLikesPK(sw.user)}, func(it table.Item, former string) error {
		like, err := schema.ParseLike(it)
		if err != nil || like.Kind == "" || like.Version > former {
			return fault.Wrap("table", err)
		}
		_, err = sw.r.access.LivingPost(ctx, access.AnyAudience(access.Worker), like.Post)
		if foundNothing(err) { // no aggregator counts the post's likes any more, and the post's purge has missed the like
			return sw.drop(ctx, it.Key)
		}
		if err != nil {
			return err
		}
		version, err := sw.withdrawal(like.Version)
		if err != nil {
			return err
		}
		e := &messages.Unliked{Like: messages.Like{PostID: like.Post, UserID: sw.user}}
		if err := sw.r.access.PublishAs(ctx, queue.TopicLikes, e, version); err != nil {
			return err
		}
		first = cmp.Or(first, like.Post)
		return sw.took(&sw.done.Likes, true)
	})
	if first != "" && (err == nil || errors.Is(err, errEnough)) {
		sw.done.Wait = sw.r.takenBack.sent(sw.event, first, now)
	}
	return err
}

// withdrawal returns the version of the action that takes back a like of a former life. The version is
// above the like's version and below all versions of a new life, so it is not a new id of the present.
// If the user likes the post again, the aggregator refuses the later of the two messages, whichever of
// the two actions that is.
func (sw *sweep) withdrawal(like string) (string, error) {
	version, err := sw.r.access.IDs.Before(sw.event)
	if err == nil && version <= like {
		version, err = id.Successor(like)
	}
	if err != nil {
		return "", fmt.Errorf("removal: %w", err)
	}
	return version, nil
}
