package awsclient

import (
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Transient reports whether err is a failure of a service or of the network that time
// alone can mend: throttling, a failed server, a lost connection, a timeout, a cut reply.
// Each service has a few more of its own.
func Transient(err error) bool {
	if api, ok := errors.AsType[smithy.APIError](err); ok && TransientCode(api.ErrorCode()) {
		return true
	}
	if reply, ok := errors.AsType[*smithyhttp.ResponseError](err); ok &&
		(reply.HTTPStatusCode() >= http.StatusInternalServerError || reply.HTTPStatusCode() == http.StatusTooManyRequests) {
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

// TransientCode reports whether an error code, of a call or of an entry of a batch, stands
// for a transient failure.
func TransientCode(code string) bool {
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
