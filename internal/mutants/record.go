package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// recorded is a line of scores.jsonl: the last draw of a package. The seed and the number of drawn
// mutants select the same mutants again if the source has not changed.
type recorded struct {
	Package    string   `json:"package"`
	Day        string   `json:"day"`
	Seed       string   `json:"seed"`
	Drawn      int      `json:"drawn"`
	Equivalent int      `json:"equivalent"`
	Killed     int      `json:"killed"`
	Survivors  []string `json:"survivors"`
}

// record writes the scores of this run into a file. They replace the previous scores of the same
// packages.
func (j *judge) record(file string) error {
	lines := map[string]recorded{}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range bytes.Lines(text) {
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		lines[r.Package] = r
	}
	for folder, sc := range j.tallies {
		r := recorded{
			Package: folder, Day: time.Now().UTC().Format(time.DateOnly), Seed: j.seed,
			Drawn: sc.mutants + sc.equivalent, Equivalent: sc.equivalent, Killed: sc.killed, Survivors: []string{},
		}
		for _, m := range slices.Sorted(slices.Values(j.survivors)) {
			if strings.HasPrefix(m, folder+"/") {
				r.Survivors = append(r.Survivors, m)
			}
		}
		lines[folder] = r
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, folder := range slices.Sorted(maps.Keys(lines)) {
		if err := enc.Encode(lines[folder]); err != nil {
			return err
		}
	}
	return os.WriteFile(file, out.Bytes(), 0o644) //nolint:gosec // the file belongs to the repository
}
