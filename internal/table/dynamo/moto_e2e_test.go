//go:build e2e

package dynamo_test

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// wrongOnMoto has the tests that moto 5.2.5 fails where it is no DynamoDB. docs/DEPLOY.md names
// them to users.
func wrongOnMoto() map[string]string {
	return map[string]string{
		"Conditions/EachKindOnEachState":  "it answers 500 where a condition compares a number with a string; DynamoDB says that it does not hold",
		"Invalid/ItemsAtTheLimitAreTaken": "it measures more than the item, and refuses one of exactly 400 KB",
		"Units/OfTransactionsAreTwice":    "it bills nothing for transactions",
	}
}

// slowOnMoto has tests that take seconds there: moto copies the table for each transaction, and
// reads all items for each query.
func slowOnMoto() map[string]string {
	const reason = "it takes seconds, and smaller tests make the same calls"
	return map[string]string{
		"Batch/GetOfLargeItemsReadsThemAll": reason, "Query/BoundsDirectionAndAfter": reason, "Query/EndsOnlyReturnsTheLastKeyOfEachPageButTheLast": reason,
		"Transact/HoldsAHundredOperations": reason, "Model/RandomOperationsAgreeWithMemory": reason,
		"Concurrency/TransactionsAreExactAndConflictsAreRetryable": "moto-server.py makes one call at a time, so no transactions conflict",
	}
}

// inChild is set in a process that runs the tests of wrongOnMoto.
const inChild = "E2E_MOTO_WRONG"

func TestMotoKeepsTheContract(t *testing.T) {
	store := created(t, endpoint(t, "E2E_MOTO_URL"))
	without := slowOnMoto()
	if os.Getenv(inChild) == "" {
		maps.Copy(without, wrongOnMoto())
	}
	tabletest.Run(t, func(*testing.T) table.Store { return store },
		tabletest.ApproximateUnits("moto bills a unit or half of one for any call"), tabletest.Without(without))
}

// A test of wrongOnMoto that passes has to leave that list.
func TestMotoIsWrongWhereWeSay(t *testing.T) {
	endpoint(t, "E2E_MOTO_URL")
	var groups, tests []string
	for _, name := range slices.Sorted(maps.Keys(wrongOnMoto())) {
		group, test, _ := strings.Cut(name, "/")
		groups, tests = append(groups, regexp.QuoteMeta(group)), append(tests, regexp.QuoteMeta(test))
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.v",
		"-test.run", "^TestMotoKeepsTheContract$/^("+strings.Join(groups, "|")+")$/^("+strings.Join(tests, "|")+")$")
	c.Env = append(os.Environ(), inChild+"=yes")
	out, err := c.CombinedOutput()
	require.Error(t, err)
	for name := range wrongOnMoto() {
		assert.Contains(t, string(out), "--- FAIL: TestMotoKeepsTheContract/"+name+" (")
	}
}
