package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"time"

	"fanfare/internal/objects/objectstest"
)

// pairID is the id of the rows of a pair of machines.
const pairID = "T24"

// pairUp is benchmark T24: the cost of a standby. The standby is on the same machine and the same disk, so the rate
// of the posts is lower than with a machine of its own.
func pairUp(ctx context.Context, e *env) (_ []Result, err error) {
	const users = 2000
	dir, remove, err := e.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	register := httptest.NewServer(new(objectstest.Bucket))
	defer register.Close()
	envs, err := e.peers(dir, register.URL)
	if err != nil {
		return nil, err
	}
	// A primary stops before its standby.
	standby, err := start(append([]string{"FANFARE_LOG_LEVEL=error"}, envs[1]...), e.Fanfare, "up", "--standby", "--data-dir", filepath.Join(dir, "standby"),
		"--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, standby.stop()) }()
	var servers [2]*server
	var tokens [2][]string
	for i, name := range []string{"alone", "paired"} {
		at, env := filepath.Join(dir, name), []string{}
		if err := seed(ctx, at, circle(users)); err != nil {
			return nil, err
		}
		if i == 1 {
			env = envs[0]
		}
		if servers[i], err = e.up(ctx, at, env...); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, servers[i].stop()) }()
		if tokens[i], err = servers[i].tokensOf(users); err != nil {
			return nil, err
		}
	}
	if err := e.awaitPair(ctx, servers[1]); err != nil {
		return nil, err
	}
	costs, err := e.postsByTurns(ctx, servers, tokens, 256)
	if err != nil {
		return nil, err
	}
	return pairResults(costs[0], costs[1]), nil
}

func pairResults(alone, paired postCost) []Result {
	cpu := Result{
		ID: pairID, Name: "CPU time of a post on the primary", Value: paired.cost.cpuEach(), Unit: "µs", Cost: &paired.cost, BaselineCost: &alone.cost, Latency: paired.times,
		Note: "the load alternates between two servers; 256 clients",
	}.below("alone", alone.cost.cpuEach())
	rate := Result{ID: pairID, Name: "posts a second with a standby on the same machine", Value: paired.rate, Unit: "1/s"}.beside("alone", alone.rate)
	late := Result{ID: pairID, Name: "p99 of a post with a standby on the same machine", Value: paired.times.P99, Unit: "ms"}.below("alone", alone.times.P99)
	return []Result{cpu.reach("≤ 1.15 × alone", cpu.Value <= 1.15**cpu.Baseline), rate.reported(), late.reported()}
}

// peers returns the environments of the two servers of a pair, which speak TLS, and whose register is in the bucket at an URL.
func (e *env) peers(dir, register string) (envs [2][]string, err error) {
	keys := filepath.Join(dir, "keys")
	made, err := start(nil, e.Fanfare, "pair", "keys", keys)
	if err == nil {
		err = made.wait()
	}
	if err != nil {
		return envs, err
	}
	var addresses [2]string
	for i := range addresses {
		if addresses[i], err = freeAddress(); err != nil {
			return envs, err
		}
	}
	for i, name := range []string{"one", "two"} {
		envs[i] = []string{
			"FANFARE_PEER_ADDR=" + addresses[i], "FANFARE_PEER=" + addresses[1-i], "FANFARE_PEER_CA=" + filepath.Join(keys, "ca.crt"),
			"FANFARE_PEER_CERT=" + filepath.Join(keys, name+".crt"), "FANFARE_PEER_KEY=" + filepath.Join(keys, name+".key"),
			"FANFARE_REGISTER=s3://bucket/pair", "FANFARE_FAILOVER_AFTER=1h", // a busy machine changes no role
		}
		for variable, value := range objectstest.Env(register) {
			envs[i] = append(envs[i], variable+"="+value)
		}
	}
	return envs, nil
}

// awaitPair waits until a server is the primary of a pair.
func (e *env) awaitPair(ctx context.Context, s *server) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	e.say("wait for the standby")
	for {
		m, err := s.metrics(ctx)
		if err != nil || m["fanfare_pair_paired"] == 1 {
			return err
		}
		if err := e.pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("the standby does not follow: %w", err)
		}
	}
}
