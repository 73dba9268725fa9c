package admin

import (
	"context"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/ops/audit"
)

// Verification is a request for a walk.
type Verification struct {
	Repair bool `json:"repair"`
	// RestoredTo is the time to which the table was restored, zero if it never was.
	RestoredTo time.Time `json:"restored_to,omitzero"`
	// Rate is the maximum number of capacity units a second.
	Rate float64 `json:"rate"`
	// Event gets each finding, and the progress.
	Event func(VerifyEvent) error `json:"-"`
}

// VerifyEvent is a part of the answer: Finding or Progress.
type VerifyEvent struct {
	Finding  *audit.Finding `json:"finding,omitempty"`
	Progress *audit.Summary `json:"progress,omitempty"`
	// Total is set with Progress: an estimate of the number of items of the table, 0 if the
	// number is unknown.
	Total int64 `json:"total,omitempty"`
}

// Verify walks over the whole table once, and checks the stored items. The answer has a line of JSON for each event. The
// walk ends with the request.
func Verify() Op[Verification, audit.Summary] {
	return inParts(Op[Verification, audit.Summary]{
		Name: "verify --repair", Route: "POST /admin/verify", Form: `{"repair": …, "rate": …}`,
		Has: func(d Domain) bool { return d.Audit != nil }, Long: true,
		Busy: "another verification is at work here: wait for its end, or stop it",
		Check: func(in Verification) error {
			if in.Rate < 1 {
				return invalid("rate must be at least 1")
			}
			return nil
		},
		Run: verify,
		Note: func(in Verification, sum audit.Summary) (int, []zap.Field) {
			if !in.Repair {
				return 0, nil
			}
			return len(sum.Mended), []zap.Field{zap.Int("items", sum.Items), zap.Any("mended", sum.Mended), zap.Int("left", sum.Left)}
		},
	}, func(in *Verification) *func(VerifyEvent) error { return &in.Event })
}

func verify(ctx context.Context, d Domain, in Verification) (audit.Summary, error) {
	total := int64(0)
	if d.Items != nil {
		var err error
		if total, err = d.Items(ctx); err != nil {
			total = 0 // a walk needs no estimate, and the walk's own reads return the failure
		}
	}
	return d.Audit.Run(ctx, audit.Walk{
		Repair: in.Repair, Tidy: in.Repair, RestoredTo: in.RestoredTo, Spend: audit.Rate(in.Rate),
		Found:    func(f audit.Finding) error { return in.Event(VerifyEvent{Finding: &f}) },
		Progress: func(sum audit.Summary) error { return in.Event(VerifyEvent{Progress: &sum, Total: total}) },
	})
}
