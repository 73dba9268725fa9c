package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// provisioned returns parameters of data.yaml for a table with provisioned capacity, and the parameters
// in more.
func provisioned(more ...string) map[string]string {
	parameters := map[string]string{
		"BillingMode": "PROVISIONED", "WriteUnits": "500-10000", "ReadUnits": "999-4000", "IndexWriteUnits": "50-1000", "IndexReadUnits": "5-1000",
		"FirstWriteUnits": "800", "FirstReadUnits": "1500", "FirstIndexWriteUnits": "80", "FirstIndexReadUnits": "20",
	}
	for i := 0; i < len(more); i += 2 {
		parameters[more[i]] = more[i+1]
	}
	return parameters
}

// The stack refuses an impossible ceiling or capacity before CloudFormation makes a resource, and the
// error names the remedy.
func TestTheStackRefusesImpossibleUnits(t *testing.T) {
	t.Parallel()
	const whole, both, first = "whole number from 0 to 9999999", "the least and the most units, such as 500-10000", "the units that it begins with"
	for _, row := range []struct {
		parameters map[string]string
		want       string // "" if the stack accepts the units
	}{
		{parameters: map[string]string{}},
		{parameters: map[string]string{"MaxWriteUnits": "1"}},
		{parameters: map[string]string{"MaxReadUnits": "9999999"}},
		{parameters: map[string]string{"MaxWriteUnits": "-1"}, want: whole},
		{parameters: map[string]string{"MaxWriteUnits": "10000000"}, want: whole},
		{parameters: map[string]string{"MaxReadUnits": "00"}, want: whole},
		{parameters: map[string]string{"MaxReadUnits": "1e4"}, want: whole},
		{parameters: map[string]string{"MaxReadUnits": "100.0"}, want: whole},
		{parameters: map[string]string{"MaxReadUnits": ""}, want: whole},
		{parameters: map[string]string{"WarmWriteUnits": "3999"}, want: "from 4000 to"},
		{parameters: map[string]string{"WarmReadUnits": "11999"}, want: "from 12000 to"},
		{parameters: map[string]string{"WarmWriteUnits": "4000", "WarmReadUnits": "12000"}},
		{parameters: map[string]string{"WarmWriteUnits": "20000", "MaxReadUnits": "10"}},
		{parameters: map[string]string{"WarmWriteUnits": "20000", "MaxWriteUnits": "20000"}},
		{parameters: map[string]string{"WarmWriteUnits": "20000", "MaxWriteUnits": "19999"}, want: "set WarmWriteUnits to MaxWriteUnits, or to 0"},
		{parameters: map[string]string{"WarmReadUnits": "20000", "MaxReadUnits": "12000"}, want: "set WarmReadUnits to MaxReadUnits, or to 0"},
		{parameters: provisioned()},
		{parameters: provisioned("WriteUnits", "1-10")},
		{parameters: provisioned("WriteUnits", "999999-1000000")},
		{parameters: provisioned("MaxWriteUnits", "10000"), want: "set MaxWriteUnits and MaxReadUnits to 0"},
		{parameters: provisioned("MaxReadUnits", "10000"), want: "set MaxWriteUnits and MaxReadUnits to 0"},
		{parameters: provisioned("WarmReadUnits", "12000"), want: "set WarmWriteUnits and WarmReadUnits to 0"},
		{parameters: provisioned("WriteUnits", "0-0"), want: "PROVISIONED needs WriteUnits"},
		{parameters: provisioned("IndexReadUnits", "0-0"), want: "PROVISIONED needs WriteUnits"},
		{parameters: provisioned("FirstWriteUnits", "0"), want: first},
		{parameters: provisioned("FirstIndexReadUnits", "0"), want: first},
		{parameters: provisioned("FirstIndexReadUnits", "-20"), want: whole},
		{parameters: provisioned("WriteUnits", "10000-500"), want: both},
		{parameters: provisioned("WriteUnits", "1000-4000"), want: "Write 999-4000 in place of 1000-4000"},
		{parameters: provisioned("WriteUnits", "500"), want: both},
		{parameters: provisioned("WriteUnits", "-500-1000"), want: both},
		{parameters: provisioned("IndexWriteUnits", "0-1000"), want: both},
		{parameters: provisioned("IndexWriteUnits", "050-1000"), want: both},
		{parameters: provisioned("IndexReadUnits", "500-10000000"), want: both},
		{parameters: map[string]string{"BillingMode": "provisioned"}, want: "PROVISIONED"},
	} {
		refusal := read(t, "data.yaml", row.parameters).refusal()
		if row.want == "" {
			assert.NoError(t, refusal, "%v", row.parameters)
			continue
		}
		assert.ErrorContains(t, refusal, row.want, "%v", row.parameters)
	}
}

// The pattern of a range compares the ends of the range digit by digit, so the test tries the smallest
// and the largest number of each length.
func TestTheStackTakesNoRangeThatEndsBeforeItBegins(t *testing.T) {
	t.Parallel()
	var numbers []int
	for n := 1; n < 10_000_000; n *= 10 {
		numbers = append(numbers, n, 10*n-1)
	}
	for _, least := range numbers {
		for _, most := range numbers {
			refusal := read(t, "data.yaml", provisioned("ReadUnits", fmt.Sprintf("%d-%d", least, most))).refusal()
			assert.Equal(t, len(strconv.Itoa(least)) < len(strconv.Itoa(most)), refusal == nil, "%d-%d: %v", least, most, refusal)
		}
	}
}

// A ceiling limits the table and its index, because DynamoDB bills and throttles them separately.
func TestTheStackCapsTheTableAndItsIndex(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		parameters map[string]string
		want       any
	}{
		{map[string]string{"MaxWriteUnits": "1000", "MaxReadUnits": "3000"}, map[string]any{"MaxWriteRequestUnits": "1000", "MaxReadRequestUnits": "3000"}},
		{map[string]string{"MaxWriteUnits": "1000"}, map[string]any{"MaxWriteRequestUnits": "1000"}},
		{map[string]string{"MaxReadUnits": "3000"}, map[string]any{"MaxReadRequestUnits": "3000"}},
		{nil, nil},
		{provisioned(), nil},
	} {
		properties := at(t, stack(t, "data.yaml", row.parameters), "Table", "Properties").(map[string]any)
		assert.Equal(t, row.want, properties["OnDemandThroughput"], "%v", row.parameters)
		index := at(t, properties, "GlobalSecondaryIndexes", 0).(map[string]any)
		assert.Equal(t, row.want, index["OnDemandThroughput"], "%v", row.parameters)
		assert.Nil(t, properties["WarmThroughput"])
		assert.Equal(t, len(row.parameters) > 2, properties["ProvisionedThroughput"] != nil)
	}
}

// scaled returns a scalable target of the stack, with the target value of its policy.
func scaled(t *testing.T, resources map[string]any, name string) string {
	t.Helper()
	of := at(t, resources, "Scaled"+name+"s", "Properties")
	policy := at(t, resources, name+"Policy", "Properties")
	assert.Equal(t, "Scaled"+name+"s", at(t, policy, "ScalingTargetId"))
	assert.Equal(t, "TargetTrackingScaling", at(t, policy, "PolicyType"))
	tracking := at(t, policy, "TargetTrackingScalingPolicyConfiguration")
	return fmt.Sprint(at(t, of, "ServiceNamespace"), " ", at(t, of, "ResourceId"), " ", at(t, of, "ScalableDimension"), " ", at(t, of, "MinCapacity"), "-", at(t, of, "MaxCapacity"), " ",
		at(t, tracking, "PredefinedMetricSpecification", "PredefinedMetricType"), " ", at(t, tracking, "TargetValue"))
}

func TestAProvisionedStackIsScaled(t *testing.T) {
	t.Parallel()
	resources := stack(t, "data.yaml", provisioned())
	for name, want := range map[string]string{
		"Write":      "dynamodb table/${Table} dynamodb:table:WriteCapacityUnits 500-10000 DynamoDBWriteCapacityUtilization 70",
		"Read":       "dynamodb table/${Table} dynamodb:table:ReadCapacityUnits 999-4000 DynamoDBReadCapacityUtilization 60",
		"IndexWrite": "dynamodb table/${Table}/index/GSI1 dynamodb:index:WriteCapacityUnits 50-1000 DynamoDBWriteCapacityUtilization 50",
		"IndexRead":  "dynamodb table/${Table}/index/GSI1 dynamodb:index:ReadCapacityUnits 5-1000 DynamoDBReadCapacityUtilization 50",
	} {
		assert.Equal(t, want, scaled(t, resources, name), name)
	}
	table := at(t, resources, "Table", "Properties")
	assert.Equal(t, "PROVISIONED", at(t, table, "BillingMode"))
	assert.Equal(t, map[string]any{"ReadCapacityUnits": "1500", "WriteCapacityUnits": "800"}, at(t, table, "ProvisionedThroughput"))
	assert.Equal(t, map[string]any{"ReadCapacityUnits": "20", "WriteCapacityUnits": "80"}, at(t, table, "GlobalSecondaryIndexes", 0, "ProvisionedThroughput"))
	for name := range stack(t, "data.yaml", nil) {
		assert.False(t, strings.HasPrefix(name, "Scaled") || strings.HasSuffix(name, "Policy"), name)
	}
}

// CloudFormation sends a capacity only if the capacity in the template changes with an update of the
// stack. So only the parameters of the first capacity and the billing mode may change the capacity in the
// template.
func TestNoOtherParameterSetsTheCapacityBack(t *testing.T) {
	t.Parallel()
	others := map[string]string{
		"WriteUnits": "501-20000", "ReadUnits": "1-10", "IndexWriteUnits": "60-9000", "IndexReadUnits": "60-9000", "DeletionProtection": "false", "QueuePrefix": "other",
	}
	first := func(parameters map[string]string) []any {
		table := at(t, stack(t, "data.yaml", parameters), "Table", "Properties")
		return []any{at(t, table, "BillingMode"), at(t, table, "ProvisionedThroughput"), at(t, table, "GlobalSecondaryIndexes", 0)}
	}
	want := first(provisioned())
	for name, value := range others {
		assert.Equal(t, want, first(provisioned(name, value)), name)
	}
	// TableName makes another table. A table with provisioned capacity has neither ceilings nor warm
	// units.
	set := []string{
		"TableName", "BillingMode", "FirstWriteUnits", "FirstReadUnits", "FirstIndexWriteUnits", "FirstIndexReadUnits",
		"MaxWriteUnits", "MaxReadUnits", "WarmWriteUnits", "WarmReadUnits",
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(read(t, "data.yaml", nil).section("Parameters"))), slices.AppendSeq(set, maps.Keys(others)))
}

func TestTheBudgetMailsBeforeTheMoneyIsSpent(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, read(t, "budget.yaml", map[string]string{"MonthlyBudget": "100"}).refusal(), "Mail has no value")
	require.ErrorContains(t, read(t, "budget.yaml", map[string]string{"MonthlyBudget": "0", "Mail": "ops@example.com"}).refusal(), "MinValue")
	require.ErrorContains(t, read(t, "budget.yaml", map[string]string{"MonthlyBudget": "100", "Mail": "ops"}).refusal(), "one mail address")
	parameters := map[string]string{"MonthlyBudget": "100", "Mail": "ops@example.com"}
	require.NoError(t, read(t, "budget.yaml", parameters).refusal())
	properties := at(t, stack(t, "budget.yaml", parameters), "Budget", "Properties")
	assert.Equal(t, map[string]any{"Amount": "100", "Unit": "USD"}, at(t, properties, "Budget", "BudgetLimit"))
	assert.NotContains(t, at(t, properties, "Budget"), "CostFilters")
	var mails []string
	for _, n := range at(t, properties, "NotificationsWithSubscribers").([]any) {
		mails = append(mails, fmt.Sprint(at(t, n, "Notification", "NotificationType"), " ", at(t, n, "Notification", "Threshold"), " ", at(t, n, "Subscribers", 0, "Address")))
	}
	assert.Equal(t, []string{"ACTUAL 50 ops@example.com", "ACTUAL 80 ops@example.com", "ACTUAL 100 ops@example.com", "FORECASTED 100 ops@example.com"}, mails)
	parameters["CostTag"] = "team$feed"
	require.NoError(t, read(t, "budget.yaml", parameters).refusal())
	assert.Equal(t, map[string]any{"TagKeyValue": []any{"user:team$feed"}}, at(t, stack(t, "budget.yaml", parameters), "Budget", "Properties", "Budget", "CostFilters"))
}
