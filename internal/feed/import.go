package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file contains the writes of an import: the writes of the API, for records of any age. Each
// write may be repeated, and leaves existing records unchanged. No write publishes an event.

// Check returns the faults of a profile.
func (in ProfileInput) Check() []fault.FieldError { return faults(in.validate()) }

// Check returns the faults of a post.
func (in PostInput) Check() []fault.FieldError { return faults(in.validate()) }

// Check returns the faults of a comment.
func (in CommentInput) Check() []fault.FieldError { return faults(in.validate()) }

func faults(err error) []fault.FieldError {
	if invalid, ok := errors.AsType[*fault.Error](err); ok {
		return invalid.Fields
	}
	return nil
}

// ImportUser makes a user with a past time of creation.
func (s *Service) ImportUser(ctx context.Context, user string, in ProfileInput, made time.Time) error {
	if err := in.validate(); err != nil {
		return err
	}
	now, err := s.Standing(ctx, user)
	if err != nil {
		return err
	}
	if err := s.notBeingRemoved(user, now); err != nil || now.Profile != nil {
		return err
	}
	profile := schema.Profile{User: user, Name: in.Name, Bio: in.Bio, ImageURL: in.ImageURL, CreatedAt: made}
	if in.Data != nil {
		profile.Data = *in.Data
	}
	if err := s.beginLife(&profile, now.Note); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	err = s.writeProfile(ctx, profile, table.Absent{}, now.Note, use{})
	if access.ConditionFailed(err) {
		return nil
	}
	return fault.Wrap("table", err)
}

// mostRemoval is the time after which a removal without an outage is complete, including its last look
// and the sweeps that follow.
const mostRemoval = 75 * time.Minute

// notBeingRemoved refuses an import for a user whose removal may still run. The removal would delete
// the imported records: the ids of these records have the times of the file, so the records look like
// records of the former life.
func (s *Service) notBeingRemoved(user string, now Standing) error {
	over := now.Removal().At.Add(mostRemoval)
	if s.access.Now().After(over) {
		return nil
	}
	return &fault.Error{
		Kind: fault.Invalid, Detail: fmt.Sprintf("user %s is being removed", user),
		Fields: []fault.FieldError{{Field: "id", Detail: fmt.Sprintf("%s is being removed: import again after %s", user, over.Format(time.RFC3339))}},
	}
}

// PastFollow is a follow with a past time that shows the author's posts from the id From on.
type PastFollow struct {
	Follower, Author, From string
	Since                  time.Time
	Silent                 bool
}

// ImportFollow makes a follow with a past time.
// pending reports that the posts still have to be copied; the caller then sends Followed. Until the
// posts are copied, homes merge the posts in.
func (s *Service) ImportFollow(ctx context.Context, in PastFollow) (pending bool, err error) {
	follower, author, since := in.Follower, in.Author, in.Since
	if err := notSelf(follower, author); err != nil {
		return false, err
	}
	err = s.access.RetryChanged(func() (bool, error) {
		now, err := s.readFollow(ctx, follower, author, schema.CountsKey(follower))
		if err != nil {
			return false, err
		}
		now.silent = in.Silent
		if now.edge != nil {
			edge, err := schema.ParseEdge(*now.edge)
			if err != nil {
				return false, fault.Wrap("table", err)
			}
			if isFormer(edge.Version(), now.after) {
				return s.renewFollow(ctx, follower, author, now, since, above(now.after, since))
			}
			pending = now.mark != nil && now.mark.Str(schema.AttrKind) == string(schema.MarkBackfill) && !now.mark.Has(schema.AttrUntil)
			return false, nil
		}
		pending = true
		version, err := s.markVersion(now.mark, now.after)
		if err != nil {
			return false, err
		}
		// The mark has no FollowID, because an import notifies no user, even if another process requests the
		// backfill.
		mark := schema.Mark{User: follower, Author: author, Kind: schema.MarkBackfill, From: in.From, Version: version}
		return s.makeFollow(ctx, now, mark, since)
	})
	return pending, err
}

// ImportMute makes a mute with a past time. The author may be a removed user: an export contains
// kept mutes, too.
func (s *Service) ImportMute(ctx context.Context, user, author string, since time.Time) error {
	return s.access.RetryChanged(func() (bool, error) {
		found, err := s.readMute(ctx, user, author, schema.ForgottenKey(author))
		if err != nil {
			return false, err
		}
		return s.mute(ctx, schema.Mute{User: user, Author: author, Since: since}, found, s.keeps(found, author)...)
	})
}

// ImportBlock makes a block with a past time, and ends the follows between the two users. The other
// user may be a removed user, as in ImportMute.
func (s *Service) ImportBlock(ctx context.Context, user, other string, since time.Time) error {
	if err := notSelfBlocked(user, other); err != nil {
		return err
	}
	return s.access.RetryChanged(func() (bool, error) {
		now, err := s.readBlocks(ctx, user, other)
		if err != nil {
			return false, err
		}
		if _, ok := now[schema.ProfileKey(user)]; !ok {
			return false, fault.NoProfile(user)
		}
		if err := s.addNotes(ctx, now, other); err != nil {
			return false, err
		}
		return s.block(ctx, schema.Block{User: user, Other: other, Since: since}, now, s.keeps(now, other)...)
	})
}

// ImportPost makes a post as its author wrote and edited the post, and returns the stored post by id.
// A post that has become a tombstone stays a tombstone (I2). A post that is too old for homes gets no
// timeline entry. A quote of a post that is gone or unknown becomes a post without a reference.
func (s *Service) ImportPost(ctx context.Context, post schema.Post) (schema.PostRef, error) {
	if post.QuoteOf != "" {
		of, err := s.original(ctx, access.AnyAudience(access.Operator), post.QuoteOf)
		if err == nil {
			err = s.refer(ctx, of)
		}
		if failed := access.Failure(err); failed != nil {
			return schema.PostRef{}, failed
		}
		post.Reference = Reference{}
		if err == nil {
			post.Reference = Reference{QuoteOf: of.ID, OfAuthor: of.Author, OfShards: of.LikeShards}
		}
	}
	return s.importPost(ctx, post, nil)
}

// ImportRepost makes a user's repost with a past time, and its binding in the same transaction. It returns the stored
// repost by id. Deleted is set if the import made no such repost, because the original is gone, or because the user has
// another repost of the original.
func (s *Service) ImportRepost(ctx context.Context, repost, user, post string) (made schema.PostRef, err error) {
	err = s.access.RetryChanged(func() (bool, error) {
		made = schema.PostRef{Deleted: true}
		after, of, err := s.access.WriterAndPost(ctx, access.AnyAudience(access.Operator), user, post)
		if err == nil {
			err = s.refer(ctx, of)
		}
		if gone, ok := errors.AsType[*fault.Error](err); ok && gone.Kind == fault.NotFound {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		binding := schema.Repost{User: user, Of: post, R: repost}
		bound, byID, changed, err := s.livingRepost(ctx, binding, after)
		switch {
		case changed || err != nil:
			return changed, err
		case byID != nil && bound.R == repost:
			made = *byID
			return false, nil
		case bound.User != "":
			return false, nil
		}
		if repost <= after { // the removal of the former life is over, so this repost belongs to the present life
			if binding.V, err = id.Named(above(after, access.TimeOf(repost)), repost); err != nil {
				return false, fmt.Errorf("feed: %w", err)
			}
		}
		made, err = s.importPost(ctx, schema.Post{
			ID: repost, Author: user, Content: Content{ExpiresAt: of.End}, Reference: Reference{RepostOf: of.ID, OfAuthor: of.Author, OfShards: of.LikeShards},
		}, &table.PutInput{Item: binding.Item(), If: boundTo(bound.R)})
		return access.ConditionFailed(err), err
	})
	return made, err
}

// importPost makes a post, with the write beside it, if not nil, in the same transaction.
func (s *Service) importPost(ctx context.Context, post schema.Post, beside *table.PutInput) (schema.PostRef, error) {
	in := PostInput{Content: post.Content}
	if err := in.validateWith(post.Reference); err != nil {
		return schema.PostRef{}, err
	}
	post.Content = in.Content
	it, err := s.access.Get(ctx, schema.PostByIDKey(post.ID), true)
	if err != nil {
		return schema.PostRef{}, err
	}
	if it != nil {
		ref, err := schema.ParsePostRef(*it) //nolint:forbidigo // an import of an operator
		if err == nil && ref.Author != post.Author {
			err = &ownedError{post.ID, post.Author, ref.Author}
		}
		if err != nil && !ref.Unmade || err == nil {
			return ref, err
		}
	}
	profile, counts, err := s.readUser(ctx, post.Author)
	if err != nil {
		return schema.PostRef{}, err
	}
	if profile == nil {
		return schema.PostRef{}, fault.NoProfile(post.Author)
	}
	post.LikeShards = s.likeShards(counts)
	oldest, err := s.access.OldestShown(ctx)
	if err != nil {
		return schema.PostRef{}, err
	}
	if lives, err := s.access.Lives(ctx); err != nil {
		return schema.PostRef{}, err
	} else if ref := post.Ref(lives.Longest()); ref.Gone(s.access.Now()) { // store only a tombstone
		ref.Deleted, ref.Purged, ref.TTL = true, true, s.access.Now().Add(lives.Longest()+schema.DeliveryKept)
		_, err := s.access.Store.Put(ctx, table.PutInput{Item: ref.Item(), If: table.Absent{}})
		if access.ConditionFailed(err) { // an earlier attempt succeeded without an answer
			err = nil
		}
		return ref, fault.Wrap("table", err)
	}
	ref, _, err := s.putPost(ctx, post, posting{shown: post.ID >= oldest, beside: beside})
	return ref, err
}

// ImportComment makes a comment of a post, unless the post was deleted.
func (s *Service) ImportComment(ctx context.Context, c Comment) error {
	in := CommentInput{c.Text, c.Data, c.Mentions}
	if err := in.validate(); err != nil {
		return err
	}
	stored := schema.Comment{ID: c.ID, Post: c.PostID, Author: c.AuthorID, Text: c.Text, Data: in.Data, Mentions: c.Mentions}
	found, err := s.access.BatchGet(ctx, []table.Key{stored.Item().Key, schema.PostByIDKey(c.PostID)}, true)
	if err != nil {
		return err
	}
	it, ok := found[schema.PostByIDKey(c.PostID)]
	if !ok {
		return fault.NotFoundf("there is no post %s", c.PostID)
	}
	post, err := schema.ParsePostRef(it) //nolint:forbidigo // an import of an operator
	if _, there := found[stored.Item().Key]; there || post.Gone(s.access.Now()) || err != nil {
		return fault.Wrap("table", err)
	}
	stored.TTL = post.End
	write := table.TransactOp{Put: &table.PutInput{Item: stored.Item(), If: table.Absent{}}}
	err = s.transactComment(ctx, c.AuthorID, post, 1, write)
	if deleted, ok := errors.AsType[*fault.Error](err); access.ConditionFailed(err) || ok && deleted.Kind == fault.NotFound {
		return nil // the comment exists, or the post was deleted after the read
	}
	return fault.Wrap("table", err)
}
