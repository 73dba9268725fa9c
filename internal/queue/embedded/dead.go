package embedded

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/disk"
	"fanfare/internal/queue"
)

// deadAtOnce bounds how many dead letters are moved in one batch.
const deadAtOnce = 256

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

// deadLetter reads a stored dead letter. If its record cannot be read, the letter has
// the record's bytes in hex and no metadata, and cannot be redriven.
func deadLetter(topic string, at position, value record) queue.DeadLetter {
	msg, err := value.decode()
	if err != nil {
		return queue.DeadLetter{
			ID: fmt.Sprintf("unreadable-%d", at.number), Topic: topic,
			Payload: []byte(hex.EncodeToString(value)), Reason: err.Error(),
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

// eachDead scans the dead letters. The caller holds redriving, which keeps the store
// open meanwhile.
func (b *Broker) eachDead(ctx context.Context, t *topic, from position, yield func(position, record) bool) error {
	select {
	case <-b.stop:
		return errClosed
	default:
	}
	err := scan(b.db.DB, dead, t.name, from, func(at position, value record) bool {
		return ctx.Err() == nil && yield(at, value)
	})
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// Redrive implements queue.DeadLetters. Each message moves in one step: a crash
// neither loses nor doubles it.
func (b *Broker) Redrive(ctx context.Context, name string, ids []string, refuse func(queue.DeadLetter) error) (sent, refused int, err error) {
	sent, err = b.moveDead(ctx, name, ids, func(letter *queue.DeadLetter, c *change) bool {
		if letter.Metadata == nil || letter.Refusal(refuse) != nil {
			refused++
			return false
		}
		c.to, c.value = ready, newRecord(letter.Original(), 0)
		return true
	})
	if err != nil {
		return sent, refused, fmt.Errorf("redrive %s: %w", name, err)
	}
	return sent, refused, nil
}

// DropDead implements queue.DeadLetters.
func (b *Broker) DropDead(ctx context.Context, name string, ids []string) (dropped int, err error) {
	dropped, err = b.moveDead(ctx, name, ids, func(_ *queue.DeadLetter, c *change) bool {
		c.to = nowhere
		return true
	})
	if err != nil {
		return dropped, fmt.Errorf("drop dead letters of %s: %w", name, err)
	}
	return dropped, nil
}

// moveDead passes the selected dead letters to move, which fills in their target or
// keeps them by returning false. It leaves letters alone that arrive meanwhile.
func (b *Broker) moveDead(ctx context.Context, name string, ids []string, move func(*queue.DeadLetter, *change) bool) (moved int, err error) {
	t, err := b.topic(name)
	if err != nil {
		return 0, err
	}
	b.redriving.Lock()
	defer b.redriving.Unlock()
	if b.moving != nil {
		// The caller of that move was told that the outcome is unknown.
		if _, err := disk.Await(ctx, b.db, b.moving); err != nil {
			return 0, unavailable(err)
		}
		b.moving = nil
	}
	t.mu.Lock()
	last := t.state.number
	t.mu.Unlock()
	for from, more := (position{}), true; more; {
		more = false
		var changes []change
		err := b.eachDead(ctx, t, from, func(at position, value record) bool {
			if at.number > last {
				return false
			}
			if len(changes) == deadAtOnce {
				more = true
				return false
			}
			from = at.next()
			letter := deadLetter(name, at, slices.Clone(value))
			c := change{topic: t, from: dead, at: at}
			if letter.Selected(ids) && move(&letter, &c) {
				changes = append(changes, c)
			}
			return true
		})
		if err != nil {
			return moved, err
		}
		if len(changes) == 0 {
			continue
		}
		// The wait must not end with ctx, or the next move would read the same letters.
		done := make(chan error, 1)
		if err := b.submit(request{changes: changes, done: done}, true, true); err != nil {
			return moved, err
		}
		b.moving = done
		if err := b.await(context.WithoutCancel(ctx), done); err != nil {
			return moved, err
		}
		b.moving = nil
		moved += len(changes)
	}
	return moved, nil
}
