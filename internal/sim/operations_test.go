package sim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkPerformed prints, for each operation of the product, the number of seeds whose storms
// performed it.
func checkPerformed(t *testing.T, performs Counters) {
	t.Helper()
	if !*printReached {
		return
	}
	for _, of := range operations(t) {
		if of.Why != "" {
			t.Logf("     - %s %s: %s", of.Kind, of.Name, of.Why)
			continue
		}
		t.Logf("%6d %s %s: %s", performs[of.By], of.Kind, of.Name, of.By)
		assert.GreaterOrEqualf(t, performs[of.By], int(*seeds/100), "seeds of %d that performed the %s %s: %s", *seeds, of.Kind, of.Name, of.By)
	}
}

const repository = "../.."

// named returns the names of the operations of a kind, without repetitions.
func named(kind string) (names []string) {
	for _, of := range Operations() {
		if of.Kind == kind {
			names = append(names, of.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// operations returns all operations of the product.
func operations(t *testing.T) []Operation {
	t.Helper()
	all := Operations()
	for _, call := range domainCalls(t) {
		if !slices.ContainsFunc(all, func(of Operation) bool { return of.By == call }) {
			all = append(all, Operation{Kind: Domain, Name: call, By: call})
		}
	}
	return all
}

// domainCalls returns the functions of the domain that package httpapi calls.
func domainCalls(t *testing.T) []string {
	t.Helper()
	parts := map[string]string{} // the types of the fields of httpapi.API that are parts of the domain
	calls := map[string]bool{}
	files := sources(t, "internal/httpapi")
	for _, source := range files {
		ast.Inspect(source.file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == "API" {
				for _, field := range spec.Type.(*ast.StructType).Fields.List {
					star, _ := field.Type.(*ast.StarExpr)
					if star == nil {
						continue
					}
					of, _ := star.X.(*ast.SelectorExpr)
					if of != nil && source.imports(of.X.(*ast.Ident).Name, "/internal/feed", "/internal/live") {
						parts[field.Names[0].Name] = of.X.(*ast.Ident).Name + ".(*" + of.Sel.Name + ")"
					}
				}
			}
			return true
		})
	}
	for _, source := range files {
		ast.Inspect(source.file, func(n ast.Node) bool {
			method, _ := n.(*ast.SelectorExpr)
			if method == nil {
				return true
			}
			part, _ := method.X.(*ast.SelectorExpr)
			if part == nil {
				return true
			}
			if api, _ := part.X.(*ast.Ident); api != nil && api.Name == "a" && parts[part.Sel.Name] != "" {
				calls[parts[part.Sel.Name]+"."+method.Sel.Name] = true
			}
			return true
		})
	}
	require.Len(t, parts, 7)
	require.Greater(t, len(calls), 60)
	return sorted(calls)
}

// TestEachLoopIsInTheStormsOrNamed checks the roots of a process, and the functions with a loop
// that waits.
func TestEachLoopIsInTheStormsOrNamed(t *testing.T) {
	found := map[string]bool{}
	for _, source := range sources(t, "internal") {
		for _, decl := range source.file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			ast.Inspect(function.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if root := rootOf(n); root != "" {
						found["root "+root] = true
					}
				case *ast.ForStmt:
					if waits(n) {
						found[source.function(function)] = true
					}
				}
				return true
			})
		}
	}
	assert.Greater(t, len(found), 20)
	assert.ElementsMatch(t, sorted(found), named(Loop), "the loops of the product, and the loops of Operations")
}

// rootOf returns the name of the root that a call starts, "" if it starts none.
func rootOf(call *ast.CallExpr) string {
	start, _ := call.Fun.(*ast.SelectorExpr)
	if start == nil || start.Sel.Name != "start" || len(call.Args) != 2 {
		return ""
	}
	roots, _ := start.X.(*ast.SelectorExpr)
	if roots == nil || roots.Sel.Name != "roots" {
		return ""
	}
	name := call.Args[0]
	if sum, ok := name.(*ast.BinaryExpr); ok {
		name = sum.X
	}
	text, _ := name.(*ast.BasicLit)
	if text == nil {
		return ""
	}
	return strings.TrimSpace(strings.Trim(text.Value, `"`))
}

// waits reports whether a loop waits in a select, or runs until a context ends.
func waits(loop *ast.ForStmt) (is bool) {
	if loop.Cond != nil && loop.Post == nil {
		ast.Inspect(loop.Cond, func(n ast.Node) bool {
			call, _ := n.(*ast.SelectorExpr)
			is = is || call != nil && (call.Sel.Name == "Err" || call.Sel.Name == "Wait")
			return true
		})
	}
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		_, selects := n.(*ast.SelectStmt)
		is = is || selects
		return true
	})
	return is
}

// TestOperationsNameWhatIsThere checks that each operation names existing functions of the product,
// or has a reason.
func TestOperationsNameWhatIsThere(t *testing.T) {
	there := map[string]bool{}
	for _, source := range sources(t, "internal") {
		for _, decl := range source.file.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok {
				there[source.function(function)] = true
			}
		}
	}
	seen := map[Operation]bool{}
	for _, of := range operations(t) {
		assert.Falsef(t, seen[of], "%v is there twice", of)
		seen[of] = true
		assert.NotEmptyf(t, of.By+of.Why, "%v: a function of the product, or a reason", of)
		if strings.Contains(of.By, ".") {
			assert.Truef(t, there[of.By], "%s %s: the product has no function %s", of.Kind, of.Name, of.By)
		} else if of.Kind != Message && of.By != "" {
			assert.Containsf(t, Faults(), of.By, "%s %s: a kind of fault", of.Kind, of.Name)
		}
	}
}

// source is a file of the product.
type source struct {
	text []byte
	file *ast.File
}

// sources returns the files of the product below a folder.
func sources(t *testing.T, folder string) (all []source) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(repository, folder), func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		name := entry.Name()
		if entry.IsDir() && (strings.HasSuffix(name, "test") || name == "sim" || name == "mutants") {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		all = append(all, source{text, file})
		return nil
	}))
	require.NotEmpty(t, all)
	return all
}

// imports reports whether a file imports a package with this name whose path contains one of the
// paths.
func (s source) imports(name string, paths ...string) bool {
	return slices.ContainsFunc(s.file.Imports, func(spec *ast.ImportSpec) bool {
		path := strings.Trim(spec.Path.Value, `"`)
		return filepath.Base(path) == name && slices.ContainsFunc(paths, func(below string) bool { return strings.Contains(path, below) })
	})
}

// function returns the name of a function, as nameOfFunction does.
func (s source) function(of *ast.FuncDecl) string {
	name := s.file.Name.Name + "."
	if of.Recv != nil {
		typed := of.Recv.List[0].Type
		star, pointer := typed.(*ast.StarExpr)
		if pointer {
			typed = star.X
		}
		if generic, ok := typed.(*ast.IndexExpr); ok {
			typed = generic.X
		}
		if generic, ok := typed.(*ast.IndexListExpr); ok {
			typed = generic.X
		}
		receiver := typed.(*ast.Ident).Name
		if pointer {
			receiver = "(*" + receiver + ")"
		}
		name += receiver + "."
	}
	return name + of.Name.Name
}
