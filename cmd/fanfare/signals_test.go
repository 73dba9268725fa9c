package main

import (
	"bufio"
	"fanfare/internal/porttest"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A closed terminal sends SIGHUP, maybe twice: from the shell, and from the kernel.
func TestATerminalThatClosesStopsInOrder(t *testing.T) {
	t.Parallel()
	p := upWith(t, []string{"FANFARE_DRAIN=1s"}, t.TempDir())
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	until(t, "it drains", func() bool { return status(p.url+"/servez") == http.StatusServiceUnavailable })
	assert.Zero(t, p.stop(t, syscall.SIGHUP), "exit code")
}

func TestASecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	for _, first := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		p := upWith(t, []string{"FANFARE_DRAIN=5m"}, t.TempDir())
		require.NoError(t, p.Process.Signal(first))
		until(t, "it drains", func() bool { return status(p.url+"/servez") == http.StatusServiceUnavailable })
		p.stop(t, syscall.SIGTERM)
		assert.Equal(t, syscall.SIGTERM, p.ProcessState.Sys().(syscall.WaitStatus).Signal(), "after %s", first)
	}
}

// nohup starts a process that ignores SIGHUP.
func TestAProcessOfNohupOutlivesItsTerminal(t *testing.T) {
	t.Parallel()
	admin := porttest.Free(t)
	c := command(t, []string{"FANFARE_CANARY=off"}, "fanfare", "up", "--data-dir", t.TempDir(), "--http", "127.0.0.1:0", "--admin", admin)
	c.Args = append([]string{"sh", "-c", `trap '' HUP; exec "$0" "$@"`, c.Path}, c.Args[1:]...)
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	c.Path = shell
	require.NoError(t, c.Start())
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }() // the process may have ended
	until(t, "it serves", func() bool { return status("http://"+admin+"/servez") == http.StatusOK })
	for range 3 {
		require.NoError(t, c.Process.Signal(syscall.SIGHUP))
		assert.Equal(t, http.StatusOK, status("http://"+admin+"/servez"))
	}
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	assert.NoError(t, c.Wait())
}

// status requests a URL, and returns the status of the answer, 0 for no answer.
func status(url string) int {
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}).Get(url)
	if err != nil {
		return 0
	}
	_ = res.Body.Close() // the test needs only the status
	return res.StatusCode
}

// withoutReaders starts a program. The reader of the program's output exits after the first line.
func withoutReaders(t *testing.T, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	c := command(t, env, name, args...)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	c.Stdout, c.Stderr = in, in
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill() // the process may have ended already
		_ = c.Wait()
	})
	require.NoError(t, in.Close())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return c
}

// journald and the log collectors of containers restart. A process must continue after its reader has ended.
func TestAProcessOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	addr, admin := porttest.Free(t), porttest.Free(t)
	c := withoutReaders(t, []string{"FANFARE_CANARY=off", "FANFARE_LOG_LEVEL=debug"},
		"fanfare", "up", "--data-dir", t.TempDir(), "--http", addr, "--admin", admin)
	until(t, "it serves", func() bool { return status("http://"+admin+"/servez") == http.StatusOK })
	for range 10 { // each answer writes a line to the log
		assert.Equal(t, http.StatusUnauthorized, status("http://"+addr+"/v1/me"))
	}
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	assert.NoError(t, c.Wait())
}

func TestADaemonOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	for _, s := range services() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			admin := porttest.Free(t)
			c := withoutReaders(t, []string{
				"FANFARE_ENGINE=aws", "FANFARE_ADMIN_ADDR=" + admin, "FANFARE_HTTP_ADDR=127.0.0.1:0", "FANFARE_LOG_LEVEL=debug",
				"FANFARE_DEV_AUTH_ON_AWS=allow", "FANFARE_DEV_SECRET=" + strings.Repeat("s", 32),
				"AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true",
			}, s.name)
			until(t, "it waits for its table", func() bool { return status("http://"+admin+"/servez") == http.StatusServiceUnavailable })
			require.NoError(t, c.Process.Signal(syscall.SIGHUP)) // the daemon fails, and nobody can read the error
			_ = c.Wait()
			assert.Equal(t, 1, c.ProcessState.ExitCode(), "%s ended by %s", s.name, c.ProcessState)
		})
	}
}

// Long work writes its progress to stderr. The reader of stderr may exit before the work ends.
func TestLongWorkOutlivesTheReaderOfItsProgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := up(t, dir)
	graph := filepath.Join(t.TempDir(), "graph")
	var edges strings.Builder
	for i := range 20 {
		fmt.Fprintf(&edges, "%d %d\n", i, (i+1)%20)
	}
	require.NoError(t, os.WriteFile(graph, []byte(edges.String()), 0o600))
	records := filepath.Join(t.TempDir(), "network.jsonl")
	require.NoError(t, os.WriteFile(records, []byte(smallNetwork), 0o600))
	env := []string{"FANFARE_DATA_DIR=" + dir, "FANFARE_ADMIN_ADDR=" + p.admin}
	for name, args := range map[string][]string{
		"replay": {"replay", "--json", "--graph", graph, "--posts", "20", "--likes", "20", "--target", p.url, "--admin", p.admin},
		"verify": {"verify", "--json"},
		"import": {"import", "--json", "--data-dir", t.TempDir(), records},
	} {
		t.Run(name, func(t *testing.T) {
			c := command(t, env, "fanfare", args...)
			progress, in, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, progress.Close())
			c.Stderr = in
			out, err := c.Output()
			require.NoError(t, in.Close())
			assert.NoError(t, err, "%s", out)
			assert.True(t, strings.HasPrefix(string(out), "{"), "%s", out)
		})
	}
}

// If nobody reads the output, the command fails without a word, as in "fanfare export | head", and no signal ends the command.
func TestACommandWhoseOutputNobodyReadsFails(t *testing.T) {
	t.Parallel()
	c := command(t, nil, "fanfare", "version")
	out, in, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, out.Close())
	c.Stdout = in
	problems, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	require.NoError(t, in.Close())
	text, err := io.ReadAll(problems)
	require.NoError(t, err)
	_ = c.Wait() // the exit code shows the result
	assert.Equal(t, 1, c.ProcessState.ExitCode())
	assert.Empty(t, string(text))
}
