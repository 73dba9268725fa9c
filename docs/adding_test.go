package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestToAddNamesEveryPlace compares each list of files under "To add …" with the files that know an example of the kind:
// the files of the product, and of the contract, that people write.
func TestToAddNamesEveryPlace(t *testing.T) {
	t.Parallel()
	_, section, ok := strings.Cut(read(t, "ARCHITECTURE.md"), "\n## To add …\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ") // the last section of the page ends with the page
	listed := map[string][]string{}
	for _, entry := range strings.Split(section, "\n### ")[1:] {
		heading, list, _ := strings.Cut(entry, "\n")
		for _, item := range regexp.MustCompile("(?m)^\\d+\\. `([^`]+)`: ").FindAllStringSubmatch(list, -1) {
			listed[heading] = append(listed[heading], item[1])
		}
	}
	examples := map[string]func(ast.Node) bool{
		"A field of a post (`kind`)":                namesTogether("Images", "Kind", "Mentions"),
		"An own edge (a bookmark)":                  named("(?i)^bookmark|Bookmark"),
		"A setting (`FANFARE_JWT_USER_CLAIM`)":      named("^JWTUserClaim$"),
		"An event (`ProfileChanged`)":               named("^ProfileChanged$"),
		"An operator's command (`fanfare explain`)": declaredOrCalled("Explain"),
	}
	require.Len(t, listed, len(examples))
	known := map[string][]string{}
	for path, file := range written(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			for heading, knows := range examples {
				if n != nil && knows(n) && !slices.Contains(known[heading], path) {
					known[heading] = append(known[heading], path)
				}
			}
			return true
		})
	}
	for heading := range examples {
		assert.ElementsMatchf(t, known[heading], listed[heading], "To add … %s: the files that know the example, and the list of ARCHITECTURE.md", heading)
	}
}

// written returns the files of the product and of the contract that people write, without tests.
func written(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, dir := range []string{"cmd", "internal", "client", "messages", "producer"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", dir), func(path string, entry fs.DirEntry, err error) error {
			kit := slices.Contains([]string{"sim", "mutants", "clienttest", "oracle"}, entry.Name())
			if err == nil && entry.IsDir() && kit {
				return filepath.SkipDir
			}
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err == nil && !ast.IsGenerated(file) {
				files[filepath.ToSlash(strings.TrimPrefix(path, "../"))] = file
			}
			return err
		}))
	}
	require.Greater(t, len(files), 300)
	return files
}

// named finds a name.
func named(pattern string) func(ast.Node) bool {
	name := regexp.MustCompile(pattern)
	return func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && name.MatchString(id.Name)
	}
}

// declaredOrCalled finds a function without a receiver and without arguments.
func declaredOrCalled(name string) func(ast.Node) bool {
	return func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return n.Name.Name == name && n.Recv == nil
		case *ast.CallExpr:
			id, ok := n.Fun.(*ast.Ident)
			return ok && id.Name == name && len(n.Args) == 0
		}
		return false
	}
}

// namesTogether finds a type or an expression with all of names, as an identifier or as a name of JSON.
func namesTogether(names ...string) func(ast.Node) bool {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(strings.Trim(s, "\"`"), "_", "")) }
	return func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if _, list := n.Type.(*ast.ArrayType); list { // its elements have the names apart from each other
				return false
			}
		case *ast.StructType, *ast.CallExpr, *ast.ReturnStmt, *ast.BlockStmt:
		default:
			return false
		}
		found := map[string]bool{}
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.Ident:
				found[plain(n.Name)] = true
			case *ast.BasicLit:
				found[plain(n.Value)] = true
			}
			return true
		})
		return !slices.ContainsFunc(names, func(name string) bool { return !found[plain(name)] })
	}
}
