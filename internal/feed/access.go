package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/id"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// What all of the domain's calls to its ports have in common.

// get reads one item; nil is an absent one.
func (s *Service) get(ctx context.Context, key table.Key, consistent bool) (*table.Item, error) {
	res, err := s.store.Get(ctx, table.GetInput{Key: key, Consistent: consistent})
	if err != nil {
		return nil, unavailable("table", err)
	}
	return res.Item, nil
}

// batchGet reads distinct keys, 100 at a time and all at once.
func (s *Service) batchGet(ctx context.Context, keys []table.Key, consistent bool) (map[table.Key]table.Item, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	parts := slices.Collect(slices.Chunk(keys, table.MaxBatchGet))
	read := make([][]table.Item, len(parts))
	reads := make([]func(context.Context) error, len(parts))
	for i, part := range parts {
		reads[i] = func(ctx context.Context) error {
			res, err := s.store.BatchGet(ctx, table.BatchGetInput{Keys: part, Consistent: consistent})
			read[i] = res.Items
			return err
		}
	}
	if err := all(ctx, reads...); err != nil {
		return nil, unavailable("table", err)
	}
	found := make(map[table.Key]table.Item, len(keys))
	for _, items := range read {
		for _, it := range items {
			found[it.Key] = it
		}
	}
	return found, nil
}

// Conflicting transactions are tried again, with full jitter.
const (
	maxConflicts = 10
	firstBackoff = 10 * time.Millisecond
	maxBackoff   = 400 * time.Millisecond
)

// transact does a transaction, again while it only met other writes of the same
// items. A condition that fails, and a conflict that lasts, is its
// *table.CancelledError. It does not repeat one whose outcome is unknown: the
// caller's caller does, and every flow here can be repeated.
func (s *Service) transact(ctx context.Context, ops ...table.TransactOp) error {
	backoff := firstBackoff
	for attempt := 1; ; attempt++ {
		_, err := s.store.Transact(ctx, table.TransactInput{Ops: ops})
		cancelled, ok := errors.AsType[*table.CancelledError](err)
		if !ok || !cancelled.Retryable() || attempt == maxConflicts {
			return err
		}
		if err := pause(ctx, time.Duration(s.jitter()*float64(backoff))); err != nil {
			return fmt.Errorf("retry a transaction: %w", err)
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// conditionFailed tells whether a transaction failed by a condition.
func conditionFailed(err error) bool {
	cancelled, ok := errors.AsType[*table.CancelledError](err)
	return ok && !cancelled.Retryable()
}

// message fills what all events carry, and encodes the event.
func (s *Service) message(ctx context.Context, e messages.Event) (*message.Message, error) {
	eventID, err := s.ids.New()
	if err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	head := e.Head()
	head.EventID, head.Time, head.RequestID = eventID, s.now().UTC(), s.requestID(ctx)
	msg, err := queue.Message(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	return msg, nil
}

// publish puts an event on a topic; when it returns nil the event is durable (I5).
func (s *Service) publish(ctx context.Context, topic string, e messages.Event) error {
	msg, err := s.message(ctx, e)
	if err != nil {
		return err
	}
	return unavailable("queue", s.publisher.Publish(topic, msg))
}

// postByID reads the post by id, consistently: a post must be there once it was
// answered, and gone once its deletion was (I2).
func (s *Service) postByID(ctx context.Context, post string) (schema.PostRef, error) {
	it, err := s.get(ctx, schema.PostByIDKey(post), true)
	if err != nil {
		return schema.PostRef{}, err
	}
	if it == nil {
		return schema.PostRef{}, notFound("there is no post %s", post)
	}
	byID, err := schema.ParsePostRef(*it)
	return byID, unavailable("table", err)
}

// livingPost is postByID of a post that was not deleted.
func (s *Service) livingPost(ctx context.Context, post string) (schema.PostRef, error) {
	byID, err := s.postByID(ctx, post)
	if err == nil && byID.Deleted {
		return schema.PostRef{}, notFound("post %s was deleted", post)
	}
	return byID, err
}

// livingPosts tells which of some posts are there and not deleted.
func (s *Service) livingPosts(ctx context.Context, posts []string) (map[string]bool, error) {
	keys := make([]table.Key, 0, len(posts))
	for _, post := range posts {
		if key := schema.PostByIDKey(post); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	found, err := s.batchGet(ctx, keys, true)
	if err != nil {
		return nil, err
	}
	living := make(map[string]bool, len(found))
	for _, it := range found {
		ref, err := schema.ParsePostRef(it)
		if err != nil {
			return nil, unavailable("table", err)
		}
		living[ref.ID] = !ref.Deleted
	}
	return living, nil
}

// knownUser is nil if user has a profile. Lists ask only when they are empty: who
// has an item has a profile.
func (s *Service) knownUser(ctx context.Context, user string) error {
	it, err := s.get(ctx, schema.ProfileKey(user), true)
	if err != nil {
		return err
	}
	if it == nil {
		return notFound("there is no user %s", user)
	}
	return nil
}

// writer is nil if user has a profile, which one needs to write.
func (s *Service) writer(ctx context.Context, user string) error {
	it, err := s.get(ctx, schema.ProfileKey(user), true)
	if err != nil {
		return err
	}
	if it == nil {
		return profileMissing(user)
	}
	return nil
}

// refuse is the error for a write to what is somebody else's. A user without a
// profile hears of that first, as with every other write; an owner has one, so nobody
// else pays for the look.
func (s *Service) refuse(ctx context.Context, user, detail string) error {
	if err := s.writer(ctx, user); err != nil {
		return err
	}
	return forbidden(detail)
}

// timeOf is the time of an id that the table holds; the zero time for one that is
// none.
func timeOf(ulid string) time.Time {
	at, err := id.Time(ulid)
	if err != nil {
		return time.Time{} // keys hold parsed ids only; a reader has no better answer
	}
	return at
}

// all runs reads at the same time and returns the first error. A panic is one: the
// request recovers those of its own goroutine only.
func all(ctx context.Context, reads ...func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, read := range reads {
		g.Go(func() error { return panics.Catch(func() error { return read(ctx) }) })
	}
	return g.Wait()
}
