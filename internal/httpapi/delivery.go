package httpapi

import (
	"context"
	"net/http"
	"time"

	"fanfare/internal/feed/delivery"
)

// Delivery is the progress of a post's delivery. Unknown values are null.
type Delivery struct {
	State       delivery.State `json:"state" enum:"queued,running,complete,pulled,cancelled"`
	Reason      string         `json:"reason,omitempty" doc:"Why the delivery is cancelled, such as: the post ended at 2026-01-01T00:00:00Z."`
	Planned     *int64         `json:"planned" doc:"The homes to reach: followers when the fan-out began, and the author."`
	Delivered   *int64         `json:"delivered" doc:"The homes that have the post."`
	Skipped     *int64         `json:"skipped" doc:"The followers that were away. Their homes show the post when they come back."`
	ChunksDone  *int64         `json:"chunks_done"`
	ChunksTotal *int64         `json:"chunks_total" doc:"Known when all chunks are planned."`
	AcceptedAt  time.Time      `json:"accepted_at"`
	StartedAt   *time.Time     `json:"started_at"`
	CompletedAt *time.Time     `json:"completed_at"`
	Attempts    int64          `json:"attempts" doc:"The number of times that a worker began."`

	TakenDown *delivery.TakenDown `json:"taken_down,omitempty" doc:"Absent unless a service took the post down."`
}

func (a *API) registerDelivery() {
	type deliveryOut struct{ Body Delivery }
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/delivery", "get-delivery", "Posts", "Get the progress of your post's delivery, also after you deleted the post"}, http.StatusOK, http.StatusForbidden, http.StatusNotFound),
		func(ctx context.Context, in *PostPath) (*deliveryOut, error) {
			d, err := a.deliveries.Delivery(ctx, userOf(ctx), string(in.ID))
			if err != nil {
				return nil, err
			}
			out := Delivery(d)
			out.AcceptedAt, out.StartedAt, out.CompletedAt = d.AcceptedAt.UTC(), utc(d.StartedAt), utc(d.CompletedAt)
			return &deliveryOut{out}, nil
		})
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
