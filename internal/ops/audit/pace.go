package audit

import (
	"context"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/table"
)

// shortest is the shortest wait of Rate. A timer may end a millisecond late, so if each call of a fast
// walk waited, the timers would decide the rate.
const shortest = 10 * time.Millisecond

// Rate returns a Walk.Spend that limits one walk to a number of units a second. Time that the walk did not
// use does not count later.
func Rate(unitsPerSecond float64) func(context.Context, table.Units) error {
	var due time.Time // the time at which the units so far are within the rate
	return func(ctx context.Context, u table.Units) error {
		now := time.Now()
		if due.Before(now) {
			due = now
		}
		due = due.Add(time.Duration((u.Read + u.Write) / unitsPerSecond * float64(time.Second)))
		if wait := due.Sub(now); wait >= shortest {
			return backoff.Wait(ctx, wait)
		}
		return context.Cause(ctx)
	}
}

const (
	// share is the part of a process's units that the auditor may use. least is the number
	// of units a second that the auditor may always use.
	share, least = 0.01, 1.0
	// rest is the time between two rounds, and look is the time between two checks of the used units.
	rest, look = time.Minute, time.Second
	// mostOfList is the Config.Most of an auditor.
	mostOfList = 1000
)

// Auditor makes rounds with an Audit. Each round is a walk with Tidy and without Repair over the
// whole table. All fields are required.
type Auditor struct {
	Config Config
	// Used returns the units that the process has used, without the units of the auditor.
	Used func() float64
	// Looked is called after each page with the number of checked items.
	Looked func(items int)
	// Found is called with each finding. Ended is called at the end of each complete round.
	Found func(Finding)
	Ended func(Summary)
}

// Run makes rounds until ctx ends. The error is always nil.
func (a *Auditor) Run(ctx context.Context) error {
	cfg := a.Config
	cfg.Most = mostOfList
	audit := New(cfg)
	for ctx.Err() == nil {
		a.round(ctx, audit)
		_ = backoff.Wait(ctx, rest) // the wait fails only when ctx ends
	}
	return nil
}

func (a *Auditor) round(ctx context.Context, audit *Audit) {
	began, base := time.Now(), a.Used()
	var spent float64
	looked := 0
	sum, err := audit.Run(ctx, Walk{
		Tidy: true,
		Spend: func(ctx context.Context, u table.Units) error {
			for spent += u.Read + u.Write; spent > max(least*time.Since(began).Seconds(), share*(a.Used()-base)); {
				if err := backoff.Wait(ctx, look); err != nil {
					return err
				}
			}
			return nil
		},
		Found: func(f Finding) error { a.Found(f); return nil },
		Progress: func(sum Summary) error {
			a.Looked(sum.Items - looked)
			looked = sum.Items
			return nil
		},
	})
	if err == nil {
		a.Ended(sum)
	} else if ctx.Err() == nil {
		a.Config.Log.Info("a round of the auditor ended early, the next one begins anew", zap.Error(err))
	}
}
