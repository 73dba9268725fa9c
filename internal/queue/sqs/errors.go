package sqs

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"fanfare/internal/queue"
)

// transient is the one place that decides which failures of SQS time alone can mend.
func transient(err error) bool {
	// SQS limits the messages in flight: the error ends when some of them are answered.
	if _, ok := errors.AsType[*types.OverLimit](err); ok {
		return true
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok && transientCode(api.ErrorCode()) {
		return true
	}
	if reply, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && (reply.HTTPStatusCode() >= 500 || reply.HTTPStatusCode() == 429) {
		return true
	}
	// A reply that was cut cannot be decoded, or ends too early.
	if _, ok := errors.AsType[*smithy.DeserializationError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return true
	}
	// There is no connection, or it broke or timed out.
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary
}

// transientCode reports whether an error code, of a call or of an entry of a batch, is
// transient.
func transientCode(code string) bool {
	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled {
		return true
	}
	if _, retryable := retry.DefaultRetryableErrorCodes[code]; retryable {
		return true
	}
	switch code {
	case "InternalError", "InternalFailure", "InternalServerError", "ServiceUnavailable", "KMS.ThrottlingException", "KmsThrottled":
		return true
	}
	return false
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
func (e *entryError) lasting() bool { return e.senderFault && !transientCode(e.code) }

func newEntryError(e *types.BatchResultErrorEntry) *entryError {
	return &entryError{aws.ToString(e.Code), aws.ToString(e.Message), e.SenderFault}
}
