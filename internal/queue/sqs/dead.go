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
	// metaPacked is the one metadata entry of a dead letter with too many for SQS's ten
	// attributes: a JSON object of all of them.
	metaPacked = "metadata"
	// walkHold is how long a walk through dead letters hides those that it received.
	// If the process dies, the letters are visible again after that.
	walkHold = 2 * time.Minute
	// walkWait makes the receives of a walk long polls. SQS asks all its servers for
	// those, so an empty reply means that there are no more letters.
	walkWait = time.Second
	// maxWalk bounds the letters that a walk hides. SQS allows 120,000 in flight.
	maxWalk = 50_000
)

// DeadLetter implements queue.DeadLetters.
func (b *Broker) DeadLetter(ctx context.Context, topic string, msg *message.Message, reason string) error {
	end, err := b.begin(&b.calls)
	if err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	defer end()
	q, err := b.findTopic(ctx, topic, deadSuffix)
	if err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	letter := queue.NewDeadLetter(topic, msg, reason, b.opt.Now())
	packed, err := pack(letter)
	if err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	if err := q.sendAll(ctx, []*message.Message{packed.Message()}); err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	return nil
}

// pack puts all metadata into one entry, if d has too many entries as a message.
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
		return d // the message itself has an entry of that name
	}
	d.Metadata = meta
	return d
}

// ListDead implements queue.DeadLetters. While it runs, the letters are hidden from other
// processes.
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

// Redrive implements queue.DeadLetters. It removes a letter after it was sent, so after a
// crash between the two the letter is sent twice. If a message becomes a dead letter again
// during the call, that letter stays. It reads 50,000 letters at most; call it again for
// more.
func (b *Broker) Redrive(ctx context.Context, topic string, ids []string, refuse func(queue.DeadLetter) error) (sent, refused int, err error) {
	resent := map[string]bool{}
	err = b.walk(ctx, topic, maxWalk, func(found []found) (remove []string, err error) {
		target, err := b.findTopic(ctx, topic, "")
		if err != nil {
			return nil, err
		}
		var msgs []*message.Message
		for _, f := range found {
			switch {
			case !f.letter.Selected(ids) || resent[f.letter.ID]:
			case refuse != nil && refuse(f.letter) != nil:
				refused++
			default:
				resent[f.letter.ID] = true
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

// DropDead implements queue.DeadLetters. It reads 50,000 letters at most.
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

// walk receives dead letters in tens, limit at most, and gives them to visit, which returns
// the receipts of those to remove. The others stay hidden until the end of the walk, so
// that no letter is visited twice.
func (b *Broker) walk(ctx context.Context, topic string, limit int, visit func([]found) (remove []string, err error)) (err error) {
	end, err := b.begin(&b.calls)
	if err != nil {
		return err
	}
	defer end()
	q, err := b.findTopic(ctx, topic, deadSuffix)
	if err != nil {
		return err
	}
	b.walking.Lock()
	defer b.walking.Unlock()
	var kept []string
	defer func() {
		show := make([]visibility, len(kept))
		for i, receipt := range kept {
			show[i] = visibility{receipt: receipt}
		}
		if showErr := q.visibility.addAll(show); err == nil {
			err = ignoreLasting(showErr)
		}
	}()
	visited := map[string]bool{}
	for len(visited) < limit {
		batch, err := b.receiveDead(ctx, q, topic, min(limit-len(visited), maxEntries), visited)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return nil
		}
		for _, f := range batch {
			kept = append(kept, f.receipt)
		}
		remove, err := visit(batch)
		if err != nil {
			return err
		}
		if len(remove) == 0 {
			continue
		}
		if err := q.remove.addAll(remove); err != nil {
			return err
		}
		kept = slices.DeleteFunc(kept, func(receipt string) bool { return slices.Contains(remove, receipt) })
	}
	return nil
}

// receiveDead returns the next letters and adds them to visited. At the end there are none.
func (b *Broker) receiveDead(ctx context.Context, q *remoteQueue, topic string, n int, visited map[string]bool) ([]found, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// It is not cancelled with ctx: a reply that nobody reads would hide its letters.
	polling, cancel := b.within(context.WithoutCancel(ctx), walkWait+pollTimeout)
	defer cancel()
	out, err := b.client.ReceiveMessage(polling, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: int32(n),
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
		if id := aws.ToString(m.MessageId); !visited[id] {
			visited[id] = true
			batch = append(batch, found{unpack(queue.ParseDeadLetter(topic, msg)), aws.ToString(m.ReceiptHandle)})
		}
	}
	if len(batch) == 0 && len(out.Messages) > 0 {
		return nil, errors.New("this took so long that the first letters came again: the work so far is done, run it again for the rest")
	}
	return batch, nil
}

// ignoreLasting drops the error of a letter that could not be shown again because its
// receipt had expired: such a letter is visible already.
func ignoreLasting(err error) error {
	if failed, ok := errors.AsType[*entryError](err); ok && failed.lasting() {
		return nil
	}
	return err
}
