package main

import (
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
	assert.Regexp(t, toy+` +5 +3 +60\.0 % +20\.0 %`, out)
}

// A mutant that the compiler refuses says nothing of the tests.
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
	require.Len(t, a, 4)
	assert.Equal(t, a, again)
	assert.NotEqual(t, a, b)
	assert.Subset(t, all, b)
}

// The text of an equivalent that rots would hide a mutant.
func TestTheNamedEquivalentsFitTheProduct(t *testing.T) {
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
}

// A mutant may wait for ever, or go on for ever. The load of the machine decides neither.
func TestAProgramThatHangsIsEnded(t *testing.T) {
	r := runner{idle: time.Minute}
	_, used, err := r.run(t.Context(), suite{binary: "sh"}, 0, time.Second, "-c", "while :; do :; done")
	require.ErrorIs(t, err, errHangs)
	assert.Positive(t, used) // how much of the second is counted is up to the machine
	r.idle = 100 * time.Millisecond
	_, _, err = r.run(t.Context(), suite{binary: "sleep"}, 0, time.Minute, "600")
	require.ErrorIs(t, err, errHangs)
	r.idle = time.Minute
	_, _, err = r.run(t.Context(), suite{binary: "true"}, 0, time.Minute)
	require.NoError(t, err)
}
