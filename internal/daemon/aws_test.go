package daemon_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"fanfare/internal/awsclient"
)

// withAWS returns a context in which a process calls this AWS. The AWS needs no network, so the process may be in a
// bubble of virtual time.
func withAWS(ctx context.Context, services http.Handler) context.Context {
	return awsclient.With(ctx, func(cfg *aws.Config) {
		cfg.HTTPClient, cfg.BaseEndpoint, cfg.Region, cfg.ConfigSources = local{services}, aws.String("http://aws.test"), "us-east-1", nil
		cfg.Credentials = credentials.NewStaticCredentialsProvider("test", "test", "")
	})
}

// local is a client of an HTTP server in this process.
type local struct{ http.Handler }

// Do implements aws.HTTPClient.
func (l local) Do(r *http.Request) (res *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // http.Server compares, too
			panic(p)
		} else if p != nil {
			err = io.ErrUnexpectedEOF
		}
	}()
	answer := httptest.NewRecorder()
	answer.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	l.ServeHTTP(answer, r)
	if err := r.Context().Err(); err != nil {
		return nil, errors.Join(err, context.Cause(r.Context()))
	}
	return answer.Result(), nil
}
