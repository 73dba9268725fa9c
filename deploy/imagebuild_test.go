//go:build slow

package deploy

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runBuild runs the build commands of the Dockerfile on this machine. It uses a directory of the test in
// place of /out.
func runBuild(t *testing.T, build []string) (out string) {
	t.Helper()
	out = t.TempDir()
	ran := 0
	for _, instruction := range build {
		command, isRun := strings.CutPrefix(instruction, "RUN ")
		if !isRun || !strings.Contains(command, "/out") {
			continue
		}
		command = regexp.MustCompile(`--mount=\S+ `).ReplaceAllString(command, "")
		c := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "/out", out))
		c.Dir = ".."
		text, err := c.CombinedOutput()
		require.NoErrorf(t, err, "%s:\n%s", command, text)
		ran++
	}
	require.NotZero(t, ran, "the Dockerfile builds nothing in /out")
	return out
}

// sizeOf returns the number of bytes in the files below a path. A link counts as 0 bytes.
func sizeOf(t *testing.T, path string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	require.NoError(t, err)
	return size
}

func TestTheImageIsSmallAndRunsEachDaemonByItsName(t *testing.T) {
	const most = 42_000_000 // a dependency that calls methods by name (text/template) makes the linker keep 10 MB more
	build, image := dockerfile(t)
	out := runBuild(t, build)
	var size int64
	for _, instruction := range image {
		words := strings.Fields(instruction)
		if words[0] != "COPY" {
			continue
		}
		source := words[len(words)-2]
		switch fromBuild := strings.Contains(instruction, "--from=build"); {
		case fromBuild && strings.HasPrefix(source, "/out/"):
			size += sizeOf(t, filepath.Join(out, strings.TrimPrefix(source, "/out/")))
		case fromBuild && strings.HasSuffix(source, "/ca-certificates.crt"):
			size += 256 << 10 // Debian's file has about 220 kB, and this machine may lack the file
		case !fromBuild:
			size += sizeOf(t, filepath.Join("..", source))
		default:
			t.Errorf("the size of %q is unknown", instruction)
		}
	}
	t.Logf("the image holds %.1f MB", float64(size)/1e6)
	assert.LessOrEqualf(t, size, int64(most), "the image holds %d bytes", size)
	assert.GreaterOrEqualf(t, size, int64(most/10), "the image holds %d bytes", size)

	for _, name := range []string{"api", "fanout", "likeagg"} {
		daemon := filepath.Join(out, "bin", name)
		if target, err := os.Readlink(daemon); err != nil || target != "fanfare" {
			t.Errorf("%s is a link to %q, %v; want fanfare beside it", name, target, err)
		}
		text, err := exec.CommandContext(t.Context(), daemon, "--help").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(text), name+" is a daemon") {
			t.Errorf("%s --help: %v, %q", name, err, text)
		}
	}
	refusesToServeTheWorld(t, filepath.Join(out, "bin"), image)
}

// refusesToServeTheWorld runs the image's default command without any setting. The command has to refuse
// to start.
func refusesToServeTheWorld(t *testing.T, bin string, image []string) {
	t.Helper()
	text, isCommand := strings.CutPrefix(image[len(image)-1], "CMD ")
	var command []string
	if err := json.Unmarshal([]byte(text), &command); !isCommand || err != nil || len(command) < 2 {
		t.Fatalf("the image ends with %q, want its CMD as a list (%v)", image[len(image)-1], err)
	}
	var stderr bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(bin, command[0]), command[1:]...)
	c.Dir, c.Env, c.Stderr = t.TempDir(), []string{"HOME=/"}, &stderr
	if err := c.Run(); err == nil || c.ProcessState.ExitCode() != 2 || !strings.Contains(stderr.String(), "FANFARE_DEV_AUTH_PUBLIC=allow") {
		t.Errorf("%q ended with %v, and says %q", command, err, &stderr)
	}
}
