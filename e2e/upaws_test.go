//go:build e2e

package e2e

import (
	"crypto/rand"
	"fanfare/internal/porttest"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUpAWSRunsThreeDaemonsAndStopsThemTogether runs the script of make up-aws on the
// LocalStack of the tests.
func TestUpAWSRunsThreeDaemonsAndStopsThemTogether(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv("AWS_ENDPOINT_URL"), "run this with scripts/with-emulators.sh")
	name, addr := "e2e-"+strings.ToLower(rand.Text()[:10]), porttest.Free(t)
	admins := []string{porttest.Free(t), porttest.Free(t), porttest.Free(t)}
	p := startBinary(t, environment("BIN="+binaries, "FANFARE_TABLE="+name, "FANFARE_QUEUE_PREFIX="+name,
		"FANFARE_HTTP_ADDR="+addr, "FANFARE_ADMIN_ADDRS="+strings.Join(admins, " ")), "../scripts/up-aws.sh")
	await(t, "up-aws is ready", func() bool {
		if !p.running() {
			t.Fatalf("it ended: %v\n%s", p.err, tail(p.log))
		}
		return strings.Contains(tail(p.log), "ready: http://"+addr)
	})
	for _, address := range append(admins, addr) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/readyz", http.NoBody)
		require.NoError(t, err)
		resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode, address)
	}
	// A user needs only the line that up-aws prints to work in a second terminal.
	line := regexp.MustCompile(`(?m)^up-aws:   (export .*)$`).FindStringSubmatch(tail(p.log))
	require.NotNil(t, line, tail(p.log))
	assert.Contains(t, line[1], " AWS_DEFAULT_REGION=", "boto3 reads no AWS_REGION")
	doctor := exec.CommandContext(t.Context(), "bash", "-c", line[1]+"; "+filepath.Join(binaries, "fanfare")+" doctor")
	doctor.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	found, err := doctor.CombinedOutput()
	require.NoError(t, err, string(found))
	assert.Contains(t, string(found), name+" is ACTIVE")
	p.stop(t)
	for _, address := range append(admins, addr) {
		_, err := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "tcp", address)
		assert.Errorf(t, err, "a process still listens at %s", address)
	}
	assert.Contains(t, tail(p.log), "stopped")
}
