package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/delivery"
)

// Reconciler finds posts whose fan-out was lost, and publishes them again: with the table
// and the queues, or through the admin address of a process that has them.
type Reconciler interface {
	// Reconcile checks up to limit posts that were made at since or later, and before
	// until.
	Reconcile(ctx context.Context, since, until time.Time, cursor string, limit int) (delivery.Reconciled, error)
}

// MaxReconcile is the maximum number of posts that one call checks.
const MaxReconcile = 100

type reconcileRequest struct {
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Cursor string    `json:"cursor,omitempty"`
	Limit  int       `json:"limit"`
}

// handleReconcile adds the operation to mux. A web page must not be able to request a
// reconcile.
func handleReconcile(mux *http.ServeMux, posts Reconciler) {
	handle := func(w http.ResponseWriter, r *http.Request) {
		var in reconcileRequest
		if !read(w, r, &in, `{"since": …, "until": …, "limit": …}`) {
			return
		}
		if in.Limit < 1 || in.Limit > MaxReconcile {
			http.Error(w, fmt.Sprintf("limit must be 1 to %d", MaxReconcile), http.StatusUnprocessableEntity)
			return
		}
		done, err := posts.Reconcile(r.Context(), in.Since, in.Until, in.Cursor, in.Limit)
		if bad, ok := errors.AsType[*fault.Error](err); ok && bad.Kind == fault.Malformed {
			http.Error(w, bad.Detail, http.StatusBadRequest)
			return
		}
		write(w, done, err)
	}
	mux.Handle("POST /admin/reconcile", http.NewCrossOriginProtection().Handler(http.HandlerFunc(handle)))
}

// Reconcile implements Reconciler.
func (c *Client) Reconcile(ctx context.Context, since, until time.Time, cursor string, limit int) (delivery.Reconciled, error) {
	var out delivery.Reconciled
	err := c.call(ctx, http.MethodPost, "/admin/reconcile", reconcileRequest{since, until, cursor, limit}, &out)
	return out, err
}
