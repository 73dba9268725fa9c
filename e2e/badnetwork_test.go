//go:build e2e && slow

package e2e

import (
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// networkRounds is the number of rounds of the network test. A round has all faults.
var networkRounds = flag.Int("network-rounds", 1, "rounds of the network test")

// TestABadNetworkLosesNothing puts every fault between all daemons and AWS while a replay runs, one fault
// after another. The round determines the order and the directions. The network loses replies after their
// effect, requests before their effect, and messages together with their replies.
func TestABadNetworkLosesNothing(t *testing.T) {
	t.Parallel()
	n := newBadNetwork(t)
	c := newCluster(t, n.environment()...)
	for round := range *networkRounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			random := mathrand.New(mathrand.NewPCG(uint64(round), 3))
			journal := filepath.Join(t.TempDir(), "journal")
			player := start(t, c.env, "fanfare", c.replay("--graph", graph, "--max-users", "40", "--posts", "60", "--likes", "240",
				"--rate", "15", "--journal", journal, "--seed", fmt.Sprint(round))...)
			all := faults()
			for _, i := range random.Perm(len(all)) {
				// Some calls succeed before each fault.
				player.plays(t, journal, lines(t, journal)+100+random.IntN(100))
				direction := []string{"upstream", "downstream"}[random.IntN(2)]
				t.Logf("%s %s after %d lines", direction, all[i].kind, lines(t, journal))
				n.begin(t, all[i], direction)
				if all[i].cuts {
					await(t, "the api notices", func() bool { return c.members[0].readiness(t) == http.StatusServiceUnavailable })
				}
				for last := time.After(3 * time.Second); last != nil; {
					select {
					case <-last:
						last = nil
					case <-player.exited:
						t.Fatalf("the replay ended within a fault: %v\n%s", player.err, tail(player.log))
					}
				}
				n.end(t)
			}
			await(t, "the replay ends", func() bool { return !player.running() })
			if player.err != nil { // a call without an answer may have had its effect
				t.Logf("the replay ended with %v\n%s", player.err, tail(player.log))
			}
			stdout, stderr, err := fanfare(t, c.env, c.replay("--check", journal)...)
			verdict(t, stdout, stderr, err)
		})
	}
	c.stop(t)
}
