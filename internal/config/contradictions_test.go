package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

func TestContradictionsAreNamed(t *testing.T) {
	jwt := []string{"FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=i", "FANFARE_JWT_AUDIENCE=a", "FANFARE_JWKS_URL=https://i.test/k"}
	for name, row := range map[string]struct {
		env   []string
		want  string
		fatal bool
	}{
		"none":                       {},
		"none with jwt":              {env: jwt},
		"an issuer for dev tokens":   {[]string{"FANFARE_JWT_ISSUER=i"}, "FANFARE_JWT_ISSUER has no effect without FANFARE_AUTH=jwt", false},
		"a dev secret with jwt":      {append(jwt, "FANFARE_DEV_SECRET=0123456789012345678901234567890123456789"), "FANFARE_DEV_SECRET has no effect without FANFARE_AUTH=dev", false},
		"public dev tokens":          {[]string{"FANFARE_DEV_AUTH_PUBLIC=allow"}, "anyone who reaches the API", false},
		"a spool without archive":    {[]string{"FANFARE_STREAM_SPOOL=1GiB"}, "FANFARE_STREAM_SPOOL has no effect without FANFARE_ARCHIVE", false},
		"headers without origins":    {[]string{"FANFARE_CORS_HEADERS=x-a"}, "without FANFARE_CORS_ORIGINS", false},
		"pictures without a console": {[]string{"FANFARE_CONSOLE=off", "FANFARE_CONSOLE_IMAGES=https://a.example"}, "FANFARE_CONSOLE_IMAGES has no effect without FANFARE_CONSOLE=on", false},
		"more streams of one user":   {[]string{"FANFARE_STREAMS=4"}, "FANFARE_STREAMS_PER_USER is 8", false},
		"a public admin address":     {[]string{"FANFARE_ADMIN_ADDR=:9090"}, "asks for no token", false},
		"one address for two":        {[]string{"FANFARE_METRICS_ADDR=127.0.0.1:9090"}, "FANFARE_ADMIN_ADDR and FANFARE_METRICS_ADDR", true},
		"one port on all addresses":  {[]string{"FANFARE_METRICS_ADDR=:8080"}, "FANFARE_HTTP_ADDR and FANFARE_METRICS_ADDR", true},
		"any free port for two":      {env: []string{"FANFARE_ADMIN_ADDR=127.0.0.1:0", "FANFARE_METRICS_ADDR=127.0.0.1:0"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Load(row.env, config.API)
			require.NoError(t, err)
			found := cfg.Contradictions()
			if row.want == "" {
				assert.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			assert.Contains(t, found[0].Says, row.want)
			assert.NotEmpty(t, found[0].Mend)
			assert.Equal(t, row.fatal, found[0].Fatal)
		})
	}
}
