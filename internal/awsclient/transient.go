package awsclient

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Transient reports whether a failure is no fault of the request: throttling, a failed
// server, a lost connection, a timeout, a cut reply, or a failure for which Refused returns
// true. Time or an operator ends such a failure, so the work that needs the call waits, and
// no work is given up (I6). No other place has a list of transient failures.
func Transient(err error) bool {
	if api, ok := errors.AsType[smithy.APIError](err); ok && TransientCode(api.ErrorCode()) {
		return true
	}
	if reply, ok := errors.AsType[*smithyhttp.ResponseError](err); ok &&
		(reply.HTTPStatusCode() >= http.StatusInternalServerError || reply.HTTPStatusCode() == http.StatusTooManyRequests) {
		return true
	}
	// A cut reply cannot be decoded, or ends too early.
	if _, ok := errors.AsType[*smithy.DeserializationError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return true
	}
	// There is no connection, or the connection broke or timed out.
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return unanswered(err) || retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary
}

// unanswered reports whether a call of the SDK got no answer from the service, for a reason
// other than the call's parameters, such as missing credentials.
func unanswered(err error) bool {
	_, called := errors.AsType[*smithy.OperationError](err)
	_, answered := errors.AsType[smithy.APIError](err)
	_, invalid := errors.AsType[*smithy.InvalidParamsError](err)
	_, unwritable := errors.AsType[*smithy.SerializationError](err)
	return called && !answered && !invalid && !unwritable
}

// TransientCode reports whether an error code means a transient failure. The code may
// belong to a call or to an entry of a batch.
func TransientCode(code string) bool {
	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled {
		return true
	}
	if _, retryable := retry.DefaultRetryableErrorCodes[code]; retryable {
		return true
	}
	switch code {
	case "InternalError", "InternalFailure", "InternalServerError", "ServiceUnavailable",
		"TransactionConflictException", "ReplicatedWriteConflictException",
		// SQS limits the received messages that were not deleted yet.
		"OverLimit", "AWS.SimpleQueueService.OverLimit":
		return true
	}
	return refusedCode(code)
}

// Refused reports whether AWS refuses this process, and not only this request: because of
// its credentials, its permissions, the state of an encryption key, or a missing table or
// queue. Only an operator can repair this.
func Refused(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && refusedCode(api.ErrorCode())
}

// Missing reports whether AWS answers that a table or a queue does not exist. Refused also
// returns true for such an error.
func Missing(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && missingCode(api.ErrorCode())
}

func missingCode(code string) bool {
	switch code {
	case "ResourceNotFoundException", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue":
		return true
	}
	return false
}

// credentialsCode reports whether AWS does not know the credentials of a call, or no longer accepts them.
func credentialsCode(code string) bool {
	switch code {
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", "InvalidSecurity",
		"UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId",
		"InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure":
		return true
	}
	return false
}

func refusedCode(code string) bool {
	switch code {
	case "AccessDenied", "AccessDeniedException", "NotAuthorized", "UnauthorizedOperation",
		"RequestExpired", "MissingAuthenticationToken", "MissingAuthenticationTokenException", "IncompleteSignature", "IncompleteSignatureException",
		"RequestTimeTooSkewed", "OptInRequired":
		return true
	}
	// SQS has two forms of the codes of KMS, such as KmsDisabled and KMS.DisabledException.
	return credentialsCode(code) || missingCode(code) || strings.HasPrefix(code, "Kms") || strings.HasPrefix(code, "KMS")
}

// refusalKept is the time for which a refusal counts. A message that meets a refusal is
// redelivered within five minutes (queue.Backoff), and then the refusal is renewed.
const refusalKept = 6 * time.Minute

// Refusals keeps the last refusal of a client. The zero value has none.
type Refusals struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// Note records the error of a call.
func (r *Refusals) Note(err error) {
	if !Refused(err) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.err = time.Now(), err
}

// Err returns a refusal of the last six minutes, nil if there was none.
func (r *Refusals) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) > refusalKept {
		return nil
	}
	return r.err
}
