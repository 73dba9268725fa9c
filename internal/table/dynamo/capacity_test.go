package dynamo_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table/dynamo"
)

func provisioned() dynamo.Plan {
	return dynamo.Plan{
		Billing: dynamo.Provisioned,
		Table:   dynamo.Ranges{Write: dynamo.Range{Least: 500, Most: 10000}, Read: dynamo.Range{Least: 1000, Most: 30000}},
		Index:   dynamo.Ranges{Write: dynamo.Range{Least: 50, Most: 1000}, Read: dynamo.Range{Least: 20, Most: 1000}},
	}
}

// onDemand and units return parts of DynamoDB's descriptions of tables and indexes.
func onDemand(write, read int) object {
	return object{
		"BillingModeSummary": object{"BillingMode": "PAY_PER_REQUEST"}, "OnDemandThroughput": object{"MaxWriteRequestUnits": write, "MaxReadRequestUnits": read},
	}
}

func units(write, read int) object {
	return object{"ProvisionedThroughput": object{"WriteCapacityUnits": write, "ReadCapacityUnits": read}}
}

func TestCreateGivesANewTableItsCapacity(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		plan         dynamo.Plan
		table, index object
		text         string
	}{
		"no plan": {dynamo.Plan{}, object{"BillingMode": "PAY_PER_REQUEST"}, object{}, "on demand, without a ceiling"},
		"no ceiling": {
			dynamo.Plan{Billing: dynamo.OnDemand, MaxWrite: new(int64(0)), MaxRead: new(int64(0))}, object{"BillingMode": "PAY_PER_REQUEST"}, object{}, "on demand, without a ceiling",
		},
		"a ceiling of writes": {
			dynamo.Plan{MaxWrite: new(int64(100))}, object{"BillingMode": "PAY_PER_REQUEST", "OnDemandThroughput": object{"MaxWriteRequestUnits": 100.0}},
			object{"OnDemandThroughput": object{"MaxWriteRequestUnits": 100.0}},
			"on demand: at most 100 write and any read units a second, and 100 and any of the index",
		},
		"two ceilings": {
			dynamo.Plan{MaxWrite: new(int64(100)), MaxRead: new(int64(300))}, object{"BillingMode": "PAY_PER_REQUEST", "OnDemandThroughput": object{"MaxWriteRequestUnits": 100.0, "MaxReadRequestUnits": 300.0}},
			object{"OnDemandThroughput": object{"MaxWriteRequestUnits": 100.0, "MaxReadRequestUnits": 300.0}},
			"on demand: at most 100 write and 300 read units a second, and 100 and 300 of the index",
		},
		"provisioned": {
			provisioned(), object{"BillingMode": "PROVISIONED", "ProvisionedThroughput": object{"WriteCapacityUnits": 500.0, "ReadCapacityUnits": 1000.0}},
			object{"ProvisionedThroughput": object{"WriteCapacityUnits": 50.0, "ReadCapacityUnits": 20.0}},
			"provisioned: 500 write and 1000 read units a second, and 50 and 20 of the index",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, (&schema{}).answer)
			store := openFake(t, f)
			for _, want := range []bool{true, false} { // CreateAs may run more than once
				made, err := store.CreateAs(t.Context(), row.plan)
				require.NoError(t, err)
				assert.Equal(t, want, made)
			}
			require.Len(t, f.seen("CreateTable"), 1)
			in := f.seen("CreateTable")[0]
			index := in["GlobalSecondaryIndexes"].([]any)[0].(object)
			for _, part := range []string{"BillingMode", "OnDemandThroughput", "ProvisionedThroughput"} {
				assert.Equal(t, row.table[part], in[part])
				assert.Equal(t, row.index[part], index[part])
			}
			d, err := store.Describe(t.Context())
			require.NoError(t, err)
			assert.Equal(t, row.text, d.Text())
		})
	}
}

// CreateAs compares an existing table with the plan and does not change the table. The error contains a
// command that DynamoDB accepts: DynamoDB refuses a command that sets units to their present values, and
// removes a ceiling if the command sets -1.
func TestCreateComparesTheCapacityOfATableThatExists(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		table, index object
		plan         dynamo.Plan
		want         []string // empty for no differences
		mend         string
	}{
		"any":                   {table: units(5, 5), index: units(5, 5)},
		"a ceiling that is set": {table: onDemand(100, 300), index: onDemand(100, 300), plan: dynamo.Plan{MaxWrite: new(int64(100))}},
		"a ceiling that goes":   {table: onDemand(-1, -1), index: onDemand(-1, -1), plan: dynamo.Plan{MaxWrite: new(int64(0)), MaxRead: new(int64(0))}},
		"capacity that scales":  {table: units(9999, 1000), index: units(1000, 20), plan: provisioned()},
		"another ceiling": {
			table: onDemand(100, 300), index: onDemand(200, 300), plan: dynamo.Plan{MaxWrite: new(int64(200)), MaxRead: new(int64(300))},
			want: []string{"writes of the table may take 100 units, not 200"},
			mend: `aws dynamodb update-table --table-name t --on-demand-throughput '{"MaxWriteRequestUnits":200,"MaxReadRequestUnits":300}'`,
		},
		"no ceiling": {
			table: onDemand(100, 300), index: onDemand(100, 300), plan: dynamo.Plan{Billing: dynamo.OnDemand, MaxRead: new(int64(0))},
			want: []string{"reads of the table may take 300 units, not any", "reads of the index may take 300 units, not any"},
			mend: `aws dynamodb update-table --table-name t --on-demand-throughput '{"MaxReadRequestUnits":-1}' --global-secondary-index-updates '[{"Update":{"IndexName":"GSI1","OnDemandThroughput":{"MaxReadRequestUnits":-1}}}]'`,
		},
		"a ceiling for provisioned capacity": {
			table: units(5, 5), index: units(5, 5), plan: dynamo.Plan{MaxRead: new(int64(10))},
			want: []string{"its billing mode is PROVISIONED, and a ceiling is for a table on demand"},
			mend: `aws dynamodb update-table --table-name t --billing-mode PAY_PER_REQUEST --on-demand-throughput '{"MaxReadRequestUnits":10}' --global-secondary-index-updates '[{"Update":{"IndexName":"GSI1","OnDemandThroughput":{"MaxReadRequestUnits":10}}}]'`,
		},
		"no ceiling for provisioned capacity": {table: units(5, 5), index: units(5, 5), plan: dynamo.Plan{MaxRead: new(int64(0))}},
		"on demand": {
			table: units(5, 5), index: units(5, 5), plan: dynamo.Plan{Billing: dynamo.OnDemand},
			want: []string{"its billing mode is PROVISIONED, not PAY_PER_REQUEST"}, mend: `aws dynamodb update-table --table-name t --billing-mode PAY_PER_REQUEST`,
		},
		"provisioned": {
			plan: provisioned(), want: []string{"its billing mode is PAY_PER_REQUEST, not PROVISIONED"},
			mend: `aws dynamodb update-table --table-name t --billing-mode PROVISIONED --provisioned-throughput '{"WriteCapacityUnits":500,"ReadCapacityUnits":1000}' --global-secondary-index-updates '[{"Update":{"IndexName":"GSI1","ProvisionedThroughput":{"WriteCapacityUnits":50,"ReadCapacityUnits":20}}}]'`,
		},
		"provisioned in place of ceilings": {
			table: onDemand(700, 2000), index: onDemand(700, 2000), plan: provisioned(), want: []string{"its billing mode is PAY_PER_REQUEST, not PROVISIONED"},
			mend: `aws dynamodb update-table --table-name t --billing-mode PROVISIONED --provisioned-throughput '{"WriteCapacityUnits":500,"ReadCapacityUnits":1000}' --global-secondary-index-updates '[{"Update":{"IndexName":"GSI1","ProvisionedThroughput":{"WriteCapacityUnits":50,"ReadCapacityUnits":20}}}]'`,
		},
		"another index": {
			table: units(700, 1000), index: units(10, 2000), plan: provisioned(),
			want: []string{"writes of the index have 10 units, not 50 to 1000", "reads of the index have 2000 units, not 20 to 1000"},
			mend: `aws dynamodb update-table --table-name t --global-secondary-index-updates '[{"Update":{"IndexName":"GSI1","ProvisionedThroughput":{"WriteCapacityUnits":50,"ReadCapacityUnits":1000}}}]'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := ours()
			s.capacity, s.indexCapacity = row.table, row.index
			f := newFake(t, s.answer)
			made, err := openFake(t, f).CreateAs(t.Context(), row.plan)
			assert.False(t, made)
			if row.want == nil {
				require.NoError(t, err)
				return
			}
			differs, ok := errors.AsType[*dynamo.CapacityError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, row.want, differs.Differences)
			assert.Equal(t, row.mend, differs.Mend)
			assert.ErrorContains(t, err, "if a stack made it, change the parameters of the stack, else run: aws ")
			assert.Empty(t, f.seen("UpdateTimeToLive"), "the table was changed")
			for _, quoted := range regexp.MustCompile(`'[^']*'`).FindAllString(differs.Mend, -1) {
				assert.True(t, json.Valid([]byte(quoted[1:len(quoted)-1])), quoted)
			}
		})
	}
}
