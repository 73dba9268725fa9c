//go:build e2e

package objects_test

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
	"fanfare/internal/objects"
	"fanfare/internal/objects/objectstest"
)

// fewKeys makes S3 list three keys in a page.
func fewKeys(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("fewKeys", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		if list, ok := in.Parameters.(*s3.ListObjectsV2Input); ok {
			list.MaxKeys = aws.Int32(3)
		}
		return next.HandleInitialize(ctx, in)
	}), middleware.Before)
}

// keepsTheContract runs the suite on the S3 of an emulator. Each test has a prefix of its own. A
// missing emulator is an error, because a skipped test proves nothing.
func keepsTheContract(t *testing.T, variable string, options ...objectstest.Option) {
	t.Helper()
	endpoint := os.Getenv(variable)
	require.NotEmptyf(t, endpoint, "%s is not set: run `scripts/with-emulators.sh go test -tags e2e ./internal/objects`, or `make test`", variable)
	t.Setenv("AWS_ENDPOINT_URL_S3", endpoint)
	cfg, err := awsclient.Load(t.Context())
	require.NoError(t, err)
	cfg.APIOptions = append(cfg.APIOptions, fewKeys)
	client := s3.NewFromConfig(cfg, objects.ForEndpoint)
	bucket := "fanfare-" + strings.ToLower(rand.Text()[:10])
	in := &s3.CreateBucketInput{Bucket: &bucket}
	if cfg.Region != "us-east-1" {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(cfg.Region)}
	}
	_, err = client.CreateBucket(t.Context(), in)
	require.NoError(t, err)
	t.Run("below a prefix", func(t *testing.T) {
		objectstest.Run(t, func(*testing.T) objects.Store { return objects.NewBucket(client, bucket, "below/"+rand.Text()) }, options...)
	})
	t.Run("on condition", func(t *testing.T) {
		objectstest.RunConditional(t, func(*testing.T) objects.Conditional { return objects.NewBucket(client, bucket, "below/"+rand.Text()) })
	})
	t.Run("of a bucket that is not there", func(t *testing.T) {
		for _, err := range every(t, objects.NewBucket(client, bucket+"-absent", "")) {
			require.ErrorIs(t, err, objects.ErrRefused)
		}
	})
}

func TestLocalStackKeepsTheContract(t *testing.T) { keepsTheContract(t, "AWS_ENDPOINT_URL") }

func TestMotoKeepsTheContract(t *testing.T) {
	keepsTheContract(t, "E2E_MOTO_URL", objectstest.AcceptsDamage("moto 5.2.5 stores a checksum and does not compare it"))
}
