package feed

import (
	"context"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
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
	DeliveryPulled DeliveryState = schema.PlanPulled
	// DeliveryCancelled: the post was deleted before its delivery was complete.
	DeliveryCancelled DeliveryState = "cancelled"
)

// Delivery is the progress of a post's delivery. Values that are not known yet are nil.
type Delivery struct {
	State DeliveryState
	// Planned counts the followers when the fan-out began, and the author. Delivered
	// counts the entries of done chunks, and the author's own, which came with the post.
	// Skipped counts the followers of done chunks that were away.
	Planned, Delivered, Skipped *int64
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
	ref, err := s.access.PostByID(ctx, post)
	if err != nil {
		return Delivery{}, err
	}
	if ref.Author != user {
		return Delivery{}, fault.NotYours("only the author of a post can see its delivery")
	}
	return s.delivery(ctx, ref)
}

// AnyDelivery is Delivery for operators: of every post.
func (s *Service) AnyDelivery(ctx context.Context, post string) (Delivery, error) {
	ref, err := s.access.PostByID(ctx, post)
	if err != nil {
		return Delivery{}, err
	}
	return s.delivery(ctx, ref)
}

func (s *Service) delivery(ctx context.Context, ref schema.PostRef) (Delivery, error) {
	plan, chain, err := s.readDelivery(ctx, ref.ID)
	if err != nil {
		return Delivery{}, fault.Wrap("table", err)
	}
	d := Delivery{State: DeliveryQueued, AcceptedAt: access.TimeOf(ref.ID)}
	if plan != nil {
		delivered := chain.Delivered + 1
		d.State, d.Attempts, d.StartedAt = DeliveryRunning, plan.Attempts, &plan.Started
		d.Planned, d.Delivered, d.Skipped, d.ChunksDone = &plan.Planned, &delivered, &chain.Skipped, &chain.Done
		if chain.Ended {
			d.ChunksTotal = &chain.Total
		}
	}
	switch {
	case plan != nil && plan.State == string(DeliveryPulled):
		d.State = DeliveryPulled
	case plan != nil && chain.Ended && chain.Done == chain.Total:
		d.State, d.CompletedAt = DeliveryComplete, &chain.Last
	case ref.Deleted:
		d.State = DeliveryCancelled
	case plan == nil && s.access.Now().Sub(d.AcceptedAt) >= s.access.TimelineTTL+schema.DeliveryKept:
		d.State = DeliveryComplete
	}
	return d, nil
}

// DeliveryPage is the number of chunks that one read of a delivery looks at: the bound of
// its cost. It is far above the number that workers leave behind the plan's summary.
const DeliveryPage = 1000

// readDelivery reads a post's plan, and then a page of its chunks from the end of the plan's
// summary on. While a delivery runs, done chunks beyond that page are not counted yet.
func (s *Service) readDelivery(ctx context.Context, post string) (*schema.Plan, schema.Chain, error) {
	it, err := s.access.Get(ctx, schema.DeliveryPlanKey(post), true)
	if err != nil || it == nil {
		return nil, schema.Chain{}, err
	}
	plan, err := schema.ParsePlan(*it)
	if err != nil {
		return nil, schema.Chain{}, err
	}
	links := plan.Sum
	for page, err := range s.access.Store.Query(ctx, table.Query{
		PK: schema.DeliveryPK(post), Low: schema.ChunkSK(links.Upto), High: schema.SortChunkEnd,
		PageSize: DeliveryPage, Consistent: true,
	}) {
		if err != nil {
			return nil, links, err
		}
		for _, it := range page.Items {
			link, err := schema.ParseChunk(it)
			if err != nil {
				return nil, links, err
			}
			links.Add(link)
		}
		break
	}
	return &plan, links, nil
}
