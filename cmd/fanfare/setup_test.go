package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

func TestTableModelPrintsTheDesignOfTheConfiguredTable(t *testing.T) {
	t.Parallel()
	want, err := schema.WorkbenchModel("other")
	require.NoError(t, err)
	code, stdout, stderr := result(t, []string{"FANFARE_TABLE=other"}, "fanfare", "table", "model")
	if code != 0 || stdout != string(want) || stderr != "" {
		t.Errorf("exit %d, stderr %q, stdout %.200s", code, stderr, stdout)
	}
	if code, asJSON, stderr := result(t, []string{"FANFARE_TABLE=other"}, "fanfare", "table", "model", "--json"); code != 0 || asJSON != stdout {
		t.Errorf("with --json: exit %d, stderr %q, stdout %.200s", code, stderr, asJSON)
	}
	if code, _, stderr := result(t, nil, "fanfare", "table", "model", "more"); code != 2 || stderr == "" {
		t.Errorf("with one argument too many: exit %d, stderr %q", code, stderr)
	}
}

// amazon simulates DynamoDB with an existing table, and SQS, for the calls of the create commands.
func amazon(t *testing.T) *httptest.Server {
	t.Helper()
	key := func(pk, sk string) string {
		return fmt.Sprintf(`"KeySchema":[{"AttributeName":%q,"KeyType":"HASH"},{"AttributeName":%q,"KeyType":"RANGE"}]`, pk, sk)
	}
	var attributes []string
	for _, name := range []string{table.AttrPK, table.AttrSK, table.AttrGSI1PK, table.AttrGSI1SK} {
		attributes = append(attributes, fmt.Sprintf(`{"AttributeName":%q,"AttributeType":"S"}`, name))
	}
	answers := map[string]string{
		"DynamoDB_20120810.DescribeTable": `{"Table":{"TableName":"fanfare","TableStatus":"ACTIVE",` + key(table.AttrPK, table.AttrSK) +
			`,"AttributeDefinitions":[` + strings.Join(attributes, ",") + `],"GlobalSecondaryIndexes":[{"IndexName":"GSI1",` +
			key(table.AttrGSI1PK, table.AttrGSI1SK) + `,"Projection":{"ProjectionType":"ALL"}}]}}`,
		"DynamoDB_20120810.DescribeTimeToLive": fmt.Sprintf(`{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLED","AttributeName":%q}}`, table.AttrTTL),
		"DynamoDB_20120810.Scan":               `{"Items":[{"PK":{"S":"format"},"SK":{"S":"format"},"format":{"N":"1"}}]}`,
		"DynamoDB_20120810.GetItem":            `{"Item":{"PK":{"S":"format"},"SK":{"S":"format"},"format":{"N":"1"}}}`,
		"AmazonSQS.CreateQueue":                `{"QueueUrl":"http://queue.example/q"}`,
		"AmazonSQS.GetQueueAttributes":         `{"Attributes":{"QueueArn":"arn:aws:sqs:eu-central-1:000000000000:q"}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Header.Get("X-Amz-Target")]
		if !ok {
			t.Errorf("unexpected request %s", r.Header.Get("X-Amz-Target"))
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestCreateNamesTheTableAndTheQueues(t *testing.T) {
	t.Parallel()
	env := []string{
		"FANFARE_QUEUE_PREFIX=p", "AWS_ENDPOINT_URL=" + amazon(t).URL, "AWS_REGION=eu-central-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true",
	}
	for _, tt := range []struct{ of, text string }{
		{"table", "table fanfare exists already\n"},
		{"queues", "queues p-posts, p-backfills, p-chunks, p-likes, p-notices exist\n"},
	} {
		if code, stdout, stderr := result(t, env, "fanfare", tt.of, "create"); code != 0 || stdout != tt.text || strings.Contains(stderr, `"action":"queues create"`) != (tt.of == "queues") {
			t.Errorf("%s create: exit %d, stdout %q, stderr %q", tt.of, code, stdout, stderr)
		}
	}
	var made struct {
		Table  string
		Queues []string
	}
	for _, of := range []string{"table", "queues"} {
		code, stdout, stderr := result(t, env, "fanfare", of, "create", "--json")
		if err := json.Unmarshal([]byte(stdout), &made); code != 0 || err != nil || strings.Count(stdout, "\n") != 1 {
			t.Errorf("%s create --json: exit %d, %v, stdout %q, stderr %q", of, code, err, stdout, stderr)
		}
	}
	assert.Equal(t, "fanfare", made.Table)
	assert.Equal(t, []string{"p-posts", "p-backfills", "p-chunks", "p-likes", "p-notices"}, made.Queues)
}
