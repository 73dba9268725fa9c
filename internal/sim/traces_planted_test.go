package sim

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/planttest"
)

// refusedBugs are planted bugs of the aggregator. For each of them spec/Kinds.tla refuses a line of 200 traces.
func refusedBugs() []string {
	return []string{
		"no fence", "clean end noted of an incarnation that lost a window", "like left if the last try was refused, whatever came before",
		"flush left", "delta added twice after a lost answer", "flush past an unresolved put", "ack before flush", "lost-answer put counted twice",
		"change of kind that leaves the former one", "base without its kind", "kinds of a window flushed in two updates",
		"absence of an entry read as counted after a day", "unlike of a counted like expires", "unlike expires after an hour",
	}
}

// unaskedBugs are the other planted bugs of the aggregator, by the reason why no check asks the spec about them.
func unaskedBugs() map[string][]string {
	return map[string][]string{
		"the aggregator panics, so the run writes no traces": {"overlapping windows of one post"},
		"a trace has no time":                                {"unlike that never expires", "unlike that expires by a clock in doubt", "aggregator goes on after a sleep of weeks"},
		"the spec allows a fence at any time, and yet refuses a note after such a fence: nobody knows why": {"fence at the first receive"},
		"a message that waits is in no line": {"like never left", "nack that drops the rest of a batch"},
		"a trace ends before a ledger is so long that a window prunes it": {
			"ledger entries of lost windows pruned", "ledger pruned as soon as its notes are read",
		},
		"no spec has the rule": {
			"like of an unknown post dropped", "all likes in the first shard", "like that came back left out of the index", "prune that saves no unit",
			"window that says nothing of its lag", "window twice as long", "like of a post with an end without its ttl",
			"like count of a post with an end without its ttl", "likes written one at a time", "likes acked but for the first if their events are not sent",
			"event of a like that an earlier attempt counted left out", "like of a former life counted out of a backlog",
			"reaction refused while its kind is switched off",
		},
	}
}

// TestTheSpecRefusesPlantedBugs finds each planted bug of the aggregator in one of the lists above. With -planted it
// follows traces of the product with each bug that the spec has to refuse.
func TestTheSpecRefusesPlantedBugs(t *testing.T) {
	root, left := planttest.Root(t), refusedBugs()
	for _, bugs := range unaskedBugs() {
		left = append(left, bugs...)
	}
	for _, b := range bugs() {
		named := slices.Contains(left, b.name)
		left = slices.DeleteFunc(left, func(name string) bool { return name == b.name })
		if !named && slices.ContainsFunc(b.edits, func(e edit) bool { return strings.HasPrefix(e.file, "internal/likeagg/") }) {
			t.Errorf("%s: name it among the bugs that the spec refuses, or say why no trace shows it", b.name)
		}
		if *planted && slices.Contains(refusedBugs(), b.name) && (*onlyBug == "" || *onlyBug == b.name) {
			fmt.Printf("%-60s %s\n", b.name, refusedLine(t, root, b))
		}
	}
	assert.Empty(t, left, "no planted bug has this name")
}

// refusedLine returns the line that the spec refuses in a trace of the product with a bug.
func refusedLine(t *testing.T, root string, b bug) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sim.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", b.overlay(t, root), "-o", binary, "./internal/sim")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	follow := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "spec.sh"), "traces", fmt.Sprint(*traceCount), fmt.Sprint(*from), binary)
	out, err = follow.CombinedOutput()
	_, line, refused := strings.Cut(string(out), "refused: ")
	line, _, _ = strings.Cut(line, "\n")
	assert.Truef(t, err != nil && refused, "%s: the spec refuses no trace: %s", b.name, out)
	return line
}
