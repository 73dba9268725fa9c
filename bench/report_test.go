package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// report returns a report with a value in each field.
func report() Report {
	r := Result{
		ID: "T1", Name: "fan-out", Value: 356_641.4, Unit: "deliveries/s", Note: "how",
		Cost:         &Cost{WallSeconds: 1.4, CPUSeconds: 0.93, Allocs: 1_130_000, AllocBytes: 251_500_000, Units: 500_000},
		BaselineCost: &Cost{WallSeconds: 0.8, CPUSeconds: 0.37, Units: 500_000},
		Latency:      &Latency{P50: 247, P90: 345, P99: 345.5, Max: 346, Count: 5},
	}
	return Report{
		Date: "2026-01-02", Fanfare: "fanfare v0.1.0", Full: true,
		Machine: Machine{CPU: "a CPU", CPUs: 2, MemoryMB: 4096, OS: "linux/amd64", Go: "go1.26", MaxProcs: 2, Disk: "ext4", FreeMB: 1000, Load: 0.5},
		Results: []Result{
			r.beside("bare Pebble", 500_000).reach("≥ 0.6 × baseline", true),
			Result{ID: "T4", Name: "write units", Value: 1.0009, Unit: "WCU"}.below("floor", 1).reach("≤ 1.01", true),
			Result{ID: "T8", Name: "writes", Value: 2, Unit: "writes"}.reach("≤ 1", false),
			Result{ID: "T9", Name: "likes over HTTP", Value: 5777, Unit: "likes/s", Cost: &Cost{CPUSeconds: 1, LoadCPUSeconds: 0.25, Units: 5777}}.reported(),
		},
		Failed: []string{"bench T6: no port"},
	}
}

func TestReportsAreWrittenAsPromised(t *testing.T) {
	for name, write := range map[string]func(Report, io.Writer) error{"report.json": Report.WriteJSON, "report.txt": Report.WriteTable} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, write(report(), &out))
			file := filepath.Join("testdata", name)
			if *update {
				require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(want), out.String())
		})
	}
}

// Scripts read these keys. Later versions may add keys.
func TestEachResultHasEveryKey(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, report().WriteJSON(&out))
	var got struct {
		Machine map[string]any
		Results []map[string]any
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	if len(got.Machine) == 0 || len(got.Results) != 4 {
		t.Fatalf("machine %v, %d results", got.Machine, len(got.Results))
	}
	for _, r := range got.Results {
		for _, key := range []string{"id", "name", "value", "unit", "baseline", "baseline_name", "ratio", "target", "met"} {
			assert.Containsf(t, r, key, "%v has no", r["id"])
		}
		if _, decided := r["met"].(bool); decided == (r["target"] == "reported") {
			t.Errorf("%v: with the target %q met is %v", r["id"], r["target"], r["met"])
		}
	}
}

func TestAReportWithoutResultsHasAnEmptyList(t *testing.T) {
	var out strings.Builder
	require.NoError(t, (Report{}).WriteJSON(&out))
	assert.Contains(t, out.String(), `"results": []`)
}

func TestRatiosAboveOneAreAhead(t *testing.T) {
	more := Result{Value: 300}.beside("b", 100)
	less := Result{Value: 5}.below("b", 10)
	if *more.Ratio != 3 || *less.Ratio != 2 {
		t.Errorf("ratios %v, %v, want 3, 2", *more.Ratio, *less.Ratio)
	}
}

func TestAnUnknownBenchmarkIsNamed(t *testing.T) {
	_, err := Run(t.Context(), Config{Only: []string{"T1", "T99"}, Progress: io.Discard, Dir: t.TempDir()})
	unknown, ok := errors.AsType[*UnknownError](err)
	if !ok || unknown.ID != "T99" {
		t.Errorf("error = %v, want an UnknownError of T99", err)
	}
}

func TestCostsAddUp(t *testing.T) {
	before := usage{at: time.Unix(0, 0), cpu: time.Second, allocs: 5, allocBytes: 50, loader: time.Second}
	after := usage{at: time.Unix(2, 0), cpu: 4 * time.Second, allocs: 15, allocBytes: 150, loader: 2 * time.Second}
	cost := after.since(before, 10)
	assert.Equal(t, Cost{WallSeconds: 2, CPUSeconds: 3, Allocs: 10, AllocBytes: 100, Units: 10, LoadCPUSeconds: 1}, cost)
	if sum := cost.plus(cost); sum.Units != 20 || sum.rate() != 5 || sum.LoadCPUSeconds != 2 {
		t.Errorf("twice that is %+v", sum)
	}
	own := ownUsage()
	if cpu, err := cpuOf(os.Getpid()); err != nil || cpu > own.cpu+time.Minute {
		t.Errorf("CPU time of this process: %v, %v", cpu, err)
	}
	if peak, err := peakMemory(os.Getpid()); err != nil || peak < 1<<20 {
		t.Errorf("peak memory of this process: %d, %v", peak, err)
	}
}

func TestHistogramsKeepTheirTail(t *testing.T) {
	h := newHistogram()
	for i := range 1000 {
		record(h, time.Duration(i+1)*time.Millisecond)
	}
	record(h, time.Hour) // an hour counts as a minute
	l := latencyOf(h)
	if l.Count != 1001 || l.P50 < 495 || l.P50 > 505 || l.P99 < 980 || l.Max < 59_000 {
		t.Errorf("latency = %+v", l)
	}
}
