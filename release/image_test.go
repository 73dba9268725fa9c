package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The image of a release has the settings of the image that deploy/Dockerfile builds.
func TestTheImageHasTheSettingsOfTheDockerfile(t *testing.T) {
	text, err := os.ReadFile("../deploy/Dockerfile")
	require.NoError(t, err)
	_, last, _ := strings.Cut(string(text), "FROM scratch\n")
	setting := func(instruction string) string {
		found := regexp.MustCompile(`(?m)^` + instruction + ` (.*)$`).FindStringSubmatch(last)
		require.NotNil(t, found, instruction)
		return found[1]
	}
	got := config()
	var command []string
	require.NoError(t, json.Unmarshal([]byte(setting("CMD")), &command))
	assert.Equal(t, command, got.Cmd)
	assert.Equal(t, []string{setting("ENV")}, got.Env)
	assert.Equal(t, setting("WORKDIR"), got.WorkingDir)
	assert.Equal(t, setting("USER"), got.User)
	assert.Contains(t, got.Volumes, setting("VOLUME"))
	assert.Contains(t, got.ExposedPorts, setting("EXPOSE")+"/tcp")
	health := got.Healthcheck
	assert.Equal(t, `--interval=`+health.Interval.String()+` --timeout=`+health.Timeout.String()+` --start-period=60s CMD ["`+
		strings.Join(health.Test[1:], `", "`)+`"]`, setting("HEALTHCHECK"))
	assert.InDelta(t, 60, health.StartPeriod.Seconds(), 0)
}
