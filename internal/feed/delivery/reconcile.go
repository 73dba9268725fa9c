package delivery

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// Reconciled is the result of one Reconcile, and its JSON for operators.
type Reconciled struct {
	// Checked counts the posts that Reconcile examined.
	Checked int `json:"checked"`
	// Published counts the posts whose fan-out Reconcile began again.
	Published int `json:"published"`
	// Next is the cursor of the next call, "" at the end.
	Next string `json:"next_cursor,omitempty"`
}

const (
	// reconcileCalls is the number of pages of the index that one Reconcile reads.
	reconcileCalls = 50
	// reconcileMargin is the time for a worker to receive a post before the post is too old.
	reconcileMargin = time.Hour
)

// Reconcile finds posts whose fan-out was lost, for example with its queue, and restarts the fan-out.
// Reconcile examines at most limit living posts that were made at or after since and before until.
// Reconcile publishes each post again whose delivery is not complete. A worker then resumes from the
// stored chain, so delivered entries stay. A second message for a slow fan-out does no harm.
//
// Reconcile leaves out posts that are too old for homes, and posts that are too old for
// workers (messages.MaxAge). The index is eventually consistent, so until should be some
// minutes ago, long enough for ordinary fan-outs to be done.
//
// Reconcile fails if the clock is in doubt, because a wrong clock would make Reconcile leave out posts
// for their age.
func (d *Deliveries) Reconcile(ctx context.Context, since, until time.Time, cursor string, limit int) (Reconciled, error) {
	done, err := d.reconcile(ctx, since, until, cursor, limit)
	if doubt := d.access.Clock.Doubt(); doubt != nil {
		return Reconciled{}, fault.Wrap("clock", doubt)
	}
	return done, err
}

func (d *Deliveries) reconcile(ctx context.Context, since, until time.Time, cursor string, limit int) (Reconciled, error) {
	taken := id.Floor(d.access.Now().Add(reconcileMargin - messages.MaxAge))
	oldest, err := d.access.OldestShown(ctx)
	if err != nil {
		return Reconciled{}, err
	}
	low, high := max(id.Floor(since), oldest, taken), id.Floor(until)
	at, err := parsePosition(cursor, low)
	if err != nil {
		return Reconciled{}, err
	}
	var done Reconciled
	for range reconcileCalls {
		if done.Checked >= limit {
			break
		}
		if at.bucket > schema.BucketOf(high) {
			return done, nil
		}
		made, err := d.access.Made(ctx, access.MadeRange{Bucket: at.bucket, Shard: at.shard, Low: low, High: high, After: at.after}, limit-done.Checked)
		if err != nil {
			return Reconciled{}, err
		}
		published, err := d.publishIncomplete(ctx, made.Posts)
		if err != nil {
			return Reconciled{}, err
		}
		done.Checked += len(made.Posts)
		done.Published += published
		if at, err = at.next(made.Posts, made.More); err != nil {
			return Reconciled{}, err
		}
	}
	done.Next = at.String()
	return done, nil
}

// position is the place of Reconcile in the index of posts by time.
type position struct {
	bucket string
	shard  int
	// after is the last examined post, "" for none.
	after string
}

func (p position) String() string {
	return p.bucket + "." + strconv.Itoa(p.shard) + "." + p.after
}

// parsePosition is the reverse of position.String. For the cursor "", parsePosition returns the bucket
// of the post first.
func parsePosition(cursor, first string) (position, error) {
	if cursor == "" {
		return position{bucket: schema.BucketOf(first)}, nil
	}
	parts := strings.Split(cursor, ".")
	if len(parts) == 3 && len(parts[0]) == len(schema.BucketOf(id.Max)) && id.Valid(access.EndOf(parts[0])) && (parts[2] == "" || id.Valid(parts[2])) {
		if shard, err := strconv.Atoi(parts[1]); err == nil && shard >= 0 && shard < schema.PostShards {
			return position{parts[0], shard, parts[2]}, nil
		}
	}
	return position{}, &fault.Error{Kind: fault.Malformed, Detail: "the cursor is not one of reconcile: begin without one"}
}

// next returns the position after a page of posts.
func (p position) next(read []schema.PostRef, more bool) (position, error) {
	if more && len(read) > 0 {
		return position{p.bucket, p.shard, read[len(read)-1].ID}, nil
	}
	if p.shard+1 < schema.PostShards {
		return position{bucket: p.bucket, shard: p.shard + 1}, nil
	}
	bucket, err := access.BucketAfter(p.bucket)
	return position{bucket: bucket}, err
}

// publishIncomplete publishes the posts whose delivery is not complete again.
func (d *Deliveries) publishIncomplete(ctx context.Context, refs []schema.PostRef) (published int, err error) {
	again := make([]bool, len(refs))
	works := make([]func(context.Context) error, len(refs))
	for i, ref := range refs {
		works[i] = func(ctx context.Context) (err error) { again[i], err = d.redeliver(ctx, ref); return err }
	}
	for part := range slices.Chunk(works, access.Readers) {
		if err := d.access.All(ctx, part...); err != nil {
			return 0, err
		}
	}
	for _, yes := range again {
		if yes {
			published++
		}
	}
	return published, nil
}

// redeliver publishes a post again, unless its delivery is complete or it was deleted.
func (d *Deliveries) redeliver(ctx context.Context, ref schema.PostRef) (published bool, err error) {
	progress, err := d.delivery(ctx, ref)
	if err != nil || progress.State != Queued && progress.State != Running {
		return false, err
	}
	post, err := d.access.StoredPost(ctx, access.Worker, ref.Author, ref.ID)
	if err != nil || post == nil {
		return false, err
	}
	return true, d.access.PublishPost(ctx, *post)
}
