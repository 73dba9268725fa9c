package e2e

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

// load reads docker-compose.yml with the variables env, as `docker compose` does.
func load(t *testing.T, env map[string]string) *types.Project {
	t.Helper()
	return loadFrom(t, "..", env)
}

// loadFrom reads the docker-compose.yml of a folder.
func loadFrom(t *testing.T, folder string, env map[string]string) *types.Project {
	t.Helper()
	project, err := loadProject(t, folder, env)
	require.NoError(t, err)
	return project
}

func loadProject(t *testing.T, folder string, env map[string]string) (*types.Project, error) {
	t.Helper()
	root, err := filepath.Abs(folder)
	require.NoError(t, err)
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  root,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(root, "docker-compose.yml")}},
		Environment: env,
	}, loader.WithProfiles([]string{"*"}))
}

// daemons returns the services that run without an end, with the role of each service.
func daemons() map[string]config.Role {
	return map[string]config.Role{"api": config.API, "fanout": config.Worker, "likeagg": config.Worker}
}

func service(t *testing.T, project *types.Project, name string) types.ServiceConfig {
	t.Helper()
	s, err := project.GetService(name)
	require.NoError(t, err)
	return s
}

func TestComposeHasTheServicesOfProduction(t *testing.T) {
	project := load(t, nil)
	names := project.ServiceNames()
	slices.Sort(names)
	want := []string{"api", "fanout", "likeagg", "localstack", "setup", "setup-table"}
	assert.Truef(t, slices.Equal(names, want), "services %v, want %v", names, want)
	for name, want := range map[string]string{
		"setup-table": "fanfare table create", "setup": "fanfare queues create",
		"api": "api", "fanout": "fanout", "likeagg": "likeagg",
	} {
		assert.Equalf(t, want, strings.Join(service(t, project, name).Command, " "), "%s runs", name)
	}
	if d := service(t, project, "fanout").Deploy; d == nil || d.Replicas == nil || *d.Replicas != 2 {
		t.Error("fanout does not have two replicas")
	}
}

func TestComposePinsLocalStack(t *testing.T) {
	s := service(t, load(t, nil), "localstack")
	assert.Equalf(t, "localstack/localstack:4.14.0", s.Image,
		"image %s: 4.14.0 is the last that starts without an account token", s.Image)
	if v := s.Environment["SERVICES"]; v == nil || *v != "sqs,dynamodb" {
		t.Error("LocalStack has to run sqs and dynamodb only")
	}
}

func TestComposePublishesOnLoopbackOnly(t *testing.T) {
	for name, s := range load(t, nil).Services {
		for _, p := range s.Ports {
			assert.Equalf(t, "127.0.0.1", p.HostIP, "%s publishes %s on", name, p.Published)
		}
	}
}

func TestComposeLimitsMemoryAndTellsGo(t *testing.T) {
	for name, s := range load(t, nil).Services {
		if s.Deploy == nil || s.Deploy.Resources.Limits == nil || s.Deploy.Resources.Limits.MemoryBytes <= 0 {
			t.Errorf("%s has no memory limit", name)
			continue
		}
		if name == "localstack" {
			continue
		}
		limit := int64(s.Deploy.Resources.Limits.MemoryBytes)
		soft := s.Environment["GOMEMLIMIT"]
		if soft == nil {
			t.Errorf("%s has no GOMEMLIMIT", name)
			continue
		}
		mib, err := strconv.ParseInt(strings.TrimSuffix(*soft, "MiB"), 10, 64)
		if share := float64(mib<<20) / float64(limit); err != nil || share < 0.8 || share > 0.9 {
			t.Errorf("%s: GOMEMLIMIT %s is %.0f %% of the limit, want 80 to 90 (%v)", name, *soft, 100*share, err)
		}
	}
}

func TestComposeStartsInOrderAndWatchesHealth(t *testing.T) {
	project := load(t, nil)
	after := func(name, other, condition string) {
		t.Helper()
		assert.Equalf(t, condition, service(t, project, name).DependsOn[other].Condition, "%s waits for %s until", name, other)
	}
	after("setup-table", "localstack", types.ServiceConditionHealthy)
	after("setup", "setup-table", types.ServiceConditionCompletedSuccessfully)
	for name := range daemons() {
		after(name, "localstack", types.ServiceConditionHealthy)
		after(name, "setup", types.ServiceConditionCompletedSuccessfully)
		if h := service(t, project, name).HealthCheck; h == nil || !strings.HasSuffix(strings.Join(h.Test, " "), ":9091/servez") {
			t.Errorf("%s has no health check by /servez of its metrics address", name)
		}
	}
	for name := range daemons() {
		if grace := service(t, project, name).StopGracePeriod; grace == nil || time.Duration(*grace) < stopTakes {
			t.Errorf("%s is killed before its stop ends", name)
		}
	}
	if h := service(t, project, "localstack").HealthCheck; h == nil || len(h.Test) == 0 {
		t.Error("localstack has no health check")
	}
	for _, name := range []string{"setup", "setup-table"} {
		assert.Equalf(t, "no", service(t, project, name).Restart, "%s restarts", name)
	}
}

// The product starts with every environment in docker-compose.yml.
func TestComposeEnvironmentsAreAccepted(t *testing.T) {
	for _, env := range []map[string]string{nil, {"FANFARE_DEV_SECRET": strings.Repeat("s", 32), "FANFARE_LOG_LEVEL": "debug"}} {
		for name, s := range load(t, env).Services {
			if name == "localstack" {
				continue
			}
			var environ []string
			for key, value := range s.Environment {
				if value == nil {
					t.Errorf("%s takes %s from the environment of docker compose", name, key)
					continue
				}
				environ = append(environ, key+"="+*value)
			}
			role, ok := daemons()[name]
			if !ok {
				role = config.Tool
			}
			cfg, err := config.Load(environ, role)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if cfg.MetricsAddr != "0.0.0.0:9091" || cfg.AdminIsPublic() {
				t.Errorf("%s: metrics on %q, admin on %q: the network needs the first only", name, cfg.MetricsAddr, cfg.AdminAddr)
			}
			if cfg.Engine != config.EngineAWS || len(cfg.DevSecret) < 32 {
				t.Errorf("%s: engine %s, a secret of %d bytes", name, cfg.Engine, len(cfg.DevSecret))
			}
			if secret, given := env["FANFARE_DEV_SECRET"]; given && cfg.DevSecret != secret {
				t.Errorf("%s does not take the user's secret", name)
			}
		}
	}
}
