package access

import (
	"context"
	"sync/atomic"

	"fanfare/internal/table"
)

// Cost counts the capacity units that the table calls of one request used or caused. If several
// requests share a read, the request that makes the read counts the units.
type Cost struct{ halves atomic.Int64 } // a call uses half a unit at least

type costKey struct{}

// WithCost returns a context whose calls of a Service add to a Cost.
func WithCost(ctx context.Context) (context.Context, *Cost) {
	cost := new(Cost)
	return context.WithValue(ctx, costKey{}, cost), cost
}

// Cause adds the units that the request's later work will use.
func Cause(ctx context.Context, units int64) {
	if cost, ok := ctx.Value(costKey{}).(*Cost); ok {
		cost.halves.Add(2 * units)
	}
}

// Measure runs a part of a request and returns the units of that part.
func Measure(ctx context.Context, do func(context.Context) error) (units float64, err error) {
	part, cost := WithCost(ctx)
	err = do(part)
	if whole, ok := ctx.Value(costKey{}).(*Cost); ok {
		whole.halves.Add(cost.halves.Load())
	}
	return cost.Units(), err
}

// Units returns the units that the request has used or caused so far.
func (c *Cost) Units() float64 { return float64(c.halves.Load()) / 2 }

// addCost is the observer of a Service's table calls.
func addCost(ctx context.Context, _ table.Op, used table.Units, _ error) {
	if cost, ok := ctx.Value(costKey{}).(*Cost); ok {
		cost.halves.Add(int64(2 * (used.Read + used.Write)))
	}
}
