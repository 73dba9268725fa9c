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

// variable is the environment variable that makes a program a stand-in.
const variable = "FANFARE_BENCH_STANDIN"

// Asked reports whether Spawn started this process. If so, the process has to call Main
// and end.
func Asked() bool { return os.Getenv(variable) != "" }

// Main does all the work of a process that Spawn started. It ends with ctx, or with the
// process that started it, which closes its standard input.
func Main(ctx context.Context) error {
	opt, err := Parse(os.Getenv(variable))
	if err != nil {
		return err
	}
	return Serve(ctx, opt, os.Stdin, os.Stdout)
}

// Process is a stand-in in a process of its own.
type Process struct {
	// URL is its endpoint.
	URL   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// Spawn starts command, a program that calls Main when Asked, and waits until it
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
	// The end of its input ends the stand-in. By then its errors do not matter.
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
}
