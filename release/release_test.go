//go:build slow

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// copyTree copies the files that git tracks or would add, without the repository.
func copyTree(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	names, err := git(t.Context(), "..", "ls-files", "-coz", "--exclude-standard", "--", "cmd", "client", "deploy/helm", "deploy/systemd", "docs", "internal", "messages", "scripts", "go.mod", "go.sum", "CHANGELOG.md", "LICENSE", "README.md")
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join("..", name))
		if errors.Is(err, os.ErrNotExist) {
			continue // the file is deleted, but the deletion is not committed
		}
		require.NoError(t, err)
		to := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o750))
		require.NoError(t, os.WriteFile(to, text, 0o700)) // the file may be a script, such as scripts/node-tools.sh
	}
	return dir
}

// Two builds in different folders and with different settings of Go make the same bytes.
func TestTwoBuildsAreEqual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1763800000")
	platform := runtime.GOOS + "/" + runtime.GOARCH
	// The test runs a binary without the race detector. The race detector makes the compression ten times
	// as slow, and only one goroutine compresses.
	command := filepath.Join(t.TempDir(), "release")
	require.NoError(t, exec.CommandContext(t.Context(), "go", "build", "-o", command, ".").Run())
	var builds []map[string]string
	for _, flags := range []string{"-trimpath", "-v"} {
		t.Setenv("GOFLAGS", flags)
		out := filepath.Join(t.TempDir(), "out")
		text, err := exec.CommandContext(t.Context(), command, "-root", copyTree(t), "-out", out, "-platforms", platform, "build", "v0.2.0-rc.1").CombinedOutput()
		require.NoError(t, err, "%s", text)
		if builds = append(builds, sumsOf(t, out)); len(builds) == 1 {
			looksLikeARelease(t, out)
			isInstalledAsThePageSays(t, out)
		}
	}
	assert.Equal(t, builds[0], builds[1])
}

// sumsOf returns the checksums of all files of a release except the list of checksums, and compares the
// checksums with the list.
func sumsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums, listed := map[string]string{}, map[string]string{}
	list, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	for line := range strings.Lines(string(list)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name.Name()))
		require.NoError(t, err)
		if name.Name() != "SHA256SUMS" {
			sums[name.Name()] = fmt.Sprintf("%x", sha256.Sum256(text))
		}
	}
	require.Len(t, sums, 6)
	assert.Equal(t, sums, listed)
	return sums
}

// looksLikeARelease unpacks the archive of a release and runs each program of the archive.
func looksLikeARelease(t *testing.T, dir string) {
	t.Helper()
	name := fmt.Sprintf("fanfare_v0.2.0-rc.1_%s_%s", runtime.GOOS, runtime.GOARCH)
	archive, err := os.ReadFile(filepath.Join(dir, name+".tar.gz"))
	require.NoError(t, err)
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	to := t.TempDir()
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		assert.Equal(t, int64(1763800000), h.ModTime.Unix(), h.Name)
		assert.Zero(t, h.Uid+h.Gid)
		require.True(t, filepath.IsLocal(h.Name), h.Name)
		path := filepath.Join(to, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			require.NoError(t, os.MkdirAll(path, 0o750))
		case tar.TypeSymlink:
			require.NoError(t, os.Symlink(h.Linkname, path))
		default:
			text, err := io.ReadAll(files)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, text, h.FileInfo().Mode()))
		}
	}
	for _, program := range []string{"fanfare", "api", "fanout", "likeagg"} {
		text, err := exec.CommandContext(t.Context(), filepath.Join(to, name, "bin", program), "--version").Output()
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%s v0.2.0-rc.1, commit unknown, %s %s/%s\n", program, runtime.Version(), runtime.GOOS, runtime.GOARCH), string(text))
	}
	for _, page := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		assert.FileExists(t, filepath.Join(to, name, page))
	}
	_, err = os.Stat(filepath.Join(to, name, "fanfare.service"))
	assert.Equal(t, runtime.GOOS == "linux", err == nil, "the unit of systemd is in the archives for Linux")
	listsTheModules(t, filepath.Join(dir, name+".cdx.json"))
	isTheImage(t, filepath.Join(dir, name+".image.tar"), filepath.Join(to, name, "bin", "fanfare"))
	isTheChart(t, filepath.Join(dir, "fanfare-0.2.0-rc.1.tgz"))
	statesItsFiles(t, dir)
}

func listsTheModules(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var bom struct {
		BOMFormat, SpecVersion string
		Metadata               struct {
			Timestamp string
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, Purl string }
	}
	require.NoError(t, json.Unmarshal(text, &bom))
	assert.Equal(t, "CycloneDX 2025-11-22T08:26:40Z fanfare v0.2.0-rc.1",
		bom.BOMFormat+" "+bom.Metadata.Timestamp+" "+bom.Metadata.Component.Name+" "+bom.Metadata.Component.Version)
	purls := map[string]string{}
	for _, c := range bom.Components {
		purls[c.Name] = c.Purl
	}
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	for _, name := range []string{"github.com/cockroachdb/pebble/v2", "github.com/spf13/cobra"} {
		require.Contains(t, string(mod), name)
		assert.Regexp(t, "^pkg:golang/"+name+`@v\d`, purls[name])
	}
	assert.Regexp(t, `^pkg:golang/std@1\.\d`, purls["std"])
}
