package sim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/planttest"
)

// refusedBugs returns planted bugs of two protocols, by model. With such a bug, the model refuses a
// line of 200 traces.
func refusedBugs() map[string][]string {
	return map[string][]string{
		"Kinds": {
			"no fence", "clean end noted of an incarnation that lost a window", "like left if the last try was refused, whatever came before",
			"flush left", "delta added twice after a lost answer", "flush past an unresolved put", "ack before flush", "lost-answer put counted twice",
			"change of kind that leaves the former one", "base without its kind", "kinds of a window flushed in two updates",
			"absence of an entry read as counted after a day", "unlike of a counted like expires", "unlike expires after an hour",
		},
		"Homes": {
			"mark removed before the backfill is done", "entries of a new follow removed", "mark walk without conditions",
			"pulled mark that keeps the ttl of its backfill", "backfill that does not look at the mode",
			"older posts pulled that come late", "backfill that ends the mark of a later follow", "pulled mark that stays after the pull",
		},
	}
}

// unaskedBugs returns the other planted bugs of the same files, by the reason why no model checks
// them.
func unaskedBugs() map[string][]string {
	return map[string][]string{
		"the aggregator panics, so the run writes no traces": {"overlapping windows of one post"},
		"the first 60 traces do not show it, or have not been followed with it": {
			"mark expires while entries remain", "mark not written on unfollow", "mark that hides entries expires with the merging",
			"unprocessed items dropped", "chunk skips the follower at its boundary", "planner that skips a page boundary",
			"followers read before the post is in the table", "follower page read with eventual consistency",
			"mark walk that hides older entries", "marks that end when an author leaves pull",
		},
		"a trace has no time": {
			"unlike that never expires", "unlike that expires by a clock in doubt", "aggregator goes on after a sleep of weeks", "mark that ends with its merging", "mode that changes without a rest",
		},
		"a trace has no days: from the first day of a reader on, its home may lack entries": {
			"fan-out that reckons with its own active days", "return that reads posts before it raises edges", "refresh that writes the presence first",
			"edge raised that does not exist", "edge lowered by a slow worker", "refresh that ends too late", "return that sets another day than it raised to",
			"return that forgets the gap", "edge with a day beside no presence", "raise that is not noted", "follow that heeds no raise", "reader never enrolled",
		},
		"the spec allows a fence at any time. It refuses seed 209 because a trace takes each put for answered: a put lost its answer, and a fence took its like over": {
			"fence at the first receive",
		},
		"a message that waits or is not sent is in no line": {
			"like never left", "nack that drops the rest of a batch", "walk not sent again by a post that finds it unfinished", "walk whose messages do not name it",
		},
		"a trace ends before a ledger is so long that a window prunes it": {
			"ledger entries of lost windows pruned", "ledger pruned as soon as its notes are read",
		},
		"the condition of an edge refuses the follow and the unfollow that come late":        {"late follow not stopped by the mark"},
		"an entry of a deleted post is no fault in the spec, in which homes read posts last": {"tombstone not checked before a page"},
		"no spec has the rule": {
			"like of an unknown post dropped", "all likes in the first shard", "like that came back left out of the index", "prune that saves no unit",
			"window that says nothing of its lag", "window twice as long", "like of a post with an end without its ttl",
			"like count of a post with an end without its ttl", "likes written one at a time", "likes acked but for the first if their events are not sent",
			"event of a like that an earlier attempt counted left out", "like of a former life counted out of a backlog",
			"reaction refused while its kind is switched off", "follow over a block", "chunk ledger counted twice", "count changed outside the transaction",
			"chunk that counts its away readers below zero", "delivery that says nothing of the away readers", "author whose mode changes at the limit",
			"marks written one at a time", "removal that removes nothing", "writes that stay narrow after a shortage",
			"byline of a new post not compared with the profile", "follow told by an id of the clock", "units of an unfollow not counted",
			"event with an id by a clock in doubt",
		},
	}
}

// ofTheModels reports whether an edit changes a file with a protocol of the models.
func ofTheModels(e edit) bool {
	return strings.HasPrefix(e.file, "internal/likeagg/") || slices.Contains([]string{
		"internal/fanout/walk.go", "internal/fanout/mode.go", "internal/fanout/backfill.go", "internal/fanout/chunk.go", "internal/fanout/plan.go",
		"internal/fanout/posts.go", "internal/fanout/write.go", "internal/fanout/removal.go", "internal/fanout/away.go",
		"internal/feed/follows.go", "internal/feed/unfollows.go",
	}, e.file)
}

// TestTheModelsRefusePlantedBugs finds each planted bug of the protocols in one of the lists above.
// With -planted it checks traces of the product with each bug that a model has to refuse.
func TestTheModelsRefusePlantedBugs(t *testing.T) {
	root, left, model := planttest.Root(t), []string{}, map[string]string{}
	for _, bugs := range unaskedBugs() {
		left = append(left, bugs...)
	}
	for name, bugs := range refusedBugs() {
		for _, bug := range bugs {
			left, model[bug] = append(left, bug), name
		}
	}
	for _, b := range bugs() {
		named := slices.Contains(left, b.name)
		left = slices.DeleteFunc(left, func(name string) bool { return name == b.name })
		if !named && slices.ContainsFunc(b.edits, ofTheModels) {
			t.Errorf("%s: name it among the bugs that a model refuses, or say why no trace shows it", b.name)
		}
		if *planted && model[b.name] != "" && (*onlyBug == "" || *onlyBug == b.name) {
			fmt.Printf("%-60s %s\n", b.name, refusedLine(t, root, model[b.name], b))
		}
	}
	assert.Empty(t, left, "no planted bug has this name")
}

// refusedLine returns the line that a model refuses in a trace of the product with a bug.
func refusedLine(t *testing.T, root, model string, b bug) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sim.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", b.overlay(t, root), "-o", binary, "./internal/sim")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	follow := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "spec.sh"), "traces", fmt.Sprint(*traceCount), fmt.Sprint(*from), binary)
	follow.Env = append(os.Environ(), "MODELS="+model)
	out, err = follow.CombinedOutput()
	_, line, refused := strings.Cut(string(out), "refused: ")
	line, _, _ = strings.Cut(line, "\n")
	assert.Truef(t, err != nil && refused, "%s: the spec refuses no trace: %s", b.name, out)
	return line
}
