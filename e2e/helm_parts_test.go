//go:build e2e && slow

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

// full renders a release with every optional part of the chart.
func full(t *testing.T) map[string]map[string]any {
	t.Helper()
	manifests, err := render(t, merge(needed(), allOf(t)))
	require.NoError(t, err)
	return objects(t, manifests)
}

// A service account has the role of IRSA, gets a role by Pod Identity, or exists already. No pod gets a
// token of Kubernetes.
func TestTheAccountsOfTheChartTakeAnyKindOfIdentity(t *testing.T) {
	t.Parallel()
	all := full(t)
	for deployment, account := range map[string]string{"api": "feed-api", "fanout": "mine", "likeagg": "feed-likeagg", "canary": "feed-canary"} {
		assert.Equal(t, account, at(t, all["Deployment feed-"+deployment], "spec", "template", "spec", "serviceAccountName"))
	}
	require.NotContains(t, all, "ServiceAccount feed-fanout", "the account exists")
	require.NotContains(t, all, "ServiceAccount mine", "the account exists")
	assert.Equal(t, "arn:aws:iam::123456789012:role/api", at(t, all["ServiceAccount feed-api"], "metadata", "annotations", "eks.amazonaws.com/role-arn"))
	assert.NotContains(t, all["ServiceAccount feed-likeagg"]["metadata"], "annotations")
	for name, object := range all {
		if strings.HasPrefix(name, "ServiceAccount ") {
			assert.Equal(t, false, object["automountServiceAccountToken"], name)
		}
	}
}

// The chart runs exactly one pod with the canary and the auditor, and no request of a user reaches that
// pod.
func TestTheChartHasOneCanary(t *testing.T) {
	t.Parallel()
	all := full(t)
	canary := all["Deployment feed-canary"]
	assert.Equal(t, 1, at(t, canary, "spec", "replicas"))
	assert.Equal(t, "Recreate", at(t, canary, "spec", "strategy", "type"))
	var environ []string
	for name, value := range environmentIn(t, all, "feed-canary") {
		environ = append(environ, name+"="+value)
	}
	cfg, err := config.Load(environ, config.API)
	require.NoError(t, err)
	assert.True(t, bool(cfg.Canary) && bool(cfg.Auditor))
	assert.Equal(t, "127.0.0.1:8080", cfg.HTTPAddr)
	labels := at(t, canary, "spec", "template", "metadata", "labels").(map[string]any)
	for name, object := range all {
		if kind := object["kind"]; kind == "Service" && name != "Service feed-canary-metrics" || kind == "PodDisruptionBudget" {
			selector := at(t, object, "spec", "selector").(map[string]any)
			if inner, ok := selector["matchLabels"].(map[string]any); ok {
				selector = inner
			}
			assert.NotEqual(t, labels["app.kubernetes.io/component"], selector["app.kubernetes.io/component"], name)
		}
	}
	for name := range daemons() {
		env := environmentIn(t, all, "feed-"+name)
		assert.Equal(t, []string{"", ""}, []string{env["FANFARE_CANARY"], env["FANFARE_AUDIT"]}, name)
	}
}

// The set-up job runs before the daemons. Its service account exists before the job, and its commands
// accept the environment.
func TestTheSetUpOfTheChartRunsBeforeItsDaemons(t *testing.T) {
	t.Parallel()
	all := full(t)
	job, account := all["Job feed-setup"], all["ServiceAccount feed-setup"]
	assert.Equal(t, "pre-install,pre-upgrade", at(t, job, "metadata", "annotations", "helm.sh/hook"))
	assert.Equal(t, "pre-install,pre-upgrade", at(t, account, "metadata", "annotations", "helm.sh/hook"))
	assert.Equal(t, "-1", at(t, account, "metadata", "annotations", "helm.sh/hook-weight"), "hooks without a weight have 0")
	pod := at(t, job, "spec", "template", "spec")
	assert.Equal(t, "feed-setup", at(t, pod, "serviceAccountName"))
	for part, words := range map[string][]any{"initContainers": {"fanfare", "table", "create"}, "containers": {"fanfare", "queues", "create"}} {
		container := at(t, pod, part, 0)
		assert.Equal(t, words, at(t, container, "command"))
		command := exec.CommandContext(t.Context(), filepath.Join(binaries, "fanfare"), fmt.Sprint(words[1]), fmt.Sprint(words[2]))
		for _, v := range at(t, container, "env").([]any) {
			command.Env = append(command.Env, fmt.Sprint(at(t, v, "name"), "=", at(t, v, "value")))
		}
		command.Env = append(command.Env, "AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=key", "AWS_MAX_ATTEMPTS=1")
		out, err := command.CombinedOutput()
		require.Error(t, err, "nothing answers at port 1")
		assert.Contains(t, string(out), "127.0.0.1:1", "it comes as far as its first call")
	}
}

// Values for all pods or for one daemon reach the pods. The settings of a Secret reach only the daemon
// that names the Secret.
func TestThePodsOfTheChartAreScheduledAsWritten(t *testing.T) {
	t.Parallel()
	all := full(t)
	for name, disk := range map[string]string{"api": "ssd", "fanout": "none", "likeagg": "ssd", "canary": "ssd"} {
		pod := at(t, all["Deployment feed-"+name], "spec", "template", "spec")
		assert.Equal(t, map[string]any{"disk": disk}, at(t, pod, "nodeSelector"), name)
		assert.Equal(t, "high", at(t, pod, "priorityClassName"))
		assert.Equal(t, []any{map[string]any{"key": "feed", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1000000}}, at(t, pod, "tolerations"))
		assert.Equal(t, map[string]any{"name": "ca", "mountPath": "/ca", "readOnly": true}, at(t, pod, "containers", 0, "volumeMounts", 0))
		assert.Equal(t, map[string]any{"secretName": "ca", "defaultMode": 256}, at(t, pod, "volumes", 0, "secret"))
		assert.Equal(t, allOf(t)["podAnnotations"], at(t, all["Deployment feed-"+name], "spec", "template", "metadata", "annotations"))
	}
	api := containerOf(t, all, "feed-api")
	assert.Contains(t, at(t, api, "env"), map[string]any{
		"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "otel", "key": "headers"}},
	})
	assert.Equal(t, []any{map[string]any{"secretRef": map[string]any{"name": "more"}}}, at(t, api, "envFrom"))
	assert.NotContains(t, containerOf(t, all, "feed-fanout"), "envFrom")
	assert.Equal(t, "1.10", at(t, all["Deployment feed-api"], "spec", "template", "metadata", "labels", "team"))
}

// The network policies open the ports of the containers, and the port of the API only for the API.
func TestTheNetworkPoliciesOfTheChartNamePortsOfThePods(t *testing.T) {
	t.Parallel()
	all := full(t)
	for name := range deployments() {
		policy := all["NetworkPolicy feed-"+name]
		assert.Equal(t, at(t, all["Deployment feed-"+name], "spec", "selector"), at(t, policy, "spec", "podSelector"))
		var open, listens []any
		for _, rule := range at(t, policy, "spec", "ingress").([]any) {
			open = append(open, at(t, rule, "ports", 0, "port"))
			assert.NotEmpty(t, at(t, rule, "from"))
		}
		for _, port := range at(t, containerOf(t, all, "feed-"+name), "ports").([]any) {
			listens = append(listens, at(t, port, "name"))
		}
		assert.Equal(t, listens, open, name)
		assert.Len(t, at(t, policy, "spec", "egress"), 3)
	}
	backend := at(t, all["Ingress feed-api"], "spec", "rules", 0, "http", "paths", 0, "backend", "service")
	assert.Equal(t, map[string]any{"name": "feed-api", "port": map[string]any{"name": "http"}}, backend)
}

// Helm prints the notes only when it installs a release. So the test adds a template to a copy of the
// chart, and the template shows the notes.
func TestTheNotesOfTheChartNameItsAccounts(t *testing.T) {
	t.Parallel()
	copied := filepath.Join(t.TempDir(), "fanfare")
	require.NoError(t, os.CopyFS(copied, os.DirFS(chart)))
	show := "kind: ConfigMap\nmetadata: {name: notes}\ndata: {notes: {{ include \"fanfare/templates/NOTES.txt\" . | quote }}}\n"
	require.NoError(t, os.WriteFile(filepath.Join(copied, "templates/notes.yaml"), []byte(show), 0o600))
	notesOf := func(values map[string]any) string {
		manifests, err := helmOf(t, copied, merge(values, allOf(t)), "template", "feed", "--namespace", "social", "--kube-version", "1.34")
		require.NoError(t, err)
		return fmt.Sprint(at(t, objects(t, manifests)["ConfigMap notes"], "data", "notes"))
	}
	pair := notesOf(aPair())
	for _, text := range []string{"fanfare up on two machines", "\n  feed-up\n", "exec statefulset/feed-one -- fanfare doctor"} {
		assert.Contains(t, pair, text)
	}
	notes := notesOf(needed())
	for _, text := range []string{"\n  feed-likeagg\n", "\n  feed-canary\n", "\n  mine\n", "--namespace social port-forward service/feed-api 8080:80\n"} {
		assert.Contains(t, notes, text)
	}
	assert.NotContains(t, notes, "  feed-api\n", "its role is one of IRSA")
}
