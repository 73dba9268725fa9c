package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"fanfare/internal/awsclient"
)

// Difference is a setting of a queue that differs from the setting of Create.
type Difference struct {
	Problem string
	// Loses reports whether messages may be lost because of the difference.
	Loses bool
}

// Examine compares the queue of a topic and its dead-letter queue with Create's settings.
func (b *Broker) Examine(ctx context.Context, topic string) ([]Difference, error) {
	dead, err := b.described(ctx, topic, DeadSuffix)
	if err != nil {
		return nil, err
	}
	have, err := b.described(ctx, topic, "")
	if err != nil {
		return nil, err
	}
	want, err := b.settings(dead[string(types.QueueAttributeNameQueueArn)])
	if err != nil {
		return nil, err
	}
	out := redriveDifferences(have[attrRedrive], want[attrRedrive])
	for _, q := range []struct {
		name       string
		have, want map[string]string
	}{{"the queue", have, want}, {"its dead-letter queue", dead, deadSettings()}} {
		for _, s := range []struct {
			name, effect string
			show         func(string) string
		}{
			{attrRetention, "keeps messages for", asTime},
			{attrMaxBody, "takes messages of so many bytes:", func(s string) string { return s }},
			{attrVisibility, "hides received messages for", asTime},
		} {
			least, wanted := q.want[s.name]
			if wanted && number(q.have[s.name]) < number(least) {
				out = append(out, Difference{Problem: fmt.Sprintf("%s %s %s, not %s", q.name, s.effect, s.show(q.have[s.name]), s.show(least))})
			}
		}
	}
	return out, nil
}

func (b *Broker) described(ctx context.Context, topic, suffix string) (map[string]string, error) {
	q, err := b.findTopic(ctx, topic, suffix)
	if err != nil {
		return nil, err
	}
	return b.attributes(ctx, q.url, types.QueueAttributeNameAll)
}

func redriveDifferences(have, want string) []Difference {
	var is, must redrivePolicy
	if have == "" {
		return []Difference{{"there is no redrive policy: a message whose consumers always die is lost when its retention ends", true}}
	}
	if err := errors.Join(json.Unmarshal([]byte(have), &is), json.Unmarshal([]byte(want), &must)); err != nil {
		return []Difference{{"the redrive policy cannot be read: " + err.Error(), true}}
	}
	var out []Difference
	if is.Target != must.Target {
		out = append(out, Difference{"the redrive policy leads to " + is.Target + ", not to " + must.Target, true})
	}
	if number(is.MaxReceives.String()) < number(must.MaxReceives.String()) {
		out = append(out, Difference{Problem: fmt.Sprintf("a message becomes a dead letter after %s receives, not %s: one that waits for an outage to end is received often", is.MaxReceives, must.MaxReceives)})
	}
	return out
}

// number returns the value of an attribute, 0 if it is no number.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

func asTime(seconds string) string { return (time.Duration(number(seconds)) * time.Second).String() }

// Call is the name of a call of SQS.
type Call string

// These are the calls that Try supports.
const (
	CallSend    Call = "SendMessage"
	CallReceive Call = "ReceiveMessage"
	CallDelete  Call = "DeleteMessage"
	CallChange  Call = "ChangeMessageVisibility"
)

// UntriedError means that a permission could not be tried without harm.
type UntriedError struct{ Reason string }

func (e *UntriedError) Error() string { return e.Reason }

// noReceipt is not the receipt of any message.
const noReceipt = "none"

// Try returns nil if this process may make a call on the queue of a topic. If dead is set, the
// call is on the dead-letter queue. Try makes calls that SQS must refuse for another reason
// than a missing permission, so that no message is sent, hidden or removed. It receives only
// from a queue without waiting messages.
func (b *Broker) Try(ctx context.Context, topic string, dead bool, call Call) error {
	suffix := ""
	if dead {
		suffix = DeadSuffix
	}
	q, err := b.findTopic(ctx, topic, suffix)
	if err != nil {
		return err
	}
	ctx, cancel := b.within(ctx, requestTimeout)
	defer cancel()
	var failed []types.BatchResultErrorEntry
	switch id := aws.String("0"); call {
	case CallSend:
		return b.trySend(ctx, q)
	case CallDelete:
		var out *sqs.DeleteMessageBatchOutput
		if out, err = b.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: id, ReceiptHandle: aws.String(noReceipt)},
		}}); err == nil {
			failed = out.Failed
		}
	case CallChange:
		var out *sqs.ChangeMessageVisibilityBatchOutput
		if out, err = b.client.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &q.url, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
			{Id: id, ReceiptHandle: aws.String(noReceipt)},
		}}); err == nil {
			failed = out.Failed
		}
	default:
		return b.tryReceive(ctx, topic, suffix, q)
	}
	return b.judge(string(call), failed, err)
}

// TrySend tries a send to the queue with this name, which may be outside Fanfare.
func (b *Broker) TrySend(ctx context.Context, name string) error {
	q, err := b.find(ctx, name)
	if err != nil {
		return err
	}
	ctx, cancel := b.within(ctx, requestTimeout)
	defer cancel()
	return b.trySend(ctx, q)
}

// trySend sends a message that SQS refuses: this character is not allowed in a body, and a
// delay of more than 15 minutes is not allowed.
func (b *Broker) trySend(ctx context.Context, q *remoteQueue) error {
	var failed []types.BatchResultErrorEntry
	out, err := b.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: []types.SendMessageBatchRequestEntry{
		{Id: aws.String("0"), MessageBody: aws.String("\x01"), DelaySeconds: 901},
	}})
	if err == nil {
		failed = out.Failed
	}
	return b.judge(string(CallSend), failed, err)
}

// tryReceive receives from a queue that seems to be empty. A message that arrives at this
// moment is hidden for a second.
func (b *Broker) tryReceive(ctx context.Context, topic, suffix string, q *remoteQueue) error {
	depth, err := b.counts(ctx, topic, suffix)
	if err != nil {
		return err
	}
	if depth.Ready > 0 {
		return &UntriedError{fmt.Sprintf("%d messages wait there, and a receive would count as one of theirs", depth.Ready)}
	}
	// WaitTimeSeconds is 1 because the SDK omits a zero, and without a time the receive waits
	// as long as the queue's setting.
	_, err = b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &q.url, MaxNumberOfMessages: 1, VisibilityTimeout: 1, WaitTimeSeconds: 1})
	if err != nil {
		return b.classify(string(CallReceive), err)
	}
	return nil
}

// judge returns nil if SQS refused a call because of its entry: SQS would have accepted a correct entry.
func (b *Broker) judge(op string, failed []types.BatchResultErrorEntry, err error) error {
	if _, answered := errors.AsType[smithy.APIError](err); answered && !awsclient.Transient(err) {
		return &UntriedError{"SQS refused the whole call, and perhaps before it looked at the permission: " + err.Error()}
	}
	if err == nil && len(failed) == 1 {
		if entry := newEntryError(&failed[0]); awsclient.TransientCode(entry.Code) {
			err = entry
		}
	}
	if err != nil {
		return b.classify(op, err)
	}
	return nil
}
