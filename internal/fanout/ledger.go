package fanout

import (
	"context"
	"fmt"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// State says how far a delivery is.
type State string

// The states. None is stored but pulled: the others follow from what is.
const (
	// StateQueued is accepted, but no worker has begun.
	StateQueued State = "queued"
	// StateRunning has begun.
	StateRunning State = "running"
	// StateComplete has a chain that reaches the open end, with all chunks done.
	StateComplete State = "complete"
	// StatePulled is not delivered: homes merge the author's posts in.
	StatePulled State = "pulled"
	// StateCancelled was deleted before it was complete.
	StateCancelled State = "cancelled"
)

// Delivery is how far a post's delivery is. What is not known yet is nil.
type Delivery struct {
	State State
	// Planned is the followers when the fan-out began, and the author; Delivered
	// the entries in done chunks, and the author's own, which came with the post.
	Planned, Delivered *int64
	// ChunksTotal is known when the last chunk is planned.
	ChunksDone, ChunksTotal *int64
	// AcceptedAt is the time of the post's id.
	AcceptedAt             time.Time
	StartedAt, CompletedAt *time.Time
	// Attempts is how often a worker began.
	Attempts int64
}

// Ledger reads deliveries.
type Ledger struct{ store table.Store }

// NewLedger returns a ledger over store.
func NewLedger(store table.Store) *Ledger { return &Ledger{store} }

// Delivery computes the state of a post's delivery from its stored chain. It does
// not look whether the post exists: one that no worker has met is queued.
func (l *Ledger) Delivery(ctx context.Context, post string) (Delivery, error) {
	at, err := id.Time(post)
	if err != nil {
		return Delivery{}, err
	}
	d := Delivery{State: StateQueued, AcceptedAt: at}
	plan, chain, err := l.read(ctx, post)
	if err != nil {
		return Delivery{}, fmt.Errorf("read the delivery of post %s: %w", post, err)
	}
	if plan != nil {
		delivered := chain.delivered + 1
		d.State, d.Attempts, d.StartedAt = StateRunning, plan.Attempts, &plan.Started
		d.Planned, d.Delivered, d.ChunksDone = &plan.Planned, &delivered, &chain.done
		if chain.ended {
			d.ChunksTotal = &chain.total
		}
	}
	switch {
	case plan != nil && plan.State == string(StatePulled):
		d.State = StatePulled
		return d, nil
	case plan != nil && chain.ended && chain.done == chain.total:
		d.State, d.CompletedAt = StateComplete, &chain.last
		return d, nil
	}
	res, err := l.store.Get(ctx, table.GetInput{Key: schema.PostByIDKey(post), Consistent: true})
	if err != nil {
		return Delivery{}, fmt.Errorf("read post %s: %w", post, err)
	}
	if res.Item != nil && res.Item.Int(schema.AttrDeleted) != 0 {
		d.State = StateCancelled
	}
	return d, nil
}

// chain sums up the chunks that are linked, from the open start on.
type chain struct {
	next                   string
	ended                  bool
	total, done, delivered int64
	// last is when the latest chunk was done.
	last time.Time
}

// add links a chunk if it is the next one. Others are out of the chain, or the
// chain ends before them.
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

// read walks the ledger's partition once: chunks by their first key, then the plan.
func (l *Ledger) read(ctx context.Context, post string) (plan *schema.Plan, links chain, err error) {
	for page, err := range l.store.Query(ctx, table.Query{PK: schema.DeliveryPK(post), Consistent: true}) {
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
