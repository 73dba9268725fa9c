package embedded

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/queue"
	"fanfare/messages"
)

const (
	// deadAtOnce bounds the number of dead letters that are moved in one batch.
	deadAtOnce = 256
	// deadRetention is the time for which a dead letter is kept: the maximum of SQS.
	deadRetention = 14 * 24 * time.Hour
	// sweepEvery is the pause between two sweeps for old dead letters and old events. Each sweep removes
	// up to deadBatches batches of dead letters of each topic.
	sweepEvery  = time.Hour
	deadBatches = 40
)

// DeadLetter implements queue.DeadLetters.
func (b *Broker) DeadLetter(ctx context.Context, name string, msg *message.Message, reason string) error {
	t, err := b.topic(name)
	if err != nil {
		return fmt.Errorf("dead letter of %s: %w", name, err)
	}
	letter := queue.NewDeadLetter(name, msg, reason, b.now())
	value := newRecord(letter.Message(), letter.Receives)
	if err := b.submitAndWait(ctx, []change{{topic: t, to: dead, value: value}}); err != nil {
		return fmt.Errorf("dead letter of %s: %w", name, err)
	}
	return nil
}

// deadLetter returns a stored dead letter. If the record cannot be read, the letter has the
// record's bytes in hex and no metadata, and cannot be redriven.
func deadLetter(topic string, at position, value record) queue.DeadLetter {
	msg, err := value.decode()
	if err != nil {
		return queue.DeadLetter{
			ID: fmt.Sprintf("unreadable-%d", at.number), Topic: topic,
			Payload: []byte(hex.EncodeToString(value)), Reason: messages.ReasonUnreadable.Because("%v", err),
		}
	}
	return queue.ParseDeadLetter(topic, msg)
}

// ListDead implements queue.DeadLetters.
func (b *Broker) ListDead(ctx context.Context, name string, limit int) ([]queue.DeadLetter, error) {
	t, err := b.topic(name)
	if err != nil {
		return nil, fmt.Errorf("dead letters of %s: %w", name, err)
	}
	b.redriving.Lock()
	defer b.redriving.Unlock()
	var letters []queue.DeadLetter
	err = b.eachDead(ctx, t, position{}, func(at position, value record) bool {
		if len(letters) >= limit {
			return false
		}
		letters = append(letters, deadLetter(name, at, slices.Clone(value)))
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("dead letters of %s: %w", name, err)
	}
	return letters, nil
}

// eachDead reads the dead letters of a topic in order. The caller holds redriving, which keeps
// the store open during the scan.
func (b *Broker) eachDead(ctx context.Context, t *topic, from position, yield func(position, record) bool) error {
	select {
	case <-b.stop:
		return errClosed
	default:
	}
	err := scan(b.db, dead, t.name, from, func(at position, value record) bool {
		return ctx.Err() == nil && yield(at, value)
	})
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// Redrive implements queue.DeadLetters. Each message moves in one atomic step, so a crash
// neither loses nor doubles the message.
func (b *Broker) Redrive(ctx context.Context, name string, ids []string, refuse func(queue.DeadLetter) error) (sent, refused int, err error) {
	sent, err = b.moveDead(ctx, name, ids, func(letter *queue.DeadLetter, c *change) (more, wanted bool) {
		var refusal error
		if letter.Metadata != nil {
			refusal = letter.Refusal(refuse)
		}
		switch {
		case errors.Is(refusal, queue.ErrEnough):
			return false, false
		case errors.Is(refusal, queue.ErrNotMeant):
			return true, false
		case letter.Metadata == nil || refusal != nil:
			refused++
			return true, false
		}
		c.to, c.value = ready, newRecord(letter.Original(), 0)
		return true, true
	})
	if err != nil {
		return sent, refused, fmt.Errorf("redrive %s: %w", name, err)
	}
	return sent, refused, nil
}

// DropDead implements queue.DeadLetters.
func (b *Broker) DropDead(ctx context.Context, name string, ids []string) (dropped int, err error) {
	dropped, err = b.moveDead(ctx, name, ids, func(_ *queue.DeadLetter, c *change) (more, wanted bool) {
		c.to = nowhere
		return true, true
	})
	if err != nil {
		return dropped, fmt.Errorf("drop dead letters of %s: %w", name, err)
	}
	return dropped, nil
}

// moveDead calls move with each selected dead letter. move sets the target of the letter, or
// reports that the letter is not wanted, and may end the walk. Letters that arrive during the
// call stay.
func (b *Broker) moveDead(ctx context.Context, name string, ids []string, move func(*queue.DeadLetter, *change) (more, wanted bool)) (moved int, err error) {
	t, err := b.topic(name)
	if err != nil {
		return 0, err
	}
	if err := b.lockDead(ctx); err != nil {
		return 0, err
	}
	defer b.redriving.Unlock()
	t.mu.Lock()
	last := t.state.number
	t.mu.Unlock()
	for from, more := (position{}), true; more && err == nil; {
		var n int
		n, more, err = b.moveSome(ctx, t, &from, func(value record, c *change) (found, wanted bool) {
			letter := deadLetter(name, c.at, slices.Clone(value))
			if c.at.number > last || !letter.Selected(ids) {
				return true, false
			}
			return move(&letter, c)
		})
		moved += n
	}
	return moved, err
}

// lockDead locks redriving, and waits for the outcome of the previous move.
func (b *Broker) lockDead(ctx context.Context) error {
	b.redriving.Lock()
	if b.moving == nil {
		return nil
	}
	// The caller of the previous move already knows that the outcome is unknown.
	if _, err := disk.Await(ctx, b.db, b.moving); err != nil {
		b.redriving.Unlock()
		return unavailable(err)
	}
	b.moving = nil
	return nil
}

// moveSome moves up to deadAtOnce dead letters in one batch, and sets from to the start of the
// next batch. pick sets the target of a letter, or reports that the letter is not wanted. more
// is false if pick ended the walk, or if there is no further letter. The caller holds
// redriving.
func (b *Broker) moveSome(ctx context.Context, t *topic, from *position, pick func(record, *change) (found, wanted bool)) (moved int, more bool, err error) {
	var changes []change
	err = b.eachDead(ctx, t, *from, func(at position, value record) bool {
		if len(changes) == deadAtOnce {
			more = true
			return false
		}
		c := change{topic: t, from: dead, at: at}
		found, wanted := pick(value, &c)
		if !found {
			return false
		}
		*from = at.next()
		if wanted {
			changes = append(changes, c)
		}
		return true
	})
	if err != nil || len(changes) == 0 {
		return 0, false, err
	}
	// The wait must not end with ctx, because otherwise the next move could read the same letters.
	done := make(chan error, 1)
	if err := b.submit(request{changes: changes, done: done}, true, true); err != nil {
		return 0, false, err
	}
	b.moving = done
	if err := b.await(context.WithoutCancel(ctx), done); err != nil {
		return 0, false, err
	}
	b.moving = nil
	return len(changes), more, nil
}

// sweep removes old dead letters and old events until ctx ends.
func (b *Broker) sweep(ctx context.Context) {
	for {
		for _, t := range b.allTopics() {
			dropped, err := b.dropOld(ctx, t)
			b.swept(ctx, "dead letters of "+t.name, dropped, err)
		}
		removed, err := b.removeOldEvents(ctx)
		b.swept(ctx, "events", removed, err)
		select {
		case <-time.After(sweepEvery):
		case <-ctx.Done():
			return
		}
	}
}

// swept logs the outcome of a sweep.
func (b *Broker) swept(ctx context.Context, what string, removed int, err error) {
	switch {
	case ctx.Err() != nil || errors.Is(err, errClosed): // the queue is being closed
	case err != nil:
		b.log.Warn("old records are not removed yet", zap.String("records", what), zap.Error(err))
	case removed > 0:
		b.log.Info("removed old records", zap.String("records", what), zap.Int("number", removed))
	}
}

// dropOld removes the dead letters of t that are older than deadRetention, the oldest first, up
// to the limit of one sweep.
func (b *Broker) dropOld(ctx context.Context, t *topic) (dropped int, err error) {
	more := true
	for batches := 0; more && err == nil && batches < deadBatches; batches++ {
		var n int
		n, more, err = b.dropSome(ctx, t)
		dropped += n
	}
	return dropped, err
}

// dropSome removes one batch for dropOld.
func (b *Broker) dropSome(ctx context.Context, t *topic) (dropped int, more bool, err error) {
	if err := b.lockDead(ctx); err != nil {
		return 0, false, err
	}
	defer b.redriving.Unlock()
	before := b.now().Add(-deadRetention)
	if b.doubt() != nil {
		return 0, false, nil // a later sweep removes the old letters
	}
	return b.moveSome(ctx, t, new(position), func(value record, c *change) (found, wanted bool) {
		return time.Unix(0, int64(c.at.major)).Before(before), true
	})
}
