package sqs

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"fanfare/internal/awsclient"
	"fanfare/internal/queue"
)

// classify wraps an error of op. If the error is transient, it returns a queue.UnavailableError.
func (b *Broker) classify(op string, err error) error {
	b.refusals.Note(err)
	if _, ok := errors.AsType[*types.QueueDoesNotExist](err); ok {
		err = fmt.Errorf("there is no such queue %s, or the role may not see it: create it with `fanfare queues create`, or correct FANFARE_QUEUE_PREFIX, AWS_REGION or AWS_ENDPOINT_URL: %w", b.place, err)
	} else if awsclient.Refused(err) {
		err = fmt.Errorf("AWS refuses these credentials, or the queue's key, %s: check the role's policy: %w", b.place, err)
	}
	if awsclient.Transient(err) {
		return &queue.UnavailableError{Op: op, Err: err}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// Refused returns the last refusal that an operator has to repair, for some minutes. Ping may
// succeed at the same time, because it needs no key and no right to send.
func (b *Broker) Refused() error { return b.refusals.Err() }

// entryError is the failure of one entry of a batch.
type entryError struct{ smithy.GenericAPIError }

// lasting reports whether the entry would fail again.
func (e *entryError) lasting() bool {
	return e.Fault == smithy.FaultClient && !awsclient.TransientCode(e.Code)
}

func newEntryError(e *types.BatchResultErrorEntry) *entryError {
	failed := smithy.GenericAPIError{Code: aws.ToString(e.Code), Message: aws.ToString(e.Message), Fault: smithy.FaultServer}
	if e.SenderFault {
		failed.Fault = smithy.FaultClient
	}
	return &entryError{failed}
}
