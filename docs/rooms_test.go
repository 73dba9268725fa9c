package docs

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// roomsOf returns the files of the domain from the bottom up, as ARCHITECTURE.md lists them.
func roomsOf(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "\n## The rooms of the domain\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n## ")
	var files []string
	for _, row := range regexp.MustCompile(`(?m)^\| \w+ \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		if row[1] == "files" {
			continue
		}
		for file := range strings.SplitSeq(row[1], ", ") {
			files = append(files, file+".go")
		}
	}
	return files
}

// The type of all methods is in service.go, so each file uses it, and it uses the parts of all.
const apart = "service.go"

func TestNoFileOfTheDomainUsesAFileAboveIt(t *testing.T) {
	rooms := roomsOf(t)
	fset := token.NewFileSet()
	var files []*ast.File
	var found []string
	sources, err := filepath.Glob("../internal/feed/*.go")
	require.NoError(t, err)
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, source, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
		if name := filepath.Base(source); name != apart {
			found = append(found, name)
		}
	}
	require.ElementsMatch(t, rooms, found, "the rooms of ARCHITECTURE.md and the files of internal/feed")

	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", compiled(t, "../internal/feed"))}
	pkg, err := config.Check(module(t)+"/internal/feed", fset, files, info)
	require.NoError(t, err)
	arrows := 0
	for use, object := range info.Uses {
		from, to := filepath.Base(fset.Position(use.Pos()).Filename), filepath.Base(fset.Position(object.Pos()).Filename)
		if object.Pkg() != pkg || from == to || from == apart || to == apart {
			continue
		}
		arrows++
		if slices.Index(rooms, to) > slices.Index(rooms, from) {
			t.Errorf("%s: %s is in %s, which stands above %s", fset.Position(use.Pos()), use.Name, to, from)
		}
	}
	require.Greater(t, arrows, 500, "the types were not resolved")
}

// compiled finds the compiled packages that the package in dir imports.
func compiled(t *testing.T, dir string) importer.Lookup {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "-C", dir, "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".").Output()
	require.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}
