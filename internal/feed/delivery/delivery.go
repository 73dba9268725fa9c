// Package delivery reports the progress of a post's delivery, and restarts lost deliveries. Package
// fanout makes the deliveries.
//
// # It must never
//
//   - Write an item. A worker writes the plan, the chunks and the entries.
//   - Read all records of a delivery in one request: PageSize is the bound (I9, I11).
package delivery

import (
	"context"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// State is the stage of a delivery.
type State string

// These constants are the states of a delivery. Only Pulled is stored; each other state follows from
// the stored items.
const (
	// Queued means that the post is accepted, but no worker has begun.
	Queued State = "queued"
	// Running means that a worker has begun.
	Running State = "running"
	// Complete means that the chain reaches the open end, and all its chunks are done. A delivery is also
	// Complete if its record has expired, long after its entries expired; then no number is known.
	Complete State = "complete"
	// Pulled means that the post is not delivered, because homes merge the author's posts in.
	Pulled State = schema.PlanPulled
	// Cancelled means that the post was deleted, or ended, before its delivery was complete.
	Cancelled State = "cancelled"
)

// Progress is the progress of a post's delivery, and its JSON for operators. Unknown values are
// nil.
type Progress struct {
	State State `json:"state"`
	// Reason is the reason for a cancelled delivery.
	Reason string `json:"reason,omitempty"`
	// Planned is the number of followers at the beginning of the fan-out, plus one for the author.
	// Delivered is the number of entries of done chunks, plus the author's own entry, which was written
	// with the post. Skipped is the number of away followers in done chunks.
	Planned   *int64 `json:"planned"`
	Delivered *int64 `json:"delivered"`
	Skipped   *int64 `json:"skipped"`
	// ChunksTotal is known after the last chunk was planned.
	ChunksDone  *int64 `json:"chunks_done"`
	ChunksTotal *int64 `json:"chunks_total"`
	// AcceptedAt is the time of the post's id.
	AcceptedAt  time.Time  `json:"accepted_at"`
	StartedAt   *time.Time `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"`
	// Attempts is the number of times that a worker has begun the delivery.
	Attempts int64 `json:"attempts"`
	// TakenDown is nil unless a service deleted the post.
	TakenDown *TakenDown `json:"taken_down,omitempty"`
}

// TakenDown is the deletion of a post by a service or an operator, and its JSON.
type TakenDown struct {
	Reason string    `json:"reason" doc:"The reason of the take-down."`
	By     string    `json:"by" doc:"The service: the sub of its token, which is never operator; or operator."`
	At     time.Time `json:"at"`
}

// Deliveries reads the deliveries of posts. Its methods are safe for concurrent use.
type Deliveries struct{ access *access.Access }

// New returns Deliveries.
func New(a *access.Access) *Deliveries { return &Deliveries{a} }

// Delivery computes the state of a post's delivery from the stored plan and the stored chain. Only the
// post's author may see the delivery, also after the post was deleted.
func (d *Deliveries) Delivery(ctx context.Context, user, post string) (Progress, error) {
	ref, err := d.access.PostOfAnyAudience(ctx, access.Author, post)
	if err != nil {
		return Progress{}, err
	}
	if ref.Author != user {
		return Progress{}, fault.NotYours("only the author of a post can see its delivery")
	}
	return d.delivery(ctx, ref)
}

// AnyDelivery computes the state of any post's delivery, for operators.
func (d *Deliveries) AnyDelivery(ctx context.Context, post string) (Progress, error) {
	ref, err := d.access.PostOfAnyAudience(ctx, access.Operator, post)
	if err != nil {
		return Progress{}, err
	}
	return d.delivery(ctx, ref)
}

func (d *Deliveries) delivery(ctx context.Context, ref schema.PostRef) (Progress, error) {
	plan, chain, err := d.readDelivery(ctx, ref.ID)
	if err != nil {
		return Progress{}, fault.Wrap("table", err)
	}
	lives, err := d.access.Lives(ctx)
	if err != nil {
		return Progress{}, err
	}
	p := Progress{State: Queued, AcceptedAt: access.TimeOf(ref.ID), TakenDown: (*TakenDown)(ref.TakenDown)}
	if plan != nil {
		delivered := chain.Delivered + 1
		p.State, p.Attempts, p.StartedAt = Running, plan.Attempts, &plan.Started
		p.Planned, p.Delivered, p.Skipped, p.ChunksDone = &plan.Planned, &delivered, &chain.Skipped, &chain.Done
		if chain.Ended {
			p.ChunksTotal = &chain.Total
		}
	}
	switch {
	case plan != nil && plan.State == string(Pulled):
		p.State = Pulled
	case plan != nil && chain.Ended && chain.Done == chain.Total:
		p.State, p.CompletedAt = Complete, &chain.Last
	case ref.Gone(d.access.Now()):
		p.State, p.Reason = Cancelled, "the post "+access.WhyGone(ref)
	case plan == nil && !d.access.Now().Before(lives.End(p.AcceptedAt).Add(schema.DeliveryKept)):
		p.State = Complete
	}
	return p, nil
}

// PageSize is the maximum number of chunks in one read of a delivery, which bounds the cost of the
// read. Workers leave far fewer chunks behind the plan's summary.
const PageSize = 1000

// readDelivery reads a post's plan, and then a page of chunks that begins at the end of the plan's
// summary. While a delivery runs, done chunks beyond that page do not count yet.
func (d *Deliveries) readDelivery(ctx context.Context, post string) (*schema.Plan, schema.Chain, error) {
	it, err := d.access.Get(ctx, schema.DeliveryPlanKey(post), true)
	if err != nil || it == nil {
		return nil, schema.Chain{}, err
	}
	plan, err := schema.ParsePlan(*it)
	if err != nil {
		return nil, schema.Chain{}, err
	}
	links := plan.Sum
	for page, err := range d.access.Store.Query(ctx, table.Query{
		PK: schema.DeliveryPK(post), Low: schema.ChunkSK(links.Upto), High: schema.SortChunkEnd,
		PageSize: PageSize, Consistent: true,
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
