package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestComposeOfOneMachineRuns starts the command of the compose file with its environment, and asks by the command of its
// health check. A process stands in for the container.
func TestComposeOfOneMachineRuns(t *testing.T) {
	t.Parallel()
	project := loadFrom(t, "../deploy/one", map[string]string{
		"FANFARE_JWT_ISSUER": "https://issuer.example", "FANFARE_JWT_AUDIENCE": "feed", "FANFARE_ARCHIVE": "s3://bucket/fanfare",
	})
	require.Equal(t, []string{"fanfare"}, project.ServiceNames())
	s := service(t, project, "fanfare")
	require.Len(t, s.Ports, 1)
	assert.Equal(t, []any{"127.0.0.1", "8080", uint32(8080)}, []any{s.Ports[0].HostIP, s.Ports[0].Published, s.Ports[0].Target})
	require.Len(t, s.Volumes, 1)
	env := map[string]string{}
	for name, value := range s.Environment {
		require.NotNil(t, value, name)
		env[name] = *value
	}
	assert.Equal(t, s.Volumes[0].Target, env["FANFARE_DATA_DIR"], "the data are in the volume")
	assert.True(t, s.ReadOnly)
	isMemoryLimit(t, s.Name, env["GOMEMLIMIT"], "1024")
	assert.Equal(t, int64(1<<30), int64(s.Deploy.Resources.Limits.MemoryBytes))

	d := deployed{command: s.Command, env: env, grace: time.Duration(*s.StopGracePeriod)}
	d.place(t, map[string]string{"FANFARE_ARCHIVE": "file://" + t.TempDir()})
	check := s.HealthCheck.Test
	require.Equal(t, "CMD fanfare", strings.Join(check[:2], " "))
	d.survivesARestart(t, func() bool {
		_, _, err := fanfare(t, entries(d.env), check[2:]...)
		return err == nil
	})
}

// TestComposeOfOneMachineNamesAMissingSetting loads the file without each setting that has no default.
func TestComposeOfOneMachineNamesAMissingSetting(t *testing.T) {
	t.Parallel()
	for given, missing := range map[string]string{"FANFARE_JWT_AUDIENCE": "FANFARE_JWT_ISSUER", "FANFARE_JWT_ISSUER": "FANFARE_JWT_AUDIENCE"} {
		_, err := loadProject(t, "../deploy/one", map[string]string{given: "https://issuer.example"})
		require.ErrorContains(t, err, missing+" is missing a value: set it to the ")
	}
}
