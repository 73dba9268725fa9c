package docs

import (
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

// Each folder of the product has a row in ARCHITECTURE.md and a strict rule of depguard. No rule names a
// folder that does not exist.
func TestEachFolderOfTheProductHasItsRowAndItsLintRule(t *testing.T) {
	page := read(t, "ARCHITECTURE.md")
	var ruled, folders []string
	for _, m := range regexp.MustCompile(`list-mode: strict, files: \["(?:\*\*/)?([^"*]+)/\*\.go"`).FindAllStringSubmatch(read(t, "../.golangci.yml"), -1) {
		ruled = append(ruled, m[1])
	}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		folder := filepath.ToSlash(strings.TrimPrefix(path, "../"))
		if path == ".." {
			folder = "${base-path}" // the root, as the linter names it
		}
		if isModule := path != ".." && exists(path+"/go.mod"); isModule || d.Name() == "testdata" || len(d.Name()) > 2 && d.Name()[0] == '.' {
			return filepath.SkipDir
		}
		if hasProduct(t, path) {
			folders = append(folders, folder)
			folder = strings.Replace(folder, "${base-path}", "fanfare.go", 1)
			assert.Truef(t, strings.Contains(page, "\n| `"+folder+"` |") || strings.Contains(page, "\n| `"+folder+"/` |"), "ARCHITECTURE.md has no row for %s", folder)
		}
		return nil
	})
	require.NoError(t, err)
	slices.Sort(ruled)
	slices.Sort(folders)
	assert.Equal(t, folders, ruled, "the folders of the product, and those with a strict rule in .golangci.yml")
	assert.GreaterOrEqualf(t, len(folders), 30, "there are %d folders only", len(folders))
}

// module returns the name of the root module.
func module(t *testing.T) string {
	t.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(read(t, "../go.mod"), "module "), "\n")
	return name
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hasProduct reports whether a folder has Go files that are not tests.
func hasProduct(t *testing.T, path string) bool {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go")
	})
}
