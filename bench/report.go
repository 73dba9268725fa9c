package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"fanfare/internal/ops/capacity"
)

// WriteJSON prints the report as one JSON object.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if r.Results == nil {
		r.Results = []Result{}
	}
	return enc.Encode(r)
}

// WriteTable prints the report for people: the machine, one table, and then the cost and the method of
// each value.
func (r Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", r.Machine)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	row("id", "what", "value", "baseline", "ratio", "target", "met")
	for _, res := range r.Results {
		baseline, ratio := "-", "-"
		if res.Baseline != nil {
			baseline = fmt.Sprintf("%s (%s)", capacity.Number(*res.Baseline), res.BaselineName)
		}
		if res.Ratio != nil {
			ratio = capacity.Number(*res.Ratio)
		}
		met := "-"
		switch {
		case res.Met == nil:
		case *res.Met:
			met = "yes"
		default:
			met = "NO"
		}
		row(res.ID, res.Name, capacity.Number(res.Value)+" "+res.Unit, baseline, ratio, res.Target, met)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, res := range r.Results {
		for _, line := range res.details() {
			fmt.Fprintf(&text, "\n%s %s: %s", res.ID, res.Name, line)
		}
	}
	for _, problem := range r.Failed {
		fmt.Fprintf(&text, "\nnot measured: %s", problem)
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(text.String(), "\n"))
	return err
}

func (r Result) details() []string {
	var lines []string
	if r.Cost != nil {
		line := r.Cost.String()
		if r.BaselineCost != nil {
			line += "; baseline " + r.BaselineCost.String()
		}
		lines = append(lines, line)
	}
	if l := r.Latency; l != nil {
		lines = append(lines, fmt.Sprintf("p50 %s, p90 %s, p99 %s, max %s ms of %d",
			capacity.Number(l.P50), capacity.Number(l.P90), capacity.Number(l.P99), capacity.Number(l.Max), l.Count))
	}
	if r.Note != "" {
		lines = append(lines, r.Note)
	}
	return lines
}
