//go:build e2e && slow

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
	yaml11 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
)

const chart = "../deploy/helm/fanfare"

// merge returns values, in which the values of over replace equal names.
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

// helm runs Helm and returns the output. Files and flags in args override the values of over.
func helm(t *testing.T, over map[string]any, args ...string) (stdout string, err error) {
	t.Helper()
	return helmOf(t, chart, over, args...)
}

func helmOf(t *testing.T, chart string, over map[string]any, args ...string) (stdout string, err error) {
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

// needed returns values for all names that have no default in the chart.
func needed() map[string]any {
	return map[string]any{
		"image": map[string]any{"repository": "registry.example/fanfare", "tag": "0.1.0"}, "aws": map[string]any{"region": "eu-central-1"},
		"auth": map[string]any{"issuer": "https://issuer.example", "audience": "a", "jwksUrl": "https://issuer.example/keys"},
	}
}

// oneMachine returns the values that engine embedded needs.
func oneMachine() map[string]any {
	values := needed()
	delete(values, "aws")
	values["engine"] = "embedded"
	return values
}

// aPair returns the values that a pair needs.
func aPair() map[string]any {
	return merge(oneMachine(), map[string]any{"up": map[string]any{"pair": map[string]any{"enabled": true, "register": "s3://bucket/pair", "secretName": "feed-pair"}}})
}

// objects decodes manifests as Kubernetes does (YAML 1.1). The key of an object is its kind and its name.
func objects(t *testing.T, manifests string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for decoder := yaml11.NewDecoder(strings.NewReader(manifests)); ; {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, manifests)
		object, _ := namesAsTexts(document).(map[string]any)
		if object == nil {
			continue
		}
		name := fmt.Sprintf("%v %v", at(t, object, "kind"), at(t, object, "metadata", "name"))
		require.NotContains(t, all, name)
		all[name] = object
	}
}

// namesAsTexts returns a value that YAML 1.1 has decoded, with the keys of all maps as texts.
func namesAsTexts(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := map[string]any{}
		for name, value := range v {
			out[fmt.Sprint(name)] = namesAsTexts(value)
		}
		return out
	case []any:
		for i := range v {
			v[i] = namesAsTexts(v[i])
		}
	}
	return v
}

// check validates manifests against the schemas of Kubernetes, KEDA and the Prometheus operator. These
// schemas refuse unknown fields.
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

// allOf returns values for every optional part of the chart.
func allOf(t *testing.T) map[string]any {
	t.Helper()
	var values map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(`
imagePullSecrets: [{name: registry}]
settings: {FANFARE_LIKE_WINDOW: 2s}
serviceMonitor: {labels: {release: prometheus}}
priorityClassName: high
nodeSelector: {disk: ssd}
tolerations: [{key: feed, operator: Exists, effect: NoExecute, tolerationSeconds: 1000000}]
podAnnotations: {a: "yes", b: "0x10", c: "1e3", d: "~", e: "null", f: "012", g: "1:30", h: "2026-01-01", i: "1_000", j: "- a: {{ b }}", k: "", l: "1.10", m: "$(A)\n"}
volumes: [{name: ca, secret: {secretName: ca, defaultMode: 256}}]
volumeMounts: [{name: ca, mountPath: /ca, readOnly: true}]
api:
  roleArn: arn:aws:iam::123456789012:role/api
  service: {type: LoadBalancer, annotations: {a: b}}
  env: [{name: OTEL_EXPORTER_OTLP_HEADERS, valueFrom: {secretKeyRef: {name: otel, key: headers}}}]
  envFrom: [{secretRef: {name: more}}]
  podLabels: {team: "1.10"}
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
  resources: {requests: {cpu: 0.5, memory: 256Mi}, limits: {memory: 512Mi}}
fanout: {serviceAccountName: mine, nodeSelector: {disk: none}}
setup: {enabled: true, roleArn: "arn:aws:iam::123456789012:role/setup"}
ingress: {enabled: true, className: nginx, hosts: [feed.example], annotations: {a.example/b: "on"}, tls: [{secretName: feed-tls, hosts: [feed.example]}]}
networkPolicy:
  enabled: true
  apiFrom: [{namespaceSelector: {matchLabels: {a: b}}}]
  metricsFrom: [{namespaceSelector: {}}]
  egress: [{ports: [{port: 4318}]}]
`), &values))
	return values
}

func TestTheChartIsValid(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		over  map[string]any
		kinds string
	}{
		"by default": {kinds: "Deployment 4, HorizontalPodAutoscaler 1, PodDisruptionBudget 3, ScaledObject 2, Service 5, ServiceAccount 4, ServiceMonitor 1"},
		"without operators": {
			map[string]any{"keda": map[string]any{"enabled": false}, "serviceMonitor": map[string]any{"enabled": false}, "canary": map[string]any{"enabled": false}},
			"Deployment 3, HorizontalPodAutoscaler 1, PodDisruptionBudget 3, Service 1, ServiceAccount 3",
		},
		"with all": {
			allOf(t),
			"Deployment 4, HorizontalPodAutoscaler 1, Ingress 1, Job 1, NetworkPolicy 4, PodDisruptionBudget 3, ScaledObject 2, Service 5, ServiceAccount 4, ServiceMonitor 1",
		},
		"one machine":     {oneMachine(), "Service 2, ServiceAccount 1, ServiceMonitor 1, StatefulSet 1"},
		"a pair with all": {merge(allOf(t), aPair()), "Ingress 1, NetworkPolicy 2, Service 3, ServiceAccount 1, ServiceMonitor 1, StatefulSet 2"},
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
	_, err := helm(t, nil, "lint")
	for _, name := range []string{"'repository'", "'tag'", "'region'", "'issuer', 'audience'"} {
		assert.ErrorContains(t, err, name)
	}
	assert.NotContains(t, err.Error(), "YAML")
	for path, over := range map[string]map[string]any{
		"/image/tag": {"image": map[string]any{"tag": ""}}, "/aws/region": {"aws": map[string]any{"region": ""}},
		"/auth/issuer": {"auth": map[string]any{"issuer": ""}}, "/auth/audience": {"auth": map[string]any{"audience": ""}},
	} {
		_, err := render(t, merge(needed(), over))
		assert.ErrorContains(t, err, path+"'")
	}
}

// Each daemon starts with its environment, has probes on its listeners, has no unnecessary rights, and
// has its own disruption budget and autoscaler.
func TestTheDaemonsOfTheChartAreProbedScaledAndLockedUp(t *testing.T) {
	t.Parallel()
	manifests, err := render(t, needed())
	require.NoError(t, err)
	all := objects(t, manifests)
	for name := range deployments() {
		full := "feed-" + name
		deployment := all["Deployment "+full]
		pod := at(t, deployment, "spec", "template", "spec")
		container := at(t, pod, "containers", 0)
		for probe, path := range map[string]string{"livenessProbe": "/healthz", "readinessProbe": "/servez"} {
			assert.Equal(t, map[string]any{"path": path, "port": "metrics"}, at(t, container, probe, "httpGet"))
		}
		assert.Equal(t, map[string]any{"name": "metrics", "containerPort": 9091}, at(t, container, "ports", 0))
		assert.True(t, at(t, pod, "securityContext", "runAsNonRoot").(bool))
		assert.False(t, at(t, pod, "automountServiceAccountToken").(bool))
		assert.Equal(t, map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
		}, at(t, container, "securityContext"))
		env := environmentIn(t, all, full)
		assert.Equal(t, "10s", env["FANFARE_DRAIN"])
		assert.GreaterOrEqual(t, at(t, pod, "terminationGracePeriodSeconds"), int(stopTakes.Seconds()), name)
		limit := fmt.Sprint(at(t, container, "resources", "limits", "memory"))
		isMemoryLimit(t, name, env["GOMEMLIMIT"], strings.NewReplacer("1Gi", "1024", "Mi", "").Replace(limit))
		require.NotNil(t, all["ServiceAccount "+fmt.Sprint(at(t, pod, "serviceAccountName"))])

		labels := at(t, deployment, "spec", "template", "metadata", "labels")
		selector := at(t, deployment, "spec", "selector", "matchLabels")
		assert.Subset(t, labels, selector)
		assert.Equal(t, name, at(t, selector, "app.kubernetes.io/component"))
		assert.Equal(t, selector, at(t, all["Service "+full+"-metrics"], "spec", "selector"))
		assert.Subset(t, at(t, all["Service "+full+"-metrics"], "metadata", "labels"), at(t, all["ServiceMonitor feed"], "spec", "selector", "matchLabels"))
	}
	for name, role := range daemons() {
		full := "feed-" + name
		assert.Equal(t, []any{name}, at(t, containerOf(t, all, full), "command"))
		accepted(t, name, role, environmentIn(t, all, full))
		assert.Equal(t, at(t, all["Deployment "+full], "spec", "selector"), at(t, all["PodDisruptionBudget "+full], "spec", "selector"))
		scaler := all["HorizontalPodAutoscaler "+full]
		if name != "api" {
			scaler = all["ScaledObject "+full]
		}
		assert.Equal(t, full, at(t, scaler, "spec", "scaleTargetRef", "name"))
	}
	assert.Subset(t, at(t, all["Deployment feed-api"], "spec", "template", "metadata", "labels"), at(t, all["Service feed-api"], "spec", "selector"))
}

// Kubernetes must not kill a pod by SIGKILL before a longer drain has ended.
func TestThePodsOfTheChartOutliveTheirDrain(t *testing.T) {
	t.Parallel()
	manifests, err := render(t, merge(needed(), map[string]any{"drainSeconds": 120}))
	require.NoError(t, err)
	pod := at(t, objects(t, manifests)["Deployment feed-api"], "spec", "template", "spec")
	assert.Equal(t, 155, at(t, pod, "terminationGracePeriodSeconds"))
	assert.Contains(t, at(t, pod, "containers", 0, "env"), map[string]any{"name": "FANFARE_DRAIN", "value": "120s"})
}

// An autoscaler queries the seconds of work in the deepest of a worker's queues, even if no worker
// finishes a message. It ignores other namespaces.
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
