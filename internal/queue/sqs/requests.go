package sqs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"fanfare/internal/backoff"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
)

const (
	// entryTries is the maximum number of tries of an entry that failed within a batch.
	entryTries = 4
	// requestTimeout bounds a request with the SDK's retries.
	requestTimeout = 20 * time.Second
)

// remoteQueue is one queue of SQS: its URL, and a batcher for each kind of request. A request
// does not end when its caller stops, because an answer that is in flight when a process stops
// should still reach SQS. A request ends within requestTimeout, or when Close cuts it.
type remoteQueue struct {
	url        string
	send       *batcher[types.SendMessageBatchRequestEntry]
	remove     *batcher[string]
	visibility *batcher[visibility]
}

// visibility is a new visibility timeout for a received message.
type visibility struct {
	receipt string
	seconds int32
}

func (b *Broker) newQueue(url string) *remoteQueue {
	return &remoteQueue{
		url: url,
		send: batching(b, "send messages", func(ctx context.Context, entries []types.SendMessageBatchRequestEntry) (reply, error) {
			for i := range entries {
				entries[i].Id = aws.String(strconv.Itoa(i))
			}
			out, err := b.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: entries})
			if err != nil {
				return reply{}, err
			}
			return reply{len(out.Successful), out.Failed}, nil
		}),
		remove: batching(b, "delete messages", func(ctx context.Context, receipts []string) (reply, error) {
			entries := make([]types.DeleteMessageBatchRequestEntry, len(receipts))
			for i := range receipts {
				entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &receipts[i]}
			}
			out, err := b.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: entries})
			if err != nil {
				return reply{}, err
			}
			return reply{len(out.Successful), out.Failed}, nil
		}),
		visibility: batching(b, "change visibility", func(ctx context.Context, changes []visibility) (reply, error) {
			entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(changes))
			for i := range changes {
				entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
					Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &changes[i].receipt, VisibilityTimeout: changes[i].seconds,
				}
			}
			out, err := b.client.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: entries})
			if err != nil {
				return reply{}, err
			}
			return reply{len(out.Successful), out.Failed}, nil
		}),
	}
}

// batching returns a batcher for one kind of request.
func batching[T any](b *Broker, op string, request func(context.Context, []T) (reply, error)) *batcher[T] {
	return newBatcher(b.opt.Requests, func(entries []T) []error { return retryAlone(b, op, entries, request) })
}

// wait returns when all requests of q have ended.
func (q *remoteQueue) wait() {
	q.send.unanswered.Wait()
	q.remove.unanswered.Wait()
	q.visibility.unanswered.Wait()
}

// reply is SQS's reply to a batch.
type reply struct {
	succeeded int
	failed    []types.BatchResultErrorEntry
}

// retryAlone makes a request for all entries. If an entry failed, but may succeed later,
// retryAlone sends the entry again in a request of its own. When b cuts its requests, these
// retries end.
func retryAlone[T any](b *Broker, op string, entries []T, request func(context.Context, []T) (reply, error)) []error {
	pause := backoff.Exponential{First: 50 * time.Millisecond, Most: time.Second}
	errs := try(b, op, entries, request)
	for i := range errs {
		for n := 1; n < entryTries; n++ {
			if failed, ok := errors.AsType[*entryError](errs[i]); !ok || failed.lasting() {
				break
			}
			_ = backoff.Wait(b.life, pause.Bound(n)) // if life ends, the next try fails at once
			errs[i] = try(b, op, entries[i:i+1], request)[0]
		}
	}
	return errs
}

// try makes one request. If the whole request fails, each entry has this error.
func try[T any](b *Broker, op string, entries []T, request func(context.Context, []T) (reply, error)) []error {
	ctx, cancel := context.WithTimeout(b.life, requestTimeout)
	defer cancel()
	var r reply
	err := panics.Catch(func() (err error) { // the callers run on other goroutines
		r, err = request(ctx, entries)
		return err
	})
	errs := make([]error, len(entries))
	failAll := func(err error) []error {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	switch {
	case err != nil && b.life.Err() != nil:
		return failAll(&queue.UnavailableError{Op: op, Err: context.Cause(b.life)})
	case err != nil:
		return failAll(b.classify(op, err))
	case r.succeeded+len(r.failed) != len(entries):
		return failAll(&queue.UnavailableError{Op: op, Err: errors.New("the reply does not answer all entries")})
	}
	for i := range r.failed {
		id := aws.ToString(r.failed[i].Id)
		at, err := strconv.Atoi(id)
		if err != nil || at < 0 || at >= len(errs) || errs[at] != nil {
			// It is unknown which entry failed. A repeated send of a successful entry loses nothing.
			return failAll(&queue.UnavailableError{Op: op, Err: fmt.Errorf("the reply has an entry %q that was not sent", id)})
		}
		failed := newEntryError(&r.failed[i])
		b.refusals.Note(failed)
		errs[at] = &queue.UnavailableError{Op: op, Err: failed}
		if failed.lasting() {
			errs[at] = fmt.Errorf("%s: %w", op, failed)
		}
	}
	return errs
}
