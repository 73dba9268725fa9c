package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crashRounds is the number of kills of each crash test.
var crashRounds = flag.Int("crash-rounds", 3, "rounds of each crash test")

// binaries is the directory in which TestMain built the commands.
var binaries string

const graph = "../testdata/graphs/socfb-Reed98.edges"

func TestMain(m *testing.M) {
	if os.Getenv(plannerVariable) != "" { // Terraform runs this binary
		if err := servePlanner(); err != nil {
			panic(err)
		}
		return
	}
	// These tests mostly wait for processes. If only as many tests ran at once as the machine has cores,
	// these tests would be the last of the whole suite to end.
	if err := flag.Set("test.parallel", strconv.Itoa(runtime.NumCPU()+1)); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fanfare-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)             //nolint:errcheck // a temporary directory that remains is harmless
	built := os.Getenv("TEST_COMMANDS") // make has built the command there
	if built == "" {
		command := exec.CommandContext(context.Background(), "go", "build", "-tags", "grpcnotrace", "-trimpath", "-ldflags=-w", "-o", dir+"/", "./cmd/fanfare")
		command.Dir, command.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
		command.Stdout, command.Stderr = os.Stderr, os.Stderr
		err = command.Run()
	} else { // a copy, because another user may not enter the folder of the original
		var command []byte
		if command, err = os.ReadFile(filepath.Join(built, "fanfare")); err == nil {
			err = os.WriteFile(filepath.Join(dir, "fanfare"), command, 0o755)
		}
	}
	for _, daemon := range []string{"api", "fanout", "likeagg"} { // the image and the archives have the same commands
		err = errors.Join(err, os.Symlink(filepath.Join(dir, "fanfare"), filepath.Join(dir, daemon)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the commands:", err)
		return 1
	}
	binaries = dir
	return m.Run()
}

// environment returns the test's environment without variables of Fanfare, and with vars. The canary is
// off, because its posts and likes would change the numbers that a test counts.
func environment(vars ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FANFARE_") })
	return append(append(env, "FANFARE_CANARY=off"), vars...)
}

// process is a process that the test started.
type process struct {
	name   string
	pid    int
	log    string
	exited chan struct{}
	err    error // set once exited is closed
}

// start runs a command until the command or the test ends. A name with a folder is the path of a program.
func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	if filepath.IsAbs(name) {
		return startBinary(t, env, name, args...)
	}
	return startBinary(t, env, filepath.Join(binaries, name), args...)
}

// startBinary runs a binary that is not a command of Fanfare, as start does.
func startBinary(t *testing.T, env []string, path string, args ...string) *process {
	t.Helper()
	name := filepath.Base(path)
	log, err := os.CreateTemp(t.TempDir(), name+"-*.log")
	require.NoError(t, err)
	defer log.Close()
	// exec.CommandContext is not used, because the test decides when and how a process ends.
	command := exec.Command(path, args...)
	command.Env, command.Stdout, command.Stderr, command.SysProcAttr = env, log, log, withParent()
	require.NoError(t, command.Start())
	p := &process{name: name, pid: command.Process.Pid, log: log.Name(), exited: make(chan struct{})}
	go func() { p.err = command.Wait(); close(p.exited) }()
	t.Cleanup(func() {
		p.kill(t)
		if t.Failed() {
			t.Logf("log of %s (pid %d):\n%s", name, p.pid, tail(p.log))
		}
	})
	return p
}

// tail returns the end of a file.
func tail(file string) string {
	const most = 4000
	raw, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-most):])
}

// kill ends the process at once, as a power cut would.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	<-p.exited
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("signal %s to %s: %v", s, p.name, err)
	}
}

// lateEmulator is in the error of a process whose last request had no answer for four seconds. A loaded emulator answers later, and
// SQS delivers the messages of that request once more.
const lateEmulator = "a request was cut at the stop"

// stop asks the process to end, and fails the test unless the process exits with code 0.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	select {
	case <-p.exited:
		if p.err != nil && !strings.Contains(tail(p.log), lateEmulator) {
			t.Errorf("%s ended with %v after SIGTERM", p.name, p.err)
		}
	case <-time.After(45 * time.Second):
		t.Errorf("%s did not end within 45 s of SIGTERM", p.name)
	}
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// patience is the deadline of a condition whose time is not what a test proves. Where many browsers and processes share two
// processors, axe takes minutes.
const patience = 5 * time.Minute

// await polls until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	within(t, what, patience, holds)
}

// within polls until a condition holds, for limit at most.
func within(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %v", what, limit)
		case <-poll.C:
		}
	}
}

// ready waits until the process reports on its admin address that it is ready.
func (p *process) ready(t *testing.T, admin string) {
	t.Helper()
	await(t, p.name+" is ready", func() bool {
		if !p.running() {
			t.Fatalf("%s ended at its start: %v\n%s", p.name, p.err, tail(p.log))
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/readyz", http.NoBody)
		require.NoError(t, err)
		resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
}

// report is the JSON object that replay prints.
type report struct {
	Users, Edges, Posts, Likes     int
	Expected                       int `json:"expected_deliveries"`
	Delivered, Missing, Unexpected int
	Duplicated                     int
	WrongCounts                    int      `json:"wrong_counts"`
	WCUPerDelivery                 *float64 `json:"wcu_per_delivery"`
	WCUPerLike                     *float64 `json:"wcu_per_like"`
	// DeliveriesPerSec is the number of deliveries in a second, from the first post to the last delivery.
	DeliveriesPerSec float64 `json:"deliveries_per_s"`
	Away             int
	Skipped          *float64
}

// fanfare runs a command of the binary to its end.
func fanfare(t *testing.T, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(binaries, "fanfare"), args...)
	var out, problems bytes.Buffer
	command.Env, command.Stdout, command.Stderr = env, &out, &problems
	err = command.Run()
	return out.String(), problems.String(), err
}

// verdict decodes a replay's report, and fails the test unless the report is exact.
func verdict(t *testing.T, stdout, stderr string, err error) report {
	t.Helper()
	var r report
	require.NoErrorf(t, err, "replay:\n%s\n%s", stdout, stderr)
	require.NoErrorf(t, json.Unmarshal([]byte(stdout), &r), "replay printed %q", stdout)
	if r.Missing+r.Unexpected+r.Duplicated+r.WrongCounts != 0 || r.Delivered != r.Expected {
		t.Errorf("not exact: %s\n%s", stdout, stderr)
	}
	t.Logf("%s", strings.TrimSpace(stdout))
	return r
}

// lines counts the lines of a file, which may not exist yet.
func lines(t *testing.T, file string) int {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(raw, []byte("\n"))
}

// code returns a command's exit code, or -1 if the command did not end by itself.
func code(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}
