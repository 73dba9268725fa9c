//go:build slow

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// isInstalledAsThePageSays runs the commands under "From a release" in docs/INSTALL.md on the files of a release: the
// commands that download a program and start it, and the commands that give the packages to Helm and npm. No
// machine of the tests has Docker, so the test only compares the names of the image.
func isInstalledAsThePageSays(t *testing.T, dir string) {
	t.Helper()
	page, err := os.ReadFile("../docs/INSTALL.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## From a release\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	require.Len(t, blocks, 3)
	files := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(files.Close)
	version := regexp.MustCompile(`^VERSION=v(\S+) `).FindStringSubmatch(blocks[0][1])
	require.NotNil(t, version)
	as := strings.NewReplacer("https://github.com/OWNER/fanfare/releases/download/$VERSION", files.URL,
		version[1], "0.2.0-rc.1", "linux_amd64", runtime.GOOS+"_"+runtime.GOARCH)
	program, image, packages := as.Replace(blocks[0][1]), as.Replace(blocks[1][1]), as.Replace(blocks[2][1])
	require.NotContains(t, program, "OWNER")

	startsTheProgram(t, program)
	names := regexp.MustCompile(`^docker load --input (\S+)\ndocker run .* (\S+)\n$`).FindStringSubmatch(image)
	require.NotNil(t, names, image)
	assert.FileExists(t, filepath.Join(dir, names[1]))
	assert.Equal(t, "fanfare:v0.2.0-rc.1", names[2], "the tag that isTheImage reads")
	installsThePackages(t, dir, packages)
}

// startsTheProgram runs commands. The last command serves until the test stops it.
func startsTheProgram(t *testing.T, commands string) {
	t.Helper()
	last := strings.LastIndex(strings.TrimSpace(commands), "\n") + 1
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	up := exec.CommandContext(ctx, "bash", "-euc", commands[:last]+"exec "+commands[last:])
	address := freeAddress(t)
	up.Dir, up.Env = t.TempDir(), []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"FANFARE_HTTP_ADDR=" + address, "FANFARE_ADMIN_ADDR=" + freeAddress(t), "FANFARE_LOG_LEVEL=warn", "FANFARE_CANARY=off",
	}
	up.Cancel = func() error { return up.Process.Signal(syscall.SIGTERM) }
	up.WaitDelay = time.Minute
	var log strings.Builder
	up.Stdout, up.Stderr = &log, &log
	require.NoError(t, up.Start())
	served := make(chan bool, 1)
	go func() { served <- serves(ctx, "http://"+address+"/openapi.json"); stop() }()
	err := up.Wait()
	stop() // the program may have ended by itself
	assert.Truef(t, <-served, "%v\n%s", err, &log)
	assert.Zero(t, up.ProcessState.ExitCode(), "%s", &log)
}

// serves reports whether the address answers before the end of ctx.
func serves(ctx context.Context, address string) bool {
	client := http.Client{Timeout: 10 * time.Second}
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return false
		}
		answer, err := client.Do(request)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body) // the test needs only the status
			_ = answer.Body.Close()                 // after a read, an error of Close means nothing
			return answer.StatusCode == http.StatusOK
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// installsThePackages runs commands beside the files of a release. Helm writes the manifests that a
// cluster would get, with the values of docs/DEPLOY.md. Node imports the client.
func installsThePackages(t *testing.T, dir, commands string) {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(dir)))
	guide, err := os.ReadFile("../docs/DEPLOY.md")
	require.NoError(t, err)
	values := regexp.MustCompile("(?s)```yaml\n(image: .*?)```").FindSubmatch(guide)
	require.NotNil(t, values)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "values.yaml"), values[1], 0o600))
	played := strings.Replace(commands, "helm install", root+"/scripts/helm.sh run template --kube-version 1.34", 1)
	require.NotEqual(t, commands, played)
	c := exec.CommandContext(t.Context(), "bash", "-euc", played+`node --input-type=module -e "`+
		`import { Fanfare } from 'fanfare-client'; console.log('a client:', typeof new Fanfare({ baseUrl: '' }).live);"`)
	c.Dir = folder
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "XDG_CACHE_HOME=" + cache, "npm_config_offline=true", "npm_config_update_notifier=false"}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{"app.kubernetes.io/version: \"0.2.0-rc.1\"\n", "\na client: function\n"} {
		assert.Contains(t, string(out), want)
	}

	client := filepath.Join(folder, "node_modules", "fanfare-client")
	manifest, err := os.ReadFile(filepath.Join(client, "package.json"))
	require.NoError(t, err)
	assert.Contains(t, string(manifest), `"version": "0.2.0-rc.1"`)
	assert.NotContains(t, string(manifest), `"private"`)
	guide, err = os.ReadFile(filepath.Join(client, "README.md"))
	require.NoError(t, err)
	assert.NotContains(t, string(guide), "](")
	// The types are complete: each file that a type imports exists.
	types, err := filepath.Glob(filepath.Join(client, "dist", "src", "*.d.ts"))
	require.NoError(t, err)
	imports := 0
	for _, file := range types {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`from '(\./\w+)\.js'`).FindAllSubmatch(text, -1) {
			assert.FileExists(t, filepath.Join(filepath.Dir(file), string(m[1])+".d.ts"))
			imports++
		}
	}
	assert.Greater(t, imports, 5)
}
