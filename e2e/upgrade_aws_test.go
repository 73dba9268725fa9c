//go:build e2e && upgrade

package e2e

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// allUpgrades plays every order, with kills. Without it one order is played, with stops.
var allUpgrades = flag.Bool("all-upgrades", false, "upgrade in every order of the daemons, and kill them")

// upgrade is one way from the former release to this release, and back.
type upgrade struct {
	there, back []string // kinds of daemons, in the order of their replacement
	workers     int      // of each kind except api
	users       int
	kill        bool
}

// upgrades returns the orders to play. The first order is the order in docs/OPERATIONS.md.
func upgrades() []upgrade {
	first := upgrade{
		there: []string{"fanout", "likeagg", "api"}, back: []string{"api", "likeagg", "fanout"},
		workers: 1, users: 10,
	}
	if !*allUpgrades {
		return []upgrade{first}
	}
	var all []upgrade
	for _, order := range [][]string{
		first.there, {"likeagg", "fanout", "api"}, {"fanout", "api", "likeagg"},
		{"likeagg", "api", "fanout"}, {"api", "fanout", "likeagg"}, {"api", "likeagg", "fanout"},
	} {
		back := slices.Clone(order)
		slices.Reverse(back)
		all = append(all, upgrade{there: order, back: back, workers: 2, users: 20, kill: true})
	}
	return all
}

// TestDaemonsOfTwoVersionsWorkTogether replaces the daemons of the former release by daemons of this version, one
// after another, in the middle of a replay. Then it installs the former release again. Old and new daemons work on
// one table and its queues at the same time.
func TestDaemonsOfTwoVersionsWorkTogether(t *testing.T) {
	t.Parallel()
	for _, way := range upgrades() {
		t.Run(strings.Join(way.there, " "), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			c := emptyCluster(t)
			kinds := append([]string{ofFormer(t, "api")}, slices.Concat(
				slices.Repeat([]string{ofFormer(t, "fanout")}, way.workers), slices.Repeat([]string{ofFormer(t, "likeagg")}, way.workers))...)
			c.add(t, nil, kinds...)
			journal := filepath.Join(t.TempDir(), "journal")
			// The replay has more work than it can finish before the test kills it.
			player := start(t, c.env, "fanfare", c.replay("--graph", graph, "--max-users", fmt.Sprint(way.users),
				"--posts", fmt.Sprint(10*way.users), "--likes", fmt.Sprint(8*way.users*way.users), "--rate", "10", "--journal", journal)...)
			player.plays(t, journal, 10*way.users) // the replay is among the follows
			exchanged := 0
			exchange := func(kind, program string) {
				for _, m := range c.members {
					if filepath.Base(m.kind) != kind {
						continue
					}
					player.plays(t, journal, lines(t, journal)+20)
					if way.kill && exchanged%2 == 0 || kind == "api" { // an api holds no messages
						m.kill(t)
					} else {
						m.stop(t)
					}
					m.kind = program
					m.start(t)
					m.ready(t, m.admin)
					exchanged++
				}
			}
			for _, kind := range way.there {
				exchange(kind, kind)
			}
			for _, kind := range way.back {
				exchange(kind, ofFormer(t, kind))
			}
			player.plays(t, journal, lines(t, journal)+20)
			player.kill(t)
			stdout, stderr, err := fanfare(t, c.env, c.replay("--check", journal)...)
			r := verdict(t, stdout, stderr, err)
			assert.Zero(t, c.deadLetters(t))
			t.Logf("%v and back: %d exchanges, %d posts, %d likes, %d deliveries, %d lost, %v",
				way.there, exchanged, r.Posts, r.Likes, r.Delivered, r.Missing, time.Since(began).Round(time.Second))
			c.stop(t)
		})
	}
}
