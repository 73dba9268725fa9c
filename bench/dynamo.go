package main

import (
	"context"
	"fmt"
	"time"

	"fanfare/bench/dynamobench"
	"fanfare/bench/standin"
	"fanfare/internal/daemon"
)

// dynamoPath is benchmark T3, first without the latency of a network, and then with it.
func dynamoPath(ctx context.Context, e *env) ([]Result, error) {
	var results []Result
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		r, err := e.dynamoPathAt(ctx, latency)
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

func (e *env) dynamoPathAt(ctx context.Context, latency time.Duration) (r Result, err error) {
	e.say("%v round trip", latency)
	followers, posts, rounds := 200_000, 4, e.size(4, 1)
	var workers []dynamobench.Setting // nil means all settings
	if latency > 0 {
		rounds, workers = e.size(2, 1), []dynamobench.Setting{{Chunks: 16, Writers: 8}} // fewer would wait for the network
	}
	table, err := standin.Spawn(ctx, e.standIn(), standin.Options{Followers: followers, Latency: latency})
	if err != nil {
		return r, err
	}
	defer table.Stop()
	measured, err := dynamobench.Measure(ctx, dynamobench.Options{
		Endpoint: table.URL, Followers: followers, Posts: posts, Rounds: rounds, Workers: workers, Progress: func(line string) { e.say("%s", line) },
	})
	if err != nil {
		return r, err
	}
	ours, plain := costOf(measured.Ours), costOf(measured.Plain)
	r = Result{
		ID: "T3", Name: fmt.Sprintf("deliveries on the DynamoDB path, %v", latency), Value: measured.Ours.PerCPUSecond(), Unit: "a CPU-second",
		Cost: &ours, BaselineCost: &plain,
		Note: fmt.Sprintf("best of %d rounds and some settings each (%s; %s), both with the daemons' GOGC=%d; without the stand-in's CPU time",
			rounds, measured.Plain.Name, measured.Ours.Name, daemon.GCPercent),
	}
	r = r.beside("plain aws-sdk loop, Query and BatchWriteItem", measured.Plain.PerCPUSecond())
	if latency > 0 {
		return r.reported(), nil
	}
	return r.reach("≥ 1.2 × baseline", *r.Ratio >= 1.2), nil
}

// standIn returns the command that runs a DynamoDB stand-in.
func (e *env) standIn() []string { return []string{e.Self, "standin"} }

func costOf(r dynamobench.Run) Cost {
	return Cost{WallSeconds: r.Wall.Seconds(), CPUSeconds: r.CPU.Seconds(), Allocs: r.Allocs, AllocBytes: r.AllocBytes, Units: r.Deliveries}
}
