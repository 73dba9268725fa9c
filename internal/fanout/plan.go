package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/invariants"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// sendBatch is the maximum number of chunks that are stored and sent together. One SQS request can take as
// many. A planner begins with one chunk and doubles the number, so that the first deliveries do not wait for
// ten chunks.
const sendBatch = 10

// planner cuts the followers of one post into chunks, beginning at one key.
//
// Only the stored chain counts: the first chunk begins at "", and each later chunk begins where
// the previous chunk ends. Chunks are stored if they are absent, up to ten at once. If another
// planner has stored a chunk with another end, this planner continues from that end. Chunks
// that this planner stored above that end may then be out of the chain: no message is sent for
// such chunks, and no reader of the chain sees them.
type planner struct {
	w         *Worker
	p         post
	requestID string
	// from is the end of the chain so far.
	from string
	// left is the number of chunks that this message may still add to the chain, or read from it.
	left int
	// batch is the number of chunks that are stored and sent together.
	batch int
	// ended means that the chain has a chunk with an open end.
	ended bool
	// outbox has messages for chunks that are stored, but not sent yet.
	outbox []messages.Event
}

// plan reads and extends the chain of a post by up to PlanChunks chunks. If the chain has not
// ended, plan sends another FanoutPlan.
func (w *Worker) plan(ctx context.Context, e *messages.FanoutPlan) error {
	ref, err := w.postRef(ctx, e.PostID, e.AuthorID)
	if err != nil {
		return err
	}
	if gone, err := w.gone(ref); err != nil {
		return err
	} else if gone {
		w.cfg.Log.Info("planning stopped: the post was deleted or has ended", zap.String("post_id", e.PostID), zap.String("request_id", e.RequestID), trace.ID(ctx))
		return nil
	}
	p, err := w.newPost(ctx, ref)
	if err != nil {
		return err
	}
	if expired, err := w.passed(p.recordTTL); err != nil {
		return err
	} else if expired {
		w.cfg.Log.Info("planning stopped: the delivery record has expired", zap.String("post_id", p.id), zap.String("request_id", e.RequestID), trace.ID(ctx))
		return nil
	}
	if e.First != "" {
		if err := w.requireChunkBefore(ctx, p.id, e.First); err != nil {
			return err
		}
	}
	pl := &planner{w: w, p: p, requestID: e.RequestID, from: e.First, left: w.cfg.PlanChunks, batch: sendBatch}
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

// requireChunkBefore returns a *messages.PermanentError unless a stored chunk of the post ends at first. A
// planner stores that chunk before it sends the next plan. Without this check, each forged plan would add
// chunks to the delivery record. The chunk is the last chunk below first, or there are only a few chunks
// between, which are out of the chain.
func (w *Worker) requireChunkBefore(ctx context.Context, postID, first string) error {
	for page, err := range w.cfg.Store.Query(ctx, table.Query{
		PK: schema.DeliveryPK(postID), Low: schema.ChunkSK(""), After: schema.ChunkSK(first), Descending: true,
		PageSize: w.cfg.PlanChunks, Consistent: true,
	}) {
		if err != nil {
			return fmt.Errorf("read the delivery chunks of post %s: %w", postID, err)
		}
		for _, it := range page.Items {
			c, err := schema.ParseChunk(it)
			if err != nil {
				return err
			}
			if c.End == first {
				return nil
			}
		}
	}
	return messages.Permanent(messages.ReasonNoChunk, "none of post %s ends at %q", postID, first)
}

// follow reads the stored chain from pl.from on, and sends the chunks that are not done.
func (pl *planner) follow(ctx context.Context) error {
	for page, err := range pl.w.cfg.Store.Query(ctx, table.Query{
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
				return nil // the chain ends before this chunk
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

// link adds a stored chunk to the chain, and sends the chunk if it is not done.
func (pl *planner) link(ctx context.Context, c schema.Chunk) error {
	invariants.Check(c.First == pl.from && !pl.ended, "I1: chunk %q..%q follows a chain that ends at %q", c.First, c.End, pl.from)
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
	err := pl.w.publish(ctx, queue.TopicChunks, pl.outbox...)
	pl.outbox = pl.outbox[:0]
	return err
}

// extend reads the followers from the end of the chain on, and stores new chunks. The last
// follower of each page ends one chunk and begins the next chunk. extend stops at the last
// page, when this message may add no more chunks, or when another planner has stored a chunk
// with another end. The read need not be consistent, because it decides only where to cut: the
// ranges also cover followers that the read misses.
func (pl *planner) extend(ctx context.Context) error {
	var cuts []schema.Chunk
	next := schema.Chunk{Post: pl.p.id, First: pl.from, TTL: pl.p.recordTTL}
	q := table.Query{
		PK: schema.FollowersPK(pl.p.author), Low: schema.UserSK(""), PageSize: pl.w.cfg.ChunkSize, EndsOnly: true,
	}
	if pl.from != "" { // pl.from is the first follower of this chunk, so it cannot be the chunk's end
		q.After = schema.UserSK(pl.from)
	}
	for page, err := range pl.w.cfg.Store.Query(ctx, q) {
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
			next = schema.Chunk{Post: pl.p.id, First: user, TTL: pl.p.recordTTL}
			if len(cuts) < min(pl.batch, pl.left) {
				continue
			}
			if linked, err := pl.store(ctx, cuts); err != nil || !linked || pl.left == 0 {
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

// store puts consecutive chunks that are absent, and links the stored chunks. linked reports
// whether all of cuts are in the chain now.
func (pl *planner) store(ctx context.Context, cuts []schema.Chunk) (linked bool, err error) {
	errs := make([]error, len(cuts))
	var puts sync.WaitGroup
	for i, c := range cuts {
		puts.Go(func() {
			errs[i] = panics.Catch(func() error {
				_, err := pl.w.cfg.Store.Put(ctx, table.PutInput{Item: c.Item(), If: table.Absent{}})
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

// publish sends events to a topic. After an error, some of the events may have been sent.
func (w *Worker) publish(ctx context.Context, topic string, events ...messages.Event) error {
	msgs := make([]*message.Message, 0, len(events))
	for _, e := range events {
		msg, err := queue.Message(ctx, e)
		if err != nil {
			return err
		}
		msgs = append(msgs, msg)
	}
	if err := w.cfg.Publisher.Publish(topic, msgs...); err != nil {
		return fmt.Errorf("send %d messages to %s: %w", len(msgs), topic, err)
	}
	return nil
}

// newID returns a new id. If the clock is in doubt, it returns an error: other workers would refuse an event from
// days ahead. The doubt is checked first, because the ids of a generator only grow: they would stay ahead after
// the clock was set right.
func (w *Worker) newID() (string, error) { return w.newIDAfter("") }

// newIDAfter is newID for an id above floor.
func (w *Worker) newIDAfter(floor string) (string, error) {
	if err := w.cfg.Clock.Doubt(); err != nil {
		return "", err
	}
	return w.cfg.IDs.After(floor)
}

// header returns the header of an event that a request caused.
func (w *Worker) header(requestID string) (messages.Header, error) {
	eventID, err := w.newID()
	if err != nil {
		return messages.Header{}, err
	}
	return messages.Header{EventID: eventID, Time: w.cfg.Now().UTC(), RequestID: requestID}, nil
}
