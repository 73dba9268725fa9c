package feed

import (
	"context"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// DeliveryState is the stage that a delivery has reached.
type DeliveryState string

// The states. Only DeliveryPulled is stored; the others follow from the stored items.
const (
	// DeliveryQueued: the post is accepted, but no worker has begun.
	DeliveryQueued DeliveryState = "queued"
	// DeliveryRunning: a worker has begun.
	DeliveryRunning DeliveryState = "running"
	// DeliveryComplete: the chain reaches the open end, and all its chunks are done; or
	// the record has expired, long after the entries have. Then no number is known.
	DeliveryComplete DeliveryState = "complete"
	// DeliveryPulled: the post is not delivered, because homes merge the author's posts in.
	DeliveryPulled DeliveryState = "pulled"
	// DeliveryCancelled: the post was deleted before its delivery was complete.
	DeliveryCancelled DeliveryState = "cancelled"
)

// Delivery is the progress of a post's delivery. Values that are not known yet are nil.
type Delivery struct {
	State DeliveryState
	// Planned counts the followers when the fan-out began, and the author. Delivered
	// counts the entries of done chunks, and the author's own, which came with the post.
	Planned, Delivered *int64
	// ChunksTotal is known when the last chunk is planned.
	ChunksDone, ChunksTotal *int64
	// AcceptedAt is the time of the post's id.
	AcceptedAt             time.Time
	StartedAt, CompletedAt *time.Time
	// Attempts counts the times that a worker began.
	Attempts int64
}

// Delivery computes the state of a post's delivery from its stored plan and chain.
// Only the post's author may see it, also after the post was deleted.
func (s *Service) Delivery(ctx context.Context, user, post string) (Delivery, error) {
	ref, err := s.postByID(ctx, post)
	if err != nil {
		return Delivery{}, err
	}
	if ref.Author != user {
		return Delivery{}, forbidden("only the author of a post can see its delivery")
	}
	return s.delivery(ctx, ref)
}

func (s *Service) delivery(ctx context.Context, ref schema.PostRef) (Delivery, error) {
	plan, chain, err := s.readDelivery(ctx, ref.ID)
	if err != nil {
		return Delivery{}, unavailable("table", err)
	}
	d := Delivery{State: DeliveryQueued, AcceptedAt: timeOf(ref.ID)}
	if plan != nil {
		delivered := chain.delivered + 1
		d.State, d.Attempts, d.StartedAt = DeliveryRunning, plan.Attempts, &plan.Started
		d.Planned, d.Delivered, d.ChunksDone = &plan.Planned, &delivered, &chain.done
		if chain.ended {
			d.ChunksTotal = &chain.total
		}
	}
	switch {
	case plan != nil && plan.State == string(DeliveryPulled):
		d.State = DeliveryPulled
	case plan != nil && chain.ended && chain.done == chain.total:
		d.State, d.CompletedAt = DeliveryComplete, &chain.last
	case ref.Deleted:
		d.State = DeliveryCancelled
	case plan == nil && s.cfg.Now().Sub(d.AcceptedAt) >= s.cfg.TimelineTTL+schema.DeliveryKept:
		d.State = DeliveryComplete
	}
	return d, nil
}

// chain sums up the linked chunks, from the open start on.
type chain struct {
	next                   string
	ended                  bool
	total, done, delivered int64
	// last is the time when the latest chunk was done.
	last time.Time
}

// add links a chunk if it is the next one. Any other chunk is outside the chain.
func (c *chain) add(link schema.Chunk) {
	if c.ended || link.First != c.next {
		return
	}
	c.total++
	c.next, c.ended = link.End, link.End == ""
	if link.Done.IsZero() {
		return
	}
	c.done++
	c.delivered += link.Delivered
	if link.Done.After(c.last) {
		c.last = link.Done
	}
}

// readDelivery reads the partition of a post's delivery once: its chunks by their
// first key, then the plan.
func (s *Service) readDelivery(ctx context.Context, post string) (plan *schema.Plan, links chain, err error) {
	for page, err := range s.cfg.Store.Query(ctx, table.Query{PK: schema.DeliveryPK(post), Consistent: true}) {
		if err != nil {
			return nil, links, err
		}
		for _, it := range page.Items {
			if it.Key.SK == schema.SortPlan {
				p, err := schema.ParsePlan(it)
				if err != nil {
					return nil, links, err
				}
				plan = &p
				continue
			}
			link, err := schema.ParseChunk(it)
			if err != nil {
				return nil, links, err
			}
			links.add(link)
		}
	}
	return plan, links, nil
}
