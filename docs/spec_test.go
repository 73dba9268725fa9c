package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rule matches the constant of a rule in a model, and counterexample matches the run without that rule.
// pageRule matches the row of a page with the length of the path to the fault.
var (
	rule           = regexp.MustCompile(`(?m)^  ([A-Z][A-Za-z]*),? +\\\*`)
	counterexample = regexp.MustCompile(`(?m)^([A-Z][A-Za-z]*) +(?:ok|[A-Z][a-z]*(?:/([0-9]+))?)`)
	pageRule       = regexp.MustCompile(`(?m)^\| .* \| ([A-Z][A-Za-z]*) \| .* \| ([0-9]+) \|$`)
)

func TestEachRuleOfAModelHasItsRun(t *testing.T) {
	pages := map[string]string{"Bylines": "decisions/0037-bylines.md", "Budget": "decisions/0044-hour-of-a-user.md"}
	for _, model := range []string{"Kinds", "Homes", "Bylines", "Removal", "Budget", "Archive", "PairArchive", "Standby"} {
		runs, lengths := read(t, "../spec/"+model+".runs"), map[string]string{}
		for _, run := range counterexample.FindAllStringSubmatch(runs, -1) {
			lengths[run[1]] = run[2]
		}
		for _, name := range rulesOf(t, model) {
			if _, ok := lengths[name]; !ok && !strings.Contains(runs, " "+name+"=FALSE") {
				t.Errorf("%s.runs has no run without the rule %s", model, name)
			}
		}
		name, ok := pages[model]
		if !ok {
			continue
		}
		page := map[string]string{}
		for _, row := range pageRule.FindAllStringSubmatch(read(t, name), -1) {
			page[row[1]] = row[2]
		}
		assert.Equal(t, lengths, page, "the runs and %s name the same rules and numbers of states", name)
	}
}

// rulesOf returns the constants of the rules of a model.
func rulesOf(t *testing.T, model string) (names []string) {
	t.Helper()
	_, rules, found := strings.Cut(read(t, "../spec/"+model+".tla"), `\* Rules`)
	require.True(t, found)
	rules, _, found = strings.Cut(rules, "VARIABLES")
	require.True(t, found)
	for _, constant := range rule.FindAllStringSubmatch(rules, -1) {
		names = append(names, constant[1])
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}
