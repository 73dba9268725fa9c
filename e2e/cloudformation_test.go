package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"fanfare/internal/config"
)

// stack returns the resources of a template, with its functions resolved by parameters, which
// win over the template's defaults.
func stack(t *testing.T, file string, parameters map[string]string) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../deploy/cloudformation/" + file)
	require.NoError(t, err)
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &root))
	s := stackValues{t: t, values: map[string]string{"AWS::Partition": "aws", "AWS::Region": "eu-central-1", "AWS::AccountId": "123456789012", "AWS::StackName": "test"}}
	template := s.value(root.Content[0]).(map[string]any)
	for name, p := range template["Parameters"].(map[string]any) {
		if fallback, ok := p.(map[string]any)["Default"]; ok {
			s.values[name] = fmt.Sprint(fallback)
		}
	}
	maps.Copy(s.values, parameters)
	s.mappings, _ = template["Mappings"].(map[string]any) // a template may have none
	return s.value(root.Content[0]).(map[string]any)["Resources"].(map[string]any)
}

// stackValues are the values of a template's parameters and mappings.
type stackValues struct {
	t        *testing.T
	values   map[string]string
	mappings map[string]any
}

// value decodes a node. A reference to a resource stays a text with its name.
func (s *stackValues) value(n *yaml.Node) any {
	var inner any
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = s.value(n.Content[i+1])
		}
		inner = m
	case yaml.SequenceNode:
		l := []any{}
		for _, c := range n.Content {
			l = append(l, s.value(c))
		}
		inner = l
	default:
		inner = n.Value
	}
	switch n.Tag {
	case "!Ref":
		if v, ok := s.values[inner.(string)]; ok {
			return v
		}
	case "!Sub":
		text := inner.(string)
		for name, v := range s.values {
			text = strings.ReplaceAll(text, "${"+name+"}", v)
		}
		return text
	case "!FindInMap":
		at := inner.([]any)
		if m, ok := s.mappings[fmt.Sprint(at[0])].(map[string]any); ok {
			return m[fmt.Sprint(at[1])].(map[string]any)[fmt.Sprint(at[2])]
		}
	}
	return inner
}

// at returns the part of a value at a path of names and numbers.
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
		"api":      {"ApiRole", "Properties", "Policies", 0, "PolicyDocument"},
		"fanout":   {"FanoutRole", "Properties", "Policies", 0, "PolicyDocument"},
		"likeagg":  {"LikeaggRole", "Properties", "Policies", 0, "PolicyDocument"},
		"operator": {"OperatorPolicy", "Properties", "PolicyDocument"},
	} {
		stdout, stderr, err := fanfare(t, env, "iam", "policy", "--daemon", duty, "--region", "eu-central-1", "--account", "123456789012")
		require.NoError(t, err, stderr)
		template, err := json.Marshal(at(t, resources, path...))
		require.NoError(t, err)
		assert.JSONEq(t, stdout, string(template), duty)
		if duty != "operator" {
			assert.Len(t, at(t, resources, path[:3]...), 1, "policies of %s", duty)
		}
	}
}

// The product starts with every environment of the stack, and each container is locked up.
func TestTheTasksOfTheStackAreAcceptedAndLockedUp(t *testing.T) {
	t.Parallel()
	for _, memory := range []string{"2048", "4096"} {
		resources := stack(t, "services.yaml", map[string]string{"Memory": memory, "JwtIssuer": "https://issuer.example", "JwtAudience": "a", "JwksUrl": "https://issuer.example/keys"})
		for name, role := range daemons() {
			task := at(t, resources, strings.ToUpper(name[:1])+name[1:]+"Task", "Properties")
			container := at(t, task, "ContainerDefinitions", 0)
			assert.Equal(t, []any{name}, at(t, container, "Command"))
			assert.Equal(t, "true", at(t, container, "ReadonlyRootFilesystem"))
			assert.Equal(t, "65532:65532", at(t, container, "User"))
			assert.Equal(t, []any{"ALL"}, at(t, container, "LinuxParameters", "Capabilities", "Drop"))
			assert.Equal(t, []any{"CMD", "fanfare", "health", "--url", "http://127.0.0.1:9091/healthz"}, at(t, container, "HealthCheck", "Command"))
			stop, err := strconv.Atoi(fmt.Sprint(at(t, container, "StopTimeout")))
			require.NoError(t, err)
			assert.GreaterOrEqual(t, time.Duration(stop)*time.Second, stopTakes, name)
			env := map[string]string{}
			for _, v := range at(t, container, "Environment").([]any) {
				env[fmt.Sprint(at(t, v, "Name"))] = fmt.Sprint(at(t, v, "Value"))
			}
			accepted(t, name, role, env)
			isMemoryLimit(t, name, env["GOMEMLIMIT"], memory)
		}
	}
}

// stopTakes is the longest time of a stop: the drain by default, and 30 seconds.
const stopTakes = 40 * time.Second

// accepted checks that a daemon starts with an environment, and serves the network no
// operations.
func accepted(t *testing.T, name string, role config.Role, env map[string]string) {
	t.Helper()
	var environ []string
	for key, value := range env {
		environ = append(environ, key+"="+value)
	}
	cfg, err := config.Load(environ, role)
	require.NoError(t, err, name)
	assert.Equal(t, config.EngineAWS, cfg.Engine, name)
	assert.Equal(t, stopTakes-30*time.Second, cfg.DrainTime(), name)
	assert.Equal(t, ":9091", cfg.MetricsAddr, name)
	assert.False(t, cfg.AdminIsPublic(), name)
	if role == config.API {
		assert.Equal(t, config.AuthJWT, cfg.Auth)
		assert.Equal(t, ":8080", cfg.HTTPAddr)
	}
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

// A mistake of people or of a deployment leaves the data as it is.
func TestTheStackKeepsItsData(t *testing.T) {
	t.Parallel()
	resources := stack(t, "data.yaml", map[string]string{"WarmReadUnits": "50000", "WarmWriteUnits": "20000"})
	require.Len(t, resources, 9)
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
