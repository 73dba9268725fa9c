package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"fanfare/internal/auth"
	"fanfare/internal/datadir"
)

// server is a `fanfare up` in its own process, on a data directory.
type server struct {
	process
	http, admin string
	tokens      tokens
}

// tokens makes the tokens of users.
type tokens interface {
	Issue(user string, ttl time.Duration, scopes ...string) (token string, expiresAt time.Time, err error)
}

// process is a child process. The owner has to stop the process.
type process struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	copies *sync.WaitGroup
	// out is the unread part of the process's standard output.
	out *bufio.Reader
}

// start runs a program. The program's environment is env, and the caller's environment without the
// variables FANFARE_* and AWS_*.
func start(env []string, program string, args ...string) (process, error) {
	return startAs(nil, env, program, args...)
}

// startAs runs a program as start does, but as another user unless as is nil.
func startAs(as *syscall.Credential, env []string, program string, args ...string) (process, error) {
	// The owner of the process stops it in two phases, so no context kills it.
	cmd := exec.Command(program, args...) //nolint:noctx // our own programs
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "FANFARE_") && !strings.HasPrefix(kv, "AWS_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	// The kernel kills the child when this process ends, for whatever reason.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: as}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return process{}, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return process{}, err
	}
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("start %s: %w", program, err)
	}
	p := process{cmd: cmd, stderr: new(bytes.Buffer), copies: new(sync.WaitGroup), out: bufio.NewReader(stdout)}
	p.copies.Go(func() {
		// An error shows the stderr of the child. The first 64 KiB are enough.
		if _, err := io.CopyN(p.stderr, stderr, 64<<10); err == nil {
			_, _ = io.Copy(io.Discard, stderr) // otherwise a full pipe would block the child
		}
	})
	return p, nil
}

func (p process) pid() int { return p.cmd.Process.Pid }

// stop asks the process to end, and kills the process after 30 seconds.
func (p process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	kill := time.AfterFunc(30*time.Second, func() {
		// An error means that the process has already ended.
		_ = p.cmd.Process.Kill()
	})
	defer kill.Stop()
	return p.wait()
}

// wait waits for the process to end by itself.
func (p process) wait() error {
	if _, err := io.Copy(io.Discard, p.out); err != nil {
		return err
	}
	p.copies.Wait()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(p.cmd.Args, " "), err, bytes.TrimSpace(p.stderr.Bytes()))
	}
	return nil
}

var readyLine = regexp.MustCompile(`at http://(\S+) .*admin: http://(\S+)\)`)

// up starts a server with dev tokens on dir and waits until it serves.
func (e *env) up(ctx context.Context, dir string, env ...string) (*server, error) {
	s, err := e.serve(ctx, dir, env...)
	if err != nil {
		return nil, err
	}
	secret, err := datadir.ReadSecret(dir)
	if err == nil {
		s.tokens, err = auth.NewDev(secret, time.Now)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// serve starts a `fanfare up` without dev tokens. The server pushes the posts of all authors, and has no
// canary and no auditor, unless env changes these settings.
func (e *env) serve(ctx context.Context, dir string, env ...string) (*server, error) {
	p, err := start(append([]string{"FANFARE_LOG_LEVEL=error", "FANFARE_PUSH_LIMIT=0", "FANFARE_CANARY=off", "FANFARE_AUDIT=off"}, env...),
		e.Fanfare, "up", "--data-dir", dir, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() {
		// The kill ends the wait for the first line of the process.
		_ = p.cmd.Process.Kill()
	})()
	line, err := p.out.ReadString('\n')
	found := readyLine.FindStringSubmatch(line)
	if found == nil {
		return nil, fmt.Errorf("fanfare up is not ready: %w", ctxErr(ctx, errors.Join(err, p.stop())))
	}
	return &server{process: p, http: found[1], admin: found[2]}, nil
}

// token returns a token of a user, which is valid for an hour.
func (s *server) token(user string) (string, error) {
	token, _, err := s.tokens.Issue(user, time.Hour)
	return token, err
}

// usage returns the CPU time and memory that the server has used, and the CPU time of this process, which
// is the load generator.
func (s *server) usage(ctx context.Context) (usage, error) {
	m, err := s.metrics(ctx)
	if err != nil {
		return usage{}, err
	}
	cpu, err := cpuOf(s.pid())
	if err != nil {
		return usage{}, err
	}
	return usage{
		at: time.Now(), cpu: cpu, allocs: uint64(m["go_memstats_mallocs_total"]), allocBytes: uint64(m["go_memstats_alloc_bytes_total"]),
		loader: ownUsage().cpu,
	}, nil
}

// metrics reads the server's metrics. The key of a series is its name with its labels.
func (s *server) metrics(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	out := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if name, value, ok := cutLast(lines.Text(), ' '); ok && !strings.HasPrefix(name, "#") {
			if n, err := strconv.ParseFloat(value, 64); err == nil { // any other line is a comment
				out[name] = n
			}
		}
	}
	return out, lines.Err()
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
