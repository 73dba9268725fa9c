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

	"fanfare/internal/panics"
	"fanfare/internal/queue"
)

const (
	// entryTries is how often an entry is sent that failed within a batch.
	entryTries = 4
	// entryBackoff is the wait before an entry is sent again alone; it doubles.
	entryBackoff = 50 * time.Millisecond
	// requestTimeout bounds a request with the SDK's retries.
	requestTimeout = 20 * time.Second
)

// visibility is a wish to change when a message is seen again.
type visibility struct {
	receipt string
	seconds int32
}

// lane is the three batchers of one queue. Their requests end by themselves within
// requestTimeout, and not at the stop of their callers: an answer that is under way
// when a process stops should arrive. Close cuts them in the end.
type lane struct {
	url        string
	send       *batcher[types.SendMessageBatchRequestEntry]
	remove     *batcher[string]
	visibility *batcher[visibility]
}

func (b *Broker) newLane(url string) *lane {
	l := &lane{url: url}
	l.send = newBatcher(b.requests, func(entries []types.SendMessageBatchRequestEntry) []error {
		return oneByOne(b.life, "send messages", entries, func(ctx context.Context, entries []types.SendMessageBatchRequestEntry) ([]types.BatchResultErrorEntry, error) {
			for i := range entries {
				entries[i].Id = aws.String(strconv.Itoa(i))
			}
			out, err := b.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &l.url, Entries: entries})
			if err != nil {
				return nil, err
			}
			return out.Failed, checkAnswered(len(entries), len(out.Successful), len(out.Failed))
		})
	})
	l.remove = newBatcher(b.requests, func(receipts []string) []error {
		return oneByOne(b.life, "delete messages", receipts, func(ctx context.Context, receipts []string) ([]types.BatchResultErrorEntry, error) {
			entries := make([]types.DeleteMessageBatchRequestEntry, len(receipts))
			for i := range receipts {
				entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &receipts[i]}
			}
			out, err := b.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &l.url, Entries: entries})
			if err != nil {
				return nil, err
			}
			return out.Failed, checkAnswered(len(entries), len(out.Successful), len(out.Failed))
		})
	})
	l.visibility = newBatcher(b.requests, func(changes []visibility) []error {
		return oneByOne(b.life, "change visibility", changes, func(ctx context.Context, changes []visibility) ([]types.BatchResultErrorEntry, error) {
			entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(changes))
			for i := range changes {
				entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
					Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &changes[i].receipt, VisibilityTimeout: changes[i].seconds,
				}
			}
			out, err := b.client.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &l.url, Entries: entries})
			if err != nil {
				return nil, err
			}
			return out.Failed, checkAnswered(len(entries), len(out.Successful), len(out.Failed))
		})
	})
	return l
}

// wait returns when all requests of l have ended.
func (l *lane) wait() {
	l.send.all.Wait()
	l.remove.all.Wait()
	l.visibility.all.Wait()
}

// checkAnswered finds a reply that leaves entries out.
func checkAnswered(entries, succeeded, failed int) error {
	if succeeded+failed != entries {
		return &queue.UnavailableError{Op: "batch", Err: errors.New("the reply does not answer all entries")}
	}
	return nil
}

// oneByOne makes a request for all entries; those that failed in it, and may
// succeed, are sent again each alone, until life ends.
func oneByOne[T any](life context.Context, op string, entries []T, request func(context.Context, []T) ([]types.BatchResultErrorEntry, error)) []error {
	errs := try(life, op, entries, request)
	for i, err := range errs {
		for wait, n := entryBackoff, 1; n < entryTries; wait, n = 2*wait, n+1 {
			if failed, ok := errors.AsType[*entryError](err); !ok || failed.lasting() {
				break
			}
			select {
			case <-time.After(wait):
			case <-life.Done(): // which the try says
			}
			err = try(life, op, entries[i:i+1], request)[0]
		}
		errs[i] = err
	}
	return errs
}

// try makes one request. An error of the whole request is that of each entry.
func try[T any](life context.Context, op string, entries []T, request func(context.Context, []T) ([]types.BatchResultErrorEntry, error)) []error {
	ctx, cancel := context.WithTimeout(life, requestTimeout)
	defer cancel()
	var failed []types.BatchResultErrorEntry
	err := panics.Catch(func() (err error) { // the batcher runs it for callers of other goroutines
		failed, err = request(ctx, entries)
		return err
	})
	errs := make([]error, len(entries))
	if err != nil {
		if life.Err() != nil {
			err = &queue.UnavailableError{Op: op, Err: context.Cause(life)}
		} else {
			err = classify(op, err)
		}
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	for i := range failed {
		at, err := strconv.Atoi(aws.ToString(failed[i].Id))
		if err != nil || at < 0 || at >= len(errs) || errs[at] != nil {
			// Some entry failed, and who knows which: to do them twice loses nothing.
			err := &queue.UnavailableError{Op: op, Err: fmt.Errorf("the reply has an entry %q that was not sent", aws.ToString(failed[i].Id))}
			for at := range errs {
				errs[at] = err
			}
			return errs
		}
		entry := newEntryError(&failed[i])
		errs[at] = classifyEntry(op, entry)
	}
	return errs
}

func classifyEntry(op string, e *entryError) error {
	if e.lasting() {
		return classify(op, e)
	}
	return &queue.UnavailableError{Op: op, Err: e}
}
