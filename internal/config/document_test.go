package config_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/CONFIGURATION.md")
	require.NoError(t, err)
	return string(text)
}

// The table of the document has a row for each variable, in the order of Config, with its
// default and with programs that exist.
func TestTheDocumentListsEveryVariableWithItsDefault(t *testing.T) {
	var want, got []string
	for field := range reflect.TypeFor[config.Config]().Fields() {
		value := "none"
		if v, ok := field.Tag.Lookup("envDefault"); ok {
			value = "`" + v + "`"
		}
		if field.Name == "RateLimit" { // its default depends on Auth
			value = fmt.Sprintf("%d, with dev tokens %d",
				config.Config{Auth: config.AuthJWT}.RequestsPerSecond(), config.Config{Auth: config.AuthDev}.RequestsPerSecond())
		}
		if field.Name == "ServiceRateLimit" { // as RateLimit
			value = fmt.Sprintf("%d, with dev tokens %d",
				config.Config{Auth: config.AuthJWT}.ServiceRequestsPerSecond(), config.Config{Auth: config.AuthDev}.ServiceRequestsPerSecond())
		}
		if field.Name == "PushLimit" { // its default depends on Engine
			value = fmt.Sprintf("%d, on `aws` %d",
				config.Config{Engine: config.EngineEmbedded}.FollowersPushed(), config.Config{Engine: config.EngineAWS}.FollowersPushed())
		}
		if field.Name == "Drain" { // its default depends on Engine
			value = fmt.Sprintf("`%s`, on `aws` `%s`",
				config.Config{Engine: config.EngineEmbedded}.DrainTime(), config.Config{Engine: config.EngineAWS}.DrainTime())
		}
		if field.Name == "Console" && (config.Config{Engine: config.EngineEmbedded}).HasConsole() && !(config.Config{Engine: config.EngineAWS}).HasConsole() {
			value = "`on`, on `aws` `off`"
		}
		if field.Name == "Canary" && !(config.Config{}).HasCanary() { // the command up turns it on
			value = "`off`, with `up` `on`"
		}
		if field.Name == "Auditor" && !(config.Config{}).HasAuditor() { // as Canary
			value = "`off`, with `up` `on`"
		}
		want = append(want, field.Tag.Get("env")+" "+value)
	}
	readers := []string{"all", "`api`", "`fanout`", "`likeagg`", "`up`", "`token`", "`table`", "`queues`", "`dlq`", "`reconcile`", "`verify`", "`explain`", "`delivery`", "`health`", "`replay`"}
	for line := range strings.Lines(page(t)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| `FANFARE_") {
			continue
		}
		require.Lenf(t, cells, 4, "the row has %d cells: %s", len(cells), line)
		got = append(got, strings.Trim(cells[0], "| `")+" "+cells[1])
		for reader := range strings.SplitSeq(cells[2], ", ") {
			if !slices.Contains(readers, reader) {
				t.Errorf("%s is read by %s, which is no program", cells[0], reader)
			}
		}
	}
	for _, row := range want {
		assert.Contains(t, got, row, "docs/CONFIGURATION.md has no row for")
	}
	for _, row := range got {
		assert.Containsf(t, want, row, "docs/CONFIGURATION.md has a row for %s, which is not so", row)
	}
	if !t.Failed() && !slices.Equal(got, want) {
		t.Errorf("rows are not in the order of Config, or twice: %q", got)
	}
}

// The api starts with the environment of the document's section on Cognito, whose parts
// belong to one pool.
func TestTheDocumentedCognitoEnvironmentIsAccepted(t *testing.T) {
	_, section, ok := strings.Cut(page(t), "## Amazon Cognito\n")
	require.True(t, ok, "docs/CONFIGURATION.md has no section on Amazon Cognito")
	environ := regexp.MustCompile(`[A-Z_]+=\S+`).FindAllString(strings.Split(section, "```")[1], -1)
	c, err := config.Load(environ, config.API)
	require.NoError(t, err)
	if c.Engine != config.EngineAWS || c.Auth != config.AuthJWT || len(c.JWTAudience) != 1 || c.JWKSURL != "" || !slices.Contains(environ, "AWS_REGION="+strings.Split(c.JWTIssuer, ".")[1]) {
		t.Errorf("read %+v", c)
	}
}
