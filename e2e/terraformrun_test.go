//go:build e2e && slow && terraform

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// workspace is a copy of the modules in which Terraform runs.
type workspace struct {
	root, settings string
}

// newWorkspace returns a workspace with the planner as the provider awscc.
func newWorkspace(t *testing.T) workspace {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	schema, err := filepath.Abs("testdata/awscc.json")
	require.NoError(t, err)
	w := workspace{root: filepath.Join(t.TempDir(), "terraform"), settings: filepath.Join(t.TempDir(), "terraformrc")}
	require.NoError(t, os.CopyFS(w.root, os.DirFS("../deploy/terraform")))
	mirror := t.TempDir()
	folder := filepath.Join(mirror, "registry.terraform.io/hashicorp/awscc/1.106.0", runtime.GOOS+"_"+runtime.GOARCH)
	require.NoError(t, os.MkdirAll(folder, 0o750))
	program := "#!/bin/sh\n" + plannerVariable + "='" + schema + "' exec '" + self + "'\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "terraform-provider-awscc_v1.106.0"), []byte(program), 0o700))
	require.NoError(t, os.WriteFile(w.settings, []byte("provider_installation {\n  filesystem_mirror {\n    path = \""+mirror+"\"\n  }\n}\n"), 0o600))
	return w
}

// run runs Terraform in a folder of the workspace.
func (w workspace) run(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "terraform", args...)
	c.Dir = filepath.Join(w.root, folder)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.root, "TF_CLI_CONFIG_FILE=" + w.settings, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "NO_COLOR=1"}
	out, err := c.CombinedOutput()
	return string(out), err
}

// has runs Terraform, which has to succeed.
func (w workspace) has(t *testing.T, folder string, args ...string) string {
	t.Helper()
	out, err := w.run(t, folder, args...)
	require.NoError(t, err, "terraform %s in %s:\n%s", strings.Join(args, " "), folder, out)
	return out
}

// TestTerraformPlansTheExample runs Terraform itself on the example and its modules: each reference leads, each attribute
// exists with its type, and the rules between variables hold or refuse.
func TestTerraformPlansTheExample(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.has(t, ".", "fmt", "-check", "-diff", "-recursive")
	w.has(t, "example", "init", "-backend=false")
	w.has(t, "example", "validate")
	values := map[string]any{
		"region": "eu-central-1", "account_id": "123456789012", "image": "registry.example/fanfare:0.1.0",
		"jwt":     map[string]string{"issuer": "https://issuer.example", "audience": "feed"},
		"network": map[string]any{"subnet_ids": []string{"subnet-1", "subnet-2"}, "security_group_ids": []string{"sg-1"}},
		"balancer": map[string]string{
			"load_balancer_arn": "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/feed/1",
			"target_group_arn":  "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/feed/1",
		},
		"alarm_topic_arn": "arn:aws:sns:eu-central-1:123456789012:alarms",
	}
	w.values(t, "example", values)
	out := w.has(t, "example", "plan", "-input=false", "-no-color")
	planned := map[string]bool{}
	for _, template := range terraformTemplates() {
		planned[strings.TrimSuffix(template, ".yaml")] = strings.Contains(out, "# module."+strings.TrimSuffix(template, ".yaml")+".awscc_")
	}
	assert.Equal(t, map[string]bool{"data": true, "services": true, "alarms": true}, planned)

	values["jwt"] = map[string]string{"issuer": "http://issuer.example", "audience": "feed"}
	w.values(t, "example", values)
	out, err := w.run(t, "example", "plan", "-input=false", "-no-color")
	require.Error(t, err)
	assert.Contains(t, strings.Join(strings.Fields(out), " "), "jwt_issuer must be an https URL.")
}

// values writes the values of the variables of a folder.
func (w workspace) values(t *testing.T, folder string, values map[string]any) {
	t.Helper()
	text, err := json.Marshal(values)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(w.root, folder, "terraform.tfvars.json"), text, 0o600))
}

// TestTerraformRefusesValuesOfTheData plans the module of the data with capacity. Each refusal names the variable.
func TestTerraformRefusesValuesOfTheData(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.has(t, "data", "init", "-backend=false")
	units := func(low, high any) map[string]any { return map[string]any{"min": low, "max": high} }
	provisioned := map[string]any{
		"billing_mode": "PROVISIONED", "write_units": units(1000, 4000), "read_units": units(500, 500), "index_write_units": units(50, 1000), "index_read_units": units(50, 1000),
		"first_write_units": 500, "first_read_units": 501, "first_index_write_units": 502, "first_index_read_units": 503,
	}
	for _, row := range []struct {
		over    map[string]any
		refused string
	}{
		{map[string]any{}, ""},
		{map[string]any{"write_units": units(4000, 1000)}, "write_units must be null, or whole numbers such as"},
		{map[string]any{"write_units": units(0.5, 1000)}, "write_units must be null, or whole numbers such as"},
		{map[string]any{"first_read_units": 0}, "PROVISIONED needs first_write_units, first_read_units"},
		{map[string]any{"write_units": nil}, "PROVISIONED needs write_units, read_units"},
		{map[string]any{"max_read_units": 5}, "so set max_write_units and max_read_units to 0"},
		{map[string]any{"warm_read_units": 5}, "warm_read_units must be 0 or a whole number from 12000 to 9999999."},
		{map[string]any{"deletion_protection": "sometimes"}, "a bool is required"},
		{map[string]any{"billing_mode": "FREE"}, "billing_mode must be PAY_PER_REQUEST or PROVISIONED."},
	} {
		w.values(t, "data", merge(provisioned, row.over))
		out, err := w.run(t, "data", "plan", "-input=false", "-no-color")
		if row.refused == "" {
			require.NoError(t, err, out)
			assert.Contains(t, out, "max_capacity")
			continue
		}
		require.Error(t, err, row.refused)
		text := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(out)), " ")
		assert.Contains(t, text, row.refused)
	}
}
