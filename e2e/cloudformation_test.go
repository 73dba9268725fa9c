package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

// at returns the part of a value at a path of keys and indexes.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			require.Truef(t, ok && m[p] != nil, "there is no %q in %v", p, v)
			v = m[p]
		case int:
			l, ok := v.([]any)
			require.Truef(t, ok && len(l) > p, "there is no part %d in %v", p, v)
			v = l[p]
		}
	}
	return v
}

func TestTheRolesOfTheStackHaveThePoliciesThatFanfarePrints(t *testing.T) {
	t.Parallel()
	resources := stack(t, "services.yaml", map[string]string{"TableName": "feeds", "QueuePrefix": "q"})
	env := environment("FANFARE_TABLE=feeds", "FANFARE_QUEUE_PREFIX=q")
	for duty, path := range map[string][]any{
		"api":      {"ApiPolicy", "Properties", "PolicyDocument"},
		"fanout":   {"FanoutRole", "Properties", "Policies", 0, "PolicyDocument"},
		"likeagg":  {"LikeaggRole", "Properties", "Policies", 0, "PolicyDocument"},
		"operator": {"OperatorPolicy", "Properties", "PolicyDocument"},
	} {
		stdout, stderr, err := fanfare(t, env, "iam", "policy", "--daemon", duty, "--region", "eu-central-1", "--account", "123456789012")
		require.NoError(t, err, stderr)
		template, err := json.Marshal(at(t, resources, path...))
		require.NoError(t, err)
		assert.JSONEq(t, stdout, string(template), duty)
		if path[1] == "Properties" && path[2] == "Policies" {
			assert.Len(t, at(t, resources, path[:3]...), 1, "policies of %s", duty)
		}
	}
}

func TestTheBucketOfAnArchiveHasThePolicyThatFanfarePrints(t *testing.T) {
	t.Parallel()
	resources := stack(t, "archive.yaml", map[string]string{"Prefix": "feed"})
	stdout, stderr, err := fanfare(t, environment("FANFARE_ARCHIVE=s3://archive/feed"), "iam", "policy", "--daemon", "up")
	require.NoError(t, err, stderr)
	template, err := json.Marshal(at(t, resources, "ArchivePolicy", "Properties", "PolicyDocument"))
	require.NoError(t, err)
	assert.JSONEq(t, stdout, strings.ReplaceAll(string(template), "${Archive}", "archive"))
	assert.Equal(t, "Retain", at(t, resources, "Archive", "DeletionPolicy"), "the archive outlives its stack")
}

// allows returns the actions that policies allow, each with its resource.
func allows(t *testing.T, policies ...any) []string {
	t.Helper()
	var pairs []string
	for _, policy := range policies {
		for _, statement := range at(t, policy, "Statement").([]any) {
			for _, action := range at(t, statement, "Action").([]any) {
				for _, resource := range at(t, statement, "Resource").([]any) {
					pairs = append(pairs, fmt.Sprint(action, " ", resource))
				}
			}
		}
	}
	slices.Sort(pairs)
	return slices.Compact(pairs)
}

// The canary has the policy of an api with an auditor, in two parts. A queue for events adds one policy
// to the policies of the workers.
func TestTheRolesOfTheCanaryAndOfEventsHaveThePoliciesThatFanfarePrints(t *testing.T) {
	t.Parallel()
	resources := stack(t, "services.yaml", map[string]string{"TableName": "feeds", "QueuePrefix": "q", "EventsQueue": "told"})
	assert.NotContains(t, stack(t, "services.yaml", nil), "EventsPolicy")
	events := at(t, resources, "EventsPolicy", "Properties", "PolicyDocument")
	assert.Equal(t, []any{"FanoutRole", "LikeaggRole"}, at(t, resources, "EventsPolicy", "Properties", "Roles"))
	assert.Equal(t, []any{"ApiPolicy"}, at(t, resources, "CanaryRole", "Properties", "ManagedPolicyArns"))
	inline := func(role string) any { return at(t, resources, role, "Properties", "Policies", 0, "PolicyDocument") }
	for _, c := range []struct {
		duty, setting string
		policies      []any
	}{
		{"api", "FANFARE_AUDIT=on", []any{at(t, resources, "ApiPolicy", "Properties", "PolicyDocument"), inline("CanaryRole")}},
		{"fanout", "FANFARE_EVENTS_QUEUE=told", []any{inline("FanoutRole"), events}},
		{"likeagg", "FANFARE_EVENTS_QUEUE=told", []any{inline("LikeaggRole"), events}},
	} {
		stdout, stderr, err := fanfare(t, environment("FANFARE_TABLE=feeds", "FANFARE_QUEUE_PREFIX=q", c.setting),
			"iam", "policy", "--daemon", c.duty, "--region", "eu-central-1", "--account", "123456789012")
		require.NoError(t, err, stderr)
		var printed any
		require.NoError(t, json.Unmarshal([]byte(stdout), &printed))
		assert.Equal(t, allows(t, printed), allows(t, c.policies...), c.duty)
	}
}

// tasks returns the tasks of services.yaml, with the role of each task.
func tasks() map[string]config.Role {
	all := daemons()
	all["canary"] = config.API
	return all
}

// taskContainer returns the container of a task.
func taskContainer(t *testing.T, resources map[string]any, task string) map[string]any {
	t.Helper()
	return at(t, resources, strings.ToUpper(task[:1])+task[1:]+"Task", "Properties", "ContainerDefinitions", 0).(map[string]any)
}

// environmentOf returns the variables of a task's container.
func environmentOf(t *testing.T, resources map[string]any, task string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, v := range at(t, taskContainer(t, resources, task), "Environment").([]any) {
		name := fmt.Sprint(at(t, v, "Name"))
		require.NotContains(t, env, name)
		env[name] = v.(map[string]any)["Value"].(string)
	}
	return env
}

// given returns values for the parameters of services.yaml that have no default, and the parameters in
// more.
func given(more ...string) map[string]string {
	parameters := map[string]string{
		"JwtIssuer": "https://issuer.example", "JwtAudience": "a", "Image": "registry.example/fanfare:0.1.0", "Subnets": "subnet-1,subnet-2",
		"SecurityGroups": "sg-1", "TargetGroup": "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/feed/1",
	}
	for i := 0; i < len(more); i += 2 {
		parameters[more[i]] = more[i+1]
	}
	return parameters
}

// fargate returns the sizes of memory in MiB that Fargate offers for a number of CPU units.
func fargate() map[string][]string {
	return map[string][]string{
		"256": {"512", "1024", "2048"}, "512": {"1024", "2048", "3072", "4096"},
		"1024": {"2048", "3072", "4096", "5120", "6144", "7168", "8192"},
		"2048": {"4096", "5120", "6144", "7168", "8192", "9216", "10240", "11264", "12288", "13312", "14336", "15360", "16384"},
		"4096": {"8192", "9216", "10240", "11264", "12288", "13312", "14336", "15360", "16384"},
	}
}

// The product starts with every environment of the stack, and each container has no unnecessary rights.
func TestTheTasksOfTheStackAreAcceptedAndLockedUp(t *testing.T) {
	t.Parallel()
	for _, size := range at(t, read(t, "services.yaml", nil).sections, "Parameters", "Size", "AllowedValues").([]any) {
		resources := stack(t, "services.yaml", given("Size", fmt.Sprint(size), "JwksUrl", "https://issuer.example/keys"))
		for name, role := range tasks() {
			task := at(t, resources, strings.ToUpper(name[:1])+name[1:]+"Task", "Properties")
			memory := fmt.Sprint(at(t, task, "Memory"))
			assert.Contains(t, fargate()[fmt.Sprint(at(t, task, "Cpu"))], memory, size)
			container := taskContainer(t, resources, name)
			assert.Equal(t, []any{strings.Replace(name, "canary", "api", 1)}, at(t, container, "Command"))
			assert.Equal(t, "true", at(t, container, "ReadonlyRootFilesystem"))
			assert.Equal(t, "65532:65532", at(t, container, "User"))
			assert.Equal(t, []any{"ALL"}, at(t, container, "LinuxParameters", "Capabilities", "Drop"))
			assert.Equal(t, []any{"CMD", "fanfare", "health", "--url", "http://127.0.0.1:9091/healthz"}, at(t, container, "HealthCheck", "Command"))
			env := environmentOf(t, resources, name)
			cfg := accepted(t, name, role, env)
			assert.Equal(t, int64(50_000), cfg.PushLimit, name)
			isMemoryLimit(t, name, env["GOMEMLIMIT"], memory)
		}
	}
	template := read(t, "services.yaml", given("Size", "2vCPU-2GB"))
	assert.ErrorContains(t, template.refusal(), "2vCPU-2GB")
}

// ECS kills a task after StopTimeout, whatever FANFARE_DRAIN is. Fargate waits for two minutes at most.
func TestEveryDrainOfTheStackEndsBeforeTheTaskIsKilled(t *testing.T) {
	t.Parallel()
	const most = "90"
	require.NoError(t, read(t, "services.yaml", given("DrainSeconds", most)).refusal())
	require.Error(t, read(t, "services.yaml", given("DrainSeconds", "91")).refusal())
	resources := stack(t, "services.yaml", given("DrainSeconds", most))
	for name, role := range tasks() {
		stop, err := strconv.Atoi(fmt.Sprint(at(t, taskContainer(t, resources, name), "StopTimeout")))
		require.NoError(t, err)
		assert.LessOrEqual(t, stop, 120, name)
		cfg, err := config.Load(entries(environmentOf(t, resources, name)), role)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Duration(stop)*time.Second, cfg.Drain+30*time.Second, name)
		if name == "api" {
			assert.Equal(t, most+"s", fmt.Sprintf("%.0fs", cfg.Drain.Seconds()))
		}
	}
}

// Exactly one task of a deployment has the canary and the auditor. No balancer sends requests to that
// task, and a file of settings cannot turn on the auditor or the canary in any other daemon.
func TestOneTaskOfTheStackHasTheCanaryAndTheAuditor(t *testing.T) {
	t.Parallel()
	const file = "arn:aws:s3:::settings/feed/7.env"
	resources := stack(t, "services.yaml", given("EnvironmentFile", file))
	for name, role := range tasks() {
		env := environmentOf(t, resources, name)
		cfg, err := config.Load(entries(env), role)
		require.NoError(t, err)
		assert.Equal(t, name == "canary", bool(cfg.Canary), name)
		assert.Equal(t, name == "canary", bool(cfg.Auditor), name)
		assert.NotEmpty(t, env["FANFARE_CANARY"]+env["FANFARE_AUDIT"], "%s: the file could turn them on", name)
		assert.Equal(t, []any{map[string]any{"Type": "s3", "Value": file}}, at(t, taskContainer(t, resources, name), "EnvironmentFiles"))
		assert.NotContains(t, taskContainer(t, stack(t, "services.yaml", given()), name), "EnvironmentFiles")
	}
	service := at(t, resources, "CanaryService", "Properties").(map[string]any)
	assert.Equal(t, "1", service["DesiredCount"])
	assert.NotContains(t, service, "LoadBalancers")
	assert.Equal(t, []string{"s3:GetBucketLocation arn:aws:s3:::settings", "s3:GetObject " + file}, executes(t, resources))
	assert.Empty(t, at(t, stack(t, "services.yaml", given()), "ExecutionRole", "Properties", "Policies"))
}

// executes returns the actions of the role by which ECS starts tasks.
func executes(t *testing.T, resources map[string]any) []string {
	t.Helper()
	var pairs []string
	for _, statement := range at(t, resources, "ExecutionRole", "Properties", "Policies", 0, "PolicyDocument", "Statement").([]any) {
		pairs = append(pairs, fmt.Sprint(at(t, statement, "Action"), " ", at(t, statement, "Resource")))
	}
	slices.Sort(pairs)
	return pairs
}

// The resources of the stack and the tasks of its services have the tags of the stack.
func TestTheTasksOfTheStackHaveItsTags(t *testing.T) {
	t.Parallel()
	resources := stack(t, "services.yaml", given())
	for name := range tasks() {
		assert.Equal(t, "SERVICE", at(t, resources, strings.ToUpper(name[:1])+name[1:]+"Service", "Properties", "PropagateTags"), name)
	}
}

func TestTheStackMakesAnEndpointForDynamoDBIfAskedTo(t *testing.T) {
	t.Parallel()
	assert.NotContains(t, stack(t, "services.yaml", nil), "DynamoDBEndpoint")
	resources := stack(t, "services.yaml", map[string]string{"EndpointVpc": "vpc-1", "EndpointRouteTables": "rtb-1, rtb-2"})
	endpoint := at(t, resources, "DynamoDBEndpoint", "Properties")
	assert.Equal(t, []any{"rtb-1", "rtb-2"}, at(t, endpoint, "RouteTableIds"))
	assert.Equal(t, "com.amazonaws.eu-central-1.dynamodb", at(t, endpoint, "ServiceName"))
	assert.ErrorContains(t, read(t, "services.yaml", given("EndpointVpc", "vpc-1")).refusal(), "EndpointHasRoutes")
	assert.NoError(t, read(t, "services.yaml", given("EndpointVpc", "vpc-1", "EndpointRouteTables", "rtb-1")).refusal())
}

// CloudFormation accepts at most this size of a template that is not in S3.
func TestTheTemplatesAreShortEnoughToBeDeployedFromAFile(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"data.yaml", "services.yaml", "alarms.yaml", "budget.yaml", "archive.yaml"} {
		text, err := os.ReadFile("../deploy/cloudformation/" + file)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(text), 51_200, file)
	}
}

// entries returns variables in the form NAME=value, as os.Environ does.
func entries(env map[string]string) []string {
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// stopTakes is the maximum duration of a stop: the default drain and 30 seconds.
const stopTakes = 40 * time.Second

// accepted checks that a daemon starts with an environment, and that the daemon's admin address is not
// public.
func accepted(t *testing.T, name string, role config.Role, env map[string]string) config.Config {
	t.Helper()
	cfg, err := config.Load(entries(env), role)
	require.NoError(t, err, name)
	assert.Equal(t, config.EngineAWS, cfg.Engine, name)
	if name != "canary" { // no client calls the canary
		assert.Equal(t, stopTakes-30*time.Second, cfg.Drain, name)
	}
	assert.Equal(t, ":9091", cfg.MetricsAddr, name)
	assert.False(t, cfg.AdminIsPublic(), name)
	if role == config.API {
		assert.Equal(t, config.AuthJWT, cfg.Auth)
		if name != "canary" {
			assert.Equal(t, ":8080", cfg.HTTPAddr)
		}
	}
	return cfg
}

// isMemoryLimit checks that GOMEMLIMIT is 80 to 90 % of a container's memory, in MiB.
func isMemoryLimit(t *testing.T, name, soft, memory string) {
	t.Helper()
	limit, err := strconv.ParseFloat(memory, 64)
	require.NoError(t, err)
	mib, err := strconv.ParseFloat(strings.TrimSuffix(soft, "MiB"), 64)
	require.NoError(t, err)
	assert.InDelta(t, 0.85, mib/limit, 0.05, name)
}

// A mistake of a person or of a deployment must not delete the data.
func TestTheStackKeepsItsData(t *testing.T) {
	t.Parallel()
	resources := stack(t, "data.yaml", map[string]string{"WarmReadUnits": "50000", "WarmWriteUnits": "20000"})
	require.Len(t, resources, 11)
	for name, resource := range resources {
		assert.Equal(t, "Retain", at(t, resource, "DeletionPolicy"), name)
		assert.Equal(t, "Retain", at(t, resource, "UpdateReplacePolicy"), name)
		if name != "Table" {
			assert.Equal(t, "true", at(t, resource, "Properties", "SqsManagedSseEnabled"), name)
		}
	}
	table := at(t, resources, "Table", "Properties")
	assert.Equal(t, "true", at(t, table, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled"))
	assert.Equal(t, "true", at(t, table, "DeletionProtectionEnabled"))
	assert.Equal(t, "true", at(t, table, "SSESpecification", "SSEEnabled"))
	warm := map[string]any{"ReadUnitsPerSecond": "50000", "WriteUnitsPerSecond": "20000"}
	assert.Equal(t, warm, at(t, table, "WarmThroughput"))
	assert.Equal(t, warm, at(t, table, "GlobalSecondaryIndexes", 0, "WarmThroughput"))
}
