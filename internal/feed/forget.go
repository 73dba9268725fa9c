package feed

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// AskToForget begins to remove a user and all that the user made. The event is the durable
// commit (I5): workers do the rest, by Forget. The profile goes at once, so the user can write
// nothing more. The user may make a new profile, and keeps all that is made after that.
func (s *Service) AskToForget(ctx context.Context, user string) (event string, err error) {
	e := &messages.UserForgotten{UserID: user}
	if err := s.access.Publish(ctx, queue.TopicBackfills, e); err != nil {
		return "", err
	}
	if _, err := s.forgetProfile(ctx, user, e.EventID); err != nil {
		s.access.Log.Warn("profile not removed: a worker will remove it", zap.String("request_id", s.access.RequestID(ctx)), trace.ID(ctx),
			zap.String("user_id", user), zap.Error(err))
	}
	return e.EventID, nil
}

// DeleteProfile is AskToForget for a user with a profile. Without one, nothing is to be done:
// the event was sent before the profile went.
func (s *Service) DeleteProfile(ctx context.Context, user string) error {
	it, err := s.access.Get(ctx, schema.ProfileKey(user), true)
	if err != nil || it == nil {
		return err
	}
	_, err = s.AskToForget(ctx, user)
	return err
}

// Forgotten counts the things that one Forget removed.
type Forgotten struct{ Posts, Follows, Mutes, Blocks, Comments, Likes int }

// Sum is the number of all of them.
func (f Forgotten) Sum() int {
	return f.Posts + f.Follows + f.Mutes + f.Blocks + f.Comments + f.Likes
}

// forgetProfile removes the profile, if it is of the time before an event, and reports whether a
// newer one is there. Where no profile is, a note of the removal is: one transaction writes the
// note and deletes the profile, and another one writes a new profile and deletes the note. So nobody takes a user who is being removed for damage.
func (s *Service) forgetProfile(ctx context.Context, user, event string) (again bool, err error) {
	err = s.access.RetryChanged(func() (changed bool, err error) {
		var ops []table.TransactOp
		if ops, again, err = s.profileGoes(ctx, user, event); err != nil || len(ops) == 0 {
			return false, err
		}
		s.cfg.Authors.forget(user)
		err = s.access.Transact(ctx, ops...)
		return access.ConditionFailed(err), err
	})
	return again, err
}

// profileGoes returns the transaction of forgetProfile, none if it has nothing to do.
func (s *Service) profileGoes(ctx context.Context, user, event string) (ops []table.TransactOp, again bool, err error) {
	profile, note := schema.ProfileKey(user), schema.ForgottenKey(user)
	found, err := s.access.BatchGet(ctx, []table.Key{profile, note}, true)
	if err != nil {
		return nil, false, err
	}
	it, there := found[profile]
	if there {
		p, err := schema.ParseProfile(it)
		if err != nil || p.CreatedAt.After(access.TimeOf(event)) {
			return nil, err == nil, fault.Wrap("table", err)
		}
		ops = append(ops, table.TransactOp{Delete: &table.DeleteInput{
			Key: profile, If: table.Equal{Name: schema.AttrCreated, Value: it.Get(schema.AttrCreated)},
		}})
	}
	switch old := found[note]; {
	case old.Str(schema.AttrEvent) < event:
		removal := schema.Removal{User: user, Event: event, At: s.access.Now()}
		ops = append(ops, table.TransactOp{Put: &table.PutInput{
			Item: removal.Item(), If: table.Any{table.Absent{}, table.Less{Name: schema.AttrEvent, Value: table.S(event)}},
		}})
		if !there { // else a user who comes back meanwhile has a note beside the profile
			ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: profile, If: table.Absent{}}})
		}
	case there:
		ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: note, If: table.Exists{}}})
	}
	return ops, false, nil
}

// errEnough ends a walk of Forget that has removed its share.
var errEnough = errors.New("enough removed")

// Forget removes up to most things of a user that asked for it by an event with this id: the
// profile, the posts, the follows in both directions, comments, likes, and the user's own mutes and
// blocks. Mutes and blocks of the user, by other users, are kept (kept.go). Posts and follows
// go as their users' own calls would make them go, so homes leave them out at once (I2) and
// counts stay exact (I4); a like is taken back by an event, and gone once that is counted
// (I3). Nothing else is left if it removes nothing. It may be repeated at any time.
//
// Events of the user that were on their way may still be applied, so it is repeated later. If
// the user has a new profile by then, only things from before the event go.
func (s *Service) Forget(ctx context.Context, user, event string, most int) (done Forgotten, err error) {
	began := id.Floor(s.access.Now())
	if err := s.access.Clock.Doubt(); err != nil {
		return done, fault.Wrap("clock", err)
	}
	again, err := s.forgetProfile(ctx, user, event)
	if err != nil {
		return done, err
	}
	before := max(event, began)
	if again {
		before = event
	}
	enough := func() error {
		if done.Sum() >= most {
			return errEnough
		}
		return nil
	}
	for _, walk := range []func() error{
		func() error { return s.forgetPosts(ctx, user, before, &done, enough) },
		func() error { return s.forgetFollows(ctx, user, access.TimeOf(before), &done, enough) },
		func() error { return s.forgetMutes(ctx, user, access.TimeOf(before), &done, enough) },
		func() error { return s.forgetComments(ctx, user, before, &done, enough) },
		func() error { return s.forgetLikes(ctx, user, before, &done, enough) },
		// The last, because each call reads all kept blocks of the user again.
		func() error { return s.forgetBlocks(ctx, user, access.TimeOf(before), &done, enough) },
	} {
		err := walk()
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (s *Service) forgetPosts(ctx context.Context, user, before string, done *Forgotten, enough func() error) error {
	q := table.Query{PK: schema.PostsPK(user), High: schema.PostSK(before), Consistent: true, Project: []string{}}
	return s.access.EachItem(ctx, q, func(it table.Item) error {
		post, err := schema.ParsePost(it)
		if err != nil {
			return fault.Wrap("table", err)
		}
		err = s.DeletePost(ctx, user, post.ID)
		if gone, ok := errors.AsType[*fault.Error](err); ok && gone.Kind == fault.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		done.Posts++
		return enough()
	})
}

func (s *Service) forgetFollows(ctx context.Context, user string, before time.Time, done *Forgotten, enough func() error) error {
	for _, pk := range []string{schema.FollowingPK(user), schema.FollowersPK(user)} {
		err := s.access.EachItem(ctx, table.Query{PK: pk, Consistent: true}, func(it table.Item) error {
			edge, err := schema.ParseEdge(it)
			if err != nil || edge.Since.After(before) {
				return fault.Wrap("table", err)
			}
			follower, author := user, edge.Other
			if pk == schema.FollowersPK(user) {
				follower, author = edge.Other, user
			}
			err = s.access.RetryChanged(func() (bool, error) {
				now, err := s.readEdge(ctx, follower, author)
				if err != nil || now.edge == nil {
					return false, err
				}
				return s.endFollow(ctx, follower, author, now)
			})
			if err != nil {
				return err
			}
			done.Follows++
			return enough()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetMutes removes the user's mutes. Mutes of the user are kept for the users who made them (kept.go).
func (s *Service) forgetMutes(ctx context.Context, user string, before time.Time, done *Forgotten, enough func() error) error {
	q := table.Query{PK: schema.MarksPK(user), Low: schema.SortMute, High: schema.SortMuteEnd, Consistent: true}
	return s.access.EachItem(ctx, q, func(it table.Item) error {
		m, err := schema.ParseMute(it)
		if err != nil || m.Since.After(before) {
			return fault.Wrap("table", err)
		}
		if err := s.endMute(ctx, m.User, m.Author); err != nil {
			return err
		}
		done.Mutes++
		return enough()
	})
}

// forgetBlocks ends the user's blocks. Blocks of the user are kept for the users who made them (kept.go).
func (s *Service) forgetBlocks(ctx context.Context, user string, before time.Time, done *Forgotten, enough func() error) error {
	old := func(at time.Time) bool { return !at.After(before) }
	return s.access.EachItem(ctx, table.Query{PK: schema.BlocksPK(user), Consistent: true}, func(it table.Item) error {
		b, err := schema.ParseBlock(it)
		if err != nil || b.Since.IsZero() || !old(b.Since) {
			return fault.Wrap("table", err)
		}
		err = s.access.RetryChanged(func() (bool, error) {
			now, err := s.readBlocks(ctx, user, b.Other)
			if err != nil {
				return false, err
			}
			return s.endBlock(ctx, user, b.Other, now, old)
		})
		if err != nil {
			return err
		}
		done.Blocks++
		return enough()
	})
}

// readEdge is readFollow for users whose profile may be gone.
func (s *Service) readEdge(ctx context.Context, follower, author string) (now following, err error) {
	edge, mark := schema.FollowingKey(follower, author), schema.MarkKey(follower, author)
	found, err := s.access.BatchGet(ctx, []table.Key{edge, mark}, true)
	if it, ok := found[edge]; ok {
		now.edge = &it
	}
	if it, ok := found[mark]; ok {
		now.mark = &it
	}
	return now, err
}

// foundNothing reports whether a call found nothing.
func foundNothing(err error) bool {
	failed, ok := errors.AsType[*fault.Error](err)
	return ok && failed.Kind == fault.NotFound
}

func (s *Service) forgetComments(ctx context.Context, user, before string, done *Forgotten, enough func() error) error {
	q := table.Query{Index: true, PK: schema.UserCommentsPK(user), High: schema.CommentSK(before)}
	return s.access.EachItem(ctx, q, func(it table.Item) error {
		c, err := schema.ParseComment(it)
		if err != nil {
			return fault.Wrap("table", err)
		}
		err = s.DeleteComment(ctx, user, c.Post, c.ID) // and the post's count of it (I4)
		if foundNothing(err) {                         // the index is behind, or the post's purge has missed the comment
			_, err := s.access.Store.Delete(ctx, table.DeleteInput{Key: it.Key})
			return fault.Wrap("table", err)
		}
		if err != nil {
			return err
		}
		done.Comments++
		return enough()
	})
}

func (s *Service) forgetLikes(ctx context.Context, user, before string, done *Forgotten, enough func() error) error {
	return s.access.EachItem(ctx, table.Query{Index: true, PK: schema.UserLikesPK(user)}, func(it table.Item) error {
		like, err := schema.ParseLike(it)
		if err != nil || !like.Liked || like.Version > before {
			return fault.Wrap("table", err)
		}
		_, err = s.access.LivingPost(ctx, like.Post)
		if foundNothing(err) { // no aggregator counts for it any more, and its purge has missed the like
			_, err := s.access.Store.Delete(ctx, table.DeleteInput{Key: it.Key})
			return fault.Wrap("table", err)
		}
		if err != nil {
			return err
		}
		e := &messages.Unliked{Like: messages.Like{PostID: like.Post, UserID: user}}
		if err := s.access.PublishAbove(ctx, queue.TopicLikes, e, like.Version); err != nil {
			return err
		}
		done.Likes++
		return enough()
	})
}
