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
	"fanfare/internal/trace"
	"fanfare/messages"
)

// span is a range of follower ids: from first up to end, without end. A side with "" is open.
type span struct{ first, end string }

// page is one page of followers.
type page struct {
	items []table.Item
	// more means that another page may follow.
	more bool
	// ref is the post, read before the page. The followers of a deleted post are not read.
	ref schema.PostRef
}

// last returns the sort key just before the next page.
func (p page) last() string { return p.items[len(p.items)-1].Key.SK }

// chunk delivers one chunk, unless it is marked done.
func (w *Worker) chunk(ctx context.Context, e *messages.FanoutChunk) error {
	stored, err := w.storedChunk(ctx, e.PostID, e.First)
	if err != nil {
		return err
	}
	if stored == nil {
		// A chunk is stored before it is sent.
		return messages.Permanent(messages.ReasonNoChunk, "none of post %s begins at %q", e.PostID, e.First)
	}
	if stored.Done.IsZero() {
		if err := w.deliverChunk(ctx, e.AuthorID, *stored); err != nil {
			return err
		}
	}
	return w.summarize(ctx, e.PostID)
}

// storedChunk reads the chunk of a post that begins at first. It returns nil if there is no such chunk.
func (w *Worker) storedChunk(ctx context.Context, postID, first string) (*schema.Chunk, error) {
	res, err := w.cfg.Store.Get(ctx, table.GetInput{Key: schema.DeliveryChunkKey(postID, first), Consistent: true})
	if err != nil {
		return nil, fmt.Errorf("read a delivery chunk of post %s: %w", postID, err)
	}
	if res.Item == nil {
		return nil, nil
	}
	c, err := schema.ParseChunk(*res.Item)
	return &c, err
}

// deliverChunk writes the entries of c's followers and marks c done. While it writes one page
// it reads the next page.
func (w *Worker) deliverChunk(ctx context.Context, author string, c schema.Chunk) error {
	next, err := w.readPage(ctx, author, c, "")
	if err != nil {
		return err
	}
	p, err := w.newPost(ctx, next.ref)
	if err != nil {
		return err
	}
	for more := true; more && !p.expired; {
		if gone, err := w.gone(next.ref); err != nil {
			return err
		} else if gone {
			w.cfg.Log.Info("delivery stopped: the post was deleted or has ended", zap.String("post_id", p.id), trace.ID(ctx))
			return nil
		}
		current := next
		var readErr error
		var reading sync.WaitGroup
		if more = current.more; more {
			reading.Go(func() {
				readErr = panics.Catch(func() (err error) {
					next, err = w.readPage(ctx, author, c, current.last())
					return err
				})
			})
		}
		delivered, skipped, err := w.write(ctx, p, current.items)
		reading.Wait()
		if err := errors.Join(err, readErr); err != nil {
			return err
		}
		c.Delivered += delivered
		c.Skipped += skipped
	}
	describe(ctx, c)
	return w.markDone(ctx, c)
}

// markDone marks a chunk done. If several workers deliver the chunk, the mark and the counts of
// the first worker stay.
func (w *Worker) markDone(ctx context.Context, c schema.Chunk) error {
	_, err := w.cfg.Store.Update(ctx, table.UpdateInput{
		Key: schema.DeliveryChunkKey(c.Post, c.First),
		Set: []table.Attr{
			{Name: schema.AttrDone, Value: table.N(w.cfg.Now().UnixMilli())},
			{Name: schema.AttrDelivered, Value: table.N(c.Delivered)},
			{Name: schema.AttrSkipped, Value: table.N(c.Skipped)},
		},
		If: table.All{table.Exists{}, table.AttrAbsent{Name: schema.AttrDone}},
	})
	if _, done := errors.AsType[*table.ConditionError](err); done {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mark a delivery chunk of post %s done: %w", c.Post, err)
	}
	w.cfg.Log.Debug("chunk delivered", zap.String("post_id", c.Post), zap.String("first", c.First), zap.Int64("delivered", c.Delivered), trace.ID(ctx))
	return nil
}

// readPage reads the post. Unless the post was deleted, readPage then reads the page of c's
// followers after the sort key after, "" for the first page.
func (w *Worker) readPage(ctx context.Context, author string, c schema.Chunk, after string) (page, error) {
	ref, err := w.postRef(ctx, c.Post, author)
	if err != nil || ref.Deleted {
		return page{ref: ref}, err
	}
	p, err := w.followers(ctx, author, span{c.First, c.End}, after)
	p.ref = ref
	return p, err
}

// followers reads the page of a range of followers after the sort key after, "" for the first
// page. Only the last page may be empty.
func (w *Worker) followers(ctx context.Context, author string, r span, after string) (page, error) {
	q := table.Query{
		PK: schema.FollowersPK(author), Low: schema.UserSK(r.first), After: after,
		PageSize: w.cfg.PageSize, Consistent: true, Project: []string{},
	}
	if w.cfg.ActiveDays != 0 {
		q.Project = []string{schema.AttrUntil}
	}
	if r.end != "" {
		q.High = schema.BelowUser(r.end)
	}
	for got, err := range w.cfg.Store.Query(ctx, q) {
		if err != nil {
			return page{}, fmt.Errorf("read the followers of %s: %w", author, err)
		}
		if len(got.Items) > 0 || !got.More {
			return page{items: got.Items, more: got.More}, nil
		}
	}
	return page{}, nil
}
