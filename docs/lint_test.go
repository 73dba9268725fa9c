package docs

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the rules of depguard in .golangci.yml, and the sum of the runs in BUGS.md")

// The rules of depguard are those of the tables of ARCHITECTURE.md.
func TestLintRulesAreTheArchitecture(t *testing.T) {
	const file, begin, end = "../.golangci.yml", "        # begin of the generated rules", "        # end of the generated rules"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, ".golangci.yml has no generated rules")
	heading, rest, _ := strings.Cut(rest, "\n")
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "the generated rules have no end")
	rules := lintRules(t)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+heading+"\n"+rules+end+after), 0o600))
		return
	}
	assert.Equal(t, rules, old, "run go test ./docs -run Lint -update")
}

// A folder has no rule unless the table has it.
func TestLintRulesAreForEachFolderOfTheProduct(t *testing.T) {
	rows := folderRows(t)
	folders := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		folder := filepath.ToSlash(strings.TrimPrefix(path, "../"))
		if isModule := path != ".." && exists(path+"/go.mod"); isModule || d.Name() == "testdata" || len(d.Name()) > 2 && d.Name()[0] == '.' {
			return filepath.SkipDir
		}
		if hasProduct(t, path) {
			folders++
			assert.Truef(t, slices.ContainsFunc(rows, func(r folderRow) bool { return r.folder == folder }), "ARCHITECTURE.md has no row for %s", folder)
		}
		return nil
	})
	require.NoError(t, err)
	assert.GreaterOrEqualf(t, folders, 30, "there are %d folders only", folders)
}

// folderRow is a row of the table of folders: a folder and the packages that it may import.
type folderRow struct {
	folder  string
	imports []string
}

// folderRows returns the rows of the folders that hold code of the product.
func folderRows(t *testing.T) (rows []folderRow) {
	t.Helper()
	for _, cells := range architecture(t, 4) {
		folder := strings.TrimSuffix(cells[0][0], "/")
		if hasProduct(t, "../"+folder) && !exists("../"+folder+"/go.mod") {
			rows = append(rows, folderRow{folder, inFull(cells[2])})
		}
	}
	return rows
}

// architecture returns the names in backquotes of each cell, for the rows of ARCHITECTURE.md that
// begin with such a name and have a number of cells.
func architecture(t *testing.T, columns int) (rows [][][]string) {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	name := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) != columns || !strings.HasPrefix(line, "| `") {
			continue
		}
		row := make([][]string, columns)
		for i, cell := range cells {
			for _, m := range name.FindAllStringSubmatch(cell, -1) {
				row[i] = append(row[i], m[1])
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// inFull returns the folders that the tables name without "internal/".
func inFull(names []string) (folders []string) {
	for _, name := range names {
		if exists("../internal/" + name) {
			name = "internal/" + name
		}
		folders = append(folders, name)
	}
	return folders
}

// lintRules returns a strict rule for each row of the table of folders.
func lintRules(t *testing.T) string {
	t.Helper()
	libraries := map[string][]string{} // by folder
	for _, row := range architecture(t, 2) {
		if host, _, _ := strings.Cut(row[0][0], "/"); !strings.Contains(host, ".") {
			continue // a row of another table
		}
		for _, folder := range inFull(row[1]) {
			libraries[folder] = append(libraries[folder], row[0][0])
		}
	}
	var rules strings.Builder
	for _, row := range folderRows(t) {
		allowed := []string{"$gostd"}
		for _, own := range row.imports {
			assert.Truef(t, exists("../"+own), "%s may import %s, which does not exist", row.folder, own)
			allowed = append(allowed, module(t)+"/"+own+"$")
		}
		allowed = append(allowed, libraries[row.folder]...)
		delete(libraries, row.folder)
		slices.Sort(allowed)
		name := strings.ReplaceAll(strings.TrimPrefix(row.folder, "internal/"), "/", "-")
		files := fmt.Sprintf(`"**/%s/*.go", "!$test"`, row.folder)
		if !strings.Contains(row.folder, "/") { // an example may have a folder of this name
			files += `, "!**/examples/**"`
		}
		fmt.Fprintf(&rules, "        %s: {list-mode: strict, files: [%s], allow: [%s]}\n", name, files, strings.Join(allowed, ", "))
	}
	assert.Empty(t, libraries, "the table of libraries names folders that have no row")
	return rules.String()
}

// module returns the name of the root module.
func module(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	name, _, _ := strings.Cut(strings.TrimPrefix(string(text), "module "), "\n")
	return name
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hasProduct reports whether a folder holds Go files other than tests.
func hasProduct(t *testing.T, path string) bool {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoErrorf(t, err, "ARCHITECTURE.md has a row for %s", path)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go")
	})
}
