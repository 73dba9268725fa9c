//go:build e2e

package dynamo_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	items "fanfare/internal/schema"
	"fanfare/internal/table"
)

// Before a table is restored to an earlier time, its operator scans the table for the removals and the
// blocks since that time. The test makes the scans of docs/BACKUP.md.
func TestTheScansOfARestoreFindRemovalsAndBlocks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/BACKUP.md")
	require.NoError(t, err)
	scans := regexp.MustCompile(`(?m)^aws dynamodb scan(?:.*\\\n)+.*$`).FindAllString(string(page), -1)
	require.Len(t, scans, 2)
	url, at := endpoint(t, "AWS_ENDPOINT_URL"), time.UnixMilli(1795334400000)
	name := "fanfare-test-scans"
	store := open(t, url, name)
	_, err = store.Create(t.Context())
	require.NoError(t, err)
	mute, _ := items.Mute{User: "ann", Author: "eve", Since: at.Add(time.Hour)}.Items()
	for _, it := range []table.Item{
		items.Removal{User: "gone", Event: "e1", At: at.Add(time.Hour)}.Item(), items.Removal{User: "before", Event: "e2", At: at.Add(-time.Hour)}.Item(),
		items.Block{User: "ann", Other: "bob", Since: at.Add(time.Hour)}.Item(), items.Block{User: "bob", Other: "ann", By: at.Add(time.Hour)}.Item(),
		items.Block{User: "cid", Other: "dan", Since: at.Add(-time.Hour)}.Item(), mute,
		items.FollowerItem("ann", "eve", at.Add(time.Hour)),
	} {
		_, err := store.Put(t.Context(), table.PutInput{Item: it})
		require.NoError(t, err)
	}
	client := dynamodb.NewFromConfig(configFor(t, url))
	found := func(scan string) (keys []string) {
		in := &dynamodb.ScanInput{TableName: &name, FilterExpression: aws.String(argument(t, scan, "--filter-expression"))}
		if strings.Contains(scan, "--expression-attribute-names") {
			require.NoError(t, json.Unmarshal([]byte(argument(t, scan, "--expression-attribute-names")), &in.ExpressionAttributeNames))
		}
		values := map[string]map[string]string{}
		require.NoError(t, json.Unmarshal([]byte(argument(t, scan, "--expression-attribute-values")), &values))
		in.ExpressionAttributeValues = map[string]types.AttributeValue{}
		for name, v := range values {
			in.ExpressionAttributeValues[name] = &types.AttributeValueMemberS{Value: v["S"]}
			if n, ok := v["N"]; ok {
				in.ExpressionAttributeValues[name] = &types.AttributeValueMemberN{Value: n}
			}
		}
		out, err := client.Scan(t.Context(), in)
		require.NoError(t, err)
		for _, it := range out.Items {
			keys = append(keys, it["PK"].(*types.AttributeValueMemberS).Value+" "+it["SK"].(*types.AttributeValueMemberS).Value)
		}
		slices.Sort(keys)
		return keys
	}
	of := func(k table.Key) string { return k.PK + " " + k.SK }
	assert.Equal(t, []string{of(items.ForgottenKey("gone"))}, found(scans[0]))
	assert.Equal(t, []string{of(items.BlockKey("ann", "bob"))}, found(scans[1]))
}

// argument returns the quoted argument of a flag of a command.
func argument(t *testing.T, command, flag string) string {
	t.Helper()
	m := regexp.MustCompile(flag + ` '([^']*)'`).FindStringSubmatch(command)
	require.Lenf(t, m, 2, "%s of %s", flag, command)
	return m[1]
}
