//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const chart = "../deploy/helm/fanfare"

// merge returns values with those of over in their place.
func merge(values, over map[string]any) map[string]any {
	out := maps.Clone(values)
	for name, v := range over {
		inner, isMap := v.(map[string]any)
		if former, ok := out[name].(map[string]any); ok && isMap && len(inner) > 0 {
			v = merge(former, inner)
		}
		out[name] = v
	}
	return out
}

// helm runs Helm with values, over which files and flags in args win, and returns its output.
func helm(t *testing.T, over map[string]any, args ...string) (stdout string, err error) {
	t.Helper()
	text, err := yaml.Marshal(over)
	require.NoError(t, err)
	values := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(values, text, 0o600))
	command := exec.CommandContext(t.Context(), "../scripts/helm.sh", slices.Concat([]string{"run", args[0], "-f", values}, args[1:], []string{chart})...)
	var out, problems strings.Builder
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("helm: %w: %s%s", err, &out, &problems)
	}
	return out.String(), nil
}

// render returns the manifests of the chart.
func render(t *testing.T, over map[string]any) (manifests string, err error) {
	t.Helper()
	return helm(t, over, "template", "feed", "--namespace", "social", "--kube-version", "1.34")
}

// needed are the values that the chart has no defaults for.
func needed() map[string]any {
	role := func(name string) map[string]any {
		return map[string]any{"roleArn": "arn:aws:iam::123456789012:role/" + name}
	}
	return map[string]any{
		"image": map[string]any{"repository": "registry.example/fanfare", "tag": "0.1.0"}, "aws": map[string]any{"region": "eu-central-1"},
		"auth": map[string]any{"issuer": "https://issuer.example", "audience": "a", "jwksUrl": "https://issuer.example/keys"},
		"api":  role("api"), "fanout": role("fanout"), "likeagg": role("likeagg"),
	}
}

// objects decodes manifests, by kind and name.
func objects(t *testing.T, manifests string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for decoder := yaml.NewDecoder(strings.NewReader(manifests)); ; {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, manifests)
		if object == nil {
			continue
		}
		name := fmt.Sprintf("%v %v", at(t, object, "kind"), at(t, object, "metadata", "name"))
		require.NotContains(t, all, name)
		all[name] = object
	}
}

// check holds manifests to the schemas of Kubernetes, KEDA and the Prometheus operator, which
// refuse fields that they do not know.
func check(t *testing.T, manifests map[string]map[string]any) error {
	t.Helper()
	var core bytes.Buffer
	var faults []error
	for _, object := range manifests {
		kind := fmt.Sprint(object["kind"])
		if _, err := os.Stat("testdata/crds/" + kind + ".json"); err == nil {
			schema, err := jsonschema.NewCompiler().Compile("testdata/crds/" + kind + ".json")
			require.NoError(t, err)
			faults = append(faults, schema.Validate(any(object)))
			continue
		}
		text, err := yaml.Marshal(object)
		require.NoError(t, err)
		core.WriteString("---\n")
		core.Write(text)
	}
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	require.NoError(t, os.WriteFile(file, core.Bytes(), 0o600))
	out, err := exec.CommandContext(t.Context(), "../scripts/python-tools.sh", "run", "deploy-lint", "kubernetes-validate", "--strict", "-k", "1.34", file).CombinedOutput()
	if err != nil {
		faults = append(faults, fmt.Errorf("%w: %s", err, out))
	}
	return errors.Join(faults...)
}

func TestTheChartIsValid(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		over  map[string]any
		kinds string
	}{
		"by default": {kinds: "Deployment 3, HorizontalPodAutoscaler 1, PodDisruptionBudget 3, ScaledObject 2, Service 4, ServiceAccount 3, ServiceMonitor 1"},
		"without operators": {
			map[string]any{"keda": map[string]any{"enabled": false}, "serviceMonitor": map[string]any{"enabled": false}},
			"Deployment 3, HorizontalPodAutoscaler 1, PodDisruptionBudget 3, Service 1, ServiceAccount 3",
		},
		"with all": {
			map[string]any{
				"imagePullSecrets": []any{map[string]any{"name": "registry"}}, "settings": map[string]any{"FANFARE_LIKE_WINDOW": "2s"},
				"serviceMonitor": map[string]any{"labels": map[string]any{"release": "prometheus"}},
				"api":            map[string]any{"service": map[string]any{"annotations": map[string]any{"a": "b"}}},
			},
			"Deployment 3, HorizontalPodAutoscaler 1, PodDisruptionBudget 3, ScaledObject 2, Service 4, ServiceAccount 3, ServiceMonitor 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := merge(needed(), row.over)
			_, err := helm(t, values, "lint", "--strict", "--kube-version", "1.34")
			require.NoError(t, err)
			manifests, err := render(t, values)
			require.NoError(t, err)
			all := objects(t, manifests)
			count := map[string]int{}
			for _, object := range all {
				count[fmt.Sprint(object["kind"])]++
			}
			var kinds []string
			for _, kind := range slices.Sorted(maps.Keys(count)) {
				kinds = append(kinds, fmt.Sprint(kind, " ", count[kind]))
			}
			assert.Equal(t, row.kinds, strings.Join(kinds, ", "))
			require.NoError(t, check(t, all), manifests)
		})
	}
	t.Run("a planted fault is found", func(t *testing.T) {
		t.Parallel()
		manifests, err := render(t, needed())
		require.NoError(t, err)
		fields := []string{"maxUnavailable: 1", "minReplicaCount", "endpoints"}
		for _, field := range fields {
			manifests = strings.Replace(manifests, field, "x"+field, 1)
		}
		err = check(t, objects(t, manifests))
		for _, field := range fields {
			name, _, _ := strings.Cut(field, ":")
			assert.ErrorContains(t, err, "x"+name)
		}
	})
}

func TestTheChartNamesAMissingValue(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]map[string]any{
		"image.tag": {"image": map[string]any{"tag": ""}}, "aws.region": {"aws": map[string]any{"region": ""}},
		"fanout.roleArn": {"fanout": map[string]any{"roleArn": ""}}, "auth.issuer": {"auth": map[string]any{"issuer": ""}},
	} {
		_, err := render(t, merge(needed(), over))
		assert.ErrorContains(t, err, name+":")
	}
}

// Each daemon starts with its environment, is probed where it answers, is locked up, and is
// selected by its own budget and scaled by its own autoscaler.
func TestTheDaemonsOfTheChartAreProbedScaledAndLockedUp(t *testing.T) {
	t.Parallel()
	manifests, err := render(t, needed())
	require.NoError(t, err)
	all := objects(t, manifests)
	for name, role := range daemons() {
		full := "feed-" + name
		deployment := all["Deployment "+full]
		pod := at(t, deployment, "spec", "template", "spec")
		container := at(t, pod, "containers", 0)
		assert.Equal(t, []any{name}, at(t, container, "command"))
		for probe, path := range map[string]string{"livenessProbe": "/healthz", "readinessProbe": "/servez"} {
			assert.Equal(t, map[string]any{"path": path, "port": "metrics"}, at(t, container, probe, "httpGet"))
		}
		assert.Equal(t, map[string]any{"name": "metrics", "containerPort": 9091}, at(t, container, "ports", 0))
		assert.True(t, at(t, pod, "securityContext", "runAsNonRoot").(bool))
		assert.Equal(t, map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
		}, at(t, container, "securityContext"))
		env := map[string]string{}
		for _, v := range at(t, container, "env").([]any) {
			env[fmt.Sprint(at(t, v, "name"))] = fmt.Sprint(at(t, v, "value"))
		}
		accepted(t, name, role, env)
		assert.Equal(t, "10s", env["FANFARE_DRAIN"])
		assert.GreaterOrEqual(t, at(t, pod, "terminationGracePeriodSeconds"), int(stopTakes.Seconds()), name)
		isMemoryLimit(t, name, env["GOMEMLIMIT"], strings.TrimSuffix(fmt.Sprint(at(t, container, "resources", "limits", "memory")), "Mi"))
		account := all["ServiceAccount "+fmt.Sprint(at(t, pod, "serviceAccountName"))]
		assert.Equal(t, "arn:aws:iam::123456789012:role/"+name, at(t, account, "metadata", "annotations", "eks.amazonaws.com/role-arn"))

		labels := at(t, deployment, "spec", "template", "metadata", "labels")
		for _, selector := range []any{
			at(t, deployment, "spec", "selector", "matchLabels"), at(t, all["PodDisruptionBudget "+full], "spec", "selector", "matchLabels"),
			at(t, all["Service "+full+"-metrics"], "spec", "selector"),
		} {
			assert.Subset(t, labels, selector)
			assert.Equal(t, name, at(t, selector, "app.kubernetes.io/component"))
		}
		scaler := all["HorizontalPodAutoscaler "+full]
		if name != "api" {
			scaler = all["ScaledObject "+full]
		}
		assert.Equal(t, full, at(t, scaler, "spec", "scaleTargetRef", "name"))
		assert.Subset(t, at(t, all["Service "+full+"-metrics"], "metadata", "labels"), at(t, all["ServiceMonitor feed"], "spec", "selector", "matchLabels"))
	}
	assert.Subset(t, at(t, all["Deployment feed-api"], "spec", "template", "metadata", "labels"), at(t, all["Service feed-api"], "spec", "selector"))
}

// A longer drain must not end by SIGKILL.
func TestThePodsOfTheChartOutliveTheirDrain(t *testing.T) {
	t.Parallel()
	manifests, err := render(t, merge(needed(), map[string]any{"drainSeconds": 120}))
	require.NoError(t, err)
	pod := at(t, objects(t, manifests)["Deployment feed-api"], "spec", "template", "spec")
	assert.Equal(t, 155, at(t, pod, "terminationGracePeriodSeconds"))
	assert.Contains(t, at(t, pod, "containers", 0, "env"), map[string]any{"name": "FANFARE_DRAIN", "value": "120s"})
}

// A duration is no number: sprig reads it as 0, and the pods would have no drain at all.
func TestTheChartRefusesADrainThatIsNoNumberOfSeconds(t *testing.T) {
	t.Parallel()
	for _, written := range []string{"10s", "5m", `""`, "~", "true", "-1", "2.5", "301", "[10]"} {
		_, err := install(t, "fanfare", "drainSeconds: "+written+"\n")
		assert.ErrorContains(t, err, "drainSeconds", written)
	}
	for written, want := range map[string]string{"0": "0s", "300": "300s", `"20"`: "20s"} {
		all, err := install(t, "fanfare", "drainSeconds: "+written+"\n")
		require.NoError(t, err, written)
		assert.Equal(t, want, environmentIn(t, all, "fanfare-api")["FANFARE_DRAIN"], written)
	}
}

// The queries of the autoscalers are the seconds of work in the deepest of a worker's queues,
// also when no worker finishes anything, whatever another namespace has.
func TestTheChartScalesWorkersBySecondsOfBacklog(t *testing.T) {
	t.Parallel()
	manifests, err := render(t, needed())
	require.NoError(t, err)
	all := objects(t, manifests)
	series := func(name, value string) map[string]any { return map[string]any{"series": name, "values": value} }
	var tests []any
	for name, want := range map[string]int{"fanout": 300, "likeagg": 50} {
		query := at(t, all["ScaledObject feed-"+name], "spec", "triggers", 0, "metadata", "query")
		tests = append(tests, map[string]any{"expr": query, "eval_time": "10m", "exp_samples": []any{map[string]any{"labels": "{}", "value": want}}})
	}
	rules := filepath.Join(t.TempDir(), "backlog.yml")
	text, err := yaml.Marshal(map[string]any{"tests": []any{map[string]any{
		"interval": "1m", "promql_expr_test": tests,
		"input_series": []any{
			series(`fanfare_queue_depth{topic="posts",state="ready",namespace="social",pod="a"}`, "100x10"),
			series(`fanfare_queue_depth{topic="posts",state="ready",namespace="social",pod="b"}`, "100x10"),
			series(`fanfare_message_seconds_count{topic="posts",result="done",namespace="social",pod="a"}`, "0+60x10"),
			series(`fanfare_queue_depth{topic="chunks",state="ready",namespace="social"}`, "300x10"),
			series(`fanfare_queue_depth{topic="likes",state="ready",namespace="social"}`, "1000x10"),
			series(`fanfare_message_seconds_count{topic="likes",result="done",namespace="social"}`, "0+1140x10"),
			series(`fanfare_queue_depth{topic="posts",state="ready",namespace="other"}`, "9000x10"),
		},
	}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(rules, text, 0o600))
	out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", rules).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
