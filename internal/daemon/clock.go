package daemon

import (
	"context"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/clock"
)

// clockLook is the time between two checks of the clock for the log. Work that depends on
// the clock checks the clock itself.
const clockLook = 10 * time.Second

// watchClock logs when the doubt of the clock begins and ends.
func watchClock(ctx context.Context, log *zap.Logger, clk *clock.Clock) error {
	tick := time.NewTicker(clockLook)
	defer tick.Stop()
	doubted := false
	for {
		if err := clk.Doubt(); err != nil && !doubted {
			log.Error("nothing is taken for too old, swept or pruned until the clock is right", zap.Error(err))
		} else if err == nil && doubted {
			log.Info("the clock is in no doubt any more", zap.Duration("ahead", clk.Offset()))
		}
		doubted = clk.Doubt() != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
