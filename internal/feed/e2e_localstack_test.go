//go:build e2e && slow

package feed_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table/tabletest"
)

const localStackUnits = "testdata/units_localstack.json"

// LocalStack counts units differently, but the calls must be the same.
func TestAccessPatternsOnLocalStack(t *testing.T) {
	want := measurePatterns(t, tabletest.NewMemory(), present())
	got := measurePatterns(t, engine(t, "AWS_ENDPOINT_URL"), present())
	assert.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreFields(measured{}, "Read", "Write")), "(-memory +LocalStack)")
	text, err := json.MarshalIndent(got, "", "\t")
	require.NoError(t, err)
	golden(t, localStackUnits, string(text)+"\n")
}
