//go:build e2e

package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// created is the output of fanfare table create --json.
type created struct {
	Created bool
	Scaling []string
}

// createTable runs fanfare table create with flags.
func createTable(t *testing.T, env []string, flags ...string) (out created) {
	t.Helper()
	stdout, stderr, err := fanfare(t, env, append([]string{"table", "create", "--json"}, flags...)...)
	require.NoError(t, err, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &out))
	return out
}

// doctorSays returns the findings of fanfare doctor about the capacity, by the name of the check.
func doctorSays(t *testing.T, env []string) map[string]string {
	t.Helper()
	stdout, _, _ := askDoctor(t, env, "--daemon", "operator", "--json") // the doctor also finds faults of the emulator
	var out struct {
		Findings []struct{ Level, Check, Says string }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &out), stdout)
	says := map[string]string{}
	for _, f := range out.Findings {
		says[f.Check] += f.Level + " " + f.Says + "\n"
	}
	return says
}

func TestTheCommandMakesTheTableInBothModes(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv("AWS_ENDPOINT_URL"), "AWS_ENDPOINT_URL is not set: run this with scripts/with-emulators.sh")
	// LocalStack answers the doctor's question about a day only after minutes (internal/ops/doctor asks about an hour), and
	// is slow for all other tests meanwhile.
	const away = "http://127.0.0.1:1"
	own := func() (string, []string) {
		name := "billing-" + strings.ToLower(rand.Text()[:10])
		return name, environment("FANFARE_ENGINE=aws", "FANFARE_TABLE="+name, "FANFARE_QUEUE_PREFIX="+name, "AWS_ENDPOINT_URL_CLOUDWATCH="+away)
	}
	t.Run("provisioned", func(t *testing.T) {
		t.Parallel()
		name, env := own()
		first, again := createTable(t, env, provisionedFlags()...), createTable(t, env, provisionedFlags()...)
		assert.True(t, first.Created)
		assert.Equal(t, created{Scaling: first.Scaling}, again)
		assert.Equal(t, scalingOfTheStack(t, name), first.Scaling)
		assert.False(t, createTable(t, env).Created, "any capacity fits a command without flags")
		_, stderr, err := fanfare(t, env, "table", "create", "--max-write", "100")
		require.Error(t, err)
		assert.Contains(t, stderr, "a ceiling is for a table on demand")
		assert.Contains(t, stderr, "--billing-mode PAY_PER_REQUEST")
		says := doctorSays(t, env)
		assert.Contains(t, says["capacity"], "ok provisioned: 500 write and 999 read units a second, and 50 and 5 of the index")
		assert.Contains(t, says["scaling"], "its scaling could not be checked") // LocalStack has no Application Auto Scaling
		assert.Contains(t, says["use of the last day"], "it could not be checked")
	})
	t.Run("ceilings", func(t *testing.T) {
		t.Parallel()
		name, env := own()
		flags := []string{"--max-write", "100", "--max-read", "300"}
		assert.Equal(t, created{Created: true}, createTable(t, env, flags...))
		assert.Equal(t, created{}, createTable(t, env, flags...))
		_, stderr, err := fanfare(t, env, "table", "create", "--max-write", "200")
		require.Error(t, err)
		assert.Contains(t, stderr, "writes of the table may take 100 units, not 200")
		assert.Contains(t, stderr, "aws dynamodb update-table --table-name "+name)
		stdout, stderr, err := fanfare(t, env, "table", "describe")
		require.NoError(t, err, stderr)
		assert.Contains(t, stdout, "on demand: at most 100 write and 300 read units a second, and 100 and 300 of the index")
	})
}

// The stack makes the table that the command wants, so the command finds no difference. LocalStack's
// CloudFormation omits the ceiling of a table, so TestTheStackCapsTheTableAndItsIndex checks the ceiling.
func TestTheStackMakesTheTableThatTheCommandWants(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv("AWS_ENDPOINT_URL"), "AWS_ENDPOINT_URL is not set: run this with scripts/with-emulators.sh")
	name := "stack-" + strings.ToLower(rand.Text()[:10])
	deploy(t, name, provisioned())
	env := environment("FANFARE_ENGINE=aws", "FANFARE_TABLE="+name, "FANFARE_QUEUE_PREFIX="+name)
	for _, flags := range [][]string{provisionedFlags(), nil} {
		assert.False(t, createTable(t, env, flags...).Created)
	}
	stdout, stderr, err := fanfare(t, env, "table", "describe")
	require.NoError(t, err, stderr)
	assert.Contains(t, stdout, "provisioned: 800 write and 1500 read units a second, and 80 and 20 of the index")
}

// provisionedFlags returns the flags of table create for the same ranges as the parameters of
// provisioned.
func provisionedFlags() []string {
	return []string{"--billing", "provisioned", "--write-units", "500-10000", "--read-units", "999-4000", "--index-write-units", "50-1000", "--index-read-units", "5-1000"}
}

// scalingOfTheStack returns commands that make the same scaling as data.yaml for the same ranges.
func scalingOfTheStack(t *testing.T, table string) (commands []string) {
	t.Helper()
	resources := stack(t, "data.yaml", provisioned("TableName", table))
	for _, name := range []string{"Write", "Read", "IndexWrite", "IndexRead"} {
		target, policy := at(t, resources, "Scaled"+name+"s", "Properties"), at(t, resources, name+"Policy", "Properties")
		of := fmt.Sprintf("--service-namespace %s --resource-id %s --scalable-dimension %s", at(t, target, "ServiceNamespace"),
			strings.Replace(fmt.Sprint(at(t, target, "ResourceId")), "${Table}", table, 1), at(t, target, "ScalableDimension"))
		tracking := at(t, policy, "TargetTrackingScalingPolicyConfiguration")
		commands = append(commands,
			fmt.Sprintf("aws application-autoscaling register-scalable-target %s --min-capacity %s --max-capacity %s", of, at(t, target, "MinCapacity"), at(t, target, "MaxCapacity")),
			fmt.Sprintf(`aws application-autoscaling put-scaling-policy %s --policy-name %s --policy-type %s --target-tracking-scaling-policy-configuration '{"TargetValue":%s,"PredefinedMetricSpecification":{"PredefinedMetricType":%q}}'`,
				of, at(t, policy, "PolicyName"), at(t, policy, "PolicyType"), at(t, tracking, "TargetValue"), at(t, tracking, "PredefinedMetricSpecification", "PredefinedMetricType")))
	}
	return commands
}
