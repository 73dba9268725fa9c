package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// MissingError means that records of the checked files are not in the table as they should be.
type MissingError struct {
	// Faults has the first missing records.
	Faults []string
	Total  int
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%d things are not in the table as the files say: run the command again, unless users have changed them meanwhile", e.Total)
}

// Faults returns the first faults of an import that err means, each with its place.
func Faults(err error) []string {
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		return invalid.Faults
	}
	if missing, ok := errors.AsType[*MissingError](err); ok {
		return missing.Faults
	}
	return nil
}

// verifier compares the table with the files. All reads are consistent.
type verifier struct {
	im    *importer
	store table.Store
	mu    sync.Mutex
	found MissingError
	left  LeftOut
}

func (v *verifier) miss(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.found.Total++; v.found.Total <= maxFaults {
		v.found.Faults = append(v.found.Faults, fmt.Sprintf(format, args...))
	}
}

// verify checks that all records of the files are in the table, that the counts of their
// users and posts are exact, and that the posts are in the timelines of all followers. If a
// check fails, the error is a *MissingError.
func (im *importer) verify(ctx context.Context) (entries int, left LeftOut, err error) {
	v := &verifier{im: im, store: table.HideExpired(im.cfg.Store, im.cfg.Now), left: LeftOut{Ended: ofPosts(), Deleted: ofPosts()}}
	steps := []func(context.Context) error{v.records, v.users, v.likeCounts, func(ctx context.Context) (err error) {
		entries, err = v.deliveries(ctx)
		return err
	}}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return entries, v.left, fmt.Errorf("verify: %w", err)
		}
	}
	if v.found.Total > 0 {
		return entries, v.left, &v.found
	}
	return entries, v.left, nil
}

// leaveOut counts a record that the import left out, because its post is gone.
func (v *verifier) leaveOut(k kind, post schema.PostRef) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := v.im.cfg.Now(); post.End.IsZero() || now.Before(post.End) {
		v.left.Deleted[k.many()]++
		return
	}
	v.left.Ended[k.many()]++
}

// side runs steps, with AtOnce steps at the same time, until a step fails.
func (v *verifier) side(ctx context.Context, feed func(ctx context.Context, do func(func(context.Context) error)) error) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(v.im.cfg.AtOnce)
	err := feed(ctx, func(step func(context.Context) error) {
		work.Go(func() error { return v.im.retry(ctx, func() error { return step(ctx) }) })
	})
	return errors.Join(work.Wait(), err)
}

// records checks by their keys that all records are in the table.
func (v *verifier) records(ctx context.Context) error {
	total := 0
	for _, n := range v.im.index.counts {
		total += n
	}
	ph := newPhase(v.im.cfg.Progress, "verify", total)
	defer ph.finish()
	return v.side(ctx, func(ctx context.Context, do func(func(context.Context) error)) error {
		var batch []located
		flush := func() {
			full := batch
			batch = nil
			do(func(ctx context.Context) error { defer ph.add(len(full)); return v.look(ctx, full) })
		}
		for _, k := range kinds {
			err := v.im.eachRecord(ctx, k.name, func(at place, r *record) error {
				if batch = append(batch, located{at, r}); len(batch) == table.MaxBatchGet/2 {
					flush()
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		flush()
		return nil
	})
}

// look checks a few records. It first reads the posts of the records, because a like's key
// depends on its post, and the comments and likes of a deleted post are also deleted.
func (v *verifier) look(ctx context.Context, records []located) error {
	posts := map[table.Key]bool{}
	for _, r := range records {
		if post, err := v.postOf(r.record); err != nil {
			return err
		} else if post != "" {
			posts[schema.PostByIDKey(post)] = true
		}
	}
	refs, err := v.get(ctx, posts)
	if err != nil {
		return err
	}
	keys, of := map[table.Key]bool{}, make([][]table.Key, len(records))
	for i, r := range records {
		post, _ := v.postOf(r.record) // this call has already succeeded above
		it, there := refs[schema.PostByIDKey(post)]
		var ref schema.PostRef
		if there {
			if ref, err = schema.ParsePostRef(it); err != nil {
				return err
			}
		}
		if ref.Gone(v.im.cfg.Now()) {
			v.leaveOut(r.Type, ref)
			continue
		}
		ref.ID = post
		of[i] = r.Type.spec().items(r.record, ref)
		for _, key := range of[i] {
			keys[key] = true
		}
	}
	found, err := v.get(ctx, keys)
	if err != nil {
		return err
	}
	for i, r := range records {
		if there, err := v.there(r.record, of[i], found); err != nil {
			return err
		} else if !there {
			v.miss("%s: the %s is not in the table", r.at, r.Type)
		}
	}
	return nil
}

// there reports whether the table has a record, which has these keys, or knows why it has the record no more. A record
// without keys was left out.
func (v *verifier) there(r *record, keys []table.Key, found map[table.Key]table.Item) (bool, error) {
	if len(keys) == 0 {
		return true, nil
	}
	if r.Type == kindRepost {
		return v.repost(found[keys[0]], found[keys[1]], found[keys[2]])
	}
	for _, key := range keys {
		it, there := found[key]
		if !there || r.Type == kindLike && !v.holds(r, it) {
			return false, nil
		}
		if like, err := schema.ParseLike(it); r.Type == kindLike && err == nil && like.Kind == "" {
			v.count(&v.left.TakenBack)
		}
	}
	if r.QuoteOf != "" {
		p, err := schema.ParsePost(found[keys[0]])
		if err != nil {
			return false, err
		}
		if p.QuoteOf == "" {
			v.count(&v.left.Quoted)
		}
	}
	return true, nil
}

// repost reports whether the table has a repost, or its tombstone, or another repost of the post by the user.
func (v *verifier) repost(binding, byID, post table.Item) (bool, error) {
	if byID.Key == (table.Key{}) {
		return binding.Key != (table.Key{}) && binding.Str(schema.AttrKeyPost) != "", nil
	}
	ref, err := schema.ParsePostRef(byID)
	if err != nil {
		return false, err
	}
	if ref.Gone(v.im.cfg.Now()) {
		v.leaveOut(kindRepost, ref)
		return true, nil
	}
	return post.Key != (table.Key{}) && binding.Str(schema.AttrKeyPost) == ref.ID, nil
}

func (v *verifier) count(n *int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	*n++
}

// postOf returns the post of a record, "" for a record without a post.
func (v *verifier) postOf(r *record) (string, error) {
	switch {
	case r.Type == kindPost:
		return r.madeID()
	case r.PostID != "":
		return v.im.index.postID(r.PostID), nil
	}
	return "", nil
}

// holds reports whether a stored like is the like of the record or a later action of the same user.
func (v *verifier) holds(r *record, it table.Item) bool {
	version, err := r.version(v.im.index.postID(r.PostID))
	return err == nil && it.Str(schema.AttrVersion) >= version
}

// sortedKeys returns keys in an order that is the same in each run, so that the simulation can repeat a run.
func sortedKeys[V any](keys map[table.Key]V) []table.Key {
	return slices.SortedFunc(maps.Keys(keys), func(a, b table.Key) int {
		return cmp.Or(cmp.Compare(a.PK, b.PK), cmp.Compare(a.SK, b.SK))
	})
}

func (v *verifier) get(ctx context.Context, keys map[table.Key]bool) (map[table.Key]table.Item, error) {
	found := make(map[table.Key]table.Item, len(keys))
	for part := range slices.Chunk(sortedKeys(keys), table.MaxBatchGet) {
		res, err := v.store.BatchGet(ctx, table.BatchGetInput{Keys: part, Consistent: true})
		if err != nil {
			return nil, err
		}
		for _, it := range res.Items {
			found[it.Key] = it
		}
	}
	return found, nil
}

// nearlyExpired is the last part of an entry's life, in which a missing entry is no fault.
const nearlyExpired = 10 * time.Minute

// deliveries checks the entries of each post that homes show, in the timelines of the
// followers to whom the post was pushed.
func (v *verifier) deliveries(ctx context.Context) (entries int, err error) {
	var mu sync.Mutex
	ph := newPhase(v.im.cfg.Progress, "verify timelines", 0)
	defer ph.finish()
	err = v.side(ctx, func(ctx context.Context, do func(func(context.Context) error)) error {
		visit := func(_ place, r *record) error {
			made, err := r.madeID()
			if err != nil {
				return err
			}
			if shown, err := v.im.shown(ctx, made, nearlyExpired); err != nil || !shown {
				return err
			}
			author := cmp.Or(r.AuthorID, r.UserID)
			do(func(ctx context.Context) error {
				n, err := v.delivered(ctx, author, made)
				mu.Lock()
				defer mu.Unlock()
				entries += n
				ph.add(n)
				return err
			})
			return nil
		}
		return errors.Join(v.im.eachRecord(ctx, kindPost, visit), v.im.eachRecord(ctx, kindRepost, visit))
	})
	return entries, err
}

// delivered checks the entries of one post, and returns the number of entries that exist.
func (v *verifier) delivered(ctx context.Context, author, post string) (entries int, err error) {
	head, err := v.get(ctx, map[table.Key]bool{schema.DeliveryPlanKey(post): true, schema.PostByIDKey(post): true})
	if err != nil {
		return 0, err
	}
	byID, there := head[schema.PostByIDKey(post)]
	if ref, err := schema.ParsePostRef(byID); !there || err == nil && ref.Gone(v.im.cfg.Now().Add(nearlyExpired)) {
		return 0, nil // step records has reported a missing post, and the user of a missing repost has another one
	}
	if it, there := head[schema.DeliveryPlanKey(post)]; !there {
		v.miss("post %s: it was not delivered", post)
		return 0, nil
	} else if plan, err := schema.ParsePlan(it); err != nil || plan.State == schema.PlanPulled {
		return 0, err
	}
	made, err := id.Time(post)
	if err != nil {
		return 0, err
	}
	for page, err := range v.store.Query(ctx, table.Query{PK: schema.FollowersPK(author), Consistent: true}) {
		if err != nil {
			return entries, err
		}
		keys := map[table.Key]bool{}
		for _, edge := range page.Items {
			follower, ok := schema.UserOfSK(edge.Key.SK)
			if !ok {
				return entries, &schema.ParseError{Key: edge.Key, Problem: "not a follower"}
			}
			if v.im.cfg.ActiveDays == 0 || schema.Pushed(&edge, schema.DayOf(made)) {
				keys[table.Key{PK: schema.TimelinePK(follower), SK: schema.EntrySK(post, author)}] = true
			}
		}
		found, err := v.get(ctx, keys)
		if err != nil {
			return entries, err
		}
		entries += len(found)
		for _, key := range sortedKeys(keys) {
			if _, there := found[key]; there {
				continue
			}
			follower, _ := schema.UserOfHome(key.PK)
			if err := v.missed(ctx, follower, author, post); err != nil {
				return entries, err
			}
		}
	}
	return entries, nil
}

// missed reports a missing entry if the home should have the entry. A home needs no entry if the follow begins
// with a later post, if the follow has ended, if a mark pulls the post, or if the backfill of the follow has not
// ended.
func (v *verifier) missed(ctx context.Context, follower, author, post string) error {
	edge, mark := schema.FollowingKey(follower, author), schema.MarkKey(follower, author)
	found, err := v.get(ctx, map[table.Key]bool{edge: true, mark: true})
	if err != nil {
		return err
	}
	follow, there := found[edge]
	if m, err := schema.ParseMark(found[mark]); err == nil && (m.Pulls(post) || m.Kind == schema.MarkBackfill && m.Until.IsZero()) {
		return nil
	}
	if there && follow.Str(schema.AttrFrom) <= post {
		v.miss("post %s of %s is not in the home of %s", post, author, follower)
	}
	return nil
}
