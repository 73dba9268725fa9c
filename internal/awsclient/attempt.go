package awsclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// attemptTimeout is the time in which the reply to one attempt must begin, and in which
// each further part of the reply must arrive. Then the attempt is ended, and the call is
// retried over another connection.
const attemptTimeout = 3 * time.Second

// emulatorTimeout is the attemptTimeout for an emulator beside this process. The emulator
// shares the machine's processors with its callers, and a retry makes the emulator even slower.
const emulatorTimeout = 20 * time.Second

// timeoutOf returns the timeout of an attempt for a host. A loopback address, or a name
// without a dot, is never a host of AWS.
func timeoutOf(host string) time.Duration {
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() || ip == nil && !strings.Contains(host, ".") {
		return emulatorTimeout
	}
	return attemptTimeout
}

type patientKey struct{}

// Patient returns a context for calls whose reply may begin later by wait, such as a
// receive that waits for messages, or the making of a table.
func Patient(ctx context.Context, wait time.Duration) context.Context {
	return context.WithValue(ctx, patientKey{}, wait)
}

// silentError is a net.Error: an attempt got no reply before its timeout.
type silentError struct{ after time.Duration }

func (e *silentError) Error() string { return fmt.Sprintf("no reply of AWS within %s", e.after) }

// Timeout and Temporary implement net.Error, because the retry policy calls them.
func (*silentError) Timeout() bool   { return true }
func (*silentError) Temporary() bool { return true }

// bounded is a client that ends an attempt whose reply is too late.
type bounded struct{ next aws.HTTPClient }

// Do implements aws.HTTPClient.
func (c bounded) Do(req *http.Request) (*http.Response, error) {
	more, _ := req.Context().Value(patientKey{}).(time.Duration)
	ctx, cancel := context.WithCancelCause(req.Context())
	pause := timeoutOf(req.URL.Hostname())
	silent := &silentError{pause + more}
	timer := time.AfterFunc(silent.after, func() { cancel(silent) })
	reply := &replyBody{ctx: ctx, cancel: cancel, timer: timer, pause: pause}
	res, err := c.next.Do(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		err = reply.cause(err)
		cancel(nil)
		return res, err
	}
	reply.ReadCloser, res.Body = res.Body, reply
	return res, nil
}

// replyBody is the body of a reply. A read that takes too long ends the attempt.
type replyBody struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // the context of the attempt
	cancel context.CancelCauseFunc
	timer  *time.Timer
	pause  time.Duration // the timeout of a read
}

// Read implements io.Reader.
func (b *replyBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.pause)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.cause(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *replyBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// cause returns the reason why the attempt was ended, or err if nothing ended the attempt.
func (b *replyBody) cause(err error) error {
	if silent, ok := errors.AsType[*silentError](context.Cause(b.ctx)); ok {
		return silent
	}
	return err
}
