//go:build e2e

package feed_test

import (
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/awsclient"
	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
	"fanfare/internal/table/tabletest"
)

// engine makes a new table on the engine whose endpoint the environment variable names. Without the
// variable the test fails, because a skipped test proves nothing.
func engine(t *testing.T, variable string) table.Store {
	t.Helper()
	url := os.Getenv(variable)
	require.NotEmptyf(t, url,
		"%s is not set: run `scripts/with-emulators.sh go test -tags e2e ./internal/feed`, or `make test`", variable)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	cfg, err := awsclient.Load(t.Context())
	require.NoError(t, err)
	store := dynamo.New(dynamodb.NewFromConfig(cfg), "fanfare-test-"+rand.Text()[:10])
	_, err = store.Create(t.Context())
	require.NoError(t, err)
	return store
}

// present returns a clock with the real time, because engines remove expired items by the real time.
func present() *clock {
	return &clock{at: time.Now().UTC().Truncate(time.Second).Add(time.Millisecond)}
}

func TestAccessPatternsCostTheSameOnDynoxide(t *testing.T) {
	want := measurePatterns(t, tabletest.NewMemory(), present())
	got := measurePatterns(t, engine(t, "E2E_DYNOXIDE_URL"), present())
	assert.Empty(t, cmp.Diff(want, got), "(-memory +Dynoxide)")
}

// TestOperationsInAnyOrderMatchTheModelOnDynamoDB compares all operations with the model, on the
// adapter that production uses.
func TestOperationsInAnyOrderMatchTheModelOnDynamoDB(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		clock := present()
		store := engine(t, "E2E_DYNOXIDE_URL")
		w := newWorldAt(t, clock, func(c *config) { c.FollowersPerLikeShard, c.Store = 1, store })
		m := newModel(w, false)
		rt.Repeat(m.actions())
		m.quiesce(rt)
	})
}
