package admin

import (
	"context"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/feed/delivery"
)

// MaxReconcile is the maximum number of posts that one call checks.
const MaxReconcile = 100

// Reconciling asks for up to Limit posts that were made at Since or later, and before Until.
type Reconciling struct {
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Cursor string    `json:"cursor,omitempty"`
	Limit  int       `json:"limit"`
}

// Reconcile finds posts whose fan-out was lost, and publishes them again.
func Reconcile() Op[Reconciling, delivery.Reconciled] {
	return Op[Reconciling, delivery.Reconciled]{
		Name: "reconcile", Route: "POST /admin/reconcile", Form: `{"since": …, "until": …, "limit": …}`,
		Has: func(d Domain) bool { return d.Deliveries != nil },
		Check: func(in Reconciling) error {
			if in.Limit < 1 || in.Limit > MaxReconcile {
				return invalid("limit must be 1 to %d", MaxReconcile)
			}
			return nil
		},
		Run: func(ctx context.Context, d Domain, in Reconciling) (delivery.Reconciled, error) {
			return d.Deliveries.Reconcile(ctx, in.Since, in.Until, in.Cursor, in.Limit)
		},
		Note: func(in Reconciling, done delivery.Reconciled) (int, []zap.Field) {
			if in.Cursor != "" && done.Published == 0 { // pages of a reconcile without a change are not logged
				return 0, nil
			}
			return done.Published, []zap.Field{zap.Time("since", in.Since), zap.Time("until", in.Until), zap.Int("checked", done.Checked), zap.Int("published", done.Published)}
		},
	}
}
