package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

func TestAnEmbeddedFanfareHasTheSettingsOfUp(t *testing.T) {
	t.Parallel()
	c, err := config.LoadEmbedded(map[string]string{"FANFARE_REACTIONS": "love,wow", "FANFARE_TABLE": "", "FANFARE_ENGINE": "embedded"}, config.API)
	require.NoError(t, err)
	assert.Equal(t, []string{"love", "wow"}, c.Reactions)
	assert.Equal(t, config.AuthDev, c.Auth)
}

func TestASettingThatNoEmbeddedFanfareHasIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		role        config.Role
		fault       string
	}{
		{"FANFARE_ENGINE", "aws", config.API, "FANFARE_ENGINE: a Fanfare inside a program has the embedded engine: remove it"},
		{"FANFARE_TABLE", "feed", config.API, "FANFARE_TABLE: it is of api, fanout, likeagg, table, reconcile, verify, explain, delivery: remove it"},
		{"FANFARE_DEV_AUTH_ON_AWS", "allow", config.API, "FANFARE_DEV_AUTH_ON_AWS: it is of api: remove it"},
		{"FANFARE_LOG_LEVEL", "debug", config.API, "FANFARE_LOG_LEVEL: the program writes the log: set the level of its own logger"},
		{"REACTIONS", "love", config.API, "REACTIONS is unknown: remove it"},
		{"FANFARE_REACTION", "love", config.API, "FANFARE_REACTION is unknown: did you mean FANFARE_REACTIONS?"},
		{"FANFARE_LEASE", "1s", config.API, "FANFARE_LEASE is no setting any more: remove it, because the lease is three fifths of FANFARE_FAILOVER_AFTER, 3s at most"},
		{"FANFARE_REACTIONS", "like", config.Site, "FANFARE_REACTIONS: like is there already: name each kind once, and like never"},
		{"FANFARE_PEER", "two:7070", config.Site, "FANFARE_PEER_ADDR is missing: the other machine calls this address, so FANFARE_PEER needs it"},
		{"FANFARE_AUTH", "jwt", config.Site, "FANFARE_AUTH: the program identifies the callers, in place of tokens: remove it"},
		{"FANFARE_JWT_ISSUER", "https://issuer.example", config.Site, "FANFARE_JWT_ISSUER: the program identifies the callers, in place of tokens: remove it"},
		{"FANFARE_DEV_SECRET", "short", config.Site, "FANFARE_DEV_SECRET: the program identifies the callers, in place of tokens: remove it"},
		{"FANFARE_SERVICE_SCOPE", "act", config.Site, "FANFARE_SERVICE_SCOPE: the program identifies the callers, in place of tokens: remove it"},
	} {
		_, err := config.LoadEmbedded(map[string]string{c.name: c.value}, c.role)
		var faults *config.Error
		require.ErrorAs(t, err, &faults, c.name)
		assert.Contains(t, faults.Faults, c.fault)
	}
}

// A site has the limits of a server for many users, and may listen where other machines reach it: nobody can ask it for a token.
func TestASiteNeedsNoToken(t *testing.T) {
	t.Parallel()
	c, err := config.LoadEmbedded(map[string]string{"FANFARE_HTTP_ADDR": "0.0.0.0:8080"}, config.Site)
	require.NoError(t, err)
	assert.Equal(t, config.AuthSite, c.Auth)
	assert.Equal(t, 100, c.RateLimit)
	_, err = config.Load([]string{"FANFARE_AUTH=site"}, config.API)
	require.ErrorContains(t, err, `FANFARE_AUTH: "site" is not dev or jwt`)
}
