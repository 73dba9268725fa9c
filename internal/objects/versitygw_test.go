//go:build e2e && register

package objects_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
	"fanfare/internal/objects"
	"fanfare/internal/porttest"
)

// scripts/versitygw.sh runs these tests, see make test-register.

func TestVersitygwKeepsTheContract(t *testing.T) { keepsTheContract(t, "E2E_VERSITYGW_URL") }

// run runs a command that must succeed.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}

// mounted mounts the image of a disk, until the test ends.
func mounted(t *testing.T, image, options string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	run(t, "mount", "-o", options, image, dir)
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() }) //nolint:noctx // the test has ended
	return dir
}

// gateway starts versitygw on a directory, and returns its address.
func gateway(t *testing.T, dir string) (url string) {
	t.Helper()
	address := porttest.Free(t)
	server := exec.CommandContext(t.Context(), os.Getenv("E2E_VERSITYGW"), "--port", address, "posix", dir)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+os.Getenv("AWS_ACCESS_KEY_ID"), "ROOT_SECRET_KEY="+os.Getenv("AWS_SECRET_ACCESS_KEY"))
	require.NoError(t, server.Start())
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() }) // the process has ended, or was killed: both are an error of Wait
	url = "http://" + address
	require.Eventually(t, func() bool {
		res, err := http.Get(url) //nolint:noctx,gosec // the gateway of this test
		return err == nil && res.Body.Close() == nil
	}, time.Minute, 100*time.Millisecond)
	return url
}

// On a file system that is mounted with sync, each answered swap outlives a power cut: a copy of the image of the disk, made after the answer, stands for the
// disk after the cut. Without sync the copy has an earlier version of the register, and no machine of the pair could notice that.
func TestARegisterOnASyncedDiskOutlivesAPowerCut(t *testing.T) {
	for options, want := range map[string]int{"loop,sync": 20, "loop": 0} {
		t.Run(options, func(t *testing.T) {
			image, cut := filepath.Join(t.TempDir(), "disk"), filepath.Join(t.TempDir(), "cut")
			run(t, "truncate", "--size=64M", image)
			run(t, "mkfs.ext4", "-q", image)
			dir := mounted(t, image, options)
			require.NoError(t, os.Mkdir(filepath.Join(dir, "bucket"), 0o700))
			run(t, "sync", "--file-system", dir)
			t.Setenv("AWS_ENDPOINT_URL_S3", gateway(t, dir))
			cfg, err := awsclient.Load(t.Context())
			require.NoError(t, err)
			store := objects.NewBucket(s3.NewFromConfig(cfg, objects.ForEndpoint), "bucket", "pair")
			kept, version := 0, objects.Version("")
			for round := range 20 {
				content := fmt.Sprint("version ", round)
				version, err = store.Swap(t.Context(), "register.json", version, objects.Bytes([]byte(content)))
				require.NoError(t, err)
				copied(t, image, cut)
				if got, err := os.ReadFile(filepath.Join(mounted(t, cut, "loop"), "bucket", "pair", "register.json")); err == nil && string(got) == content {
					kept++
				}
			}
			assert.Equal(t, want, kept, "swaps that a power cut left")
		})
	}
}

// copied copies the image of a disk in a moment.
func copied(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	_ = os.Remove(to) // a former copy is mounted
	out, err := os.Create(to)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}
