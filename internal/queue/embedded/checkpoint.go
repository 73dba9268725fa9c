package embedded

import (
	"context"
	"fmt"
)

// BeginLog makes the queue begin its next log, see disk.DB.BeginLog.
func (b *Broker) BeginLog() error { return b.db.BeginLog() }

// Checkpoint copies the queue into the new directory dir, see disk.DB.Checkpoint, and then
// calls then. Until then returns, the queue does not change: no message is published, removed
// or moved. So if then copies a table, the two copies match, as after a crash. Publishes wait
// in the meantime.
func (b *Broker) Checkpoint(ctx context.Context, dir string, then func() error) error {
	if err := b.db.Health(); err != nil {
		return unavailable(err)
	}
	done := make(chan error, 1)
	work := func() {
		err := b.db.Checkpoint(dir)
		if err == nil {
			err = then()
		}
		done <- err
	}
	select {
	case b.holds <- work:
		if err := <-done; err != nil {
			return fmt.Errorf("copy the queue: %w", err)
		}
		return nil
	case <-b.stopping:
		return errClosed
	case <-ctx.Done():
		return fmt.Errorf("copy the queue: %w", ctx.Err())
	}
}
