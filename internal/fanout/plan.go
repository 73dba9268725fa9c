package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"fanfare/internal/panics"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// sendBatch is how many chunks are stored and sent together at most: what one SQS
// request takes. A planner begins with one and doubles, so that the first
// deliveries need not wait until ten chunks are cut.
const sendBatch = 10

// planner cuts the followers of one post into chunks, from one key on.
//
// The chain of stored chunks is the only truth: a chunk begins where the stored one
// before it ends, "" first. Chunks are stored if absent, up to ten at once. Where
// another planner was faster with another end, the planner goes on from that end,
// and those of its own that it had stored behind are out of the chain: nobody is
// sent to them, and the ledger passes them by.
type planner struct {
	w         *Worker
	p         post
	requestID string
	// from is where the chain goes on, left how many more chunks this message
	// may look at.
	from string
	left int
	// batch is how many chunks are stored and sent together.
	batch int
	// ended tells that the chain has reached the open end.
	ended bool
	// outbox are chunks that are stored, but not sent yet.
	outbox []messages.Event
}

func (w *Worker) plan(ctx context.Context, e *messages.FanoutPlan) error {
	ref, living, err := w.living(ctx, e.PostID, e.AuthorID)
	if err != nil {
		return err
	}
	if !living {
		w.Log.Info("planning stopped: deleted", zap.String("post_id", e.PostID), zap.String("request_id", e.RequestID))
		return nil
	}
	p, err := w.newPost(e.PostID, e.AuthorID, ref.LikeShards)
	if err != nil {
		return err
	}
	pl := &planner{w: w, p: p, requestID: e.RequestID, from: e.First, left: w.PlanChunks, batch: sendBatch}
	if e.First == "" {
		pl.batch = 1
	}
	for !pl.ended && pl.left > 0 {
		if err := pl.follow(ctx); err != nil {
			return err
		}
		if pl.ended || pl.left == 0 {
			break
		}
		if err := pl.extend(ctx); err != nil {
			return err
		}
	}
	if !pl.ended {
		head, err := w.header(e.RequestID)
		if err != nil {
			return err
		}
		pl.outbox = append(pl.outbox, &messages.FanoutPlan{Header: head, PostID: p.id, AuthorID: p.author, First: pl.from})
	}
	return pl.send(ctx)
}

// follow walks the stored chain and sends what is not done.
func (pl *planner) follow(ctx context.Context) error {
	for page, err := range pl.w.Store.Query(ctx, table.Query{
		PK: schema.DeliveryPK(pl.p.id), Low: schema.ChunkSK(pl.from), High: schema.SortChunkEnd,
		PageSize: pl.left, Consistent: true,
	}) {
		if err != nil {
			return fmt.Errorf("read the delivery chunks of post %s: %w", pl.p.id, err)
		}
		for _, it := range page.Items {
			c, err := schema.ParseChunk(it)
			switch {
			case err != nil:
				return err
			case c.First < pl.from:
				continue // out of the chain
			case c.First > pl.from:
				return nil // the chain ends before it
			}
			if err := pl.link(ctx, c); err != nil {
				return err
			}
			if pl.ended || pl.left == 0 {
				return nil
			}
		}
	}
	return nil
}

// link takes a stored chunk into the chain: it is sent if it is not done.
func (pl *planner) link(ctx context.Context, c schema.Chunk) error {
	pl.from, pl.ended = c.End, c.End == ""
	pl.left--
	if !c.Done.IsZero() {
		return nil
	}
	head, err := pl.w.header(pl.requestID)
	if err != nil {
		return err
	}
	pl.outbox = append(pl.outbox, &messages.FanoutChunk{
		Header: head, PostID: pl.p.id, AuthorID: pl.p.author, First: c.First, End: c.End,
	})
	if len(pl.outbox) < sendBatch {
		return nil
	}
	return pl.send(ctx)
}

func (pl *planner) send(ctx context.Context) error {
	if len(pl.outbox) == 0 {
		return nil
	}
	err := pl.w.publish(ctx, pl.outbox...)
	pl.outbox = pl.outbox[:0]
	return err
}

// extend looks at the followers from the end of the chain on and stores new chunks:
// one ends, and the next begins, with the last follower of each page. It stops at the
// last page, when no chunk is left to this message, or where another planner's chunk
// is in the way. The read need not be consistent: it only decides where to cut, and
// the ranges cover who it misses.
func (pl *planner) extend(ctx context.Context) error {
	var cuts []schema.Chunk
	next := schema.Chunk{Post: pl.p.id, First: pl.from}
	q := table.Query{
		PK: schema.FollowersPK(pl.p.author), Low: schema.UserSK(""), PageSize: pl.w.ChunkSize, EndsOnly: true,
	}
	if pl.from != "" { // who is the first of this chunk
		q.After = schema.UserSK(pl.from)
	}
	for page, err := range pl.w.Store.Query(ctx, q) {
		if err != nil {
			return fmt.Errorf("read the followers of %s: %w", pl.p.author, err)
		}
		for _, it := range page.Items {
			user, ok := schema.UserOfSK(it.Key.SK)
			if !ok {
				return &schema.ParseError{Key: it.Key, Problem: "not a follower"}
			}
			next.End = user
			cuts = append(cuts, next)
			next = schema.Chunk{Post: pl.p.id, First: user}
			if len(cuts) < min(pl.batch, pl.left) {
				continue
			}
			if whole, err := pl.store(ctx, cuts); err != nil || !whole || pl.left == 0 {
				return err
			}
			if err := pl.send(ctx); err != nil {
				return err
			}
			cuts, pl.batch = cuts[:0], min(2*pl.batch, sendBatch)
		}
	}
	_, err := pl.store(ctx, append(cuts, next))
	return err
}

// store puts chunks, which follow each other, and links them. whole tells that all
// of them are in the chain now.
func (pl *planner) store(ctx context.Context, cuts []schema.Chunk) (whole bool, err error) {
	errs := make([]error, len(cuts))
	var puts sync.WaitGroup
	for i, c := range cuts {
		puts.Go(func() {
			errs[i] = panics.Catch(func() error {
				_, err := pl.w.Store.Put(ctx, table.PutInput{Item: c.Item(), If: table.Absent{}})
				return err
			})
		})
	}
	puts.Wait()
	for i, c := range cuts {
		end := c.End
		if failed, ok := errors.AsType[*table.ConditionError](errs[i]); ok && failed.Old != nil {
			if c, err = schema.ParseChunk(*failed.Old); err != nil {
				return false, err
			}
		} else if errs[i] != nil {
			return false, fmt.Errorf("write a delivery chunk of post %s: %w", pl.p.id, errs[i])
		}
		if err := pl.link(ctx, c); err != nil {
			return false, err
		}
		if c.End != end {
			return false, nil
		}
	}
	return true, nil
}
