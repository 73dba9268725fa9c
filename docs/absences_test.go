package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// absence finds sentences that deny a thing.
var absence = regexp.MustCompile(`(?i)not built|\bno (\w+ ){1,3}yet\b|not there yet|does not exist|there is no\b|there are no\b`)

// denied returns the sentences of absence in the pages and in the strings of the product, each with its file.
func denied(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(file, text string) {
		for _, at := range absence.FindAllStringIndex(text, -1) {
			all[file+": "+strings.TrimSpace(text[max(0, at[0]-30):min(len(text), at[1]+30)])] = text
		}
	}
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../README.md") {
		raw, err := os.ReadFile(page)
		require.NoError(t, err)
		for line := range strings.Lines(string(raw)) {
			add(filepath.Base(page), line)
		}
	}
	for _, dir := range []string{"../cmd", "../internal", "../client", "../producer", "../messages"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_templ.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						add(strings.TrimPrefix(path, "../"), text)
					}
				}
				return true
			})
			return nil
		}))
	}
	return all
}

// TestASentenceOfAbsenceIsTrue checks each sentence that denies a thing against absences.txt: the file, a part of the
// sentence, and the path or the text in a file that would make the sentence false, or "data" if the sentence is about
// the findings of a run.
func TestASentenceOfAbsenceIsTrue(t *testing.T) {
	raw, err := os.ReadFile("absences.txt")
	require.NoError(t, err)
	type entry struct{ file, part, falsified string }
	var entries []entry
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, " | ")
		require.Len(t, fields, 3, line)
		entries = append(entries, entry{fields[0], fields[1], fields[2]})
	}
	used := map[entry]bool{}
	for where := range denied(t) {
		file, text, _ := strings.Cut(where, ": ")
		found := false
		for _, e := range entries {
			if e.file == file && strings.Contains(text, e.part) {
				found, used[e] = true, true
			}
		}
		assert.True(t, found, "absences.txt does not name what would make this false: %s", where)
	}
	for _, e := range entries {
		assert.True(t, used[e], "no such sentence any more: %s | %s", e.file, e.part)
		if e.falsified == "data" {
			continue
		}
		path, text, _ := strings.Cut(e.falsified, " has ")
		there, err := os.ReadFile(filepath.Join("..", path))
		info, missing := os.Stat(filepath.Join("..", path))
		exists := missing == nil && (text == "" || !info.IsDir() && err == nil && strings.Contains(string(there), text))
		assert.False(t, exists, "%s: %q is false, because %s", e.file, e.part, e.falsified)
		if text != "" {
			assert.NoError(t, missing, "%s: the file of the falsifier is gone: %s", e.file, e.falsified)
		}
	}
}
