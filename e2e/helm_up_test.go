//go:build e2e && slow

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/objects/objectstest"
)

// machineOf returns the `fanfare up` of a StatefulSet.
func machineOf(t *testing.T, all map[string]map[string]any, name string) *deployed {
	t.Helper()
	d := &deployed{env: environmentIn(t, all, name)}
	for _, word := range at(t, containerOf(t, all, name), "command").([]any) {
		d.command = append(d.command, fmt.Sprint(word))
	}
	grace, err := time.ParseDuration(fmt.Sprint(at(t, podOf(t, all, name), "terminationGracePeriodSeconds"), "s"))
	require.NoError(t, err)
	d.grace = grace
	return d
}

// probed returns the status that a probe of the container gets.
func (d *deployed) probed(t *testing.T, all map[string]map[string]any, name, probe string) int {
	t.Helper()
	container := containerOf(t, all, name)
	for _, port := range at(t, container, "ports").([]any) {
		if at(t, port, "name") == at(t, container, probe, "httpGet", "port") {
			return answers(t, fmt.Sprint("http://", d.at[fmt.Sprint(at(t, port, "containerPort"))], at(t, container, probe, "httpGet", "path")))
		}
	}
	t.Fatalf("the probe %s of %s asks no port of the container", probe, name)
	return 0
}

// TestTheChartRunsOneMachine starts the command of the chart with its environment, asks its probes, and ends it as the
// kubelet does.
func TestTheChartRunsOneMachine(t *testing.T) {
	t.Parallel()
	manifests, err := render(t, merge(oneMachine(), map[string]any{"up": map[string]any{"settings": map[string]any{"FANFARE_ARCHIVE": "s3://bucket/feed"}}}))
	require.NoError(t, err)
	all := objects(t, manifests)
	d := machineOf(t, all, "feed-one")
	assert.Equal(t, []any{map[string]any{"name": "data", "mountPath": d.env["FANFARE_DATA_DIR"]}}, at(t, containerOf(t, all, "feed-one"), "volumeMounts"))
	assert.Equal(t, "data", at(t, all["StatefulSet feed-one"], "spec", "volumeClaimTemplates", 0, "metadata", "name"))
	assert.Equal(t, at(t, podOf(t, all, "feed-one"), "securityContext", "runAsGroup"), at(t, podOf(t, all, "feed-one"), "securityContext", "fsGroup"), "the user owns the volume")
	isMemoryLimit(t, "one", d.env["GOMEMLIMIT"], "1024")
	assert.Subset(t, at(t, all["StatefulSet feed-one"], "spec", "template", "metadata", "labels"), at(t, all["Service feed-api"], "spec", "selector"))
	d.place(t, map[string]string{"FANFARE_ARCHIVE": "file://" + t.TempDir()})
	d.survivesARestart(t, func() bool {
		return d.probed(t, all, "feed-one", "livenessProbe") == 200 && d.probed(t, all, "feed-one", "readinessProbe") == 200
	})
}

// TestTheChartRunsAPair makes one machine of the chart a pair, and exchanges the roles as an upgrade does. The Service of
// the API reaches both pods, and only the primary is ready.
func TestTheChartRunsAPair(t *testing.T) {
	t.Parallel()
	manifests, err := render(t, oneMachine())
	require.NoError(t, err)
	before := objects(t, manifests)
	alone := machineOf(t, before, "feed-one")
	alone.place(t, nil)
	p := alone.start(t)
	await(t, "the machine serves", func() bool { return alone.probed(t, before, "feed-one", "readinessProbe") == 200 })
	first := alone.posts(t)
	alone.ends(t, p)

	manifests, err = render(t, merge(aPair(), map[string]any{"settings": map[string]any{"FANFARE_FAILOVER_AFTER": "1h"}}))
	require.NoError(t, err)
	all := objects(t, manifests)
	assert.Equal(t, at(t, before["StatefulSet feed-one"], "spec", "volumeClaimTemplates"), at(t, all["StatefulSet feed-one"], "spec", "volumeClaimTemplates"))
	secret, register := filepath.Join(t.TempDir(), "KEYS"), objectstest.NewBucket(t)
	_, stderr, err := fanfare(t, environment(), "pair", "keys", secret)
	require.NoError(t, err, stderr)
	machines := map[string]*deployed{"one": machineOf(t, all, "feed-one"), "two": machineOf(t, all, "feed-two")}
	for name, d := range machines {
		var keys []string
		for _, item := range at(t, podOf(t, all, "feed-"+name), "volumes", 0, "secret", "items").([]any) {
			keys = append(keys, fmt.Sprint("/keys/", at(t, item, "path")))
			assert.FileExists(t, filepath.Join(secret, fmt.Sprint(at(t, item, "key"))))
		}
		assert.Equal(t, []string{d.env["FANFARE_PEER_CA"], d.env["FANFARE_PEER_CERT"], d.env["FANFARE_PEER_KEY"]}, keys)
		assert.Subset(t, at(t, all["StatefulSet feed-"+name], "spec", "template", "metadata", "labels"), at(t, all["Service feed-api"], "spec", "selector"))
		over := register.Env()
		for _, variable := range []string{"FANFARE_PEER_CA", "FANFARE_PEER_CERT", "FANFARE_PEER_KEY"} {
			over[variable] = filepath.Join(secret, filepath.Base(d.env[variable]))
		}
		d.place(t, over)
	}
	machines["one"].env["FANFARE_DATA_DIR"] = alone.env["FANFARE_DATA_DIR"]
	for name, other := range map[string]string{"one": "two", "two": "one"} {
		assert.Equal(t, "feed-"+other+":7070", machines[name].env["FANFARE_PEER"])
		peer := all["Service feed-"+other]
		assert.Equal(t, at(t, all["StatefulSet feed-"+other], "spec", "selector", "matchLabels"), at(t, peer, "spec", "selector"))
		assert.Equal(t, true, at(t, peer, "spec", "publishNotReadyAddresses"), "a standby is not ready")
		machines[name].env["FANFARE_PEER"] = machines[other].at["7070"]
		machines[name].keys, machines[name].env["FANFARE_JWKS_URL"] = machines["one"].keys, machines["one"].keys.url
	}

	running := map[string]*process{}
	for name, d := range machines {
		running[name] = d.start(t)
	}
	roles := func(primary, standby string) {
		t.Helper()
		await(t, primary+" is the primary", func() bool {
			stdout, _, err := fanfare(t, environment(), "pair", "status", "--json", "--admin", machines[primary].at["9090"])
			return err == nil && strings.Contains(stdout, `"paired"`) &&
				machines[primary].probed(t, all, "feed-"+primary, "readinessProbe") == 200 && machines[standby].probed(t, all, "feed-"+standby, "readinessProbe") == 503
		})
		for name, d := range machines {
			assert.Equal(t, 200, d.probed(t, all, "feed-"+name, "livenessProbe"), name)
		}
	}
	roles("one", "two")
	written := machines["one"].posts(t)
	_, stderr, err = fanfare(t, environment(), "promote", "--yes", "--admin", machines["two"].at["9090"])
	require.NoError(t, err, stderr)
	roles("two", "one")
	machines["two"].has(t, first)
	machines["two"].has(t, written)
	for _, name := range []string{"one", "two"} {
		machines[name].ends(t, running[name])
	}
}

// TestAPairOfTheChartIsUpgradedByItsOperator checks that Kubernetes by itself neither restarts a machine nor puts both
// machines on one node.
func TestAPairOfTheChartIsUpgradedByItsOperator(t *testing.T) {
	t.Parallel()
	manifests, err := render(t, merge(allOf(t), aPair()))
	require.NoError(t, err)
	all := objects(t, manifests)
	for name, other := range map[string]string{"one": "two", "two": "one"} {
		set, pod := all["StatefulSet feed-"+name], podOf(t, all, "feed-"+name)
		assert.Equal(t, "OnDelete", at(t, set, "spec", "updateStrategy", "type"))
		assert.Equal(t, "feed-up", at(t, pod, "serviceAccountName"))
		spread := at(t, pod, "topologySpreadConstraints", 0)
		assert.Equal(t, "DoNotSchedule", at(t, spread, "whenUnsatisfiable"))
		labels := at(t, all["StatefulSet feed-"+other], "spec", "template", "metadata", "labels").(map[string]any)
		for label, value := range at(t, spread, "labelSelector", "matchLabels").(map[string]any) {
			assert.Equal(t, value, labels[label], "the other machine counts, too")
		}
		policy := all["NetworkPolicy feed-"+name]
		want := map[string]any{"ports": []any{map[string]any{"port": "peer"}}, "from": []any{map[string]any{"podSelector": at(t, all["StatefulSet feed-"+other], "spec", "selector")}}}
		assert.Contains(t, at(t, policy, "spec", "ingress"), want)
		assert.Contains(t, at(t, policy, "spec", "egress"), map[string]any{"ports": []any{map[string]any{"port": 7070, "protocol": "TCP"}}, "to": want["from"]})
		volumes := at(t, pod, "volumes").([]any)
		require.Len(t, volumes, 2, "the keys, and a volume of the values")
		assert.Equal(t, map[string]any{"secretName": "ca", "defaultMode": 256}, at(t, volumes[1], "secret"))
	}
}
