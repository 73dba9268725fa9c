package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// CreatePost publishes a post. The publish is the durable commit (I5). Before the publish, CreatePost
// writes only the idempotency record, and a failure is Unavailable. After the publish, the call
// succeeds even if the table fails, because a worker makes the same transaction from the event.
func (s *Service) CreatePost(ctx context.Context, author string, in PostInput) (Post, error) {
	if err := in.validate(); err != nil {
		return Post{}, err
	}
	quoted, unquotable, err := s.quoted(ctx, author, in.QuoteOf)
	if err != nil {
		return Post{}, err
	}
	draft, err := s.newPost(ctx, author, in, quoted)
	if err != nil {
		return Post{}, err
	}
	draft.unquotable = unquotable
	err = s.inTurn(ctx, draft.use, func(now use) (err error) {
		draft.use = now
		draft.post, err = s.publishDraft(ctx, in.IdempotencyKey, draft)
		return err
	})
	if err != nil {
		return Post{}, err
	}
	return postOf(access.OwnPost(draft.post)), nil
}

// publishDraft makes the post of a draft, unless the author's hour is used up, or returns the post of
// an earlier call with the same key. A call with a bound key is never refused, and a refused call
// binds no key.
func (s *Service) publishDraft(ctx context.Context, key string, d draft) (schema.Post, error) {
	refused := cmp.Or(d.unquotable, s.endFault(d.post), s.refused(d.use))
	if refused != nil && key == "" {
		return schema.Post{}, refused
	}
	if key != "" {
		bound, found, err := s.bindKey(ctx, key, d, refused)
		if err != nil {
			return schema.Post{}, err
		}
		if found != nil {
			return *found, nil
		}
		d.post, d.use.hour = bound, schema.HourOf(access.TimeOf(bound.ID))
	}
	return d.post, s.commitDraft(ctx, d)
}

// commitDraft publishes the post of a draft, and writes the post.
func (s *Service) commitDraft(ctx context.Context, d draft) error {
	if err := s.access.PublishPost(ctx, d.post); err != nil {
		return err
	}
	s.cfg.Posted()
	access.Cause(ctx, d.later)
	if _, _, err := s.writePost(ctx, d.post, d.use, true); err != nil {
		if s.large(d.use) {
			s.unwritten.add(d.post, s.access.Now())
		}
		s.access.Log.Warn("post not written: a worker will write it", zap.String("request_id", s.access.RequestID(ctx)), trace.ID(ctx),
			zap.String("post", d.post.ID), zap.Error(err))
	}
	return nil
}

// newPost gives a post its id, its number of like shards, and its byline. The id and the number never
// change. The id is above the id of the post to which the post refers: a home shows the newest reference to
// a post, and other authors' clocks may be ahead.
func (s *Service) newPost(ctx context.Context, author string, in PostInput, of Reference) (made draft, err error) {
	floor, read, known := s.cfg.Authors.known(author, s.access.Now(), s.access.KeptNames)
	var items []table.Item
	if !known || s.cfg.UserUnits > 0 { // the units of an hour are never remembered
		if floor, read, items, err = s.readAuthor(ctx, author); err != nil {
			return draft{}, err
		}
	}
	post, err := s.access.IDs.After(max(floor, read.after, of.RepostOf))
	if err != nil {
		return draft{}, fmt.Errorf("feed: %w", err)
	}
	if err := s.checkAhead(post); err != nil {
		return draft{}, err
	}
	s.cfg.Authors.note(author, post, authorRead{})
	made = draft{
		post:  schema.Post{ID: post, Author: author, Content: in.Content, Reference: of, LikeShards: read.shards, Byline: read.byline},
		after: read.after,
	}
	costs := s.costOfPost(made.post, read.followers, in.IdempotencyKey != "")
	made.later, made.use = costs.later, s.useOfPost(made.post, costs, items)
	return made, nil
}

// useOfPost returns the use of a new post. items are the author's items.
func (s *Service) useOfPost(p schema.Post, of cost, items []table.Item) use {
	u := s.useOf(p.Author, access.TimeOf(p.ID), of, countsItem(p.Author, items))
	u.post = true
	return u
}

// followersPushed returns the number of followers to whom a new post of an author is pushed.
func followersPushed(author string, items []table.Item, counts schema.Counts) (int64, error) {
	mode, err := schema.ParseMode(author, items)
	if err != nil || mode.State == schema.ModePull {
		return 0, fault.Wrap("table", err)
	}
	return counts.Followers, nil
}

// readAuthor returns the highest id of an author's posts, living or deleted, the part of the author
// that a new post uses, and the author's items. The author must have a profile.
func (s *Service) readAuthor(ctx context.Context, author string) (highest string, read authorRead, items []table.Item, err error) {
	read.at, read.generation = s.access.Now(), s.cfg.Authors.generation(author)
	err = s.access.All(ctx,
		func(ctx context.Context) (err error) { items, err = s.userItems(ctx, author); return err },
		func(ctx context.Context) (err error) { highest, err = s.newestPost(ctx, author); return err },
	)
	if err != nil {
		return "", read, nil, err
	}
	profile, counts, err := parseUser(author, items)
	if err != nil {
		return "", read, nil, err
	}
	if profile == nil {
		return "", read, nil, fault.NoProfile(author)
	}
	if read.followers, err = followersPushed(author, items, counts); err != nil {
		return "", read, nil, err
	}
	highest, read.shards, read.byline, read.after = max(highest, counts.LastDeleted), s.likeShards(counts), profile.Byline(), profile.After
	s.cfg.Authors.note(author, highest, read)
	return highest, read, items, nil
}

// mostRetryAfter is the maximum Retry-After for an id that is ahead of the clock. If this process's
// clock is wrong, another process may accept the post earlier.
const mostRetryAfter = time.Minute

// checkAhead refuses the id of a new post if workers would not deliver the post yet. An id is ahead
// because the author's newest post is ahead: another process with a fast clock made that post, or this
// process's clock is slow.
func (s *Service) checkAhead(post string) error {
	ahead := access.TimeOf(post).Sub(s.access.Now()) - messages.MaxAhead
	if ahead <= 0 {
		return nil
	}
	return &fault.Error{
		Kind: fault.Unavailable, RetryAfter: min(ahead, mostRetryAfter),
		Detail: "the author's newest post is ahead of this server's clock: try again later",
		Err:    fmt.Errorf("a new post would be of %s: set the clocks of the processes right", access.TimeOf(post).Format(time.RFC3339)),
	}
}

// likeShards returns the number of like shards of a new post, at least 1, from its
// author's counts.
func (s *Service) likeShards(counts schema.Counts) int {
	return int(min(1+counts.Followers/s.cfg.FollowersPerLikeShard, messages.MaxLikeShards))
}

// newestPost returns the id of author's newest post in the list, "" if the list is empty. The next id
// must be above this id, and above the newest deleted post, which the counts name, because replicas
// with different clocks make ids.
func (s *Service) newestPost(ctx context.Context, author string) (string, error) {
	q := table.Query{PK: schema.PostsPK(author), Descending: true, Consistent: true, Project: []string{}} //nolint:forbidigo // the author asks for the id
	read, err := page.Collect(ctx, s.access.Store, q, 1, page.Refill{}, page.Each(func(it table.Item) (string, bool, error) {
		post, err := schema.ParsePost(it) //nolint:forbidigo // the author asks for the id
		return post.ID, true, err
	}))
	if err != nil || len(read.Items) == 0 {
		return "", err
	}
	return read.Items[0], nil
}

// EnsurePost makes sure that the post of an event is in the table before a worker delivers the post.
// EnsurePost returns the stored post, or the known part of it: the author, the like shards and whether
// the post was deleted. A post of a former life of its author counts as deleted, and is not written.
// If another call wrote the post first, the version of the returned byline is 0.
//
// If no retry can help, the error is a *messages.PermanentError. If the post is ahead of the clock,
// the error is a *messages.EarlyError. If the clock is in doubt, the error is a *clock.DoubtError.
//
// CreatePost writes the post itself and always sets its like shards, so EnsurePost looks for such a
// post first. An event without like shards comes from another producer. Only EnsurePost writes the
// post of such an event, so EnsurePost does not wait for the post.
func (s *Service) EnsurePost(ctx context.Context, e *messages.PostCreated) (schema.Post, error) {
	if err := s.access.Clock.CheckAge("post_id", e.PostID, s.access.Now()); err != nil {
		return schema.Post{}, err
	}
	if end := e.End(); !end.IsZero() && !s.access.Now().Before(end) {
		// A post is not dropped while the clock is in doubt.
		return schema.Post{ID: e.PostID, Author: e.AuthorID, LikeShards: e.LikeShards, Content: schema.Content{ExpiresAt: end}, Deleted: true}, s.access.Clock.Doubt()
	}
	s.cfg.Authors.note(e.AuthorID, e.PostID, authorRead{}) // an earlier process may have made the post
	if e.LikeShards > 0 {
		found, err := s.lookForPost(ctx, access.Worker, e.AuthorID, e.PostID)
		if err != nil {
			return schema.Post{}, err
		}
		if found != nil {
			return *found, nil
		}
	}
	in := PostInput{Content: e.Content}
	// The values of another producer have not been checked yet.
	if err := in.validateWith(e.Reference); err != nil {
		return schema.Post{}, messages.Permanent(messages.ReasonRefused, "%v", err)
	}
	post := schema.Post{ID: e.PostID, Author: e.AuthorID, Content: in.Content, Reference: e.Reference, LikeShards: e.LikeShards}
	items, err := s.userItems(ctx, e.AuthorID)
	if err != nil {
		return schema.Post{}, err
	}
	profile, counts, err := parseUser(e.AuthorID, items)
	if err != nil {
		return schema.Post{}, err
	}
	if schema.OfFormerLife(profile, schema.NoteOf(e.AuthorID, items), e.PostID) {
		post.Deleted = true // the event is from a backlog that is older than the removal's last look
		return post, nil
	}
	if profile != nil {
		post.Byline = profile.Byline()
	}
	var u use
	if post.LikeShards == 0 { // another producer made the post, and such posts count in no hour
		post.LikeShards = s.likeShards(counts)
	} else {
		followers, err := followersPushed(e.AuthorID, items, counts)
		if err != nil {
			return schema.Post{}, err
		}
		u = s.useOfPost(post, s.costOfPost(post, followers, false), items)
	}
	if err := s.referUnread(ctx, post.Reference); err != nil {
		return schema.Post{}, err
	}
	stored, made, err := s.writePost(ctx, post, u, false)
	if owned, ok := errors.AsType[*ownedError](err); ok {
		return schema.Post{}, messages.Permanent(messages.ReasonOtherAuthor, "%v", owned)
	}
	if !made {
		post.Byline = schema.Byline{}
	}
	post.LikeShards, post.ExpiresAt, post.Deleted = stored.LikeShards, stored.End, stored.Gone(s.access.Now())
	return post, err
}

// ownedError means that the id of a post belongs to a post of another author.
type ownedError struct{ post, author, owner string }

func (e *ownedError) Error() string {
	return fmt.Sprintf("post %s of %s: the id belongs to a post of %s", e.post, e.author, e.owner)
}

// writePost makes a post in one transaction: the post, the post by id, the author's count (I4) with
// its use, and the author's own timeline entry. If the post already exists, writePost succeeds.
// writePost returns the stored post by id; made reports whether this call made the post. A post that
// has become a tombstone stays a tombstone (I2).
//
// If lazy is set, the post's event is durable and not handled yet. A worker that finds no post repeats
// the transaction; a worker that finds the post waits until the post is durable.
func (s *Service) writePost(ctx context.Context, p schema.Post, u use, lazy bool) (stored schema.PostRef, made bool, err error) {
	return s.putPost(ctx, p, posting{use: u, lazy: lazy, shown: true})
}

// posting is the way in which putPost makes a post: with the author's entry if shown is set, and with the write beside, if
// not nil, in the same transaction.
type posting struct {
	use         use
	lazy, shown bool
	beside      *table.PutInput
}

// putPost makes a post as writePost does. If the condition of the write beside fails, the error is that of the transaction.
func (s *Service) putPost(ctx context.Context, p schema.Post, as posting) (stored schema.PostRef, made bool, err error) {
	lives, err := s.access.Lives(ctx)
	if err != nil {
		return schema.PostRef{}, false, err
	}
	at := access.TimeOf(p.ID)
	byID, count := p.Ref(lives.Longest()), &table.UpdateInput{Key: schema.CountsKey(p.Author)}
	if p.ExpiresAt.IsZero() { // a post with an end is never counted (I15), because its end does not lower the count
		count = access.AddTo(count.Key, schema.AttrPosts, 1)
	}
	as.use.countTo(count)
	entry := table.Item{
		Key:   table.Key{PK: schema.TimelinePK(p.Author), SK: schema.EntrySK(p.ID, p.Author)},
		Attrs: schema.EntryAttrs(byID.Until(at.Add(lives.Written(at))), p.LikeShards),
	}
	ops := []table.TransactOp{
		{Put: &table.PutInput{Item: p.Item(), If: table.Absent{}}},
		{Put: &table.PutInput{Item: byID.Item(), If: table.Absent{}}},
	}
	if len(count.Add) > 0 {
		ops = append(ops, table.TransactOp{Update: count})
	}
	if as.shown {
		ops = append(ops, table.TransactOp{Put: &table.PutInput{Item: entry}})
	}
	if as.beside != nil {
		ops = append(ops, table.TransactOp{Put: as.beside})
	}
	for again := false; ; again = true {
		err = s.access.TransactAs(ctx, table.TransactInput{Lazy: as.lazy, Ops: ops})
		if !access.ConditionFailed(err) {
			return byID, err == nil, fault.Wrap("table", err)
		}
		there, err := existing(err, byID)
		if err != nil || there.Author == p.Author {
			return there, false, fault.Wrap("table", err)
		}
		if !there.Unmade || again {
			return byID, false, &ownedError{p.ID, p.Author, there.Author}
		}
		ops[1].Put.If = unmadeBy(there)
	}
}

// existing returns the stored post by id because of which a transaction failed that makes a post, or byID if only the post exists.
func existing(failed error, byID schema.PostRef) (schema.PostRef, error) {
	cancelled, _ := errors.AsType[*table.CancelledError](failed)
	for i, op := range cancelled.Reasons {
		switch {
		case !cancelled.Failed(i):
		case op.Old != nil && op.Key == schema.PostByIDKey(byID.ID):
			return schema.ParsePostRef(*op.Old) //nolint:forbidigo // the id of the own post
		case op.Key == schema.RepostKey(byID.Author, byID.RepostOf):
			return schema.PostRef{}, failed
		}
	}
	return byID, nil
}

// unmadeBy holds while an id has the tombstone that another user made with a deletion of this id, and which keeps no post of
// other authors away.
func unmadeBy(there schema.PostRef) table.Cond {
	return table.All{table.Equal{Name: schema.AttrUnmade, Value: table.N(1)}, table.Equal{Name: schema.AttrAuthor, Value: table.S(there.Author)}}
}
