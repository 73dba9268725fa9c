package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/capacity"
)

// dated is a result and the day of its measurement.
type dated struct {
	Result
	day string
}

// newest returns the results of the newest full run and of later runs. For each row with a target it
// returns the newest result, in the order of the benchmarks.
func newest(t *testing.T, pattern string) (rows []dated) {
	t.Helper()
	files, err := filepath.Glob(pattern) // sorted by day
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var report Report
		require.NoErrorf(t, json.Unmarshal(text, &report), "%s", file)
		require.Equal(t, report.Date+".json", filepath.Base(file))
		if report.Full {
			require.Regexpf(t, `, commit [0-9a-f]{40}, `, report.Fanfare, "%s: run it in a clone without changes, so that it names its commit", file)
			rows = nil
		}
		for _, r := range report.Results {
			require.Containsf(t, IDs(), r.ID, "%s", file)
			rows = slices.DeleteFunc(rows, func(old dated) bool {
				return old.ID == r.ID && old.Name == r.Name && old.BaselineName == r.BaselineName
			})
			if r.Met != nil { // the page shows only rows with a target
				rows = append(rows, dated{r, report.Date})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b dated) int { return slices.Index(IDs(), a.ID) - slices.Index(IDs(), b.ID) })
	return rows
}

// worst returns one of the rows for each target: a row that misses the target, or else the row with the
// lowest ratio.
func worst(rows []dated) (shown []dated) {
	rank := func(r dated) (met int, ratio float64) {
		if *r.Met {
			met = 1
		}
		if r.Ratio != nil {
			ratio = *r.Ratio
		}
		return met, ratio
	}
	for _, r := range rows {
		at := slices.IndexFunc(shown, func(s dated) bool { return s.ID == r.ID && s.Target == r.Target })
		if at < 0 {
			shown = append(shown, r)
			continue
		}
		met, ratio := rank(r)
		shownMet, shownRatio := rank(shown[at])
		if cmp.Or(cmp.Compare(met, shownMet), cmp.Compare(ratio, shownRatio)) < 0 {
			shown[at] = r
		}
	}
	return shown
}

func TestThePageHasTheNewestResults(t *testing.T) {
	const page, begin, end = "../docs/PERFORMANCE.md", "<!-- results: cd bench && go test . -run TestThePage -update -->\n", "<!-- end of the results -->"
	var table strings.Builder
	table.WriteString("| id | what | value | baseline | ratio | target | day |\n|---|---|---|---|---|---|---|\n")
	for _, r := range worst(newest(t, "results/*.json")) {
		baseline, ratio, target := "", "", r.Target
		if r.Baseline != nil {
			baseline, ratio = capacity.Number(*r.Baseline)+", "+r.BaselineName, capacity.Number(*r.Ratio)
		}
		if !*r.Met {
			target = "**" + target + "**"
		}
		fmt.Fprintf(&table, "| %s | %s | %s %s | %s | %s | %s | %s |\n", r.ID, r.Name, capacity.Number(r.Value), r.Unit, baseline, ratio, target, r.day)
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	now, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o600))
		return
	}
	assert.Equal(t, table.String(), now, "write it: cd bench && go test . -run TestThePage -update")
}

// A full run replaces all rows of earlier runs. A later run of some benchmarks replaces only the rows of
// these benchmarks.
func TestAFullRunReplacesEveryRow(t *testing.T) {
	dir := t.TempDir()
	keep := func(day string, full bool, rows ...string) {
		report := Report{Date: day, Full: full, Fanfare: "fanfare v0.1.0, commit 0123456789abcdef0123456789abcdef01234567, go1.26"}
		for _, name := range rows {
			report.Results = append(report.Results, Result{ID: "T1", Name: name, Met: new(true)})
		}
		text, err := json.Marshal(report)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, day+".json"), text, 0o600))
	}
	keep("2026-01-01", false, "a", "b")
	keep("2026-01-02", true, "b", "c")
	keep("2026-01-03", false, "c")
	var got []string
	for _, row := range newest(t, filepath.Join(dir, "*.json")) {
		got = append(got, row.Name+" "+row.day)
	}
	assert.Equal(t, []string{"b 2026-01-02", "c 2026-01-03"}, got)
}
