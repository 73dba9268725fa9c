//go:build e2e

package dynamo_test

import (
	"crypto/rand"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/stormtest"
	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
	"fanfare/internal/table/tabletest"
)

// endpoint returns the address of an engine. A test without its engine fails, because a skipped test proves
// nothing.
func endpoint(t *testing.T, variable string) string {
	t.Helper()
	url := os.Getenv(variable)
	require.NotEmptyf(t, url,
		"%s is not set: run `scripts/with-emulators.sh go test -tags e2e ./internal/table/dynamo`, or `make test`", variable)
	return url
}

// created makes a new table on an engine.
func created(t *testing.T, url string) *dynamo.Store {
	t.Helper()
	store := open(t, url, "fanfare-test-"+rand.Text()[:10])
	for range 2 { // Create may run more than once
		_, err := store.Create(t.Context())
		require.NoError(t, err)
	}
	d, err := store.Describe(t.Context())
	require.NoError(t, err)
	if d.Status != "ACTIVE" || d.TTL != table.AttrTTL || d.Billing != "PAY_PER_REQUEST" || len(d.Differences) > 0 {
		t.Errorf("description %+v", d)
	}
	assert.NoError(t, store.Ping(t.Context()))
	return store
}

func TestLocalStackKeepsTheContract(t *testing.T) {
	t.Parallel()
	// The test on Dynoxide compares these units with DynamoDB's own rules.
	keepsTheContract(t, endpoint(t, "AWS_ENDPOINT_URL"), tabletest.ApproximateUnits(
		"DynamoDB Local bills nothing for a read that finds nothing and for a check, an index write for half of an index key, and a unit too many for batched deletes"))
}

func TestDynoxideKeepsTheContract(t *testing.T) {
	t.Parallel()
	keepsTheContract(t, endpoint(t, "E2E_DYNOXIDE_URL"), tabletest.BillsProjection(
		"Dynoxide 1.2.1 measures a GetItem after the projection; DynamoDB measures before"))
}

func keepsTheContract(t *testing.T, url string, options ...tabletest.Option) {
	t.Helper()
	fresh, stale := created(t, url), tabletest.Stale(created(t, url), 1)
	t.Run("fresh", func(t *testing.T) {
		tabletest.Run(t, func(*testing.T) table.Store { return fresh }, options...)
	})
	if !stormtest.Whole() && url == os.Getenv("AWS_ENDPOINT_URL") {
		return // LocalStack answers 200 calls a second, and Dynoxide runs the contract over stale reads in each run
	}
	t.Run("stale", func(t *testing.T) {
		tabletest.Run(t, func(*testing.T) table.Store { return stale }, options...)
	})
}

// The emulators create tables with each capacity that CreateAs requests, and describe the capacity as AWS does.
func TestEmulatorsKeepTheCapacity(t *testing.T) {
	t.Parallel()
	const localStack, dynoxide = "AWS_ENDPOINT_URL", "E2E_DYNOXIDE_URL"
	for name, row := range map[string]struct {
		plan, other dynamo.Plan
		engines     []string
	}{
		"provisioned": {provisioned(), dynamo.Plan{Billing: dynamo.OnDemand}, []string{localStack, dynoxide}},
		"ceilings":    {dynamo.Plan{MaxWrite: new(int64(100)), MaxRead: new(int64(300))}, dynamo.Plan{MaxWrite: new(int64(101))}, []string{localStack}}, // Dynoxide keeps no ceiling of an index
		"no ceilings": {dynamo.Plan{Billing: dynamo.OnDemand, MaxWrite: new(int64(0)), MaxRead: new(int64(0))}, provisioned(), []string{localStack, dynoxide}},
	} {
		for _, engine := range row.engines {
			t.Run(engine+"/"+name, func(t *testing.T) {
				store := open(t, endpoint(t, engine), "fanfare-test-"+rand.Text()[:10])
				for _, want := range []bool{true, false} {
					made, err := store.CreateAs(t.Context(), row.plan)
					require.NoError(t, err)
					assert.Equal(t, want, made)
				}
				_, err := store.CreateAs(t.Context(), row.other)
				require.ErrorAs(t, err, new(*dynamo.CapacityError))
				assert.NoError(t, store.Ping(t.Context()))
			})
		}
	}
}
