//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// typescript builds client/typescript in a copy, so that the tree does not change, and returns the
// folder. The build generates the types from docs/openapi.json. It also checks the types of the code in
// docs/BROWSER.md.
var typescript = sync.OnceValues(func() (string, error) {
	modules, err := exec.Command("../scripts/node-tools.sh", "path", "client/typescript").Output()
	if err != nil {
		return "", fmt.Errorf("scripts/node-tools.sh path client/typescript: %w (make test installs it)", err)
	}
	folder := filepath.Join(binaries, "copy", "client", "typescript")
	for _, part := range []string{"client/typescript/src", "client/typescript/test", "client/testdata", "docs/openapi.json", "client/typescript/package.json", "client/typescript/tsconfig.json"} {
		to := filepath.Join(binaries, "copy", part)
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			return "", err
		}
		if out, err := exec.Command("cp", "-R", "../"+part, to).CombinedOutput(); err != nil {
			return "", fmt.Errorf("copy %s: %w: %s", part, err, out)
		}
	}
	guide, err := guideCode()
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(folder, "test", "guide.ts"), guide, 0o600); err != nil {
		return "", err
	}
	if err := os.Symlink(strings.TrimSpace(string(modules)), filepath.Join(folder, "node_modules")); err != nil {
		return "", err
	}
	build := exec.Command("npm", "run", "build")
	build.Dir, build.Env = folder, append(os.Environ(), "NPM_CONFIG_UPDATE_NOTIFIER=false")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build client/typescript: %w: %s", err, out)
	}
	return folder, nil
})

// guideCode returns the code of docs/BROWSER.md as a module.
func guideCode() ([]byte, error) {
	page, err := os.ReadFile("../docs/BROWSER.md")
	if err != nil {
		return nil, err
	}
	var code bytes.Buffer
	blocks := regexp.MustCompile("(?ms)^```ts\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(blocks) < 4 {
		return nil, fmt.Errorf("docs/BROWSER.md has %d blocks of code", len(blocks))
	}
	for _, block := range blocks {
		code.Write(block[1])
	}
	return []byte(strings.NewReplacer("'fanfare-client'", "'../src/index.js'", "'https://api.example'", "process.env.FANFARE_URL!").Replace(code.String())), nil
}

// TestTheTypeScriptClientDoesWhatItPromises runs the tests of client/typescript against a real process.
func TestTheTypeScriptClientDoesWhatItPromises(t *testing.T) {
	t.Parallel()
	folder, err := typescript()
	require.NoError(t, err)
	u := newUp(t)
	u.env = append(u.env, "FANFARE_REACTIONS=love", "FANFARE_LIKE_WINDOW=100ms")
	p := u.start(t)
	others := newOutsiders(t)
	test := exec.CommandContext(t.Context(), "npm", "test")
	test.Dir = folder
	test.Env = environment(append(others.environment(), "FANFARE_URL=http://"+u.http, "NPM_CONFIG_UPDATE_NOTIFIER=false")...)
	out, err := test.CombinedOutput()
	require.NoError(t, err, "%s", out)
	passed := regexp.MustCompile(`(?m)^# pass (\d+)$`).FindSubmatch(out)
	require.NotNil(t, passed, "%s", out)
	count, err := strconv.Atoi(string(passed[1]))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, count, 18, "%s", out)
	// The code of docs/BROWSER.md runs as the page shows it.
	reader := exec.CommandContext(t.Context(), "node", "test/reader.mjs")
	reader.Dir, reader.Env = folder, test.Env
	out, err = reader.CombinedOutput()
	require.NoError(t, err, "%s", out)
	others.none(t)
	p.stop(t)
}
