//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
	objectstore "fanfare/internal/objects"
)

// newBucket makes a bucket on LocalStack. It returns a store that uses the bucket through a bad network.
func newBucket(t *testing.T, n *badNetwork) objectstore.Store {
	t.Helper()
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://"+n.queues.Listen)
	cfg, err := awsclient.Load(t.Context())
	require.NoError(t, err)
	client := s3.NewFromConfig(cfg, objectstore.ForEndpoint)
	bucket := "e2e-" + strings.ToLower(rand.Text()[:10])
	_, err = client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	require.NoError(t, err)
	location, err := objectstore.Parse("s3://" + bucket + "/some/prefix")
	require.NoError(t, err)
	store, err := location.Open(t.Context())
	require.NoError(t, err)
	return store
}

// TestABadNetworkLeavesObjectsWhole puts each fault between a writer and S3, in each direction. During a
// fault the creation of an object succeeds, or its outcome is unknown. If the outcome is unknown, the
// same creation succeeds after the fault. A creation with another content never succeeds, and the object
// is always whole.
func TestABadNetworkLeavesObjectsWhole(t *testing.T) {
	n := newBadNetwork(t)
	store := newBucket(t, n)
	cut := fault{kind: "limit_data", attributes: `"bytes": 120`, cuts: true} // cuts in the middle of the head
	for i, f := range append(faults(), cut) {
		for _, direction := range []string{"upstream", "downstream"} {
			name := fmt.Sprintf("%s/%d", f.kind, i)
			body := objectstore.Bytes([]byte(strings.Repeat(direction, 20_000)))
			n.begin(t, f, direction)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			err := store.Create(ctx, name+direction, body)
			if err != nil && !errors.Is(err, objectstore.ErrAway) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s %s: %v", f.kind, direction, err)
			}
			assert.Falsef(t, f.cuts && err == nil, "%s %s did not cut", f.kind, direction)
			_, err = objectstore.Read(ctx, store, name+direction, 1<<20)
			assert.NotErrorIsf(t, err, objectstore.ErrRefused, "%s %s", f.kind, direction)
			cancel()
			n.end(t)

			require.NoErrorf(t, store.Create(t.Context(), name+direction, body), "%s %s", f.kind, direction)
			exists, ok := errors.AsType[*objectstore.ExistsError](store.Create(t.Context(), name+direction, objectstore.Bytes([]byte("another"))))
			require.True(t, ok)
			assert.Equal(t, body.SHA256, exists.SHA256)
			content, err := objectstore.Read(t.Context(), store, name+direction, 1<<20)
			require.NoError(t, err)
			assert.Equal(t, body.SHA256, sha256.Sum256(content))
		}
	}
}
