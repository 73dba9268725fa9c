package objects

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Version is the version of an object that Swap may replace, empty for no object. Two contents that are equal
// have the same version, so each content has to be unique.
type Version string

// Conditional is a store of objects that are replaced, each on the condition of its version. Their names must not be names of a
// Store. Errors are ErrNotThere, ErrChanged, ErrRefused or ErrAway, or the cause of the end of ctx.
type Conditional interface {
	// Fetch returns the content and the version of an object. It fails if the content has more than most bytes.
	Fetch(ctx context.Context, name string, most int64) ([]byte, Version, error)
	// Swap replaces the version old of an object, or creates the object if old is empty. If the object has another version,
	// Swap returns ErrChanged. After ErrChanged and after ErrAway, an earlier try of the same call may have had its effect, and
	// after ErrAway it may still have its effect later, while the object has the version old.
	Swap(ctx context.Context, name string, old Version, body Body) (Version, error)
}

var (
	// ErrChanged means that an object has another version than the caller expects.
	ErrChanged = errors.New("the object has another version")
	// errNotConditional refuses a store that does not compare versions.
	errNotConditional = errors.New("a directory cannot replace an object on a condition: write s3://bucket/prefix")
)

var _ Conditional = (*Bucket)(nil)

// OpenConditional opens the conditional store at an address of S3. It makes no call to S3.
func (l Location) OpenConditional(ctx context.Context) (Conditional, error) {
	if l.Dir != "" {
		return nil, errNotConditional
	}
	return l.openBucket(ctx)
}

// Fetch implements Conditional.
func (b *Bucket) Fetch(ctx context.Context, name string, most int64) ([]byte, Version, error) {
	if err := checkName(name); err != nil {
		return nil, "", err
	}
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + name)})
	if err != nil {
		return nil, "", b.failed(ctx, "get", name, err)
	}
	defer out.Body.Close()
	content, err := io.ReadAll(io.LimitReader(out.Body, most+1))
	if err != nil {
		return nil, "", failed(ctx, ErrAway, "get", name, err)
	}
	if int64(len(content)) > most {
		return nil, "", fmt.Errorf("object %s has more than %d bytes", name, most)
	}
	return content, Version(aws.ToString(out.ETag)), nil
}

// Swap implements Conditional.
func (b *Bucket) Swap(ctx context.Context, name string, old Version, body Body) (Version, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	in := &s3.PutObjectInput{
		Bucket: &b.bucket, Key: aws.String(b.prefix + name), Body: body.reader(), ContentLength: &body.Size,
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256, ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(body.SHA256[:])),
	}
	if old == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(string(old))
	}
	out, err := b.client.PutObject(ctx, in)
	switch {
	case err == nil:
		return Version(aws.ToString(out.ETag)), nil
	case statusOf(err) == http.StatusPreconditionFailed:
		return "", failed(ctx, ErrChanged, "swap", name, err)
	default:
		return "", b.failed(ctx, "swap", name, err) // an object that was deleted is ErrNotThere
	}
}
