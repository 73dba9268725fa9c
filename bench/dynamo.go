package bench

import (
	"context"
	"fmt"

	"fanfare/bench/dynamobench"
	"fanfare/bench/standin"
	"fanfare/internal/daemon"
)

// dynamoPath is T3.
func dynamoPath(ctx context.Context, e *env) (_ []Result, err error) {
	followers, posts := 200_000, e.size(10, 4)
	table, err := standin.Spawn(ctx, e.standIn(), standin.Options{Followers: followers})
	if err != nil {
		return nil, err
	}
	defer table.Stop()
	measured, err := dynamobench.Measure(ctx, dynamobench.Options{
		Endpoint: table.URL, Followers: followers, Posts: posts, Progress: func(line string) { e.say("%s", line) },
	})
	if err != nil {
		return nil, err
	}
	ours, plain := costOf(measured.Ours), costOf(measured.Plain)
	note := fmt.Sprintf("best of %d settings (%s; %s), ours with GOGC=%d as the daemons set it; with that the plain loop does %.0f; the stand-in's CPU time is not in it",
		len(measured.Tried), measured.Plain.Name, measured.Ours.Name, daemon.GCPercent, measured.PlainTuned.PerCPUSecond())
	r := Result{
		ID: "T3", Name: "deliveries on the DynamoDB path", Value: measured.Ours.PerCPUSecond(), Unit: "a CPU-second",
		Cost: &ours, BaselineCost: &plain, Note: note,
	}
	r = r.beside("plain aws-sdk loop, Query and BatchWriteItem", measured.Plain.PerCPUSecond())
	return []Result{r.reach("≥ 5 × baseline", *r.Ratio >= 5)}, nil
}

// standIn is the command of a DynamoDB stand-in.
func (e *env) standIn() []string { return []string{e.Self, "bench", "standin"} }

func costOf(r dynamobench.Run) Cost {
	return Cost{r.Wall.Seconds(), r.CPU.Seconds(), r.Allocs, r.AllocBytes, r.Deliveries}
}
