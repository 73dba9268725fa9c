package sqs

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"fanfare/internal/awsclient"
	"fanfare/internal/queue"
)

// transient is the one place that decides which failures of SQS time alone can mend.
func transient(err error) bool {
	// SQS limits the messages in flight: the error ends when some of them are answered.
	if _, ok := errors.AsType[*types.OverLimit](err); ok {
		return true
	}
	return awsclient.Transient(err)
}

// classify wraps an error of op, as a queue.UnavailableError if it is transient.
func classify(op string, err error) error {
	if transient(err) {
		return &queue.UnavailableError{Op: op, Err: err}
	}
	if _, ok := errors.AsType[*types.QueueDoesNotExist](err); ok {
		return fmt.Errorf("%s: the queue does not exist, create it with \"fanfare queues create\": %w", op, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// entryError is the failure of one entry of a batch.
type entryError struct {
	code, message string
	senderFault   bool
}

func (e *entryError) Error() string { return e.code + ": " + e.message }

// lasting reports whether the entry would fail again.
func (e *entryError) lasting() bool { return e.senderFault && !awsclient.TransientCode(e.code) }

func newEntryError(e *types.BatchResultErrorEntry) *entryError {
	return &entryError{aws.ToString(e.Code), aws.ToString(e.Message), e.SenderFault}
}
