package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ruleRow matches the definition of a rule on a page, with the rule's names in the model, if it has any.
var ruleRow = regexp.MustCompile(`(?m)^- \*\*([A-Z][0-9]+)\*\* .*?(?: \(([A-Za-z, ]+)\))?$`)

// A number of a rule that code or a page cites is defined on the page of the rules, once.
func TestEachRuleThatIsCitedIsDefined(t *testing.T) {
	t.Parallel()
	for _, rules := range []struct {
		page  string
		cited *regexp.Regexp // P50 and above are percentiles
		least int
	}{
		{"PAIR.md", regexp.MustCompile(`\bP([1-9]|[1-4][0-9])\b`), 100},
		{"decisions/0054-archive.md", regexp.MustCompile(`\bA[1-9]\b`), 8},
	} {
		var defined []string
		for _, row := range ruleRow.FindAllStringSubmatch(read(t, rules.page), -1) {
			assert.NotContainsf(t, defined, row[1], "%s defines %s twice", rules.page, row[1])
			defined = append(defined, row[1])
		}
		citations := 0
		err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
			if name := entry.Name(); err == nil && entry.IsDir() && path != ".." && (name == "bin" || name == "node_modules" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			if err != nil || entry.IsDir() || !slices.Contains([]string{".go", ".md", ".tla"}, filepath.Ext(path)) {
				return err
			}
			for _, rule := range rules.cited.FindAllString(read(t, path), -1) {
				citations++
				assert.Containsf(t, defined, rule, "%s cites the rule %s, which %s does not define", path, rule, rules.page)
			}
			return nil
		})
		require.NoError(t, err)
		assert.GreaterOrEqualf(t, citations, rules.least, "citations of the rules on %s", rules.page)
	}
}

// PAIR.md names each rule of the model, and no other one.
func TestThePageOfThePairNamesTheRulesOfTheModel(t *testing.T) {
	t.Parallel()
	var named []string
	for _, row := range ruleRow.FindAllStringSubmatch(read(t, "PAIR.md"), -1) {
		named = append(named, strings.Split(row[2], ", ")...)
	}
	assert.ElementsMatch(t, rulesOf(t, "Standby"), named)
}
