package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// requirements returns the lists of Python packages that tests and examples install.
func requirements(t *testing.T) []string {
	t.Helper()
	lists, err := filepath.Glob("../scripts/*.txt")
	require.NoError(t, err)
	require.Len(t, lists, 5)
	return append(lists, "../examples/producer-python/requirements.txt")
}

// An installation refuses a registry that serves another file under a known version.
func TestEachPythonPackageHasItsHashes(t *testing.T) {
	for _, list := range requirements(t) {
		text := strings.ReplaceAll(read(t, list), "\\\n", " ")
		packages := 0
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			packages++
			assert.Regexp(t, `^[A-Za-z0-9._-]+==\S+( +--hash=sha256:[0-9a-f]{64})+$`, line, list)
		}
		assert.NotZero(t, packages, list)
		assert.NotContains(t, text, "://", "%s names a registry", list)
	}
	scripts, err := filepath.Glob("../scripts/*.sh")
	require.NoError(t, err)
	installs := 0
	for _, script := range scripts {
		for line := range strings.Lines(read(t, script)) {
			if regexp.MustCompile(`pip"? install|-m pip`).MatchString(line) && !regexp.MustCompile(`\b(say|die) `).MatchString(line) {
				installs++
				assert.Contains(t, line, "--require-hashes", script)
			}
			assert.NotRegexp(t, `\bnpm (install|i) `, regexp.MustCompile(`^\s*#.*`).ReplaceAllString(line, ""), "%s: npm ci keeps to a lock", script)
		}
	}
	assert.Equal(t, 3, installs)
}

func TestEachPackageOfNPMHasItsHash(t *testing.T) {
	for set, tool := range map[string]string{"scripts/redocly": "@redocly/cli", "client/typescript": "openapi-typescript", "examples/react": "react"} {
		text := read(t, "../"+set+"/package-lock.json")
		assert.NotContains(t, text, `"resolved"`, "the lock names a registry")
		type pins map[string]string
		var lock struct {
			Packages map[string]struct {
				Version, Integrity            string
				Dependencies, DevDependencies pins
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &lock))
		asked := lock.Packages[""].Dependencies
		if asked == nil {
			asked = lock.Packages[""].DevDependencies
		}
		require.Contains(t, asked, tool)
		for name, version := range asked {
			assert.Regexp(t, `^\d+\.\d+\.\d+$`, version, name)
		}
		delete(lock.Packages, "")
		require.Greater(t, len(lock.Packages), 30, set)
		for name, p := range lock.Packages {
			assert.Regexp(t, `^sha512-[A-Za-z0-9+/]{86}==$`, p.Integrity, name)
		}
	}
}

// A tag may later name another image, so an image for a deployment is built from a digest.
func TestAnImageIsBuiltFromADigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, wrong := range []string{"", "sha256:0a", "latest", digest + "0", "x" + digest} {
		c := exec.CommandContext(t.Context(), "make", "-C", "..", "image", "DIGEST="+wrong)
		out, err := c.CombinedOutput()
		require.Error(t, err, wrong)
		assert.Contains(t, string(out), "give the digest of the base", wrong)
	}
	out, err := exec.CommandContext(t.Context(), "make", "-C", "..", "-n", "image", "DIGEST="+digest, "IMAGE=registry.example/fanfare:v1").CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "docker build -f deploy/Dockerfile --build-arg DIGEST="+digest+" -t registry.example/fanfare:v1 .")
}
