package deploy

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const renamed = "example.org/team/fanfare"

// command runs a program in a directory, with env, and returns its output.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// copyTree copies the files that git tracks or would add to a repository of the test.
func copyTree(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "copy")
	for file := range strings.SplitSeq(command(t, "..", nil, "git", "ls-files", "-coz", "--exclude-standard"), "\x00") {
		info, err := os.Stat(filepath.Join("..", file))
		if file == "" || os.IsNotExist(err) {
			continue // the file is deleted, but the deletion is not committed
		}
		text, readErr := os.ReadFile(filepath.Join("..", file))
		require.NoError(t, err)
		require.NoError(t, readErr)
		to := filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o750))
		require.NoError(t, os.WriteFile(to, text, info.Mode()))
	}
	command(t, dir, nil, "git", "init", "-q")
	return dir
}

// renamedTree returns a copy of the tree whose module has another name.
func renamedTree(t *testing.T) (dir string) {
	t.Helper()
	dir = copyTree(t)
	command(t, dir, nil, "make", "module", "MODULE="+renamed)
	return dir
}

func TestTheModuleTakesAnotherName(t *testing.T) {
	t.Parallel()
	dir := renamedTree(t)
	assert.Empty(t, command(t, dir, nil, "gofmt", "-l", "."), "gofmt would change")
	rules, err := os.ReadFile(filepath.Join(dir, ".golangci.yml"))
	if err != nil || strings.Contains(string(rules), " fanfare/") || !strings.Contains(string(rules), renamed+"/internal/") {
		t.Errorf("the lint rules are about the old name (%v)", err)
	}
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	assert.Contains(t, string(readme), "go mod edit -require="+renamed+"@v0.0.0 -replace="+renamed+"=../fanfare\n")
	for module, want := range map[string]string{".": renamed, "bench": renamed + "/bench", "e2e": renamed + "/e2e", "release": renamed + "/release", "tools": renamed + "/tools"} {
		text, err := os.ReadFile(filepath.Join(dir, module, "go.mod"))
		if first, _, _ := strings.Cut(string(text), "\n"); err != nil || first != "module "+want {
			t.Errorf("%s/go.mod begins with %q, %v", module, first, err)
		}
		assert.NotRegexp(t, `(?m)(^|\s)fanfare(\s|/|$)`, string(text), "%s/go.mod has the old name", module)
	}
	assertImportsFound(t, dir)
}

// assertImportsFound reads every Go file of every module, whatever the build tags of the file are. Each
// import of a package of the tree has to name a folder with Go files. The test runs no go command,
// because a go command would need the modules of bench, e2e and the examples, and a new machine has not
// downloaded these modules.
func assertImportsFound(t *testing.T, dir string) {
	t.Helper()
	files := strings.Split(strings.TrimRight(command(t, dir, nil, "git", "ls-files", "-oz", "--exclude-standard", "*.go"), "\x00"), "\x00")
	require.Greater(t, len(files), 100)
	own := 0
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, parser.ImportsOnly)
		if !assert.NoError(t, err) {
			continue
		}
		for _, spec := range parsed.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			assert.Falsef(t, path == "fanfare" || strings.HasPrefix(path, "fanfare/"), "%s imports %s by the old name", file, path)
			folder, found := strings.CutPrefix(path, renamed+"/")
			if !found {
				continue
			}
			own++
			in, err := filepath.Glob(filepath.Join(dir, folder, "*.go"))
			assert.Truef(t, err == nil && len(in) > 0, "%s imports %s, which is no folder with Go files", file, path)
		}
	}
	assert.Greater(t, own, 100, "imports of the tree's own packages")
}
