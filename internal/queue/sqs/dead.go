package sqs

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/zap"

	"fanfare/internal/awsclient"
	"fanfare/internal/queue"
	"fanfare/internal/strictjson"
)

const (
	// metaPacked is the name of the only metadata entry of a packed dead letter, which has too
	// many entries for SQS's ten attributes. Its value is a JSON object with all metadata.
	metaPacked = "metadata"
	// ownEntries is the number of metadata entries that a dead letter adds.
	ownEntries = 4
	// maxDeadID bounds the id of a dead letter, in bytes.
	maxDeadID = 1000
	// maxDeadMetadata bounds the metadata, in bytes, of a dead letter that is too large for
	// SQS. JSON may make the metadata six times as long.
	maxDeadMetadata = 64 << 10
	// walkHold is the time for which a walk through dead letters hides the letters that it
	// received. If the process dies, the letters become visible after walkHold.
	walkHold = 2 * time.Minute
	// walkWait makes the receives of a walk long polls. For a long poll SQS asks all its
	// servers, so an empty reply means that there are no more letters.
	walkWait = time.Second
	// maxWalk bounds the number of letters that a walk hides. SQS allows 120,000 messages in flight.
	maxWalk = 50_000
)

// DeadLetter implements queue.DeadLetters.
func (b *Broker) DeadLetter(ctx context.Context, topic string, msg *message.Message, reason string) error {
	end, err := b.begin(&b.calls)
	if err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	defer end()
	q, err := b.findTopic(ctx, topic, DeadSuffix)
	if err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	letter := queue.NewDeadLetter(topic, msg, reason, b.opt.Now())
	packed, err := storable(letter)
	if err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	if err := q.sendAll(ctx, []*message.Message{packed.Message()}); err != nil {
		return fmt.Errorf("dead letter of %s: %w", topic, err)
	}
	return nil
}

// storable returns d as a letter that SQS accepts, whatever the message is. SQS accepts a
// message of 1 MiB, but a dead letter has additional metadata, and some bytes are not allowed
// in a string attribute. storable encodes such bytes as text (base64), and cuts parts that do
// not fit. The reason of the letter names these changes.
func storable(d queue.DeadLetter) (queue.DeadLetter, error) {
	var encoded, dropped []string
	for _, key := range slices.Sorted(maps.Keys(d.Metadata)) {
		if queue.CheckText(key, d.Metadata[key]) != nil {
			d.Metadata[key] = base64.StdEncoding.EncodeToString([]byte(d.Metadata[key]))
			encoded = append(encoded, key)
		}
	}
	whole, text := len(d.Payload), string(d.Payload)
	if queue.CheckText("payload", text) != nil {
		text = base64.StdEncoding.EncodeToString(d.Payload)
		d.Payload = []byte(text)
		encoded = append(encoded, "the payload")
	}
	if len(d.ID) > maxDeadID {
		d.ID = strings.ToValidUTF8(d.ID[:maxDeadID], "")
		dropped = append(dropped, "the end of the id")
	}
	packed, err := pack(d)
	if err != nil {
		return d, err
	}
	if excess(packed) > 0 {
		for metadataSize(d) > maxDeadMetadata {
			largest := slices.MaxFunc(slices.Sorted(maps.Keys(d.Metadata)), func(a, b string) int {
				return cmp.Compare(len(d.Metadata[a]), len(d.Metadata[b]))
			})
			delete(d.Metadata, largest)
			dropped = append(dropped, largest)
		}
		if packed, err = pack(d); err != nil {
			return d, err
		}
		if more := excess(packed); more > 0 {
			packed.Payload = []byte(strings.ToValidUTF8(text[:len(text)-more], ""))
			dropped = append(dropped, fmt.Sprintf("the end of the payload of %d bytes", whole))
		}
	}
	if len(encoded) > 0 {
		packed.Note("in base64: " + strings.Join(encoded, ", "))
	}
	if len(dropped) > 0 {
		packed.Note("left out, since SQS takes no larger message: " + strings.Join(dropped, ", "))
	}
	return packed, nil
}

// excess returns the number of bytes by which d is too large for SQS, if d has the longest reason.
func excess(d queue.DeadLetter) int {
	return queue.Size(d.Message()) - len(d.Reason) + queue.MaxReason - maxBatchBytes
}

func metadataSize(d queue.DeadLetter) (size int) {
	for key, value := range d.Metadata {
		size += len(key) + len(value)
	}
	return size
}

// pack puts all metadata into one entry if d has too many entries for a message, or entries
// with names that a dead letter uses itself.
func pack(d queue.DeadLetter) (queue.DeadLetter, error) {
	names := d.Message().Metadata
	_, taken := d.Metadata[metaPacked]
	if !taken && len(names) <= queue.MaxMetadata && len(names) == len(d.Metadata)+ownEntries {
		return d, nil
	}
	packed, err := json.Marshal(d.Metadata)
	if err != nil {
		return d, fmt.Errorf("pack the metadata: %w", err)
	}
	d.Metadata = message.Metadata{metaPacked: string(packed)}
	return d, nil
}

// unpack is the reverse of pack.
func unpack(d queue.DeadLetter) queue.DeadLetter {
	packed, ok := d.Metadata[metaPacked]
	if !ok || len(d.Metadata) > 1 {
		return d
	}
	var meta message.Metadata
	if err := strictjson.Unmarshal([]byte(packed), &meta); err != nil {
		return d // the original message has an entry with this name
	}
	d.Metadata = meta
	return d
}

// ListDead implements queue.DeadLetters. During the call the letters are hidden from other processes.
func (b *Broker) ListDead(ctx context.Context, topic string, limit int) ([]queue.DeadLetter, error) {
	var letters []queue.DeadLetter
	err := b.walk(ctx, topic, limit, func(found []found) (remove []string, more bool, err error) {
		for _, f := range found {
			letters = append(letters, f.letter)
		}
		return nil, true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("dead letters of %s: %w", topic, err)
	}
	slices.SortStableFunc(letters, func(a, b queue.DeadLetter) int {
		return cmp.Or(a.FailedAt.Compare(b.FailedAt), cmp.Compare(a.ID, b.ID))
	})
	return letters, nil
}

// Redrive implements queue.DeadLetters. It sends a letter before it removes the letter, so
// after a crash between the two steps the letter may be sent twice. If a message becomes a dead
// letter again during the call, the new letter stays. Redrive reads up to 50,000 letters;
// further letters need another call.
func (b *Broker) Redrive(ctx context.Context, topic string, ids []string, refuse func(queue.DeadLetter) error) (sent, refused int, err error) {
	resent := map[string]bool{}
	err = b.walk(ctx, topic, maxWalk, func(found []found) (remove []string, more bool, err error) {
		target, err := b.findTopic(ctx, topic, "")
		if err != nil {
			return nil, false, err
		}
		more = true
		var msgs []*message.Message
		for _, f := range found {
			if !more || !f.letter.Selected(ids) || resent[f.letter.ID] {
				continue
			}
			err := f.letter.Refusal(refuse)
			if more = !errors.Is(err, queue.ErrEnough); !more || errors.Is(err, queue.ErrNotMeant) {
				continue
			}
			if err != nil {
				b.opt.Log.Warn("dead letter not sent again", zap.String("topic", topic), zap.String("message_id", f.letter.ID), zap.Error(err))
				refused++
				continue
			}
			resent[f.letter.ID] = true
			msgs = append(msgs, f.letter.Original())
			remove = append(remove, f.receipt)
		}
		if len(msgs) == 0 {
			return nil, more, nil
		}
		if err := target.sendAll(ctx, msgs); err != nil {
			return nil, false, err
		}
		sent += len(msgs)
		return remove, more, nil
	})
	if err != nil {
		return sent, refused, fmt.Errorf("redrive %s: %w", topic, err)
	}
	return sent, refused, nil
}

// DropDead implements queue.DeadLetters. It reads up to 50,000 letters.
func (b *Broker) DropDead(ctx context.Context, topic string, ids []string) (dropped int, err error) {
	err = b.walk(ctx, topic, maxWalk, func(found []found) (remove []string, more bool, err error) {
		for _, f := range found {
			if f.letter.Selected(ids) {
				remove = append(remove, f.receipt)
			}
		}
		dropped += len(remove)
		return remove, true, nil
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

// walk receives up to limit dead letters, ten at a time, and calls visit with them. visit
// returns the receipts of the letters to remove. The remaining letters stay hidden until the
// end of the walk, so that no letter is visited twice.
func (b *Broker) walk(ctx context.Context, topic string, limit int, visit func([]found) (remove []string, more bool, err error)) (err error) {
	end, err := b.begin(&b.calls)
	if err != nil {
		return err
	}
	defer end()
	q, err := b.findTopic(ctx, topic, DeadSuffix)
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
	for more := true; more && len(visited) < limit; {
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
		var remove []string
		if remove, more, err = visit(batch); err != nil {
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

// receiveDead returns the next letters and adds them to visited. At the end of the queue it returns no letters.
func (b *Broker) receiveDead(ctx context.Context, q *remoteQueue, topic string, n int, visited map[string]bool) ([]found, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// The poll does not end with ctx: a reply that nobody reads would hide its letters.
	polling, cancel := b.within(context.WithoutCancel(ctx), walkWait+pollTimeout)
	defer cancel()
	out, err := b.client.ReceiveMessage(awsclient.Patient(polling, walkWait), &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: int32(n),
		VisibilityTimeout: seconds(walkHold), WaitTimeSeconds: seconds(walkWait),
		MessageAttributeNames: []string{"All"},
	})
	if err != nil {
		return nil, b.classify("receive dead letters", err)
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

// ignoreLasting drops the error of a letter whose receipt had expired, and which could
// therefore not be made visible: such a letter is visible already.
func ignoreLasting(err error) error {
	if failed, ok := errors.AsType[*entryError](err); ok && failed.lasting() {
		return nil
	}
	return err
}
