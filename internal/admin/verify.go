package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// VerifyEvent is a part of the answer: Finding, Progress, Done or Error. The last event is Done or
// Error.
type VerifyEvent struct {
	Finding  *audit.Finding `json:"finding,omitempty"`
	Progress *audit.Summary `json:"progress,omitempty"`
	// Total is set with Progress: an estimate of the number of items of the table, 0 if the
	// number is unknown.
	Total int64          `json:"total,omitempty"`
	Done  *audit.Summary `json:"done,omitempty"`
	Error string         `json:"error,omitempty"`
}

// Verify walks over the whole table once, and checks the stored items. The answer has a line of JSON for each event. The
// walk ends with the request.
func Verify() Op[Verification, audit.Summary] {
	return Op[Verification, audit.Summary]{
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
		stream: streamVerification, receive: receiveVerification,
	}
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

// streamVerification writes a line for each event. Before the last line the walk has ended, because after that line the
// client may request the next walk.
func streamVerification(line func(any) error, in Verification, do func(Verification) (audit.Summary, error)) error {
	began := false
	in.Event = func(e VerifyEvent) error {
		began = true
		return line(e)
	}
	done, err := do(in)
	last := VerifyEvent{Done: &done}
	if err != nil {
		if _, refused := errors.AsType[*RefusalError](err); refused && !began {
			return err
		}
		last = VerifyEvent{Error: err.Error()}
	}
	_ = line(last) // a failed write means that the client is gone
	return nil
}

func receiveVerification(body io.Reader, in Verification) (audit.Summary, error) {
	for lines := json.NewDecoder(body); ; {
		var e VerifyEvent
		if err := lines.Decode(&e); err != nil {
			return audit.Summary{}, fmt.Errorf("the answer ended before the walk did: %w", err)
		}
		switch {
		case e.Done != nil:
			return *e.Done, nil
		case e.Error != "":
			return audit.Summary{}, errors.New(e.Error)
		}
		if err := in.Event(e); err != nil {
			return audit.Summary{}, err
		}
	}
}
