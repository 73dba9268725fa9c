package objects

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"fanfare/internal/awsclient"
)

// slowestUpload is the rate in bytes a second below which an upload counts as stuck.
const slowestUpload = 256 << 10

// maxDeleted is the maximum number of tries of Create if the object that has the name is
// deleted each time before Create reads it.
const maxDeleted = 3

// Bucket is a store in a bucket of S3. The names of its keys begin with a prefix.
type Bucket struct {
	client         *s3.Client
	bucket, prefix string // prefix is empty or ends with a slash
}

var _ Store = (*Bucket)(nil)

// NewBucket returns the store in a bucket. The client's options have to include ForEndpoint.
func NewBucket(client *s3.Client, bucket, prefix string) *Bucket {
	if prefix != "" {
		prefix += "/"
	}
	return &Bucket{client, bucket, prefix}
}

// ForEndpoint sets the options of a client. A separate endpoint, such as an emulator, has no
// host name for each bucket. S3 answers ConditionalRequestConflict while it decides between two
// writers of one name, so the client has to retry.
func ForEndpoint(o *s3.Options) {
	o.UsePathStyle = o.BaseEndpoint != nil
	if o.Retryer != nil {
		o.Retryer = retry.AddWithErrorCodes(o.Retryer, conflict)
	}
}

// conflict is the error code for a conditional write that conflicts with another write.
const conflict = "ConditionalRequestConflict"

// Create implements Store. S3 compares the checksum with the received content.
func (b *Bucket) Create(ctx context.Context, name string, body Body) error {
	if err := checkName(name); err != nil {
		return err
	}
	patient := awsclient.Patient(ctx, time.Duration(body.Size)*time.Second/slowestUpload)
	var err error
	for range maxDeleted {
		_, err = b.client.PutObject(patient, &s3.PutObjectInput{
			Bucket: &b.bucket, Key: aws.String(b.prefix + name), Body: body.reader(), ContentLength: &body.Size,
			IfNoneMatch:       aws.String("*"),
			ChecksumAlgorithm: types.ChecksumAlgorithmSha256, ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(body.SHA256[:])),
		})
		if err == nil {
			return nil
		}
		if statusOf(err) != http.StatusPreconditionFailed {
			return b.failed(ctx, "create", name, err)
		}
		if err := exists(ctx, b, name, body); !errors.Is(err, ErrNotThere) {
			return err
		}
	}
	return failed(ctx, ErrAway, "create", name, err)
}

// Get implements Store. The SDK compares the content with the checksum that S3 keeps.
func (b *Bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + name)})
	if err != nil {
		return nil, b.failed(ctx, "get", name, err)
	}
	return &content{ctx: ctx, ReadCloser: out.Body, name: name, kind: func(error) error { return ErrAway }}, nil
}

// List implements Store.
func (b *Bucket) List(ctx context.Context, prefix, after string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: aws.String(b.prefix + prefix)}
		if after != "" {
			in.StartAfter = aws.String(b.prefix + after)
		}
		for pages := s3.NewListObjectsV2Paginator(b.client, in); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(Object{}, b.failed(ctx, "list", prefix, err))
				return
			}
			for _, o := range page.Contents {
				if !yield(Object{strings.TrimPrefix(*o.Key, b.prefix), aws.ToInt64(o.Size), aws.ToTime(o.LastModified)}, nil) {
					return
				}
			}
		}
	}
}

// Delete implements Store.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + name)})
	if err = b.failed(ctx, "delete", name, err); errors.Is(err, ErrNotThere) {
		return nil
	}
	return err
}

// failed gives an error of the SDK its kind.
func (b *Bucket) failed(ctx context.Context, call, name string, err error) error {
	if err == nil {
		return nil
	}
	return failed(ctx, kindOf(err), call, name, err)
}

// kindOf returns the kind of an error of the SDK. If S3 refused a call, S3 will refuse it
// again, except for transient codes and statuses.
func kindOf(err error) error {
	api, ok := errors.AsType[smithy.APIError](err)
	switch status := statusOf(err); {
	case ok && (api.ErrorCode() == "NoSuchKey" || api.ErrorCode() == "NotFound"):
		return ErrNotThere
	case awsclient.Refused(err):
		return ErrRefused
	case ok && (api.ErrorCode() == conflict || awsclient.TransientCode(api.ErrorCode())):
		return ErrAway
	case status == http.StatusNotImplemented:
		return ErrRefused
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return ErrAway
	case status >= http.StatusMultipleChoices:
		return ErrRefused
	case awsclient.Transient(err):
		return ErrAway
	}
	return ErrRefused
}

// statusOf returns the HTTP status of an answer, 0 if there was no answer.
func statusOf(err error) int {
	if reply, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return reply.HTTPStatusCode()
	}
	return 0
}
