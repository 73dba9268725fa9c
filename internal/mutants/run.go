package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// suite is one way to kill a mutant: a test binary of a package and its arguments.
type suite struct {
	name string
	// folder is the folder of the package, from the repository's root. binary is the binary of the
	// package's tests.
	folder, binary string
	// parts are the arguments of consecutive runs, the cheap tests first. The first failure ends the
	// suite.
	parts [][]string
	limit []time.Duration
}

// dear is the share of a suite's time above which a test runs last.
const dear = 0.05

// building is the name of tests that build their package. The build contains no mutant, so such a test
// finds no mutant, and its wait for the compiler would look like a hang.
const building = "TestPlantedBugsAreFound"

// ofPackage returns the suite of a package's own tests, after a run of the tests without a mutant.
func (r *runner) ofPackage(ctx context.Context, folder string) (suite, error) {
	binary, err := r.build(ctx, folder)
	s := suite{name: "tests", folder: folder, binary: binary}
	if err != nil {
		return s, err
	}
	start := time.Now()
	out, used, err := r.run(ctx, s, 0, time.Hour, "-test.short", "-test.v", "-test.skip", "^"+building+"$")
	if err != nil {
		return s, fmt.Errorf("%s fails without a mutant: %w\n%s", folder, err, out)
	}
	took := time.Since(start)
	var slow []string
	for _, m := range regexp.MustCompile(`(?m)^--- PASS: (\w+) \(([0-9.]+)s\)`).FindAllStringSubmatch(out, -1) {
		if seconds, err := strconv.ParseFloat(m[2], 64); err == nil && seconds > dear*took.Seconds() {
			slow = append(slow, m[1])
		}
	}
	late := append([]string{building}, slow...)
	s.parts, s.limit = [][]string{{"-test.short", "-test.failfast", "-test.skip", "^(" + strings.Join(late, "|") + ")$"}}, []time.Duration{r.patience(used)}
	if len(slow) > 0 {
		s.parts = append(s.parts, []string{"-test.short", "-test.failfast", "-test.run", "^(" + strings.Join(slow, "|") + ")$"})
		s.limit = append(s.limit, s.limit[0])
	}
	return s, nil
}

// ofSeeds returns the suite of the simulation's seeds, after a run of the seeds without a mutant. The
// first tenth of the seeds runs separately, so that a hanging mutant does not use the time of all seeds.
func (r *runner) ofSeeds(ctx context.Context, folder string, seeds int) (suite, error) {
	binary, err := r.build(ctx, folder)
	s := suite{name: "simulation", folder: folder, binary: binary}
	if err != nil {
		return s, err
	}
	few := (seeds + 9) / 10
	for _, some := range [][2]int{{1, few}, {few + 1, seeds - few}} {
		args := []string{"-test.run", "^TestSeeds$", "-stop", "-shrink", "0", "-from", strconv.Itoa(some[0]), "-seeds", strconv.Itoa(some[1])}
		out, used, err := r.run(ctx, s, 0, time.Hour, args...)
		if err != nil {
			return s, fmt.Errorf("%s fails without a mutant: %w\n%s", folder, err, out)
		}
		s.parts, s.limit = append(s.parts, args), append(s.limit, r.patience(used))
	}
	return s, nil
}

// runner builds and runs test binaries of mutants.
type runner struct {
	root, temp string
	// overlay is the file for the compiler's -overlay.
	overlay     string
	slack, idle time.Duration
}

// patience returns the CPU time that a run may use. d is the CPU time of the same run without a mutant.
func (r *runner) patience(d time.Duration) time.Duration { return r.slack + 2*d }

// kills reports whether the suite fails on the mutant with this number, and the reason: a test, or a
// hang. It ends a mutant that hangs.
func (r *runner) kills(ctx context.Context, s suite, number int) (why string, err error) {
	for i, args := range s.parts {
		out, _, err := r.run(ctx, s, number, s.limit[i], args...)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.Is(err, errHangs):
			return s.name + ": hangs", nil
		case err != nil:
			return s.name + ": " + reason(out), nil //nolint:nilerr // a failed test is the result, and no error
		}
	}
	return "", nil
}

// reason returns the name of the test that failed, or the first line of a panic.
func reason(out string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "--- FAIL: ") || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line)
		}
	}
	return "exits"
}

// build builds the tests of a package, together with all mutants of the package.
func (r *runner) build(ctx context.Context, folder string) (binary string, err error) {
	f, err := os.CreateTemp(r.temp, "*.test")
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-tags", tags, "-ldflags", "-s -w", "-overlay", r.overlay, "-o", f.Name(), "./"+folder)
	build.Dir = r.root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the tests of %s: %w\n%s", folder, err, out)
	}
	return f.Name(), f.Close()
}

var errHangs = errors.New("it hangs")

// run runs the suite's binary in the folder of its package, as the mutant with this number; 0 means no
// mutant. It returns the CPU time that the run used. A run hangs if it needs more CPU time than limit.
// Wall time would depend on the load of the machine. A mutant could use all memory, so it gets 3 GiB of
// address space. The programs that the mutant started end with the mutant.
func (r *runner) run(ctx context.Context, s suite, number int, limit time.Duration, args ...string) (out string, used time.Duration, err error) {
	limits := fmt.Sprintf(`ulimit -v 3145728; ulimit -t %d; exec "$0" "$@"`, int(math.Ceil(limit.Seconds())))
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", limits, s.binary}, args...)...)
	cmd.Dir = filepath.Join(r.root, s.folder)
	cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(number))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		return "", 0, err
	}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if r.stands(cmd.Process.Pid, ended) {
			_ = cmd.Cancel() // an error means that the process has just ended
		}
	}()
	err = cmd.Wait()
	close(ended)
	<-watched
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		err = errHangs
	}
	return text.String(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// fewTicks is a number of hundredths of a second. A process that uses less CPU time than this for the
// runner's idle time stands still.
const fewTicks = 10

// stands returns true when a process makes no progress because its goroutines wait for each other. It
// returns false if the process ends.
func (r *runner) stands(pid int, ended <-chan struct{}) bool {
	for before := -fewTicks; ; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false // the process has ended, or the system has no such file
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')'):]))
		user, _ := strconv.Atoi(fields[12])   // always a number
		system, _ := strconv.Atoi(fields[13]) // always a number
		if user+system < before+fewTicks {
			return true
		}
		before = user + system
		select {
		case <-ended:
			return false
		case <-time.After(r.idle):
		}
	}
}
