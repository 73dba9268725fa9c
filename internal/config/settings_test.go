package config_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

func TestSettingsAreWordsWithoutSecrets(t *testing.T) {
	cfg, err := config.Load([]string{
		"FANFARE_DEV_SECRET=0123456789abcdef0123456789abcdef", "FANFARE_REACTIONS=love,wow", "FANFARE_CANARY=on", "FANFARE_LIKE_WINDOW=2s",
	}, config.API)
	require.NoError(t, err)
	values := map[string]string{}
	for _, s := range cfg.Settings() {
		values[s.Name] = s.Value
	}
	for name, want := range map[string]string{
		"FANFARE_DEV_SECRET": "set", "FANFARE_REACTIONS": "love,wow", "FANFARE_CANARY": "on", "FANFARE_LIKE_WINDOW": "2s",
		"FANFARE_LIKES_BY_USER": "on", "FANFARE_ENGINE": "embedded", "FANFARE_EVENTS_QUEUE": "",
	} {
		assert.Equal(t, want, values[name], name)
	}
	assert.NotContains(t, fmt.Sprint(cfg.Settings()), "0123456789abcdef")
}
