package admin

import (
	"context"
	"errors"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/ops/audit"
	"fanfare/internal/queue"
)

// Operations are the operations on the table and the queues. Domain does them in this
// process, and Client does them through the admin address of another process.
type Operations interface {
	Reconciler
	Explainer
	Verifier
}

// operations joins the parts of Operations.
type operations struct {
	Reconciler
	Explainer
	Verifier
}

// Domain implements Operations with the domain's own code.
type Domain struct {
	Deliveries *delivery.Deliveries
	Homes      *home.Homes
	Letters    queue.DeadLetters
	Audit      *audit.Audit
	// Items estimates the number of items of the table; if Items is nil, the number is
	// unknown.
	Items func(context.Context) (int64, error)
}

// Reconcile implements Reconciler.
func (d Domain) Reconcile(ctx context.Context, since, until time.Time, cursor string, limit int) (delivery.Reconciled, error) {
	return d.Deliveries.Reconcile(ctx, since, until, cursor, limit)
}

// Explain implements Explainer.
func (d Domain) Explain(ctx context.Context, user, post string) ([]Explanation, error) {
	if !id.ValidUser(user) {
		return nil, &NotFoundError{Detail: "there is no such user: an id is " + id.UserGrammar}
	}
	if post != "" && !id.Valid(post) {
		return nil, errNoULID
	}
	all, err := d.Homes.Explain(ctx, d.Letters, user, post)
	if err != nil {
		return nil, orNotFound(err)
	}
	out := make([]Explanation, len(all))
	for i, x := range all {
		out[i] = explanation(x)
	}
	return out, nil
}

// Delivery implements Explainer.
func (d Domain) Delivery(ctx context.Context, post string) (delivery.Progress, error) {
	if !id.Valid(post) {
		return delivery.Progress{}, errNoULID
	}
	progress, err := d.Deliveries.AnyDelivery(ctx, post)
	return progress, orNotFound(err)
}

// Verify implements Verifier.
func (d Domain) Verify(ctx context.Context, in Verification, event func(VerifyEvent) error) (audit.Summary, error) {
	total := int64(0)
	if d.Items != nil {
		var err error
		if total, err = d.Items(ctx); err != nil {
			total = 0 // a walk needs no estimate, and the walk's own reads return the failure
		}
	}
	return d.Audit.Run(ctx, audit.Walk{
		Repair: in.Repair, Tidy: in.Repair, RestoredTo: in.RestoredTo, Spend: audit.Rate(in.Rate),
		Found:    func(f audit.Finding) error { return event(VerifyEvent{Finding: &f}) },
		Progress: func(sum audit.Summary) error { return event(VerifyEvent{Progress: &sum, Total: total}) },
	})
}

var errNoULID = &NotFoundError{Detail: "there is no such post: the id is not a ULID, 26 digits and capital letters"}

// orNotFound makes the domain's NotFound a NotFoundError.
func orNotFound(err error) error {
	if missing, ok := errors.AsType[*fault.Error](err); ok && missing.Kind == fault.NotFound {
		return &NotFoundError{Detail: missing.Detail}
	}
	return err
}
