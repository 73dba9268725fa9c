package e2e

import (
	"fanfare/internal/porttest"
	"fanfare/internal/stormtest"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

// upright is a `fanfare up` that a test can start again with the same addresses and data.
type upright struct {
	http, admin, data string
	env               []string
}

func newUp(t *testing.T) *upright {
	t.Helper()
	return &upright{
		http: porttest.Free(t), admin: porttest.Free(t), data: filepath.Join(t.TempDir(), "data"),
		env: environment("FANFARE_LOG_LEVEL=warn"),
	}
}

func (u *upright) start(t *testing.T) *process {
	t.Helper()
	p := start(t, u.env, "fanfare", "up", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
	p.ready(t, u.admin)
	return p
}

// replay returns the arguments of a replay against this server.
func (u *upright) replay(more ...string) []string {
	return append([]string{"replay", "--json", "--target", "http://" + u.http, "--admin", u.admin}, more...)
}

func TestUpDeliversARealGraphExactly(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	stdout, stderr, err := fanfare(t, u.env, u.replay("--graph", graph, "--max-users", "100", "--posts", "200", "--likes", "1000", "--away", "0.4", "--rebuilt-after", "0s")...)
	r := verdict(t, stdout, stderr, err)
	if r.Users != 100 || r.Posts != 200 || r.Likes != 1000 || r.WCUPerDelivery == nil || r.WCUPerLike == nil || r.Away != 40 || r.Skipped == nil || *r.Skipped == 0 {
		t.Errorf("report %s", stdout)
	}
	// After an orderly stop, a new process has all data.
	p.stop(t)
	p = u.start(t)
	journal := filepath.Join(t.TempDir(), "journal")
	stdout, stderr, err = fanfare(t, u.env, u.replay("--graph", graph, "--max-users", "20", "--posts", "20", "--likes", "50", "--journal", journal)...)
	verdict(t, stdout, stderr, err)
	p.stop(t)
	p = u.start(t)
	stdout, stderr, err = fanfare(t, u.env, u.replay("--check", journal)...)
	if r := verdict(t, stdout, stderr, err); r.Posts != 20 || r.Likes != 50 {
		t.Errorf("checked %s", stdout)
	}
	p.stop(t)
}

func TestASecondProcessOnTheDataDirectoryRefusesToStart(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	_, stderr, err := fanfare(t, u.env, "up", "--data-dir", u.data, "--http", porttest.Free(t), "--admin", porttest.Free(t))
	assert.Equal(t, 1, code(err))
	assert.NotEmpty(t, stderr)
	p.stop(t)
}

// TestCrashOfUpLosesNothing kills `fanfare up` in the middle of a replay. In every other round it kills
// the replay, too. In the rounds between, the replay retries its calls and continues.
func TestCrashOfUpLosesNothing(t *testing.T) {
	t.Parallel()
	for round := range stormtest.Runs(*crashRounds) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(round), 1))
			u := newUp(t)
			p := u.start(t)
			journal := filepath.Join(t.TempDir(), "journal")
			player := start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "60", "--posts", "300", "--likes", "1500",
				"--rate", "600", "--journal", journal, "--seed", fmt.Sprint(round))...)
			// A call has two lines. 60 profiles and some 2,000 follows precede the posts.
			player.plays(t, journal, 100+random.IntN(6500))
			p.kill(t)
			if round%2 == 1 {
				player.kill(t)
			}
			p = u.start(t)
			if round%2 == 0 {
				player.ends(t)
			}
			stdout, stderr, err := fanfare(t, u.env, u.replay("--check", journal)...)
			verdict(t, stdout, stderr, err)
			p.stop(t)
		})
	}
}
