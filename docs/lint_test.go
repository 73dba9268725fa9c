package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lintRule is one depguard rule of .golangci.yml.
type lintRule struct {
	strict bool
	files  string
	// own are the packages of Fanfare that it allows, without the module's name.
	own []string
}

// lintRules returns the depguard rules by the folder that they are for.
func lintRules(t *testing.T) map[string]lintRule {
	t.Helper()
	text, err := os.ReadFile("../.golangci.yml")
	require.NoError(t, err)
	_, text2, ok := strings.Cut(string(text), "    depguard:\n      rules:\n")
	require.True(t, ok, ".golangci.yml has no depguard rules")
	rules, rule := map[string]lintRule{}, lintRule{}
	add := func() {
		if folder := regexp.MustCompile(`"\*\*/(.*)/\*\.go", "!\$test"`).FindStringSubmatch(rule.files); folder != nil {
			slices.Sort(rule.own)
			rules[folder[1]] = rule
		}
		rule = lintRule{}
	}
	for line := range strings.Lines(text2) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, "        ") {
			break // the next linter's settings
		}
		field := strings.TrimSpace(line)
		switch {
		case line == "        "+field && strings.HasSuffix(field, ":"):
			add()
		case field == "list-mode: strict":
			rule.strict = true
		case strings.HasPrefix(field, "files: "):
			rule.files = field
		case strings.HasPrefix(field, "- "+module(t)+"/"):
			rule.own = append(rule.own, strings.TrimSuffix(strings.TrimPrefix(field, "- "+module(t)+"/"), "$"))
		}
	}
	add()
	return rules
}

// module returns the name of the root module.
func module(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	name, _, _ := strings.Cut(strings.TrimPrefix(string(text), "module "), "\n")
	return name
}

// The table of ARCHITECTURE.md and the lint rules say the same of each folder.
func TestEachFolderOfTheArchitectureHasItsLintRule(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	rules := lintRules(t)
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) != 4 || !strings.HasPrefix(cells[0], "| `") {
			continue
		}
		folder := strings.TrimSuffix(strings.Trim(cells[0], "| `"), "/")
		if !hasProduct(t, folder) {
			continue
		}
		rows++
		rule, ok := rules[folder]
		if !ok || !rule.strict {
			t.Errorf("%s has no strict depguard rule in .golangci.yml", folder)
			continue
		}
		var imports []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			if _, err := os.Stat("../internal/" + m[1]); err == nil {
				m[1] = "internal/" + m[1]
			}
			imports = append(imports, m[1])
		}
		slices.Sort(imports)
		assert.Truef(t, slices.Equal(imports, rule.own),
			"%s: the table lists the imports\n%v, and the lint rule allows\n%v", folder, imports, rule.own)
		delete(rules, folder)
	}
	assert.GreaterOrEqualf(t, rows, 30, "the table has %d folders with code only", rows)
	for folder := range rules {
		t.Errorf("the lint rule for %s has no row in ARCHITECTURE.md", folder)
	}
}

// hasProduct reports whether the folder holds Go files of the root module other than
// tests.
func hasProduct(t *testing.T, folder string) bool {
	t.Helper()
	if _, err := os.Stat("../" + folder + "/go.mod"); err == nil {
		return false
	}
	entries, err := os.ReadDir("../" + folder)
	assert.NoErrorf(t, err, "ARCHITECTURE.md has a row for %s", folder)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go")
	})
}
