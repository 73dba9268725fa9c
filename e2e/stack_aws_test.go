//go:build e2e

package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fanfare/internal/porttest"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// callAWS sends a request to the emulator and returns the answer. The emulator does not check the
// signature.
func callAWS(t *testing.T, service, contentType, target, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, os.Getenv("AWS_ENDPOINT_URL"), strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("X-Amz-Target", target)
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	resp, err := (&http.Client{Timeout: 5 * time.Minute}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s %s: %s", service, target, answer)
	return string(answer)
}

// cloudFormation sends a call to CloudFormation.
func cloudFormation(t *testing.T, action string, form url.Values) string {
	t.Helper()
	form.Set("Action", action)
	form.Set("Version", "2010-05-15")
	return callAWS(t, "cloudformation", "application/x-www-form-urlencoded", "", form.Encode())
}

// deploy deploys the stack of data.yaml with the names of the test and with parameters.
func deploy(t *testing.T, name string, parameters map[string]string) {
	t.Helper()
	template, err := os.ReadFile("../deploy/cloudformation/data.yaml")
	require.NoError(t, err)
	form := url.Values{"StackName": {name}, "TemplateBody": {string(template)}}
	all := map[string]string{"TableName": name, "QueuePrefix": name}
	maps.Copy(all, parameters)
	for i, parameter := range slices.Sorted(maps.Keys(all)) {
		form.Set(fmt.Sprintf("Parameters.member.%d.ParameterKey", i+1), parameter)
		form.Set(fmt.Sprintf("Parameters.member.%d.ParameterValue", i+1), all[parameter])
	}
	cloudFormation(t, "CreateStack", form)
	await(t, "the stack is made", func() bool {
		state := cloudFormation(t, "DescribeStacks", url.Values{"StackName": {name}})
		require.NotContains(t, state, "FAILED")
		require.NotContains(t, state, "ROLLBACK")
		return strings.Contains(state, "CREATE_COMPLETE")
	})
}

// settingsOf returns the descriptions of the table and the queues by AWS, without names and times.
func settingsOf(t *testing.T, name string) map[string]any {
	t.Helper()
	ask := func(service, target, body string) map[string]any {
		t.Helper()
		var out map[string]any
		text := callAWS(t, service, "application/x-amz-json-1.0", target, body)
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(text, name, "NAME")), &out))
		return out
	}
	all := map[string]any{}
	table := fmt.Sprintf(`{"TableName":%q}`, name)
	described := ask("dynamodb", "DynamoDB_20120810.DescribeTable", table)["Table"]
	for _, part := range []any{"KeySchema", "AttributeDefinitions", "BillingModeSummary"} {
		all[fmt.Sprint(part)] = at(t, described, part)
	}
	delete(all["BillingModeSummary"].(map[string]any), "LastUpdateToPayPerRequestDateTime")
	for _, part := range []any{"IndexName", "KeySchema", "Projection"} {
		all[fmt.Sprint("index ", part)] = at(t, described, "GlobalSecondaryIndexes", 0, part)
	}
	all["ttl"] = ask("dynamodb", "DynamoDB_20120810.DescribeTimeToLive", table)
	for _, queue := range []string{"posts", "backfills", "chunks", "likes", "notices"} {
		for _, suffix := range []string{"", "-dlq"} {
			found := ask("sqs", "AmazonSQS.GetQueueUrl", fmt.Sprintf(`{"QueueName":%q}`, name+"-"+queue+suffix))
			attributes := ask("sqs", "AmazonSQS.GetQueueAttributes", fmt.Sprintf(`{"QueueUrl":%q,"AttributeNames":["All"]}`,
				strings.ReplaceAll(fmt.Sprint(found["QueueUrl"]), "NAME", name)))["Attributes"].(map[string]any)
			for _, moment := range []string{"CreatedTimestamp", "LastModifiedTimestamp"} {
				delete(attributes, moment)
			}
			if policy, ok := attributes["RedrivePolicy"].(string); ok {
				attributes["RedrivePolicy"] = strings.ReplaceAll(policy, " ", "")
			}
			all[queue+suffix] = attributes
		}
	}
	return all
}

// TestTheDeployedStackRunsTheSystemExactly deploys the table and the queues by CloudFormation. They equal
// the table and the queues that Fanfare makes, and a replay on them is exact. LocalStack makes the table
// without its protections, so TestTheStackKeepsItsData checks the protections.
func TestTheDeployedStackRunsTheSystemExactly(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv("AWS_ENDPOINT_URL"),
		"AWS_ENDPOINT_URL is not set: run this with scripts/with-emulators.sh, or against docker compose's LocalStack")
	name, own := "stack-"+strings.ToLower(rand.Text()[:10]), "own-"+strings.ToLower(rand.Text()[:10])
	c := &cluster{http: porttest.Free(t)}
	c.env = environment("FANFARE_ENGINE=aws", "FANFARE_TABLE="+name, "FANFARE_QUEUE_PREFIX="+name, "FANFARE_LOG_LEVEL=warn",
		"FANFARE_AUTH=dev", "FANFARE_DEV_AUTH_ON_AWS=allow", "FANFARE_DEV_SECRET="+rand.Text()+rand.Text())
	deploy(t, name, nil)
	// A stack cannot write the format of the items, so docs/DEPLOY.md tells operators to call table
	// create.
	if stdout, stderr, err := fanfare(t, c.env, "table", "create"); err != nil {
		t.Fatalf("table create after the stack: %v\n%s%s", err, stdout, stderr)
	}
	for _, what := range []string{"table", "queues"} {
		stdout, stderr, err := fanfare(t, environment("FANFARE_TABLE="+own, "FANFARE_QUEUE_PREFIX="+own), what, "create")
		require.NoErrorf(t, err, "%s create:\n%s%s", what, stdout, stderr)
	}
	assert.Equal(t, settingsOf(t, own), settingsOf(t, name))
	c.isSound(t)
	for _, kind := range []string{"api", "fanout", "likeagg"} {
		m := &member{kind: kind, admin: porttest.Free(t)}
		m.env = append(append([]string(nil), c.env...), "FANFARE_HTTP_ADDR="+c.http, "FANFARE_ADMIN_ADDR="+m.admin)
		c.members = append(c.members, m)
		m.start(t)
	}
	for _, m := range c.members {
		m.ready(t, m.admin)
	}
	stdout, stderr, err := fanfare(t, c.env, c.replay("--graph", graph, "--max-users", "20", "--posts", "20", "--likes", "60")...)
	verdict(t, stdout, stderr, err)
	c.stop(t)
}
