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

// changing is the heading of the section about changes of settings.
const changing = "## Changing a setting\n"

// stored are the settings that decide about stored things or identities. A change of such a setting
// could break an invariant. So the setting's row in the document names the test of the invariant.
var stored = []string{
	"FANFARE_ENGINE", "FANFARE_DATA_DIR", "FANFARE_ARCHIVE", "FANFARE_QUEUE_PREFIX", "FANFARE_EVENTS_QUEUE", "FANFARE_AUTH",
	"FANFARE_JWT_ISSUER", "FANFARE_JWT_AUDIENCE", "FANFARE_JWKS_URL", "FANFARE_JWT_USER_CLAIM", "FANFARE_SERVICE_SCOPE",
	"FANFARE_LIKE_WINDOW", "FANFARE_TIMELINE_TTL", "FANFARE_PUSH_LIMIT", "FANFARE_ACTIVE_DAYS", "FANFARE_MAX_FOLLOWING",
	"FANFARE_LIKES_BY_USER", "FANFARE_REACTIONS", "FANFARE_DEV_SECRET",
}

// The document names each variable in the table of changes. A variable in stored has its own
// row. docs_test.go checks that the named tests exist.
func TestTheDocumentDescribesTheChangeOfEachVariable(t *testing.T) {
	var want, got []string
	for field := range reflect.TypeFor[config.Config]().Fields() {
		want = append(want, field.Tag.Get("env"))
	}
	_, table, ok := strings.Cut(page(t), changing)
	require.True(t, ok)
	table, _, ok = strings.Cut(table, "\n## ")
	require.True(t, ok)
	held := regexp.MustCompile("^I[0-9]+(, I[0-9]+)*: `Test[A-Za-z0-9]+`(, `Test[A-Za-z0-9]+`)*$")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| `FANFARE_") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		require.Lenf(t, cells, 3, "the row has %d cells: %s", len(cells), line)
		for cell := range strings.SplitSeq(cells[0], ", ") {
			name, holds := strings.Trim(cell, "`"), cells[2]
			got = append(got, name)
			if slices.Contains(stored, name) && !held.MatchString(holds) {
				t.Errorf("%s decides about stored things, and its row names no invariant and test: %s", name, holds)
			}
		}
	}
	assert.ElementsMatch(t, want, got)
	for _, name := range stored {
		assert.Contains(t, want, name)
	}
}

// The document's table has a row for each variable, in the order of the fields of Config.
// The row has the default, and names only programs that exist.
func TestTheDocumentListsEveryVariableWithItsDefault(t *testing.T) {
	var want, got []string
	for field := range reflect.TypeFor[config.Config]().Fields() {
		value := "none"
		if v, ok := field.Tag.Lookup("envDefault"); ok {
			value = "`" + v + "`"
		}
		if field.Name == "RateLimit" { // the default depends on Auth
			value = fmt.Sprintf("%d, with dev tokens %d",
				config.Config{Auth: config.AuthJWT}.RequestsPerSecond(), config.Config{Auth: config.AuthDev}.RequestsPerSecond())
		}
		if field.Name == "ServiceRateLimit" { // the default depends on Auth
			value = fmt.Sprintf("%d, with dev tokens %d",
				config.Config{Auth: config.AuthJWT}.ServiceRequestsPerSecond(), config.Config{Auth: config.AuthDev}.ServiceRequestsPerSecond())
		}
		if field.Name == "UserUnits" { // the default depends on Engine
			value = fmt.Sprintf("%d, on `aws` %d",
				config.Config{Engine: config.EngineEmbedded}.UnitsPerHour(), config.Config{Engine: config.EngineAWS}.UnitsPerHour())
		}
		if field.Name == "PushLimit" { // the default depends on Engine
			value = fmt.Sprintf("%d, on `aws` %d",
				config.Config{Engine: config.EngineEmbedded}.FollowersPushed(), config.Config{Engine: config.EngineAWS}.FollowersPushed())
		}
		if field.Name == "Drain" { // the default depends on Engine
			value = fmt.Sprintf("`%s`, on `aws` `%s`",
				config.Config{Engine: config.EngineEmbedded}.DrainTime(), config.Config{Engine: config.EngineAWS}.DrainTime())
		}
		if field.Name == "StreamLikes" { // the default depends on Engine
			value = fmt.Sprintf("`%s`, on `aws` `%s`",
				config.Config{Engine: config.EngineEmbedded}.LikesTime(), config.Config{Engine: config.EngineAWS}.LikesTime())
		}
		if of, ok := map[string]string{
			"ArchiveEvery": config.Config{}.ArchiveInterval().String(), "ArchiveKeep": fmt.Sprintf("%.0fh", config.Config{}.ArchiveKept().Hours()),
			"ArchiveBaseLog": fmt.Sprintf("%dGiB", config.Config{}.BaseLog()>>30), "StreamSpool": fmt.Sprintf("%dGiB", config.Config{}.Spool()>>30),
			"StandbyTimeout": config.Config{}.StandbyWait().String(), "Lease": config.Config{}.LeaseTime().String(), "SeedRate": fmt.Sprintf("%dMiB", config.Config{}.SeedBytes()>>20),
			"Failover": string(config.FailoverManual), "FailoverAfter": config.Config{Failover: config.FailoverAuto}.PromotesAfter().String(),
		}[field.Name]; ok {
			value = "`" + of + "`"
		}
		if field.Name == "Register" && (config.Config{Peer: "two:1", Archive: "s3://bucket"}).HasRegister() && !(config.Config{Peer: "two:1", Archive: "file:///dir"}).HasRegister() {
			value = "an archive in `s3://`, else none"
		}
		if field.Name == "Alone" && (config.Config{Register: "s3://bucket"}).MayBeAlone() && !(config.Config{}).MayBeAlone() {
			value = "`auto` with a register, else `never`"
		}
		if field.Name == "Console" && (config.Config{Engine: config.EngineEmbedded}).HasConsole() && !(config.Config{Engine: config.EngineAWS}).HasConsole() {
			value = "`on`, on `aws` `off`"
		}
		if field.Name == "Notifications" && (config.Config{Engine: config.EngineEmbedded}).HasNotifications() && !(config.Config{Engine: config.EngineAWS}).HasNotifications() {
			value = "`on`, on `aws` `off`"
		}
		if field.Name == "Canary" && !(config.Config{}).HasCanary() { // the command up enables the canary
			value = "`off`, with `up` `on`"
		}
		if field.Name == "Auditor" && !(config.Config{}).HasAuditor() { // the command up enables the auditor
			value = "`off`, with `up` `on`"
		}
		want = append(want, field.Tag.Get("env")+" "+value)
	}
	readers := []string{"all", "`api`", "`fanout`", "`likeagg`", "`up`", "`token`", "`table`", "`queues`", "`dlq`", "`reconcile`", "`verify`", "`explain`", "`delivery`", "`health`", "`replay`"}
	settings, _, ok := strings.Cut(page(t), changing)
	require.True(t, ok)
	for line := range strings.Lines(settings) {
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

// The api accepts the environment in the document's section on Cognito. All parts of this
// environment belong to one pool.
func TestTheDocumentedCognitoEnvironmentIsAccepted(t *testing.T) {
	text, err := os.ReadFile("../../docs/TOKENS.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "## Amazon Cognito\n")
	require.True(t, ok, "docs/TOKENS.md has no section on Amazon Cognito")
	environ := regexp.MustCompile(`[A-Z_]+=\S+`).FindAllString(strings.Split(section, "```")[1], -1)
	c, err := config.Load(environ, config.API)
	require.NoError(t, err)
	if c.Engine != config.EngineAWS || c.Auth != config.AuthJWT || len(c.JWTAudience) != 1 || c.JWKSURL != "" || !slices.Contains(environ, "AWS_REGION="+strings.Split(c.JWTIssuer, ".")[1]) {
		t.Errorf("read %+v", c)
	}
}
