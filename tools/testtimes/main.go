// Command testtimes shows where the time of a test run goes.
//
//	testtimes process BINARY [ARG...]   runs a test binary, and notes its wall time and its CPU time
//	testtimes slowest                   prints the ten slowest tests and the ten slowest packages
//
// Both read the folder TEST_TIMES. It has a file *.json for each run of gotestsum, with the events of tests, and a file
// *.process for each test binary. The command must not judge a time: no run fails because it is slow.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const shown = 10

func main() {
	dir := os.Getenv("TEST_TIMES")
	switch {
	case dir != "" && len(os.Args) > 2 && os.Args[1] == "process":
		os.Exit(process(dir, os.Args[2:]))
	case dir != "" && len(os.Args) == 2 && os.Args[1] == "slowest":
		if err := slowest(os.Stdout, dir); err != nil {
			fmt.Fprintln(os.Stderr, "testtimes:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "usage: TEST_TIMES=FOLDER testtimes process BINARY [ARG...] | slowest")
		os.Exit(2)
	}
}

// used is the time of a test process and of the children that it waited for.
type used struct {
	Package   string
	Wall, CPU time.Duration
}

// process runs a test binary in the folder of its package, as `go test -exec` wants, and returns its exit code.
// Go test sends SIGQUIT to a test that hangs: the binary gets it.
func process(dir string, command []string) int {
	run := exec.Command(command[0], command[1:]...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGTERM, os.Interrupt)
	begin := time.Now()
	if err := run.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "testtimes:", err)
		return 1
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != os.Interrupt { // Ctrl-C reaches the whole process group
				_ = run.Process.Signal(s) // the process may have ended
			}
			continue
		case <-ended:
		}
		break
	}
	state := run.ProcessState
	if err := note(dir, used{packageName(), time.Since(begin), state.UserTime() + state.SystemTime()}); err != nil {
		fmt.Fprintln(os.Stderr, "testtimes:", err)
	}
	if code := state.ExitCode(); code >= 0 {
		return code
	}
	return 1 // a signal ended the test
}

// packageName returns the folder of the test, from the root of the repository.
func packageName() string {
	folder, err := os.Getwd()
	if err != nil {
		return "?"
	}
	if name, err := filepath.Rel(os.Getenv("TEST_ROOT"), folder); err == nil {
		return filepath.ToSlash(name)
	}
	return folder
}

func note(dir string, u used) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, "*.process")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// event is the end of a test, as `go test -json` writes it. The event of a package has no test.
type event struct {
	Action, Package, Test string
	Elapsed               float64 // seconds
}

func slowest(out io.Writer, dir string) error {
	var tests []event
	var packages []used
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if filepath.Ext(name) == ".process" {
			var u used
			if err := json.Unmarshal(text, &u); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			packages = append(packages, u)
			continue
		}
		for line := bufio.NewScanner(strings.NewReader(string(text))); line.Scan(); {
			var e event
			if err := json.Unmarshal(line.Bytes(), &e); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if e.Test != "" {
				tests = append(tests, e)
			}
		}
	}
	print(out, tests, packages)
	return nil
}

func print(out io.Writer, tests []event, packages []used) {
	slices.SortFunc(tests, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	slices.SortFunc(packages, func(a, b used) int { return cmp.Compare(b.Wall, a.Wall) })
	var wall, cpu time.Duration
	for _, u := range packages {
		wall, cpu = wall+u.Wall, cpu+u.CPU
	}
	fmt.Fprintf(out, "\nThe slowest tests:\n%8s  test\n", "wall")
	for _, e := range tests[:min(shown, len(tests))] {
		fmt.Fprintf(out, "%7.1fs  %s %s\n", e.Elapsed, e.Package, e.Test)
	}
	fmt.Fprintf(out, "\nThe slowest packages:\n%8s  %8s  package\n", "wall", "CPU")
	for _, u := range packages[:min(shown, len(packages))] {
		fmt.Fprintf(out, "%7.1fs  %7.1fs  %s\n", u.Wall.Seconds(), u.CPU.Seconds(), u.Package)
	}
	fmt.Fprintf(out, "%7.1fs  %7.1fs  all %d packages, one after another\n", wall.Seconds(), cpu.Seconds(), len(packages))
}
