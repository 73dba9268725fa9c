package sim

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	record = flag.String("record", "", "append the run of the seeds to this file")
	commit = flag.String("commit", "", "the commit of the run, for -record")
)

// seedRun is a line of runs.jsonl. docs/runs_test.go has the rules for such lines.
type seedRun struct {
	Day         string  `json:"day"`
	Commit      string  `json:"commit"`
	Engine      string  `json:"engine,omitempty"` // "embedded", or "" for the model
	From        uint64  `json:"from"`
	Seeds       int     `json:"seeds"`
	VirtualDays float64 `json:"virtual_days"`
	Calls       int     `json:"calls"`
	CPUHours    float64 `json:"cpu_hours"`
	Violations  int     `json:"violations"`
}

// appendRun appends a run to a file, unless the file already has a run with the same commit and
// first seed.
func appendRun(t *testing.T, file string, run seedRun) {
	t.Helper()
	known, err := os.ReadFile(file)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	name := fmt.Appendf(nil, `"commit":"%s","from":%d,`, run.Commit, run.From)
	if run.Engine != "" {
		name = fmt.Appendf(nil, `"commit":"%s","engine":"%s","from":%d,`, run.Commit, run.Engine, run.From)
	}
	if bytes.Contains(known, name) {
		t.Logf("%s has the run of %s from seed %d already", file, run.Commit, run.From)
		return
	}
	line, err := json.Marshal(run)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(append(known, line...), '\n'), 0o644))
}

// engineName returns the name of the engine of a run.
func engineName() string {
	if *embedded {
		return "embedded"
	}
	return ""
}

// today returns the day of a run.
func today() string { return time.Now().UTC().Format(time.DateOnly) }

func TestARunIsRecordedOnce(t *testing.T) {
	file := t.TempDir() + "/runs.jsonl"
	first := seedRun{Day: "2026-11-26", Commit: "65e4166", From: 7, Seeds: 300, VirtualDays: 12.5, Calls: 9, CPUHours: .25, Violations: 1}
	second := first
	second.From = 77
	third := second
	third.Engine = "embedded"
	for _, run := range []seedRun{first, first, second, third, first, third} {
		appendRun(t, file, run)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var runs []seedRun
	for line := range bytes.Lines(text) {
		var run seedRun
		require.NoError(t, json.Unmarshal(line, &run))
		runs = append(runs, run)
	}
	require.Equal(t, []seedRun{first, second, third}, runs)
}
