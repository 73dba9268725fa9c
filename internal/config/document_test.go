package config_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

var update = flag.Bool("update", false, "write the tables of docs/CONFIGURATION.md and the settings of the chart")

const pagePath = "../../docs/CONFIGURATION.md"

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(pagePath)
	require.NoError(t, err)
	return string(text)
}

// changing is the heading of the section about changes of settings.
const changing = "## Changing a setting\n"

// stored are the settings that decide about stored things or identities. A change of such a setting
// could break an invariant. So the setting's row in the document names the test of the invariant.
var stored = []string{
	"FANFARE_ENGINE", "FANFARE_DATA_DIR", "FANFARE_ARCHIVE", "FANFARE_QUEUE_PREFIX", "FANFARE_EVENTS_QUEUE", "FANFARE_EVENTS_KEPT", "FANFARE_AUTH",
	"FANFARE_JWT_ISSUER", "FANFARE_JWT_AUDIENCE", "FANFARE_JWKS_URL", "FANFARE_JWT_USER_CLAIM", "FANFARE_SERVICE_SCOPE",
	"FANFARE_LIKE_WINDOW", "FANFARE_TIMELINE_TTL", "FANFARE_PUSH_LIMIT", "FANFARE_ACTIVE_DAYS", "FANFARE_MAX_FOLLOWING",
	"FANFARE_LIKES_BY_USER", "FANFARE_REACTIONS", "FANFARE_DEV_SECRET",
}

// The document names each variable in the table of changes. A variable in stored has its own
// row. docs_test.go checks that the named tests exist.
func TestTheDocumentDescribesTheChangeOfEachVariable(t *testing.T) {
	want, got := config.Names(), []string{}
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

// The tables of the document are made from the tags and comments of Config, and from the former settings.
func TestTheDocumentListsEveryVariable(t *testing.T) {
	meanings := meanings(t)
	rows, removed := "| variable | default | values | read by | meaning |\n|---|---|---|---|---|\n", "| variable | now |\n|---|---|\n"
	for _, f := range config.Fields() {
		rows += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", f.Name, defaults(f), values(f), ticked(f.By), meanings[f.In])
	}
	for _, r := range config.AllRemoved() {
		removed += fmt.Sprintf("| `%s` | %s |\n", r.Name, regexp.MustCompile("FANFARE_[A-Z_]+").ReplaceAllString(r.Now, "`$0`"))
	}
	same(t, pagePath, func(was string) string {
		is := regexp.MustCompile(`(?m)^\| variable \| default .*\n(\|.*\n)*`).ReplaceAllLiteralString(was, rows)
		is = regexp.MustCompile(`(?m)^\| variable \| now .*\n(\|.*\n)*`).ReplaceAllLiteralString(is, removed)
		idle := regexp.MustCompile(`(?m)^.* \| – \| nothing stored \|$`) // the settings of no other row
		_, changes, _ := strings.Cut(idle.ReplaceAllLiteralString(is, ""), changing)
		var others []string
		for _, f := range config.Fields() {
			if !strings.Contains(changes, "\n| `"+f.Name+"` |") {
				others = append(others, f.Name)
			}
		}
		return idle.ReplaceAllLiteralString(is, "| "+ticked(others)+" | – | nothing stored |")
	})
	programs := []string{"all", "api", "fanout", "likeagg", "up", "token", "table", "queues", "dlq", "reconcile", "verify", "explain", "delivery", "health", "replay"}
	for _, f := range config.Fields() {
		assert.Subset(t, programs, f.By, f.Name)
	}
}

// meanings returns the comment of each field of Config without the name of the field, as the document has it.
func meanings(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	require.NoError(t, err)
	of := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok || field.Tag == nil {
			return true
		}
		name := field.Names[0].Name
		text := strings.TrimSuffix(strings.Join(strings.Fields(field.Doc.Text()), " "), ".")
		for _, verb := range []string{" is ", " are ", ": "} {
			if meaning, ok := strings.CutPrefix(text, name+verb); ok {
				of[name] = meaning
			}
		}
		assert.NotEmptyf(t, of[name], "the comment of %s begins with %s is, %s are or %s:", name, name, name, name)
		return true
	})
	return of
}

// defaults describes the value of an absent variable.
func defaults(f config.Field) string {
	if f.Default == "" {
		return cmp.Or(strings.ReplaceAll(f.Unset, "'", "`"), "none")
	}
	parts := []string{"`" + f.Default + "`"}
	for _, other := range []struct{ where, value string }{{"on `aws`", f.AWS}, {"with dev tokens", f.Dev}, {"with `up`", f.Up}} {
		if other.value != "" {
			parts = append(parts, other.where+" `"+other.value+"`")
		}
	}
	return strings.Join(parts, ", ")
}

// values describes the values that a start accepts.
func values(f config.Field) string {
	bounds := ""
	switch {
	case f.High != "":
		bounds = f.Low + " to " + f.High
	case f.Low != "":
		bounds = f.Low + " or more"
	}
	switch {
	case f.Kind == "switch":
		return "`on`, `off`"
	case len(f.Words) > 0:
		return ticked(f.Words)
	case f.Zero != "":
		return "0, " + bounds
	case f.Most > 0:
		return fmt.Sprintf("up to %d, each %s", f.Most, f.Is)
	}
	if bounds == "" && regexp.MustCompile("^[0-9]").MatchString(f.Is) {
		return f.Is
	}
	return bounds
}

func ticked(words []string) string {
	if slices.Equal(words, []string{"all"}) {
		return "all"
	}
	return "`" + strings.Join(words, "`, `") + "`"
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
