package e2e

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

// pairFolder has the compose file of a pair, and the settings of its proxy.
const pairFolder = "../deploy/pair"

func TestComposeOfAPairHasTwoMachinesBehindAProxy(t *testing.T) {
	project := loadFrom(t, pairFolder, map[string]string{"FANFARE_REGISTER": "s3://bucket/pair"})
	addresses := map[string]string{}
	for _, name := range []string{"one", "two"} {
		s := service(t, project, name)
		var environ []string
		for key, value := range s.Environment {
			require.NotNil(t, value, key)
			environ = append(environ, key+"="+*value)
		}
		cfg, err := config.Load(environ, config.API)
		require.NoError(t, err, name)
		assert.True(t, cfg.HasPair() && cfg.Register != "" && !cfg.AdminIsPublic(), name)
		assert.Empty(t, s.Ports, "clients reach %s by the proxy", name)
		addresses[name] = name + cfg.PeerAddr[strings.LastIndex(cfg.PeerAddr, ":"):]
		keys := path.Join("/keys", path.Base(service(t, project, "keys").Command[3]))
		assert.Equal(t, []string{keys + "/ca.crt", keys + "/" + name + ".crt", keys + "/" + name + ".key"}, []string{cfg.PeerCA, cfg.PeerCert, cfg.PeerKey})
		assert.True(t, strings.HasSuffix(strings.Join(s.HealthCheck.Test, " "), cfg.AdminAddr+"/healthz"), "%s: a standby is healthy, too", name)
		assert.GreaterOrEqual(t, time.Duration(*s.StopGracePeriod), stopTakes, name)
		assert.Equal(t, name == "two", strings.HasSuffix(strings.Join(s.Command, " "), " --standby"))
	}
	for name, other := range map[string]string{"one": "two", "two": "one"} {
		assert.Equal(t, addresses[other], *service(t, project, name).Environment["FANFARE_PEER"])
	}
	proxy := service(t, project, "proxy")
	assert.Regexp(t, `^haproxy:\d+\.\d+\.\d+-alpine$`, proxy.Image)
	for _, port := range proxy.Ports {
		assert.Equal(t, "127.0.0.1", port.HostIP)
	}
	assert.Equal(t, "haproxy.cfg", filepath.Base(proxy.Volumes[0].Source))
	settings, err := os.ReadFile(proxy.Volumes[0].Source)
	require.NoError(t, err)
	for _, want := range []string{"GET uri /readyz", "check inter 1s", "on-marked-down shutdown-sessions", "server one one:8080", "server two two:8080"} {
		assert.Contains(t, string(settings), want)
	}
}
