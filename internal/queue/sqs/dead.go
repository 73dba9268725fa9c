package sqs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"fanfare/internal/queue"
)

const (
	// metaPacked is, on a dead letter with many metadata entries, all of them as a
	// JSON object: SQS takes ten attributes.
	metaPacked = "metadata"
	// walkHold is how long a walk through dead letters hides what it looked at.
	// Should it die, they are back after that.
	walkHold = 2 * time.Minute
	// walkWait is the long poll of a walk: SQS asks all its servers, so an empty
	// reply means that there are no more.
	walkWait = time.Second
	// maxWalk bounds what a walk hides: SQS allows 120,000 in flight.
	maxWalk = 50_000
)

// DeadLetter implements queue.DeadLetters.
func (b *Broker) DeadLetter(ctx context.Context, topic string, msg *message.Message, reason string) error {
	end, err := b.begin(&b.calls)
	if err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	defer end()
	l, err := b.topicLane(ctx, topic, deadSuffix)
	if err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	letter := queue.NewDeadLetter(topic, msg, reason, b.now())
	packed, err := pack(letter)
	if err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	if err := l.sendAll(ctx, []*message.Message{packed.Message()}); err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	return nil
}

// pack makes room for what a dead letter adds to the metadata.
func pack(d queue.DeadLetter) (queue.DeadLetter, error) {
	if len(d.Message().Metadata) <= queue.MaxMetadata {
		return d, nil
	}
	packed, err := json.Marshal(d.Metadata)
	if err != nil {
		return d, fmt.Errorf("pack the metadata: %w", err)
	}
	d.Metadata = message.Metadata{metaPacked: string(packed)}
	return d, nil
}

func unpack(d queue.DeadLetter) queue.DeadLetter {
	packed, ok := d.Metadata[metaPacked]
	if !ok {
		return d
	}
	var meta message.Metadata
	if err := json.Unmarshal([]byte(packed), &meta); err != nil {
		return d // a message's own entry of that name
	}
	d.Metadata = meta
	return d
}

// ListDead implements queue.DeadLetters. While it looks, the letters are hidden from
// other walks.
func (b *Broker) ListDead(ctx context.Context, topic string, limit int) ([]queue.DeadLetter, error) {
	var letters []queue.DeadLetter
	err := b.walk(ctx, topic, limit, func(found []found) ([]string, error) {
		for _, f := range found {
			letters = append(letters, f.letter)
		}
		return nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("dead letters of %s: %w", topic, err)
	}
	slices.SortStableFunc(letters, func(a, b queue.DeadLetter) int {
		return cmp.Or(a.FailedAt.Compare(b.FailedAt), cmp.Compare(a.ID, b.ID))
	})
	return letters, nil
}

// Redrive implements queue.DeadLetters. A letter is removed after it was sent, so a
// crash between the two sends it twice. One that dies again meanwhile is left. It
// looks at 50,000 letters at most; call it again for more.
func (b *Broker) Redrive(ctx context.Context, topic string, ids []string, refuse func(queue.DeadLetter) error) (sent, refused int, err error) {
	again := map[string]bool{}
	err = b.walk(ctx, topic, maxWalk, func(found []found) (remove []string, err error) {
		target, err := b.topicLane(ctx, topic, "")
		if err != nil {
			return nil, err
		}
		var msgs []*message.Message
		for _, f := range found {
			switch {
			case !f.letter.Selected(ids) || again[f.letter.ID]:
			case refuse != nil && refuse(f.letter) != nil:
				refused++
			default:
				again[f.letter.ID] = true
				msgs = append(msgs, f.letter.Original())
				remove = append(remove, f.receipt)
			}
		}
		if len(msgs) == 0 {
			return nil, nil
		}
		if err := target.sendAll(ctx, msgs); err != nil {
			return nil, err
		}
		sent += len(msgs)
		return remove, nil
	})
	if err != nil {
		return sent, refused, fmt.Errorf("redrive %s: %w", topic, err)
	}
	return sent, refused, nil
}

// DropDead implements queue.DeadLetters. It looks at 50,000 letters at most.
func (b *Broker) DropDead(ctx context.Context, topic string, ids []string) (dropped int, err error) {
	err = b.walk(ctx, topic, maxWalk, func(found []found) (remove []string, err error) {
		for _, f := range found {
			if f.letter.Selected(ids) {
				remove = append(remove, f.receipt)
			}
		}
		dropped += len(remove)
		return remove, nil
	})
	if err != nil {
		return dropped, fmt.Errorf("drop dead letters of %s: %w", topic, err)
	}
	return dropped, nil
}

// found is a dead letter that a walk received.
type found struct {
	letter  queue.DeadLetter
	receipt string
}

// walk receives dead letters in tens, limit at most, and offers them to look, which
// returns the receipts of those to remove. The rest stays hidden until the end, so
// that none is met twice, and is then shown again.
func (b *Broker) walk(ctx context.Context, topic string, limit int, look func([]found) (remove []string, err error)) (err error) {
	end, err := b.begin(&b.calls)
	if err != nil {
		return err
	}
	defer end()
	l, err := b.topicLane(ctx, topic, deadSuffix)
	if err != nil {
		return err
	}
	b.redriving.Lock()
	defer b.redriving.Unlock()
	var kept []string
	defer func() {
		show := make([]visibility, len(kept))
		for i, receipt := range kept {
			show[i] = visibility{receipt: receipt}
		}
		if showErr := l.visibility.addAll(show); err == nil {
			err = ignoreLasting(showErr)
		}
	}()
	met := map[string]bool{}
	for len(met) < limit {
		batch, err := b.receiveDead(ctx, l, topic, min(limit-len(met), maxEntries), met)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return nil
		}
		for _, f := range batch {
			kept = append(kept, f.receipt)
		}
		remove, err := look(batch)
		if err != nil {
			return err
		}
		if len(remove) == 0 {
			continue
		}
		if err := l.remove.addAll(remove); err != nil {
			return err
		}
		kept = slices.DeleteFunc(kept, func(receipt string) bool { return slices.Contains(remove, receipt) })
	}
	return nil
}

// receiveDead returns the next letters that were not met before, none at the end.
func (b *Broker) receiveDead(ctx context.Context, l *lane, topic string, n int, met map[string]bool) ([]found, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Not cancelled: a reply that nobody reads would hide its letters.
	polling, cancel := b.within(context.WithoutCancel(ctx), walkWait+pollTimeout)
	defer cancel()
	out, err := b.client.ReceiveMessage(polling, &sqs.ReceiveMessageInput{
		QueueUrl: &l.url, MaxNumberOfMessages: int32(n),
		VisibilityTimeout: seconds(walkHold), WaitTimeSeconds: seconds(walkWait),
		MessageAttributeNames: []string{"All"},
	})
	if err != nil {
		return nil, classify("receive dead letters", err)
	}
	var batch []found
	for i := range out.Messages {
		m := &out.Messages[i]
		msg, err := unmarshal(m)
		if err != nil {
			return nil, fmt.Errorf("dead letter %s: %w", aws.ToString(m.MessageId), err)
		}
		if id := aws.ToString(m.MessageId); !met[id] {
			met[id] = true
			batch = append(batch, found{unpack(queue.ParseDeadLetter(topic, msg)), aws.ToString(m.ReceiptHandle)})
		}
	}
	if len(batch) == 0 && len(out.Messages) > 0 {
		return nil, errors.New("the walk took so long that letters came again: what it did is done, call it again for the rest")
	}
	return batch, nil
}

// ignoreLasting drops failures to show a letter again whose receipt expired: it is
// shown already.
func ignoreLasting(err error) error {
	if failed, ok := errors.AsType[*entryError](err); ok && failed.lasting() {
		return nil
	}
	return err
}
