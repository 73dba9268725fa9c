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

// span is a range of follower ids: from first on, up to but without end, each ""
// for open.
type span struct{ first, end string }

// page is one page of followers.
type page struct {
	items []table.Item
	// more tells that another page has to be asked for.
	more bool
	// ref and living are the post's, read before the page.
	ref    schema.PostRef
	living bool
}

// last is the sort key that the next page starts behind.
func (p page) last() string { return p.items[len(p.items)-1].Key.SK }

// chunk delivers one chunk, unless the ledger says that it is done.
func (w *Worker) chunk(ctx context.Context, e *messages.FanoutChunk) error {
	stored, err := w.stored(ctx, e.PostID, e.First)
	if err != nil {
		return err
	}
	if stored == nil {
		// A chunk is stored before it is sent.
		return &messages.PermanentError{Reason: fmt.Sprintf("post %s has no chunk from %q on in its ledger", e.PostID, e.First)}
	}
	if !stored.Done.IsZero() {
		return nil
	}
	return w.deliverChunk(ctx, e.AuthorID, *stored)
}

// stored reads the chunk of a ledger that starts at first; nil if there is none.
func (w *Worker) stored(ctx context.Context, postID, first string) (*schema.Chunk, error) {
	res, err := w.Store.Get(ctx, table.GetInput{Key: schema.DeliveryChunkKey(postID, first), Consistent: true})
	if err != nil {
		return nil, fmt.Errorf("read a delivery chunk of post %s: %w", postID, err)
	}
	if res.Item == nil {
		return nil, nil
	}
	c, err := schema.ParseChunk(*res.Item)
	return &c, err
}

// deliverChunk writes the entries of c's followers and marks it done. While one
// page is written the next is read.
func (w *Worker) deliverChunk(ctx context.Context, author string, c schema.Chunk) error {
	next, err := w.read(ctx, author, c, "")
	if err != nil {
		return err
	}
	p, err := w.newPost(c.Post, author, next.ref.LikeShards)
	if err != nil {
		return err
	}
	for more := true; more && !p.expired; {
		if !next.living {
			w.Log.Info("delivery stopped: deleted", zap.String("post_id", p.id))
			return nil
		}
		current := next
		var readErr error
		var reading sync.WaitGroup
		if more = current.more; more {
			reading.Go(func() {
				readErr = panics.Catch(func() (err error) {
					next, err = w.read(ctx, author, c, current.last())
					return err
				})
			})
		}
		n, err := w.write(ctx, p, current.items)
		reading.Wait()
		if err := errors.Join(err, readErr); err != nil {
			return err
		}
		c.Delivered += n
	}
	return w.markDone(ctx, c)
}

// markDone marks a chunk done. Only the first worker to get there counts.
func (w *Worker) markDone(ctx context.Context, c schema.Chunk) error {
	_, err := w.Store.Update(ctx, table.UpdateInput{
		Key: schema.DeliveryChunkKey(c.Post, c.First),
		Set: []table.Attr{
			{Name: schema.AttrDone, Value: table.N(w.Now().UnixMilli())},
			{Name: schema.AttrDelivered, Value: table.N(c.Delivered)},
		},
		If: table.All{table.Exists{}, table.AttrAbsent{Name: schema.AttrDone}},
	})
	if _, done := errors.AsType[*table.ConditionError](err); done {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mark a delivery chunk of post %s done: %w", c.Post, err)
	}
	w.Log.Debug("chunk delivered", zap.String("post_id", c.Post), zap.String("first", c.First), zap.Int64("delivered", c.Delivered))
	return nil
}

// read looks whether the post lives and then, if it does, reads the page of c's
// followers behind after.
func (w *Worker) read(ctx context.Context, author string, c schema.Chunk, after string) (page, error) {
	ref, living, err := w.living(ctx, c.Post, author)
	if err != nil || !living {
		return page{}, err
	}
	p, err := w.followers(ctx, author, span{c.First, c.End}, after)
	p.living, p.ref = true, ref
	return p, err
}

// followers reads the page of a range behind the sort key after, "" for the first.
// It has items or is the last.
func (w *Worker) followers(ctx context.Context, author string, r span, after string) (page, error) {
	q := table.Query{
		PK: schema.FollowersPK(author), Low: schema.UserSK(r.first), After: after,
		PageSize: w.PageSize, Consistent: true, Project: []string{},
	}
	if r.end != "" {
		q.High = schema.BelowUser(r.end)
	}
	for got, err := range w.Store.Query(ctx, q) {
		if err != nil {
			return page{}, fmt.Errorf("read the followers of %s: %w", author, err)
		}
		if len(got.Items) > 0 || !got.More {
			return page{items: got.Items, more: got.More}, nil
		}
	}
	return page{}, nil
}
