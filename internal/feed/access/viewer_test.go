package access_test

import (
	"flag"
	"fmt"
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

var update = flag.Bool("update", false, "rewrite testdata/viewers.txt")

// The file lists each place that makes a viewer without the user of a request, with its reason, and each place outside the
// domain that makes the viewer of a request. A new line needs a review: the place may show a post to a user who may not
// see the post.
func TestViewersOfReads(t *testing.T) {
	t.Parallel()
	var reads []string
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if name = filepath.ToSlash(name); err != nil || strings.HasPrefix(name, "feed/access/") || strings.HasPrefix(name, "sim/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			reads = append(reads, viewersOf(name, decl)...)
		}
		return nil
	})
	require.NoError(t, err)
	slices.Sort(reads)
	got := strings.Join(reads, "\n") + "\n"
	assert.NotContains(t, got, "?", "give the reason as a name of package access, where the viewer is made")
	golden := filepath.Join("testdata", "viewers.txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "run go test ./internal/feed/access -run Viewers -update, and review the new lines")
}

// viewersOf returns a line for each name of package access in a declaration that makes a viewer, or that takes a reason.
func viewersOf(file string, decl ast.Decl) (lines []string) {
	where := "var"
	if f, ok := decl.(*ast.FuncDecl); ok {
		where = f.Name.Name
	}
	reasons := map[ast.Expr]string{} // the reasons of calls, by the called name
	ast.Inspect(decl, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			reasons[call.Fun] = reasonOf(call)
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		reason := ""
		switch sel.Sel.Name {
		case "OfHome", "OwnPost":
			reason = sel.Sel.Name
		case "As":
			if fmt.Sprint(sel.X) == "access" && !strings.HasPrefix(file, "feed/") {
				reason = sel.Sel.Name
			}
		case "AnyAudience", "PostOfAnyAudience", "StoredPost", "lookForPost":
			reason = "?"
			if of := reasons[sel]; of != "" {
				reason = of
			}
		}
		if reason != "" {
			lines = append(lines, fmt.Sprintf("%-9s %s %s", reason, file, where))
		}
		return true
	})
	return lines
}

// reasonOf returns the reason in the arguments of a call, "" for none. A parameter why has the reason of the caller.
func reasonOf(call *ast.CallExpr) string {
	for _, arg := range call.Args {
		switch arg := arg.(type) {
		case *ast.SelectorExpr:
			if fmt.Sprint(arg.X) == "access" {
				return arg.Sel.Name
			}
		case *ast.Ident:
			if arg.Name == "why" {
				return arg.Name
			}
		}
	}
	return ""
}
