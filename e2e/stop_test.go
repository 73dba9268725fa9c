package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestUpStoppedUnderLoadLosesNothing stops `fanfare up` by SIGTERM while a replay runs, and starts it
// again. The replay retries its calls and continues.
func TestUpStoppedUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	journal := filepath.Join(t.TempDir(), "journal")
	player := start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "40", "--posts", "200", "--likes", "1000",
		"--rate", "300", "--journal", journal)...)
	for _, at := range []int{500, 2500} { // first among the follows, then among posts and likes
		player.plays(t, journal, at)
		p.stop(t)
		p = u.start(t)
	}
	player.plays(t, journal, lines(t, journal)+10)
	player.ends(t)
	stdout, stderr, err := fanfare(t, u.env, u.replay("--check", journal)...)
	verdict(t, stdout, stderr, err)
	p.stop(t)
}

// plays waits until a replay has written a number of lines to its journal.
func (p *process) plays(t *testing.T, journal string, at int) {
	t.Helper()
	await(t, fmt.Sprintf("%d lines in the journal", at), func() bool {
		if !p.running() {
			t.Fatalf("the replay ended by itself after %d lines, before %d: %v\n%s", lines(t, journal), at, p.err, tail(p.log))
		}
		return lines(t, journal) >= at
	})
}

// ends waits until a replay has ended without an error.
func (p *process) ends(t *testing.T) {
	t.Helper()
	await(t, "the replay ends", func() bool { return !p.running() })
	if p.err != nil {
		t.Errorf("the replay ended with %v\n%s", p.err, tail(p.log))
	}
}
