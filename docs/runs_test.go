package docs

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the sum of the runs in BUGS.md")

// seedRun is a run of the simulation, in the form in which internal/sim records it.
type seedRun struct {
	Day         string  `json:"day"`
	Commit      string  `json:"commit"`
	Engine      string  `json:"engine,omitempty"`
	From        uint64  `json:"from"`
	Seeds       int     `json:"seeds"`
	VirtualDays float64 `json:"virtual_days"`
	Calls       int     `json:"calls"`
	CPUHours    float64 `json:"cpu_hours"`
	Violations  int     `json:"violations"`
}

// runsLine matches the line in BUGS.md with the sum of all runs.
var runsLine = regexp.MustCompile(`(?m)^\d.* seeds in .*$`)

// The lines of the record are complete and sorted by day, and each line names a commit of the history.
// BUGS.md has the sum of the runs.
func TestTheRecordOfRunsIsSound(t *testing.T) {
	text, err := os.ReadFile("../internal/sim/runs.jsonl")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(text), "}\n"))
	var sum seedRun
	known, met := history(t), map[string]bool{}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, line := range lines {
		run := readRun(t, line)
		assert.LessOrEqual(t, sum.Day, run.Day, "the days ascend")
		assert.Truef(t, known(run.Commit), "no commit %s: %s", run.Commit, line)
		name := fmt.Sprint(run.Commit, " ", run.Engine, run.From)
		assert.Falsef(t, met[name], "%s stands twice", name)
		met[name] = true
		sum.Day, sum.Seeds, sum.Calls = run.Day, sum.Seeds+run.Seeds, sum.Calls+run.Calls
		sum.VirtualDays, sum.CPUHours, sum.Violations = sum.VirtualDays+run.VirtualDays, sum.CPUHours+run.CPUHours, sum.Violations+run.Violations
	}
	want := fmt.Sprintf("%d seeds in %d runs: %.0f virtual days, %d calls of ports, %.2f CPU-hours, %d violations. The last run is of %s.",
		sum.Seeds, len(lines), sum.VirtualDays, sum.Calls, sum.CPUHours, sum.Violations, sum.Day)
	page, err := os.ReadFile("BUGS.md")
	require.NoError(t, err)
	if *update {
		page = runsLine.ReplaceAllLiteral(page, []byte(want))
		require.NoError(t, os.WriteFile("BUGS.md", page, 0o644))
	}
	assert.Equal(t, want, string(runsLine.Find(page)), "run go test ./docs -run RecordOfRuns -update")
}

// readRun reads a line of the record.
func readRun(t *testing.T, line string) (run seedRun) {
	t.Helper()
	strict := json.NewDecoder(strings.NewReader(line))
	strict.DisallowUnknownFields()
	require.NoError(t, strict.Decode(&run), line)
	require.False(t, strict.More(), line)
	_, err := time.Parse(time.DateOnly, run.Day)
	require.NoError(t, err)
	assert.Truef(t, run.Seeds > 0 && run.VirtualDays > 0 && run.Calls > run.Seeds && run.CPUHours > 0 && run.Violations >= 0, "an empty run: %s", line)
	assert.Regexp(t, `^[0-9a-f]{12}$`, run.Commit)
	return run
}
