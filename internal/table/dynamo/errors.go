package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"fanfare/internal/awsclient"
	"fanfare/internal/table"
)

// fail is the only function that classifies failed calls. Callers have already translated
// failed conditions and cancelled transactions.
func (s *Store) fail(op table.Op, err error) error {
	if _, ok := errors.AsType[*smithy.InvalidParamsError](err); ok {
		return &table.InvalidError{Problem: err.Error()}
	}
	code := ""
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
		if invalid(code) {
			return &table.InvalidError{Problem: api.ErrorMessage()}
		}
	}
	s.refusals.Note(err)
	switch ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded); {
	case code == "ResourceNotFoundException":
		err = fmt.Errorf("there is no table %q %s: run `fanfare table create`, or correct FANFARE_TABLE, AWS_REGION or AWS_ENDPOINT_URL: %w", s.name, s.place, err)
	case awsclient.Refused(err):
		err = fmt.Errorf("AWS refuses these credentials, or the key of table %q %s: check the role's policy: %w", s.name, s.place, err)
	case !ended && !awsclient.Transient(err):
		return fmt.Errorf("table: %s: %w", op, err)
	}
	reason, index := shortage(err)
	return &table.UnavailableError{Op: string(op), Err: err, Reason: reason, Index: index, Undone: reads(op) && undone(err)}
}

// reads reports whether calls of this kind change nothing.
func reads(op table.Op) bool {
	return slices.Contains([]table.Op{table.OpGet, table.OpBatchGet, table.OpQuery, table.OpScan}, op)
}

// Refused returns the last refusal that an operator has to repair, for some minutes. Ping may
// succeed at the same time, because the policy may allow reads but no writes.
func (s *Store) Refused() error { return s.refusals.Err() }

// invalid reports whether an error code means that a request can never succeed.
func invalid(code string) bool {
	switch code {
	case "ValidationException", "SerializationException", "ItemCollectionSizeLimitExceededException",
		"IdempotentParameterMismatchException":
		return true
	}
	return false
}

// failWrite classifies a failed write of one item by client. The write's condition may have failed.
func (s *Store) failWrite(client *calls, name table.Op, op table.TransactOp, err error) (table.WriteResult, error) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		res, last := table.WriteResult{Refused: slices.Repeat([]string{op.Key().PK}, refusals(err))}, err
		err = s.fail(name, err)
		if away, ok := errors.AsType[*table.UnavailableError](err); ok {
			// The SDK keeps only the error of the last try. exact retries only if the previous try had no effect.
			away.Undone = client == s.exact && undone(last)
		}
		return res, err
	}
	old, err := decodeOptional(failed.Item)
	if err != nil {
		return table.WriteResult{}, err
	}
	return table.WriteResult{}, &table.ConditionError{Key: op.Key(), Old: old, Units: table.FailedCost(op, old)}
}

// throttled reports whether a call had no effect for lack of capacity. A code counts only with the
// status 400: if a server or a proxy fails with the code of a throttle, the call may have had its
// effect.
func throttled(err error) bool {
	api, answered := errors.AsType[smithy.APIError](err)
	reply, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !answered || !ok || reply.HTTPStatusCode() != http.StatusBadRequest {
		return false
	}
	switch api.ErrorCode() {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return true
	}
	return false
}

// undone reports whether a try had no effect, for lack of capacity or because there was no connection.
func undone(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial" || throttled(err)
}

// refusedTries returns the number of tries of an answered call that were refused for lack of capacity.
func refusedTries(answered middleware.Metadata) (n int) {
	attempts, _ := retry.GetAttemptResults(answered)
	for _, a := range attempts.Results {
		if throttled(a.Err) {
			n++
		}
	}
	return n
}

// refusals returns the number of tries of a failed call that were refused for lack of capacity. The
// SDK keeps only the last try's error. Usually the earlier tries failed for the same reason.
func refusals(err error) int {
	if !throttled(err) {
		return 0
	}
	if all, ok := errors.AsType[*retry.MaxAttemptsError](err); ok {
		return all.Attempt
	}
	return 1
}

// refused reports whether a call certainly had no effect and a retry may succeed.
func refused(err error) bool {
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "TransactionConflictException" {
		return true // another transaction is writing the item
	}
	return undone(err)
}

// refusedOnly is a retry policy. It retries a call if the wrapped policy would retry the call
// and the call certainly had no effect.
type refusedOnly struct{ aws.Retryer }

// IsErrorRetryable implements aws.Retryer.
func (r refusedOnly) IsErrorRetryable(err error) bool {
	return refused(err) && r.Retryer.IsErrorRetryable(err)
}
