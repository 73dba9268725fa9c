package standin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// variable is the environment variable that turns a program into a stand-in.
const variable = "FANFARE_BENCH_STANDIN"

// Asked reports whether Spawn started this process. Such a process has to call Main, and then end.
func Asked() bool { return os.Getenv(variable) != "" }

// Main does all the work of a process that Spawn started. It ends when ctx ends, or when the process that
// called Spawn closes the standard input.
func Main(ctx context.Context) error {
	opt, err := Parse(os.Getenv(variable))
	if err != nil {
		return err
	}
	return Serve(ctx, opt, os.Stdin, os.Stdout)
}

// Process is a stand-in in a separate process.
type Process struct {
	// URL is the endpoint of the stand-in.
	URL   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// Spawn starts command, a program that calls Main when Asked is true, and waits until the program
// listens.
func Spawn(ctx context.Context, command []string, opt Options) (*Process, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), variable+"="+opt.String())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a stand-in: %w", err)
	}
	p := &Process{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("the stand-in %q did not start to listen: %w", command, err)
	}
	p.URL = strings.TrimSpace(line)
	return p, nil
}

// Stop ends the process and waits for it.
func (p *Process) Stop() {
	// The stand-in ends when its input ends. Errors no longer matter then.
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
}
