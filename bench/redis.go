package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// redisServer is a Redis that this run started, or nil if Redis is not installed.
type redisServer struct {
	cmd       *exec.Cmd
	output    bytes.Buffer
	conn      net.Conn
	in        *bufio.Reader
	address   string
	followers int
}

// startRedis starts a Redis on a free port and in its own directory. Redis syncs its append-only file
// every second.
func (e *env) startRedis(ctx context.Context, dir string, followers int) (_ *redisServer, err error) {
	path, absent := exec.LookPath("redis-server")
	if absent != nil {
		e.say("redis-server is not installed (Debian: apt-get install redis-server): not compared")
		return nil, nil //nolint:nilerr // the report shows that Redis is absent
	}
	data := dir + "/redis"
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	r := &redisServer{address: address, followers: followers}
	// The owner of the process stops it, so no context kills it.
	r.cmd = exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--dir", data, //nolint:noctx // a fixed command
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--daemonize", "no")
	r.cmd.Stdout, r.cmd.Stderr = &r.output, &r.output
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		r.conn, err = net.DialTimeout("tcp", address, time.Second) //nolint:noctx // loopback, with a timeout
		if err == nil {
			r.in = bufio.NewReaderSize(r.conn, 64<<10)
			return r, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), r.stop())
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("Redis does not answer: %w", err), r.stop()) //nolint:staticcheck // a name
		}
	}
}

// adds puts the entries of one post into sorted sets, in pipelines of 1,000.
func (r *redisServer) adds(post string) (Cost, error) {
	if r == nil {
		return Cost{}, nil
	}
	const size = 1000
	score := strconv.FormatInt(time.Now().UnixMilli(), 10)
	var pipeline []byte
	begin := time.Now()
	cpu, err := cpuOf(r.cmd.Process.Pid)
	if err != nil {
		return Cost{}, err
	}
	for from := 0; from < r.followers; from += size {
		n := min(size, r.followers-from)
		pipeline = pipeline[:0]
		for i := range n {
			key := "u:" + user(from+i)
			pipeline = fmt.Appendf(pipeline, "*4\r\n$4\r\nZADD\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n",
				len(key), key, len(score), score, len(post), post)
		}
		if _, err := r.conn.Write(pipeline); err != nil {
			return Cost{}, fmt.Errorf("write to Redis: %w", err)
		}
		for range n {
			reply, err := r.in.ReadSlice('\n')
			if err != nil {
				return Cost{}, fmt.Errorf("read from Redis: %w", err)
			}
			if string(reply) != ":1\r\n" {
				return Cost{}, fmt.Errorf("Redis answered %q", reply) //nolint:staticcheck // a name
			}
		}
	}
	wall := time.Since(begin)
	after, err := cpuOf(r.cmd.Process.Pid)
	return Cost{WallSeconds: wall.Seconds(), CPUSeconds: (after - cpu).Seconds(), Units: int64(r.followers)}, err
}

func (r *redisServer) stop() error {
	if r == nil {
		return nil
	}
	var err error
	if r.conn != nil {
		err = r.conn.Close()
	}
	err = errors.Join(err, r.cmd.Process.Signal(syscall.SIGTERM))
	if waitErr := r.cmd.Wait(); waitErr != nil {
		err = errors.Join(err, fmt.Errorf("Redis: %w: %.500s", waitErr, r.output.Bytes())) //nolint:staticcheck // a name
	}
	return err
}
