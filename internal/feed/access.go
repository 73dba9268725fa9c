package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/backoff"
	"fanfare/internal/id"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// This file holds the reads, writes and checks that several access patterns share.

// get reads one item, nil if it is absent.
func (s *Service) get(ctx context.Context, key table.Key, consistent bool) (*table.Item, error) {
	res, err := s.cfg.Store.Get(ctx, table.GetInput{Key: key, Consistent: consistent})
	if err != nil {
		return nil, unavailable("table", err)
	}
	return res.Item, nil
}

// getOne is a consistent batchGet of one key.
func (s *Service) getOne(ctx context.Context, key table.Key) (map[table.Key]table.Item, error) {
	it, err := s.get(ctx, key, true)
	if it == nil {
		return nil, err
	}
	return map[table.Key]table.Item{key: *it}, nil
}

// batches returns the number of requests in which batchGet reads keys keys.
func batches(keys int) int { return (keys + table.MaxBatchGet - 1) / table.MaxBatchGet }

// batchGet reads distinct keys, in requests of 100 keys that run at the same time. If
// attributes are named, it returns only these.
func (s *Service) batchGet(ctx context.Context, keys []table.Key, consistent bool, project ...string) (map[table.Key]table.Item, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	parts := slices.Collect(slices.Chunk(keys, table.MaxBatchGet))
	read := make([][]table.Item, len(parts))
	reads := make([]func(context.Context) error, len(parts))
	for i, part := range parts {
		reads[i] = func(ctx context.Context) error {
			res, err := s.cfg.Store.BatchGet(ctx, table.BatchGetInput{Keys: part, Consistent: consistent, Project: project})
			read[i] = res.Items
			return err
		}
	}
	if err := s.all(ctx, reads...); err != nil {
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

// maxConflicts is how often a transaction is sent that conflicts with other writes.
const maxConflicts = 10

// transact sends a transaction, and sends it again while it only conflicts with
// other writes of the same items. A failed condition, or a conflict that lasts, is a
// *table.CancelledError. If the outcome is unknown it sends nothing again, but the
// service's caller may: every flow here can be repeated.
func (s *Service) transact(ctx context.Context, ops ...table.TransactOp) error {
	return s.transactAs(ctx, table.TransactInput{Ops: ops})
}

func (s *Service) transactAs(ctx context.Context, in table.TransactInput) error {
	waits := backoff.Exponential{First: 20 * time.Millisecond, Most: 400 * time.Millisecond}
	for attempt := 1; ; attempt++ {
		_, err := s.cfg.Store.Transact(ctx, in)
		cancelled, ok := errors.AsType[*table.CancelledError](err)
		if !ok || !cancelled.Retryable() || attempt == maxConflicts {
			return err
		}
		if err := backoff.Wait(ctx, waits.Jittered(attempt, s.cfg.Jitter())); err != nil {
			return fmt.Errorf("retry a transaction: %w", err)
		}
	}
}

// conditionFailed reports whether one of a transaction's conditions failed.
func conditionFailed(err error) bool {
	cancelled, ok := errors.AsType[*table.CancelledError](err)
	return ok && !cancelled.Retryable()
}

// message fills the header of an event and encodes it. The event's id is above floor.
func (s *Service) message(ctx context.Context, e messages.Event, floor string) (*message.Message, error) {
	eventID, err := s.cfg.IDs.After(floor)
	if err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	head := e.Head()
	head.EventID, head.Time, head.RequestID = eventID, s.cfg.Now().UTC(), s.cfg.RequestID(ctx)
	msg, err := queue.Message(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	return msg, nil
}

// publish puts an event on a topic. When it returns nil the event is durable (I5).
func (s *Service) publish(ctx context.Context, topic string, e messages.Event) error {
	return s.publishAbove(ctx, topic, e, "")
}

// publishAbove is publish for an event whose id must be above floor.
func (s *Service) publishAbove(ctx context.Context, topic string, e messages.Event, floor string) error {
	msg, err := s.message(ctx, e, floor)
	if err != nil {
		return err
	}
	return unavailable("queue", s.cfg.Publisher.Publish(topic, msg))
}

// postByID reads a post's author and state by its id. The read is consistent: it must
// find each post that was answered, and no post whose deletion was answered (I2).
func (s *Service) postByID(ctx context.Context, post string) (schema.PostRef, error) {
	key := schema.PostByIDKey(post)
	found, err := s.refs(ctx, []table.Key{key})
	if err != nil {
		return schema.PostRef{}, err
	}
	it, ok := found[key]
	if !ok {
		return schema.PostRef{}, notFound("there is no post %s", post)
	}
	byID, err := schema.ParsePostRef(it)
	return byID, unavailable("table", err)
}

// livingPost is postByID, but answers NotFound for a deleted post.
func (s *Service) livingPost(ctx context.Context, post string) (schema.PostRef, error) {
	byID, err := s.postByID(ctx, post)
	if err == nil && byID.Deleted {
		return schema.PostRef{}, notFound("post %s was deleted", post)
	}
	return byID, err
}

// livingPosts adds to living those of the posts that exist and are not deleted, by id.
func (s *Service) livingPosts(ctx context.Context, posts []string, living map[string]schema.PostRef) error {
	keys := make([]table.Key, 0, len(posts))
	for _, post := range posts {
		if key := schema.PostByIDKey(post); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	found, err := s.refs(ctx, keys)
	if err != nil {
		return err
	}
	for _, it := range found {
		ref, err := schema.ParsePostRef(it)
		if err != nil {
			return unavailable("table", err)
		}
		if !ref.Deleted {
			living[ref.ID] = ref
		}
	}
	return nil
}

// requireProfile returns the error of missing if user has no profile.
func (s *Service) requireProfile(ctx context.Context, user string, missing func(user string) error) error {
	it, err := s.get(ctx, schema.ProfileKey(user), true)
	if err == nil && it == nil {
		return missing(user)
	}
	return err
}

// requireUser returns NotFound if there is no such user.
func (s *Service) requireUser(ctx context.Context, user string) error {
	return s.requireProfile(ctx, user, func(user string) error { return notFound("there is no user %s", user) })
}

// requireWriter returns ProfileMissing if user has no profile, which every writer
// needs.
func (s *Service) requireWriter(ctx context.Context, user string) error {
	return s.requireProfile(ctx, user, profileMissing)
}

// refuse returns the error for a write to a thing of another user. A user without a
// profile is told of that first, as by every other write. Owners have a profile, so
// only a refused user costs this read.
func (s *Service) refuse(ctx context.Context, user, detail string) error {
	if err := s.requireWriter(ctx, user); err != nil {
		return err
	}
	return forbidden(detail)
}

// writerAndPost returns a post for a write about it. The user must have a profile,
// and the post must not be deleted.
func (s *Service) writerAndPost(ctx context.Context, user, post string) (schema.PostRef, error) {
	var byID schema.PostRef
	var missing, gone error
	err := s.all(ctx,
		func(ctx context.Context) error { missing = s.requireWriter(ctx, user); return failure(missing) },
		func(ctx context.Context) error { byID, gone = s.livingPost(ctx, post); return failure(gone) },
	)
	if err != nil {
		return schema.PostRef{}, err
	}
	if missing != nil { // the same error comes first whichever read ends first
		return schema.PostRef{}, missing
	}
	return byID, gone
}

// failure returns err if a read failed, nil if err is the read's answer.
func failure(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Kind != Unavailable {
		return nil
	}
	return err
}

// refillOfLivingPosts is the refill of a list of one user's items that ofLivingPosts
// reads: a page, and a request for its posts. The first page may take two requests for
// its posts, and the user may have to be checked. A small first refill takes two calls more.
func refillOfLivingPosts() refill {
	return refill{budget: budgetAfter(4), calls: 2, most: table.MaxBatchGet, small: true}
}

// ofLivingPosts wraps parse so that it leaves out items that belong to a deleted post. It adds
// the other posts to living.
func ofLivingPosts[T any](ctx context.Context, s *Service, parse func([]table.Item) ([]T, error), post func(T) string, living map[string]schema.PostRef) func([]table.Item) ([]T, error) {
	return func(read []table.Item) ([]T, error) {
		items, err := parse(read)
		if err != nil {
			return nil, err
		}
		posts := make([]string, len(items))
		for i, item := range items {
			posts[i] = post(item)
		}
		if err := s.livingPosts(ctx, posts, living); err != nil {
			return nil, err
		}
		return slices.DeleteFunc(items, func(item T) bool { return living[post(item)].ID == "" }), nil
	}
}

// all runs reads and returns the first error. If the table is local, it runs one after the
// other, on the request's own goroutine: another one begins with a small stack, which a read
// of Pebble has to grow, and costs more than it saves.
func (s *Service) all(ctx context.Context, reads ...func(context.Context) error) error {
	if !s.cfg.Local && len(reads) > 1 {
		return all(ctx, reads...)
	}
	for _, read := range reads {
		if err := panics.Catch(func() error { return read(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// oldestShown returns the lowest post id that homes still show. A timeline entry
// expires in the second in which its post becomes TimelineTTL old. Merged and pulled
// posts must leave the home at the same moment.
func (s *Service) oldestShown() string {
	return id.Floor(time.Unix(s.cfg.Now().Unix()+1, 0).Add(-s.cfg.TimelineTTL))
}

// retryChanged calls try until no other call has changed the follow meanwhile.
func (s *Service) retryChanged(try func() (changed bool, err error)) error {
	for n := 1; ; n++ {
		changed, err := try()
		if !changed || n == maxTries {
			return unavailable("table", err)
		}
	}
}

// maxTries is how often a follow or unfollow is tried while other calls for the same
// two users change the follow between its read and its transaction.
const maxTries = 3

// eachItem calls visit with each item of a range, until it fails.
func (s *Service) eachItem(ctx context.Context, q table.Query, visit func(table.Item) error) error {
	for page, err := range s.cfg.Store.Query(ctx, q) {
		if err != nil {
			return unavailable("table", err)
		}
		for _, it := range page.Items {
			if err := visit(it); err != nil {
				return err
			}
		}
	}
	return nil
}

func addTo(key table.Key, attr string, n int64) *table.UpdateInput {
	return &table.UpdateInput{Key: key, Add: []table.Attr{{Name: attr, Value: table.N(n)}}}
}

// postsBy returns references to author's first want posts of a span. It returns fewer
// if there are no more, or if the budget cut the read. The first page reads size posts.
func (s *Service) postsBy(ctx context.Context, calls *budget, author string, of span, want, size int) (stretch[ref], error) {
	if of.empty() {
		return stretch[ref]{}, nil
	}
	q := of.query(schema.PostsPK(author))
	q.PageSize, q.Project = size, []string{schema.AttrLikeShards}
	return collect(ctx, s.cfg.Store, q, want, refill{budget: calls, calls: 1}, each(func(it table.Item) (ref, bool, error) {
		p, err := schema.ParsePost(it)
		return ref{p.ID, author, p.LikeShards}, true, err
	}))
}

// userPage is page for a list of one user's items. The user must exist. Only a list in
// which nothing was found checks that, because a user who owns any item has a profile.
func userPage[T any](ctx context.Context, s *Service, read stretch[T], in PageRequest, scope scope, position func(T) string) (List[T], error) {
	if len(read.items) == 0 && read.cut == "" && in.Cursor == "" {
		if err := s.requireUser(ctx, scope.owner); err != nil {
			return List[T]{}, err
		}
	}
	return page(read, in.limit(), scope, position), nil
}
