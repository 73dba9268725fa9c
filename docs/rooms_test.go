package docs

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rooms returns the files of each package of the domain by folder, from the bottom up, as ARCHITECTURE.md
// lists the files.
func rooms(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "\n## The rooms of the domain\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n## ")
	files := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z/]*)`(?:: \\w+)? \\| (.*) \\|$").FindAllStringSubmatch(table, -1) {
		for file := range strings.SplitSeq(row[2], ", ") {
			files["internal/"+row[1]] = append(files["internal/"+row[1]], file+".go")
		}
	}
	return files
}

func TestNoFileOfTheDomainUsesAFileAboveIt(t *testing.T) {
	// Each of these files declares the type that has the methods of its package. The other files of the
	// package use this file, and this file uses the parts of the other files.
	apart := map[string]string{"internal/page": "", "internal/throttle": "", "internal/feed": "service.go", "internal/feed/access": "access.go", "internal/feed/delivery": "", "internal/feed/removal": "removal.go", "internal/feed/notices": "notices.go", "internal/feed/view": "view.go", "internal/feed/home": "homes.go"}
	order := rooms(t)
	require.Len(t, order, len(apart))
	for folder, typed := range apart {
		t.Run(folder, func(t *testing.T) {
			fset := token.NewFileSet()
			uses, names := usesOf(t, fset, folder)
			names = slices.DeleteFunc(names, func(name string) bool { return name == typed })
			require.ElementsMatch(t, order[folder], names, "the rooms of ARCHITECTURE.md and the files of the package")
			arrows := 0
			for use, object := range uses {
				from, to := filepath.Base(fset.Position(use.Pos()).Filename), filepath.Base(fset.Position(object.Pos()).Filename)
				if from == to || from == typed || to == typed {
					continue
				}
				arrows++
				if slices.Index(order[folder], to) > slices.Index(order[folder], from) {
					t.Errorf("%s: %s is in %s, which stands above %s", fset.Position(use.Pos()), use.Name, to, from)
				}
			}
			require.Positive(t, arrows, "the types were not resolved")
		})
	}
}

// usesOf returns the uses of a package's own names in the package's product files, and the names of these
// files.
func usesOf(t *testing.T, fset *token.FileSet, folder string) (uses map[*ast.Ident]types.Object, names []string) {
	t.Helper()
	dir := filepath.Join("..", folder)
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, source, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files, names = append(files, file), append(names, filepath.Base(source))
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", compiled(t, dir))}
	pkg, err := config.Check(module(t)+"/"+folder, fset, files, info)
	require.NoError(t, err)
	maps.DeleteFunc(info.Uses, func(_ *ast.Ident, object types.Object) bool { return object.Pkg() != pkg })
	return info.Uses, names
}

// compiled returns a lookup of the compiled packages that the package in dir imports.
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
