package awsclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
)

const (
	// renewEvery is the shortest time between two looks for replaced credentials, because each refused call asks for one.
	renewEvery = 10 * time.Second
	// renewTime is the timeout of a look, which reads files.
	renewTime = 5 * time.Second
)

// renewing is a source of credentials that are read again when AWS refuses them: the SDK reads the files of credentials once, so an operator
// who replaces keys would have to restart each process. Roles renew themselves.
type renewing struct {
	read func(context.Context) (aws.CredentialsProvider, error)

	mu      sync.Mutex
	from    aws.CredentialsProvider
	looked  time.Time
	renewed bool // the last look found other credentials
}

// Retrieve implements aws.CredentialsProvider.
func (r *renewing) Retrieve(ctx context.Context) (aws.Credentials, error) {
	r.mu.Lock()
	from := r.from
	r.mu.Unlock()
	return from.Retrieve(ctx)
}

// IsErrorRetryable implements retry.IsErrorRetryable. A call whose credentials AWS refused is sent again if there are other ones.
func (r *renewing) IsErrorRetryable(err error) aws.Ternary {
	api, ok := errors.AsType[smithy.APIError](err)
	if ok && credentialsCode(api.ErrorCode()) && r.renew() {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// renew reads the credentials again, and reports whether they differ.
func (r *renewing) renew() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.looked.IsZero() && time.Since(r.looked) < renewEvery {
		return r.renewed // the call may have begun with the former credentials
	}
	r.looked, r.renewed = time.Now(), false
	ctx, cancel := context.WithTimeout(context.Background(), renewTime)
	defer cancel()
	before, err := r.from.Retrieve(ctx)
	if err != nil || before.CanExpire {
		return false
	}
	from, err := r.read(ctx)
	if err != nil {
		return false
	}
	now, err := from.Retrieve(ctx)
	if err != nil || now.AccessKeyID == before.AccessKeyID && now.SecretAccessKey == before.SecretAccessKey && now.SessionToken == before.SessionToken {
		return false
	}
	r.from, r.renewed = from, true
	return true
}
