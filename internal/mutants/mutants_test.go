package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const toy = "internal/mutants/testdata/toy"

// toys measures the toy package and returns the output.
func toys(t *testing.T, equivalent string, change func(o *options)) (string, error) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	o := options{
		root: root, equivalent: filepath.Join(t.TempDir(), "equivalent.txt"), simulation: toy, packages: map[string]part{toy: {alone: true}},
		seed: "a", seeds: 2, jobs: 2, slack: 3 * time.Second, idle: time.Minute, match: regexp.MustCompile(""),
	}
	require.NoError(t, os.WriteFile(o.equivalent, []byte(equivalent), 0o600))
	change(&o)
	var out strings.Builder
	err = measure(t.Context(), o, &out)
	return out.String(), err
}

func TestMutantsAreKilledOrSurvive(t *testing.T) {
	out, err := toys(t, "", func(o *options) { o.match = regexp.MustCompile("age >|sum -=|for|n--") })
	require.ErrorContains(t, err, "the target is 95 %", "survivors fail the run")
	for _, line := range []string{
		"killed " + toy + "/toy.go:7: Grown: age >= 18 => !(age >= 18) | tests: --- FAIL: TestGrown",
		"SURVIVES " + toy + "/toy.go:7: Grown: age >= 18 => age > 18\n",
		"SURVIVES " + toy + "/toy.go:7: Grown: age >= 18 => age >= 18+1\n",
		"killed " + toy + "/toy.go:17: Price: sum -= 5 => sum += 5 |  | simulation: --- FAIL: TestSeeds",
		"killed " + toy + "/toy.go:27: Cheers: n-- => n++ | tests: hangs",
	} {
		assert.Contains(t, out, line)
	}
	assert.Regexp(t, toy+` +5 +0 +3 +60\.0 % +20\.0 %`, out)
}

// A mutant that the compiler refuses proves nothing about the tests.
func TestMutantsThatDoNotCompileAreLeftOut(t *testing.T) {
	out, err := toys(t, "", func(o *options) { o.list = true })
	require.NoError(t, err)
	assert.Contains(t, out, "Price: n * 3 => n / 3\n")
	assert.NotContains(t, out, "all -= ")
}

func TestEquivalentMutantsAreSubtractedWhileTheyFitTheCode(t *testing.T) {
	const key = toy + "/toy.go: Grown: age >= 18 => age > 18"
	out, err := toys(t, "# a comment\n\n"+key+"\n\tNobody is 18.\n", func(o *options) { o.list = true })
	require.NoError(t, err)
	assert.NotContains(t, out, "age > 18\n")
	out, _ = toys(t, key+"\n\tNobody is 18.\n", func(o *options) { o.only, o.match = "tests", regexp.MustCompile("age >") })
	assert.Regexp(t, toy+` +3 +1 +1 +50\.0 %`, out, "the equivalent one is drawn and not judged")
	_, err = toys(t, key+"\n", func(o *options) { o.list = true })
	require.ErrorContains(t, err, "no reason")
	_, err = toys(t, toy+"/toy.go: Grown: age < 18 => age > 18\n\tGone.\n", func(o *options) { o.list = true })
	require.ErrorContains(t, err, "rename or remove")
}

func TestASampleIsDecidedByItsSeed(t *testing.T) {
	draw := func(seed string, n int) []string {
		out, err := toys(t, "", func(o *options) { o.list, o.seed, o.sample = true, seed, n })
		require.NoError(t, err)
		return slices.Collect(strings.Lines(out))
	}
	all := draw("a", 0)
	a, again, b := draw("a", 4), draw("a", 4), draw("b", 4)
	rest, err := toys(t, keyOf(a[0])+"\n\tIt is only named.\n", func(o *options) { o.list, o.seed, o.sample = true, "a", 4 })
	require.NoError(t, err)
	assert.Equal(t, strings.Join(a[1:], ""), rest, "an equivalent that is found later changes nothing else")
	require.Len(t, a, 4)
	assert.Equal(t, a, again)
	assert.NotEqual(t, a, b)
	assert.Subset(t, all, b)
}

// keyOf returns the key of the mutant in a printed line. A key has no line number.
func keyOf(line string) string {
	return regexp.MustCompile(`\.go:\d+:`).ReplaceAllString(strings.TrimSpace(line), ".go:")
}

// A planted bug is not part of a draw. A run fails if no test finds the bug, whatever the score is.
func TestPlantedBugsAreAlwaysJudged(t *testing.T) {
	bugs := []bug{
		{"a low price", toy + "/toy.go", "n * 3", "n * 2"},
		{"an age of four", toy + "/toy.go", "age >= 18", "age >= 4"},
		{"an age of thirty", toy + "/toy.go", "age >= 18", "age >= 30"},
	}
	out, err := toys(t, "", func(o *options) { o.bugs, o.sample, o.slack = bugs, 1, time.Second })
	require.ErrorContains(t, err, "1 planted bugs survive")
	for _, line := range []string{
		"killed " + toy + "/toy.go:15: planted: a low price |  | simulation: --- FAIL: TestSeeds",
		"killed " + toy + "/toy.go:7: planted: an age of four | tests: --- FAIL: TestGrown",
		"SURVIVES " + toy + "/toy.go:7: planted: an age of thirty\n",
	} {
		assert.Contains(t, out, line)
	}
	assert.Regexp(t, toy+` +1 +0 +`, out, "one mutant is drawn")
	for _, rotten := range []bug{{"gone", toy + "/toy.go", "n * 7", ""}, {"twice", toy + "/toy.go", "return", ""}, {"refused", toy + "/toy.go", "n * 3", "n * x"}, {"no function", toy + "/toy.go", "package toy", "package  toy"}} {
		_, err := toys(t, "", func(o *options) { o.list, o.bugs = true, []bug{rotten} })
		require.ErrorContains(t, err, "planted: "+rotten.name)
	}
}

// The file has the last scores of each package.
func TestScoresReplaceTheFormerOnesOfTheirPackage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scores.jsonl")
	other := `{"package":"internal/other","day":"2026-01-02","seed":"b","drawn":1,"equivalent":0,"killed":1,"survivors":[]}` + "\n"
	require.NoError(t, os.WriteFile(file, []byte(other), 0o600))
	j := judge{options: options{seed: "1"}, tallies: map[string]*score{toy: {equivalent: 1, mutants: 3, killed: 1}}, survivors: []string{toy + "/toy.go:7: b", toy + "/toy.go:7: a > b", "internal/other/x.go:1: c"}}
	for _, j.seed = range []string{"1", "2"} {
		require.NoError(t, j.record(file))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf(`{"package":"%[1]s","day":"%[2]s","seed":"2","drawn":4,"equivalent":1,"killed":1,"survivors":["%[1]s/toy.go:7: a > b","%[1]s/toy.go:7: b"]}`+"\n"+other,
		toy, time.Now().UTC().Format(time.DateOnly)), string(text))
}

// The numbers of each recorded draw are consistent, and each package outside the core reaches its target.
func TestTheRecordedScoresReachTheirTargets(t *testing.T) {
	text, err := os.ReadFile("scores.jsonl")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var r recorded
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		assert.Contains(t, product(), r.Package)
		assert.Equal(t, r.Drawn, r.Equivalent+r.Killed+len(r.Survivors), line)
		assert.GreaterOrEqual(t, r.Killed*100, targetRim*(r.Drawn-r.Equivalent), line)
	}
}

// A run of the simulation cannot see a package that it does not link.
func TestLinkedPackagesAreKnown(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	linked, err := links(t.Context(), root, "internal/sim")
	require.NoError(t, err)
	assert.True(t, linked["internal/feed"] && linked["internal/sim"])
	assert.False(t, linked["internal/mutants"])
}

// An equivalent or a planted bug whose text no longer fits the source would hide a mutant.
func TestTheNamedEquivalentsAndPlantedBugsFitTheProduct(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	named, err := equivalents("equivalent.txt")
	require.NoError(t, err)
	sources := map[string]*source{}
	for folder := range product() {
		sources[folder], err = read(t.Context(), root, folder, nil)
		require.NoError(t, err)
	}
	require.NoError(t, fit(sources, named))
	found, err := plant(sources, planted(), regexp.MustCompile(""))
	require.NoError(t, err)
	assert.Len(t, found, len(planted()))
}

// A mutant may wait or run forever. The load of the machine must not decide whether a mutant hangs.
func TestAProgramThatHangsIsEnded(t *testing.T) {
	r := runner{idle: time.Minute}
	_, used, err := r.run(t.Context(), suite{binary: "sh"}, 0, time.Second, "-c", "while :; do :; done")
	require.ErrorIs(t, err, errHangs)
	assert.Positive(t, used) // the machine decides how much of the second is counted
	r.idle = 100 * time.Millisecond
	_, _, err = r.run(t.Context(), suite{binary: "sleep"}, 0, time.Minute, "600")
	require.ErrorIs(t, err, errHangs)
	r.idle = time.Minute
	_, _, err = r.run(t.Context(), suite{binary: "true"}, 0, time.Minute)
	require.NoError(t, err)
}
