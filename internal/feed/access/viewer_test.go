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

// The file lists each read of posts that does not ask as the user of a request, with its reason. A new line needs a review:
// such a read may show a post to a user who may not see the post.
func TestReadsThatAskForNoUser(t *testing.T) {
	t.Parallel()
	var reads []string
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if name = filepath.ToSlash(name); err != nil || strings.HasPrefix(name, "feed/access/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				reads = append(reads, readsOf(name, f)...)
			}
		}
		return nil
	})
	require.NoError(t, err)
	slices.Sort(reads)
	got := strings.Join(slices.Compact(reads), "\n") + "\n"
	golden := filepath.Join("testdata", "viewers.txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "run go test ./internal/feed/access -run ReadsThat -update, and review the new lines")
}

// readsOf returns a line for each call of a function that makes a viewer without a request, or that takes a Reason.
func readsOf(file string, f *ast.FuncDecl) (lines []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		reason := ""
		switch sel, _ := call.Fun.(*ast.SelectorExpr); {
		case sel == nil:
		case sel.Sel.Name == "OfHome" || sel.Sel.Name == "OwnPost":
			reason = sel.Sel.Name
		case sel.Sel.Name == "AnyAudience" || sel.Sel.Name == "PostOfAnyAudience" || sel.Sel.Name == "StoredPost":
			for _, arg := range call.Args {
				if of, ok := arg.(*ast.SelectorExpr); ok && fmt.Sprint(of.X) == "access" {
					reason = of.Sel.Name
				}
			}
		}
		if reason != "" {
			lines = append(lines, fmt.Sprintf("%-9s %s %s", reason, file, f.Name.Name))
		}
		return true
	})
	return lines
}
